//! Messages for violations that a caller can act on.
//!
//! The engine reports a failed `anyOf` or `oneOf` as one sentence without a reason. Here it becomes the closest alternative to the value,
//! with the violations of that one: `/shape: fits no alternative; closest is alternative 2 of 3 ({kind: circle}): /shape/radius: …`.
//! Unknown names get the name that they resemble.
//!
//! Work is bounded: the engine has already collected all violations (see [`super::Validator::violations`] for that limit), each list is
//! walked once, and only the closest alternative is described, to a few levels.

use std::cmp::Reverse;
use std::fmt;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Reason};
use serde_json::Value as Plain;

use crate::near;
use crate::text::escape_for_display;

/// Most alternatives that are compared. Beyond it only the first ones count.
const MAX_ALTERNATIVES: usize = 64;

/// Most levels of alternatives inside alternatives that are described.
const MAX_LEVELS: usize = 4;

/// Most violations of the closest alternative that are listed.
const MAX_CLOSEST: usize = 3;

/// Longest text of a violation inside the message of another one, in characters.
const MAX_PART_CHARS: usize = 120;

/// Longest value that is quoted in a message, in characters. The text after it says what was expected.
const MAX_ECHO_CHARS: usize = 120;

/// Most expected values, types or unknown names in one message.
const MAX_LISTED: usize = 12;

/// Most schemas that are followed from an alternative through `$ref` and `allOf` to find its discriminating values.
const MAX_FOLLOWED: usize = 16;

/// Whether messages quote the values that they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// For the sender of the value.
    Values,
    /// For logs and all other readers: arguments may hold secrets.
    Masked,
}

/// One way in which a value breaks a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Pointer into the value.
    pub instance_pointer: String,
    /// Pointer into the schema, to the keyword.
    pub schema_pointer: String,
    /// One sentence: lowercase start, no full stop. For `anyOf` and `oneOf` it includes the violations in `closest`.
    pub message: String,
    /// How the value breaks the closest alternative of `anyOf` or `oneOf`; empty for other keywords.
    pub closest: Vec<Self>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.instance_pointer.is_empty() { "the value" } else { &self.instance_pointer };
        write!(f, "{place}: {}", self.message)
    }
}

/// Turns errors of the engine into violations.
#[derive(Clone, Copy)]
pub(super) struct Describer<'s> {
    schema: &'s Plain,
    echo: Echo,
}

/// The distance of a value from an alternative; the smallest is the closest. In this order: a discriminating value differs, or is missing;
/// the value has another type; violations at the value itself (a missing name suggests another alternative, a wrong value further down does
/// not); all violations; and the depth of the deepest one.
type Distance = (Tag, bool, usize, usize, Reverse<usize>);

/// Whether an alternative's `const` values, such as `kind: circle`, match those of the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Same,
    Unknown,
    Other,
}

impl<'s> Describer<'s> {
    pub(super) const fn new(schema: &'s Plain, echo: Echo) -> Self {
        Self { schema, echo }
    }

    /// Describes an error of the engine.
    pub(super) fn describe(self, error: &ValidationError<'_>) -> Violation {
        self.describe_at(error, 0)
    }

    fn describe_at(self, error: &ValidationError<'_>, level: usize) -> Violation {
        let (message, closest) = match error.kind() {
            Reason::AnyOf { context } | Reason::OneOfNotValid { context } if level < MAX_LEVELS => {
                self.closest(error, context, level)
            }
            Reason::OneOfMultipleValid { context } => (several(context), Vec::new()),
            Reason::Required { property } => (self.text(error) + &self.meant_by(error, property), Vec::new()),
            Reason::AdditionalProperties { unexpected } | Reason::UnevaluatedProperties { unexpected } => {
                (self.text(error) + &self.meant(error, unexpected), Vec::new())
            }
            _ => (self.text(error), Vec::new()),
        };
        Violation {
            instance_pointer: error.instance_path().as_str().to_owned(),
            schema_pointer: error.schema_path().as_str().to_owned(),
            message,
            closest,
        }
    }

    /// The engine's message, with the value shortened or masked.
    fn text(self, error: &ValidationError<'_>) -> String {
        match self.value(error) {
            Some(value) => error.masked_with(value).to_string(),
            None => error.masked().to_string(),
        }
    }

