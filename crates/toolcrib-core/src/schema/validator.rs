//! Validation of values: a compiled validator for draft 2020-12 that never fetches anything.
//!
//! The engine is the `jsonschema` crate, wrapped so that nothing else depends on its API. The wrapper adds: a schema is compiled only after
//! [`check`] found no error, so one that loops, multiplies or needs backtracking never reaches the engine; references and metaschemas are
//! never fetched; patterns run on a linear-time matcher with a size limit; and the number of violations is bounded.
//!
//! Time is bounded by the expanded size of the schema times the size of the value. If this product is above [`MAX_WORK`], the value is
//! rejected without validation. For untrusted values, stay within [`MAX_INSTANCE_BYTES`] while reading, and validate on a thread that may
//! block for some milliseconds.

use std::fmt;

use jsonschema::{Draft, PatternOptions, ValidationOptions};

use super::violation::{Describer, Echo, Violation};
use super::{Totals, check, pattern};
use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Mode};
use crate::json::{Kind, Value};

/// Most bytes of JSON text of a value to validate: the limit of manifests. The validator sees values, not bytes, so the reader of the
/// request enforces it.
pub const MAX_INSTANCE_BYTES: usize = 1_048_576;

/// Deepest nesting of a value to validate. The engine is recursive; the JSON readers have the limit 64 too.
pub const MAX_INSTANCE_DEPTH: usize = 64;

/// Most (subschemas times values) that are validated. A subschema counts once for each place that it applies to, and 64 bytes of text count
/// as a value. A list of 20,000 numbers against 1,000 alternatives is at the limit, and takes some hundred milliseconds at worst.
pub const MAX_WORK: u64 = 20_000_000;

/// Most violations listed for one value. A caller fixes a few and retries.
pub const MAX_VIOLATIONS: usize = 32;

/// Most (subschemas times values) for which all violations are collected. Beyond it only the first is returned, because the engine collects
/// all of them before the list can be truncated.
const MAX_COLLECTED: u64 = 1_000_000;

/// Bytes of text that count as one value. Patterns and lengths read the whole text, and if a schema has alternatives, the engine copies the
/// value for each violation in each of them.
const BYTES_AS_VALUE: u64 = 64;

/// Largest compiled pattern in bytes: [`pattern::MAX_SIZE`] units of 1 KiB, and room for rounding.
const PATTERN_BYTES: usize = (pattern::MAX_SIZE as usize) * 1_024 * 8 / 5;

/// Most bytes that matching one pattern may cache. Beyond it the matcher clears its cache; it stays linear.
const PATTERN_CACHE_BYTES: usize = 2 * 1_048_576;

/// Whether `format` is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Formats {
    /// As in 2020-12: an annotation.
    #[default]
    Annotate,
    /// A value that does not have the format is invalid. For Toolcrib's own schemas.
    Assert,
}

/// A compiled schema.
pub struct Validator {
    engine: jsonschema::Validator,
    expanded: u64,
    /// The schema itself: messages quote values beside the keyword that failed.
    schema: serde_json::Value,
    /// Whether it has `anyOf` or `oneOf`.
    has_alternatives: bool,
}

impl Validator {
    /// Checks and compiles a schema. Formats are annotations.
    pub fn compile(schema: Value<'_>) -> Result<Self, Vec<Finding>> {
        Self::compile_with(schema, Formats::Annotate)
    }

    /// Checks and compiles a schema.
    ///
    /// The findings are those of [`check`] if one of them is an error, if the engine would interpret a pattern differently from ECMA-262,
    /// or if recursion would multiply the work.
    pub fn compile_with(schema: Value<'_>, formats: Formats) -> Result<Self, Vec<Finding>> {
        let mut context = Context::new(Mode::Producer);
        let survey = check(schema, &mut Totals::default(), &mut context);
        if survey.bars_validator {
            return Err(context.findings.into_sorted());
        }
        let mut plain = to_serde(schema);
        // The schema was checked as 2020-12, regardless of its `$schema`.
        if let serde_json::Value::Object(members) = &mut plain {
            members.shift_remove("$schema");
        }
        match options(formats).build(&plain) {
            Ok(engine) => {
                Ok(Self { engine, expanded: survey.expanded, has_alternatives: has_alternatives(&plain), schema: plain })
            }
            Err(error) => Err(vec![
                Finding::new(codes::schema::NOT_COMPILED).at(schema).message(format!("the validator says: {}", error.masked())),
            ]),
        }
    }

    /// Compiles without checking first; references are resolved in `resources`. This exists so that the test suite of JSON Schema, which is
    /// full of schemas that [`check`] rejects, can run with the options of the release.
    #[doc(hidden)]
    pub fn unchecked(schema: &serde_json::Value, resources: &[(String, serde_json::Value)]) -> Result<Self, String> {
        let registry = jsonschema::Registry::new()
            .extend(resources.iter().map(|(uri, resource)| (uri, resource)))
            .and_then(jsonschema::RegistryBuilder::prepare)
            .map_err(|error| error.to_string())?;
        let engine = options(Formats::Annotate).with_registry(&registry).build(schema).map_err(|error| error.to_string())?;
        Ok(Self { engine, expanded: 1, has_alternatives: has_alternatives(schema), schema: schema.clone() })
    }

