//! Records changes, and numbers those that PostgreSQL has without a number.
//!
//! Numbering takes committed rows of `index_change_pending`, oldest first, and moves them to `index_change` under the next numbers, in one
//! transaction that holds the counter row. A transaction that commits later is numbered later, so readers skip nothing; one that rolls
//! back leaves no row and so no gap; and a process that dies while numbering has changed nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, Engine, FromRow as _, Row, Transaction, Value};
use toolcrib_store::{row, sql};

use super::packed::{pack, unpack};
use super::{Kinds, LAST, PER_ROW};
use crate::model::ToolKey;
use crate::{Error, Index};

const ADVANCE: &str = "UPDATE index_feed SET last = last + $1 WHERE id = 1 RETURNING last";
const CHANGE: Bulk = Bulk { table: "index_change", columns: &["seq", "first", "at", "changes"], conflict: "" };
const PENDING: Bulk = Bulk { table: "index_change_pending", columns: &["at", "count", "of_chain", "changes"], conflict: "" };

/// The smallest id is found in the index, past entries of rows that were numbered and deleted.
const LAST_AND_ALL: &str = "SELECT last, (SELECT MIN(id) FROM index_change_pending) AS pending FROM index_feed WHERE id = 1";
const LAST_AND_CHAIN: &str =
    "SELECT last, (SELECT MIN(id) FROM index_change_pending WHERE of_chain) AS pending FROM index_feed WHERE id = 1";

row! {
    /// Changes without a number.
    struct UnnumberedRow<'r> {
        at: UnixTime,
        changes: &'r [u8],
    }
}

row! {
    /// The same, taken to be numbered.
    struct TakenRow {
        id: i64,
        at: i64,
        count: i64,
        changes: Vec<u8>,
    }
}

const UNNUMBERED: &str = sql!("SELECT ", UnnumberedRow::COLUMNS, " FROM index_change_pending WHERE of_chain ORDER BY id");

const HOLD: &str = "SELECT last FROM index_feed WHERE id = 1 FOR UPDATE";
/// One that numbers at a time, so nothing else deletes these rows meanwhile.
const TAKE: &str = sql!(
    "DELETE FROM index_change_pending WHERE id IN (SELECT id FROM index_change_pending ORDER BY id LIMIT $1) RETURNING ",
    TakenRow::COLUMNS
);

/// The number of pending rows that one transaction numbers: up to ten megabytes, and a few milliseconds.
const GROUP: usize = 2_000;

/// The number of groups that one call numbers. Callers wait for it, so several calls number a long backfill.
const MAX_GROUPS: usize = 64;

/// A numbering transaction takes milliseconds. When it waits longer, the holder of the lock is stuck, and readers return the changes that
/// have numbers.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '500ms'";

/// How long this process does not number after a failure: readers must not wait for the lock each time.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// Records changes, one for each tool. Call this last before the commit: on SQLite other writers wait from here on, and on PostgreSQL
/// changes of one tool are in the order in which they are recorded.
pub async fn record(transaction: &mut Transaction, changes: &[(ToolKey, Kinds)], now: UnixTime) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let chunks: Vec<_> = changes.chunks(PER_ROW).collect();
    let packed: Vec<Vec<u8>> = chunks.iter().map(|changes| pack(changes)).collect();
    if transaction.engine() == Engine::Sqlite {
        let rows = chunks.iter().zip(packed).map(|(chunk, packed)| Packed { at: now.seconds(), count: chunk.len(), packed });
        return append(transaction, &rows.collect::<Vec<_>>()).await;
    }
    let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
    let times = vec![now.seconds(); chunks.len()];
    let counts: Vec<i64> = chunks.iter().map(|chunk| chunk.len() as i64).collect();
    let of_chain: Vec<bool> = chunks.iter().map(|chunk| chunk.iter().any(|(_, kinds)| kinds.is_of_chain())).collect();
    let columns = [Column::Integers(&times), Column::Integers(&counts), Column::Booleans(&of_chain), Column::Bytes(&packed)];
    transaction.insert_many(&PENDING, &columns).await?;
    Ok(())
}

/// Changes of one row.
struct Packed {
    at: i64,
    count: usize,
    packed: Vec<u8>,
}

/// Appends rows under the next numbers.
async fn append(transaction: &mut Transaction, rows: &[Packed]) -> Result<(), Error> {
    let count = rows.iter().map(|row| row.count as i64).sum::<i64>();
    let row = transaction.fetch_optional(ADVANCE, &[Value::Integer(count)]).await?;
    let mut next = row.ok_or(Error::Corrupt { what: "feed" })?.scalar::<i64>()? - count + 1;
    let (mut firsts, mut seqs) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        firsts.push(next);
        next += row.count as i64;
        seqs.push(next - 1);
    }
    let times: Vec<i64> = rows.iter().map(|row| row.at).collect();
    let packed: Vec<&[u8]> = rows.iter().map(|row| row.packed.as_slice()).collect();
    let columns = [Column::Integers(&seqs), Column::Integers(&firsts), Column::Integers(&times), Column::Bytes(&packed)];
    transaction.insert_many(&CHANGE, &columns).await?;
    Ok(())
}

