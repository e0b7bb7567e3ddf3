//! Manifests signed by other implementations.

use serde_json::Value;
use toolcrib_agent::content_hash::raw_sha256_cid;

use crate::fixture::*;

// req: AGT-015, AGT-016, AGT-018
#[test]
fn manifests_signed_by_other_implementations_are_verified() {
    let folder = toolcrib_testkit::repository().join("vectors/agent");
    // Computed with Python's hashlib and base64.
    let cids = [
        ("full.json", "bafkreiacjprry5ss7qan7v7i5ofarpb4bf444hv2llcrk6g5qv22p4et5m"),
        ("key-order.json", "bafkreie2trgallfbagyf6vaxbadu4ecgapxl2xi24eenankpf4q443cvfa"),
        ("minimal.json", "bafkreihl6idai4tzrpa3gmde6czimv4cpcftg4pvdf3ih7odbl5vx3kpjq"),
        ("nested-signature.json", "bafkreiazpcjioi44342hsf5o2if4p4ccvva6awaw76qtqkzrxgr2fe44c4"),
    ];
    for (file, cid) in cids {
        let bytes = std::fs::read(folder.join(file)).expect("a vector");
        let vector: Value = serde_json::from_slice(&bytes).expect("JSON");
        let text = |key: &str| vector[key].as_str().expect("text");
        let manifest = text("manifest");
        assert_eq!(raw_sha256_cid(manifest.as_bytes()), cid, "{file}");
        let report = judged(&evidence(manifest));
        assert_verified(&report);
        assert_eq!(report.content.expect("content").digest.to_string(), text("eip191_digest"), "{file}");
        assert_eq!(report.owner.expect("an owner").to_checksum(None), text("signer"), "{file}");
    }
}
