//! How much a store holds, and what it lets go of first.

use toolcrib_core::clock::UnixTime;

/// Largest result in bytes that can be set as [`Limits::one_result_bytes`]: what a tool may answer at all.
pub const MAX_RESULT_BYTES: u64 = 4 * 1024 * 1024;

/// Longest time that the result of a settled call is kept, in seconds.
pub const MAX_RESULT_SECONDS: i64 = 3_600;

/// How much a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Payments at most. A row takes about 600 bytes with its indexes, so a million is some 600 MB on disk.
    pub entries: u64,
    /// Bytes of kept results at which new sales wait until delivered results have been dropped. Results of calls that are
    /// already running are kept beyond it, up to twice as many.
    pub result_bytes: u64,
    /// Largest result in bytes; at most [`MAX_RESULT_BYTES`]. A paid call that answers more is refused and not charged.
    pub one_result_bytes: u64,
    /// How long a result is kept after its call was settled, in seconds; at most [`MAX_RESULT_SECONDS`].
    pub result_seconds: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            result_bytes: 256 * 1024 * 1024,
            one_result_bytes: 1024 * 1024,
            result_seconds: MAX_RESULT_SECONDS,
        }
    }
}

impl Limits {
    /// Limits for a store on disk.
    pub fn on_disk() -> Self {
        Self { result_bytes: 4 * 1024 * 1024 * 1024, ..Self::default() }
    }

    /// Largest result in bytes that is kept.
    pub fn largest_result(&self) -> u64 {
        self.one_result_bytes.min(MAX_RESULT_BYTES)
    }

    /// The hard limit of kept bytes, for results of calls that were let in while there was room.
    pub(super) const fn most_result_bytes(&self) -> u64 {
        self.result_bytes.saturating_mul(2)
    }

    /// What is left of the limits.
    pub(super) fn room(&self, entries: u64, result_bytes: u64) -> Room {
        let left = |limit: u64, used: u64| i64::try_from(i128::from(limit) - i128::from(used)).unwrap_or(i64::MAX);
        Room { entries: left(self.entries, entries), result_bytes: left(self.result_bytes, result_bytes) }
    }

    /// How long results are kept, in seconds.
    pub const fn kept_seconds(&self) -> u64 {
        let seconds = if self.result_seconds < MAX_RESULT_SECONDS { self.result_seconds } else { MAX_RESULT_SECONDS };
        if seconds > 0 { seconds.cast_unsigned() } else { 0 }
    }

    /// When the result of a call that was settled now is let go.
    pub(super) const fn result_until(&self, now: UnixTime) -> i64 {
        now.seconds().saturating_add_unsigned(self.kept_seconds())
    }
}

/// What a store has room for. Negative where the limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Payments.
    pub entries: i64,
    /// Bytes of results.
    pub result_bytes: i64,
}
