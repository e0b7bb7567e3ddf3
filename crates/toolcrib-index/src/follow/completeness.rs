//! Completeness of the logs that nodes return: the check of tool ids, and the stored state.
//!
//! Three facts about the logs of a registry are independent of the node that returns them: tools are numbered from 1 without gaps, the
//! contract counts them, and block headers have bloom filters of events. `numbering` checks the first, `reread` reads headers and
//! receipts, `compare` reads the contract.
//!
//! A follower writes here within a transaction of the lease holder: a follower that lost the lease records nothing.

use alloy_primitives::U256;
use toolcrib_chain::registry::{ChainEvent, ChainLog, RegistryEvent};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

use super::execute::signed;
use crate::model::RegistryId;
use crate::{Error, Index};

/// `rescan_from` is the next block to read again, `incomplete_since` when logs were first missing that no node returned.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_completeness (registry BIGINT NOT NULL PRIMARY KEY, rescan_from BIGINT, incomplete_since BIGINT,
        reason TEXT, omitted BIGINT NOT NULL DEFAULT 0, doubtful BIGINT NOT NULL DEFAULT 0, wrong_tools BIGINT NOT NULL DEFAULT 0,
        audited_at BIGINT) WITHOUT ROWID;",
}];

/// The completeness of a registry's events, as far as its follower knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completeness {
    /// The registry.
    pub registry: RegistryId,
    /// The next block of a rescan; `None` without one.
    pub rescan_from: Option<u64>,
    /// Since when logs are missing that no node returns; `None` when none are known to be.
    pub incomplete_since: Option<UnixTime>,
    /// How the gap was detected.
    pub reason: Option<String>,
    /// Logs that a node omitted from one response and that another response had.
    pub omitted: u64,
    /// Blocks whose headers match events that no node returned and no node could rule out.
    pub doubtful: u64,
    /// Tools whose row differed from the registry in the last comparison.
    pub wrong_tools: u64,
    /// When a comparison of all tools last finished.
    pub audited_at: Option<UnixTime>,
}

row! {
    struct Columns {
        registry: i64,
        rescan_from: Option<u64>,
        incomplete_since: Option<UnixTime>,
        reason: Option<String>,
        omitted: u64,
        doubtful: u64,
        wrong_tools: u64,
        audited_at: Option<UnixTime>,
    }
}

const ALL: &str = sql!("SELECT ", Columns::COLUMNS, " FROM index_completeness ORDER BY registry");
const RESCAN: &str = "INSERT INTO index_completeness (registry, rescan_from) VALUES ($1, $2)
    ON CONFLICT (registry) DO UPDATE SET rescan_from = CASE WHEN index_completeness.rescan_from < excluded.rescan_from
        THEN index_completeness.rescan_from ELSE excluded.rescan_from END";
const RESCAN_OF: &str = "SELECT rescan_from FROM index_completeness WHERE registry = $1";
const ADVANCE: &str = "UPDATE index_completeness SET rescan_from = $3 WHERE registry = $1 AND rescan_from = $2";
const INCOMPLETE: &str = "INSERT INTO index_completeness (registry, incomplete_since, reason) VALUES ($1, $2, $3)
    ON CONFLICT (registry) DO UPDATE SET incomplete_since = COALESCE(index_completeness.incomplete_since, excluded.incomplete_since),
        reason = excluded.reason";
const COMPLETE: &str = "UPDATE index_completeness SET incomplete_since = NULL, reason = NULL, wrong_tools = 0
    WHERE registry = $1 AND (incomplete_since IS NOT NULL OR wrong_tools <> 0)";
const FOUND: &str = "INSERT INTO index_completeness (registry, omitted, doubtful) VALUES ($1, $2, $3)
    ON CONFLICT (registry) DO UPDATE SET omitted = index_completeness.omitted + excluded.omitted,
        doubtful = index_completeness.doubtful + excluded.doubtful";
const WRONG: &str = "INSERT INTO index_completeness (registry, wrong_tools) VALUES ($1, $2)
    ON CONFLICT (registry) DO UPDATE SET wrong_tools = excluded.wrong_tools";
const AUDITED: &str = "INSERT INTO index_completeness (registry, audited_at) VALUES ($1, $2)
    ON CONFLICT (registry) DO UPDATE SET audited_at = excluded.audited_at";

impl Index {
    /// Returns the completeness of registries. Registries without a gap or a comparison so far are not listed.
    pub async fn completeness(&self) -> Result<Vec<Completeness>, Error> {
        let rows = self.database().fetch(ALL, &[]).await?;
        let read = |row: Columns| Completeness {
            registry: RegistryId(row.registry),
            rescan_from: row.rescan_from,
            incomplete_since: row.incomplete_since,
            reason: row.reason,
            omitted: row.omitted,
            doubtful: row.doubtful,
            wrong_tools: row.wrong_tools,
            audited_at: row.audited_at,
        };
        Columns::from_rows(&rows).map(|row| Ok(read(row?))).collect()
    }

    /// Requests a rescan: the follower of a registry reads its logs again from a block on, and adds missing ones.
    pub async fn request_rescan(&self, registry: RegistryId, from: u64) -> Result<(), Error> {
        let mut transaction = self.database().begin().await?;
        request_rescan(&mut transaction, registry, from).await?;
        Ok(transaction.commit().await?)
    }

    /// Returns the block from which a rescan continues.
    pub(super) async fn rescan_of(&self, registry: RegistryId) -> Result<Option<u64>, Error> {
        let row = self.database().fetch_optional(RESCAN_OF, &[Value::Integer(registry.0)]).await?;
        Ok(row.map(|row| row.scalar::<Option<u64>>()).transpose()?.flatten())
    }
}

