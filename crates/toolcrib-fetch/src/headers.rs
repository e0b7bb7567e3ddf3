//! Request headers of the caller. Their values are never printed.

use std::fmt;

use toolcrib_core::text;

use crate::Error;

/// Headers that only the client sets: they determine the request's destination and framing, and the allowed responses.
const OWN: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Maximum length of a value. Payment headers are the longest, at a few kilobytes.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Request headers, checked when they are added. Debug output shows the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a header. Names are sent in lower case.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::Header { name: text::escape_for_display(&bounded(name)), reason });
        if name.is_empty() || !name.bytes().all(is_token) {
            return refuse("its name is not a valid header name");
        }
        let name = name.to_ascii_lowercase();
        if OWN.contains(&name.as_str()) {
            return refuse("only the HTTP client may set it");
        }
        if value.len() > MAX_VALUE_BYTES {
            return refuse("its value is too long");
        }
        if !value.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')) || value.trim() != value {
            return refuse("its value has an invalid character");
        }
        self.0.push((name, value.to_owned()));
        Ok(self)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

const fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

fn bounded(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_change_the_request() {
        let headers = Headers::new().with("X-Payment", "secret value").unwrap().with("authorization", "Bearer secret").unwrap();
        assert_eq!(headers.iter().next(), Some(("x-payment", "secret value")));
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
        for (name, value) in [
            ("", "a"),
            ("a b", "a"),
            ("a:", "a"),
            ("é", "a"),
            ("Host", "a"),
            ("content-LENGTH", "1"),
            ("cookie", "a=b"),
            ("a", "b\r\nc: d"),
            ("a", "b\0"),
            ("a", "é"),
            ("a", " b"),
        ] {
            let error = Headers::new().with(name, value).unwrap_err();
            assert!(!value.contains('\r') || !error.to_string().contains("c: d"), "{error}");
        }
        assert!(Headers::new().with("a", &"b".repeat(MAX_VALUE_BYTES)).is_ok());
        assert!(Headers::new().with("a", &"b".repeat(MAX_VALUE_BYTES + 1)).is_err());
    }
}
