//! Schedules the next verification of a tool, and how long a result is valid.

use std::time::Duration;

use toolcrib_core::clock::UnixTime;
use toolcrib_judge::MAX_WINDOW;

use super::groups::Lane;
use super::jobs_table::SLOW;
use super::look::Look;
use super::queue::{EXPIRED, Job, Next, Reason};
use crate::model::{ToolKey, ToolView};

/// The pause after the first verification without a result. Each following pause is twice as long.
const UNKNOWN_SECONDS: i64 = 60;

/// The longest pause between verifications of a refused tool: a week. Most of those were abandoned on the day they were registered.
const MAX_REFUSED_SECONDS: i64 = 7 * 86_400;

/// The pause when the node and the index are at different blocks: about one block time.
const BEHIND_SECONDS: i64 = 15;

/// The timeout of a first try. A nearby server responds in a tenth of a second and one with a cold start in one or two; a slower server is
/// tried again with the full timeout of a fetch, on separate capacity.
const FIRST_TRY: Duration = Duration::from_secs(3);

/// The inverse of the share of capacity that is for tools with slow servers.
const SLOW_SHARE: usize = 4;

/// The maximum number of open first tries, whatever the capacity: with bodies of at most 1 MiB and concurrent full tries they stay below
/// the 64 requests that the HTTP client allows.
const OPEN_TRIES: usize = 48;

/// How long a first try counts against the capacity. After that it only waits for the network and costs a socket, so another may begin.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// How long every change is kept: a month, so that readers may be offline during a holiday.
const KEEP_CHANGES: i64 = 30 * 86_400;

/// Options of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkOptions {
    /// Concurrent verifications. In addition a quarter of this number, and at least one, is for tools with slow servers.
    pub at_once: usize,
    /// The timeout of a first try. A slower server gets no verdict from it: it is tried again with the full timeout of a fetch, on the
    /// capacity for slow tools.
    pub first_try: Duration,
    /// Seconds between two verifications of a verified tool.
    pub interval: i64,
    /// The minimum interval, whatever `maxAge` says: priced tools set it to 0, which is meant for callers.
    pub soonest: i64,
    /// Seconds for which a listing is valid without another verification, unless `maxAge` is shorter; never longer than [`MAX_WINDOW`],
    /// and never shorter than twice `soonest`.
    pub window: i64,
    /// Seconds between two requests to an origin.
    pub pause: i64,
    /// How long to wait when nothing is due.
    pub poll: Duration,
    /// Seconds for which every change of the feed is kept; of older ones the newest of each tool. `None` keeps all.
    pub keep_changes: Option<i64>,
}

impl Default for WorkOptions {
    /// One verification an hour, which health assumes; ten minutes as the minimum interval; a listing is valid for a day.
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
    /// Returns the capacity for full tries of slow tools.
    pub(super) fn slow_places(&self) -> usize {
        (self.at_once / SLOW_SHARE).max(1)
    }

    /// Returns the capacity for first tries.
    pub(super) fn places(&self) -> usize {
        self.at_once.saturating_sub(self.slow_places()).max(1)
    }

    /// Returns the maximum number of open first tries, including those that only wait for the network.
    pub(super) fn open_tries(&self) -> usize {
        self.places().max(OPEN_TRIES)
    }

    /// Returns the priority of the next verification: a server that stays slow stays on the capacity for slow ones.
    fn priority(&self, job: &Job, look: &Look, reason: Reason) -> i64 {
        let took = look.evidence.manifest.as_ref().map_or(0, |exchange| exchange.timing.total);
        if job.lane == Lane::Slow && u128::from(took) >= self.first_try.as_micros() { SLOW } else { reason.priority() }
    }

    /// Returns the priority of a retry after a run without a result. It is never that of a change: retries must not delay new tools.
    pub(super) const fn priority_again(job: &Job) -> i64 {
        match job.lane {
            Lane::First => EXPIRED,
            Lane::Slow => SLOW,
        }
    }

    /// Returns the pause after a run without a result.
    pub(super) fn after_unknown(&self, attempts: u32) -> i64 {
        grown(UNKNOWN_SECONDS, attempts, self.interval)
    }

    /// Returns the pause when the node and the index are at different blocks.
    pub(super) fn while_behind(&self, attempts: u32) -> i64 {
        grown(BEHIND_SECONDS, attempts, self.interval)
    }

    /// Returns when a tool is verified again. A deregistered tool is never verified again.
    pub(super) fn next(&self, job: &Job, view: &ToolView, look: &Look, now: UnixTime) -> Option<Next> {
        if !view.row.is_active() {
            return None;
        }
        let at = |seconds: i64| now.plus(seconds.saturating_add(spread(job.key, seconds)));
        let attempts = job.attempts.saturating_add(1);
        let report = &look.report;
        if report.verified && report.conformant {
            // Half of the validity, so that one slow run does not hide it.
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
        // The first failure of a good tool does not inherit earlier pauses.
        let before = if was_good { 0 } else { job.attempts };
        let first = if is_suspect { self.soonest } else { self.interval };
        let pause = grown(first, before, MAX_REFUSED_SECONDS);
        let reason = if is_suspect && pause < self.interval { Reason::DriftSuspect } else { Reason::Expired };
        let priority = self.priority(job, look, reason);
        Some(Next { due_at: at(pause), early: 0, priority, reason, attempts: if was_good { 1 } else { attempts } })
    }

    /// Returns until when a verified tool is listed without another verification.
    pub(super) fn expires_at(&self, look: &Look) -> UnixTime {
        let longest = self.window.min(MAX_WINDOW as i64);
        let age = max_age(look).map_or(longest, |age| i64::try_from(age).unwrap_or(i64::MAX));
        look.evidence.gathered_at.plus(age.max(2 * self.soonest).min(longest))
    }
}

/// Returns for how many seconds the manifest may be cached, if it says so.
fn max_age(look: &Look) -> Option<u64> {
    look.manifest.as_ref().and_then(|manifest| manifest.max_age())
}

/// Returns a pause that doubles with each attempt, up to a maximum.
pub(crate) fn grown(first: i64, attempts: u32, longest: i64) -> i64 {
    first.saturating_mul(1_i64.checked_shl(attempts.min(32)).unwrap_or(i64::MAX)).min(longest.max(first))
}

/// Adds up to a tenth, by the hash of the tool: tools that were registered together do not stay synchronised for ever.
fn spread(key: ToolKey, seconds: i64) -> i64 {
    let id = key.id_bytes();
    spread_by(&[&key.registry.0.to_be_bytes()[..], &id].concat(), seconds)
}

/// Adds up to a tenth, by the hash of any name.
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
