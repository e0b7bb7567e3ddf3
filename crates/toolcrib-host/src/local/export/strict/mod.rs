//! Strict schemas of model APIs.
//!
//! In strict mode a model can only produce arguments that are valid under the schema, and the vendors support only a part of JSON Schema.
//! A schema is transformed if the original accepts every value that the result accepts, except for constraints that are moved into the
//! description (the host validates arguments with the original) and nulls that stand for absent parameters (which
//! [`ReverseMap::restore`](super::ReverseMap::restore) removes). Every other schema is refused with a reason, and the function is exported
//! without strict mode. Above all maps and open objects: the vendors' own code turns some of them into closed objects without properties.

mod anthropic;
mod openai;

use serde_json::{Map, Value as Json};

pub(super) use anthropic::{Budget, transform as anthropic};
pub(super) use openai::transform as openai;

/// Deepest nesting of schemas that is transformed.
const MAX_DEPTH: usize = 64;

/// Keywords that apply to objects.
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

/// The path within a schema, for messages.
fn place(path: &[String]) -> String {
    if path.is_empty() { "the root".to_owned() } else { format!("`/{}`", path.join("/")) }
}

/// Whether a schema describes an object.
fn is_object(schema: &Map<String, Json>) -> bool {
    types(schema).contains(&"object") || OBJECT_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword))
}

/// The types of a schema.
fn types(schema: &Map<String, Json>) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(kind)) => vec![kind.as_str()],
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether an object accepts unlisted properties; a closed object would then change its purpose.
///
/// In JSON Schema an object without `additionalProperties` is open, but authors who list properties mean only those. An object without any
/// is a map, unless it is the root: a function without parameters.
fn is_open(schema: &Map<String, Json>, is_root: bool) -> bool {
    match schema.get("additionalProperties") {
        Some(Json::Bool(false)) => false,
        Some(_) => true,
        None => !is_root && schema.get("properties").and_then(Json::as_object).is_none_or(Map::is_empty),
    }
}

/// Appends constraints to the description of a schema, in the vendors' format.
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
