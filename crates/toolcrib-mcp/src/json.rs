//! Schemas and hashes of JSON values.

use alloy_primitives::B256;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Limits, read};
use toolcrib_core::schema::Validator;

/// Compiles a schema, or returns what is wrong with it.
pub(crate) fn compile(schema: &Json) -> Result<Validator, Vec<Finding>> {
    let text = schema.to_string();
    let reading = read(text.as_bytes(), Limits::default());
    match reading.document {
        Some(document) => Validator::compile(document.root()),
        None => Err(reading.findings.into_sorted()),
    }
}

/// Returns the hash of a value. It does not depend on the order of members, and differs for different values, including
/// numbers that are the same double. (The canonical form of RFC 8785 does not tell these apart.)
pub fn value_hash(value: &Json) -> B256 {
    let mut hash = Sha256::new();
    feed(value, &mut hash);
    B256::from_slice(&hash.finalize())
}

/// Recurses as deep as the value nests, which its parsers limit.
fn feed(value: &Json, hash: &mut Sha256) {
    let mut piece = |kind: u8, bytes: &[u8]| {
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    match value {
        Json::Null => piece(0, &[]),
        Json::Bool(bool) => piece(1, &[u8::from(*bool)]),
        Json::Number(number) => piece(2, number.to_string().as_bytes()),
        Json::String(text) => piece(3, text.as_bytes()),
        Json::Array(items) => {
            piece(4, &(items.len() as u64).to_be_bytes());
            for item in items {
                feed(item, hash);
            }
        }
        Json::Object(members) => {
            piece(5, &(members.len() as u64).to_be_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by(|a, b| a.0.cmp(b.0));
            for (key, member) in members {
                feed(&Json::String(key.clone()), hash);
                feed(member, hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let one: Json = serde_json::from_str(r#"{"a": 1, "b": [true, null, "x"]}"#).unwrap();
        let two: Json = serde_json::from_str(r#"{"b": [true, null, "x"], "a": 1}"#).unwrap();
        assert_eq!(value_hash(&one), value_hash(&two));
        let mut seen = vec![value_hash(&one)];
        for other in [
            json!({"a": 1, "b": [true, null, "y"]}),
            json!({"a": 1, "b": [null, true, "x"]}),
            json!({"a": "1", "b": [true, null, "x"]}),
            json!({"a": 9_007_199_254_740_993_u64}),
            json!({"a": 9_007_199_254_740_992_u64}),
            json!({"a": {}}),
            json!({"a": []}),
            json!({}),
            json!([]),
            json!(""),
            json!(null),
        ] {
            let hash = value_hash(&other);
            assert!(!seen.contains(&hash), "{other}");
            seen.push(hash);
        }
    }
}
