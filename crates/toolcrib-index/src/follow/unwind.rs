//! The stage that rolls events back after a reorganisation: orphaned events are deleted, and their tools are folded again from the
//! remaining events. Deep reorganisations are rolled back in steps; each step leaves the index as it was at an earlier block.

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

use super::execute::gated;
use super::fold::{self, event_of, fold};
use super::state::{State, unsigned};
use crate::Error;
use crate::feed::{self, Kinds};
use crate::model::{At, RegistryId, ToolKey, ToolRow};

/// The maximum number of events that one transaction rolls back, except for a single block with more: a transaction must end within the
/// database's limits.
const MAX_EVENTS: i64 = 5_000;

/// The number of events read at once when a tool is folded again.
const PAGE: i64 = 1_000;

const BOUNDARY: &str = "SELECT block_number FROM index_event WHERE registry = $1 AND block_number > $2
    ORDER BY block_number DESC, log_index DESC LIMIT 1 OFFSET $3";
const HIGHEST_EVENT: &str = "SELECT MAX(block_number) FROM index_event WHERE registry = $1";
const ORPHANED_TOOLS: &str = "SELECT DISTINCT tool FROM index_event WHERE registry = $1 AND block_number > $2 ORDER BY tool";
const ORPHANED_UPGRADES: &str =
    "SELECT DISTINCT predicate FROM index_event WHERE registry = $1 AND block_number > $2 AND kind = 5 ORDER BY predicate";
const DELETE_EVENTS: &str = "DELETE FROM index_event WHERE registry = $1 AND block_number > $2";
const DELETE_BLOCKS: &str = "DELETE FROM index_block WHERE registry = $1 AND number > $2";
const DELETE_PREDICATES: &str = "DELETE FROM index_predicate WHERE registry = $1 AND first_block > $2";
const DELETE_TOOL: &str = "DELETE FROM index_tool WHERE registry = $1 AND tool = $2";
const DELETE_JOB: &str = "DELETE FROM index_job WHERE registry = $1 AND tool = $2";

row! {
    struct EventRow<'r> {
        block_number: i64,
        log_index: i64,
        time: UnixTime,
        kind: i64,
        creator: Option<Address>,
        predicate: Option<Address>,
        uri: Option<&'r str>,
        hash: Option<B256>,
    }
}

const EVENTS: &str = sql!(
    "SELECT ",
    EventRow::COLUMNS,
    " FROM index_event
    WHERE registry = $1 AND tool = $2 AND (block_number, log_index) > ($3, $4) ORDER BY block_number, log_index LIMIT $5"
);
const CHECKPOINT: &str = "UPDATE index_registry SET checkpoint = $3, checkpoint_hash = $4,
    finalized = CASE WHEN finalized > $3 THEN $3 ELSE finalized END WHERE id = $1 AND checkpoint = $2";

/// A block that is still on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ancestor {
    /// Its number; one before the first block when none of the indexed blocks remains.
    pub(super) number: i64,
    /// Its hash, if it is known.
    pub(super) hash: Option<B256>,
}

/// Rolls back the blocks after `ancestor`, or the newest part of them. Returns the new checkpoint. The caller commits.
pub(super) async fn unwind(
    transaction: &mut Transaction,
    registry: RegistryId,
    state: &State,
    ancestor: Ancestor,
    now: UnixTime,
) -> Result<i64, Error> {
    let number = Value::Integer(registry.0);
    let to = boundary(transaction, registry, ancestor.number).await?;
    let hash = ancestor.hash.filter(|_| to == ancestor.number);
    let values =
        [number, Value::Integer(state.checkpoint), Value::Integer(to), Value::OptionalBytes(hash.as_ref().map(|hash| &hash[..]))];
    if transaction.execute(CHECKPOINT, &values).await? != 1 {
        return Err(Error::LeaseLost);
    }
    let after = [number, Value::Integer(to)];
    let mut orphaned = Vec::new();
    for row in transaction.fetch(ORPHANED_TOOLS, &after).await? {
        // Upgrades have no tool of their own.
        let tool: &[u8] = row.scalar()?;
        if !tool.is_empty() {
            orphaned.push(ToolKey::from_columns(registry.0, tool)?);
        }
    }
    let mut upgraded = Vec::new();
    for row in transaction.fetch(ORPHANED_UPGRADES, &after).await? {
        upgraded.push(row.scalar::<Address>()?);
    }
    for statement in [DELETE_EVENTS, DELETE_BLOCKS, DELETE_PREDICATES] {
        transaction.execute(statement, &after).await?;
    }
    let mut feed = Vec::with_capacity(orphaned.len());
    let mut rows = Vec::new();
    for key in orphaned {
        feed.push((key, Kinds::REORGANISED));
        match refold(transaction, key).await? {
            Some(row) => rows.push(row),
            None => {
                // Derived data stays in case the tool comes back; without this row it is not visible.
                let id = key.id_bytes();
                transaction.execute(DELETE_TOOL, &[number, Value::Bytes(&id)]).await?;
                transaction.execute(DELETE_JOB, &[number, Value::Bytes(&id)]).await?;
            }
        }
    }
    fold::upsert(transaction, &rows).await?;
    let orphans = feed.len();
    for id in gated(transaction, registry, &upgraded).await? {
        match feed[..orphans].binary_search_by_key(&id, |(key, _)| key.id) {
            Ok(place) => feed[place].1 = feed[place].1.and(Kinds::UPGRADED),
            Err(_) => feed.push((ToolKey { registry, id }, Kinds::REORGANISED.and(Kinds::UPGRADED))),
        }
    }
    if !feed.is_empty() {
        feed::record(transaction, &feed, now).await?;
    }
    Ok(to)
}

/// Returns the block down to which one transaction rolls back.
async fn boundary(transaction: &mut Transaction, registry: RegistryId, ancestor: i64) -> Result<i64, Error> {
    let number = Value::Integer(registry.0);
    let values = [number, Value::Integer(ancestor), Value::Integer(MAX_EVENTS)];
    let Some(row) = transaction.fetch_optional(BOUNDARY, &values).await? else { return Ok(ancestor) };
    let boundary: i64 = row.scalar()?;
    let highest = transaction.fetch_optional(HIGHEST_EVENT, &[number]).await?;
    let highest = highest.map(|row| row.scalar::<Option<i64>>()).transpose()?.flatten();
    // One block alone has more: it goes as a whole.
    Ok(if highest == Some(boundary) { boundary - 1 } else { boundary })
}

pub(super) async fn refold(transaction: &mut Transaction, key: ToolKey) -> Result<Option<ToolRow>, Error> {
    let id = key.id_bytes();
    let mut folded = None;
    let mut place = (-1, -1);
    loop {
        let values = [
            Value::Integer(key.registry.0),
            Value::Bytes(&id),
            Value::Integer(place.0),
            Value::Integer(place.1),
            Value::Integer(PAGE),
        ];
        let rows = transaction.fetch(EVENTS, &values).await?;
        for row in EventRow::from_rows(&rows) {
            let row = row?;
            place = (row.block_number, row.log_index);
            let at = At { block: unsigned(row.block_number)?, time: row.time };
            let event = event_of(row.kind, key.id, row.creator, row.predicate, row.uri, row.hash)?;
            folded = fold(folded, key.registry, &event, at);
        }
        if (rows.len() as i64) < PAGE {
            return Ok(folded);
        }
    }
}
