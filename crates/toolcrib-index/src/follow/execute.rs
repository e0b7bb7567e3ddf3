//! The stage that applies events: the events themselves, the rows that they fold into, block window, checkpoint and change feed, in one
//! transaction. The feed then enqueues verifications of changed tools.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::registry::{ChainEvent, ChainLog, RegistryEvent};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, Transaction, Value};

use super::fold::{self, fold, kind};
use super::state::{Marks, Predicates, State};
use crate::feed::{self, Kinds};
use crate::model::{At, IdBytes, RegistryId, ToolKey, ToolRow};
use crate::{Error, tools};

/// The maximum number of tools that one transaction notifies of a predicate upgrade. A predicate with more is a shared one, and its tools
/// are verified again regularly anyway.
const MAX_UPGRADED_TOOLS: i64 = 5_000;

/// The events of a range of blocks, ready to be applied.
#[derive(Debug)]
pub(super) struct Batch {
    /// The last block of the range. It begins where the checkpoint ends.
    pub(super) to: u64,
    /// The hash of the last block.
    pub(super) hash: B256,
    /// The events in order, each with its time.
    pub(super) logs: Vec<ChainLog>,
    /// Hashes of blocks that a reorganisation may still remove.
    pub(super) blocks: Vec<(u64, B256)>,
    /// The chain's head and last final block.
    pub(super) marks: Marks,
}

const EVENTS: Bulk = Bulk {
    table: "index_event",
    columns: &[
        "registry",
        "block_number",
        "log_index",
        "block_hash",
        "tx",
        "time",
        "tool",
        "kind",
        "creator",
        "predicate",
        "uri",
        "hash",
        "implementation",
    ],
    // The checkpoint moves in the same transaction, so conflicts are impossible; checking for them costs a tenth of the time.
    conflict: "",
};
const PREDICATES: Bulk = Bulk {
    table: "index_predicate",
    columns: &["registry", "predicate", "first_block", "first_log"],
    conflict: "ON CONFLICT (registry, predicate) DO NOTHING",
};
const BLOCKS: Bulk = Bulk {
    table: "index_block",
    columns: &["registry", "number", "hash"],
    conflict: "ON CONFLICT (registry, number) DO UPDATE SET hash = excluded.hash",
};
const FORGET_BLOCKS: &str = "DELETE FROM index_block WHERE registry = $1 AND number < $2";
const CHECKPOINT: &str = "UPDATE index_registry SET checkpoint = $3, checkpoint_hash = $4, head = $5, finalized = $6
    WHERE id = $1 AND checkpoint = $2";
/// The unary plus keeps databases from reading a whole registry in id order.
const GATED: &str = "SELECT tool FROM index_tool WHERE +registry = $1 AND predicate = $2 AND deregistered_block IS NULL
    ORDER BY tool LIMIT $3";

/// Applies a batch. The caller commits, and then keeps the returned state.
pub(super) async fn execute(
    transaction: &mut Transaction,
    registry: RegistryId,
    state: &State,
    batch: &Batch,
    now: UnixTime,
) -> Result<Executed, Error> {
    checkpoint(transaction, registry, state, batch).await?;
    insert_events(transaction, registry, &batch.logs).await?;
    let mut highest = state.highest;
    let mut changed = touched(transaction, registry, state, &batch.logs).await?;
    let mut known = state.predicates.clone();
    let fresh = known.learn(&batch.logs);
    insert_predicates(transaction, registry, &fresh).await?;

    // Sorted by id: two transactions that write the same rows then wait for each other instead of deadlocking.
    let mut order: Vec<U256> = changed.keys().copied().collect();
    order.sort_unstable();
    let (mut rows, mut renewed, mut fresh_rows) = (Vec::new(), Vec::new(), Vec::with_capacity(order.len()));
    let mut feed = Vec::with_capacity(order.len());
    for id in order {
        let Some(Touched { row, kinds }) = changed.remove(&id) else { continue };
        let Some(row) = row else { continue };
        feed.push((row.key, kinds));
        if Some(id) > state.highest {
            fresh_rows.push(row);
        } else if kinds.has(Kinds::REGISTERED) {
            renewed.push(row);
        } else {
            rows.push(row);
        }
        highest = highest.max(Some(id));
    }
    fold::change(transaction, &rows).await?;
    fold::upsert(transaction, &renewed).await?;
    fold::insert(transaction, &fresh_rows).await?;
    drop((rows, renewed, fresh_rows));
    upgrades(transaction, registry, &batch.logs, &mut feed).await?;
    insert_blocks(transaction, registry, batch).await?;
    if !feed.is_empty() {
        feed::record(transaction, &feed, now).await?;
    }
    Ok(Executed { highest, predicates: known })
}

/// The in-memory state of a follower after a batch.
#[derive(Debug)]
pub(super) struct Executed {
    pub(super) highest: Option<U256>,
    pub(super) predicates: Predicates,
}

