use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::assert_faster_than;

use super::*;
use crate::json::{Limits, read};
use crate::schema::{MAX_INSTANCE_BYTES, MAX_VIOLATIONS, Validator};

#[track_caller]
fn compile(schema: &Plain) -> Validator {
    let text = schema.to_string();
    Validator::compile(read(text.as_bytes(), Limits::default()).document.expect("is JSON").root()).expect("compiles")
}

#[track_caller]
fn told(schema: &Plain, value: &Plain) -> Vec<String> {
    compile(schema).violations(value, Echo::Values).iter().map(ToString::to_string).collect()
}

/// Shapes that `kind` discriminates, one of them by reference and one through `allOf`.
fn shapes() -> Plain {
    let size = json!({"type": "number", "exclusiveMinimum": 0});
    json!({
        "type": "object",
        "properties": {"shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "square"}, "side": size}, "required": ["kind", "side"]},
            {"$ref": "#/$defs/circle"},
            {"type": "object", "allOf": [{"properties": {"kind": {"enum": ["box"]}}, "required": ["kind"]}, {"required": ["width", "height", "depth"]}]},
        ]}},
        "required": ["shape"],
        "$defs": {"circle": {
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "radius": size, "centre": {"type": "array", "items": {"type": "number"}}},
            "required": ["kind", "radius"],
            "additionalProperties": false,
        }},
    })
}

