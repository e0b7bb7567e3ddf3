//! The chain's clock: a base clock with an offset that tests can set.

use std::fmt;

use toolcrib_core::clock::{Clock, UnixTime};

/// A clock that can be moved.
///
/// Blocks may have equal timestamps. Most development chains increase the timestamp with every block, and so run ahead of real time while
/// transactions are mined quickly; then signatures that are valid for a minute are expired on arrival.
pub struct TravelClock {
    base: Box<dyn Clock + Send>,
    offset: i64,
    next: Option<u64>,
}

impl TravelClock {
    /// A clock that shows the time of `base` until it is moved.
    pub fn new(base: impl Clock + Send + 'static) -> Self {
        Self { base: Box::new(base), offset: 0, next: None }
    }

    /// The offset in seconds.
    pub const fn offset(&self) -> i64 {
        self.offset
    }

    /// Restores an offset, for snapshots and state files.
    pub const fn set_offset(&mut self, offset: i64) {
        self.offset = offset;
        self.next = None;
    }

    /// Moves the clock forward, or back with a negative number. Saturates.
    pub const fn advance(&mut self, seconds: i64) {
        self.offset = self.offset.saturating_add(seconds);
    }

    /// Sets the current time to `timestamp`.
    pub fn set(&mut self, timestamp: u64) {
        let timestamp = i64::try_from(timestamp).unwrap_or(i64::MAX);
        self.offset = timestamp.saturating_sub(self.base.now().seconds());
    }

    /// Sets the time of the next block; the clock continues from there.
    pub const fn set_next(&mut self, timestamp: u64) {
        self.next = Some(timestamp);
    }

    /// The time that the next block would have. It is at least `parent`, its parent's time.
    pub fn upcoming(&self, parent: u64) -> u64 {
        self.next.unwrap_or_else(|| u64::try_from(self.now().seconds()).unwrap_or(0)).max(parent)
    }

    /// The time of the block that is being mined. It is at least `parent`, its parent's time.
    pub fn take_next(&mut self, parent: u64) -> u64 {
        let timestamp = self.upcoming(parent);
        if self.next.take().is_some() {
            self.set(timestamp);
        }
        timestamp
    }
}

impl Clock for TravelClock {
    fn now(&self) -> UnixTime {
        UnixTime::from_seconds(self.base.now().seconds().saturating_add(self.offset))
    }
}

impl fmt::Debug for TravelClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TravelClock").field("offset", &self.offset).field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::clock::FixedClock;

    use super::*;

    #[test]
    fn time_moves_as_told_and_never_before_the_parent() {
        let mut clock = TravelClock::new(FixedClock(UnixTime::from_seconds(1_000)));
        assert_eq!(clock.take_next(0), 1_000);
        assert_eq!(clock.take_next(1_000), 1_000);
        assert_eq!(clock.take_next(1_001), 1_001);
        clock.advance(50);
        assert_eq!(clock.take_next(1_000), 1_050);
        clock.set_next(2_000);
        assert_eq!(clock.upcoming(1_050), 2_000);
        assert_eq!(clock.take_next(1_050), 2_000);
        assert_eq!(clock.now().seconds(), 2_000);
        clock.set(500);
        assert_eq!(clock.now().seconds(), 500);
        clock.advance(i64::MAX);
        clock.advance(i64::MAX);
        assert_eq!(clock.upcoming(0), i64::MAX as u64);
        clock.advance(i64::MIN);
        clock.advance(i64::MIN);
        assert_eq!(clock.upcoming(7), 7);
    }
}
