//! `schema`: the schemas for editors.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{Sandbox, example};

fn schema(kind: &str) -> Validator {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["schema", kind]).code(0).silent();
    let text: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(text["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::meta::validate(&text).expect("the schema is itself valid");
    let (_, envelope) = sandbox.run_json(&["schema", kind]);
    assert_eq!(envelope["data"], text);
    jsonschema::draft202012::new(&text).expect("the schema can be used")
}

#[track_caller]
fn check_accepts(validator: &Validator, text: &str) {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Sets each pointer to each value in turn and expects the document to be invalid.
#[track_caller]
fn check_refuses(validator: &Validator, good: &str, changes: &[(&str, Value)]) {
    for (pointer, bad) in changes {
        let mut value: Value = serde_json::from_str(good).expect("JSON");
        *value.pointer_mut(pointer).expect("the pointer leads somewhere") = bad.clone();
        assert!(!validator.is_valid(&value), "{pointer} = {bad} should be refused");
    }
}

#[test]
fn tool() {
    let validator = schema("tool");
    for name in ["tool-free.json", "tool-paid.json", "tool-gated.json"] {
        check_accepts(&validator, &example(name));
    }
    check_refuses(
        &validator,
        &example("tool-free.json"),
        &[
            ("/type", json!("https://example.com/other")),
            ("/name", json!("")),
            ("/name", json!("é".repeat(129))),
            ("/name", json!("a\u{85}b")),
            ("/description", json!("a\u{0}b")),
            ("/description", json!("a".repeat(501))),
            ("/endpoint", json!("http://a.example/")),
            ("/endpoint", json!("https://A.example/")),
            ("/endpoint", json!("https://a.example:443/")),
            ("/endpoint", json!("https://é.example/")),
            ("/inputs", json!(true)),
            ("/inputs/type", json!("objekt")),
            ("/tags", json!(["a", "a"])),
            ("/tags/0", json!("-a")),
            ("/tags", (0..17).map(|n| n.to_string()).collect()),
            ("/creatorAddress", json!("0x5AAEB6053f3e94c9b9a09f33669435e7ef1beaed")),
            ("/creatorAddress", json!("0x0000000000000000000000000000000000000000")),
        ],
    );
    let name = |text: String| example("tool-free.json").replace("Tide table", &text);
    check_accepts(&validator, &name("é".repeat(128)));
    check_accepts(&validator, &example("tool-free.json").replace("tools.example.com/", "tools.example.com:8443/?q#f"));
    check_refuses(
        &validator,
        &example("tool-paid.json"),
        &[
            ("/pricing", json!([])),
            ("/pricing", json!(null)),
            ("/pricing/0/amount", json!("007")),
            ("/pricing/0/amount", json!(7)),
            ("/pricing/0/amount", json!("1".repeat(79))),
            ("/pricing/0/asset", json!("eip155:8453/erc20:0x833589fCD6edb6e08f4c7c32d4f71b54bda02913")),
            ("/pricing/0/recipient", json!("eip155:8453:0x0000000000000000000000000000000000000000")),
            ("/verifiability/tier", json!("verifiable")),
            ("/verifiability/execution", json!("tee")),
        ],
    );
    check_refuses(
        &validator,
        &example("tool-gated.json"),
        &[
            ("/access/logic", json!("XOR")),
            ("/access/requirements", json!([])),
            ("/access/requirements/0/kind", json!("0xBDF8C428")),
            ("/access/requirements/0/data", json!("0x0")),
            ("/access/requirements/0/label", json!("a".repeat(257))),
            ("/access/requirements/0/links/join", json!("http://tools.example.com/")),
        ],
    );
}

#[test]
fn agent() {
    let validator = schema("agent");
    let good = example("agent.agt.json");
    check_accepts(&validator, &good);
    check_refuses(
        &validator,
        &good,
        &[
            ("/agt", json!("1.1")),
            ("/domain", json!("logbook.eth")),
            ("/owner", json!("0x12")),
            ("/created_at", json!("yesterday")),
            ("/signature", json!("0x7f3e")),
            ("/name", json!("é".repeat(101))),
            ("/website", json!("http://logbook.example.com")),
            ("/protocols/0/id", json!("MCP")),
            ("/capabilities/0/description", json!("a".repeat(201))),
            ("/pricing/paid/amount", json!("0,01")),
            ("/pricing/paid", json!(null)),
        ],
    );
    let mut value: Value = serde_json::from_str(&good).expect("JSON");
    value["pricing"].as_object_mut().expect("an object").remove("paid");
    assert!(!validator.is_valid(&value), "freemium asks for paid");
    value["pricing"]["model"] = json!("free");
    assert!(validator.is_valid(&value));
}

#[test]
fn local() {
    let validator = schema("local");
    let good = example("local/weather/manifest.json");
    check_accepts(&validator, &good);
    check_refuses(
        &validator,
        &good,
        &[
            ("/id", json!("../weather")),
            ("/id", json!("a".repeat(65))),
            ("/version", json!("1.0")),
            ("/functions", json!([])),
            ("/functions/0/parameters", json!({ "type": 1 })),
            ("/credentials/0/required", json!("yes")),
        ],
    );
}
