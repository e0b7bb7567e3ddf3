//! Genuine AWS Nitro documents of the corpus: raw, as `*.bin`.

use std::fs;

use toolcrib_core::attestation::{AWS_NITRO_ROOT_G1, Claim, NITRO, Policy, Report, Root, verify};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;

// req: TRUST-021
#[test]
fn genuine_documents_were_valid_when_they_were_made() {
    let Some(folder) = crate::corpus("attestation") else { return };
    let root = Root::from_fingerprint(AWS_NITRO_ROOT_G1).expect("a fingerprint");
    // Old documents: their certificates need only have been valid then.
    let policy = Policy { nitro_roots: vec![root], certificates_valid_now: false, ..Policy::default() };
    let claim = Claim { protocol: NITRO, max_age: Some(u64::MAX), ..Claim::default() };
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let body = fs::read(&path).expect("readable");
        let report = Report { body: &body, content_type: None };
        let attested = verify(&report, &claim, &policy, UnixTime::from_seconds(i64::MAX), None);
        // Those of debug enclaves are genuine, too, and refused for this alone.
        let only_debug = attested.findings().iter().all(|finding| finding.code == codes::attestation::DEBUG_MODE);
        assert!(attested.verified().is_some() || only_debug, "{}: {:?}", path.display(), attested.findings());
        seen += 1;
    }
    assert!(seen > 0, "no *.bin in the folder");
}
