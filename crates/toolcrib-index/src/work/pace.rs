//! When a tool is looked at again, and until when what was found holds.

use std::time::Duration;

use toolcrib_core::clock::UnixTime;
use toolcrib_core::judge::{self, MAX_WINDOW};

use super::look::Look;
use super::queue::{Job, Next, Reason};
use crate::model::{ToolKey, ToolView};

/// The pause after the first look that our network spoilt. Each one after it is twice as long.
const UNKNOWN_SECONDS: i64 = 60;

/// The longest pause between looks at a tool that was refused: a week. Most of those were abandoned on the day they were registered.
const MAX_REFUSED_SECONDS: i64 = 7 * 86_400;

/// The pause when the chain is not where the index is: about a block.
const BEHIND_SECONDS: i64 = 15;

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkOptions {
    /// Looks at once.
    pub at_once: usize,
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
}

impl Default for WorkOptions {
    /// One look an hour, which is what health counts by; ten minutes for those who ask for more; a listing holds for a day.
    fn default() -> Self {
        Self { at_once: 16, interval: 3_600, soonest: 600, window: MAX_WINDOW as i64, pause: 1, poll: Duration::from_secs(1) }
    }
}

impl WorkOptions {
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
            return Some(Next { due_at: at(pause), reason: Reason::Expired, attempts: 0 });
        }
        if report.verdict == judge::Verdict::Unknown {
            let pause = self.after_unknown(job.attempts);
            return Some(Next { due_at: at(pause), reason: job.reason.again(), attempts });
        }
        let was_good = view.listing.as_ref().is_some_and(|listing| listing.is_good_for(&view.row));
        let is_suspect = was_good || job.reason == Reason::DriftSuspect;
        // The first bad look at a good tool does not inherit the pauses of other times.
        let before = if was_good { 0 } else { job.attempts };
        let first = if is_suspect { self.soonest } else { self.interval };
        let pause = grown(first, before, MAX_REFUSED_SECONDS);
        let reason = if is_suspect && pause < self.interval { Reason::DriftSuspect } else { Reason::Expired };
        Some(Next { due_at: at(pause), reason, attempts: if was_good { 1 } else { attempts } })
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
fn grown(first: i64, attempts: u32, longest: i64) -> i64 {
    first.saturating_mul(1_i64.checked_shl(attempts.min(32)).unwrap_or(i64::MAX)).min(longest.max(first))
}

/// Up to a tenth more, by the tool: what was registered at once is not looked at at once for ever.
fn spread(key: ToolKey, seconds: i64) -> i64 {
    let id = key.id_bytes();
    let hash = alloy_primitives::keccak256([&key.registry.0.to_be_bytes()[..], &id].concat());
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
