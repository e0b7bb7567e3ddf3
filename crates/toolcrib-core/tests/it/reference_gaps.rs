//! Manifests that the reference implementation accepts and the standard forbids, and the one that it wrongly rejects.
//!
//! Each class has its own code, so that an author learns what is wrong.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::tool::{TYPE_V1, ToolManifest};

fn base() -> Value {
    json!({
        "type": TYPE_V1,
        "name": "tide-table",
        "description": "High and low water for a harbour.",
        "endpoint": "https://tools.example.com/tides",
        "inputs": {},
        "outputs": {},
        "creatorAddress": "0xabcdefabcdef1234567890abcdefabcdef123456",
    })
}

fn with(key: &str, value: Value) -> Vec<u8> {
    let mut manifest = base();
    manifest[key] = value;
    manifest.to_string().into_bytes()
}

fn priced(key: &str, value: Value) -> Vec<u8> {
    let mut entry = json!({
        "amount": "20000",
        "asset": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
        "recipient": "eip155:8453:0xabcdef0123456789abcdef0123456789abcdef01",
        "protocol": "x402",
    });
    entry[key] = value;
    with("pricing", json!([entry]))
}

fn gated(key: &str, value: Value) -> Vec<u8> {
    let mut requirement = json!({"kind": "0xabcd1234", "data": "0x", "label": "Hold a token"});
    requirement[key] = value;
    with("access", json!({"logic": "AND", "requirements": [requirement]}))
}

#[test]
fn each_class_is_refused_with_its_own_code() {
    let nested = (0..200).fold(json!({}), |inner, _| json!({"anyOf": [inner]}));
    let seventeen_levels = (1..17).fold(json!({}), |inner, _| json!({"anyOf": [inner]}));
    let wide: serde_json::Map<_, _> = (0..5000).map(|n| (format!("p{n}"), json!({}))).collect();
    let many_tags: Vec<_> = (0..17).map(|n| format!("t{n}")).collect();
    let price = json!({"amount": "1", "asset": "eip155:1/slip44:60", "recipient": "eip155:1:0xabcdef0123456789abcdef0123456789abcdef01", "protocol": "x402"});
    let mut untyped = base();
    untyped.as_object_mut().expect("object").shift_remove("type");
    let text = base().to_string();
    let classes: Vec<(&str, Vec<u8>, &str)> = vec![
        ("name in NFD", with("name", json!("cafe\u{301}")), "json.not_nfc"),
        ("byte-order mark", [b"\xEF\xBB\xBF", text.as_bytes()].concat(), "json.bom"),
        ("control character in name", with("name", json!("a\u{7}b")), "tool.name_control"),
        ("type missing", untyped.to_string().into_bytes(), "tool.type_missing"),
        ("type nonsense", with("type", json!("nonsense")), "tool.type_unknown"),
        ("creator zero", with("creatorAddress", json!(format!("0x{}", "0".repeat(40)))), "tool.creator_zero"),
        (
            "upper-case hex in asset",
            priced("asset", json!("eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")),
            "caip.uppercase_hex",
        ),
        ("pricing empty", with("pricing", json!([])), "tool.pricing_empty"),
        ("33 prices", with("pricing", json!(vec![price; 33])), "tool.pricing_count"),
        ("amount -1.5", priced("amount", json!("-1.5")), "amount.sign"),
        ("arbitrary asset", priced("asset", json!("dollars")), "caip.asset_shape"),
        ("arbitrary recipient", priced("recipient", json!("me")), "caip.account_shape"),
        (
            "chains differ",
            priced("recipient", json!("eip155:1:0xabcdef0123456789abcdef0123456789abcdef01")),
            "tool.pricing_chain_mismatch",
        ),
        ("recipient zero", priced("recipient", json!(format!("eip155:8453:0x{}", "0".repeat(40)))), "caip.zero_account"),
        ("tag grammar", with("tags", json!(["Not A Tag"])), "tool.tag_grammar"),
        ("tag twice", with("tags", json!(["a", "a"])), "tool.tag_duplicate"),
        ("17 tags", with("tags", json!(many_tags)), "tool.tags_count"),
        ("image javascript:", with("image", json!("javascript:alert(1)")), "tool.image_scheme"),
        (
            "image over 2,048 bytes",
            with("image", json!(format!("https://tools.example.com/{}", "x".repeat(2048)))),
            "tool.image_length",
        ),
        ("access data of odd length", gated("data", json!("0xabc")), "tool.data_grammar"),
        (
            "link over 2,048 bytes",
            gated("links", json!({"a": format!("https://tools.example.com/{}", "x".repeat(2048))})),
            "tool.link_length",
        ),
        ("17 schema levels", with("inputs", seventeen_levels), "schema.too_deep"),
        ("200 nested anyOf", with("inputs", nested), "json.too_deep"),
        ("5,000 schema nodes", with("inputs", json!({"properties": wide})), "schema.too_many_nodes"),
        ("remote $ref", with("inputs", json!({"$ref": "https://schemas.example.net/x.json"})), "schema.remote_ref"),
        (
            "tier verifiable without proof",
            with("verifiability", json!({"tier": "verifiable", "execution": "tee"})),
            "tool.tier_inconsistent",
        ),
        ("endpoint with upper-case host", with("endpoint", json!("https://TOOLS.example.com/")), "url."),
        ("endpoint with :443", with("endpoint", json!("https://tools.example.com:443/")), "url."),
        ("endpoint with a U-label", with("endpoint", json!("https://bücher.example.com/")), "url."),
        ("endpoint with userinfo", with("endpoint", json!("https://a:b@tools.example.com/")), "url."),
        ("endpoint on a private address", with("endpoint", json!("https://192.168.0.1/")), "url."),
        ("duplicate key", text.replacen('{', "{\"name\":\"first\",", 1).into_bytes(), "json.duplicate_key"),
        ("more than 1 MiB", with("io.example.blob", json!("x".repeat(1_048_576))), "json.too_large"),
    ];
    let mut used: HashMap<&str, &str> = HashMap::new();
    for (class, bytes, code) in classes {
        let checked = ToolManifest::parse(&bytes, Mode::Producer);
        let errors: Vec<_> = checked.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.code.id()).collect();
        let found = errors.iter().copied().find(|id| id.starts_with(code)).unwrap_or_else(|| panic!("{class}: {errors:?}"));
        if let Some(other) = used.insert(found, class) {
            panic!("{class} and {other} share {found}");
        }
        assert!(checked.conformant().is_none(), "{class}");
    }
}

// req: MAN-004
#[test]
fn a_name_of_100_emoji_is_legal() {
    let checked = ToolManifest::parse(&with("name", json!("🛠".repeat(100))), Mode::Producer);
    assert!(checked.conformant().is_some(), "{:?}", checked.findings);
}
