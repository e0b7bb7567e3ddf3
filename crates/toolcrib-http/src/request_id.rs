//! Request IDs, for logs and error reports.
//!
//! Implemented here, because `request-id` of tower-http repeats any ID that a caller sends, whatever its length and characters.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the ID of a request.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest ID that is accepted from a caller. A UUID has 36 characters.
const MAX_CHARS: usize = 64;

/// Returns the ID that a caller sent, if it is short and harmless, or a new one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(X_REQUEST_ID).filter(|id| {
        let bytes = id.as_bytes();
        let is_harmless = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !bytes.is_empty() && bytes.len() <= MAX_CHARS && bytes.iter().all(is_harmless)
    });
    given.cloned().unwrap_or_else(new_id)
}

/// Makes an ID: a random start of this process and a count.
fn new_id() -> HeaderValue {
    static START: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let start = START.get_or_init(|| {
        let mut random = [0; 8];
        // Without random bytes, IDs are the same after each start, which is harmless.
        let _ = getrandom::fill(&mut random);
        u64::from_be_bytes(random)
    });
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::try_from(format!("{start:016x}-{count:x}")).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_ids_are_repeated() {
        let value = |id: &str| HeaderValue::from_bytes(id.as_bytes()).expect("a value");
        let of = |id: &str| request_id(&HeaderMap::from_iter([(X_REQUEST_ID, value(id))]));
        assert_eq!(of("abc-1.2_3"), "abc-1.2_3");
        assert_eq!(of(&"a".repeat(MAX_CHARS)), "a".repeat(MAX_CHARS));
        for other in ["a b", "", "é", &"a".repeat(MAX_CHARS + 1)] {
            assert_ne!(of(other), value(other));
        }
        assert_ne!(new_id(), new_id());
    }
}
