//! Differences between the pinned manifest and another one.

use serde::{Deserialize, Serialize};
use toolcrib_core::json::{Document, Value};
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::explain::diff;

/// Most changes that are stored. A manifest with more is a different tool.
pub const MAX_CHANGES: usize = 40;

/// The part of a manifest that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The name.
    Name,
    /// The description.
    Description,
    /// The schema of the input.
    InputSchema,
    /// The schema of the output.
    OutputSchema,
    /// The recipient of a payment.
    Recipient,
    /// Amount, asset or protocol of a price.
    Price,
    /// The URL that is called.
    Endpoint,
    /// Anything else.
    Other,
}

impl Field {
    /// The name of the field in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Description => "description",
            Self::InputSchema => "input schema",
            Self::OutputSchema => "output schema",
            Self::Recipient => "recipient",
            Self::Price => "price",
            Self::Endpoint => "endpoint",
            Self::Other => "other",
        }
    }

    /// The field that contains the target of an RFC 6901 pointer.
    fn of(pointer: &str) -> Self {
        let mut parts = pointer.split('/').skip(1);
        match parts.next().unwrap_or_default() {
            "name" => Self::Name,
            "description" => Self::Description,
            "inputs" => Self::InputSchema,
            "outputs" => Self::OutputSchema,
            "pricing" if parts.nth(1) == Some("recipient") => Self::Recipient,
            "pricing" => Self::Price,
            "endpoint" => Self::Endpoint,
            _ => Self::Other,
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The part of the manifest.
    pub field: Field,
    /// The location, as an RFC 6901 pointer. Untrusted input.
    pub pointer: String,
    /// `added`, `removed` or `changed`.
    pub kind: String,
    /// The canonical form before, truncated. Untrusted input.
    pub before: Option<String>,
    /// The canonical form after, truncated. Untrusted input.
    pub after: Option<String>,
}

impl Change {
    /// The change in one escaped line.
    pub fn text(&self) -> String {
        let value = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), escape_for_display);
        let place = escape_for_display(&self.pointer);
        format!("{} {} at {place}: {} -> {}", self.field.as_str(), self.kind, value(&self.before), value(&self.after))
    }
}

/// All differences between two manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// The first [`MAX_CHANGES`] in the order of the canonical form.
    pub list: Vec<Change>,
    /// How many more there are.
    pub left_out: usize,
}

impl Changes {
    /// Compares the pinned manifest with another document.
    pub(super) fn between(before: Value<'_>, after: Value<'_>) -> Self {
        let diff = diff(before, after);
        let list: Vec<_> = diff
            .changes
            .into_iter()
            .take(MAX_CHANGES)
            .map(|change| Change {
                field: Field::of(&change.pointer),
                kind: change.kind.as_str().to_owned(),
                pointer: change.pointer,
                before: change.before,
                after: change.after,
            })
            .collect();
        Self { left_out: diff.total - list.len(), list }
    }

    /// Compares the pinned manifest with bytes from a server. `None` if they are not JSON.
    pub(super) fn with_served(before: Value<'_>, served: &[u8]) -> Option<Self> {
        let limits =
            toolcrib_core::json::Limits { max_bytes: toolcrib_core::json::MAX_BYTES, max_depth: toolcrib_core::json::MAX_DEPTH };
        let document: Document = toolcrib_core::json::read(served, limits).document?;
        Some(Self::between(before, document.root()))
    }

    /// The fields that changed, without duplicates.
    pub fn fields(&self) -> Vec<Field> {
        let fields: std::collections::BTreeSet<_> = self.list.iter().map(|change| change.field).collect();
        fields.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn fields(before: &str, after: &str) -> Vec<Field> {
        let read =
            |text: &str| toolcrib_core::json::read(text.as_bytes(), toolcrib_core::json::Limits::default()).document.unwrap();
        let (before, after) = (read(before), read(after));
        Changes::between(before.root(), after.root()).fields()
    }

    #[test]
    fn every_part_of_a_manifest_has_its_name() {
        assert_eq!(fields(r#"{"name":"a"}"#, r#"{"name":"b"}"#), [Field::Name]);
        assert_eq!(fields(r#"{"description":"a"}"#, r#"{"description":"b"}"#), [Field::Description]);
        assert_eq!(fields(r#"{"inputs":{"a":1}}"#, r#"{"inputs":{"a":2}}"#), [Field::InputSchema]);
        assert_eq!(fields(r#"{"outputs":{"a":1}}"#, r#"{"outputs":{}}"#), [Field::OutputSchema]);
        assert_eq!(fields(r#"{"endpoint":"a"}"#, r#"{"endpoint":"b"}"#), [Field::Endpoint]);
        assert_eq!(fields(r#"{"pricing":[{"amount":"1"}]}"#, r#"{"pricing":[{"amount":"2"}]}"#), [Field::Price]);
        assert_eq!(fields(r#"{"pricing":[{"recipient":"1"}]}"#, r#"{"pricing":[{"recipient":"2"}]}"#), [Field::Recipient]);
        assert_eq!(fields("{}", r#"{"pricing":[{"recipient":"2"}]}"#), [Field::Price]);
        assert_eq!(fields("{}", r#"{"x-other":1}"#), [Field::Other]);
    }

    #[test]
    fn what_is_not_kept_is_counted_and_shown_text_is_escaped() {
        let object = |value: u8| {
            let members: Vec<_> = (0..=MAX_CHANGES).map(|at| format!("\"k{at}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let (before, after) = (object(1), object(2));
        let changes = Changes::with_served(
            toolcrib_core::json::read(before.as_bytes(), toolcrib_core::json::Limits::default()).document.unwrap().root(),
            after.as_bytes(),
        );
        let changes = changes.unwrap();
        assert_eq!((changes.list.len(), changes.left_out), (MAX_CHANGES, 1));
        let change = Change {
            field: Field::Other,
            pointer: "/\u{1b}".to_owned(),
            kind: "changed".to_owned(),
            before: Some("\u{202e}".to_owned()),
            after: None,
        };
        assert!(!change.text().contains(['\u{1b}', '\u{202e}']), "{}", change.text());
    }
}
