//! The change feed: which tools changed, in the order in which the changes were committed.
//!
//! A transaction that changes a tool records the change as its last step before the commit. Readers see consecutive numbers, keep a cursor
//! and poll: a reader that has seen number 7 never meets a 6 later. One of the readers enqueues verification jobs (`work/intake.rs`):
//! retention must leave what it has not read.
//!
//! How a change gets its number differs by engine (`record.rs`). SQLite has one writer at a time, so a transaction takes its numbers itself.
//! On PostgreSQL a counter row would serialise all writers, so they insert unnumbered rows, and readers number what is committed before
//! they read. The numbering transaction is short, and writers never wait for it.
//! Changes of a transaction are packed into few rows: they are only read in order, so a row for each would be a waste.
//! is worth.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

use crate::model::ToolKey;
use crate::{Error, Index};

mod packed;
mod record;
mod retention;

pub use record::record;
pub(crate) use record::{Numbering, Wanted, unnumbered};

use packed::unpack;

/// A row of `index_change` has the changes from number `first` to number `seq`, packed. `index_change_pending` has committed changes that
/// have no number yet, in the order of `id`: two transactions that change the same tool hold its row one after the other and record last,
/// so their ids are in the order of their commits. Changes up to number `compacted` are reduced to the newest of each tool, in
/// `index_change_newest` (`retention.rs`).
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "CREATE TABLE index_feed (id BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL);
    INSERT INTO index_feed (id, last) VALUES (1, 0);
    CREATE TABLE index_change (seq BIGINT NOT NULL PRIMARY KEY, first BIGINT NOT NULL, at BIGINT NOT NULL, changes BYTES NOT NULL);",
    },
    Migration {
        version: 2,
        sql: "CREATE TABLE index_change_pending (id NUMBERED, at BIGINT NOT NULL, count BIGINT NOT NULL, of_chain BOOLEAN NOT NULL,
        changes BYTES NOT NULL);
    CREATE INDEX index_change_pending_chain ON index_change_pending (id) WHERE of_chain;",
    },
    Migration {
        version: 3,
        sql: "ALTER TABLE index_feed ADD COLUMN compacted BIGINT NOT NULL DEFAULT 0;
    CREATE TABLE index_change_newest (registry BIGINT NOT NULL, tool BYTES NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL,
        kinds BIGINT NOT NULL, PRIMARY KEY (registry, tool)) WITHOUT ROWID;
    CREATE UNIQUE INDEX index_change_newest_seq ON index_change_newest (seq);",
    },
];

/// The kinds of a change, several at once: one change covers everything that a transaction did to a tool.
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
    /// A reorganisation rolled back an event.
    pub const REORGANISED: Self = Self(16);
    /// The code behind its predicate was replaced.
    pub const UPGRADED: Self = Self(32);
    /// It was verified, and the verdict differs from the last one.
    pub const VERIFICATION: Self = Self(64);
    /// Other shown facts changed, such as health.
    pub const FACTS: Self = Self(128);
    /// Usage was proven.
    pub const USAGE: Self = Self(256);
    /// The name of an agent was added to the list, or a facilitator lists a resource.
    pub const LISTED: Self = Self(512);
    /// The name of an agent was removed from the list, or no facilitator lists the resource any more.
    pub const DELISTED: Self = Self(1_024);
    /// The operator blocked, hid, unblocked or unhid it.
    pub const MODERATION: Self = Self(2_048);

    const NAMES: [(Self, &'static str); 12] = [
        (Self::REGISTERED, "registered"),
        (Self::METADATA, "metadata"),
        (Self::PREDICATE, "predicate"),
        (Self::DEREGISTERED, "deregistered"),
        (Self::REORGANISED, "reorganised"),
        (Self::UPGRADED, "upgraded"),
        (Self::VERIFICATION, "verification"),
        (Self::FACTS, "facts"),
        (Self::USAGE, "usage"),
        (Self::LISTED, "listed"),
        (Self::DELISTED, "delisted"),
        (Self::MODERATION, "moderation"),
    ];

    /// Returns the union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all of `other` are included.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the change came from the chain. Verifying or importing a tool also sets kinds of what is shown, without an event on the
    /// chain.
    pub(crate) const fn is_of_chain(self) -> bool {
        const SHOWN: Kinds = Kinds::VERIFICATION
            .and(Kinds::FACTS)
            .and(Kinds::USAGE)
            .and(Kinds::LISTED)
            .and(Kinds::DELISTED)
            .and(Kinds::MODERATION);
        self.0 != 0 && self.0 & SHOWN.0 == 0
    }

    /// Returns the names of the kinds.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(kind, _)| self.has(*kind)).map(|(_, name)| name)
    }
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its sequence number: the cursor of a reader that has seen it.
    pub seq: i64,
    /// When it was recorded.
    pub at: UnixTime,
    /// The tool, or the name of an agent ([`crate::agents::feed_key`]).
    pub key: ToolKey,
    /// What changed.
    pub kinds: Kinds,
}

/// The maximum number of changes on one page.
pub const MAX_PAGE: usize = 1_000;

row! {
    /// Changes of the feed, packed.
    struct ChangeRow<'r> {
        first: i64,
        seq: i64,
        at: UnixTime,
        changes: &'r [u8],
    }
}

