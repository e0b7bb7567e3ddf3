use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::assert_faster_than;

use super::*;
use crate::codes::Code;
use crate::json::{Limits, read};

#[track_caller]
fn compile(text: &str) -> Result<Validator, Vec<Finding>> {
    let reading = read(text.as_bytes(), Limits::default());
    Validator::compile(reading.document.expect("is JSON").root())
}

#[track_caller]
fn refused(text: &str, code: Code) {
    let findings = compile(text).expect_err("must not compile");
    assert!(findings.iter().any(|finding| finding.code == code), "{text}: {findings:?}");
}

// req: LOCAL-008
#[test]
fn values_are_checked_and_violations_named() {
    let validator = compile(
        r#"{"type":"object","properties":{"cmd":{"type":"string"},"timeout":{"type":"integer"}},"required":["cmd"],
            "additionalProperties":false}"#,
    )
    .expect("compiles");
    assert!(validator.is_valid(&json!({"cmd": "ls", "timeout": 3})));
    assert!(validator.violations(&json!({"cmd": "ls"}), Echo::Values).is_empty());
    let secret = json!({"timeout": "hunter2", "more": 1});
    assert!(!validator.is_valid(&secret));
    let shown = validator.violations(&secret, Echo::Values);
    let pairs: Vec<_> = shown.iter().map(|v| (v.instance_pointer.as_str(), v.schema_pointer.as_str())).collect();
    assert!(pairs.contains(&("/timeout", "/properties/timeout/type")), "{pairs:?}");
    assert!(pairs.contains(&("", "/required")), "{pairs:?}");
    assert!(pairs.contains(&("", "/additionalProperties")), "{pairs:?}");
    assert!(shown.iter().any(|violation| violation.message.contains("hunter2")));
    let masked = validator.violations(&secret, Echo::Masked);
    assert_eq!(masked.len(), 3);
    assert!(masked.iter().all(|violation| !violation.message.contains("hunter2")), "{masked:?}");
}

