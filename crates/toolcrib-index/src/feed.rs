//! The change feed: which tools changed, in the order in which the changes were committed.
//!
//! Whoever changes a tool records it in the same transaction, as the last thing before the commit. The number comes from one row that stays
//! locked until then, so numbers are committed in their order and without gaps: a reader that has seen number 7 will never be surprised by
//! a 6. Readers keep a cursor and poll. One of them makes the jobs of workers (`work/intake.rs`): whoever clears a feed that has grown long
//! must leave what that one has not read.
//!
//! What a transaction records is packed into few rows: of all that a follower writes, numbers and ids are read again in their order alone,
//! so a row for each would cost more than it is good for.

use alloy_primitives::U256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{Bulk, Column, Row, Transaction, Value};

use crate::model::{RegistryId, ToolKey};
use crate::{Error, Index};

/// A row of `index_change` has the changes from number `first` to number `seq`, packed.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_feed (id BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL);
    INSERT INTO index_feed (id, last) VALUES (1, 0);
    CREATE TABLE index_change (seq BIGINT NOT NULL PRIMARY KEY, first BIGINT NOT NULL, at BIGINT NOT NULL, changes BYTES NOT NULL);",
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
    /// The operator blocked or hid it, or does so no longer.
    pub const MODERATION: Self = Self(512);

    const NAMES: [(Self, &'static str); 10] = [
        (Self::REGISTERED, "registered"),
        (Self::METADATA, "metadata"),
        (Self::PREDICATE, "predicate"),
        (Self::DEREGISTERED, "deregistered"),
        (Self::REORGANISED, "reorganised"),
        (Self::UPGRADED, "upgraded"),
        (Self::VERIFICATION, "verification"),
        (Self::FACTS, "facts"),
        (Self::USAGE, "usage"),
        (Self::MODERATION, "moderation"),
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

    /// Whether the chain changed the tool. Whoever looks at tools or imports them says what is shown as well, and nothing happened on the
    /// chain then.
    pub(crate) const fn is_of_chain(self) -> bool {
        const SHOWN: Kinds = Kinds::VERIFICATION.and(Kinds::FACTS).and(Kinds::USAGE).and(Kinds::MODERATION);
        self.0 != 0 && self.0 & SHOWN.0 == 0
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
/// Rows have at most [`PER_ROW`] changes, so the last number of a row that has wanted ones is below a bound, and no more is read.
const AFTER: &str = "SELECT first, seq, at, changes FROM index_change WHERE seq > $1 AND seq < $3 AND first <= $2 ORDER BY seq";
const ROWS: &str = "SELECT first, seq, at, changes FROM index_change WHERE seq > $1 AND seq <= $2 ORDER BY seq";
const OLDEST: &str = "SELECT MIN(first) FROM index_change";
const CHANGE: Bulk = Bulk { table: "index_change", columns: &["seq", "first", "at", "changes"], conflict: "" };

/// Most changes of one row: a few kilobytes, and a page is a few rows.
const PER_ROW: usize = 500;

/// Records changes, one for each tool, and gives the number of the last. Do this last before the commit: from here on other writers wait.
pub async fn record(transaction: &mut Transaction, changes: &[(ToolKey, Kinds)], now: UnixTime) -> Result<i64, Error> {
    let count = i64::try_from(changes.len()).map_err(|_| Error::Corrupt { what: "number of changes" })?;
    let row = transaction.fetch_optional(NUMBER, &[Value::Integer(count)]).await?;
    let last = row.ok_or(Error::Corrupt { what: "feed" })?.integer(0)?;
    if changes.is_empty() {
        return Ok(last);
    }
    let rows: Vec<_> = changes.chunks(PER_ROW).collect();
    let packed: Vec<Vec<u8>> = rows.iter().map(|changes| pack(changes)).collect();
    let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
    let (mut firsts, mut seqs) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let mut next = last - count + 1;
    for row in &rows {
        firsts.push(next);
        next += row.len() as i64;
        seqs.push(next - 1);
    }
    let times = vec![now.seconds(); rows.len()];
    let columns = [Column::Integers(&seqs), Column::Integers(&firsts), Column::Integers(&times), Column::Bytes(&packed)];
    transaction.insert_many(&CHANGE, &columns).await?;
    Ok(last)
}

/// The number of the last change.
pub(crate) async fn last(transaction: &mut Transaction) -> Result<i64, Error> {
    let row = transaction.fetch_optional(LAST, &[]).await?;
    Ok(row.ok_or(Error::Corrupt { what: "feed" })?.integer(0)?)
}

/// The changes after `cursor`, about `count` of them: rows are not cut. An error when some of them are no longer kept.
pub(crate) async fn after(transaction: &mut Transaction, cursor: i64, count: i64) -> Result<Vec<Change>, Error> {
    // Before the rows: what is committed in between is not missing.
    let last = last(transaction).await?;
    let end = cursor.saturating_add(count.max(PER_ROW as i64));
    let mut changes = Vec::new();
    for row in transaction.fetch(ROWS, &[Value::Integer(cursor), Value::Integer(end)]).await? {
        changes.extend(read(&row)?.filter(|change| change.seq > cursor));
    }
    if is_gap(cursor, &changes, last) {
        let oldest = changes.first().map(|change| change.seq);
        return Err(Error::Forgotten { cursor, oldest: oldest.unwrap_or_default() });
    }
    Ok(changes)
}

/// The changes of a row.
fn read(row: &Row) -> Result<impl Iterator<Item = Change> + use<>, Error> {
    let (first, seq, at) = (row.integer(0)?, row.integer(1)?, UnixTime::from_seconds(row.integer(2)?));
    let unpacked = unpack(row.bytes(3)?).ok_or(Error::Corrupt { what: "change" })?;
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
    /// The number of the last change.
    pub async fn last_change(&self) -> Result<i64, Error> {
        let row = self.database().fetch_optional(LAST, &[]).await?;
        Ok(row.ok_or(Error::Corrupt { what: "feed" })?.integer(0)?)
    }

    /// The changes after `cursor`, at most `limit`. An error when some of them are no longer kept.
    pub async fn changes(&self, cursor: i64, limit: usize) -> Result<Vec<Change>, Error> {
        let limit = limit.min(MAX_PAGE);
        // Before the rows: what is committed in between is not missing.
        let last = self.last_change().await?;
        let end = cursor.saturating_add_unsigned(limit as u64);
        let bound = end.saturating_add_unsigned(PER_ROW as u64);
        let values = [Value::Integer(cursor), Value::Integer(end), Value::Integer(bound)];
        let mut changes = Vec::with_capacity(limit);
        for row in self.database().fetch(AFTER, &values).await? {
            changes.extend(read(&row)?.filter(|change| change.seq > cursor && change.seq <= end));
        }
        if is_gap(cursor, &changes, last) {
            let oldest = self.database().fetch_optional(OLDEST, &[]).await?;
            let oldest = oldest.map(|row| row.optional_integer(0)).transpose()?.flatten();
            return Err(Error::Forgotten { cursor, oldest: oldest.unwrap_or_default() });
        }
        Ok(changes)
    }
}

/// Registry, length of the id, the id without its leading zeros, and kinds, of each change; numbers as in LEB128.
fn pack(changes: &[(ToolKey, Kinds)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * changes.len());
    let number = |bytes: &mut Vec<u8>, mut value: u64| {
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    };
    for (key, kinds) in changes {
        number(&mut bytes, key.registry.0.cast_unsigned());
        let id = key.id.to_be_bytes_trimmed_vec();
        // At most 32.
        bytes.push(id.len() as u8);
        bytes.extend_from_slice(&id);
        number(&mut bytes, kinds.0.cast_unsigned());
    }
    bytes
}

/// What was packed. `None` when it was not.
fn unpack(mut bytes: &[u8]) -> Option<Vec<(ToolKey, Kinds)>> {
    fn number(bytes: &mut &[u8]) -> Option<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value.cast_signed());
            }
        }
        None
    }
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let registry = RegistryId(number(&mut bytes)?);
        let (length, rest) = bytes.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        let id = U256::try_from_be_slice(id)?;
        changes.push((ToolKey { registry, id }, Kinds(number(&mut bytes)?)));
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(rows in proptest::collection::vec((any::<i64>(), any::<[u8; 32]>(), 0_usize..32, 0_i64..512), 0..20)) {
            let changes: Vec<(ToolKey, Kinds)> = rows.into_iter().map(|(registry, mut id, zeros, kinds)| {
                id[..zeros].fill(0);
                (ToolKey { registry: RegistryId(registry), id: U256::from_be_bytes(id) }, Kinds(kinds))
            }).collect();
            let packed = pack(&changes);
            prop_assert_eq!(unpack(&packed), Some(changes));
            if !packed.is_empty() {
                // Cut off, it is fewer or nothing, and never a panic.
                let _ = unpack(&packed[..packed.len() - 1]);
            }
        }

        #[test]
        fn rubbish_does_no_harm(bytes in any::<Vec<u8>>()) {
            let _ = unpack(&bytes);
        }
    }
}
