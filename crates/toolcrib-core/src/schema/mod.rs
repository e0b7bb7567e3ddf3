//! JSON Schema inside manifests: limits, structure and hazards.
//!
//! A creator controls the schemas that every reader and every agent passes to a validator. Without a validator, [`check`] decides whether a
//! value is a valid schema (by the 2020-12 metaschema), whether it keeps the limits of ERC-8257 Manifest Parser Hardening, and whether
//! applying it can be made expensive: references that leave the document, loop or multiply, and patterns that need backtracking. It runs on
//! every manifest, so an ordinary schema costs one pass and no allocation.
//!
//! With the feature `schema`, [`Validator`] compiles a checked schema, and [`schema_of`] derives a schema from a Rust type.
//!
//! Nodes and levels are counted like this: every object or boolean in a schema position is one node, `$defs` entries and reference targets
//! included; the values of `enum`, `const` and unknown keywords are not. The root is level 1.

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

/// Deepest nesting of subschemas, including the root: ERC-8257 Manifest Parser Hardening.
pub const MAX_DEPTH: usize = 16;

/// Most subschemas over all schemas of one manifest: ERC-8257 Manifest Parser Hardening.
pub const MAX_NODES: usize = 1_024;

/// Largest number of subschemas after every reference is replaced by its target. Twenty times the node limit: a legitimate schema reuses
/// its definitions a few times each, a schema bomb exceeds this within fifteen doublings.
pub(crate) const MAX_EXPANDED: u64 = 20_000;

/// Most prefilled values kept in a [`Survey`]. More than a user will confirm one by one.
pub const MAX_PREFILLED: usize = 64;

/// Largest total size of all patterns of one schema, in the units of [`pattern::Cost::size`]: about 20 MiB of compiled matchers.
pub(crate) const MAX_PATTERNS_SIZE: u32 = 2 * pattern::MAX_SIZE;

/// Most bytes that translating all patterns of one schema may read (see [`pattern::Cost::work`]): tens of milliseconds.
pub(crate) const MAX_PATTERNS_WORK: u32 = 4_000_000;

/// Counted over all schemas of one manifest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Subschemas so far.
    pub nodes: usize,
    /// Whether exceeding [`MAX_NODES`] was already reported.
    pub over_reported: bool,
}

/// The properties of a schema.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The number of subschemas, including the root.
    pub nodes: usize,
    /// Deepest nesting of subschemas; the root is level 1.
    pub depth: usize,
    /// The number of subschemas after references are followed. Equal to the number applied if there are none.
    pub expanded: u64,
    /// Values that the schema would fill in, at most [`MAX_PREFILLED`].
    pub prefilled: Vec<Prefilled>,
    /// The number of further such values.
    pub prefilled_more: usize,
    /// Whether a problem forbids compiling the schema. [`check`] has reported at least the first one.
    pub bars_validator: bool,
}

/// A `default` or `const` in a schema: a value that an agent could send although the user never chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefilled {
    /// Pointer to the keyword, from the root of the document.
    pub pointer: String,
    /// `default` or `const`.
    pub keyword: &'static str,
    /// The source text of the value.
    pub value: String,
    /// The span of the value in the source.
    pub span: Span,
}

/// Checks a schema of a manifest: whether it is valid, and whether it is safe to compile.
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
