//! What a follower asks its own database, and the notes that it keeps there about a registry.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Transaction, Value};
use toolcrib_store::{Database, row, sql};

use crate::Error;
use crate::model::RegistryId;

row! {
    /// Where an event is.
    struct EventPlaceRow {
        block_number: i64,
        log_index: i64,
    }
}

row! {
    /// The block of an event.
    struct EventBlockRow {
        block_number: i64,
        block_hash: B256,
    }
}

row! {
    /// A block whose hash is kept.
    struct BlockRow {
        number: i64,
        hash: B256,
    }
}

const EVENTS: &str =
    sql!("SELECT ", EventPlaceRow::COLUMNS, " FROM index_event WHERE registry = $1 AND block_number BETWEEN $2 AND $3");
const BLOCKS: &str =
    sql!("SELECT ", BlockRow::COLUMNS, " FROM index_block WHERE registry = $1 AND number BETWEEN $2 AND $3 ORDER BY number");
const LAST_EVENT: &str = sql!(
    "SELECT ",
    EventBlockRow::COLUMNS,
    " FROM index_event WHERE registry = $1 AND block_number <= $2 ORDER BY block_number DESC, log_index DESC LIMIT 1"
);
const MARK: &str = "UPDATE index_registry SET head = $2, finalized = $3 WHERE id = $1";
const CODE: &str = "SELECT code_hash FROM index_registry WHERE id = $1";
const FIRST_CODE: &str = "UPDATE index_registry SET code_hash = $2 WHERE id = $1 AND code_hash IS NULL";
const CHANGED_CODE: &str =
    "UPDATE index_registry SET code_hash = $2, code_changed_at = COALESCE(code_changed_at, $3) WHERE id = $1";

fn range(registry: RegistryId, blocks: &RangeInclusive<i64>) -> [Value<'static>; 3] {
    [registry.0, *blocks.start(), *blocks.end()].map(Value::Integer)
}

/// The blocks and log indexes of the events in a range of blocks.
pub(super) async fn event_places(
    database: &Database,
    registry: RegistryId,
    blocks: &RangeInclusive<i64>,
) -> Result<HashSet<(i64, i64)>, Error> {
    let rows = database.fetch(EVENTS, &range(registry, blocks)).await?;
    EventPlaceRow::from_rows(&rows).map(|row| row.map(|row| (row.block_number, row.log_index)).map_err(Error::from)).collect()
}

/// Blocks of a range whose hashes are kept, in order.
pub(super) async fn block_hashes(
    database: &Database,
    registry: RegistryId,
    blocks: &RangeInclusive<i64>,
) -> Result<Vec<(i64, B256)>, Error> {
    let rows = database.fetch(BLOCKS, &range(registry, blocks)).await?;
    BlockRow::from_rows(&rows).map(|row| row.map(|row| (row.number, row.hash)).map_err(Error::from)).collect()
}

/// The block of the last event up to a block, and its hash.
pub(super) async fn last_event(database: &Database, registry: RegistryId, up_to: i64) -> Result<Option<(i64, B256)>, Error> {
    let row = database.fetch_optional(LAST_EVENT, &[registry.0, up_to].map(Value::Integer)).await?;
    let Some(row) = row else { return Ok(None) };
    let EventBlockRow { block_number, block_hash } = EventBlockRow::from_row(&row)?;
    Ok(Some((block_number, block_hash)))
}

/// Notes the newest block of the chain, and the last that is never taken back.
pub(super) async fn mark(transaction: &mut Transaction, registry: RegistryId, head: i64, finalized: i64) -> Result<(), Error> {
    transaction.execute(MARK, &[registry.0, head, finalized].map(Value::Integer)).await?;
    Ok(())
}

/// Notes the hash of the code of a registry. `true` when it is another one than before.
pub(super) async fn note_code(database: &Database, registry: RegistryId, hash: B256, now: UnixTime) -> Result<bool, Error> {
    let number = Value::Integer(registry.0);
    let row = database.fetch_optional(CODE, &[number]).await?;
    let known = row.map(|row| row.scalar::<Option<B256>>()).transpose()?.flatten();
    let (sql, is_changed) = match known {
        Some(known) if known == hash => return Ok(false),
        Some(_) => (CHANGED_CODE, true),
        None => (FIRST_CODE, false),
    };
    let values = [number, Value::Bytes(hash.as_slice()), Value::Integer(now.seconds())];
    database.execute(sql, if is_changed { &values } else { &values[..2] }).await?;
    Ok(is_changed)
}
