//! A clock that tests set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use toolcrib_core::clock::{Clock, UnixTime};

/// The start time of tests: 2027-01-15.
pub const START: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A clock that does not move until a test sets it. Clones share the time.
#[derive(Clone, Debug)]
pub struct MovingClock(Arc<AtomicI64>);

impl MovingClock {
    /// Returns a clock that shows [`START`].
    #[must_use]
    pub fn new() -> Self {
        Self::at(START)
    }

    /// Returns a clock that shows another time.
    #[must_use]
    pub fn at(time: UnixTime) -> Self {
        Self(Arc::new(AtomicI64::new(time.seconds())))
    }

    /// Moves it forward.
    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets it to this number of seconds after [`START`].
    pub fn set(&self, seconds: i64) {
        self.0.store(START.seconds() + seconds, Ordering::SeqCst);
    }
}

impl Default for MovingClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MovingClock {
    fn now(&self) -> UnixTime {
        UnixTime::from_seconds(self.0.load(Ordering::SeqCst))
    }
}
