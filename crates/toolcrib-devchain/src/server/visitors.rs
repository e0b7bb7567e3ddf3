//! Which web pages may use the chain.
//!
//! Every page in a developer's browser can send requests to this computer, and a third-party domain can resolve to it (DNS
//! rebinding). The chain's keys are public, but its contents are the developer's. So a request with an `Origin` is
//! accepted only from pages of this computer and allowed origins, and a `Host` must be an IP address or a name
//! of this computer. Programs send no origin.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};

/// Origins that are allowed in addition to those of this computer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitors {
    allowed: Arc<[String]>,
}

impl Visitors {
    pub(crate) fn new(allowed: Vec<String>) -> Self {
        Self { allowed: allowed.into() }
    }

    /// Whether a request is allowed.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let is_ours = |host: &HeaderValue| host.to_str().is_ok_and(is_local);
        let is_host_fine = match (hosts.next(), hosts.next()) {
            (None, _) => true,
            (Some(host), None) => is_ours(host),
            // Implementations interpret a repeated `Host` differently.
            (Some(_), Some(_)) => false,
        };
        is_host_fine && self.origin(headers).is_some_and(|origin| origin.is_none_or(|origin| self.allows(origin)))
    }

    /// The origin of the requesting page, for the response's headers.
    pub(crate) fn page<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        headers.get(header::ORIGIN)
    }

    /// The outer `None` means an invalid header, the inner one no header.
    fn origin<'h>(&self, headers: &'h HeaderMap) -> Option<Option<&'h str>> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Some(None),
            (Some(origin), None) => origin.to_str().ok().map(Some),
            (Some(_), Some(_)) => None,
        }
    }

    fn allows(&self, origin: &str) -> bool {
        let is_named = self.allowed.iter().any(|allowed| allowed == "*" || allowed == origin);
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        is_named || authority.is_some_and(|authority| is_local(authority) && !is_foreign_address(authority))
    }
}

/// Whether a host, with or without port, is an IP address or a name of this computer. IP addresses are immune to DNS rebinding.
fn is_local(authority: &str) -> bool {
    let host = host(authority);
    let is_name = host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_name || address(host).is_some()
}

/// Whether a page's host is an IP address of another computer.
fn is_foreign_address(authority: &str) -> bool {
    address(host(authority)).is_some_and(|address| !address.is_loopback())
}

fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let plain = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match plain {
        Some(v6) => v6.parse().ok().filter(IpAddr::is_ipv6),
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allowed: &[&str], headers: &[(&str, &str)], expected: bool) {
        let visitors = Visitors::new(allowed.iter().map(|&origin| origin.to_owned()).collect());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::from_bytes(name.as_bytes()).expect("a name"), value.parse().expect("a value"));
        }
        assert_eq!(visitors.admits(&map), expected, "{allowed:?} {headers:?}");
    }

    #[test]
    fn pages_of_this_machine_and_those_that_are_allowed() {
        for host in ["127.0.0.1:8545", "localhost:8545", "localhost", "[::1]:8545", "a.localhost", "192.168.0.7:8545"] {
            check(&[], &[("host", host)], true);
        }
        for host in ["evil.example", "localhost.evil.example:8545", "127.0.0.1.nip.io", "", "[::1", "::1"] {
            check(&[], &[("host", host)], false);
        }
        check(&[], &[], true);
        check(&[], &[("host", "localhost"), ("host", "localhost")], false);
        let here = ("host", "127.0.0.1:8545");
        for origin in ["http://localhost:3000", "https://app.localhost", "http://127.0.0.1", "http://[::1]:5173"] {
            check(&[], &[here, ("origin", origin)], true);
        }
        for origin in ["https://evil.example", "null", "http://192.168.0.9", "http://localhost.evil.example", "file://", ""] {
            check(&[], &[here, ("origin", origin)], false);
        }
        check(&["https://app.example"], &[here, ("origin", "https://app.example")], true);
        check(&["https://app.example"], &[here, ("origin", "https://app.example.evil")], false);
        check(&["*"], &[here, ("origin", "https://anything.example")], true);
        check(&["*"], &[("host", "evil.example"), ("origin", "https://evil.example")], false);
        check(&[], &[here, ("origin", "http://localhost"), ("origin", "http://localhost")], false);
    }
}
