//! Strict JSON: a parsed document has one canonical form, and three other implementations agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::canon::Canonical;
use toolcrib_core::codes::{Code, json};
use toolcrib_core::json::{Limits, read};
use toolcrib_fuzz::{ROOMY, findings};

/// Where we are stricter than `serde_json`, which accepts duplicate keys and a depth of 127.
const STRICTER: [Code; 3] = [json::DUPLICATE_KEY, json::TOO_DEEP, json::TOO_LARGE];

fuzz_target!(|data: &[u8]| {
    let reading = read(data, Limits::default());
    findings(data, reading.findings.as_slice());
    let theirs = serde_json::from_slice::<serde_json::Value>(data);
    if reading.findings.has_errors() {
        let first = reading.findings.as_slice()[0].code;
        assert!(theirs.is_err() || STRICTER.contains(&first), "{first} for what serde_json reads");
    }
    let Some(document) = reading.document else {
        assert!(reading.findings.has_errors(), "no document and no reason");
        return;
    };
    assert_eq!(document.source().as_bytes(), data, "the source is kept as it is");
    let Some(canonical) = Canonical::of(&document) else {
        assert!(reading.findings.has_errors(), "no canonical form and no reason");
        return;
    };
    let theirs = theirs.expect("serde_json is never stricter");
    let again = read(canonical.as_bytes(), ROOMY);
    assert!(again.findings.is_empty(), "{:?}", again.findings);
    assert_eq!(again.document.as_ref().and_then(Canonical::of).as_ref(), Some(&canonical), "canonical once and for all");
    assert_eq!(serde_json_canonicalizer::to_string(&theirs).ok().as_deref(), Some(canonical.as_str()));
    assert_eq!(serde_jcs::to_string(&theirs).ok().as_deref(), Some(canonical.as_str()));
});
