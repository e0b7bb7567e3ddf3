//! Headers that carry JSON: standard base64 with padding, one line, with a size limit.
//!
//! Each text has one meaning and each value one encoding. Lenient decoders accept many encodings of the same payment, and disagree on some
//! of them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Longest header value. Node.js and many proxies reject more than 16 KiB of headers in total.
pub const MAX_BYTES: usize = 16 * 1024;

/// The header that carries a challenge of version 2. Header names are case-insensitive.
pub const PAYMENT_REQUIRED: &str = "PAYMENT-REQUIRED";

/// An alternative name that a few clients read as well.
pub const X_PAYMENT_REQUIRED: &str = "X-PAYMENT-REQUIRED";

/// The header that carries a payment of version 1.
pub const X_PAYMENT: &str = "X-PAYMENT";

/// The header that carries a payment of version 2.
pub const PAYMENT_SIGNATURE: &str = "PAYMENT-SIGNATURE";

/// The header that carries a receipt of version 1.
pub const X_PAYMENT_RESPONSE: &str = "X-PAYMENT-RESPONSE";

/// The header that carries a receipt of version 2.
pub const PAYMENT_RESPONSE: &str = "PAYMENT-RESPONSE";

/// The header that carries the salt of a bound nonce, as `0x` and 64 hexadecimal digits.
pub const X_TOOL_NONCE_SALT: &str = "X-Tool-Nonce-Salt";

/// The header in which a caller with a bound nonce names the tool, as a tool reference. Servers that know their own reference do not need
/// it.
pub const X_TOOL_REFERENCE: &str = "X-Tool-Reference";

/// The header that carries a retry token: with it a caller whose nonce is not bound fetches the result of a call that it has paid for.
pub const X_TOOL_RETRY_TOKEN: &str = "X-Tool-Retry-Token";

/// The header in which a server states for how many seconds from now the result of a paid call can be fetched again with the same payment.
/// A duration and not a time of day, so that clocks need not agree.
pub const X_TOOL_REDEEMABLE_SECONDS: &str = "X-Tool-Redeemable-Seconds";

/// The header in which a caller names the account that has delegated to it (delegate.xyz); the predicate checks that account.
pub const X_DELEGATE_FOR: &str = "X-Delegate-For";

/// The header in which a caller sends the `data` for a predicate, as `0x` and hexadecimal digits. Never part of a first request: it may
/// hold a signature.
pub const X_TOOL_ACCESS_DATA: &str = "X-Tool-Access-Data";

/// Why a text is not valid base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The text is empty.
    Empty,
    /// More than [`MAX_BYTES`].
    TooLong,
    /// JSON without base64 encoding.
    PlainJson,
    /// Several values joined with commas.
    Comma,
    /// A space, tab or line break.
    Space,
    /// The URL-safe alphabet.
    UrlSafe,
    /// Any other character outside the base64 alphabet.
    Character,
    /// Padding is missing, too long or not at the end.
    Padding,
    /// Bits after the last byte are not zero: another text decodes to the same bytes.
    StrayBits,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the header is empty",
            Self::TooLong => "the header is longer than 16 KiB",
            Self::PlainJson => "the header contains JSON without base64 encoding",
            Self::Comma => "the header contains several values joined with commas",
            Self::Space => "the header contains spaces or line breaks",
            Self::UrlSafe => "the header uses the URL-safe alphabet of base64",
            Self::Character => "the header contains characters outside the base64 alphabet",
            Self::Padding => "the header's base64 is not padded to a multiple of four characters",
            Self::StrayBits => "the header's base64 has stray bits at its end",
        })
    }
}

impl std::error::Error for HeaderError {}

/// Encodes bytes as base64.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 strictly.
pub fn decode(text: &str) -> Result<Vec<u8>, HeaderError> {
    if text.is_empty() {
        return Err(HeaderError::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(HeaderError::TooLong);
    }
    STANDARD.decode(text).map_err(|_| fault(text))
}

/// Returns why a text is not valid base64. The decoder's errors do not distinguish typical mistakes of clients.
fn fault(text: &str) -> HeaderError {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    match digits.bytes().find(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))) {
        _ if text.starts_with('{') => HeaderError::PlainJson,
        Some(b',') => HeaderError::Comma,
        Some(b'=') => HeaderError::Padding,
        Some(b'-' | b'_') => HeaderError::UrlSafe,
        Some(odd) if odd.is_ascii_whitespace() => HeaderError::Space,
        Some(_) => HeaderError::Character,
        None if !text.len().is_multiple_of(4) => HeaderError::Padding,
        None => HeaderError::StrayBits,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648() {
        for (plain, coded) in
            [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Ok(plain.as_bytes()));
        }
        assert_eq!(encode(b""), "");
    }

    #[test]
    fn every_other_spelling_is_refused_by_name() {
        for (text, fault) in [
            ("", HeaderError::Empty),
            ("{\"x402Version\":2}", HeaderError::PlainJson),
            ("Zm9v, Zm9v", HeaderError::Comma),
            ("Zm9v\n", HeaderError::Space),
            (" Zm9v", HeaderError::Space),
            ("Zm-v", HeaderError::UrlSafe),
            ("Zm_v", HeaderError::UrlSafe),
            ("Zm.v", HeaderError::Character),
            ("Zmév", HeaderError::Character),
            ("Zg", HeaderError::Padding),
            ("Zg=", HeaderError::Padding),
            ("Zg===", HeaderError::Padding),
            ("Zg==Zg==", HeaderError::Padding),
            ("=", HeaderError::Padding),
            ("====", HeaderError::Padding),
            ("A===", HeaderError::Padding),
            ("Z", HeaderError::Padding),
            ("Zh==", HeaderError::StrayBits),
            ("Zm9=", HeaderError::StrayBits),
        ] {
            assert_eq!(decode(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn the_cap_is_on_the_text() {
        assert_eq!(decode(&"A".repeat(MAX_BYTES)).map(|bytes| bytes.len()), Ok(MAX_BYTES / 4 * 3));
        assert_eq!(decode(&"A".repeat(MAX_BYTES + 1)), Err(HeaderError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assume!(!bytes.is_empty());
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }

        #[test]
        fn what_is_read_has_one_spelling(text in "[A-Za-z0-9+/]{0,12}={0,3}") {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
