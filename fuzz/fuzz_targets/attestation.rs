//! Attestation reports: any input gives a verdict with its reasons, and only what our key signed is verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_judge::attestation::{Attested, Claim, MAX_PAYLOAD_BYTES, NITRO, Policy, Report, Root, verify};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::Severity;

/// The root of the seeds, and their creation time. Its private key is known, but not to a fuzzer.
const ROOT: &[u8] = include_bytes!("../seeds/attestation/root.der");
const MADE: i64 = 1_777_658_400;

fuzz_target!(|data: &[u8]| {
    let _ = Root::from_der(data);
    let policy = Policy { nitro_roots: vec![Root::from_der(ROOT).expect("a root")], ..Policy::default() };
    judge(data, &policy);
    // The same bytes as a payload, so that mutations reach the fields without a valid envelope.
    if (1..=MAX_PAYLOAD_BYTES).contains(&data.len()) {
        let length = u16::try_from(data.len()).expect("checked").to_be_bytes();
        let document = [b"\x84\x44\xa1\x01\x38\x22\xa0\x59", &length[..], data, b"\x58\x60", &[1; 96]].concat();
        assert!(!matches!(judge(&document, &policy), Attested::Verified(_)), "nobody signed this");
    }
});

fn judge(body: &[u8], policy: &Policy) -> Attested {
    let claim = Claim { protocol: NITRO, transparency_log: std::str::from_utf8(body).ok(), ..Claim::default() };
    let report = Report { body, content_type: None };
    let attested = verify(&report, &claim, policy, UnixTime::from_seconds(MADE), None);
    let has_error = attested.findings().iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(has_error, matches!(attested, Attested::Refused(_)), "{attested:?}");
    for finding in attested.findings() {
        assert!(!finding.message.is_empty() && finding.span.is_none(), "{finding:?}");
    }
    if let Attested::Verified(verified) = &attested {
        assert_eq!(verified.user_data.as_deref(), Some("0x68656c6c6f"), "the seeds all say hello");
        assert_eq!(verified.measurements[0].value, format!("0x{}", "a5".repeat(48)));
    }
    let unpinned = verify(&report, &claim, &Policy::default(), UnixTime::from_seconds(MADE), None);
    assert!(!matches!(unpinned, Attested::Verified(_)));
    attested
}
