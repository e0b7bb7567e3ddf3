//! Pagination cursors of searches.
//!
//! Guarantees of pagination while tools are added, changed and removed:
//!
//! - By newest or most used, and without words: a cursor is a position in an order that depends on each tool alone. Whatever happens
//!   between two pages, an unchanged tool is neither skipped nor repeated. One whose position changed may be.
//! - By relevance with words: the ranked hits of a search are cached in memory after its first page, and the next pages are slices of
//!   them. All pages show the same moment; tools that were removed meanwhile are still among the keys. The last
//!   [`HELD`](super::held::HELD) searches are cached. If a search is no longer cached, or the request reaches another process, the search
//!   runs again and continues after the score and key in the cursor. Statistics that scores depend on are rounded coarsely, so that a few
//!   changes leave scores as they are; a change that crosses a rounding step may repeat or skip hits near the border of the page.

use std::fmt;

use alloy_primitives::U256;
use base64ct::{Base64UrlUnpadded, Encoding as _};

use crate::Error;
use crate::model::{RegistryId, ToolKey};

/// The maximum length of a cursor. Those that this index issues are shorter.
const MAX_CHARS: usize = 128;

/// The first byte. Cursors live for minutes; one of another version is rejected.
const VERSION: u8 = 1;

/// A pagination cursor. A page returns it and the next request takes it. Its text has only letters, digits, `-` and `_`, so it needs no
/// escaping in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(CursorPosition);

/// The content of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CursorPosition {
    /// The fingerprint of its search.
    pub(super) search: u32,
    /// Whether the position is among unverified tools.
    pub(super) is_unverified: bool,
    /// The hit that it comes after: its sort value and its key.
    pub(super) value: u64,
    pub(super) key: ToolKey,
    /// The cache number of the ranked hits, and how many were returned; zero if they are not cached.
    pub(super) held: u64,
    pub(super) given: u32,
}

impl Cursor {
    /// Parses a cursor.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_CHARS {
            return Err(Error::Cursor);
        }
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| Error::Cursor)?;
        read(&bytes).map(Self).ok_or(Error::Cursor)
    }

    pub(super) const fn new(place: CursorPosition) -> Self {
        Self(place)
    }

    pub(super) const fn place(&self) -> &CursorPosition {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CursorPosition { search, is_unverified, value, key, held, given } = self.0;
        let mut bytes = vec![VERSION, u8::from(is_unverified)];
        bytes.extend_from_slice(&search.to_be_bytes());
        bytes.extend_from_slice(&value.to_be_bytes());
        bytes.extend_from_slice(&key.registry.0.to_be_bytes());
        bytes.extend_from_slice(&held.to_be_bytes());
        bytes.extend_from_slice(&given.to_be_bytes());
        // Ids are small numbers.
        bytes.extend_from_slice(&key.id.to_be_bytes_trimmed_vec());
        f.write_str(&Base64UrlUnpadded::encode_string(&bytes))
    }
}

fn read(bytes: &[u8]) -> Option<CursorPosition> {
    let ([VERSION, is_unverified @ 0..=1], rest) = bytes.split_first_chunk::<2>()? else { return None };
    let (search, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_first_chunk::<8>()?;
    let (registry, rest) = rest.split_first_chunk::<8>()?;
    let (held, rest) = rest.split_first_chunk::<8>()?;
    let (given, id) = rest.split_first_chunk::<4>()?;
    Some(CursorPosition {
        search: u32::from_be_bytes(*search),
        is_unverified: *is_unverified == 1,
        value: u64::from_be_bytes(*value),
        key: ToolKey { registry: RegistryId(i64::from_be_bytes(*registry)), id: U256::try_from_be_slice(id)? },
        held: u64::from_be_bytes(*held),
        given: u32::from_be_bytes(*given),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_survives_its_text(
            search: u32, is_unverified: bool, value: u64, registry: i64, id: [u8; 32], small: bool, held: u64, given: u32,
        ) {
            let id = if small { U256::from(id[0]) } else { U256::from_be_bytes(id) };
            let key = ToolKey { registry: RegistryId(registry), id };
            let cursor = Cursor::new(CursorPosition { search, is_unverified, value, key, held, given });
            let text = cursor.to_string();
            prop_assert!(text.len() <= MAX_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
            prop_assert_eq!(Cursor::parse(&text).expect("a cursor"), cursor);
        }

        #[test]
        fn other_texts_are_refused_or_read(text in "[A-Za-z0-9_-]{0,140}|.{0,60}") {
            if let Ok(cursor) = Cursor::parse(&text) {
                prop_assert!(Cursor::parse(&cursor.to_string()).is_ok());
            }
        }
    }

    #[test]
    fn no_cursor_is_empty() {
        for text in ["", "AQ", "not a cursor", &"A".repeat(1_000_000)] {
            assert!(matches!(Cursor::parse(text), Err(Error::Cursor)), "{}", text.len());
        }
    }
}
