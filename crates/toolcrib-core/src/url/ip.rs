//! Which IP addresses are public, and why the others are rejected.
//!
//! The list is longer than that of ERC-8257 (Malicious Endpoints): an address that reaches a machine's own network through a translation
//! prefix is as dangerous as a private one. IPv6 uses an allowlist: only `2000::/3` is global unicast, and the table excludes its special
//! parts. The same policy applies to IP literals in URLs and to every answer of a resolver; this module does not resolve names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A rejected range, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeRefused {
    /// A stable word for logs and messages, such as `private` or `link-local`.
    pub name: &'static str,
    /// The range in CIDR notation.
    pub network: &'static str,
    /// The document that defines the range.
    pub reference: &'static str,
}

/// Whether an address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    refused(address).is_none()
}

/// Returns the range for which an address is rejected; `None` if it is public.
pub fn refused(address: IpAddr) -> Option<&'static RangeRefused> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            V4.iter().find(|row| bits >> (32 - row.length) == row.prefix.to_bits() >> (32 - row.length)).map(|row| &row.range)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let special = V6
                .iter()
                .find(|row| bits >> (128 - row.length) == row.prefix.to_bits() >> (128 - row.length))
                .map(|row| &row.range);
            special.or_else(|| (bits >> 125 != 0b001).then_some(&NOT_GLOBAL_UNICAST))
        }
    }
}

struct Row<A> {
    prefix: A,
    /// Bits of the prefix, never 0: shifting by the full width would overflow.
    length: u32,
    range: RangeRefused,
}

const fn v4(octets: [u8; 4], length: u32, name: &'static str, network: &'static str, reference: &'static str) -> Row<Ipv4Addr> {
    let [a, b, c, d] = octets;
    Row { prefix: Ipv4Addr::new(a, b, c, d), length, range: RangeRefused { name, network, reference } }
}

const fn v6(
    segments: [u16; 8],
    length: u32,
    name: &'static str,
    network: &'static str,
    reference: &'static str,
) -> Row<Ipv6Addr> {
    let [a, b, c, d, e, f, g, h] = segments;
    Row { prefix: Ipv6Addr::new(a, b, c, d, e, f, g, h), length, range: RangeRefused { name, network, reference } }
}

/// IANA IPv4 Special-Purpose Address Registry, except for globally reachable ranges, and multicast.
const V4: &[Row<Ipv4Addr>] = &[
    v4([0, 0, 0, 0], 8, "this-network", "0.0.0.0/8", "RFC 1122"),
    v4([10, 0, 0, 0], 8, "private", "10.0.0.0/8", "RFC 1918"),
    v4([100, 64, 0, 0], 10, "carrier-nat", "100.64.0.0/10", "RFC 6598"),
    v4([127, 0, 0, 0], 8, "loopback", "127.0.0.0/8", "RFC 1122"),
    v4([169, 254, 0, 0], 16, "link-local", "169.254.0.0/16", "RFC 3927"),
    v4([172, 16, 0, 0], 12, "private", "172.16.0.0/12", "RFC 1918"),
    v4([192, 0, 0, 0], 24, "protocol-assignments", "192.0.0.0/24", "RFC 6890"),
    v4([192, 0, 2, 0], 24, "documentation", "192.0.2.0/24", "RFC 5737"),
    v4([192, 88, 99, 0], 24, "6to4-relay", "192.88.99.0/24", "RFC 7526"),
    v4([192, 168, 0, 0], 16, "private", "192.168.0.0/16", "RFC 1918"),
    v4([198, 18, 0, 0], 15, "benchmarking", "198.18.0.0/15", "RFC 2544"),
    v4([198, 51, 100, 0], 24, "documentation", "198.51.100.0/24", "RFC 5737"),
    v4([203, 0, 113, 0], 24, "documentation", "203.0.113.0/24", "RFC 5737"),
    v4([224, 0, 0, 0], 4, "multicast", "224.0.0.0/4", "RFC 5771"),
    v4([255, 255, 255, 255], 32, "broadcast", "255.255.255.255/32", "RFC 919"),
    v4([240, 0, 0, 0], 4, "reserved", "240.0.0.0/4", "RFC 1112"),
];

