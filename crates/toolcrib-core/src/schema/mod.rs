//! JSON Schema inside manifests: limits, shape, hazards.
//!
//! A creator controls the schemas that every reader and every agent will hand to a validator. [`check`] decides, without
//! a validator, whether a schema is one (what the 2020-12 metaschema asks), whether it keeps the limits of ERC-8257
//! Manifest Parser Hardening, and whether applying it can be made expensive: references that lead out of the document,
//! loop or multiply, and patterns that need backtracking. It runs on every manifest, so an ordinary schema costs one
//! pass and no allocation.
//!
//! With the feature `schema`, [`Validator`] compiles what passed, and [`schema_of`] makes a schema from a Rust type.
//!
//! How nodes and levels are counted: every object or boolean in a schema position is one node, `$defs` entries and
//! reference targets included; payloads of `enum`, `const` and unknown keywords are not. The root is level 1.

#[cfg(feature = "schema")]
mod derive;
mod graph;
mod keyword;
pub mod pattern;
#[cfg(feature = "schema")]
mod validator;
#[cfg(feature = "schema")]
mod violation;
mod walk;

#[cfg(feature = "schema")]
pub use derive::schema_of;
#[cfg(feature = "schema")]
pub use validator::{Formats, MAX_INSTANCE_BYTES, MAX_INSTANCE_DEPTH, MAX_VIOLATIONS, MAX_WORK, Validator, to_serde};
#[cfg(feature = "schema")]
pub use violation::{Echo, Violation};

use crate::checked::Context;
use crate::finding::Span;
use crate::json::Value;

/// Deepest nesting of subschemas, the root counted: ERC-8257 Manifest Parser Hardening.
pub const MAX_DEPTH: usize = 16;

/// Most subschemas over all schemas of one manifest: ERC-8257 Manifest Parser Hardening.
pub const MAX_NODES: usize = 1_024;

/// Largest number of subschemas once every reference is replaced by what it points to. Twenty times the node limit: an
/// honest schema reuses its definitions a few times each, a bomb passes this within fifteen doublings.
pub(crate) const MAX_EXPANDED: u64 = 20_000;

/// Most prefilled values kept in a [`Survey`]. More than anybody will confirm one by one.
pub const MAX_PREFILLED: usize = 64;

/// Largest size of all patterns of one schema together, in the units of [`pattern::Cost::size`]: about 20 MiB of
/// compiled matchers.
pub(crate) const MAX_PATTERNS_SIZE: u32 = 2 * pattern::MAX_SIZE;

/// Most bytes that translating all patterns of one schema may read, see [`pattern::Cost::work`]: tens of milliseconds.
pub(crate) const MAX_PATTERNS_WORK: u32 = 4_000_000;

/// Counted over all schemas of one manifest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Subschemas so far.
    pub nodes: usize,
    /// Whether it was already reported that there are more than [`MAX_NODES`].
    pub over_reported: bool,
}

/// What a schema was found to hold.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Subschemas, the root included.
    pub nodes: usize,
    /// Deepest nesting of subschemas; the root is level 1.
    pub depth: usize,
    /// Subschemas once references are followed. Equal to the number applied when there are none.
    pub expanded: u64,
    /// Values the schema would fill in by itself, at most [`MAX_PREFILLED`].
    pub prefilled: Vec<Prefilled>,
    /// How many more such values there are.
    pub prefilled_more: usize,
    /// Whether something was found for which no validator may be built. [`check`] has reported at least the first such thing.
    pub bars_validator: bool,
}

/// A `default` or `const` inside a schema: a value that an agent could send without anybody having chosen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefilled {
    /// Pointer to the keyword, from the root of the document.
    pub pointer: String,
    /// `default` or `const`.
    pub keyword: &'static str,
    /// The value as JSON text, as written.
    pub value: String,
    /// Where the value stands in the source.
    pub span: Span,
}

/// Checks one schema of a manifest: that it is a schema, and that it is safe to hand to a validator.
///
/// ```
/// use toolcrib_core::checked::Context;
/// use toolcrib_core::finding::Mode;
/// use toolcrib_core::json::{Limits, read};
/// use toolcrib_core::schema::{Totals, check};
///
/// let reading = read(br##"{"properties": {"child": {"$ref": "#"}}}"##, Limits::default());
/// let document = reading.document.unwrap();
/// let mut context = Context::new(Mode::Producer);
/// let survey = check(document.root(), &mut Totals::default(), &mut context);
/// assert_eq!((survey.nodes, survey.depth), (2, 2));
/// assert!(context.findings.is_empty());
/// ```
pub fn check(root: Value<'_>, totals: &mut Totals, context: &mut Context) -> Survey {
    walk::Walk::run(root, totals, context)
}

#[cfg(test)]
mod tests;
