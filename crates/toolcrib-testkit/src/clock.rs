//! A clock that tests move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use toolcrib_core::clock::{Clock, UnixTime};

/// The time at which tests begin: 2027-01-15.
pub const START: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A clock that stands still until a test moves it. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct MovingClock(Arc<AtomicI64>);

impl MovingClock {
    /// A clock that shows [`START`].
    #[must_use]
    pub fn new() -> Self {
        Self::at(START)
    }

    /// A clock that shows another time.
    #[must_use]
    pub fn at(time: UnixTime) -> Self {
        Self(Arc::new(AtomicI64::new(time.seconds())))
    }

    /// Moves it forward.
    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Moves it to so many seconds after [`START`].
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
