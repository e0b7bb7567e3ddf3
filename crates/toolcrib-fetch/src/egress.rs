//! The egress policy: where requests to untrusted servers may go. It is applied before any connection, once for each request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_core::url::{HttpsUrl, ip};
use toolcrib_judge::evidence::Failure;

use crate::{Resolve, ResolveError};

/// The chain id of the development environment, whose tools may run on this computer.
pub const DEV_CHAIN: u64 = 31_337;

/// Maximum number of addresses of a name. Large CDNs return a dozen; every address is checked, so a longer list is rejected, not
/// truncated.
pub const MAX_ADDRESSES: usize = 64;

/// Ports that web requests are never sent to: the list in the WHATWG Fetch standard, "port blocking". They belong to mail, DNS,
/// file transfer, chat and printing protocols, whose servers could interpret a request as commands.
pub const BLOCKED_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111,
    113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554,
    556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666,
    6667, 6668, 6669, 6679, 6697, 10080,
];

/// Which ports of untrusted servers are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortPolicy {
    /// All but [`BLOCKED_PORTS`], as in browsers. Addresses are public and TLS comes first, so restricting ports further gains little.
    #[default]
    Web,
    /// Only these, even if they are in the list of blocked ports.
    Only(Vec<u16>),
}

impl PortPolicy {
    fn allows(&self, port: u16) -> bool {
        match self {
            Self::Web => BLOCKED_PORTS.binary_search(&port).is_err(),
            Self::Only(ports) => ports.contains(&port),
        }
    }

    pub(crate) fn check(&self, port: u16) -> Result<(), Failure> {
        if self.allows(port) {
            Ok(())
        } else {
            Err(Failure::new(codes::fetch::PORT_REFUSED, format!("connections to port {port} are blocked")))
        }
    }
}

/// How a host is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// An address in the URL itself.
    Literal(IpAddr),
    /// A name to resolve by DNS.
    Name,
    /// A name below `localhost` in the development environment.
    Dev,
}

/// Decides how to resolve a host, without a lookup. `dev` is whether the client has a development environment.
pub(crate) fn way(url: &HttpsUrl, chain: Option<u64>, dev: bool) -> Result<HostKind, Failure> {
    if let Some(address) = url.host_ip() {
        public(address)?;
        return Ok(HostKind::Literal(address));
    }
    let host = url.host();
    let local = host == "localhost" || host.ends_with(".localhost");
    if !local {
        return Ok(HostKind::Name);
    }
    let allowed = dev && chain == Some(DEV_CHAIN) && host.len() > ".localhost".len();
    if allowed {
        return Ok(HostKind::Dev);
    }
    let why = match chain {
        _ if !host.contains('.') => "the name `localhost` itself is not allowed".to_owned(),
        Some(DEV_CHAIN) => "the development environment is not running".to_owned(),
        Some(chain) => format!("`{host}` resolves to this machine, and chain {chain} is not the development chain"),
        None => format!("`{host}` resolves to this machine"),
    };
    Err(Failure::new(codes::fetch::LOCALHOST_REFUSED, why))
}

/// The addresses of the development environment, without DNS (RFC 6761 §6.3).
pub(crate) const DEV_ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Resolves a name, without checking the addresses.
pub(crate) async fn lookup(resolver: &dyn Resolve, host: &str, until: Instant) -> Result<Vec<IpAddr>, Failure> {
    let fail = |code, detail: &str| Failure::new(code, format!("`{host}`: {detail}"));
    let addresses = match timeout_at(until, resolver.resolve(host)).await {
        Err(_) => return Err(fail(codes::fetch::DNS_FAILED, "no name server answered in time")),
        Ok(Err(ResolveError::NoSuchHost)) => {
            return Err(fail(codes::fetch::NO_SUCH_HOST, "the host name does not exist (NXDOMAIN)"));
        }
        Ok(Err(ResolveError::Failed(reason))) => return Err(fail(codes::fetch::DNS_FAILED, &reason)),
        Ok(Err(ResolveError::NoAddresses)) => Vec::new(),
        Ok(Ok(addresses)) => addresses,
    };
    if addresses.is_empty() {
        return Err(fail(codes::fetch::NO_ADDRESSES, "the host name has neither IPv4 nor IPv6 addresses"));
    }
    if addresses.len() > MAX_ADDRESSES {
        let detail = format!("{} addresses, the limit is {MAX_ADDRESSES}", addresses.len());
        return Err(fail(codes::fetch::TOO_MANY_ADDRESSES, &detail));
    }
    Ok(addresses)
}

