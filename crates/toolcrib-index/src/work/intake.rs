//! The intake: creates jobs from the change feed.
//!
//! A follower records in the feed which tools changed, and does not write the queue: a backfill of many events is faster without it. A
//! worker processes new feed entries before it leases jobs. The cursor advances in the transaction that writes the jobs, so that each
//! change enqueues exactly one verification, even after a crash; the cursor is one row, whose lock serialises concurrent intakes.
//!
//! Feed entries of workers enqueue nothing: otherwise each verification would cause the next one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, PerEngine, Row, Transaction, Value};
use toolcrib_store::{row, sql};

use super::groups::Groups;
use super::jobs_table;
use super::queue::Queue;
use crate::feed::{self, Change, Kinds};
use crate::model::{IdBytes, RegistryId, ToolKey};
use crate::{Error, Index};

/// The number of changes in one transaction, and the number of changes before leasing continues: an idle worker must not wait until a
/// whole backfill is processed.
const CHANGES: i64 = 4_000;
const MAX_GOES: usize = 4;

/// A verification that the feed asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobRequest {
    pub(crate) due_at: UnixTime,
    pub(crate) reason: &'static str,
    /// The groups whose slots it takes. Known once the tool was read.
    pub(crate) groups: Groups,
}

/// Each tool once, sorted by key: two transactions that write the same rows then wait for each other instead of deadlocking.
pub(crate) type Wishes = BTreeMap<ToolKey, JobRequest>;

row! {
    struct PlaceRow {
        cursor: i64 = "i.cursor",
        last: i64 = "f.last",
    }
}

const PLACE: &str = sql!("SELECT ", PlaceRow::COLUMNS, " FROM index_intake i, index_feed f WHERE i.id = 1 AND f.id = 1");
/// Whoever finds the row locked leaves it to the other.
const HOLD: PerEngine = PerEngine {
    sqlite: "SELECT cursor FROM index_intake WHERE id = 1",
    postgres: "SELECT cursor FROM index_intake WHERE id = 1 FOR UPDATE SKIP LOCKED",
};
const MOVE: &str = "UPDATE index_intake SET cursor = $1 WHERE id = 1";

row! {
    /// A tool, and whose turns it takes.
    pub(super) struct OwnedRow<'r> {
        registry: i64,
        tool: &'r [u8],
        creator: &'r [u8],
        uri: &'r str,
    }
}

const EXISTING: &str = sql!("SELECT ", OwnedRow::COLUMNS, " FROM index_tool WHERE registry = $1 AND tool");
const ALL: &str = sql!("SELECT ", OwnedRow::COLUMNS, " FROM index_tool");

impl Queue {
    /// Processes new feed entries, and returns the number of verifications that they ask for. Leasing calls this itself. It stops before
    /// it takes long; the next call continues.
    pub async fn intake(&self, now: UnixTime) -> Result<usize, Error> {
        let mut asked = 0;
        for _ in 0..MAX_GOES {
            // Usually there is nothing new, which costs one read.
            let (cursor, last) = self.index().intake_place().await?;
            if cursor >= last {
                break;
            }
            let mut transaction = self.index().database().begin().await?;
            let hold = self.index().database().pick(HOLD);
            let Some(row) = transaction.fetch_optional(hold, &[]).await? else {
                transaction.rollback().await?;
                break;
            };
            let (wishes, cursor) = wishes_after(&mut transaction, row.scalar()?, now).await?;
            jobs_table::add(&mut transaction, &wishes, now).await?;
            transaction.execute(MOVE, &[Value::Integer(cursor)]).await?;
            transaction.commit().await?;
            asked += wishes.len();
        }
        Ok(asked)
    }
}

impl Index {
    /// Returns the number of the last processed change, and that of the last change.
    async fn intake_place(&self) -> Result<(i64, i64), Error> {
        self.number_changes(feed::Wanted::OfChain).await?;
        place(self.database().fetch_optional(PLACE, &[]).await?)
    }

    /// Returns how many verifications the unprocessed part of the feed asks for, and since when. It is an upper bound: only the beginning
    /// of a long part is read, and each change in the rest counts as one verification.
    pub(super) async fn not_taken_in(&self) -> Result<(u64, Option<UnixTime>), Error> {
        let (cursor, last) = self.intake_place().await?;
        let behind = last.saturating_sub(cursor).max(0).unsigned_abs();
        if behind == 0 {
            return Ok((0, None));
        }
        let changes = match self.changes(cursor, feed::MAX_PAGE).await {
            Err(Error::Forgotten { .. }) => return Ok((behind, None)),
            changes => changes?,
        };
        let unread = behind.saturating_sub(changes.len() as u64);
        let mut wishes = Wishes::new();
        changes.iter().for_each(|change| wish(&mut wishes, change));
        Ok((wishes.len() as u64 + unread, wishes.values().map(|wish| wish.due_at).min()))
    }
}

