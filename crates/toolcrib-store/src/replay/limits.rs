//! Limits of a store, and what it evicts first.

use toolcrib_core::clock::UnixTime;

/// Largest value in bytes of [`Limits::one_result_bytes`]: the largest output of a tool.
pub const MAX_RESULT_BYTES: u64 = 4 * 1024 * 1024;

/// Longest time in seconds for which the result of a settled call is kept.
pub const MAX_RESULT_SECONDS: i64 = 3_600;

/// The limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most payments. A row takes about 600 bytes with its indexes, so a million is some 600 MB on disk.
    pub entries: u64,
    /// Bytes of stored results above which new paid calls wait until delivered results have been dropped. Results of calls that are already
    /// running are stored beyond it, up to twice as many.
    pub result_bytes: u64,
    /// Largest result in bytes; at most [`MAX_RESULT_BYTES`]. A paid call with a larger output is refused and not charged.
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
    /// Returns limits for a store on disk.
    pub fn on_disk() -> Self {
        Self { result_bytes: 4 * 1024 * 1024 * 1024, ..Self::default() }
    }

    /// Returns the largest result in bytes that is stored.
    pub fn largest_result(&self) -> u64 {
        self.one_result_bytes.min(MAX_RESULT_BYTES)
    }

    /// Returns the hard limit of stored bytes, for results of calls that were accepted while there was room.
    pub(super) const fn most_result_bytes(&self) -> u64 {
        self.result_bytes.saturating_mul(2)
    }

    /// Returns what is left of the limits.
    pub(super) fn room(&self, entries: u64, result_bytes: u64) -> Room {
        let left = |limit: u64, used: u64| i64::try_from(i128::from(limit) - i128::from(used)).unwrap_or(i64::MAX);
        Room { entries: left(self.entries, entries), result_bytes: left(self.result_bytes, result_bytes) }
    }

    /// Returns how long results are kept, in seconds.
    pub const fn kept_seconds(&self) -> u64 {
        let seconds = if self.result_seconds < MAX_RESULT_SECONDS { self.result_seconds } else { MAX_RESULT_SECONDS };
        if seconds > 0 { seconds.cast_unsigned() } else { 0 }
    }

    /// Returns until when the result of a call that was settled now is kept.
    pub(super) const fn result_until(&self, now: UnixTime) -> i64 {
        now.seconds().saturating_add_unsigned(self.kept_seconds())
    }
}

/// What a store has room for. Negative if the limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Payments.
    pub entries: i64,
    /// Bytes of results.
    pub result_bytes: i64,
}
