//! Detects the kind of a manifest from its fields, for commands whose user did not specify it.
//!
//! The answer is a guess and only selects the checks: a document of the wrong kind fails those checks.

use std::fmt;
use std::str::FromStr;

use crate::json::Value;

/// The kinds of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestKind {
    /// A tool of an ERC-8257 registry.
    Tool,
    /// An agent behind an `.agt` name.
    Agent,
    /// A tool in a folder on the user's machine.
    Local,
}

impl ManifestKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Tool, Self::Agent, Self::Local];

    /// The name of this kind on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Local => "local",
        }
    }

    /// Returns the kind that the fields of `root` indicate, or `None` if they indicate none.
    ///
    /// Fields that only one kind has are checked first (`agt`, `creatorAddress`, `functions`), fields that could be an extra field of
    /// another kind last.
    pub fn detect(root: Value<'_>) -> Option<Self> {
        let object = root.as_object()?;
        let has = |key: &str| object.get(key).is_some();
        // A JSON Schema of a manifest also names all its fields, but below `properties`.
        let tool_type = object.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("tool-manifest"));

        if has("agt") || has("owner") && (has("capabilities") || has("protocols")) {
            Some(Self::Agent)
        } else if has("creatorAddress") || tool_type {
            Some(Self::Tool)
        } else if object.get("functions").is_some_and(|functions| functions.as_array().is_some() || has("id")) {
            // Deployment settings have an object with this name.
            Some(Self::Local)
        } else if has("endpoint") || has("inputs") || has("outputs") || has("url") && has("inputSchema") {
            Some(Self::Tool)
        } else if has("id") && has("version") && has("description") {
            // A local tool without functions, such as the manifest of a channel.
            Some(Self::Local)
        } else {
            None
        }
    }
}

impl fmt::Display for ManifestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a manifest kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the manifest kind must be tool, agent or local")
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for ManifestKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Limits};

    #[track_caller]
    fn check(source: &str, wanted: Option<ManifestKind>) {
        let document = json::read(source.as_bytes(), Limits::default()).document.expect("the test source is JSON");
        assert_eq!(ManifestKind::detect(document.root()), wanted, "{source}");
    }

    #[test]
    fn fields_speak_for_a_kind() {
        use ManifestKind::{Agent, Local, Tool};

        check(r#"{"agt": "1.0"}"#, Some(Agent));
        check(r#"{"owner": "0x", "capabilities": []}"#, Some(Agent));
        check(r#"{"owner": "0x", "protocols": []}"#, Some(Agent));
        check(r#"{"owner": "0x"}"#, None);
        check(r#"{"capabilities": []}"#, None);
        check(r#"{"agt": "1.0", "endpoint": "https://a.example/"}"#, Some(Agent));

        check(r#"{"creatorAddress": "0x"}"#, Some(Tool));
        check(r#"{"type": "https://example.com/#tool-manifest-v1"}"#, Some(Tool));
        check(r#"{"type": "object", "properties": {"agt": {}}}"#, None);
        check(r#"{"endpoint": "https://a.example/"}"#, Some(Tool));
        check(r#"{"inputs": {}}"#, Some(Tool));
        check(r#"{"outputs": {}}"#, Some(Tool));
        check(r#"{"url": "https://a.example/", "inputSchema": {}}"#, Some(Tool));
        check(r#"{"url": "https://a.example/"}"#, None);
        check(r#"{"creatorAddress": "0x", "functions": []}"#, Some(Tool));

        check(r#"{"functions": []}"#, Some(Local));
        check(r#"{"functions": [], "endpoint": "x"}"#, Some(Local));
        check(r#"{"id": "a", "version": "1.0.0", "description": "b"}"#, Some(Local));
        check(r#"{"id": "a", "version": "1.0.0", "description": "b", "endpoint": "x"}"#, Some(Tool));
        check(r#"{"id": "a", "version": "1.0.0"}"#, None);

        for none in ["{}", "[]", "null", "\"agt\"", r#"["functions"]"#, r#"{"x": {"functions": []}}"#] {
            check(none, None);
        }
    }

    #[test]
    fn words_and_kinds_go_both_ways() {
        for kind in ManifestKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for bad in ["", "Tool", "tool ", "tools", "skill"] {
            assert_eq!(bad.parse::<ManifestKind>(), Err(UnknownKind), "{bad}");
        }
    }
}
