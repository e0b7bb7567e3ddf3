//! The history of a tool: every event about it, and every upgrade of the predicate that it had at the time.

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};

use super::fold::kind;
use crate::model::{At, ToolKey};
use crate::{Error, Index};

/// The maximum number of events on one page.
pub const MAX_EVENTS: usize = 1_000;

/// An event in the history of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEvent {
    /// Its position in the chain.
    pub place: EventPlace,
    /// Its block and time.
    pub at: At,
    /// The hash of the block.
    pub block_hash: B256,
    /// The transaction.
    pub transaction: B256,
    /// What happened.
    pub what: EventKind,
}

/// The position of an event in its chain. It serves as a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPlace {
    /// The number of the block.
    pub block: u64,
    /// The index of the log in the block.
    pub log_index: u64,
}

/// What happened to a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// It was registered.
    Registered {
        /// Its creator.
        creator: Address,
        /// Its access predicate; `None` for open access.
        predicate: Option<Address>,
        /// The URI of its manifest. Untrusted text.
        metadata_uri: String,
        /// The hash of its manifest.
        manifest_hash: B256,
    },
    /// Its URI or hash changed.
    MetadataUpdated {
        /// The new URI. Untrusted text.
        metadata_uri: String,
        /// The new hash.
        manifest_hash: B256,
    },
    /// Its predicate changed.
    PredicateUpdated {
        /// The new predicate; `None` for open access.
        predicate: Option<Address>,
    },
    /// It was deregistered, which is final.
    Deregistered,
    /// The code behind its predicate changed.
    Upgraded {
        /// The predicate.
        predicate: Address,
        /// The new implementation contract.
        implementation: Address,
    },
}

impl EventKind {
    /// Returns the name of the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Registered { .. } => "registered",
            Self::MetadataUpdated { .. } => "metadata_updated",
            Self::PredicateUpdated { .. } => "predicate_updated",
            Self::Deregistered => "deregistered",
            Self::Upgraded { .. } => "predicate_upgraded",
        }
    }
}

row! {
    struct EventRow<'r> {
        block_number: u64,
        log_index: u64,
        time: UnixTime,
        block_hash: B256,
        tx: B256,
        kind: i64,
        creator: Option<Address>,
        predicate: Option<Address>,
        uri: Option<&'r str>,
        hash: Option<B256>,
        implementation: Option<Address>,
    }
}

/// The tool's own events, and the upgrades of the predicate that the last of them before the upgrade left it with. There are few upgrades,
/// and they lie together in the index under the empty tool.
const EVENTS: &str = sql!(
    "SELECT ",
    EventRow::COLUMNS,
    " FROM (SELECT * FROM index_event WHERE registry = $1 AND tool = $2 AND (block_number, log_index) > ($4, $5)
        ORDER BY block_number, log_index LIMIT $6) own
    UNION ALL SELECT ",
    EventRow::COLUMNS,
    " FROM index_event u
    WHERE u.registry = $1 AND u.tool = $3 AND (u.block_number, u.log_index) > ($4, $5) AND u.predicate =
        (SELECT e.predicate FROM index_event e WHERE e.registry = $1 AND e.tool = $2 AND e.kind IN (1, 3)
            AND (e.block_number, e.log_index) < (u.block_number, u.log_index)
            ORDER BY e.block_number DESC, e.log_index DESC LIMIT 1)
    ORDER BY 1, 2 LIMIT $6"
);

impl Index {
    /// Returns the history of a tool after a position, oldest first, at most `limit` events.
    pub async fn events(&self, key: ToolKey, after: Option<EventPlace>, limit: usize) -> Result<Vec<ToolEvent>, Error> {
        let limit = limit.clamp(1, MAX_EVENTS);
        let corrupt = |_| Error::Corrupt { what: "place of an event" };
        let (block, log_index) = match after {
            Some(place) => (i64::try_from(place.block).map_err(corrupt)?, i64::try_from(place.log_index).map_err(corrupt)?),
            None => (-1, -1),
        };
        let id = key.id_bytes();
        let values = [
            Value::Integer(key.registry.0),
            Value::Bytes(&id),
            Value::Bytes(&[]),
            Value::Integer(block),
            Value::Integer(log_index),
            Value::Integer(limit as i64),
        ];
        let rows = self.database().fetch(EVENTS, &values).await?;
        EventRow::from_rows(&rows).map(|row| read(&row?)).collect()
    }
}

fn read(row: &EventRow<'_>) -> Result<ToolEvent, Error> {
    let corrupt = || Error::Corrupt { what: "event" };
    let place = EventPlace { block: row.block_number, log_index: row.log_index };
    let (predicate, manifest) = (row.predicate, row.hash);
    let uri = || row.uri.map(str::to_owned).ok_or_else(corrupt);
    let what = match row.kind {
        kind::REGISTERED => EventKind::Registered {
            creator: row.creator.ok_or_else(corrupt)?,
            predicate,
            metadata_uri: uri()?,
            manifest_hash: manifest.ok_or_else(corrupt)?,
        },
        kind::METADATA => EventKind::MetadataUpdated { metadata_uri: uri()?, manifest_hash: manifest.ok_or_else(corrupt)? },
        kind::PREDICATE => EventKind::PredicateUpdated { predicate },
        kind::DEREGISTERED => EventKind::Deregistered,
        kind::UPGRADED => EventKind::Upgraded {
            predicate: predicate.ok_or_else(corrupt)?,
            implementation: row.implementation.ok_or_else(corrupt)?,
        },
        _ => return Err(corrupt()),
    };
    Ok(ToolEvent { place, at: At { block: place.block, time: row.time }, block_hash: row.block_hash, transaction: row.tx, what })
}
