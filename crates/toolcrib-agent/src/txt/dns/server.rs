//! Name servers in settings.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::txt::SettingError;

/// Maximum length of a server's text.
const MAX_SERVER_BYTES: usize = 512;

/// A configured name server.
///
/// `udp://192.0.2.1:53` (TCP after a truncated response), `tcp://192.0.2.1`, `tls://dns.example@192.0.2.1:853`,
/// `https://dns.example@192.0.2.1/dns-query`. Without `@` and an address, the operating system resolves the host.
#[derive(Clone, PartialEq, Eq)]
pub struct DnsServer {
    pub(super) transport: Transport,
    pub(super) host: Host,
    pub(super) port: u16,
}

/// The transport to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
    /// The name in the certificate.
    Tls {
        name: String,
    },
    /// The name in the certificate, and the path of requests.
    Https {
        name: String,
        path: String,
    },
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    Name(String),
}

impl DnsServer {
    /// A server for UDP, and for TCP if a response is truncated.
    pub const fn udp(address: SocketAddr) -> Self {
        Self { transport: Transport::Udp, host: Host::Address(address.ip()), port: address.port() }
    }

    /// A server for TCP.
    pub const fn tcp(address: SocketAddr) -> Self {
        Self { transport: Transport::Tcp, host: Host::Address(address.ip()), port: address.port() }
    }
}

impl FromStr for DnsServer {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let refuse = |reason| Err(SettingError::new(reason));
        if text.len() > MAX_SERVER_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("a name server is a short text without spaces");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("udp", text));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains(['?', '#']) || path.contains('#') {
            return refuse("a name server has no query and no fragment before its path");
        }
        let (name, place) = match authority.split_once('@') {
            Some((name, place)) => (Some(name), place),
            None => (None, authority),
        };
        let Some((host, port)) = split_port(place) else { return refuse("the port of a name server is not a number") };
        let Some(host) = parse_host(host) else { return refuse("a name server has no address") };
        if name.is_some() && matches!(host, Host::Name(_)) {
            return refuse("an address follows the @ of a name server");
        }
        let given = match name {
            Some(name) => match parse_host(name) {
                Some(name) => name,
                None => return refuse("the name before @ is not a host name"),
            },
            None => host.clone(),
        };
        let name = match given {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name,
        };
        let (transport, usual_port) = match scheme.to_ascii_lowercase().as_str() {
            "udp" | "tcp" if authority.contains('@') || !path.is_empty() => {
                return refuse("plain name servers have neither a name nor a path");
            }
            "udp" | "tcp" if matches!(host, Host::Name(_)) => return refuse("plain name servers are given by their address"),
            "udp" => (Transport::Udp, 53),
            "tcp" => (Transport::Tcp, 53),
            "tls" if !path.is_empty() => return refuse("a name server over TLS has no path"),
            "tls" => (Transport::Tls { name }, 853),
            "https" => {
                let path = if path.is_empty() { "/dns-query" } else { path };
                (Transport::Https { name, path: path.to_owned() }, 443)
            }
            _ => return refuse("a name server begins with udp://, tcp://, tls:// or https://"),
        };
        Ok(Self { transport, host, port: port.unwrap_or(usual_port) })
    }
}

/// Splits host and port; `None` for a port that is not a number or is zero.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    // An IPv6 address without brackets has no port.
    if text.parse::<IpAddr>().is_ok() {
        return Some((text, None));
    }
    match text.rsplit_once(':') {
        Some((host, digits)) if !digits.ends_with(']') => {
            let port = digits.parse().ok().filter(|port| *port != 0)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((host, Some(port)))
        }
        _ => Some((text, None)),
    }
}

fn parse_host(text: &str) -> Option<Host> {
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return inner.parse().ok().map(|address| Host::Address(IpAddr::V6(address)));
    }
    if let Ok(address) = text.parse() {
        return Some(Host::Address(address));
    }
    let is_label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = text.len() <= 253 && text.split('.').all(is_label);
    // A name that consists of digits and dots is an invalid address.
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    (is_name && has_letter).then(|| Host::Name(text.to_ascii_lowercase()))
}

/// Writes the server without its path: personal resolvers have a key there.
impl fmt::Display for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, name, usual_port) = match &self.transport {
            Transport::Udp => ("udp", None, 53),
            Transport::Tcp => ("tcp", None, 53),
            Transport::Tls { name } => ("tls", Some(name), 853),
            Transport::Https { name, .. } => ("https", Some(name), 443),
        };
        let host = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
            Host::Name(name) => name.clone(),
        };
        write!(f, "{scheme}://")?;
        if let Some(name) = name.filter(|name| host.trim_matches(['[', ']']) != name.as_str()) {
            write!(f, "{name}@")?;
        }
        f.write_str(&host)?;
        if self.port == usual_port { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DnsServer({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        text.parse::<DnsServer>().ok().map(|server| server.to_string())
    }

    #[test]
    fn servers_are_read_and_shown_without_their_path() {
        for (text, expected) in [
            ("udp://127.0.0.1:5353", "udp://127.0.0.1:5353"),
            ("127.0.0.1", "udp://127.0.0.1"),
            ("::1", "udp://[::1]"),
            ("[::1]:5353", "udp://[::1]:5353"),
            ("TCP://192.0.2.1:53", "tcp://192.0.2.1"),
            ("tls://DNS.example@192.0.2.1:853", "tls://dns.example@192.0.2.1"),
            ("tls://192.0.2.1", "tls://192.0.2.1"),
            ("tls://dns.example", "tls://dns.example"),
            ("https://dns.example@[2001:db8::1]:8443/dns-query", "https://dns.example@[2001:db8::1]:8443"),
            ("https://dns.example/s3cret?key=1", "https://dns.example"),
            ("https://dns.example", "https://dns.example"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        let server: DnsServer = "https://dns.example/s3cret?key=1".parse().unwrap();
        assert_eq!(server.transport, Transport::Https { name: "dns.example".to_owned(), path: "/s3cret?key=1".to_owned() });
        assert!(!format!("{server:?}").contains("s3cret"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "udp://",
            "udp://dns.example",
            "udp://dns.example@192.0.2.1",
            "udp://192.0.2.1/x",
            "udp://192.0.2.1:0",
            "udp://192.0.2.1:70000",
            "udp://192.0.2.1:+53",
            "udp://192.0.2.999",
            "tls://192.0.2.1/x",
            "tls://a@b",
            "tls://a b@192.0.2.1",
            "https://user:pass@192.0.2.1/",
            "https://dns.example/#x",
            "https://?x",
            "https://-a.example",
            "http://192.0.2.1",
            "quic://192.0.2.1",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(shown(&format!("https://dns.example/{}", "x".repeat(600))), None);
    }
}
