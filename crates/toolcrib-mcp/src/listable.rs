//! Rewrites schemas into a form that every client accepts.
//!
//! A client that cannot parse one schema loses the whole list, so that one tool hides all others. What current clients reject was
//! measured with the SDKs of two languages in both eras of the protocol. A schema with an equivalent that all of them accept is
//! rewritten; any other is an error, and the server must leave its tool out.

use serde_json::{Map, Value as Json, json};

use crate::json::compile;

/// The version of JSON Schema that the protocol uses.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Maximum nesting depth. Typical schemas have about ten levels.
const MAX_DEPTH: usize = 64;

/// Keywords whose value is a schema.
const SCHEMA: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is an object of schemas.
const SCHEMAS_BY_NAME: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Keywords whose value is a list of schemas.
const LIST_OF_SCHEMAS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The arguments of a call.
    Input,
    /// Its structured result. Clients compile this one and check results with it.
    Output,
}

/// Returns a schema in a form that every client accepts, or the reason why there is none.
///
/// - The root says `"type": "object"`: arguments and structured results are objects, so nothing is lost.
/// - `true` and `false` as schemas of properties become `{}` and `{"not": {}}`, which mean the same.
/// - `$id` is removed: clients cache schemas by it, so that one tool's results would be checked with the schema of another. References
///   must begin with `#`.
/// - `$schema` is removed unless it names version 2020-12: clients do not know older versions, and keywords that mean nothing any more are
///   rejected below.
/// - Patterns of results are removed: clients use other regular expressions than JSON Schema. Patterns of arguments
///   stay, for the model; the server checks arguments.
pub fn listable(schema: &Json, side: Side) -> Result<Map<String, Json>, String> {
    let Json::Object(mut root) = walk(schema, side, 0)? else { return Err("it is no object".to_owned()) };
    match root.get("type") {
        None => {}
        Some(Json::String(kind)) if kind == "object" => {}
        Some(Json::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
        Some(_) => return Err("it describes no object".to_owned()),
    }
    root.insert("type".to_owned(), "object".into());
    compile(&Json::Object(root.clone())).map_err(|findings| {
        findings.first().map_or_else(|| "it cannot be compiled".to_owned(), |finding| finding.message.clone())
    })?;
    Ok(root)
}

fn walk(schema: &Json, side: Side, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err("it nests too deeply".to_owned());
    }
    let members = match schema {
        Json::Object(members) => members,
        Json::Bool(true) => return Ok(json!({})),
        Json::Bool(false) => return Ok(json!({ "not": {} })),
        _ => return Err("a schema in it is neither an object nor a boolean".to_owned()),
    };
    let mut out = Map::with_capacity(members.len());
    for (key, value) in members {
        let name = key.as_str();
        let value = match name {
            "$id" => continue,
            "$schema" if value.as_str() != Some(DIALECT) => continue,
            "pattern" if side == Side::Output => continue,
            "patternProperties" if side == Side::Output => continue,
            "$ref" if value.as_str().is_some_and(|to| to.starts_with('#')) => value.clone(),
            "$ref" | "$dynamicRef" | "$dynamicAnchor" | "$vocabulary" => {
                return Err(format!("{key} is more than a reference within it"));
            }
            "required" if !is_list_of_texts(value) => return Err("required is no list of names".to_owned()),
            "items" if value.is_array() => return Err("items is a list, which newer readers refuse".to_owned()),
            // Already an object or a boolean: every client accepts both here.
            name if SCHEMA.contains(&name) && value.is_boolean() => value.clone(),
            name if SCHEMA.contains(&name) => walk(value, side, depth + 1)?,
            name if SCHEMAS_BY_NAME.contains(&name) => {
                let Json::Object(named) = value else { return Err(format!("{key} is no object")) };
                let named = named.iter().map(|(name, schema)| Ok((name.clone(), walk(schema, side, depth + 1)?)));
                Json::Object(named.collect::<Result<_, String>>()?)
            }
            name if LIST_OF_SCHEMAS.contains(&name) => {
                let Json::Array(list) = value else { return Err(format!("{key} is no list")) };
                Json::Array(list.iter().map(|schema| walk(schema, side, depth + 1)).collect::<Result<_, _>>()?)
            }
            "title" | "description" if !value.is_string() => continue,
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    Ok(Json::Object(out))
}

fn is_list_of_texts(value: &Json) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Json::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rewritten(side: Side, schema: Json, expected: Json) {
        assert_eq!(listable(&schema, side).map(Json::Object), Ok(expected), "{schema}");
    }

    /// Each of these schemas made a client lose its whole list, or check results with the wrong schema.
    #[test]
    fn what_means_the_same_is_rewritten() {
        for side in [Side::Input, Side::Output] {
            rewritten(side, json!({}), json!({"type": "object"}));
            rewritten(side, json!(true), json!({"type": "object"}));
            rewritten(side, json!({"type": ["object", "null"]}), json!({"type": "object"}));
            rewritten(side, json!({"anyOf": [{"required": ["a"]}]}), json!({"anyOf": [{"required": ["a"]}], "type": "object"}));
            rewritten(
                side,
                json!({"type": "object", "properties": {"a": true, "b": false}}),
                json!({"type": "object", "properties": {"a": {}, "b": {"not": {}}}}),
            );
            rewritten(
                side,
                json!({"type": "object", "$id": "https://a.example/s", "$schema": "http://json-schema.org/draft-04/schema#",
                    "$defs": {"x": {"$id": "x", "type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}),
                json!({"type": "object", "$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}),
            );
            rewritten(
                side,
                json!({"type": "object", "title": null, "description": 7, "additionalProperties": false}),
                json!({"type": "object", "additionalProperties": false}),
            );
            let modern = json!({"$schema": DIALECT, "type": "object", "$defs": {"x": {"$anchor": "x"}}, "not": {"$ref": "#x"}});
            rewritten(side, modern.clone(), modern);
            // Values are not schemas.
            let values = json!({"type": "object", "const": {"$id": "x", "properties": true}, "examples": [{"$ref": "http://x"}]});
            rewritten(side, values.clone(), values);
        }
        let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}}});
        rewritten(Side::Input, pattern.clone(), pattern.clone());
        rewritten(Side::Output, pattern, json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    }

    #[test]
    fn what_no_form_says_for_all_is_refused() {
        for schema in [
            json!(null),
            json!("object"),
            json!([]),
            json!({"type": "array"}),
            json!({"type": "string"}),
            json!({"type": "int"}),
            json!({"properties": []}),
            json!({"properties": {"a": null}}),
            json!({"properties": {"a": "string"}}),
            json!({"properties": {"a": {"type": "int"}}}),
            json!({"properties": {"a": {"exclusiveMinimum": true}}}),
            json!({"required": true}),
            json!({"required": [1]}),
            json!({"properties": {"a": {"items": [{"type": "string"}]}}}),
            json!({"properties": {"a": {"$ref": "https://a.example/schema.json"}}}),
            json!({"properties": {"a": {"$ref": "other.json#/x"}}}),
            json!({"anyOf": {}}),
        ] {
            for side in [Side::Input, Side::Output] {
                assert!(listable(&schema, side).is_err(), "{schema}");
            }
        }
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({ "not": deep });
        }
        assert!(listable(&deep, Side::Input).is_err());
    }
}
