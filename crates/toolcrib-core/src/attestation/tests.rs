use super::forge::{Card, Forge, IMAGE, MADE, byte_string, head, key, text};
use super::*;
use crate::codes::Code;

const NOW: UnixTime = UnixTime::from_seconds(MADE + 5);

/// Genuine reports are not part of the repository. A folder of them (raw, `*.bin`), all ending at the vendor's root,
/// can be named to be verified at the time they were made.
#[test]
fn genuine_documents_verify_at_their_time() {
    let Some(folder) = std::env::var_os("TOOLCRIB_NITRO_REPORTS") else {
        eprintln!("SKIPPED: TOOLCRIB_NITRO_REPORTS is not set, so no genuine Nitro report was verified");
        return;
    };
    let root = Root::from_fingerprint(AWS_NITRO_ROOT_G1).expect("a fingerprint");
    let policy = Policy { nitro_roots: vec![root], ..Policy::default() };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let body = std::fs::read(&path).expect("readable");
        let made = nitro::Document::parse(&body).unwrap_or_else(|finding| panic!("{}: {finding:?}", path.display())).time();
        let report = Report { body: &body, content_type: None };
        let claim = Claim { protocol: NITRO, ..Claim::default() };
        let attested = verify(&report, &claim, &policy, made, None);
        eprintln!("{}: {attested:#?}", path.display());
        let debug = attested.findings().iter().all(|finding| finding.code == codes::attestation::DEBUG_MODE);
        assert!(attested.verified().is_some() || debug, "{}: {:?}", path.display(), attested.findings());
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn smoke() {
    let f = Forge::default();
    let policy = Policy { nitro_roots: vec![Root::from_der(&f.root()).unwrap()], ..Policy::default() };
    let attested = verify(&Report { body: &f.document(), content_type: None }, &Claim { protocol: NITRO, ..Claim::default() }, &policy, NOW, None);
    eprintln!("{attested:#?}");
    assert!(attested.verified().is_some());
}