    /// The value as JSON text, shortened. `None` if it must not be shown.
    fn value(self, error: &ValidationError<'_>) -> Option<String> {
        (self.echo == Echo::Values).then(|| cut(&error.instance().to_string(), MAX_ECHO_CHARS))
    }

    /// The message about a value that matches no alternative, and the violations of the closest one.
    fn closest(
        self,
        error: &ValidationError<'_>,
        alternatives: &[Vec<ValidationError<'static>>],
        level: usize,
    ) -> (String, Vec<Violation>) {
        let base = error.instance_path().as_str();
        if let Some(expected) = expected(base, alternatives) {
            let value = self.value(error).unwrap_or_else(|| "value".to_owned());
            return (format!("{value} matches no alternative; expected {expected}"), Vec::new());
        }
        let schemas = self.schema.pointer(error.schema_path().as_str()).and_then(Plain::as_array);
        let schema = |place: usize| schemas.and_then(|schemas| schemas.get(place));
        let candidates = alternatives.iter().enumerate().take(MAX_ALTERNATIVES);
        let nearest = candidates.min_by_key(|&(place, errors)| self.distance(error.instance(), base, schema(place), errors));
        let Some((place, errors)) = nearest else { return (self.text(error), Vec::new()) };
        let closest: Vec<_> = errors.iter().take(MAX_CLOSEST).map(|error| self.describe_at(error, level + 1)).collect();
        let mut message = format!("matches no alternative; closest is alternative {} of {}", place + 1, alternatives.len());
        let name = schema(place).map_or_else(String::new, |schema| self.name(schema));
        if !name.is_empty() {
            message += &format!(" ({{{name}}})");
        }
        for (number, violation) in closest.iter().enumerate() {
            message += if number == 0 { ": " } else { "; " };
            let is_here = violation.instance_pointer == base;
            let text = if is_here { violation.message.clone() } else { violation.to_string() };
            message += &cut(&text, MAX_PART_CHARS);
        }
        if let Some(more) = errors.len().checked_sub(MAX_CLOSEST + 1) {
            message += &format!("; and {} more", more + 1);
        }
        (message, closest)
    }

    fn distance(self, value: &Plain, base: &str, schema: Option<&'s Plain>, errors: &[ValidationError<'_>]) -> Distance {
        let is_here = |error: &&ValidationError<'_>| error.instance_path().as_str() == base;
        let is_other_type = errors.iter().filter(is_here).any(|error| matches!(error.kind(), Reason::Type { .. }));
        let here = errors.iter().filter(is_here).count();
        let depth = |error: &ValidationError<'_>| error.instance_path().as_str().matches('/').count();
        let deepest = errors.iter().map(depth).max().unwrap_or(0);
        let tag = schema.map_or(Tag::Unknown, |schema| self.tag(value, schema));
        (tag, is_other_type, here, errors.len(), Reverse(deepest))
    }

    fn tag(self, value: &Plain, schema: &'s Plain) -> Tag {
        let Some(members) = value.as_object() else { return Tag::Unknown };
        self.tags(schema).into_iter().fold(Tag::Unknown, |so_far, (name, expected)| match members.get(name) {
            None => so_far,
            Some(given) if given == expected && so_far != Tag::Other => Tag::Same,
            Some(_) => Tag::Other,
        })
    }

