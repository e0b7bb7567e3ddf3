//! When a tool is looked at again, and until when what was found holds.

use std::time::Duration;

use toolcrib_core::clock::UnixTime;
use toolcrib_judge::MAX_WINDOW;

use super::groups::Lane;
use super::jobs_table::SLOW;
use super::look::Look;
use super::queue::{EXPIRED, Job, Next, Reason};
use crate::model::{ToolKey, ToolView};

/// The pause after the first look that our network spoilt. Each one after it is twice as long.
const UNKNOWN_SECONDS: i64 = 60;

/// The longest pause between looks at a tool that was refused: a week. Most of those were abandoned on the day they were registered.
const MAX_REFUSED_SECONDS: i64 = 7 * 86_400;

/// The pause when the chain is not where the index is: about a block.
const BEHIND_SECONDS: i64 = 15;

/// The time of a first try. A server nearby answers in a tenth of a second and one that has to start first in one or two; whatever takes
/// longer is tried again with all the time that a fetch may take, on places of its own.
const FIRST_TRY: Duration = Duration::from_secs(3);

/// One in so many places is for tools whose servers are slow.
const SLOW_SHARE: usize = 4;

/// First tries that may be open at the same time, however few places there are: with bodies of at most 1 MiB and full tries beside them
/// they stay below the 64 requests that the HTTP client has under way.
const OPEN_TRIES: usize = 48;

/// How long a first try takes up a place. After it, it waits for the network and costs a socket, so that another may begin.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// How long every change is kept: a month, so that readers may be away for a holiday.
const KEEP_CHANGES: i64 = 30 * 86_400;

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkOptions {
    /// Verifications at once. A quarter of the places, and at least one more, is for tools whose servers are slow.
    pub at_once: usize,
    /// The longest time that a server has in a first try. One that needs more gets no verdict from it: it is tried again with all the
    /// time that a fetch may take, on the places for slow tools.
    pub first_try: Duration,
    /// Seconds between two looks at a verified tool.
    pub interval: i64,
    /// The shortest such time, whatever `maxAge` says: priced tools ask for 0, which is meant for whoever calls them.
    pub soonest: i64,
    /// Seconds that a listing holds without another look, unless `maxAge` is shorter; never longer than [`MAX_WINDOW`], and never shorter
    /// than twice `soonest`.
    pub window: i64,
    /// Seconds between two requests to an origin.
    pub pause: i64,
    /// How long to wait when nothing is due.
    pub poll: Duration,
    /// Seconds for which every change of the feed is kept; of older ones the newest of each tool. `None` keeps all.
    pub keep_changes: Option<i64>,
}

impl Default for WorkOptions {
    /// One look an hour, which is what health counts by; ten minutes for those who ask for more; a listing holds for a day.
    fn default() -> Self {
        Self {
            at_once: 16,
            first_try: FIRST_TRY,
            interval: 3_600,
            soonest: 600,
            window: MAX_WINDOW as i64,
            pause: 1,
            poll: Duration::from_secs(1),
            keep_changes: Some(KEEP_CHANGES),
        }
    }
}

impl WorkOptions {
    /// Places for full tries of slow tools.
    pub(super) fn slow_places(&self) -> usize {
        (self.at_once / SLOW_SHARE).max(1)
    }

    /// Places for first tries.
    pub(super) fn places(&self) -> usize {
        self.at_once.saturating_sub(self.slow_places()).max(1)
    }

    /// First tries that may be open, those that only wait for the network included.
    pub(super) fn open_tries(&self) -> usize {
        self.places().max(OPEN_TRIES)
    }

    /// The priority of the verification after this one: a server that stays slow stays on the places for slow ones.
    fn priority(&self, job: &Job, look: &Look, reason: Reason) -> i64 {
        let took = look.evidence.manifest.as_ref().map_or(0, |exchange| exchange.timing.total);
        if job.lane == Lane::Slow && u128::from(took) >= self.first_try.as_micros() { SLOW } else { reason.priority() }
    }

    /// The priority of another try after one that told nothing. It is never that of a change: retries must not keep new tools waiting.
    pub(super) const fn priority_again(job: &Job) -> i64 {
        match job.lane {
            Lane::First => EXPIRED,
            Lane::Slow => SLOW,
        }
    }

