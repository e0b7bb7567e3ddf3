//! How often somebody may ask: token buckets, one for each key, address or origin and kind of request.
//!
//! The map is bounded. A bucket that is full again says nothing and is dropped; those for whom there is no room share one bucket, so that
//! a flood of new addresses slows itself down and nobody else. Each process counts for itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Buckets at most. Each takes about 80 bytes, so all of them some 8 MB.
const MAX_BUCKETS: usize = 100_000;

/// How long to wait between two searches for buckets that are full again: a search walks all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Most requests that may come at once, unless the rate grants more in a second: an hour's worth at once would stop a small machine.
const MAX_BURST: u32 = 60;

/// So many requests an hour, of which at most 60 or those of one second may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests an hour.
    pub per_hour: u32,
}

impl Rate {
    /// A rate of at least one request an hour.
    pub const fn per_hour(requests: u32) -> Self {
        Self { per_hour: if requests == 0 { 1 } else { requests } }
    }

    /// Requests that may come at once.
    fn burst(self) -> f64 {
        f64::from(self.per_hour.min(MAX_BURST.max(self.per_hour.div_ceil(3600))))
    }

    /// The same as a number of requests and the seconds in which as many more are granted.
    pub(crate) fn window(self) -> (u32, u64) {
        (self.burst() as u32, (self.burst() / self.per_second()).ceil() as u64)
    }

    fn per_second(self) -> f64 {
        f64::from(self.per_hour) / 3600.0
    }
}

/// Whose bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// A key, by the start of its hash.
    Key(u64, Class),
    /// An address, or the network of 2^64 addresses that one IPv6 customer has.
    Network(u128, Class),
    /// All keys that come from one such address: keys are free, so they must not multiply what an address may ask.
    Keys(u128, Class),
    /// Callers whose address is not known.
    Nobody(Class),
    /// An origin that is to be looked at.
    Origin(u64),
    /// All who ask for keys.
    Issuance,
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Read,
    Write,
    Key,
}

impl Class {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Key => "keys",
        }
    }
}

impl Who {
    pub(crate) fn at(address: Option<IpAddr>, class: Class) -> Self {
        address.map_or(Self::Nobody(class), |address| Self::Network(network(address), class))
    }

    /// All keys that are used from an address.
    pub(crate) fn keys_at(address: IpAddr, class: Class) -> Self {
        Self::Keys(network(address), class)
    }
}

/// An address as one number, the same for all addresses of one IPv6 customer.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address) >> 64 << 64 | 1 << 63,
    }
}

/// How somebody stands after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Requests that are left.
    pub(crate) remaining: u32,
    /// Seconds until all of them are there again.
    pub(crate) reset: u64,
    /// Seconds to wait, if there was none left.
    pub(crate) wait: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Limiter {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    buckets: HashMap<Who, Bucket>,
    overflow: Option<Bucket>,
    swept: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    rate: Rate,
}

impl Limiter {
    pub(crate) fn new() -> Self {
        Self::bounded(MAX_BUCKETS)
    }

    fn bounded(most: usize) -> Self {
        Self { most, state: Mutex::new(State { buckets: HashMap::new(), overflow: None, swept: Instant::now() }) }
    }

    /// Counts one request.
    pub(crate) fn count(&self, who: Who, rate: Rate) -> Level {
        self.count_at(who, rate, Instant::now())
    }

    fn count_at(&self, who: Who, rate: Rate, now: Instant) -> Level {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.buckets.len() >= self.most && now.duration_since(state.swept) >= SWEEP_EVERY {
            state.swept = now;
            state.buckets.retain(|_, bucket| bucket.level(now) < bucket.rate.burst());
        }
        let has_room = state.buckets.len() < self.most;
        let State { buckets, overflow, .. } = &mut *state;
        let bucket = match buckets.get_mut(&who) {
            Some(bucket) => bucket,
            None if has_room => buckets.entry(who).or_insert(Bucket::full(rate, now)),
            None => overflow.get_or_insert(Bucket::full(rate, now)),
        };
        bucket.take(rate, now)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).buckets.len()
    }
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: rate.burst(), at: now, rate }
    }

    fn level(&self, now: Instant) -> f64 {
        let gained = now.duration_since(self.at).as_secs_f64() * self.rate.per_second();
        (self.tokens + gained).min(self.rate.burst())
    }

    fn take(&mut self, rate: Rate, now: Instant) -> Level {
        let mut level = self.level(now).min(rate.burst());
        let wait = (level < 1.0).then(|| (((1.0 - level) / rate.per_second()).ceil() as u64).max(1));
        if wait.is_none() {
            level -= 1.0;
        }
        *self = Self { tokens: level, at: now, rate };
        let missing = rate.burst() - level;
        // Positive, and at most the burst.
        Level { remaining: level as u32, reset: (missing / rate.per_second()).ceil() as u64, wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Who {
        Who::at(Some(text.parse().expect("an address")), Class::Read)
    }

    #[test]
    fn one_waits_and_others_do_not() {
        let limiter = Limiter::new();
        let begun = Instant::now();
        let later = begun + Duration::from_secs(1800);
        let count = |who, rate| limiter.count_at(who, rate, begun);
        let rate = Rate::per_hour(2);
        assert_eq!(count(at("192.0.2.1"), rate), Level { remaining: 1, reset: 1800, wait: None });
        assert_eq!(count(at("::ffff:192.0.2.1"), rate).remaining, 0, "the same address");
        assert_eq!(count(at("192.0.2.1"), rate).wait, Some(1800));
        assert_eq!(count(at("192.0.2.2"), rate).wait, None);
        assert_eq!(count(at("2001:db8::1"), rate).remaining, 1);
        assert_eq!(count(at("2001:db8::2"), rate).remaining, 0, "one customer");
        assert_eq!(limiter.count_at(at("192.0.2.1"), rate, later).wait, None);
    }

    #[test]
    fn an_hour_s_worth_does_not_come_at_once() {
        let limiter = Limiter::new();
        let begun = Instant::now();
        let rate = Rate::per_hour(3_600);
        let taken = |now| (0..1_000).filter(|_| limiter.count_at(at("192.0.2.1"), rate, now).wait.is_none()).count();
        assert_eq!(taken(begun), 60);
        assert_eq!(taken(begun + Duration::from_secs(10)), 10, "one a second in the long run");
        assert_eq!(taken(begun + Duration::from_secs(3_600)), 60);
        assert_eq!(
            (rate.window(), Rate::per_hour(3).window(), Rate::per_hour(1_000_000).window()),
            ((60, 60), (3, 3_600), (278, 2))
        );
    }

    #[test]
    fn the_map_is_bounded_and_newcomers_share() {
        let limiter = Limiter::bounded(2);
        let begun = Instant::now();
        let later = begun + Duration::from_secs(7200);
        let count = |who, rate| limiter.count_at(who, rate, begun);
        let rate = Rate::per_hour(2);
        for n in 1..=4 {
            assert_eq!(count(at(&format!("192.0.2.{n}")), rate).wait, None);
        }
        assert!(count(at("192.0.2.5"), rate).wait.is_some(), "the shared bucket is empty");
        assert_eq!(count(at("192.0.2.1"), rate).wait, None);
        assert_eq!(limiter.len(), 2);
        assert_eq!(limiter.count_at(at("192.0.2.5"), rate, later).wait, None);
        assert_eq!(limiter.len(), 1, "full buckets were dropped");
    }
}
