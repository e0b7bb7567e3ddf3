//! The definition of a function at its approval, so that a prompt can show what changed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolcrib_core::hex;

use crate::local::canonical::canonical_hash;

/// Most bytes of a description that are stored as text. Longer ones are compared by hash, and the prompt shows the beginning.
pub const MAX_DESCRIPTION_BYTES: usize = 2_048;

/// What a model saw of a function at its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The version of the tool.
    pub version: String,
    /// The description of the function, cut at [`MAX_DESCRIPTION_BYTES`].
    pub description: String,
    description_hash: Digest,
    parameters_hash: Digest,
}

impl Definition {
    /// Creates the definition of a function from its manifest.
    pub fn new(version: &str, description: &str, parameters: &Value) -> Self {
        Self {
            version: cut(version, 256),
            description: cut(description, MAX_DESCRIPTION_BYTES),
            description_hash: Digest(Sha256::digest(description.as_bytes()).into()),
            parameters_hash: Digest(canonical_hash(parameters)),
        }
    }

    /// Compares the approved definition with the current one.
    pub fn changes_to(&self, today: &Self) -> Changed {
        let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        let description = self.description_hash != today.description_hash;
        let parameters = self.parameters_hash != today.parameters_hash;
        Changed {
            version: (self.version != today.version).then(|| pair(&self.version, &today.version)),
            description: description.then(|| pair(&self.description, &today.description)),
            parameters,
            handler_only: !description && !parameters,
        }
    }
}

/// What changed since a function was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The old and the new version, if they differ.
    pub version: Option<(String, String)>,
    /// The old and the new description, if they differ.
    pub description: Option<(String, String)>,
    /// Whether the parameters differ.
    pub parameters: bool,
    /// Whether description and parameters are equal, so that only files that models do not see differ: the handler, or other functions.
    pub handler_only: bool,
}

/// Describes the changes. Descriptions are text of the tool's author.
impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some((old, new)) = &self.version {
            parts.push(format!("version {old} is now {new}"));
        }
        if let Some((old, new)) = &self.description {
            parts.push(format!("the description was {old:?} and is {new:?}"));
        }
        if self.parameters {
            parts.push("the parameters differ".to_owned());
        }
        if self.handler_only {
            parts.push("files that a model does not see differ, such as the handler".to_owned());
        }
        f.write_str(&parts.join("; "))
    }
}

/// A SHA-256 as hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Digest([u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloy_primitives::hex::encode(self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&alloy_primitives::hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = hex::decode(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("expected 64 hex digits"))
    }
}

/// Truncates a text to `limit` bytes, between characters.
fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_apart() {
        let old = Definition::new("1.0.0", "Reads a file", &json!({"type": "object", "properties": {"a": {}}}));
        let same = Definition::new("1.0.0", "Reads a file", &json!({"properties": {"a": {}}, "type": "object"}));
        assert_eq!(old.changes_to(&same), Changed { version: None, description: None, parameters: false, handler_only: true });
        let other = Definition::new("1.1.0", "Deletes a file", &json!({"type": "object"}));
        let changed = old.changes_to(&other);
        assert_eq!(changed.version, Some(("1.0.0".to_owned(), "1.1.0".to_owned())));
        assert_eq!(changed.description, Some(("Reads a file".to_owned(), "Deletes a file".to_owned())));
        assert!(changed.parameters && !changed.handler_only);
    }

    #[test]
    fn long_descriptions_are_cut_and_still_compared() {
        let long = "ä".repeat(MAX_DESCRIPTION_BYTES);
        let (first, second) =
            (Definition::new("1.0.0", &long, &json!({})), Definition::new("1.0.0", &format!("{long}!"), &json!({})));
        assert_eq!(first.description.len(), MAX_DESCRIPTION_BYTES);
        assert!(first.changes_to(&second).description.is_some());
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), first);
    }
}