    /// The pause after a look that told nothing.
    pub(super) fn after_unknown(&self, attempts: u32) -> i64 {
        grown(UNKNOWN_SECONDS, attempts, self.interval)
    }

    /// The pause after a look at a chain that is not where the index is.
    pub(super) fn while_behind(&self, attempts: u32) -> i64 {
        grown(BEHIND_SECONDS, attempts, self.interval)
    }

    /// When a tool is looked at again. Nobody looks again at one that was removed for good.
    pub(super) fn next(&self, job: &Job, view: &ToolView, look: &Look, now: UnixTime) -> Option<Next> {
        if !view.row.is_active() {
            return None;
        }
        let at = |seconds: i64| now.plus(seconds.saturating_add(spread(job.key, seconds)));
        let attempts = job.attempts.saturating_add(1);
        let report = &look.report;
        if report.verified && report.conformant {
            // Half of the time that it holds, so that one slow look does not hide it.
            let age = max_age(look).map_or(i64::MAX, |age| i64::try_from(age).unwrap_or(i64::MAX));
            let pause = (age / 2).min(self.interval).max(self.soonest);
            let priority = self.priority(job, look, Reason::Expired);
            return Some(Next { due_at: at(pause), early: 0, priority, reason: Reason::Expired, attempts: 0 });
        }
        if report.verdict == toolcrib_judge::Verdict::Unknown {
            let pause = self.after_unknown(job.attempts);
            let priority = Self::priority_again(job);
            return Some(Next { due_at: at(pause), early: 0, priority, reason: job.reason.again(), attempts });
        }
        let was_good = view.listing.as_ref().is_some_and(|listing| listing.is_good_for(&view.row));
        let is_suspect = was_good || job.reason == Reason::DriftSuspect;
        // The first bad look at a good tool does not inherit the pauses of other times.
        let before = if was_good { 0 } else { job.attempts };
        let first = if is_suspect { self.soonest } else { self.interval };
        let pause = grown(first, before, MAX_REFUSED_SECONDS);
        let reason = if is_suspect && pause < self.interval { Reason::DriftSuspect } else { Reason::Expired };
        let priority = self.priority(job, look, reason);
        Some(Next { due_at: at(pause), early: 0, priority, reason, attempts: if was_good { 1 } else { attempts } })
    }

    /// Until when a verified tool is listed without another look.
    pub(super) fn expires_at(&self, look: &Look) -> UnixTime {
        let longest = self.window.min(MAX_WINDOW as i64);
        let age = max_age(look).map_or(longest, |age| i64::try_from(age).unwrap_or(i64::MAX));
        look.evidence.gathered_at.plus(age.max(2 * self.soonest).min(longest))
    }
}

/// Seconds that the manifest may be relied on, if it says so.
fn max_age(look: &Look) -> Option<u64> {
    look.manifest.as_ref().and_then(|manifest| manifest.max_age())
}

/// A pause that doubles with each attempt, up to a longest one.
pub(crate) fn grown(first: i64, attempts: u32, longest: i64) -> i64 {
    first.saturating_mul(1_i64.checked_shl(attempts.min(32)).unwrap_or(i64::MAX)).min(longest.max(first))
}

/// Up to a tenth more, by the tool: what was registered at once is not looked at at once for ever.
fn spread(key: ToolKey, seconds: i64) -> i64 {
    let id = key.id_bytes();
    spread_by(&[&key.registry.0.to_be_bytes()[..], &id].concat(), seconds)
}

/// The same, by any name.
pub(crate) fn spread_by(name: &[u8], seconds: i64) -> i64 {
    let hash = alloy_primitives::keccak256(name);
    i64::from(u16::from_be_bytes([hash[0], hash[1]])) * (seconds / 10) / i64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;
    use crate::model::RegistryId;

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<_> = (0..6).map(|attempts| grown(60, attempts, 1_000)).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1_000]);
        assert_eq!(grown(60, u32::MAX, 3_600), 3_600);
        assert_eq!(grown(5_000, 0, 1_000), 5_000, "never shorter than the first");
        for id in 0..1_000_u64 {
            let spread = spread(ToolKey { registry: RegistryId(1), id: U256::from(id) }, 3_600);
            assert!((0..=360).contains(&spread), "{spread}");
        }
    }
}
