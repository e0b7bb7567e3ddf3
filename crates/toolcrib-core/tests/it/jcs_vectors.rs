//! The canonical JSON vectors of this repository; vectors/jcs/README.md describes them.

use std::fs;

use toolcrib_core::canon::Canonical;
use toolcrib_core::json::{Limits, read};

// req: CANON-001, CANON-010, CANON-012
#[test]
fn every_vector_has_its_bytes_and_hash_or_its_reason() {
    let (mut accepted, mut rejected) = (0, 0);
    for entry in fs::read_dir(toolcrib_testkit::vectors("jcs")).expect("the repository has vectors") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let expected = |extension: &str| fs::read(path.with_extension(extension)).ok();
        let reading = read(&fs::read(&path).expect("readable"), Limits::default());
        let canonical = reading.document.as_ref().and_then(Canonical::of);
        if let Some(code) = expected("rejected") {
            let found = reading.findings.as_slice().first().map(|finding| format!("{}\n", finding.code));
            assert_eq!(found.as_deref().map(str::as_bytes), Some(&code[..]), "{path:?}");
            assert!(canonical.is_none(), "{path:?}");
            rejected += 1;
        } else {
            let canonical = canonical.unwrap_or_else(|| panic!("{path:?}: {:?}", reading.findings));
            assert_eq!(Some(canonical.as_bytes()), expected("canonical").as_deref(), "{path:?}");
            assert_eq!(Some(format!("{}\n", canonical.hash()).into_bytes()), expected("keccak256"), "{path:?}");
            accepted += 1;
        }
    }
    assert_eq!((accepted, rejected), (7, 14));
}
