//! Client networks: the addresses that one client can have count as one.

use std::net::IpAddr;

/// The network by which a client is counted: an IPv4 address, or the /64 of an IPv6 address.
///
/// One IPv6 customer has at least 2^64 addresses, so single IPv6 addresses identify nothing. An IPv4-mapped IPv6 address counts as the IPv4
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(u128);

impl Network {
    /// Returns the network of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u128::from(u32::from(address))),
            // The bit below the prefix keeps ::/64 apart from IPv4 addresses.
            IpAddr::V6(address) => Self(u128::from(address) >> 64 << 64 | 1 << 63),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_customer_is_one_network_and_an_ipv4_address_too() {
        let of = |text: &str| Network::of(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("::1"), of("0.0.0.1"));
    }
}
