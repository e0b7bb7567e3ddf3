//! Rate limits: token buckets, one for all callers together and one for each network and account.

use std::sync::{Mutex, PoisonError};

use alloy_primitives::Address;
use tokio::time::Instant;
use toolcrib_http::{Bucket, Buckets, Level, Network, Rate};

/// Most callers with a bucket of their own. A bucket takes about 60 bytes, so all of them some 6 MB.
pub const MAX_CALLERS: usize = toolcrib_http::MAX_BUCKETS;

/// Rate limits for callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// All callers together.
    pub global: Rate,
    /// Each network address (IPv6: each /64). `None` behind a proxy, where all callers have the proxy's address, unless
    /// [`Tools::address_header`](crate::Tools::address_header) names the header in which the proxy sends their addresses.
    pub per_address: Option<Rate>,
    /// Each account that was proved.
    pub per_account: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            // Recovering a signature takes some 50 µs of one core, so this leaves most of the core to the tools.
            global: Rate::new(2_000, 2_000.0),
            per_address: Some(Rate::new(100, 20.0)),
            per_account: Rate::new(60, 10.0),
        }
    }
}

/// A bucket's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RateKey {
    Network(Network),
    Account(Address),
}

/// Rate limited: how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) seconds: u64,
    pub(crate) is_global: bool,
}

#[derive(Debug)]
pub(crate) struct Limiter {
    rates: Rates,
    global: Mutex<Bucket>,
    callers: Buckets<RateKey>,
}

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Self {
        Self { rates, global: Mutex::new(Bucket::full(rates.global, Instant::now())), callers: Buckets::bounded(MAX_CALLERS) }
    }

    /// Whether callers are limited by address.
    pub(crate) fn is_by_address(&self) -> bool {
        self.rates.per_address.is_some()
    }

    /// Counts one request.
    pub(crate) fn request(&self, network: Option<Network>) -> Result<(), Wait> {
        if let (Some(network), Some(rate)) = (network, self.rates.per_address) {
            waits(self.callers.count(RateKey::Network(network), rate), false)?;
        }
        let mut global = self.global.lock().unwrap_or_else(PoisonError::into_inner);
        waits(global.take(self.rates.global, Instant::now()), true)
    }

    /// Counts one call of an account.
    pub(crate) fn account(&self, account: Address) -> Result<(), Wait> {
        waits(self.callers.count(RateKey::Account(account), self.rates.per_account), false)
    }
}

fn waits(level: Level, is_global: bool) -> Result<(), Wait> {
    level.wait.map_or(Ok(()), |seconds| Err(Wait { seconds, is_global }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rates(global: u32, address: u32) -> Rates {
        Rates { global: Rate::new(global, 1.0), per_address: Some(Rate::new(address, 1.0)), per_account: Rate::new(2, 1.0) }
    }

    fn ip(text: &str) -> Option<Network> {
        Some(Network::of(text.parse().expect("an address")))
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
}