const LAST: &str = "SELECT last FROM index_feed WHERE id = 1";
/// Rows have at most [`PER_ROW`] changes, so the last number of a row that has wanted ones is below a bound, and no more is read.
const AFTER: &str =
    sql!("SELECT ", ChangeRow::COLUMNS, " FROM index_change WHERE seq > $1 AND seq < $3 AND first <= $2 ORDER BY seq");
const ROWS: &str = sql!("SELECT ", ChangeRow::COLUMNS, " FROM index_change WHERE seq > $1 AND seq <= $2 ORDER BY seq");
const ROW_OF: &str =
    sql!("SELECT ", ChangeRow::COLUMNS, " FROM index_change WHERE seq >= $1 AND first <= $1 ORDER BY seq LIMIT 1");
const OLDEST: &str = "SELECT MIN(first) FROM index_change";
/// The maximum number of changes in one row: a few kilobytes, and a page is a few rows.
const PER_ROW: usize = 500;

/// Returns the number of the last change.
pub(crate) async fn last(transaction: &mut Transaction) -> Result<i64, Error> {
    let row = transaction.fetch_optional(LAST, &[]).await?;
    Ok(row.ok_or(Error::Corrupt { what: "feed" })?.scalar()?)
}

/// Returns about `count` changes after `cursor`: rows are not split. An error when some of them are no longer kept.
pub(crate) async fn after(transaction: &mut Transaction, cursor: i64, count: i64) -> Result<Vec<Change>, Error> {
    // Read before the rows, so that changes committed in between are not taken for missing.
    let last = last(transaction).await?;
    let end = cursor.saturating_add(count.max(PER_ROW as i64));
    let mut changes = Vec::new();
    for row in ChangeRow::from_rows(&transaction.fetch(ROWS, &[Value::Integer(cursor), Value::Integer(end)]).await?) {
        changes.extend(read(&row?)?.filter(|change| change.seq > cursor));
    }
    if is_gap(cursor, &changes, last) {
        let oldest = changes.first().map(|change| change.seq);
        return Err(Error::Forgotten { cursor, oldest: oldest.unwrap_or_default() });
    }
    Ok(changes)
}

/// The changes of a row.
fn read(row: &ChangeRow<'_>) -> Result<impl Iterator<Item = Change> + use<>, Error> {
    let ChangeRow { first, seq, at, changes } = *row;
    let unpacked = unpack(changes).ok_or(Error::Corrupt { what: "change" })?;
    if Some(unpacked.len() as i64 - 1) != seq.checked_sub(first) {
        return Err(Error::Corrupt { what: "number of changes" });
    }
    Ok((first..).zip(unpacked).map(move |(seq, (key, kinds))| Change { seq, at, key, kinds }))
}

/// Whether changes are missing between `cursor` and those that were read after it.
fn is_gap(cursor: i64, changes: &[Change], last: i64) -> bool {
    match changes.first() {
        Some(first) => first.seq > cursor + 1,
        None => last > cursor,
    }
}

impl Index {
    /// Returns the number of the last change. Everything committed before this call has a number when it returns.
    pub async fn last_change(&self) -> Result<i64, Error> {
        self.number_changes(Wanted::All).await
    }

    /// Returns at most `limit` changes after `cursor`. An error when some of them are no longer kept. Read from the beginning, which is
    /// cursor 0, a compacted feed returns the newest change of each tool, and then every change.
    pub async fn changes(&self, cursor: i64, limit: usize) -> Result<Vec<Change>, Error> {
        let limit = limit.min(MAX_PAGE);
        let mut compacted = self.compacted_changes(cursor, limit).await?;
        if compacted.changes.len() == limit {
            return Ok(compacted.changes);
        }
        let mut rest = self.complete_changes(compacted.cursor, limit - compacted.changes.len()).await?;
        compacted.changes.append(&mut rest);
        Ok(compacted.changes)
    }

    /// Returns one change, if it is still kept.
    pub(crate) async fn change(&self, seq: i64) -> Result<Option<Change>, Error> {
        if let Some(row) = self.database().fetch_optional(ROW_OF, &[Value::Integer(seq)]).await? {
            return Ok(read(&ChangeRow::from_row(&row)?)?.find(|change| change.seq == seq));
        }
        self.newest_change(seq).await
    }

    /// Reads changes of the part of the feed that is not compacted.
    async fn complete_changes(&self, cursor: i64, limit: usize) -> Result<Vec<Change>, Error> {
        // Read before the rows, so that changes committed in between are not taken for missing.
        let last = self.number_changes(Wanted::All).await?;
        let end = cursor.saturating_add_unsigned(limit as u64);
        let bound = end.saturating_add_unsigned(PER_ROW as u64);
        let values = [Value::Integer(cursor), Value::Integer(end), Value::Integer(bound)];
        let mut changes = Vec::with_capacity(limit);
        for row in ChangeRow::from_rows(&self.database().fetch(AFTER, &values).await?) {
            changes.extend(read(&row?)?.filter(|change| change.seq > cursor && change.seq <= end));
        }
        if is_gap(cursor, &changes, last) {
            let oldest = self.database().fetch_optional(OLDEST, &[]).await?;
            let oldest = oldest.map(|row| row.scalar::<Option<i64>>()).transpose()?.flatten();
            return Err(Error::Forgotten { cursor, oldest: oldest.unwrap_or_default() });
        }
        Ok(changes)
    }
}