/// More specific ranges come before wider ones. The prefixes that embed an IPv4 address (mapped, translated, NAT64, 6to4) are rejected
/// completely: what they reach depends on the reader's network.
const V6: &[Row<Ipv6Addr>] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified", "::/128", "RFC 4291"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback", "::1/128", "RFC 4291"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, "ipv4-compatible", "::/96", "RFC 4291"),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "ipv4-mapped", "::ffff:0:0/96", "RFC 4291"),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "ipv4-translated", "::ffff:0:0:0/96", "RFC 2765"),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "nat64", "64:ff9b::/96", "RFC 6052"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "nat64-local", "64:ff9b:1::/48", "RFC 8215"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard", "100::/64", "RFC 6666"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "teredo", "2001::/32", "RFC 4380"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "protocol-assignments", "2001::/23", "RFC 2928"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation", "2001:db8::/32", "RFC 3849"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4", "2002::/16", "RFC 3056"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation", "3fff::/20", "RFC 9637"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment-routing", "5f00::/16", "RFC 9602"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique-local", "fc00::/7", "RFC 4193"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local", "fe80::/10", "RFC 4291"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local", "fec0::/10", "RFC 3879"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast", "ff00::/8", "RFC 4291"),
];

const NOT_GLOBAL_UNICAST: RangeRefused =
    RangeRefused { name: "not-global-unicast", network: "outside 2000::/3", reference: "RFC 4291; IANA IPv6 address space" };

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn named(address: &str) -> &'static str {
        refused(address.parse().expect("an address")).map_or("public", |range| range.name)
    }

    // Both edges of every range, and the addresses next to them.
    // req: SSRF-001
    #[test]
    fn edges_of_every_range() {
        let rows: &[(&str, &str, &str, &str, &str)] = &[
            // name, first, last, the address before the first, the address after the last
            ("this-network", "0.0.0.0", "0.255.255.255", "", "1.0.0.0 public"),
            ("private", "10.0.0.0", "10.255.255.255", "9.255.255.255 public", "11.0.0.0 public"),
            ("carrier-nat", "100.64.0.0", "100.127.255.255", "100.63.255.255 public", "100.128.0.0 public"),
            ("loopback", "127.0.0.0", "127.255.255.255", "126.255.255.255 public", "128.0.0.0 public"),
            ("link-local", "169.254.0.0", "169.254.255.255", "169.253.255.255 public", "169.255.0.0 public"),
            ("private", "172.16.0.0", "172.31.255.255", "172.15.255.255 public", "172.32.0.0 public"),
            ("protocol-assignments", "192.0.0.0", "192.0.0.255", "191.255.255.255 public", "192.0.1.0 public"),
            ("documentation", "192.0.2.0", "192.0.2.255", "192.0.1.255 public", "192.0.3.0 public"),
            ("6to4-relay", "192.88.99.0", "192.88.99.255", "192.88.98.255 public", "192.88.100.0 public"),
            ("private", "192.168.0.0", "192.168.255.255", "192.167.255.255 public", "192.169.0.0 public"),
            ("benchmarking", "198.18.0.0", "198.19.255.255", "198.17.255.255 public", "198.20.0.0 public"),
            ("documentation", "198.51.100.0", "198.51.100.255", "198.51.99.255 public", "198.51.101.0 public"),
            ("documentation", "203.0.113.0", "203.0.113.255", "203.0.112.255 public", "203.0.114.0 public"),
            ("multicast", "224.0.0.0", "239.255.255.255", "223.255.255.255 public", "240.0.0.0 reserved"),
            ("reserved", "240.0.0.0", "255.255.255.254", "239.255.255.255 multicast", "255.255.255.255 broadcast"),
            ("unspecified", "::", "::", "", "::1 loopback"),
            ("loopback", "::1", "::1", ":: unspecified", "::2 ipv4-compatible"),
            ("ipv4-compatible", "::2", "::ffff:ffff", "::1 loopback", "::1:0:0 not-global-unicast"),
            (
                "ipv4-mapped",
                "::ffff:0.0.0.0",
                "::ffff:255.255.255.255",
                "::fffe:ffff:ffff not-global-unicast",
                "::1:0:0:0 not-global-unicast",
            ),
            (
                "ipv4-translated",
                "::ffff:0:0:0",
                "::ffff:0:ffff:ffff",
                "::fffe:ffff:ffff:ffff not-global-unicast",
                "::ffff:1:0:0 not-global-unicast",
            ),
            (
                "nat64",
                "64:ff9b::",
                "64:ff9b::ffff:ffff",
                "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff not-global-unicast",
                "64:ff9b::1:0:0 not-global-unicast",
            ),
            (
                "nat64-local",
                "64:ff9b:1::",
                "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
                "64:ff9b:0:ffff:ffff:ffff:ffff:ffff not-global-unicast",
                "64:ff9b:2:: not-global-unicast",
            ),
            (
                "discard",
                "100::",
                "100::ffff:ffff:ffff:ffff",
                "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff not-global-unicast",
                "100:0:0:1:: not-global-unicast",
            ),
            (
                "teredo",
                "2001::",
                "2001:0:ffff:ffff:ffff:ffff:ffff:ffff",
                "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff public",
                "2001:1:: protocol-assignments",
            ),
            (
                "protocol-assignments",
                "2001:1::",
                "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:0:ffff:: teredo",
                "2001:200:: public",
            ),
            (
                "documentation",
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff public",
                "2001:db9:: public",
            ),
            (
                "6to4",
                "2002::",
                "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff public",
                "2003:: public",
            ),
            (
                "documentation",
                "3fff::",
                "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff public",
                "3fff:1000:: public",
            ),
            (
                "segment-routing",
                "5f00::",
                "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "5eff:: not-global-unicast",
                "5f01:: not-global-unicast",
            ),
            (
                "unique-local",
                "fc00::",
                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "fbff:: not-global-unicast",
                "fe00:: not-global-unicast",
            ),
            ("link-local", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe7f:: not-global-unicast", "fec0:: site-local"),
            ("site-local", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "febf:: link-local", "ff00:: multicast"),
            ("multicast", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "feff:: site-local", ""),
            (
                "not-global-unicast",
                "4000::",
                "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff public",
                "5f00:: segment-routing",
            ),
        ];
        for (name, first, last, before, after) in rows {
            assert_eq!(named(first), *name, "{first}");
            assert_eq!(named(last), *name, "{last}");
            for neighbour in [before, after].into_iter().filter(|text| !text.is_empty()) {
                let (address, expected) = neighbour.split_once(' ').expect("an address and a name");
                assert_eq!(named(address), expected, "{address}");
            }
        }
        for row in V4 {
            assert!(
                rows.iter().any(|r| r.0 == row.range.name) || row.range.name == "broadcast",
                "{} untested",
                row.range.network
            );
        }
        for row in V6 {
            assert!(rows.iter().any(|r| r.0 == row.range.name), "{} untested", row.range.network);
        }
    }

    // req: SSRF-001
    #[test]
    fn addresses_that_tools_have_been_registered_with() {
        for address in [
            "169.254.169.254",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(!is_public(address.parse().expect("an address")), "{address}");
        }
        for address in ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"] {
            assert!(is_public(address.parse().expect("an address")), "{address}");
        }
    }

    #[test]
    fn the_written_network_is_the_one_compared() {
        for row in V4 {
            assert_eq!(format!("{}/{}", row.prefix, row.length), row.range.network);
            assert!((1..=32).contains(&row.length));
        }
        for row in V6 {
            let (prefix, length) = row.range.network.split_once('/').expect("CIDR notation");
            assert_eq!(prefix.parse::<Ipv6Addr>().expect("an address"), row.prefix);
            assert_eq!(length, row.length.to_string());
            assert!((1..=128).contains(&row.length));
        }
    }
}
