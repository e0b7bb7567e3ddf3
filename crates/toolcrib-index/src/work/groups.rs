//! Fair queueing: jobs of one creator or one site are spaced out.
//!
//! Each group has the time slot of its last job. A new job gets the first slot that is far enough from the last slots of its creator and
//! its site, so that the first job of a new creator is due at once, while the thousandth of a flood is due hours from now. A job with a
//! future slot may still run early on workers' free capacity (`early` in its row), in slot order, so no capacity is wasted.
//!
//! This is start-time fair queueing with seconds as virtual time: leasing stays an ordered index scan, however many groups and jobs there
//! are, and a debt expires as time passes.

use std::collections::BTreeMap;

use alloy_primitives::keccak256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

use super::site::site_of;
use crate::{Error, Index};

/// Seconds between two slots of a group. A verification that fails slowly takes three seconds of capacity, so a group that floods the
/// queue gets less than a third of one verification slot.
const SPACING: i64 = 10;

/// The same for full tries of slow servers, which take up to a minute.
const SLOW_SPACING: i64 = 60;

/// The furthest slot in the future, in seconds. Beyond it a flood shares one time, and its order no longer matters.
const MAX_AHEAD: i64 = 86_400;

/// Seconds for which a site counts as slow after a first try that timed out: tools that are registered there meanwhile go to the slow lane
/// without a first try.
const SLOW_SECONDS: i64 = 600;

/// The id of a group: its kind, and the start of a hash. Two groups with the same id would only share their slots.
type GroupId = [u8; 9];

/// The groups that a tool belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    creator: [u8; 8],
    site: [u8; 8],
}

/// The capacity that a job may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A first try with a short timeout.
    First,
    /// A full try, on a share of the capacity.
    Slow,
}

impl Groups {
    /// Returns the groups of a tool by its creator and the URI of its manifest.
    pub(crate) fn of(creator: &[u8], metadata_uri: &str) -> Self {
        let start = |bytes: &[u8]| {
            let mut id = [0; 8];
            id.copy_from_slice(&keccak256(bytes)[..8]);
            id
        };
        // Manifests that cannot be fetched need no connection; they share a group.
        Self { creator: start(creator), site: start(site_of(metadata_uri).unwrap_or_default().as_bytes()) }
    }

    fn ids(self, lane: Lane) -> [GroupId; 2] {
        let kinds = match lane {
            Lane::First => [b'c', b'd'],
            Lane::Slow => [b'C', b'D'],
        };
        let id = |kind: u8, group: [u8; 8]| {
            let mut id = [kind; 9];
            id[1..].copy_from_slice(&group);
            id
        };
        [id(kinds[0], self.creator), id(kinds[1], self.site)]
    }
}

/// The last slots of groups that were read.
#[derive(Debug, Default)]
pub(crate) struct Turns(BTreeMap<GroupId, Group>);

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    turn_at: i64,
    slow_until: i64,
}

row! {
    struct GroupRow<'r> {
        turn_at: i64,
        slow_until: i64,
        id: &'r [u8],
    }
}

const READ: &str = sql!("SELECT ", GroupRow::COLUMNS, " FROM index_group WHERE id");
const WRITE: Bulk = Bulk {
    table: "index_group",
    columns: &["id", "turn_at", "slow_until"],
    conflict: "ON CONFLICT (id) DO UPDATE SET
        turn_at = CASE WHEN excluded.turn_at > index_group.turn_at THEN excluded.turn_at ELSE index_group.turn_at END,
        slow_until = CASE WHEN excluded.slow_until > index_group.slow_until THEN excluded.slow_until ELSE index_group.slow_until END",
};
/// A slot in the past has no effect any more.
const FORGET: &str = "DELETE FROM index_group WHERE turn_at < $1 AND slow_until < $1";

impl Turns {
    /// Reads the last slots of these tools' groups.
    pub(crate) async fn read(transaction: &mut Transaction, tools: impl Iterator<Item = Groups>) -> Result<Self, Error> {
        let mut turns: BTreeMap<GroupId, Group> = BTreeMap::new();
        for groups in tools {
            for id in groups.ids(Lane::First).into_iter().chain(groups.ids(Lane::Slow)) {
                turns.insert(id, Group::default());
            }
        }
        let ids: Vec<&[u8]> = turns.keys().map(<[u8; 9]>::as_slice).collect();
        let mut found = Vec::new();
        for row in GroupRow::from_rows(&transaction.fetch_among(READ, &[], &ids).await?) {
            let GroupRow { turn_at, slow_until, id } = row?;
            let id: GroupId = id.try_into().map_err(|_| Error::Corrupt { what: "group of jobs" })?;
            found.push((id, Group { turn_at, slow_until }));
        }
        turns.extend(found);
        Ok(Self(turns))
    }

