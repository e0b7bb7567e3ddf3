//! How often somebody may call: token buckets, one for all callers together and one for each address and account.
//!
//! The map of callers is bounded. A bucket that is full again says nothing and is dropped; callers for whom there is no room
//! share one bucket, so that a flood of new addresses slows itself down and nobody else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use tokio::time::Instant;

/// Callers that are told apart at most. A bucket takes about 60 bytes, so all of them some 6 MB.
pub const MAX_CALLERS: usize = 100_000;

/// How long to wait between two searches for buckets that are full again: a search walks all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// So many calls at once, and so many a second in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Calls that may come at once.
    pub burst: u32,
    /// Calls a second in the long run.
    pub per_second: f64,
}

impl Rate {
    /// A rate. What is not a positive number counts as one call a second.
    pub fn new(burst: u32, per_second: f64) -> Self {
        let is_usable = per_second.is_finite() && per_second > 0.0;
        Self { burst: burst.max(1), per_second: if is_usable { per_second } else { 1.0 } }
    }
}

/// How often who may call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// All callers together.
    pub global: Rate,
    /// Each network address (IPv6: each /64). `None` behind a proxy, where all callers have the proxy's address; headers that
    /// claim another one are never believed.
    pub per_address: Option<Rate>,
    /// Each account that has proved itself.
    pub per_account: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            // Recovering a signature takes some 50 µs of one core, so this leaves most of it to the tools.
            global: Rate::new(2_000, 2_000.0),
            per_address: Some(Rate::new(100, 20.0)),
            per_account: Rate::new(60, 10.0),
        }
    }
}

/// Who calls, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Network(u128),
    Account(Address),
}

impl Who {
    /// The address, or the network of 2^64 addresses that one IPv6 customer has.
    pub(crate) fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Network(u128::from(u32::from(address))),
            IpAddr::V6(address) => Self::Network(u128::from(address) >> 64 << 64 | 1 << 63),
        }
    }
}

/// Too often: how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) seconds: u64,
    pub(crate) is_global: bool,
}

#[derive(Debug)]
pub(crate) struct Limiter {
    rates: Rates,
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    global: Bucket,
    overflow: Bucket,
    callers: HashMap<Who, Bucket>,
    swept: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Self {
        Self::bounded(rates, MAX_CALLERS)
    }

    fn bounded(rates: Rates, most: usize) -> Self {
        let now = Instant::now();
        let state = State {
            global: Bucket::full(rates.global, now),
            overflow: Bucket::full(rates.per_account, now),
            callers: HashMap::new(),
            swept: now,
        };
        Self { rates, most, state: Mutex::new(state) }
    }

    /// Counts one request of somebody at a network address, known or not.
    pub(crate) fn request(&self, from: Option<IpAddr>) -> Result<(), Wait> {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = from.filter(|_| self.rates.per_address.is_some()) {
            state.count(Who::at(address), &self.rates, self.most, now)?;
        }
        state.global.take(self.rates.global, now).map_err(|seconds| Wait { seconds, is_global: true })
    }

    /// Counts one call of an account.
    pub(crate) fn account(&self, account: Address) -> Result<(), Wait> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count(Who::Account(account), &self.rates, self.most, Instant::now())
    }
}

impl Rates {
    fn of(&self, who: Who) -> Rate {
        match who {
            Who::Network(_) => self.per_address.unwrap_or(self.per_account),
            Who::Account(_) => self.per_account,
        }
    }
}

impl State {
    fn count(&mut self, who: Who, rates: &Rates, most: usize, now: Instant) -> Result<(), Wait> {
        let rate = rates.of(who);
        if self.callers.len() >= most && now.duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.callers.retain(|who, bucket| !bucket.is_full(rates.of(*who), now));
        }
        let has_room = self.callers.len() < most;
        let bucket = match self.callers.get_mut(&who) {
            Some(bucket) => bucket,
            None if has_room => self.callers.entry(who).or_insert(Bucket::full(rate, now)),
            None => &mut self.overflow,
        };
        bucket.take(rate, now).map_err(|seconds| Wait { seconds, is_global: false })
    }
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { tokens: f64::from(rate.burst), at: now }
    }

    fn level(&self, rate: Rate, now: Instant) -> f64 {
        let gained = now.duration_since(self.at).as_secs_f64() * rate.per_second;
        (self.tokens + gained).min(f64::from(rate.burst))
    }

    fn is_full(&self, rate: Rate, now: Instant) -> bool {
        self.level(rate, now) >= f64::from(rate.burst)
    }

    /// Takes a token, or says in how many seconds there is one.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), u64> {
        let level = self.level(rate, now);
        *self = Self { tokens: level, at: now };
        if level < 1.0 {
            // A rate is positive and finite, and the quotient small or saturated by the cast.
            return Err((((1.0 - level) / rate.per_second).ceil() as u64).max(1));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(global: u32, address: u32) -> Rates {
        Rates { global: Rate::new(global, 1.0), per_address: Some(Rate::new(address, 1.0)), per_account: Rate::new(2, 1.0) }
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_and_others_do_not() {
        let limiter = Limiter::new(rates(100, 2));
        for _ in 0..2 {
            assert_eq!(limiter.request(ip("192.0.2.1")), Ok(()));
        }
        assert_eq!(limiter.request(ip("192.0.2.1")), Err(Wait { seconds: 1, is_global: false }));
        assert_eq!(limiter.request(ip("::ffff:192.0.2.1")), Err(Wait { seconds: 1, is_global: false }), "the same address");
        assert_eq!(limiter.request(ip("192.0.2.2")), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limiter.request(ip("192.0.2.1")), Ok(()));
        assert!(limiter.request(ip("192.0.2.1")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_customer_with_many_addresses_is_one_caller() {
        let limiter = Limiter::new(rates(100, 1));
        assert_eq!(limiter.request(ip("2001:db8::1")), Ok(()));
        assert!(limiter.request(ip("2001:db8::ffff:1")).is_err());
        assert_eq!(limiter.request(ip("2001:db8:0:1::1")), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_have_a_limit() {
        let limiter = Limiter::new(rates(3, 100));
        for last in 1..=3 {
            assert_eq!(limiter.request(ip(&format!("192.0.2.{last}"))), Ok(()));
        }
        assert_eq!(limiter.request(None), Err(Wait { seconds: 1, is_global: true }));
    }

    #[tokio::test(start_paused = true)]
    async fn the_map_is_bounded_and_newcomers_share() {
        let limiter = Limiter::bounded(rates(1000, 2), 2);
        for byte in 1..=2 {
            assert_eq!(limiter.account(Address::repeat_byte(byte)), Ok(()));
        }
        for byte in 3..=4 {
            assert_eq!(limiter.account(Address::repeat_byte(byte)), Ok(()));
        }
        assert!(limiter.account(Address::repeat_byte(5)).is_err(), "the shared bucket is empty");
        assert_eq!(limiter.account(Address::repeat_byte(1)), Ok(()), "those with their own are not touched");
        assert_eq!(limiter.state.lock().expect("whole").callers.len(), 2);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(limiter.account(Address::repeat_byte(5)), Ok(()));
        assert_eq!(limiter.state.lock().expect("whole").callers.len(), 1, "full buckets were dropped");
    }
}