/// Advances the checkpoint, and only from the value that this follower expects: a batch is applied once or not at all.
async fn checkpoint(transaction: &mut Transaction, registry: RegistryId, state: &State, batch: &Batch) -> Result<(), Error> {
    let values = [
        Value::Integer(registry.0),
        Value::Integer(state.checkpoint),
        Value::Integer(signed(batch.to)?),
        Value::Bytes(batch.hash.as_slice()),
        Value::Integer(signed(batch.marks.head)?),
        Value::Integer(state.finalized.max(batch.marks.finalized)),
    ];
    match transaction.execute(CHECKPOINT, &values).await? {
        1 => Ok(()),
        _ => Err(Error::LeaseLost),
    }
}

pub(super) async fn insert_events(transaction: &mut Transaction, registry: RegistryId, logs: &[ChainLog]) -> Result<(), Error> {
    if logs.is_empty() {
        return Ok(());
    }
    let count = logs.len();
    let registries = vec![registry.0; count];
    let (mut numbers, mut indexes, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut hashes, mut transactions) = (Vec::<&[u8]>::with_capacity(count), Vec::<&[u8]>::with_capacity(count));
    let (mut ids, mut kinds) = (Vec::<Option<IdBytes>>::with_capacity(count), Vec::with_capacity(count));
    let mut creators = Vec::<Option<&[u8]>>::with_capacity(count);
    let mut predicates = Vec::<Option<&[u8]>>::with_capacity(count);
    let mut uris = Vec::<Option<&str>>::with_capacity(count);
    let mut manifests = Vec::<Option<&[u8]>>::with_capacity(count);
    let mut implementations = Vec::<Option<&[u8]>>::with_capacity(count);
    for log in logs {
        numbers.push(signed(log.block)?);
        indexes.push(signed(log.log_index)?);
        times.push(signed(log.time.unwrap_or_default())?);
        hashes.push(log.block_hash.as_slice());
        transactions.push(log.transaction.as_slice());
        ids.push(match &log.event {
            ChainEvent::Registry(event) => Some(IdBytes::of(event.id())),
            ChainEvent::Upgraded { .. } => None,
        });
        let (kind, creator, predicate, uri, hash, implementation) = columns_of(&log.event)?;
        kinds.push(kind);
        creators.push(creator.map(|address| address.as_slice()));
        predicates.push(predicate.filter(|predicate| !predicate.is_zero()).map(|address| address.as_slice()));
        uris.push(uri);
        manifests.push(hash.map(B256::as_slice));
        implementations.push(implementation.map(|address| address.as_slice()));
    }
    let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_ref().map_or(&[][..], |id| &**id)).collect();
    let columns = [
        Column::Integers(&registries),
        Column::Integers(&numbers),
        Column::Integers(&indexes),
        Column::Bytes(&hashes),
        Column::Bytes(&transactions),
        Column::Integers(&times),
        Column::Bytes(&ids),
        Column::Integers(&kinds),
        Column::OptionalBytes(&creators),
        Column::OptionalBytes(&predicates),
        Column::OptionalTexts(&uris),
        Column::OptionalBytes(&manifests),
        Column::OptionalBytes(&implementations),
    ];
    transaction.insert_many(&EVENTS, &columns).await?;
    Ok(())
}

type EventColumns<'a> = (i64, Option<&'a Address>, Option<&'a Address>, Option<&'a str>, Option<&'a B256>, Option<&'a Address>);

fn columns_of(event: &ChainEvent) -> Result<EventColumns<'_>, Error> {
    Ok(match event {
        ChainEvent::Registry(RegistryEvent::Registered { creator, predicate, uri, hash, .. }) => {
            (kind::REGISTERED, Some(creator), Some(predicate), Some(uri), Some(hash), None)
        }
        ChainEvent::Registry(RegistryEvent::MetadataUpdated { uri, hash, .. }) => {
            (kind::METADATA, None, None, Some(uri), Some(hash), None)
        }
        ChainEvent::Registry(RegistryEvent::PredicateUpdated { predicate, .. }) => {
            (kind::PREDICATE, None, Some(predicate), None, None, None)
        }
        ChainEvent::Registry(RegistryEvent::Deregistered { .. }) => (kind::DEREGISTERED, None, None, None, None, None),
        ChainEvent::Upgraded { predicate, implementation } => {
            (kind::UPGRADED, None, Some(predicate), None, None, Some(implementation))
        }
        // The enum of the chain crate may grow; this program requests no events that it does not know.
        ChainEvent::Registry(_) => return Err(Error::Corrupt { what: "event of a registry" }),
    })
}

/// A tool affected by a batch, after its events.
struct Touched {
    row: Option<ToolRow>,
    kinds: Kinds,
}

