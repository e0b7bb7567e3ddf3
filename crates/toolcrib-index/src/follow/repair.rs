//! Adds events that are missing below the checkpoint. Unlike a rollback and a new read, correct rows stay visible meanwhile.

use std::collections::BTreeMap;

use alloy_primitives::U256;
use toolcrib_chain::registry::{ChainEvent, ChainLog};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Database;
use toolcrib_store::database::{Transaction, Value};

use super::execute::{insert_events, kinds_of, signed, upgrades};
use super::fold;
use super::state::NamedEarlier;
use super::stored;
use super::unwind::refold;
use crate::Error;
use crate::feed::{self, Kinds};
use crate::model::{RegistryId, ToolKey};

const PREDICATE: &str = "INSERT INTO index_predicate (registry, predicate, first_block, first_log) VALUES ($1, $2, $3, $4)
    ON CONFLICT (registry, predicate) DO UPDATE SET first_block = excluded.first_block, first_log = excluded.first_log";

/// Removes the logs that are in the index from those that were read between two blocks.
pub(super) async fn retain_missing(
    database: &Database,
    registry: RegistryId,
    (from, to): (u64, u64),
    logs: &mut Vec<ChainLog>,
) -> Result<(), Error> {
    if logs.is_empty() {
        return Ok(());
    }
    let stored = stored::event_places(database, registry, &(signed(from)?..=signed(to)?)).await?;
    let mut missing = Vec::with_capacity(logs.len());
    for log in logs.drain(..) {
        if !stored.contains(&(signed(log.block)?, signed(log.log_index)?)) {
            missing.push(log);
        }
    }
    *logs = missing;
    Ok(())
}

/// Adds missing events, each with its time, and folds their tools again. The caller commits.
pub(super) async fn repair(
    transaction: &mut Transaction,
    registry: RegistryId,
    missing: &[ChainLog],
    named: &[NamedEarlier],
    now: UnixTime,
) -> Result<(), Error> {
    insert_events(transaction, registry, missing).await?;
    for NamedEarlier { predicate, place: (block, index), .. } in named {
        let values = [
            Value::Integer(registry.0),
            Value::Bytes(predicate.as_slice()),
            Value::Integer(signed(*block)?),
            Value::Integer(signed(*index)?),
        ];
        transaction.execute(PREDICATE, &values).await?;
    }
    let mut changed: BTreeMap<U256, Kinds> = BTreeMap::new();
    for log in missing {
        if let ChainEvent::Registry(event) = &log.event {
            let kinds = changed.entry(event.id()).or_default();
            *kinds = kinds.and(kinds_of(event));
        }
    }
    let (mut rows, mut feed) = (Vec::new(), Vec::new());
    for (id, kinds) in changed {
        let key = ToolKey { registry, id };
        if let Some(row) = refold(transaction, key).await? {
            rows.push(row);
            feed.push((key, kinds));
        }
    }
    fold::upsert(transaction, &rows).await?;
    upgrades(transaction, registry, missing, &mut feed).await?;
    if !feed.is_empty() {
        feed::record(transaction, &feed, now).await?;
    }
    Ok(())
}
