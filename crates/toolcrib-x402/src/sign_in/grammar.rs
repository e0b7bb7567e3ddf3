//! The grammar of each part of an EIP-4361 message.

/// Longest domain: a host name, a colon and a port.
const MAX_DOMAIN_BYTES: usize = 253 + 6;

/// Longest statement. It is a sentence for the user.
const MAX_STATEMENT_BYTES: usize = 512;

/// Longest URI.
const MAX_URI_BYTES: usize = 2_048;

/// Length of a nonce: the standard requires at least eight characters.
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 8..=128;

/// Longest request id.
const MAX_REQUEST_ID_BYTES: usize = 256;

/// A host name or address, with an optional port. No user information: it would make one site look like another.
pub(super) fn is_domain(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    (1..=MAX_DOMAIN_BYTES).contains(&text.len()) && text.bytes().all(is_part)
}

pub(super) fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.len() <= 32 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_part)
}

/// `1*( reserved / unreserved / " " )`: one line, and no characters that could hide others.
pub(super) fn is_statement(text: &str) -> bool {
    (1..=MAX_STATEMENT_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte == b' ' || is_plain(byte))
}

/// Whether the text has a scheme and only characters of URIs.
pub(super) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    text.len() <= MAX_URI_BYTES && is_scheme(scheme) && is_encoded(rest, is_plain)
}

pub(super) fn is_nonce(text: &str) -> bool {
    NONCE_BYTES.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `*pchar`, which may be empty.
pub(super) fn is_request_id(text: &str) -> bool {
    text.len() <= MAX_REQUEST_ID_BYTES && is_encoded(text, |byte| is_plain(byte) && !b"/?#[]".contains(&byte))
}

/// Reserved and unreserved characters of RFC 3986.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte)
}

/// Allowed characters, and `%` with two digits.
fn is_encoded(text: &str, is_allowed: impl Fn(u8) -> bool) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut is_digit = || bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit());
        let is_good = if byte == b'%' { is_digit() && is_digit() } else { is_allowed(byte) };
        if !is_good {
            return false;
        }
    }
    true
}