    /// The discriminating values of an alternative, as `kind: circle`.
    fn name(self, schema: &'s Plain) -> String {
        let tag = |(name, value): (&String, &Plain)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}: {}", cut(name, 40), cut(&value, 40))
        };
        escape_for_display(&self.tags(schema).into_iter().take(MAX_CLOSEST).map(tag).collect::<Vec<_>>().join(", "))
    }

    /// Properties of an alternative that have one possible value, found through `$ref` and `allOf` as well.
    fn tags(self, schema: &'s Plain) -> Vec<(&'s String, &'s Plain)> {
        let (mut tags, mut next, mut followed) = (Vec::new(), vec![schema], 0);
        while let Some(schema) = next.pop().filter(|_| followed < MAX_FOLLOWED) {
            followed += 1;
            let properties = schema.get("properties").and_then(Plain::as_object).into_iter().flatten();
            tags.extend(properties.filter_map(|(name, property)| Some((name, only_value(property)?))));
            let target = schema.get("$ref").and_then(Plain::as_str).and_then(|target| target.strip_prefix('#'));
            next.extend(target.and_then(|pointer| self.schema.pointer(pointer)));
            next.extend(schema.get("allOf").and_then(Plain::as_array).into_iter().flatten().take(MAX_FOLLOWED));
        }
        tags
    }

    /// The unknown name that was probably meant to be a required one.
    fn meant_by(self, error: &ValidationError<'_>, property: &Plain) -> String {
        let (Some(property), Some(unknown)) = (property.as_str(), self.unknown(error)) else { return String::new() };
        near::nearest(property, unknown)
            .map_or_else(String::new, |name| format!("; did you mean `{property}` instead of `{name}`?"))
    }

    /// The known names that unexpected ones were probably meant to be.
    fn meant(self, error: &ValidationError<'_>, unexpected: &[String]) -> String {
        if self.echo == Echo::Masked {
            return String::new();
        }
        let (Some(known), Some(members)) = (self.known(error), error.instance().as_object()) else { return String::new() };
        let meant = unexpected.iter().take(MAX_LISTED).filter_map(|name| {
            let known = known.keys().map(String::as_str).filter(|known| !members.contains_key(*known));
            near::nearest(name, known).map(|meant| format!("; did you mean `{meant}` instead of `{name}`?"))
        });
        meant.collect()
    }

    /// Members of an object that its schema does not define.
    fn unknown<'e>(self, error: &'e ValidationError<'_>) -> Option<impl Iterator<Item = &'e str>> {
        let members = error.instance().as_object().filter(|_| self.echo == Echo::Values)?;
        let known = self.known(error)?;
        Some(members.keys().map(String::as_str).filter(move |name| !known.contains_key(*name)).take(MAX_LISTED))
    }

    /// The `properties` beside the keyword of an error.
    fn known(self, error: &ValidationError<'_>) -> Option<&'s serde_json::Map<String, Plain>> {
        let (object, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(object)?.get("properties")?.as_object()
    }
}

/// The only value that a schema allows, if it has one.
fn only_value(schema: &Plain) -> Option<&Plain> {
    let is_plain = |value: &&Plain| !value.is_array() && !value.is_object();
    match schema.get("enum").and_then(Plain::as_array).map(Vec::as_slice) {
        Some([value]) => Some(value),
        _ => schema.get("const"),
    }
    .filter(is_plain)
}

/// The expected value, if each alternative fails by the type or by the value itself: `string or null`, `"a" or "b"`.
fn expected(base: &str, alternatives: &[Vec<ValidationError<'_>>]) -> Option<String> {
    let mut expected: Vec<String> = Vec::new();
    for errors in alternatives {
        let here = errors.iter().filter(|error| error.instance_path().as_str() == base);
        let reasons = here.filter_map(|error| match error.kind() {
            Reason::Type { kind: TypeKind::Single(kind) } => Some((false, vec![kind.to_string()])),
            Reason::Type { kind: TypeKind::Multiple(kinds) } => {
                Some((false, kinds.iter().map(|kind| kind.to_string()).collect()))
            }
            Reason::Constant { expected_value } => Some((true, vec![expected_value.to_string()])),
            Reason::Enum { options } => {
                let options = options.as_array().into_iter().flatten();
                Some((true, options.take(MAX_LISTED).map(ToString::to_string).collect()))
            }
            _ => None,
        });
        // A schema with both `type` and `const` fails twice; the value is the better message.
        let (_, reason) = reasons.max_by_key(|(is_value, _)| *is_value)?;
        expected.extend(reason);
    }
    let mut seen = std::collections::BTreeSet::new();
    expected.retain(|one| seen.insert(one.clone()));
    let more = expected.len().saturating_sub(MAX_LISTED);
    let listed = expected.iter().take(MAX_LISTED).map(|one| cut(one, 40)).collect::<Vec<_>>().join(" or ");
    match (listed.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(listed),
        (false, more) => Some(format!("{listed} or one of {more} more")),
    }
}

/// The message about a value that matches more than one alternative of `oneOf`.
fn several(alternatives: &[Vec<ValidationError<'_>>]) -> String {
    let fitting = alternatives.iter().enumerate().filter(|(_, errors)| errors.is_empty());
    let numbers: Vec<_> = fitting.take(MAX_LISTED).map(|(place, _)| (place + 1).to_string()).collect();
    format!("matches the alternatives {} of {}; exactly one must match", numbers.join(" and "), alternatives.len())
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "violation_tests.rs"]
mod tests;
