//! Time as an argument.
//!
//! Core never reads the clock. Code that needs the current time takes a [`Clock`] or, better, a [`UnixTime`]; the only implementation that
//! asks the operating system is in the binary.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whole seconds since 1970-01-01T00:00:00Z. Negative before then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(i64);

impl UnixTime {
    /// The time `seconds` after the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Seconds since the epoch.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// Returns the time `seconds` later.
    #[must_use]
    pub const fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to `self`; negative if `earlier` is later. Saturates.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A source of the current time.
pub trait Clock {
    /// The current time.
    fn now(&self) -> UnixTime;
}

/// A clock that always returns the same time: for tests and for judging saved evidence.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub UnixTime);

impl Clock for FixedClock {
    fn now(&self) -> UnixTime {
        self.0
    }
}