    /// Whether a value is valid. One that nests deeper than [`MAX_INSTANCE_DEPTH`], or is too large to validate ([`MAX_WORK`]), is not.
    pub fn is_valid(&self, instance: &serde_json::Value) -> bool {
        measure(instance).is_some_and(|size| self.work(&size) <= MAX_WORK) && self.engine.is_valid(instance)
    }

    /// An upper bound of the work for a value of this size.
    const fn work(&self, size: &Size) -> u64 {
        self.expanded.saturating_mul(size.values + size.bytes / BYTES_AS_VALUE)
    }

    /// Returns the violations of a value, at most [`MAX_VIOLATIONS`]; empty if it is valid.
    pub fn violations(&self, instance: &serde_json::Value, echo: Echo) -> Vec<Violation> {
        let about_all = |message: String| {
            vec![Violation { instance_pointer: String::new(), schema_pointer: String::new(), message, closest: Vec::new() }]
        };
        let Some(size) = measure(instance) else {
            return about_all(format!("the value nests deeper than {MAX_INSTANCE_DEPTH} levels"));
        };
        if self.work(&size) > MAX_WORK {
            let Size { values, bytes } = size;
            let expanded = self.expanded;
            return about_all(format!(
                "the value is too large to be checked: {values} values with {bytes} bytes of text against {expanded} subschemas; \
                 send less at once"
            ));
        }
        if self.engine.is_valid(instance) {
            return Vec::new();
        }
        let describer = Describer::new(&self.schema, echo);
        let weight = if self.has_alternatives { size.values + size.bytes / BYTES_AS_VALUE } else { size.values };
        if self.expanded.saturating_mul(weight) <= MAX_COLLECTED {
            return self.engine.iter_errors(instance).take(MAX_VIOLATIONS).map(|error| describer.describe(&error)).collect();
        }
        if self.has_alternatives {
            // Even the first error of the engine would then contain a copy of the value for each violation of each alternative.
            return about_all("the value does not match the schema, and is too large to locate the violation".to_owned());
        }
        self.engine.validate(instance).err().map(|error| describer.describe(&error)).into_iter().collect()
    }
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").field("expanded", &self.expanded).finish_non_exhaustive()
    }
}

/// The options with which every schema is compiled.
fn options<'i>(formats: Formats) -> ValidationOptions<'i> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES))
        .should_validate_formats(formats == Formats::Assert)
        .should_ignore_unknown_formats(true)
}

/// Returns the same value as a `serde_json` value. Integers up to 2^53 become integers.
pub fn to_serde(value: Value<'_>) -> serde_json::Value {
    use serde_json::{Number, Value as Plain};
    match value.kind() {
        Kind::Null => Plain::Null,
        Kind::Bool => Plain::Bool(value.as_bool().unwrap_or_default()),
        Kind::Number => {
            let number = value.as_f64().unwrap_or_default();
            // In this range the double is exactly the integer in the source. Negative zero becomes zero, as in RFC 8785.
            if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0 {
                Plain::Number(Number::from(number as i64))
            } else {
                Number::from_f64(number).map_or(Plain::Null, Plain::Number)
            }
        }
        Kind::String => Plain::String(value.as_str().unwrap_or_default().to_owned()),
        Kind::Array => Plain::Array(value.as_array().into_iter().flat_map(|array| array.iter()).map(to_serde).collect()),
        Kind::Object => Plain::Object(
            value
                .as_object()
                .into_iter()
                .flat_map(|object| object.iter())
                .map(|(key, member)| (key.to_owned(), to_serde(member)))
                .collect(),
        ),
    }
}

/// Whether a schema has alternatives. A property with such a name counts too, which only costs a shorter list.
fn has_alternatives(schema: &serde_json::Value) -> bool {
    match schema {
        serde_json::Value::Array(items) => items.iter().any(has_alternatives),
        serde_json::Value::Object(members) => {
            members.iter().any(|(name, member)| matches!(name.as_str(), "anyOf" | "oneOf") || has_alternatives(member))
        }
        _ => false,
    }
}

/// The size of a value.
#[derive(Default)]
struct Size {
    /// Arrays, objects, their members and items.
    values: u64,
    /// Bytes of all strings and names.
    bytes: u64,
}

/// The size of `instance`, or `None` if it nests too deeply.
fn measure(instance: &serde_json::Value) -> Option<Size> {
    fn add(size: &mut Size, value: &serde_json::Value, depth_left: usize) -> Option<()> {
        size.values += 1;
        match value {
            serde_json::Value::Array(items) => {
                let below = depth_left.checked_sub(1)?;
                items.iter().try_for_each(|item| add(size, item, below))
            }
            serde_json::Value::Object(members) => {
                let below = depth_left.checked_sub(1)?;
                members.iter().try_for_each(|(name, member)| {
                    size.bytes += name.len() as u64;
                    add(size, member, below)
                })
            }
            serde_json::Value::String(text) => {
                size.bytes += text.len() as u64;
                Some(())
            }
            _ => Some(()),
        }
    }
    let mut size = Size::default();
    add(&mut size, instance, MAX_INSTANCE_DEPTH).map(|()| size)
}

#[cfg(test)]
#[path = "validator_tests.rs"]
mod tests;
