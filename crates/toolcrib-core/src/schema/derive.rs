//! Schemas from Rust types, for authors who write their tool in Rust.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Returns the JSON Schema of `T` as JSON text: draft 2020-12, inlined where the type permits it, without `$schema` and without the type's
/// name as title.
///
/// Only recursive types need `$defs`. The text is for `inputs` and `outputs` of a manifest, or `parameters` of a function, and passes
/// [`check`](super::check) unless the type itself exceeds its limits.
pub fn schema_of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    if schema.get("title").and_then(serde_json::Value::as_str) == Some(&*T::schema_name()) {
        schema.remove("title");
    }
    schema.to_value().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::json::{Limits, read};
    use crate::schema::Validator;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is wanted")]
    struct Request {
        /// What to look for.
        query: String,
        limit: Option<u32>,
        place: Coordinates,
        tags: Vec<String>,
        extra: HashMap<String, f64>,
        order: Order,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is wanted")]
    struct Coordinates {
        latitude: f64,
        longitude: f64,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only the schema is wanted")]
    enum Order {
        Newest,
        Nearest,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is wanted")]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Group(Vec<Self>),
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is wanted")]
    struct Tree {
        value: i64,
        children: Vec<Self>,
    }

    /// Derives the schema, checks it without findings, compiles it, and validates values.
    #[track_caller]
    fn derives<T: JsonSchema>(good: &[serde_json::Value], bad: &[serde_json::Value]) -> serde_json::Value {
        let text = schema_of::<T>();
        let document = read(text.as_bytes(), Limits::default()).document.expect("is JSON");
        let mut context = crate::checked::Context::new(crate::finding::Mode::Producer);
        crate::schema::check(document.root(), &mut crate::schema::Totals::default(), &mut context);
        assert!(context.findings.is_empty(), "{text}: {:?}", context.findings);
        let validator = Validator::compile(document.root()).expect("compiles");
        for value in good {
            assert!(validator.is_valid(value), "{text} refuses {value}");
        }
        for value in bad {
            assert!(!validator.is_valid(value), "{text} accepts {value}");
        }
        serde_json::from_str(&text).expect("is JSON")
    }

    #[test]
    fn types_become_schemas_that_pass_the_check() {
        use serde_json::json;
        let request = json!({
            "query": "q", "limit": 3, "place": {"latitude": 1.5, "longitude": 2}, "tags": ["a"],
            "extra": {"x": 0.5}, "order": "newest"
        });
        let mut wrong_order = request.clone();
        wrong_order["order"] = json!("Newest");
        let mut wrong_place = request.clone();
        wrong_place["place"] = json!({"latitude": "1"});
        let mut no_limit = request.clone();
        no_limit["limit"] = json!(null);
        let schema = derives::<Request>(&[request, no_limit], &[wrong_order, wrong_place, json!({})]);
        assert_eq!(schema["properties"]["query"]["description"], "What to look for.");
        for noise in ["$schema", "title", "$defs"] {
            assert!(schema.get(noise).is_none(), "{noise} in {schema}");
        }
        derives::<Shape>(
            &[json!("Point"), json!({"Circle": {"radius": 1}}), json!({"Group": ["Point", {"Group": []}]})],
            &[json!("Line"), json!({"Group": ["Line"]})],
        );
        derives::<Tree>(
            &[json!({"value": 1, "children": [{"value": 2, "children": []}]})],
            &[json!({"value": 1, "children": [{"value": "2", "children": []}]}), json!([])],
        );
        derives::<Option<u8>>(&[json!(null), json!(255)], &[json!(256), json!(-1)]);
        derives::<HashMap<String, Vec<bool>>>(&[json!({"a": [true]})], &[json!({"a": true})]);
    }
}