#[test]
fn the_alternative_with_the_same_tag_is_the_closest() {
    let told = |shape: Plain| told(&shapes(), &json!({"shape": shape}));
    assert_eq!(
        told(json!({"kind": "circle", "radius": "2", "centre": [1, "x"]})),
        [
            r#"/shape: matches no alternative; closest is alternative 2 of 3 ({kind: circle}): /shape/radius: "2" is not of type "number"; /shape/centre/1: "x" is not of type "number""#
        ]
    );
    // It has more violations than the others, but its tag matches.
    let box_ = told(json!({"kind": "box", "side": 1}));
    assert_eq!(
        box_,
        [
            r#"/shape: matches no alternative; closest is alternative 3 of 3 ({kind: box}): "width" is a required property; "height" is a required property; "depth" is a required property"#
        ]
    );
    // A tag that no alternative has: the alternative with the same other names has the fewest violations.
    let misspelt = told(json!({"kind": "cirle", "radius": 2}));
    assert_eq!(
        misspelt,
        [r#"/shape: matches no alternative; closest is alternative 2 of 3 ({kind: circle}): /shape/kind: "circle" was expected"#]
    );
    assert_eq!(told(json!("circle")), [r#"/shape: "circle" matches no alternative; expected object"#]);
    assert!(told(json!({"kind": "square", "side": 2})).is_empty());
}

#[test]
fn names_inside_alternatives_get_the_name_that_they_resemble() {
    let told = told(&shapes(), &json!({"shape": {"kind": "circle", "radus": 2}}));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(r#""radius" is a required property; did you mean `radius` instead of `radus`?"#), "{told:?}");
    assert!(told[0].contains("('radus' was unexpected); did you mean `radius` instead of `radus`?"), "{told:?}");
}

#[test]
fn names_in_nested_objects_get_the_name_that_they_resemble() {
    let place = json!({"type": "object", "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}}, "required": ["latitude"]});
    let schema = json!({"type": "object", "properties": {"places": {"type": "array", "items": place}}});
    assert_eq!(
        told(&schema, &json!({"places": [{"latitude": 1}, {"lattitude": 2, "longitude": 3}]})),
        [r#"/places/1: "latitude" is a required property; did you mean `latitude` instead of `lattitude`?"#]
    );
    // A known name is not taken for a misspelling of another one.
    assert_eq!(told(&schema, &json!({"places": [{"longitude": 3}]})), [r#"/places/0: "latitude" is a required property"#]);
    let masked = compile(&schema).violations(&json!({"places": [{"lattitude": 2}]}), Echo::Masked);
    assert!(!masked[0].message.contains("lattitude"), "{masked:?}");
}

#[test]
fn an_alternative_is_known_by_its_names_without_a_tag() {
    let schema = json!({"anyOf": [
        {"type": "object", "properties": {"file": {"type": "object", "properties": {"path": {"type": "string"}, "mode": {"type": "string"}}}}, "required": ["file"], "additionalProperties": false},
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"], "additionalProperties": false},
    ]});
    // Two violations further down are closer than two names that do not match.
    assert_eq!(
        told(&schema, &json!({"file": {"path": 1, "mode": 2}})),
        [
            r#"the value: matches no alternative; closest is alternative 1 of 2: /file/path: 1 is not of type "string"; /file/mode: 2 is not of type "string""#
        ]
    );
}

#[test]
fn alternatives_inside_alternatives_are_followed() {
    let leaf = json!({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"unit": {"const": "m"}, "value": {"type": "number"}}, "required": ["unit", "value"]}]});
    let schema = json!({"properties": {"a": {"anyOf": [{"type": "array", "items": leaf}, {"type": "null"}]}}});
    let violations = compile(&schema).violations(&json!({"a": ["x", {"unit": "m", "value": "3"}]}), Echo::Values);
    assert_eq!(violations.len(), 1);
    let (outer, inner) = (&violations[0], &violations[0].closest[0]);
    assert_eq!((inner.instance_pointer.as_str(), inner.closest.len()), ("/a/1", 1));
    assert_eq!(inner.closest[0].to_string(), r#"/a/1/value: "3" is not of type "number""#);
    assert!(outer.message.starts_with("matches no alternative; closest is alternative 1 of 2: /a/1: matches no alternative; closest is alternative 2 of 2 ({unit: m}): "), "{outer}");
}

#[test]
fn types_and_values_of_all_alternatives_are_listed() {
    let nullable = json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": ["null", "integer"]}]}}});
    assert_eq!(told(&nullable, &json!({"a": []})), ["/a: [] matches no alternative; expected string or null or integer"]);
    let words = json!({"properties": {"a": {"oneOf": [{"const": "on", "type": "string"}, {"enum": ["off", "auto"]}]}}});
    assert_eq!(told(&words, &json!({"a": "of"})), [r#"/a: "of" matches no alternative; expected "on" or "off" or "auto""#]);
    let masked = compile(&words).violations(&json!({"a": "hunter2"}), Echo::Masked);
    assert_eq!(masked[0].message, r#"value matches no alternative; expected "on" or "off" or "auto""#);
    let both = json!({"oneOf": [{"required": ["a"]}, {"type": "string"}, {"required": ["b"]}]});
    assert_eq!(
        told(&both, &json!({"a": 1, "b": 2})),
        ["the value: matches the alternatives 1 and 3 of 3; exactly one must match"]
    );
}

#[test]
fn values_inside_alternatives_are_masked() {
    let masked = compile(&shapes()).violations(&json!({"shape": {"kind": "circle", "radius": "hunter2"}}), Echo::Masked);
    assert!(masked[0].message.contains("/shape/radius: value is not of type"), "{masked:?}");
    assert!(!format!("{masked:?}").contains("hunter2"));
}

#[test]
fn long_values_leave_room_for_what_was_expected() {
    let told = told(&json!({"properties": {"a": {"type": "string"}}}), &json!({"a": vec!["x"; 10_000]}));
    assert!(told[0].len() < 200 && told[0].ends_with(r#"… is not of type "string""#), "{told:?}");
    let hostile =
        json!({"oneOf": [{"properties": {"k\u{1b}[31m": {"const": "\u{202e}"}}, "required": ["a"]}, {"required": ["b"]}]});
    let told = self::told(&hostile, &json!({}));
    assert!(!told[0].contains(['\u{1b}', '\u{202e}']), "{told:?}");
}

#[test]
fn work_and_memory_are_bounded() {
    let many = |count: usize| (0..count).map(|number| json!({"required": [format!("name{number}")]})).collect::<Vec<_>>();
    let schema = json!({"anyOf": many(500)});
    let validator = compile(&schema);
    let message = &validator.violations(&json!({}), Echo::Values)[0].message;
    assert!(message.contains("alternative 1 of 500") && message.len() < 400, "{message}");
    // The engine would copy this text 500 times.
    let large = json!({"text": "x".repeat(MAX_INSTANCE_BYTES - 100)});
    let told = assert_faster_than(Duration::from_secs(2), "a large value", || validator.violations(&large, Echo::Values));
    assert_eq!(told.len(), 1);
    assert!(told[0].message.contains("too large to locate the violation"), "{told:?}");
    // With a few alternatives a large value still gets its reason.
    let few = compile(&json!({"anyOf": many(5)}));
    assert!(few.violations(&large, Echo::Values)[0].message.contains("alternative 1 of 5"));

    // Alternatives that nest deeper than messages describe.
    let nested = (0..5).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [{"items": inner}, {"type": "null"}]}));
    let value = (0..5).fold(json!(1), |inner, _| json!([inner]));
    let violations = compile(&nested).violations(&value, Echo::Values);
    let levels = std::iter::successors(violations.first(), |violation| violation.closest.first()).count();
    assert_eq!(levels, MAX_LEVELS + 1);
    assert!(violations[0].message.chars().count() < 300, "{}", violations[0]);
    let items = json!({"items": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}});
    assert_eq!(compile(&items).violations(&json!(vec![json!({}); 1_000]), Echo::Values).len(), MAX_VIOLATIONS);
}