/// Checks that every address is public: a single one that is not rejects the host.
pub(crate) fn check(addresses: &[IpAddr]) -> Result<(), Failure> {
    let Some(bad) = addresses.iter().find(|address| !ip::is_public(**address)) else { return Ok(()) };
    if addresses.iter().any(|address| ip::is_public(*address)) {
        let detail = format!("non-public address {bad} among public ones: {}", range(*bad));
        return Err(Failure::new(codes::fetch::MIXED_ADDRESSES, detail));
    }
    public(*bad)
}

fn public(address: IpAddr) -> Result<(), Failure> {
    if ip::is_public(address) {
        return Ok(());
    }
    Err(Failure::new(codes::fetch::PRIVATE_ADDRESS, format!("{address} is not public: {}", range(address))))
}

fn range(address: IpAddr) -> String {
    ip::refused(address).map_or_else(String::new, |range| format!("{} ({}, {})", range.network, range.name, range.reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_ports_is_sorted_and_leaves_the_web_open() {
        assert!(BLOCKED_PORTS.is_sorted());
        for port in [80, 443, 1024, 3000, 8080, 8443, 10443, 65535] {
            assert!(PortPolicy::Web.check(port).is_ok(), "{port}");
        }
        for port in [0, 22, 25, 6667, 10080] {
            assert_eq!(PortPolicy::Web.check(port).unwrap_err().code, codes::fetch::PORT_REFUSED, "{port}");
        }
        assert!(PortPolicy::Only(vec![443]).check(8443).is_err());
    }

    #[test]
    fn the_development_world_is_no_wider_than_it_says() {
        let check = |url: &str, chain: Option<u64>, dev: bool| way(&HttpsUrl::parse(url).unwrap(), chain, dev);
        assert_eq!(check("https://a.tool.localhost:8443/", Some(31337), true), Ok(HostKind::Dev));
        assert_eq!(check("https://a.localhost/", Some(31337), true), Ok(HostKind::Dev));
        for (url, chain, dev) in [
            ("https://a.tool.localhost/", Some(31337), false),
            ("https://a.tool.localhost/", Some(1), true),
            ("https://a.tool.localhost/", None, true),
            ("https://localhost/", Some(31337), true),
        ] {
            assert_eq!(check(url, chain, dev).unwrap_err().code, codes::fetch::LOCALHOST_REFUSED, "{url} {chain:?} {dev}");
        }
        assert_eq!(check("https://notlocalhost/", Some(31337), true), Ok(HostKind::Name));
        assert_eq!(check("https://a.localhost.example.com/", Some(31337), true), Ok(HostKind::Name));
        assert_eq!(check("https://1.1.1.1/", Some(31337), true), Ok(HostKind::Literal("1.1.1.1".parse().unwrap())));
    }

    // req: SSRF-001
    #[test]
    fn one_bad_answer_refuses_the_host() {
        let check = |list: &[&str]| check(&list.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>()).map_err(|f| f.code);
        assert_eq!(check(&["1.1.1.1", "2606:4700::1"]), Ok(()));
        for bad in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"] {
            assert_eq!(check(&[bad]), Err(codes::fetch::PRIVATE_ADDRESS), "{bad}");
            assert_eq!(check(&["1.1.1.1", bad]), Err(codes::fetch::MIXED_ADDRESSES), "{bad}");
            assert_eq!(check(&[bad, "1.1.1.1"]), Err(codes::fetch::MIXED_ADDRESSES), "{bad}");
        }
    }
}
