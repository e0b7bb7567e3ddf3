//! How endpoints encode a document: raw, as text, or inside JSON.
//!
//! ERC-8257 leaves the encoding open. Servers send the raw bytes of the security module, the same in base64 or hex, or a JSON object with
//! the base64 in some field. The bytes decide which it is; the content type is often wrong and is only used to explain a rejection.

use std::borrow::Cow;

use base64ct::{Base64, Base64Unpadded, Base64Url, Base64UrlUnpadded, Encoding};
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::hex;
use toolcrib_core::json::{self, Limits};

use super::Report;

/// Most bytes of a response that are read: a payload of 16384 bytes with its envelope, twice as long in hex, and the same again for other
/// fields.
pub const MAX_BODY_BYTES: usize = 65_536;

/// Deepest nesting of JSON around a document. The document is at the top level; other fields may have some structure.
const MAX_JSON_DEPTH: usize = 16;

/// The fields in which servers put the document, the clearest name first.
const FIELDS: [&str; 10] = [
    "attestation_document",
    "attestationDocument",
    "attestation_doc",
    "attestationDoc",
    "attestation",
    "document",
    "report",
    "evidence",
    "quote",
    "data",
];

/// The bytes of the document in a response.
pub(super) fn document<'a>(report: &Report<'a>) -> Result<Cow<'a, [u8]>, Box<Finding>> {
    let body = report.body;
    if body.len() > MAX_BODY_BYTES {
        let got = format!("{} bytes", body.len());
        return Err(Finding::new(codes::attestation::BODY_TOO_LARGE)
            .expected(format!("at most {MAX_BODY_BYTES} bytes"))
            .got(got)
            .into());
    }
    if looks_like_cose(body) {
        return Ok(Cow::Borrowed(body));
    }
    let text = std::str::from_utf8(body).unwrap_or_default().trim_ascii();
    let found = match text.as_bytes().first() {
        Some(b'{' | b'"') => from_json(text),
        _ => from_text(text),
    };
    found.map(Cow::Owned).ok_or_else(|| {
        Finding::new(codes::attestation::BODY_FORM)
            .expected("a COSE_Sign1 document: raw bytes, base64 or hex text, or such a string in JSON")
            .got(match report.content_type {
                Some(content_type) => format!("{} bytes of {content_type}", body.len()),
                None => format!("{} bytes without Content-Type", body.len()),
            })
            .into()
    })
}

/// An array of four, with or without tag 18. No text starts with either byte.
fn looks_like_cose(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(0x84 | 0xd2))
}

fn from_json(text: &str) -> Option<Vec<u8>> {
    let limits = Limits { max_bytes: MAX_BODY_BYTES, max_depth: MAX_JSON_DEPTH };
    let document = json::read(text.as_bytes(), limits).document.filter(json::Document::is_canonicalisable)?;
    let root = document.root();
    match root.as_str() {
        Some(text) => from_text(text),
        // The document must verify regardless of its field, so the first field that could hold one is used.
        None => FIELDS.iter().find_map(|field| from_text(root.get(field)?.as_str()?)),
    }
}

/// Decodes hex, or base64 of either alphabet, with or without padding and line breaks.
fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut joined = text.to_owned();
    joined.retain(|c| !c.is_ascii_whitespace());
    let digits = joined.strip_prefix("0x").unwrap_or(&joined);
    let bytes = hex::decode(digits).or_else(|| {
        [Base64::decode_vec, Base64Unpadded::decode_vec, Base64Url::decode_vec, Base64UrlUnpadded::decode_vec]
            .into_iter()
            .find_map(|decode| decode(&joined).ok())
    })?;
    looks_like_cose(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: [u8; 9] = [0x84, 0x43, 0xa1, 0x01, 0x26, 0xa0, 0xfb, 0xff, 0xf6];

    #[track_caller]
    fn check(body: &[u8], expected: bool) {
        let found = document(&Report { body, content_type: None });
        assert_eq!(found.as_deref().ok(), expected.then_some(&DOCUMENT[..]), "{}", String::from_utf8_lossy(body));
    }

    #[test]
    fn every_known_form_is_read() {
        check(&DOCUMENT, true);
        for text in ["hEOhASag+//2", "hEOhASag-__2", "  hEOhA\r\nSag+//2\n", "8443a10126a0fbfff6", "0x8443A10126A0FBFFF6"] {
            check(text.as_bytes(), true);
            check(format!("\"{}\"", text.trim().replace("\r\n", "\\n")).as_bytes(), true);
        }
        check(br#"{"enclave": true, "document": "hEOhASag+//2"}"#, true);
        check(br#"{"attestation": "nitro", "document": "hEOhASag+//2"}"#, true);
        check(br#"{"attestation": {"x": 1}, "report": "8443a10126a0fbfff6"}"#, true);
    }

    #[test]
    fn everything_else_is_refused() {
        for body in [
            &b""[..],
            b"   ",
            b"<!doctype html><title>Not found</title>",
            b"hEOhASag+//2!",
            b"hEOhASag+/_2",
            b"aGVsbG8gd29ybGQ=",
            b"8443a10126a0fbfff",
            b"{}",
            b"{\"document\": 7}",
            b"{\"document\": \"hEOhASag+//2\"",
            b"{\"document\": \"hEOhASag+//2\", \"document\": \"\"}",
            b"{\"elsewhere\": \"hEOhASag+//2\"}",
            b"[\"hEOhASag+//2\"]",
            b"\xff\xfe",
        ] {
            check(body, false);
        }
    }

    #[test]
    fn the_cap_is_exact() {
        let mut body = DOCUMENT.to_vec();
        body.resize(MAX_BODY_BYTES, 0);
        assert!(document(&Report { body: &body, content_type: None }).is_ok());
        body.push(0);
        let refused = document(&Report { body: &body, content_type: None }).expect_err("one too many");
        assert_eq!(refused.code, codes::attestation::BODY_TOO_LARGE);
    }
}
