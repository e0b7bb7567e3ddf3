//! The version 2 extension `payment-identifier`: an identifier that the caller gives to an operation.
//!
//! A caller that did not receive the response sends the same payment with the same identifier again and gets the stored response. Nothing
//! of the extension is signed, and a settled payment is public: only the identifier is not on the chain, so it should be random.

use alloy_primitives::{Address, B256, Keccak256};
use toolcrib_core::codes::{Code, payment as code};
use toolcrib_core::json::{self, Limits};

use super::{Members, ObjectWriter, Raw};

/// The name of the extension.
pub const EXTENSION: &str = "payment-identifier";

/// Length of an identifier in characters.
pub(crate) const LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

/// The schema of `info`, as stock servers write it.
const SCHEMA: &str = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"required":{"type":"boolean"},"id":{"type":"string","minLength":16,"maxLength":128,"pattern":"^[a-zA-Z0-9_-]+$"}},"required":["required"]}"#;

/// The declaration in a challenge: identifiers are accepted, but not required.
pub fn declaration() -> (String, Raw) {
    (EXTENSION.to_owned(), Raw(format!(r#"{{"info":{{"required":false}},"schema":{SCHEMA}}}"#)))
}

/// Returns the identifier in the extensions of a payment. Stock clients repeat the declaration without one; that counts as none.
pub fn read(extensions: &Members) -> Result<Option<String>, Code> {
    let Some((_, value)) = extensions.iter().find(|(name, _)| name == EXTENSION) else { return Ok(None) };
    let limits = Limits { max_bytes: super::MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
    let document = json::read(value.as_str().as_bytes(), limits).document.ok_or(code::ID_MALFORMED)?;
    let Some(id) = document.root().get("info").and_then(|info| info.get("id")) else { return Ok(None) };
    let id = id.as_str().ok_or(code::ID_MALFORMED)?;
    if is_id(id) { Ok(Some(id.to_owned())) } else { Err(code::ID_MALFORMED) }
}

fn is_id(text: &str) -> bool {
    LENGTHS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Copies the challenge's declaration and adds an identifier. Does nothing if identifiers are not declared or `id` is invalid.
pub fn append(extensions: &mut Members, id: &str) {
    let declared = extensions.iter_mut().find(|(name, _)| name == EXTENSION);
    let Some((_, value)) = declared.filter(|_| is_id(id)) else { return };
    let limits = Limits { max_bytes: super::MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
    let Some(document) = json::read(value.as_str().as_bytes(), limits).document else { return };
    let Some(object) = document.root().as_object() else { return };
    let mut out = String::new();
    let mut writer = ObjectWriter::open(&mut out);
    for (key, member) in object.iter().filter(|(key, _)| *key != "info") {
        writer.key(key).push_str(Raw::of(member).as_str());
    }
    let mut info = ObjectWriter::open(writer.key("info"));
    for (key, member) in object.get("info").and_then(|info| info.as_object()).into_iter().flat_map(|info| info.iter()) {
        if key != "id" {
            info.key(key).push_str(Raw::of(member).as_str());
        }
    }
    info.text("id", id);
    info.close();
    writer.close();
    *value = Raw(out);
}

/// The scope of an identifier: one payer at one endpoint. So a caller cannot occupy another caller's identifier, and tools that share a
/// store do not collide.
pub fn key(route: &str, payer: Address, id: &str) -> B256 {
    let mut hash = Keccak256::new();
    hash.update(b"toolcrib payment id v1\0");
    hash.update(payer);
    hash.update((route.len() as u64).to_be_bytes());
    hash.update(route);
    hash.update(id);
    hash.finalize()
}

/// The proof of possession from the identifier, distinct from salts and tokens.
pub fn secret(id: &str) -> Vec<u8> {
    [b"payment id\0", id.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: &str) -> Members {
        vec![("bazaar".to_owned(), Raw::parse("{}").expect("JSON")), (EXTENSION.to_owned(), Raw::parse(value).expect("JSON"))]
    }

    #[test]
    fn identifiers_are_read_strictly() {
        let with = |id: &str| read(&sent(&format!(r#"{{"info":{{"required":false,"id":{id}}},"schema":{{}}}}"#)));
        assert_eq!(with(r#""pay_0f3c9a17b2d84e55a6c1""#), Ok(Some("pay_0f3c9a17b2d84e55a6c1".to_owned())));
        assert_eq!(with(&format!("{:?}", "a".repeat(16))), Ok(Some("a".repeat(16))));
        assert_eq!(with(&format!("{:?}", "a".repeat(128))), Ok(Some("a".repeat(128))));
        for bad in [
            format!("{:?}", "a".repeat(15)),
            format!("{:?}", "a".repeat(129)),
            r#""sixteen characters""#.to_owned(),
            r#""ééééééééééééééééé""#.to_owned(),
            "17".to_owned(),
            "null".to_owned(),
        ] {
            assert_eq!(with(&bad), Err(code::ID_MALFORMED), "{bad}");
        }
        // The message of stock clients that do not support it.
        assert_eq!(read(&vec![declaration()]), Ok(None));
        assert_eq!(read(&Vec::new()), Ok(None));
        assert_eq!(read(&sent("[]")), Ok(None));
    }

    #[test]
    fn what_is_appended_is_read_again_and_keeps_what_was_declared() {
        let mut extensions = vec![declaration()];
        append(&mut extensions, "pay_0f3c9a17b2d84e55a6c1");
        assert_eq!(read(&extensions), Ok(Some("pay_0f3c9a17b2d84e55a6c1".to_owned())));
        assert!(extensions[0].1.as_str().contains(r#""required":false"#) && extensions[0].1.as_str().contains("minLength"));
        append(&mut extensions, "pay_another_one_of_these");
        assert_eq!(read(&extensions), Ok(Some("pay_another_one_of_these".to_owned())));
        append(&mut extensions, "short");
        assert_eq!(read(&extensions), Ok(Some("pay_another_one_of_these".to_owned())));
        let mut none = Vec::new();
        append(&mut none, "pay_0f3c9a17b2d84e55a6c1");
        assert!(none.is_empty());
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let (payer, id) = (Address::repeat_byte(1), "pay_0f3c9a17b2d84e55a6c1");
        let first = key("/a", payer, id);
        assert_ne!(first, key("/b", payer, id));
        assert_ne!(first, key("/a", Address::repeat_byte(2), id));
        assert_ne!(first, key("/a", payer, "pay_0f3c9a17b2d84e55a6c2"));
        assert_ne!(key("/ab", payer, "c"), key("/a", payer, "bc"));
    }
}
