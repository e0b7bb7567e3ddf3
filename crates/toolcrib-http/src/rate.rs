//! Rate limits: token buckets, one for each key.
//!
//! The map of buckets is bounded. A bucket that is full again contains no information and is dropped; keys for which there is no room share
//! one bucket, so that a flood of new addresses slows down only itself. Each process counts for itself.
//!
//! Implemented here, because the keyed limiter of `governor` has no bound, one rate for all keys, and does not tell the seconds until the
//! burst is available again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Most buckets of one map. Each takes about 80 bytes, so all of them some 8 MB.
pub const MAX_BUCKETS: usize = 100_000;

/// Shortest time between two searches for full buckets: a search visits all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A burst, and a long-term rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests that may come at once.
    pub burst: u32,
    /// Long-term requests a second.
    pub per_second: f64,
}

impl Rate {
    /// Returns a rate. A `per_second` that is not a positive number counts as one request a second.
    pub fn new(burst: u32, per_second: f64) -> Self {
        let is_usable = per_second.is_finite() && per_second > 0.0;
        Self { burst: burst.max(1), per_second: if is_usable { per_second } else { 1.0 } }
    }
}

/// What is left in a bucket after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Requests that may follow at once.
    pub remaining: u32,
    /// Seconds until the whole burst is available again.
    pub reset: u64,
    /// Seconds to wait, if this request is above the rate.
    pub wait: Option<u64>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    tokens: f64,
    at: Instant,
    rate: Rate,
}

impl Bucket {
    /// Returns a full bucket.
    pub fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: f64::from(rate.burst), at: now, rate }
    }

    fn level(&self, now: Instant) -> f64 {
        let gained = now.duration_since(self.at).as_secs_f64() * self.rate.per_second;
        (self.tokens + gained).min(f64::from(self.rate.burst))
    }

    fn is_full(&self, now: Instant) -> bool {
        self.level(now) >= f64::from(self.rate.burst)
    }

    /// Takes a token, or returns in how many seconds there is one. From now on the bucket has this rate.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Level {
        let mut level = self.level(now).min(f64::from(rate.burst));
        // A rate is positive and finite, and the quotients are small or saturated by the casts.
        let wait = (level < 1.0).then(|| (((1.0 - level) / rate.per_second).ceil() as u64).max(1));
        if wait.is_none() {
            level -= 1.0;
        }
        *self = Self { tokens: level, at: now, rate };
        let missing = f64::from(rate.burst) - level;
        Level { remaining: level as u32, reset: (missing / rate.per_second).ceil() as u64, wait }
    }
}

/// A bounded map of buckets.
#[derive(Debug)]
pub struct Buckets<K> {
    most: usize,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    buckets: HashMap<K, Bucket>,
    overflow: Option<Bucket>,
    swept: Instant,
}

impl<K: Eq + Hash> Buckets<K> {
    /// Returns a map of at most [`MAX_BUCKETS`].
    pub fn new() -> Self {
        Self::bounded(MAX_BUCKETS)
    }

    /// Returns a map of at most `most` buckets.
    pub fn bounded(most: usize) -> Self {
        Self { most, state: Mutex::new(State { buckets: HashMap::new(), overflow: None, swept: Instant::now() }) }
    }

    /// Counts one request of a key.
    pub fn count(&self, key: K, rate: Rate) -> Level {
        self.count_at(key, rate, Instant::now())
    }

    /// Counts one request of a key at a given time.
    pub fn count_at(&self, key: K, rate: Rate, now: Instant) -> Level {
        let mut state = self.lock();
        if state.buckets.len() >= self.most && now.duration_since(state.swept) >= SWEEP_EVERY {
            state.swept = now;
            state.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        let has_room = state.buckets.len() < self.most;
        let State { buckets, overflow, .. } = &mut *state;
        let bucket = match buckets.get_mut(&key) {
            Some(bucket) => bucket,
            None if has_room => buckets.entry(key).or_insert(Bucket::full(rate, now)),
            None => overflow.get_or_insert(Bucket::full(rate, now)),
        };
        bucket.take(rate, now)
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.lock().buckets.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lock cannot be poisoned: nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Default for Buckets<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_and_others_do_not() {
        let buckets = Buckets::new();
        let (begun, rate) = (Instant::now(), Rate::new(2, 1.0));
        assert_eq!(buckets.count_at('a', rate, begun), Level { remaining: 1, reset: 1, wait: None });
        assert_eq!(buckets.count_at('a', rate, begun), Level { remaining: 0, reset: 2, wait: None });
        assert_eq!(buckets.count_at('a', rate, begun).wait, Some(1));
        assert_eq!(buckets.count_at('b', rate, begun).wait, None);
        assert_eq!(buckets.count_at('a', rate, begun + Duration::from_secs(1)).wait, None);
        assert_eq!(buckets.count_at('a', Rate::new(1, 0.1), begun + Duration::from_secs(1)).wait, Some(10), "a lower rate");
    }

    #[test]
    fn the_map_is_bounded_and_the_rest_share() {
        let buckets = Buckets::bounded(2);
        let (begun, rate) = (Instant::now(), Rate::new(2, 1.0));
        for key in 1..=4 {
            assert_eq!(buckets.count_at(key, rate, begun).wait, None);
        }
        assert!(buckets.count_at(5, rate, begun).wait.is_some(), "the shared bucket is empty");
        assert_eq!(buckets.count_at(1, rate, begun).wait, None, "keys with a bucket of their own are not touched");
        assert_eq!(buckets.len(), 2);
        assert_eq!(buckets.count_at(5, rate, begun + Duration::from_secs(5)).wait, None);
        assert_eq!(buckets.len(), 1, "full buckets were dropped");
    }

    #[test]
    fn rates_are_positive() {
        for per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::new(0, per_second), Rate { burst: 1, per_second: 1.0 });
        }
    }
}
