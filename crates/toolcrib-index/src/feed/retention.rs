//! Retention: changes older than a window are compacted to the newest of each tool.
//!
//! A reader that begins at the start of the feed learns of every tool, however old the feed is. A reader that was away for longer than the
//! window gets [`Error::Forgotten`] and reads everything again, because it would miss what happened in between. Cursors of a reader within
//! the compacted part are numbers of changes that are kept, which distinguishes the two.

use std::collections::BTreeMap;

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, FromRow as _, Value};
use toolcrib_store::{row, sql};

use super::{Change, ChangeRow, Kinds, read};
use crate::model::{IdBytes, ToolKey};
use crate::{Error, Index};

/// The number of rows of packed changes that one transaction compacts: up to ten thousand changes, and a tenth of a second.
const ROWS: i64 = 20;

/// The number of transactions in one call, so that other work is not delayed.
const MAX_GROUPS: usize = 50;

row! {
    struct StateRow {
        compacted: i64 = "f.compacted",
        cursor: i64 = "i.cursor",
    }
}

const STATE: &str = sql!("SELECT ", StateRow::COLUMNS, " FROM index_feed f, index_intake i WHERE f.id = 1 AND i.id = 1");
const OLDEST: &str = sql!("SELECT ", ChangeRow::COLUMNS, " FROM index_change WHERE seq > $1 ORDER BY seq LIMIT $2");
const NEWEST: Bulk = Bulk {
    table: "index_change_newest",
    columns: &["registry", "tool", "seq", "at", "kinds"],
    conflict: "ON CONFLICT (registry, tool) DO UPDATE SET seq = excluded.seq, at = excluded.at, kinds = excluded.kinds",
};
const FORGET: &str = "DELETE FROM index_change WHERE seq > $1 AND seq <= $2";
/// Compare and set: of two concurrent compactions, only one advances the counter.
const ADVANCE: &str = "UPDATE index_feed SET compacted = $2 WHERE id = 1 AND compacted = $1";

row! {
    /// The newest change of a tool.
    struct NewestRow<'r> {
        registry: i64,
        tool: &'r [u8],
        seq: i64,
        at: UnixTime,
        kinds: i64,
    }
}

const COMPACTED: &str = "SELECT compacted FROM index_feed WHERE id = 1";
const KEPT: &str = "SELECT seq FROM index_change_newest WHERE seq = $1";
const ONE: &str = sql!("SELECT ", NewestRow::COLUMNS, " FROM index_change_newest WHERE seq = $1");
const AFTER: &str = sql!("SELECT ", NewestRow::COLUMNS, " FROM index_change_newest WHERE seq > $1 ORDER BY seq LIMIT $2");

/// A page of the compacted changes.
pub(super) struct Compacted {
    pub(super) changes: Vec<Change>,
    /// The cursor for further changes, if there are fewer than requested.
    pub(super) cursor: i64,
}

impl Index {
    /// Compacts changes that were recorded before a time and that the intake has read. Returns their number; there may be more.
    pub async fn compact_changes(&self, before: UnixTime) -> Result<u64, Error> {
        let mut compacted = 0;
        for _ in 0..MAX_GROUPS {
            match self.compact_group(before).await? {
                0 => break,
                count => compacted += count,
            }
        }
        Ok(compacted)
    }

    async fn compact_group(&self, before: UnixTime) -> Result<u64, Error> {
        let mut transaction = self.database().begin().await?;
        let row = transaction.fetch_optional(STATE, &[]).await?.ok_or(Error::Corrupt { what: "feed" })?;
        let StateRow { compacted: from, cursor: taken_in } = StateRow::from_row(&row)?;
        let (mut newest, mut to, mut count) = (BTreeMap::<ToolKey, Change>::new(), from, 0);
        for row in ChangeRow::from_rows(&transaction.fetch(OLDEST, &[Value::Integer(from), Value::Integer(ROWS)]).await?) {
            let row = row?;
            if row.at >= before || row.seq > taken_in {
                break;
            }
            for change in read(&row)? {
                newest.insert(change.key, change);
                count += 1;
            }
            to = row.seq;
        }
        if count == 0 {
            transaction.rollback().await?;
            return Ok(0);
        }
        let registries: Vec<i64> = newest.keys().map(|key| key.registry.0).collect();
        let ids: Vec<IdBytes> = newest.keys().map(ToolKey::id_bytes).collect();
        let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
        let column = |of: fn(&Change) -> i64| newest.values().map(of).collect::<Vec<i64>>();
        let (seqs, times, kinds) =
            (column(|change| change.seq), column(|change| change.at.seconds()), column(|change| change.kinds.0));
        let columns = [
            Column::Integers(&registries),
            Column::Bytes(&ids),
            Column::Integers(&seqs),
            Column::Integers(&times),
            Column::Integers(&kinds),
        ];
        transaction.insert_many(&NEWEST, &columns).await?;
        transaction.execute(FORGET, &[Value::Integer(from), Value::Integer(to)]).await?;
        if transaction.execute(ADVANCE, &[Value::Integer(from), Value::Integer(to)]).await? == 0 {
            transaction.rollback().await?;
            return Ok(0);
        }
        transaction.commit().await?;
        Ok(count)
    }

    /// Returns a change of the compacted part, if it is the newest of its tool.
    pub(super) async fn newest_change(&self, seq: i64) -> Result<Option<Change>, Error> {
        let row = self.database().fetch_optional(ONE, &[Value::Integer(seq)]).await?;
        row.as_ref().map(|row| read_newest(&NewestRow::from_row(row)?)).transpose()
    }

    /// Returns the compacted changes after `cursor`.
    pub(super) async fn compacted_changes(&self, cursor: i64, limit: usize) -> Result<Compacted, Error> {
        let none = Compacted { changes: Vec::new(), cursor };
        let row = self.database().fetch_optional(COMPACTED, &[]).await?.ok_or(Error::Corrupt { what: "feed" })?;
        let compacted: i64 = row.scalar()?;
        if cursor >= compacted {
            return Ok(none);
        }
        if cursor > 0 && self.database().fetch_optional(KEPT, &[Value::Integer(cursor)]).await?.is_none() {
            return Err(Error::Forgotten { cursor, oldest: compacted + 1 });
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database().fetch(AFTER, &[Value::Integer(cursor), Value::Integer(limit)]).await?;
        let changes = NewestRow::from_rows(&rows).map(|row| read_newest(&row?)).collect::<Result<Vec<_>, Error>>()?;
        // More may have been compacted meanwhile, whose changes are among these.
        let cursor = changes.last().map_or(compacted, |last| last.seq.max(compacted));
        Ok(Compacted { changes, cursor })
    }
}

fn read_newest(row: &NewestRow<'_>) -> Result<Change, Error> {
    let key = ToolKey::from_columns(row.registry, row.tool)?;
    Ok(Change { key, seq: row.seq, at: row.at, kinds: Kinds(row.kinds) })
}
