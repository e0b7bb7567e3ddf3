//! A canonical text of JSON values for hashing.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolcrib_core::canon::write_string;
use toolcrib_core::json::{utf16_order, write_number};

/// Writes `value` as RFC 8785 does: members sorted by UTF-16 code units, no whitespace, shortest escapes.
///
/// Integers beyond 2^53 keep all their digits, which RFC 8785 would round, because calls that differ in one digit are different calls.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

/// SHA-256 of the canonical text.
pub(crate) fn canonical_hash(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical(value).as_bytes()).into()
}

/// Recursion is limited by the parser to a depth of 128.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => write_number(float, out),
            // Writing to a string cannot fail.
            _ => _ = write!(out, "{number}"),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(element, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|left, right| utf16_order(left.0, right.0));
            out.push('{');
            for (index, (key, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::canon;
    use toolcrib_core::json::{Limits, read};

    use super::*;

    #[test]
    fn it_is_the_canonical_form_of_core() {
        let value =
            json!({"b": [1, -2.5, 1e21, null, true, {}], "a": {"\u{fb33}": "x\n\u{1}\"\\", "\u{1f600}": "é"}, "": [], "z": 1.0});
        let text = canonical(&value);
        let mut expected = String::new();
        canon::write_value(read(value.to_string().as_bytes(), Limits::default()).document.unwrap().root(), &mut expected);
        assert_eq!(text, expected);
    }

    #[test]
    fn large_integers_stay_apart() {
        assert_ne!(canonical(&json!(9_007_199_254_740_993_u64)), canonical(&json!(9_007_199_254_740_992_u64)));
        assert_eq!(canonical(&json!({"n": u64::MAX})), r#"{"n":18446744073709551615}"#);
    }
}
