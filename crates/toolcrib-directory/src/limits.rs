//! Rate limits: a bucket for each key, network or origin and class of request. Each process counts separately.

use std::net::IpAddr;

use toolcrib_http::{Buckets, Level, Network};

/// The maximum burst, unless the rate allows more in a second: an hour's worth at once would overload a small machine.
const MAX_BURST: u32 = 60;

/// A number of requests per hour; at most 60 of them, or those of one second, may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per hour.
    pub per_hour: u32,
}

impl Rate {
    /// Creates a rate of at least one request per hour.
    pub const fn per_hour(requests: u32) -> Self {
        Self { per_hour: if requests == 0 { 1 } else { requests } }
    }

    /// Returns the rate of a bucket.
    fn bucket(self) -> toolcrib_http::Rate {
        let burst = self.per_hour.min(MAX_BURST.max(self.per_hour.div_ceil(3600)));
        toolcrib_http::Rate::new(burst, f64::from(self.per_hour) / 3600.0)
    }

    /// Returns the rate as a number of requests and the seconds in which the same number is granted again.
    pub(crate) fn window(self) -> (u32, u64) {
        let rate = self.bucket();
        (rate.burst, (f64::from(rate.burst) / rate.per_second).ceil() as u64)
    }
}

/// The owner of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BucketKey {
    /// A key, by the start of its hash.
    Key(u64, Class),
    /// An address; for IPv6 a /64 network, which one customer has.
    Network(Network, Class),
    /// All keys that are used from one such network: keys are free, so they must not multiply the limit of an address.
    Keys(Network, Class),
    /// Callers whose address is unknown.
    Nobody(Class),
    /// An origin that is to be verified.
    Origin(u64),
    /// A host that an image is to be fetched from.
    ImageHost(u64),
    /// All requests for keys.
    Issuance,
}

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Read,
    Write,
    Key,
    Image,
    /// Looking up an unfamiliar key.
    Lookup,
}

impl Class {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Key => "keys",
            Self::Image => "images",
            Self::Lookup => "key-lookups",
        }
    }
}

impl BucketKey {
    pub(crate) fn at(address: Option<IpAddr>, class: Class) -> Self {
        address.map_or(Self::Nobody(class), |address| Self::Network(Network::of(address), class))
    }

    /// Returns the bucket of all keys that are used from an address.
    pub(crate) fn keys_at(address: IpAddr, class: Class) -> Self {
        Self::Keys(Network::of(address), class)
    }
}

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct Limiter(Buckets<BucketKey>);

impl Limiter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Counts one request.
    pub(crate) fn count(&self, who: BucketKey, rate: Rate) -> Level {
        self.0.count(who, rate.bucket())
    }

    #[cfg(test)]
    fn count_at(&self, who: BucketKey, rate: Rate, now: tokio::time::Instant) -> Level {
        self.0.count_at(who, rate.bucket(), now)
    }

    /// Returns the number of buckets.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn at(text: &str) -> BucketKey {
        BucketKey::at(Some(text.parse().expect("an address")), Class::Read)
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
}
