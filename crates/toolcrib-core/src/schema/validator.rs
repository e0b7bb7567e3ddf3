//! Values against schemas: a compiled validator for draft 2020-12 that never leaves the document.
//!
//! The engine is the `jsonschema` crate, wrapped so that nothing else depends on its API. What the wrapper adds:
//! a schema is compiled only after [`check`] found no error, so one that loops, multiplies or needs
//! backtracking never reaches the engine; references and metaschemas are never fetched; patterns run on a linear-time
//! matcher with a size limit; and the number of violations is bounded.
//!
//! Time is bounded by the expanded size of the schema times the size of the value. A value for which this product is above [`MAX_WORK`] is
//! refused and not checked. For untrusted values, stay within [`MAX_INSTANCE_BYTES`] while reading, and run the check where it
//! may take some milliseconds.

use std::fmt;

use jsonschema::{Draft, PatternOptions, ValidationOptions};

use super::violation::{Describer, Echo, Violation};
use super::{Totals, check, pattern};
use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Mode};
use crate::json::{Kind, Value};

/// Most bytes of JSON text that a value to be checked should have been read from: as for manifests. The validator sees
/// values, not bytes, so the reader of the request enforces it.
pub const MAX_INSTANCE_BYTES: usize = 1_048_576;

/// Deepest nesting of a value to be checked. The engine descends recursively; the readers of JSON stop at 64 too.
pub const MAX_INSTANCE_DEPTH: usize = 64;

/// Most (subschemas times values) that are checked, a subschema counted once for each place that it applies to, and 64 bytes of text as a
/// value. A list of 20,000 numbers against 1,000 alternatives is at the limit, and takes some hundred milliseconds at worst.
pub const MAX_WORK: u64 = 20_000_000;

/// Most violations listed for one value. A caller mends a few and asks again.
pub const MAX_VIOLATIONS: usize = 32;

/// Most (subschemas times values) for which all violations are collected. Beyond it only the first is found, since the
/// engine collects every one of them before the list can be cut.
const MAX_COLLECTED: u64 = 1_000_000;

/// Bytes of text that count as much as one value. Patterns and lengths read all of a text, and where a schema has alternatives, the engine
/// copies the value for each violation in each of them.
const BYTES_AS_VALUE: u64 = 64;

/// Largest compiled pattern in bytes: [`pattern::MAX_SIZE`] units of 1 KiB, and room for rounding.
const PATTERN_BYTES: usize = (pattern::MAX_SIZE as usize) * 1_024 * 8 / 5;

/// Most bytes that matching one pattern may cache. Past it the matcher starts its cache anew; it stays linear.
const PATTERN_CACHE_BYTES: usize = 2 * 1_048_576;

/// Whether `format` is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Formats {
    /// As 2020-12 has it: a note to the reader.
    #[default]
    Annotate,
    /// A value that does not have the format is invalid. For schemas of our own.
    Assert,
}

/// A compiled schema.
pub struct Validator {
    engine: jsonschema::Validator,
    expanded: u64,
    /// The schema itself: messages name what it has beside the keyword that failed.
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
    /// The findings are those of [`check`] when one of them is an error, when a pattern would be read in another way than
    /// ECMA-262 means it, or when recursion would multiply the work.
    pub fn compile_with(schema: Value<'_>, formats: Formats) -> Result<Self, Vec<Finding>> {
        let mut context = Context::new(Mode::Producer);
        let survey = check(schema, &mut Totals::default(), &mut context);
        if survey.bars_validator {
            return Err(context.findings.into_sorted());
        }
        let mut plain = to_serde(schema);
        // Whatever dialect is named, the schema was checked as 2020-12.
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

    /// Compiles without checking first, with `resources` to resolve references in. This exists so that the test suite of
    /// JSON Schema, which is full of schemas that [`check`] refuses, can run with the options that are shipped.
    #[doc(hidden)]
    pub fn unchecked(schema: &serde_json::Value, resources: &[(String, serde_json::Value)]) -> Result<Self, String> {
        let registry = jsonschema::Registry::new()
            .extend(resources.iter().map(|(uri, resource)| (uri, resource)))
            .and_then(jsonschema::RegistryBuilder::prepare)
            .map_err(|error| error.to_string())?;
        let engine = options(Formats::Annotate).with_registry(&registry).build(schema).map_err(|error| error.to_string())?;
        Ok(Self { engine, expanded: 1, has_alternatives: has_alternatives(schema), schema: schema.clone() })
    }

    /// Whether a value fits. One that nests deeper than [`MAX_INSTANCE_DEPTH`], or is too large to be checked ([`MAX_WORK`]), does not.
    pub fn is_valid(&self, instance: &serde_json::Value) -> bool {
        measure(instance).is_some_and(|size| self.work(&size) <= MAX_WORK) && self.engine.is_valid(instance)
    }

    /// The work of checking a value of a size, at most.
    const fn work(&self, size: &Size) -> u64 {
        self.expanded.saturating_mul(size.values + size.bytes / BYTES_AS_VALUE)
    }

    /// How a value breaks the schema: nothing if it fits, at most [`MAX_VIOLATIONS`].
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
            // Even the first error of the engine then has a copy of the value for each violation of each alternative.
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

/// How every schema is compiled.
fn options<'i>(formats: Formats) -> ValidationOptions<'i> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_CACHE_BYTES))
        .should_validate_formats(formats == Formats::Assert)
        .should_ignore_unknown_formats(true)
}

/// The same value in the form that serde knows. Whole numbers up to 2^53 become integers.
pub fn to_serde(value: Value<'_>) -> serde_json::Value {
    use serde_json::{Number, Value as Plain};
    match value.kind() {
        Kind::Null => Plain::Null,
        Kind::Bool => Plain::Bool(value.as_bool().unwrap_or_default()),
        Kind::Number => {
            let number = value.as_f64().unwrap_or_default();
            // Within this range the double is the integer that was written. Negative zero becomes zero, as in RFC 8785.
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

/// Whether a schema has alternatives somewhere. A property of that name counts too, and costs nothing but a shorter list.
fn has_alternatives(schema: &serde_json::Value) -> bool {
    match schema {
        serde_json::Value::Array(items) => items.iter().any(has_alternatives),
        serde_json::Value::Object(members) => {
            members.iter().any(|(name, member)| matches!(name.as_str(), "anyOf" | "oneOf") || has_alternatives(member))
        }
        _ => false,
    }
}

/// What a value is made of.
#[derive(Default)]
struct Size {
    /// Arrays, objects, their members and items.
    values: u64,
    /// Bytes of all strings and names.
    bytes: u64,
}

/// The size of `instance`, or `None` when it nests too deeply.
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