/// Folds a batch over the stored rows.
async fn touched(
    transaction: &mut Transaction,
    registry: RegistryId,
    state: &State,
    logs: &[ChainLog],
) -> Result<HashMap<U256, Touched>, Error> {
    let events = || {
        logs.iter().filter_map(|log| match &log.event {
            ChainEvent::Registry(event) => Some((log, event)),
            ChainEvent::Upgraded { .. } => None,
        })
    };
    // Ids above the highest one seen so far have no row.
    let mut before: Vec<U256> = events().map(|(_, event)| event.id()).filter(|id| Some(*id) <= state.highest).collect();
    before.sort_unstable();
    before.dedup();
    let mut touched: HashMap<U256, Touched> = HashMap::with_capacity(logs.len());
    for row in tools::rows(transaction, registry, &before).await? {
        touched.insert(row.key.id, Touched { row: Some(row), kinds: Kinds::default() });
    }
    for (log, event) in events() {
        let at = At { block: log.block, time: UnixTime::from_seconds(signed(log.time.unwrap_or_default())?) };
        let slot = match touched.entry(event.id()) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => slot.insert(Touched { row: None, kinds: Kinds::default() }),
        };
        slot.row = fold(slot.row.take(), registry, event, at);
        slot.kinds = slot.kinds.and(kinds_of(event));
    }
    Ok(touched)
}

/// Returns the feed's kinds for an event.
pub(super) const fn kinds_of(event: &RegistryEvent) -> Kinds {
    match event {
        RegistryEvent::Registered { .. } => Kinds::REGISTERED,
        RegistryEvent::PredicateUpdated { .. } => Kinds::PREDICATE,
        RegistryEvent::Deregistered { .. } => Kinds::DEREGISTERED,
        _ => Kinds::METADATA,
    }
}

/// Records in the feed that the predicate's code of these tools changed.
pub(super) async fn upgrades(
    transaction: &mut Transaction,
    registry: RegistryId,
    logs: &[ChainLog],
    feed: &mut Vec<(ToolKey, Kinds)>,
) -> Result<(), Error> {
    let mut predicates: Vec<Address> = logs
        .iter()
        .filter_map(|log| match log.event {
            ChainEvent::Upgraded { predicate, .. } => Some(predicate),
            ChainEvent::Registry(_) => None,
        })
        .collect();
    predicates.sort_unstable();
    predicates.dedup();
    // Tools with events of their own come first, sorted by id.
    let changed = feed.len();
    for id in gated(transaction, registry, &predicates).await? {
        match feed[..changed].binary_search_by_key(&id, |(key, _)| key.id) {
            Ok(place) => feed[place].1 = feed[place].1.and(Kinds::UPGRADED),
            Err(_) => feed.push((ToolKey { registry, id }, Kinds::UPGRADED)),
        }
    }
    Ok(())
}

/// Returns the tools that currently have one of these predicates.
pub(super) async fn gated(
    transaction: &mut Transaction,
    registry: RegistryId,
    predicates: &[Address],
) -> Result<Vec<U256>, Error> {
    let mut found = Vec::new();
    for predicate in predicates {
        let values = [Value::Integer(registry.0), Value::Bytes(predicate.as_slice()), Value::Integer(MAX_UPGRADED_TOOLS)];
        let rows = transaction.fetch(GATED, &values).await?;
        if rows.len() as i64 == MAX_UPGRADED_TOOLS {
            tracing::warn!(registry = registry.0, %predicate, "predicate code replaced, too many tools use it to report each one");
        }
        for row in rows {
            found.push(ToolKey::from_columns(registry.0, row.scalar()?)?.id);
        }
    }
    Ok(found)
}

async fn insert_predicates(
    transaction: &mut Transaction,
    registry: RegistryId,
    fresh: &[(Address, (u64, u64))],
) -> Result<(), Error> {
    if fresh.is_empty() {
        return Ok(());
    }
    let registries = vec![registry.0; fresh.len()];
    let predicates: Vec<&[u8]> = fresh.iter().map(|(predicate, _)| predicate.as_slice()).collect();
    let blocks = fresh.iter().map(|(_, (block, _))| signed(*block)).collect::<Result<Vec<_>, _>>()?;
    let indexes = fresh.iter().map(|(_, (_, index))| signed(*index)).collect::<Result<Vec<_>, _>>()?;
    let columns =
        [Column::Integers(&registries), Column::Bytes(&predicates), Column::Integers(&blocks), Column::Integers(&indexes)];
    transaction.insert_many(&PREDICATES, &columns).await?;
    Ok(())
}

async fn insert_blocks(transaction: &mut Transaction, registry: RegistryId, batch: &Batch) -> Result<(), Error> {
    let number = Value::Integer(registry.0);
    transaction.execute(FORGET_BLOCKS, &[number, Value::Integer(batch.marks.finalized)]).await?;
    if batch.blocks.is_empty() {
        return Ok(());
    }
    let registries = vec![registry.0; batch.blocks.len()];
    let numbers = batch.blocks.iter().map(|(number, _)| signed(*number)).collect::<Result<Vec<_>, _>>()?;
    let hashes: Vec<&[u8]> = batch.blocks.iter().map(|(_, hash)| hash.as_slice()).collect();
    let columns = [Column::Integers(&registries), Column::Integers(&numbers), Column::Bytes(&hashes)];
    transaction.insert_many(&BLOCKS, &columns).await?;
    Ok(())
}

/// Converts a block number, log index or seconds to the database's type.
pub(super) fn signed(number: u64) -> Result<i64, Error> {
    i64::try_from(number).map_err(|_| Error::Corrupt { what: "number of a block" })
}