/// Which pending changes a reader needs numbers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// Those that came from the chain. Workers need only these: their own verdicts create no jobs, and numbering each would serialise them
    /// again.
    OfChain,
}

/// Reads changes from the chain without a number, for a snapshot in which none can be assigned.
pub(crate) async fn unnumbered(transaction: &mut Transaction) -> Result<Vec<(UnixTime, ToolKey, Kinds)>, Error> {
    let mut found = Vec::new();
    for row in UnnumberedRow::from_rows(&transaction.fetch(UNNUMBERED, &[]).await?) {
        let UnnumberedRow { at, changes } = row?;
        let changes = unpack(changes).ok_or(Error::Corrupt { what: "change" })?;
        found.extend(changes.into_iter().map(|(key, kinds)| (at, key, kinds)));
    }
    Ok(found)
}

/// State shared by the readers of one process, so that many of them cause one numbering transaction.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    begun: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    /// The number of the last finished run.
    run: u64,
    failed: Option<Instant>,
}

impl Index {
    /// Numbers pending changes, and returns the number of the last change. If that fails, as on a read-only database, readers get the
    /// changes that have numbers. On a replica nothing is numbered: that happens on the primary.
    pub(crate) async fn number_changes(&self, wanted: Wanted) -> Result<i64, Error> {
        let database = self.database();
        if database.engine() == Engine::Sqlite || self.is_replica() {
            return last_of(database.fetch_optional(LAST, &[]).await?.as_ref());
        }
        let sql = match wanted {
            Wanted::All => LAST_AND_ALL,
            Wanted::OfChain => LAST_AND_CHAIN,
        };
        let row = database.fetch_optional(sql, &[]).await?;
        let last = last_of(row.as_ref())?;
        if row.map(|row| row.get::<Option<i64>>("pending")).transpose()?.flatten().is_none() || !self.number_pending().await {
            return Ok(last);
        }
        last_of(database.fetch_optional(LAST, &[]).await?.as_ref())
    }

    /// Numbers everything that was committed before this call. Callers that arrive during a run share the next one. `false` when nothing
    /// was numbered.
    async fn number_pending(&self) -> bool {
        let numbering = self.numbering();
        let before = numbering.begun.load(Ordering::Acquire);
        let mut done = numbering.done.lock().await;
        if done.run > before {
            return true;
        }
        if done.failed.is_some_and(|at| at.elapsed() < PAUSE_AFTER_ERROR) {
            return false;
        }
        let run = numbering.begun.fetch_add(1, Ordering::AcqRel) + 1;
        for _ in 0..MAX_GROUPS {
            match self.number_group().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(code = error.code().id(), %error, "changes could not be numbered, readers get older ones");
                    done.failed = Some(Instant::now());
                    return false;
                }
            }
        }
        *done = Done { run, failed: None };
        true
    }

    /// Numbers one group. `false` when it was the last.
    async fn number_group(&self) -> Result<bool, Error> {
        let mut transaction = self.database().begin().await?;
        transaction.execute(LOCK_TIMEOUT, &[]).await?;
        transaction.fetch_optional(HOLD, &[]).await?;
        let mut rows = Vec::new();
        for row in TakenRow::from_rows(&transaction.fetch(TAKE, &[Value::Integer(GROUP as i64)]).await?) {
            let TakenRow { id, at, count, changes } = row?;
            let count = usize::try_from(count).map_err(|_| Error::Corrupt { what: "number of changes" })?;
            rows.push((id, Packed { at, count, packed: changes }));
        }
        if rows.is_empty() {
            transaction.rollback().await?;
            return Ok(false);
        }
        let taken = rows.len();
        rows.sort_unstable_by_key(|(id, _)| *id);
        append(&mut transaction, &joined(rows.into_iter().map(|(_, row)| row))).await?;
        transaction.commit().await?;
        Ok(taken == GROUP)
    }
}

/// Joins adjacent changes of the same time: verdicts come one by one, and a row for each would make the feed many times as large.
fn joined(rows: impl Iterator<Item = Packed>) -> Vec<Packed> {
    let mut joined: Vec<Packed> = Vec::new();
    for row in rows {
        match joined.last_mut() {
            Some(last) if last.at == row.at && last.count + row.count <= PER_ROW => {
                last.count += row.count;
                last.packed.extend_from_slice(&row.packed);
            }
            _ => joined.push(row),
        }
    }
    joined
}

fn last_of(row: Option<&Row>) -> Result<i64, Error> {
    Ok(row.ok_or(Error::Corrupt { what: "feed" })?.get("last")?)
}
