//! Input from a query string, for tools that may be called with GET.
//!
//! A query contains only text, so the manifest's `inputs` define the type of each value. A text that is not of that type stays a text, and
//! the schema check then reports what is wrong. Names and values are form-encoded.

use std::collections::HashMap;

use axum::http::StatusCode;
use serde_json::{Map, Number, Value};
use toolcrib_core::codes::{self, Code};
use toolcrib_http::form_decode;

use crate::answer::ErrorResponse;

/// Most bytes of a query. Common servers and proxies accept request lines of 8 KiB.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

/// Most parameters of a query, repetitions included.
pub const MAX_PARAMETERS: usize = 100;

/// Most `$ref`s that are followed to find a property's type: a type behind a name or two.
const MAX_REFERENCES: usize = 4;

/// The types of an input object's members.
#[derive(Debug)]
pub(crate) struct Parameters(HashMap<String, Kind>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_array: bool,
    scalar: Scalar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    Integer,
    Number,
    Boolean,
    Text,
}

const TEXT: Kind = Kind { is_array: false, scalar: Scalar::Text };

impl Parameters {
    /// Reads the properties of a schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let properties = resolved(schema, schema).get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        Self(properties.map(|(name, property)| (name.clone(), kind(schema, property))).collect())
    }

    /// Converts a query into an input.
    pub(crate) fn read(&self, query: &str) -> Result<Value, ErrorResponse> {
        let refused = |code: Code| ErrorResponse::new(StatusCode::BAD_REQUEST, code);
        if query.len() > MAX_QUERY_BYTES {
            return Err(refused(codes::gate::QUERY));
        }
        let mut input = Map::new();
        for (at, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (form_decode(name), form_decode(value)) else {
                return Err(refused(codes::gate::QUERY));
            };
            if at == MAX_PARAMETERS {
                return Err(refused(codes::gate::QUERY));
            }
            let kind = self.0.get(&name).copied().unwrap_or(TEXT);
            let value = converted(kind.scalar, value);
            match input.get_mut(&name) {
                Some(Value::Array(values)) if kind.is_array => values.push(value),
                Some(_) => return Err(refused(codes::gate::QUERY_TWICE).with("parameter", name.into())),
                None => {
                    let value = if kind.is_array { Value::Array(vec![value]) } else { value };
                    input.insert(name, value);
                }
            }
        }
        Ok(Value::Object(input))
    }
}

/// Returns the schema itself, or the one that its `$ref` names in the same document.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| root.pointer(target.strip_prefix('#')?));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn kind(root: &Value, property: &Value) -> Kind {
    let property = resolved(root, property);
    match declared(property) {
        Some("array") => {
            let scalar = property.get("items").map_or(Scalar::Text, |items| scalar(declared(resolved(root, items))));
            Kind { is_array: true, scalar }
        }
        other => Kind { is_array: false, scalar: scalar(other) },
    }
}

/// Returns the type of a schema: the one that it names, or the only one besides `null`.
fn declared(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::Array(types) => {
            let mut types = types.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            types.next().filter(|_| types.next().is_none())
        }
        kind => kind.as_str(),
    }
}

fn scalar(declared: Option<&str>) -> Scalar {
    match declared {
        Some("integer") => Scalar::Integer,
        Some("number") => Scalar::Number,
        Some("boolean") => Scalar::Boolean,
        _ => Scalar::Text,
    }
}