    /// Returns the lane of a new job: the slow one while its site is known to be slow.
    pub(crate) fn lane(&self, groups: Groups, now: UnixTime) -> Lane {
        let [_, site] = groups.ids(Lane::First);
        if self.0.get(&site).is_some_and(|group| group.slow_until > now.seconds()) { Lane::Slow } else { Lane::First }
    }

    /// Takes the next slot for a job that is due at `due`, and returns its time, which is never earlier.
    pub(crate) fn take(&mut self, groups: Groups, lane: Lane, due: UnixTime, now: UnixTime) -> UnixTime {
        let spacing = match lane {
            Lane::First => SPACING,
            Lane::Slow => SLOW_SPACING,
        };
        let ids = groups.ids(lane);
        let after = |id: &GroupId| self.0.get(id).map_or(0, |group| group.turn_at.saturating_add(spacing));
        let turn = ids.iter().map(after).fold(due.seconds(), i64::max);
        // A clock that was once ahead must not delay a group for longer than a flood does.
        let turn = turn.min(now.plus(MAX_AHEAD).seconds()).max(due.seconds());
        for id in ids {
            self.0.entry(id).or_default().turn_at = turn;
        }
        UnixTime::from_seconds(turn)
    }

    /// Records that a first try at this site timed out.
    pub(crate) fn is_slow(&mut self, groups: Groups, now: UnixTime) {
        let [_, site] = groups.ids(Lane::First);
        self.0.entry(site).or_default().slow_until = now.plus(SLOW_SECONDS).seconds();
    }

    /// Writes what changed, sorted by id, to avoid deadlocks between two writers. Groups are always written before jobs.
    pub(crate) async fn write(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let used = || self.0.iter().filter(|(_, group)| group.turn_at > 0 || group.slow_until > 0);
        let ids: Vec<&[u8]> = used().map(|(id, _)| id.as_slice()).collect();
        let turns: Vec<i64> = used().map(|(_, group)| group.turn_at).collect();
        let slow: Vec<i64> = used().map(|(_, group)| group.slow_until).collect();
        if !ids.is_empty() {
            let columns = [Column::Bytes(&ids), Column::Integers(&turns), Column::Integers(&slow)];
            transaction.insert_many(&WRITE, &columns).await?;
        }
        Ok(())
    }

    /// Deletes groups whose last slot is in the past.
    pub(crate) async fn forget(index: &Index, now: UnixTime) -> Result<(), Error> {
        index.database().execute(FORGET, &[Value::Integer(now.plus(-SLOW_SPACING).seconds())]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn groups(creator: u8, host: &str) -> Groups {
        Groups::of(&[creator; 20], &format!("https://{host}/.well-known/ai-tool/a.json"))
    }

    #[test]
    fn a_flood_waits_behind_itself_and_newcomers_do_not() {
        let mut turns = Turns::default();
        let mut take = |groups, lane| turns.take(groups, lane, NOW, NOW).since(NOW);
        for number in 0..5 {
            assert_eq!(take(groups(1, &format!("a{number}.example")), Lane::First), number * SPACING, "one creator");
        }
        for number in 0..5 {
            let host = format!("t{number}.site.example");
            assert_eq!(take(groups(10 + number as u8, &host), Lane::First), number * SPACING, "one site");
        }
        assert_eq!(take(groups(2, "honest.example"), Lane::First), 0);
        assert_eq!(take(groups(3, "one.vercel.app"), Lane::First), 0);
        assert_eq!(take(groups(4, "two.vercel.app"), Lane::First), 0, "customers of one platform are apart");
        assert_eq!(take(groups(1, "a1.example"), Lane::Slow), 0, "each lane has its own turns");
        for _ in 0..20_000 {
            take(groups(1, "a1.example"), Lane::First);
        }
        assert_eq!(take(groups(1, "a1.example"), Lane::First), MAX_AHEAD);
        let later = NOW.plus(2 * MAX_AHEAD);
        assert_eq!(turns.take(groups(1, "a1.example"), Lane::First, later, later), later, "a debt is forgotten");
    }

    #[test]
    fn a_slow_site_is_known_for_a_while() {
        let mut turns = Turns::default();
        turns.is_slow(groups(1, "a.slow.example"), NOW);
        assert_eq!(turns.lane(groups(2, "b.slow.example"), NOW), Lane::Slow);
        assert_eq!(turns.lane(groups(1, "other.example"), NOW), Lane::First, "its creator is not");
        assert_eq!(turns.lane(groups(2, "b.slow.example"), NOW.plus(SLOW_SECONDS)), Lane::First);
    }
}