// req: AGT-011, HARDEN-008, HARDEN-013
#[test]
fn what_the_check_refuses_is_never_compiled() {
    use crate::codes::schema::*;
    refused(r#"{"type":"int"}"#, UNKNOWN_TYPE);
    refused(r#"{"$ref":"http://169.254.169.254/"}"#, REMOTE_REF);
    refused(r##"{"$ref":"#"}"##, REF_LOOP);
    refused(r#"{"pattern":"(a)\\1"}"#, PATTERN_NOT_LINEAR);
    refused(r#"{"pattern":"(x{1000}){1000}"}"#, PATTERN_TOO_LARGE);
    refused(r#"{"pattern":"[^]"}"#, PATTERN_UNSUPPORTED);
    refused(r##"{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##, BRANCHING_RECURSION);
    // The scanner checks only the syntax of script names; the engine knows the names.
    refused(r#"{"pattern":"\\p{Script=Klingon}"}"#, NOT_COMPILED);
}

// req: HARDEN-008
#[test]
fn a_pattern_that_ruins_backtracking_matchers_runs_in_linear_time() {
    let validator = compile(r#"{"pattern":"^(a+)+$"}"#).expect("compiles");
    let value = json!(format!("{}b", "a".repeat(50_000)));
    // A backtracking matcher would not finish.
    assert_faster_than(Duration::from_secs(2), "nested repetition", || assert!(!validator.is_valid(&value)));
}

// req: HARDEN-013
#[test]
fn local_and_recursive_references_work() {
    let validator = compile(r##"{"$defs":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a"},"y":{"$ref":"#"}}}"##)
        .expect("compiles");
    assert!(validator.is_valid(&json!({"x": "s", "y": {"y": {"x": "t"}}})));
    assert!(!validator.is_valid(&json!({"y": {"y": {"x": 1}}})));
}

#[test]
fn the_named_dialect_changes_nothing() {
    for dialect in ["http://json-schema.org/draft-04/schema#", "https://example.com/unknown"] {
        let validator = compile(&format!(r#"{{"$schema":"{dialect}","prefixItems":[{{"type":"string"}}]}}"#)).expect("compiles");
        assert!(!validator.is_valid(&json!([1])), "{dialect}");
    }
}

#[test]
fn formats_are_asserted_only_on_request() {
    let reading = read(br#"{"format":"date"}"#, Limits::default());
    let document = reading.document.expect("is JSON");
    let with = |formats| Validator::compile_with(document.root(), formats).expect("compiles");
    assert!(with(Formats::Annotate).is_valid(&json!("soon")));
    assert!(!with(Formats::Assert).is_valid(&json!("soon")));
    assert!(with(Formats::Assert).is_valid(&json!("2026-02-28")));
}

#[test]
fn deep_values_are_refused_at_the_limit() {
    let validator = compile("{}").expect("compiles");
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(validator.is_valid(&nested(MAX_INSTANCE_DEPTH)));
    assert!(!validator.is_valid(&nested(MAX_INSTANCE_DEPTH + 1)));
    assert_eq!(validator.violations(&nested(MAX_INSTANCE_DEPTH + 1), Echo::Masked).len(), 1);
}

#[test]
fn violations_are_bounded() {
    let validator = compile(r#"{"items":{"type":"string"}}"#).expect("compiles");
    let numbers = |count: usize| serde_json::Value::from((0..count).collect::<Vec<_>>());
    assert_eq!(validator.violations(&numbers(100), Echo::Masked).len(), MAX_VIOLATIONS);
    // There are too many to collect; only the first is returned.
    assert_eq!(validator.violations(&numbers(600_000), Echo::Masked).len(), 1);
}

/// Each of these takes minutes in a build like that of this test.
#[test]
fn what_takes_too_long_to_check_is_refused() {
    let alternatives: Vec<_> = (0..1_000).map(|at| json!({ "const": at })).collect();
    let many = json!({"items": {"anyOf": alternatives}}).to_string();
    let chain = (1..=12).fold(json!({"d0": {"type": "integer"}}), |mut definitions, at| {
        let before = json!({ "$ref": format!("#/$defs/d{}", at - 1) });
        definitions[format!("d{at}")] = json!({ "allOf": [before, before] });
        definitions
    });
    let chain = json!({"items": {"$ref": "#/$defs/d12"}, "$defs": chain}).to_string();
    let patterns: serde_json::Map<_, _> = (0..300).map(|at| (format!("p{at}"), json!({"pattern": "b$"}))).collect();
    let texts = json!({"allOf": patterns.values().collect::<Vec<_>>()}).to_string();
    let numbers = |count: usize| serde_json::Value::from(vec![1; count]);
    for (text, large, small) in [
        (&many, numbers(300_000), numbers(20)),
        (&chain, numbers(300_000), numbers(20)),
        (&texts, json!("b".repeat(20 << 20)), json!("b")),
    ] {
        let validator = compile(text).expect("compiles");
        assert!(validator.is_valid(&small), "{validator:?}");
        let found = assert_faster_than(Duration::from_secs(2), "a value that is too large", || {
            (validator.is_valid(&large), validator.violations(&large, Echo::Values))
        });
        assert!(!found.0 && found.1.len() == 1, "{found:?}");
        assert!(found.1[0].message.starts_with("the value is too large to be checked: "), "{found:?}");
    }
    // Large values are validated if the schema is small for them.
    assert!(compile(r#"{"items":{"type":"integer"}}"#).expect("compiles").is_valid(&numbers(500_000)));
}

#[test]
fn numbers_keep_their_kind() {
    let reading = read(br#"{"b":[1,-0,1.5,9007199254740991,1e3,1e300,null,true,"\u00e9"],"a":{}}"#, Limits::default());
    let plain = to_serde(reading.document.expect("is JSON").root());
    assert_eq!(plain.to_string(), r#"{"b":[1,0,1.5,9007199254740991,1000,1e+300,null,true,"é"],"a":{}}"#);
    assert!(plain["b"][4].is_i64());
}

proptest::proptest! {
    /// The engine never gets a schema that it cannot compile, or that keeps it busy.
    #[test]
    fn what_the_check_accepts_the_engine_builds_and_runs(text in crate::schema::tests::arbitrary_schema()) {
        match compile(&text) {
            Ok(validator) => {
                let value = (0..8).fold(json!({}), |inner, _| json!({"a": inner, "b": [inner]}));
                assert_faster_than(Duration::from_secs(2), &text, || validator.violations(&value, Echo::Values));
            }
            Err(findings) => {
                proptest::prop_assert!(findings.iter().all(|finding| finding.code != crate::codes::schema::NOT_COMPILED), "{text}: {findings:?}");
            }
        }
    }
}
