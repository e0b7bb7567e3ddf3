//! The content hash of a tool folder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolcrib_core::hex;

/// How a content hash begins as text.
pub const CONTENT_HASH_PREFIX: &str = "sha256:";

/// SHA-256 over the names, executable bits and contents of all files of a tool folder.
///
/// Permissions and secrets are bound to it: a tool whose manifest or handler changed has neither until its user grants them again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// A hash from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CONTENT_HASH_PREFIX}{}", alloy_primitives::hex::encode(self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// A text that is not `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a content hash: expected `sha256:` and 64 lower-case hex digits")]
pub struct ContentHashError;

impl FromStr for ContentHash {
    type Err = ContentHashError;

    fn from_str(text: &str) -> Result<Self, ContentHashError> {
        let digits = text.strip_prefix(CONTENT_HASH_PREFIX).ok_or(ContentHashError)?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ContentHashError);
        }
        let bytes = hex::decode(digits).ok_or(ContentHashError)?;
        bytes.try_into().map(Self).map_err(|_| ContentHashError)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_hash_are_the_same_thing() {
        let hash = ContentHash::new([0xab; 32]);
        let text = hash.to_string();
        assert_eq!(text, format!("sha256:{}", "ab".repeat(32)));
        assert_eq!(text.parse(), Ok(hash));
        for wrong in ["", "sha256:", &text[7..], &text.to_uppercase(), &format!("{text}ab"), &text[..70], "sha256:zz"] {
            assert_eq!(wrong.parse::<ContentHash>(), Err(ContentHashError), "{wrong}");
        }
    }
}
