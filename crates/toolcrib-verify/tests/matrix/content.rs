//! Contents of a manifest: limits of its lists and schemas, freshness, and rules that make it unusable although it verifies.

use serde_json::{Value as Json, json};
use toolcrib_core::codes::{fetch, schema, tool, verify};
use toolcrib_judge::Step;

use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [texts(), limits(), schemas(), freshness()].into_iter().flatten().collect()
}

// req: VERIFY-001, CREATOR-004
fn texts() -> Vec<Row> {
    vec![
        Row::new("TAB in the description").with("description", json!("Counts\twords.")),
        Row::new("line feed in the description").with("description", json!("Counts\nwords.")),
        Row::new("extension fields")
            .manifest(|manifest| {
                manifest["vendor.example/a"] = json!({"b": [1, 2.5, null, true, "c"]});
                manifest["x-old"] = json!(1);
            })
            .finds(tool::EXTENSION_X),
        Row::new("escape sequence in the name").with("name", json!("word\u{1b}[31mcount")).flawed(tool::NAME_CONTROL),
        Row::new("escape sequence in the description")
            .with("description", json!("a\u{1b}]0;x\u{7}"))
            .flawed(tool::DESCRIPTION_CONTROL),
        Row::new("empty name").with("name", json!("")).flawed(tool::NAME_LENGTH),
        Row::new("another type").with("type", json!("https://example.com/tool-v9")).flawed(tool::TYPE_UNKNOWN),
        Row::new("no type").without("type").flawed(tool::TYPE_MISSING),
        Row::new("17 tags").with("tags", (0..17).map(|n| json!(format!("tag-{n}"))).collect()).flawed(tool::TAGS_COUNT),
        Row::new("image that runs").with("image", json!("javascript:alert(1)")).finds(tool::IMAGE_SCHEME),
    ]
}

// req: HARDEN-001, HARDEN-003, HARDEN-004, HARDEN-005
fn limits() -> Vec<Row> {
    let prices = |count: usize| -> Json {
        (0..count)
            .map(|n| {
                json!({
                    "amount": (n + 1).to_string(),
                    "asset": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
                    "recipient": "eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
                    "protocol": "x402",
                })
            })
            .collect()
    };
    let access = |count: usize, bytes: usize| {
        let one = json!({"kind": "0x11111111", "data": format!("0x{}", "ab".repeat(bytes)), "label": "x"});
        json!({"logic": "AND", "requirements": vec![one; count]})
    };
    vec![
        Row::new("32 prices").with("pricing", prices(32)),
        Row::new("33 prices").with("pricing", prices(33)).flawed(tool::PRICING_COUNT),
        Row::new("10,000 prices").with("pricing", vec![json!(0); 10_000].into()).flawed(tool::PRICING_COUNT),
        Row::new("256 requirements").with("access", access(256, 1)),
        Row::new("257 requirements").with("access", access(257, 1)).flawed(tool::ACCESS_COUNT),
        Row::new("4,096 bytes of data").with("access", access(1, 4_096)),
        Row::new("4,097 bytes of data").with("access", access(1, 4_097)).flawed(tool::DATA_LENGTH),
        // Each is within its own limit, but all together exceed that of the file.
        Row::new("256 requirements of 4,096 bytes").with("access", access(256, 4_096)).refused(
            1,
            Step::Fetch,
            fetch::LENGTH_TOO_LARGE,
        ),
    ]
}

fn deep(levels: usize) -> Json {
    (1..levels).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}))
}

/// A schema with this number of nodes, including itself.
fn wide(nodes: usize) -> Json {
    let properties: serde_json::Map<String, Json> = (1..nodes).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

// req: HARDEN-001, HARDEN-006, HARDEN-007, HARDEN-008, HARDEN-013
fn schemas() -> Vec<Row> {
    let pattern = |name: &str, pattern: &str| {
        Row::new(&format!("pattern: {name}"))
            .with("inputs", json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}))
    };
    let reference = |name: &str, inputs: Json| Row::new(&format!("reference: {name}")).with("inputs", inputs);
    let remote = |target: &str| json!({"type": "object", "properties": {"a": {"$ref": target}}});
    vec![
        Row::new("schema 16 deep").with("inputs", deep(16)),
        Row::new("schema 17 deep").with("inputs", deep(17)).flawed(schema::TOO_DEEP),
        Row::new("answer 17 deep").with("outputs", deep(17)).flawed(schema::TOO_DEEP),
        Row::new("1,024 nodes").with("inputs", wide(1_023)).with("outputs", json!({})),
        Row::new("1,025 nodes").with("inputs", wide(1_023)).with("outputs", wide(2)).flawed(schema::TOO_MANY_NODES),
        Row::new("5,001 nodes").with("inputs", wide(5_000)).flawed(schema::TOO_MANY_NODES),
        pattern("ordinary", "^[a-z]+$"),
        pattern("exponential for others", "^(a+)+$"),
        pattern("back reference", "^(a)\\1$").finds(schema::PATTERN_NOT_LINEAR),
        pattern("look-ahead", "^(?=a)b$").finds(schema::PATTERN_NOT_LINEAR),
        pattern("repetition of repetitions", "((a{1000}){1000}){1000}").finds(schema::PATTERN_TOO_LARGE),
        pattern("no pattern at all", "(").finds(schema::PATTERN_MALFORMED),
        reference(
            "inside",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}),
        ),
        reference("to itself, further down", json!({"type": "object", "properties": {"a": {"$ref": "#"}}})),
        reference("to itself", json!({"$ref": "#"})).finds(schema::REF_LOOP),
        reference("metadata service", remote("http://169.254.169.254/latest/meta-data/")).finds(schema::REMOTE_REF),
        reference("loopback", remote("https://127.0.0.1:8545/schema.json")).finds(schema::REMOTE_REF),
        reference("own host", remote("https://HOST/schema.json")).finds(schema::REMOTE_REF),
        reference("file", remote("file:///etc/passwd")).finds(schema::REMOTE_REF),
        reference("billion laughs", laughs()).finds(schema::EXPANSION),
    ]
}

/// Thirty definitions, each with ten references to the next ("billion laughs").
fn laughs() -> Json {
    let ten = |next: usize| json!({"allOf": vec![json!({"$ref": format!("#/$defs/d{next}")}); 10]});
    let mut defs: serde_json::Map<String, Json> = (0..29).map(|n| (format!("d{n}"), ten(n + 1))).collect();
    defs.insert("d29".to_owned(), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

// req: VERIFY-021, VERIFY-022
fn freshness() -> Vec<Row> {
    let age = |value: Json| Row::new(&format!("maxAge {value}")).with("maxAge", value);
    vec![
        Row::new("no maxAge").window(300),
        age(json!(60)).window(60).finds(verify::MAX_AGE),
        age(json!(0)).window(0).finds(verify::MAX_AGE),
        age(json!(300)).window(300),
        age(json!(9_999)).window(300),
        age(json!("60")).window(300).finds(tool::MAX_AGE_IGNORED),
        age(json!(-1)).window(300).finds(tool::MAX_AGE_IGNORED),
        age(json!(1.5)).window(300).finds(tool::MAX_AGE_IGNORED),
    ]
}
