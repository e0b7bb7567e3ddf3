//! Schemas that are short but expensive to validate arguments against.

use serde_json::{Map, Value as Json, json};

/// A schema, and arguments that are expensive to validate.
#[derive(Debug)]
pub struct Hostile {
    /// The name of the case.
    pub name: &'static str,
    /// The schema.
    pub parameters: Json,
    /// The arguments.
    pub arguments: Json,
    /// Whether the tool must load. `None` if either is right: what loads must be cheap.
    pub loads: Option<bool>,
}

/// Returns all cases.
pub fn all() -> Vec<Hostile> {
    let case = |name, parameters, arguments, loads| Hostile { name, parameters, arguments, loads };
    let x = |schema: Json| json!({"type": "object", "properties": {"x": schema}});
    let pattern = |pattern: &str| x(json!({"type": "string", "pattern": pattern}));
    let evil = json!({ "x": format!("{}!", "a".repeat(50_000)) });
    let patterns: Map<_, _> = (0..60).map(|at| (format!("^(a|b)*{at}(c|d)*$"), json!({"type": "string"}))).collect();
    let keys: Map<_, _> = (0..2_000).map(|at| (format!("ababab{at}cdcd"), json!(1))).collect();
    vec![
        case("a chain of 8 doublings", doubling(8, "allOf"), json!({"x": 1}), Some(true)),
        case("a chain of 8 doublings, wrong", doubling(8, "allOf"), json!({"x": "no"}), Some(true)),
        case("a chain of 20 doublings", doubling(20, "allOf"), json!({"x": "no"}), Some(false)),
        case("a chain of 32 doublings", doubling(32, "allOf"), json!({"x": "no"}), Some(false)),
        case("a chain of 32 alternatives", doubling(32, "anyOf"), json!({"x": "no"}), Some(false)),
        case("a chain of 200 doublings", doubling(200, "oneOf"), json!({"x": "no"}), Some(false)),
        case("alternatives 12 deep", x(nested(12)), json!({"x": {}}), None),
        case("alternatives 60 deep", x(nested(60)), json!({"x": {}}), Some(false)),
        case(
            "500 alternatives",
            x(json!({"anyOf": (0..500).map(|at| json!({"const": at})).collect::<Vec<_>>()})),
            json!({"x": "no"}),
            None,
        ),
        case("a tree of itself", recursive(1), deep(60), None),
        case("a tree of itself, twice", recursive(2), deep(60), None),
        case("nested repetition", pattern("^(a+)+$"), evil.clone(), None),
        case("overlapping alternatives", pattern("^(a|aa)+$"), evil.clone(), None),
        case("many wildcards", pattern(".*.*.*.*.*=.*"), evil.clone(), None),
        case("a repeated repetition", pattern("(x{1000}){1000}"), evil.clone(), Some(false)),
        case("a backreference", pattern("^(a+)\\1+$"), evil.clone(), None),
        case("looking ahead", pattern("^(?=(a+))\\1b"), evil, None),
        case(
            "distinct elements",
            x(json!({"uniqueItems": true})),
            json!({ "x": (0..20_000).map(|at| json!({"a": at})).collect::<Vec<_>>() }),
            None,
        ),
        case("names by patterns", json!({"type": "object", "patternProperties": patterns}), Json::Object(keys), None),
        case(
            "elements of a long list",
            x(json!({"items": {"enum": words(5_000, "a")}})),
            json!({ "x": words(5_000, "b") }),
            None,
        ),
        case(
            "numbers against 1,000 alternatives",
            x(json!({"items": {"anyOf": (0..1_000).map(|at| json!({"const": at})).collect::<Vec<_>>()}})),
            json!({ "x": vec![json!(-1); 300_000] }),
            Some(true),
        ),
        case("numbers against a long chain", doubling_items(12), json!({ "x": vec![json!(1); 300_000] }), Some(true)),
    ]
}

/// Returns definitions. Each refers twice to the previous one.
fn doubling(length: usize, keyword: &str) -> Json {
    let mut definitions = Map::from_iter([("d0".to_owned(), json!({"type": "integer"}))]);
    for at in 1..=length {
        let before = json!({ "$ref": format!("#/$defs/d{}", at - 1) });
        definitions.insert(format!("d{at}"), json!({ keyword: [before, before] }));
    }
    json!({"type": "object", "properties": {"x": {"$ref": format!("#/$defs/d{length}")}}, "$defs": definitions})
}

/// Returns the same for each element of a list.
fn doubling_items(length: usize) -> Json {
    let mut schema = doubling(length, "allOf");
    schema["properties"]["x"] = json!({"type": "array", "items": schema["properties"]["x"]});
    schema
}

/// Returns nested alternatives.
fn nested(depth: usize) -> Json {
    (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [inner, {"type": "integer"}]}))
}

/// Returns a schema whose member `child` is the schema itself, with this number of levels.
fn recursive(times: usize) -> Json {
    let itself: Vec<_> = (0..times).map(|_| json!({"$ref": "#"})).collect();
    json!({"type": "object", "properties": {"child": {"allOf": itself}, "x": {"type": "integer"}}})
}

/// Returns nested arguments that violate the schema at the deepest level.
fn deep(depth: usize) -> Json {
    (0..depth).fold(json!({"x": "no"}), |inner, _| json!({ "child": inner }))
}

fn words(count: usize, start: &str) -> Vec<String> {
    (0..count).map(|at| format!("{start}{at:06}")).collect()
}
