//! Unverified text of third parties.

use std::fmt;

use serde::{Serialize, Serializer};
use toolcrib_core::text::escape_for_display;

/// A text from a manifest or a contract that did not pass every check.
///
/// It may be shown to a person, escaped, and used for nothing else. It has no accessor for the raw text, so it cannot reach an agent, a
/// shell or a prompt by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Untrusted(String);

impl Untrusted {
    /// Longest text that is kept.
    pub const MAX_CHARS: usize = 200;

    /// Wraps a text, truncated to [`Self::MAX_CHARS`] characters.
    pub fn new(text: &str) -> Self {
        match text.char_indices().nth(Self::MAX_CHARS) {
            Some((end, _)) => Self(format!("{}…", &text[..end])),
            None => Self(text.to_owned()),
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_for_display(&self.0))
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted(\"{self}\")")
    }
}

impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_out_is_escaped_and_bounded() {
        let text = Untrusted::new("red \u{1b}[31m \u{202e}x");
        assert_eq!(text.to_string(), "red \\u{1b}[31m \\u{202e}x");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""red \\u{1b}[31m \\u{202e}x""#);
        assert!(!format!("{text:?}").contains('\u{1b}'));
        assert_eq!(Untrusted::new(&"é".repeat(201)).to_string().chars().count(), 201);
        assert_eq!(Untrusted::new(&"é".repeat(200)).to_string().chars().count(), 200);
    }
}