/// Converts a text to its declared type, or returns the text.
fn converted(kind: Scalar, text: String) -> Value {
    // Numbers are written as in JSON; serde_json would accept blanks around them.
    let number = || text.parse::<Number>().ok().filter(|_| text.bytes().all(|byte| !byte.is_ascii_whitespace()));
    let value = match kind {
        Scalar::Integer => number().filter(|number| number.is_i64() || number.is_u64()).map(Value::Number),
        Scalar::Number => number().map(Value::Number),
        Scalar::Boolean => match text.as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        Scalar::Text => None,
    };
    value.unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameters() -> Parameters {
        Parameters::of(&json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "count": { "type": "integer" },
                "maybe": { "type": ["integer", "null"] },
                "either": { "type": ["integer", "string"] },
                "share": { "type": "number" },
                "loud": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "days": { "type": "array", "items": { "$ref": "#/$defs/Day" } },
                "day": { "$ref": "#/$defs/Day" },
                "loop": { "$ref": "#/$defs/Loop" },
                "elsewhere": { "$ref": "https://example.com/schema" },
            },
            "$defs": { "Day": { "type": "integer" }, "Loop": { "$ref": "#/$defs/Loop" } },
        }))
    }

    #[track_caller]
    fn check(query: &str, expected: Result<Value, &str>) {
        let read = parameters().read(query).map_err(|refusal| refusal.code.id());
        assert_eq!(read, expected, "{query}");
    }

    #[test]
    fn values_are_what_the_manifest_says() {
        check("", Ok(json!({})));
        check("&&", Ok(json!({})));
        check("text=a+b%20c%26d&count=-3", Ok(json!({"text": "a b c&d", "count": -3})));
        check("text=7&unknown=7&text%32=true", Ok(json!({"text": "7", "unknown": "7", "text2": "true"})));
        check(
            "maybe=1&either=1&day=4&loop=1&elsewhere=1",
            Ok(json!({"maybe": 1, "either": "1", "day": 4, "loop": "1", "elsewhere": "1"})),
        );
        check("share=1.5&loud=true", Ok(json!({"share": 1.5, "loud": true})));
        check("share=1e2&loud=false", Ok(json!({"share": 100.0, "loud": false})));
        check("tags=a", Ok(json!({"tags": ["a"]})));
        check("tags=a&days=1&tags=b&days=2", Ok(json!({"tags": ["a", "b"], "days": [1, 2]})));
        check("text", Ok(json!({"text": ""})));
        check("text=a=b", Ok(json!({"text": "a=b"})));
        check("text=%E2%82%AC", Ok(json!({"text": "€"})));
        check("__proto__=1&=x", Ok(json!({"__proto__": "1", "": "x"})));
    }

    #[test]
    fn what_is_no_such_value_stays_text_for_the_schema_to_refuse() {
        for odd in ["", "x", "01", "+1", "1.0", "0x10", " 1", "1 ", "1e1", "99999999999999999999", "NaN", "1_000", "١"] {
            let encoded: String = odd.bytes().map(|byte| format!("%{byte:02x}")).collect();
            check(&format!("count={encoded}"), Ok(json!({ "count": odd })));
        }
        for odd in ["", "x", "01", "1e999", "NaN", "Infinity", " 1", ".5"] {
            let encoded = odd.replace(' ', "+");
            check(&format!("share={encoded}"), Ok(json!({ "share": odd })));
        }
        check("loud=TRUE", Ok(json!({"loud": "TRUE"})));
        check("loud=1", Ok(json!({"loud": "1"})));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        check("text=1&text=1", Err("gate.query_twice"));
        check("unknown=1&unknown=1", Err("gate.query_twice"));
        check("a=%", Err("gate.query"));
        check("a=%4", Err("gate.query"));
        check("a=%zz", Err("gate.query"));
        check("%=a", Err("gate.query"));
        check("a=%ff", Err("gate.query"));
        check("a=%C0%AF", Err("gate.query"));
        check(&format!("a={}", "x".repeat(MAX_QUERY_BYTES)), Err("gate.query"));
        let many = |count: usize| vec!["tags=a"; count].join("&");
        check(&many(MAX_PARAMETERS), Ok(json!({ "tags": vec!["a"; MAX_PARAMETERS] })));
        check(&many(MAX_PARAMETERS + 1), Err("gate.query"));
    }

    proptest::proptest! {
        #[test]
        fn no_query_is_too_odd(query in "\\PC{0,60}") {
            let _ = parameters().read(&query);
        }
    }
}