/// Requests a rescan from a block on.
pub(super) async fn request_rescan(transaction: &mut Transaction, registry: RegistryId, from: u64) -> Result<(), Error> {
    transaction.execute(RESCAN, &[Value::Integer(registry.0), Value::Integer(signed(from)?)]).await?;
    Ok(())
}

/// Records that logs are missing.
pub(super) async fn set_incomplete(
    transaction: &mut Transaction,
    registry: RegistryId,
    reason: &str,
    now: UnixTime,
) -> Result<(), Error> {
    let values = [Value::Integer(registry.0), Value::Integer(now.seconds()), Value::Text(reason)];
    transaction.execute(INCOMPLETE, &values).await?;
    Ok(())
}

/// Records that no logs are missing any more.
pub(super) async fn set_complete(transaction: &mut Transaction, registry: RegistryId) -> Result<(), Error> {
    transaction.execute(COMPLETE, &[Value::Integer(registry.0)]).await?;
    Ok(())
}

/// Counts omitted logs, by whichever check they were found, and blocks that stay doubtful.
pub(super) async fn count_omitted(
    transaction: &mut Transaction,
    registry: RegistryId,
    omitted: u64,
    doubtful: u64,
) -> Result<(), Error> {
    let values = [Value::Integer(registry.0), Value::Integer(signed(omitted)?), Value::Integer(signed(doubtful)?)];
    transaction.execute(FOUND, &values).await?;
    Ok(())
}

/// Records how many tools differ from the registry.
pub(super) async fn set_wrong_tools(transaction: &mut Transaction, registry: RegistryId, wrong: u64) -> Result<(), Error> {
    transaction.execute(WRONG, &[Value::Integer(registry.0), Value::Integer(signed(wrong)?)]).await?;
    Ok(())
}

/// Records when a comparison of all tools finished.
pub(super) async fn set_audited(transaction: &mut Transaction, registry: RegistryId, now: UnixTime) -> Result<(), Error> {
    transaction.execute(AUDITED, &[Value::Integer(registry.0), Value::Integer(now.seconds())]).await?;
    Ok(())
}

/// Advances a rescan, unless an earlier block was requested meanwhile.
pub(super) async fn advance_rescan(
    transaction: &mut Transaction,
    registry: RegistryId,
    from: u64,
    next: Option<u64>,
) -> Result<(), Error> {
    let next = next.map(signed).transpose()?;
    let values = [Value::Integer(registry.0), Value::Integer(signed(from)?), Value::OptionalInteger(next)];
    transaction.execute(ADVANCE, &values).await?;
    Ok(())
}

/// A missing tool id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingId {
    /// The first id without a registration.
    pub(super) id: U256,
    /// The block by which it must have been registered.
    pub(super) by: u64,
    /// How the gap was detected.
    pub(super) what: &'static str,
}

/// Returns the highest id after these logs, if they register every id up to it that was not registered before.
pub(super) fn numbering(highest: Option<U256>, logs: &[ChainLog]) -> Result<U256, MissingId> {
    let mut highest = highest.unwrap_or_default();
    for log in logs {
        let ChainEvent::Registry(event) = &log.event else { continue };
        let next = highest.saturating_add(U256::from(1));
        let missing = |what| MissingId { id: next, by: log.block, what };
        match event {
            RegistryEvent::Registered { id, .. } if *id == next => highest = next,
            RegistryEvent::Registered { id, .. } if *id > next => return Err(missing("a tool id was skipped")),
            event if event.id() > highest => return Err(missing("a tool changed that was never registered")),
            _ => {}
        }
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256};

    use super::*;

    fn log(block: u64, event: RegistryEvent) -> ChainLog {
        let (block_hash, transaction) = (B256::with_last_byte(block as u8), B256::ZERO);
        ChainLog { event: ChainEvent::Registry(event), block, block_hash, transaction, log_index: 0, time: None }
    }

    fn registered(block: u64, id: u64) -> ChainLog {
        let (creator, predicate) = (Address::ZERO, Address::ZERO);
        log(block, RegistryEvent::Registered { id: U256::from(id), creator, predicate, uri: String::new(), hash: B256::ZERO })
    }

    #[test]
    fn numbers_that_are_missing_are_found() {
        let gone = |block, id: u64| log(block, RegistryEvent::Deregistered { id: U256::from(id) });
        let check = |highest: u64, logs: &[ChainLog]| numbering((highest > 0).then(|| U256::from(highest)), logs);
        assert_eq!(check(0, &[]), Ok(U256::ZERO));
        assert_eq!(check(0, &[registered(1, 1), gone(1, 1), registered(2, 2)]), Ok(U256::from(2)));
        assert_eq!(check(7, &[gone(3, 7), registered(4, 8)]), Ok(U256::from(8)));
        // An id that is registered again does not fill a gap.
        assert_eq!(check(7, &[registered(4, 3)]), Ok(U256::from(7)));
        let missing = |id: u64, by| (U256::from(id), by);
        let found = |highest, logs: &[ChainLog]| check(highest, logs).map_err(|missing| (missing.id, missing.by));
        assert_eq!(found(0, &[registered(5, 2)]), Err(missing(1, 5)));
        assert_eq!(found(3, &[registered(5, 4), registered(6, 6)]), Err(missing(5, 6)));
        assert_eq!(found(3, &[gone(5, 4), registered(6, 4)]), Err(missing(4, 5)));
        assert_eq!(found(3, &[registered(6, u64::MAX)]), Err(missing(4, 6)));
    }
}
