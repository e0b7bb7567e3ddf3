//! Strict schemas of model APIs.
//!
//! In strict mode a model can only produce arguments that fit the schema, and the vendors know a part of JSON Schema only. A schema is
//! transformed when every value that the result takes is one that the original takes, apart from constraints that are moved into the
//! description (the host checks arguments with the original) and nulls that stand for absent parameters (which
//! [`ReverseMap::restore`](super::ReverseMap::restore) removes). Everything else is refused with a reason, and the function stays
//! non-strict. Above all, maps and open objects: the vendors' own code turns some of them into closed objects without properties.

mod anthropic;
mod openai;

use serde_json::{Map, Value as Json};

pub(super) use anthropic::{Budget, transform as anthropic};
pub(super) use openai::transform as openai;

/// Deepest nesting of schemas that is transformed.
const MAX_DEPTH: usize = 64;

/// Keywords that say something about values of type object.
const OBJECT_KEYWORDS: [&str; 8] = [
    "additionalProperties",
    "dependencies",
    "maxProperties",
    "minProperties",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
];

/// Keywords that do not restrict values.
const ANNOTATIONS: [&str; 8] = ["$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];

/// Where in a schema, for messages.
fn place(path: &[String]) -> String {
    if path.is_empty() { "the root".to_owned() } else { format!("`/{}`", path.join("/")) }
}

/// Whether a schema is about objects.
fn is_object(schema: &Map<String, Json>) -> bool {
    types(schema).contains(&"object") || OBJECT_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword))
}

/// The types that a schema names.
fn types(schema: &Map<String, Json>) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(kind)) => vec![kind.as_str()],
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether an object takes properties that it does not list; then a closed one would forbid what it is for.
///
/// An object without `additionalProperties` is open to JSON Schema, but authors who list properties mean those. One that lists none is
/// a map, unless it is the root: a function without parameters.
fn is_open(schema: &Map<String, Json>, is_root: bool) -> bool {
    match schema.get("additionalProperties") {
        Some(Json::Bool(false)) => false,
        Some(_) => true,
        None => !is_root && schema.get("properties").and_then(Json::as_object).is_none_or(Map::is_empty),
    }
}

/// Adds constraints to the description of a schema, in the form that the vendors use.
fn describe(schema: &mut Map<String, Json>, moved: &[(String, Json)]) {
    if moved.is_empty() {
        return;
    }
    let constraints: Vec<_> = moved.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let constraints = format!("{{{}}}", constraints.join(", "));
    let text = match schema.get("description").and_then(Json::as_str).filter(|text| !text.is_empty()) {
        Some(text) => format!("{text}\n\n{constraints}"),
        None => constraints,
    };
    schema.insert("description".to_owned(), text.into());
}
