//! HTTPS URLs: normalization is idempotent, and a browser's parser finds the same host and port.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::url::HttpsUrl;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(ours) = HttpsUrl::parse(text) else { return };
    let normalized = ours.normalized();
    assert!(normalized.is_ascii(), "{normalized}");

    let again = HttpsUrl::parse(normalized).expect("the normalised form is a URL");
    assert_eq!(again.normalized(), normalized, "normalised once and for all");

    let (host, port) = host_and_port(normalized);
    for written in [text, normalized] {
        let theirs = url::Url::parse(written).expect("whatever we accept is a URL to others");
        assert_eq!(theirs.scheme(), "https", "{written}");
        assert!(theirs.username().is_empty() && theirs.password().is_none(), "{written}");
        assert_eq!(theirs.host_str(), Some(host), "{written}");
        assert_eq!(theirs.port(), port, "{written}");
    }
});

/// Host and port in a normalized URL, which contains the port only if it is not 443.
fn host_and_port(normalized: &str) -> (&str, Option<u16>) {
    let rest = normalized.strip_prefix("https://").expect("the scheme is in lower case");
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    match authority.rsplit_once(':') {
        // A colon inside the brackets of an IPv6 address does not start a port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().expect("a port"))),
        _ => (authority, None),
    }
}
