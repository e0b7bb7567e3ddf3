//! The site behind a URL: the part of a host name that one owner registered.
//!
//! Limits for one owner are counted by site, since host names below a registered one are free. The public suffix list says where the
//! registered part begins, and its private section separates customers of a hosting platform: `a.vercel.app` and `b.vercel.app` are two
//! sites, `a.tools.example` and `b.tools.example` are one.

use std::net::IpAddr;

use toolcrib_core::url::HttpsUrl;

/// Returns the site of a URL, or `None` for text that is not an `https` URL.
pub(crate) fn site_of(url: &str) -> Option<String> {
    let url = HttpsUrl::parse(url).ok()?;
    Some(match url.host_ip() {
        Some(address) => network_of(address),
        // A host that is itself a public suffix has no registered part; the whole host is the site.
        None => psl::domain_str(url.host()).unwrap_or(url.host()).to_owned(),
    })
}

/// Returns the network that one customer usually has: 256 IPv4 addresses, or an IPv6 /48.
pub(crate) fn network_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_what_one_owner_registered() {
        for (url, expected) in [
            ("https://a.tools.example/x", Some("tools.example")),
            ("https://tools.example:8443/", Some("tools.example")),
            ("https://a.b.tools.co.uk/", Some("tools.co.uk")),
            ("https://one.vercel.app/", Some("one.vercel.app")),
            ("https://x.two.vercel.app/", Some("two.vercel.app")),
            ("https://someone.github.io/", Some("someone.github.io")),
            ("https://vercel.app/", Some("vercel.app")),
            ("https://5.5.5.7/", Some("5.5.5.0/24")),
            ("https://[2a00:1:2:3::4]/", Some("2a00:1:2::/48")),
            ("ftp://tools.example/", None),
        ] {
            assert_eq!(site_of(url).as_deref(), expected, "{url}");
        }
    }
}
