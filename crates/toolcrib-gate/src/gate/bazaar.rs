//! The extension `bazaar` of x402 version 2: what a facilitator needs to list a tool in its catalogue.
//!
//! Facilitators list what is paid through them. They accept the entry only if `info` fits its own schema, so the example input is validated
//! against the tool's schema first. A tool without a valid example is not declared.

use serde_json::{Map, Value, json};
use toolcrib_core::schema::{Validator, to_serde};
use toolcrib_core::tool::ToolManifest;
use toolcrib_x402::{Members, Raw};

/// The name of the extension.
pub(crate) const EXTENSION: &str = "bazaar";

/// Largest declaration in bytes. Callers repeat it in a header of 16 KiB, which holds other data too.
const MAX_BYTES: usize = 4 * 1024;

/// Deepest level of a schema for which an example is generated.
const MAX_DEPTH: usize = 16;

/// Most characters or items in an example, whatever the schema requires.
const MAX_LENGTH: u64 = 64;

/// Returns the declaration of a tool that is called by POST with JSON. `None` if no example fits the tool's schema.
pub(crate) fn declaration(manifest: &ToolManifest) -> Option<(String, Raw)> {
    let inputs = manifest.inputs()?;
    let schema = to_serde(inputs);
    let body = example(&schema, MAX_DEPTH)?;
    if !Validator::compile(inputs).ok()?.is_valid(&body) {
        return None;
    }
    let whole = |schema: &Value| {
        let input = json!({
            "type": "object",
            "properties": {
                "type": {"type": "string", "const": "http"},
                "method": {"type": "string", "enum": ["POST"]},
                "bodyType": {"type": "string", "enum": ["json"]},
                "body": schema,
            },
            "required": ["type", "method", "bodyType", "body"],
        });
        let output = json!({"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]});
        json!({
            "info": {"input": {"type": "http", "method": "POST", "bodyType": "json", "body": body}, "output": {"type": "json"}},
            "schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"input": input, "output": output},
                "required": ["input"],
            },
        })
        .to_string()
    };
    // `$ref`s are resolved against the root of their document, and the schema is not the root here.
    let exact = Some(&schema).filter(|schema| !has_reference(schema)).map(whole).filter(|text| text.len() <= MAX_BYTES);
    let text = exact.unwrap_or_else(|| whole(&json!({"type": "object"})));
    Some((EXTENSION.to_owned(), Raw::parse(&text).filter(|_| text.len() <= MAX_BYTES)?))
}

/// Returns the service's name and description for catalogues, if the manifest's name fits there.
pub(crate) fn service(manifest: &ToolManifest) -> Members {
    let name = manifest.name();
    let fits = (1..=32).contains(&name.len()) && name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let name = fits.then(|| Raw::parse(&Value::from(name).to_string())).flatten();
    name.map(|name| ("serviceName".to_owned(), name)).into_iter().collect()
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.iter().any(|(key, value)| key.starts_with('$') && key != "$schema" || has_reference(value))
        }
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// Returns a small value that probably fits a schema. The caller validates it.
fn example(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let Value::Object(schema) = schema else { return Some(json!({})) };
    let first = |key: &str| schema.get(key).and_then(|list| list.as_array()?.first().cloned());
    if let Some(value) = first("examples").or_else(|| schema.get("default").cloned()).or_else(|| schema.get("const").cloned()) {
        return Some(value);
    }
    if let Some(value) = first("enum") {
        return Some(value);
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?.to_owned(),
        _ if schema.contains_key("properties") => "object".to_owned(),
        _ => return Some(json!({})),
    };
    let count = |key: &str| schema.get(key).and_then(Value::as_u64).unwrap_or(0);
    Some(match kind.as_str() {
        "object" => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let mut members = Map::new();
            for key in required {
                let property = schema.get("properties").and_then(|properties| properties.get(key)).unwrap_or(&Value::Null);
                members.insert(key.to_owned(), example(property, depth)?);
            }
            Value::Object(members)
        }
        "array" => {
            let item = schema.get("items").unwrap_or(&Value::Null);
            let items = (0..count("minItems").min(MAX_LENGTH)).map(|_| example(item, depth));
            Value::Array(items.collect::<Option<_>>()?)
        }
        "string" => Value::from("x".repeat(usize::try_from(count("minLength").clamp(1, MAX_LENGTH)).unwrap_or(1))),
        "integer" | "number" => schema.get("minimum").or_else(|| schema.get("maximum")).cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(false),
        _ => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use toolcrib_core::tool::ToolBuilder;

    use super::*;

    fn declared(name: &str, inputs: &Value) -> Option<Value> {
        let creator = alloy_primitives::Address::repeat_byte(7);
        let endpoint = "https://tools.example.com/word-count";
        let builder = ToolBuilder::new(name, "Counts the words of a text.", endpoint, creator);
        let manifest =
            builder.inputs_json(&inputs.to_string()).outputs_json(r#"{"type":"object"}"#).build().expect("sound").manifest;
        let (name, value) = declaration(manifest.value())?;
        assert_eq!(name, "bazaar");
        Some(serde_json::from_str(value.as_str()).expect("JSON"))
    }

    /// Validates a declaration as facilitators do.
    fn is_listed(declared: &Value) -> bool {
        Validator::unchecked(&declared["schema"], &[]).expect("a schema").is_valid(&declared["info"])
    }

    #[test]
    fn examples_fit_the_schema_of_the_tool_and_that_of_the_declaration() {
        for (inputs, body) in [
            (json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}), json!({"text": "x"})),
            (json!({"type": "object", "properties": {"text": {"type": "string"}}}), json!({})),
            (
                json!({"type": "object", "required": ["n", "unit", "days"], "additionalProperties": false, "properties": {
                    "n": {"type": "integer", "minimum": 3},
                    "unit": {"enum": ["m", "ft"]},
                    "days": {"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 4}},
                }}),
                json!({"n": 3, "unit": "m", "days": ["xxxx", "xxxx"]}),
            ),
            (
                json!({"type": "object", "required": ["date"], "properties": {
                    "date": {"type": "string", "pattern": "^[0-9]{4}$", "examples": ["2026"]},
                }}),
                json!({"date": "2026"}),
            ),
            (
                json!({"type": "object", "required": ["p"], "properties": {"p": {"$ref": "#/$defs/p"}}, "$defs": {"p": {}}}),
                json!({"p": {}}),
            ),
        ] {
            let declared = declared("word-count", &inputs).expect("an example");
            assert_eq!(declared["info"]["input"]["body"], body);
            assert!(is_listed(&declared), "{declared}");
        }
    }

    #[test]
    fn without_an_example_nothing_is_declared() {
        let inputs =
            json!({"type": "object", "required": ["date"], "properties": {"date": {"type": "string", "pattern": "^[0-9]{4}$"}}});
        assert_eq!(declared("word-count", &inputs), None);
    }

    #[test]
    fn large_schemas_are_left_out() {
        let inputs = json!({"type": "object", "description": "long ".repeat(1_000)});
        let declared = declared("word-count", &inputs).expect("an example");
        assert_eq!(declared["schema"]["properties"]["input"]["properties"]["body"], json!({"type": "object"}));
        assert!(is_listed(&declared));
    }
}
