//! Places among hits, as text.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};

use crate::Error;

/// Longest text of a cursor. Ours are shorter; the rest is somebody else's.
const MAX_CHARS: usize = 200;

/// A place among hits. Its text is what a page gives and the next one takes: letters, digits, `-` and `_`, so it needs no escaping in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) Vec<u8>);

impl Cursor {
    /// Reads a cursor's text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > MAX_CHARS {
            return Err(Error::Cursor);
        }
        Base64UrlUnpadded::decode_vec(text).map(Self).map_err(|_| Error::Cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64UrlUnpadded::encode_string(&self.0))
    }
}
