//! The client address of a request.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap, HeaderName};

/// Returns the address of the client that sent a request.
///
/// Without `header` that is the peer of the connection. With it, the last entry of the header counts, which the operator's proxy has
/// written; the client may have forged the entries before it. A request without a readable last entry has no address: the peer is the
/// proxy, and must not count as one of its clients.
pub fn client_address(header: Option<&HeaderName>, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
    if let Some(name) = header {
        let last = headers.get_all(name).iter().next_back()?;
        return last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok();
    }
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_last_entry_of_the_configured_header_counts() {
        let name = HeaderName::from_static("x-forwarded-for");
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 80))));
        let read = |header: Option<&HeaderName>, values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&name, HeaderValue::from_static(value));
            }
            client_address(header, &headers, &extensions).map(|address| address.to_string())
        };
        assert_eq!(read(None, &["192.0.2.1"]).as_deref(), Some("10.0.0.1"), "not believed unless it is configured");
        assert_eq!(read(Some(&name), &["192.0.2.1"]).as_deref(), Some("192.0.2.1"));
        assert_eq!(read(Some(&name), &["192.0.2.1, 192.0.2.2"]).as_deref(), Some("192.0.2.2"));
        assert_eq!(read(Some(&name), &["192.0.2.1", "2001:db8::1"]).as_deref(), Some("2001:db8::1"));
        for values in [&[][..], &["unknown"], &["192.0.2.1,"], &["192.0.2.1:80"]] {
            assert_eq!(read(Some(&name), values), None, "{values:?}");
        }
        assert_eq!(client_address(None, &HeaderMap::new(), &Extensions::new()), None);
    }
}
