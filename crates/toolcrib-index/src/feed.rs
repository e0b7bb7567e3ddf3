//! The change feed: which tools changed, in the order in which the changes were committed.
//!
//! Whoever changes a tool records it in the same transaction, as the last thing before the commit. The number comes from one row that stays
//! locked until then, so numbers are committed in their order and without gaps: a reader that has seen number 7 will never be surprised by
//! a 6. Readers keep a cursor and poll.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{Bulk, Column, Transaction, Value};

use crate::model::ToolKey;
use crate::{Error, Index};

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_feed (id BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL);
    INSERT INTO index_feed (id, last) VALUES (1, 0);
    CREATE TABLE index_change (seq BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, registry BIGINT NOT NULL, tool BYTES NOT NULL,
        kinds BIGINT NOT NULL) WITHOUT ROWID;",
}];

/// What changed, several at once: one change stands for everything that a transaction did to a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(i64);

impl Kinds {
    /// It was registered.
    pub const REGISTERED: Self = Self(1);
    /// Its URI or hash changed.
    pub const METADATA: Self = Self(2);
    /// Its predicate changed.
    pub const PREDICATE: Self = Self(4);
    /// It was deregistered.
    pub const DEREGISTERED: Self = Self(8);
    /// The chain took something back.
    pub const REORGANISED: Self = Self(16);
    /// The code behind its predicate was replaced.
    pub const UPGRADED: Self = Self(32);
    /// It was looked at, and the outcome differs from the last one.
    pub const VERIFICATION: Self = Self(64);
    /// What is shown of it changed in another way, such as health.
    pub const FACTS: Self = Self(128);
    /// A use was proven.
    pub const USAGE: Self = Self(256);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::REGISTERED, "registered"),
        (Self::METADATA, "metadata"),
        (Self::PREDICATE, "predicate"),
        (Self::DEREGISTERED, "deregistered"),
        (Self::REORGANISED, "reorganised"),
        (Self::UPGRADED, "upgraded"),
        (Self::VERIFICATION, "verification"),
        (Self::FACTS, "facts"),
        (Self::USAGE, "usage"),
    ];

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is among them.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(kind, _)| self.has(*kind)).map(|(_, name)| name)
    }
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number: the cursor of whoever has seen it.
    pub seq: i64,
    /// When it was recorded.
    pub at: UnixTime,
    /// The tool.
    pub key: ToolKey,
    /// What changed.
    pub kinds: Kinds,
}

/// Most changes of one page.
pub const MAX_PAGE: usize = 1_000;

const NUMBER: &str = "UPDATE index_feed SET last = last + $1 WHERE id = 1 RETURNING last";
const LAST: &str = "SELECT last FROM index_feed WHERE id = 1";
const AFTER: &str = "SELECT seq, at, registry, tool, kinds FROM index_change WHERE seq > $1 ORDER BY seq LIMIT $2";
const OLDEST: &str = "SELECT MIN(seq) FROM index_change";
const CHANGE: Bulk = Bulk { table: "index_change", columns: &["seq", "at", "registry", "tool", "kinds"], conflict: "" };

/// Records changes, one for each tool, and gives the number of the last. Do this last before the commit: from here on other writers wait.
pub async fn record(transaction: &mut Transaction, changes: &[(ToolKey, Kinds)], now: UnixTime) -> Result<i64, Error> {
    let count = i64::try_from(changes.len()).map_err(|_| Error::Corrupt { what: "number of changes" })?;
    let row = transaction.fetch_optional(NUMBER, &[Value::Integer(count)]).await?;
    let last = row.ok_or(Error::Corrupt { what: "feed" })?.integer(0)?;
    if changes.is_empty() {
        return Ok(last);
    }
    let seqs: Vec<i64> = (last - count + 1..=last).collect();
    let times = vec![now.seconds(); changes.len()];
    let registries: Vec<i64> = changes.iter().map(|(key, _)| key.registry.0).collect();
    let ids: Vec<[u8; 32]> = changes.iter().map(|(key, _)| key.id_bytes()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(<[u8; 32]>::as_slice).collect();
    let kinds: Vec<i64> = changes.iter().map(|(_, kinds)| kinds.0).collect();
    let columns = [
        Column::Integers(&seqs),
        Column::Integers(&times),
        Column::Integers(&registries),
        Column::Bytes(&ids),
        Column::Integers(&kinds),
    ];
    transaction.insert_many(&CHANGE, &columns).await?;
    Ok(last)
}

impl Index {
    /// The number of the last change.
    pub async fn last_change(&self) -> Result<i64, Error> {
        let row = self.database().fetch_optional(LAST, &[]).await?;
        Ok(row.ok_or(Error::Corrupt { what: "feed" })?.integer(0)?)
    }

    /// The changes after `cursor`, at most `limit`. An error when some of them are no longer kept.
    pub async fn changes(&self, cursor: i64, limit: usize) -> Result<Vec<Change>, Error> {
        let limit = i64::try_from(limit.min(MAX_PAGE)).unwrap_or(i64::MAX);
        // Before the rows: what is committed in between is not missing.
        let last = self.last_change().await?;
        let rows = self.database().fetch(AFTER, &[Value::Integer(cursor), Value::Integer(limit)]).await?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            changes.push(Change {
                seq: row.integer(0)?,
                at: UnixTime::from_seconds(row.integer(1)?),
                key: ToolKey::from_columns(row.integer(2)?, row.bytes(3)?)?,
                kinds: Kinds(row.integer(4)?),
            });
        }
        let is_gap = match changes.first() {
            Some(first) => first.seq > cursor + 1,
            None => last > cursor,
        };
        if is_gap {
            let oldest = self.database().fetch_optional(OLDEST, &[]).await?;
            let oldest = oldest.map(|row| row.optional_integer(0)).transpose()?.flatten();
            return Err(Error::Forgotten { cursor, oldest: oldest.unwrap_or_default() });
        }
        Ok(changes)
    }
}