/// Returns all verifications that the unprocessed part of the feed asks for.
pub(crate) async fn not_taken_in(transaction: &mut Transaction, now: UnixTime) -> Result<Wishes, Error> {
    let (mut cursor, last) = place(transaction.fetch_optional(PLACE, &[]).await?)?;
    let mut all = Wishes::new();
    while cursor < last {
        let (wishes, read) = wishes_after(transaction, cursor, now).await?;
        for (key, wish) in wishes {
            add(&mut all, key, wish);
        }
        cursor = read;
    }
    let mut unnumbered = Wishes::new();
    for (at, key, kinds) in feed::unnumbered(transaction).await? {
        wish(&mut unnumbered, &Change { seq: 0, at: at.min(now), key, kinds });
    }
    keep_existing(transaction, &mut unnumbered).await?;
    for (key, wish) in unnumbered {
        add(&mut all, key, wish);
    }
    Ok(all)
}

fn place(row: Option<Row>) -> Result<(i64, i64), Error> {
    let row = row.ok_or(Error::Corrupt { what: "intake" })?;
    let PlaceRow { cursor, last } = PlaceRow::from_row(&row)?;
    Ok((cursor, last))
}

/// Returns the verifications of the next part of the feed, and its last number.
async fn wishes_after(transaction: &mut Transaction, cursor: i64, now: UnixTime) -> Result<(Wishes, i64), Error> {
    let mut wishes = Wishes::new();
    let read = match feed::after(transaction, cursor, CHANGES).await {
        Ok(changes) => {
            changes.iter().for_each(|change| wish(&mut wishes, change));
            changes.last().map_or(cursor, |change| change.seq)
        }
        Err(Error::Forgotten { .. }) => {
            // The feed was cleared. Its tools are not known, so all tools are verified.
            tracing::warn!(cursor, "changes were removed before they were read, verifying every tool again");
            let last = feed::last(transaction).await?;
            for row in OwnedRow::from_rows(&transaction.fetch(ALL, &[]).await?) {
                let row = row?;
                let key = ToolKey::from_columns(row.registry, row.tool)?;
                let groups = Groups::of(row.creator, row.uri);
                wishes.insert(key, JobRequest { due_at: now, reason: "expired", groups });
            }
            return Ok((wishes, last));
        }
        Err(error) => return Err(error),
    };
    // A recording clock that is ahead of ours must not delay a job.
    wishes.values_mut().for_each(|wish| wish.due_at = wish.due_at.min(now));
    keep_existing(transaction, &mut wishes).await?;
    Ok((wishes, read))
}

fn wish(wishes: &mut Wishes, change: &Change) {
    if change.kinds.is_of_chain() {
        let groups = Groups::default();
        add(wishes, change.key, JobRequest { due_at: change.at, reason: reason(change.kinds), groups });
    }
}

/// Merges a request: the first of several stays, except for an upgrade of the predicate, which the worker learns only from its reason.
fn add(wishes: &mut Wishes, key: ToolKey, wish: JobRequest) {
    match wishes.entry(key) {
        Entry::Vacant(place) => {
            place.insert(wish);
        }
        Entry::Occupied(mut place) => {
            let first = place.get_mut();
            first.due_at = first.due_at.min(wish.due_at);
            if wish.reason == "upgraded" {
                first.reason = wish.reason;
            }
        }
    }
}

/// Returns the reason for the verification: the most important of the kinds.
const fn reason(kinds: Kinds) -> &'static str {
    if kinds.has(Kinds::REORGANISED) {
        "reorganised"
    } else if kinds.has(Kinds::DEREGISTERED) {
        "deregistered"
    } else if kinds.has(Kinds::REGISTERED) {
        "registered"
    } else if kinds.has(Kinds::METADATA) {
        "metadata"
    } else if kinds.has(Kinds::PREDICATE) {
        "predicate"
    } else {
        "upgraded"
    }
}

/// Removes tools that a reorganisation removed meanwhile, and reads the groups of the others.
async fn keep_existing(transaction: &mut Transaction, wishes: &mut Wishes) -> Result<(), Error> {
    let mut ids: BTreeMap<RegistryId, Vec<IdBytes>> = BTreeMap::new();
    for key in wishes.keys() {
        ids.entry(key.registry).or_default().push(key.id_bytes());
    }
    let mut existing = Wishes::new();
    for (registry, ids) in ids {
        let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
        for row in OwnedRow::from_rows(&transaction.fetch_among(EXISTING, &[Value::Integer(registry.0)], &ids).await?) {
            let row = row?;
            let key = ToolKey::from_columns(row.registry, row.tool)?;
            let groups = Groups::of(row.creator, row.uri);
            existing.extend(wishes.get(&key).map(|wish| (key, JobRequest { groups, ..*wish })));
        }
    }
    *wishes = existing;
    Ok(())
}
