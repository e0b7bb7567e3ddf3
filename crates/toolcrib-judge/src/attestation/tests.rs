use std::sync::LazyLock;

use toolcrib_core::codes::Code;
use toolcrib_core::codes::attestation as code;
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::ToolManifest;
use x509_cert::certificate::Version;
use x509_cert::der::flagset::FlagSet;
use x509_cert::ext::pkix::KeyUsages;

use super::forge::{Card, Forge, IMAGE, MADE, byte_string, head, sign, text};
use super::nitro::MAX_AUTHORITIES;
use super::*;

const NOW: UnixTime = UnixTime::from_seconds(MADE + 5);

fn image() -> String {
    lower_hex(&IMAGE)
}

/// A policy that trusts the root of the default chain.
fn policy() -> Policy {
    static ROOT: LazyLock<Root> = LazyLock::new(|| Root::from_der(&Forge::default().root()).expect("a root"));
    Policy { nitro_roots: vec![*ROOT], ..Policy::default() }
}

fn judge_at(body: &[u8], now: UnixTime) -> Attested {
    let image = image();
    let claim = Claim { protocol: NITRO, enclave_hash: Some(&image), ..Claim::default() };
    verify(&Report { body, content_type: None }, &claim, &policy(), now, None)
}

fn judge(body: &[u8]) -> Attested {
    judge_at(body, NOW)
}

/// The codes of a report's findings; empty for a verified report without findings.
fn codes_of(attested: &Attested) -> Vec<Code> {
    attested.findings().iter().map(|finding| finding.code).collect()
}

#[track_caller]
fn check_refused(body: &[u8], expected: &[Code]) {
    let attested = judge(body);
    assert!(matches!(attested, Attested::Refused(_)), "{attested:?}");
    assert_eq!(codes_of(&attested), expected, "{attested:?}");
}

#[track_caller]
fn check_verified(body: &[u8]) -> Verified {
    match judge(body) {
        Attested::Verified(verified) => verified,
        other => panic!("{other:?}"),
    }
}

/// A default document after a change.
fn forged(change: impl FnOnce(&mut Forge)) -> Vec<u8> {
    let mut forge = Forge::default();
    change(&mut forge);
    forge.document()
}

/// A default document with other payload entries and a valid signature.
fn with_entries(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let forge = Forge::default();
    let mut entries = forge.entries();
    change(&mut entries);
    forge.sign(&forge.payload(&entries))
}

/// Replaces one entry of the payload.
fn with_field(name: &str, value: Vec<u8>) -> Vec<u8> {
    with_entries(|entries| {
        let entry = entries.iter_mut().find(|entry| entry.starts_with(&text(name))).expect("a field of this name");
        *entry = [text(name), value].concat();
    })
}

// req: TRUST-010, TRUST-021
#[test]
fn a_good_document_is_verified() {
    let verified = check_verified(&Forge::default().document());
    assert_eq!(verified.module, "i-0123456789abcdef0-enc0123456789abcdef");
    assert_eq!((verified.made.seconds(), verified.max_age), (MADE, 3_600));
    let names: Vec<_> = verified.measurements.iter().map(|measurement| measurement.name.as_str()).collect();
    assert_eq!(names, ["PCR0", "PCR1", "PCR2", "PCR31"]);
    assert_eq!(verified.measurements[0].value, image());
    assert!(verified.measurement_pinned && !verified.nonce_checked);
    assert_eq!((verified.user_data.as_deref(), verified.public_key), (Some("0x68656c6c6f"), None));
    let subjects: Vec<_> = verified.chain.iter().map(|signer| signer.subject.as_str()).collect();
    assert_eq!(
        subjects,
        [
            "CN=test.nitro-enclaves,OU=Test,O=Toolcrib,C=ZZ",
            "CN=region.test.nitro-enclaves",
            "CN=instance.test.nitro-enclaves",
            "CN=module.test.nitro-enclaves"
        ]
    );
    assert_eq!(verified.chain[0].sha256, policy().nitro_roots[0].fingerprint());
    assert!(verified.findings.is_empty());
}

#[test]
fn envelopes_and_maps_come_in_two_forms() {
    check_verified(&forged(|forge| forge.tagged = true));
    check_verified(&forged(|forge| forge.indefinite = true));
    // Fields that were not set may be null or absent.
    check_verified(&with_entries(|entries| entries.truncate(6)));
    check_verified(&with_entries(|entries| entries.reverse()));
    check_verified(lower_hex(&Forge::default().document()).as_bytes());
    check_verified(format!("{{\"document\": \"{}\"}}", lower_hex(&Forge::default().document())).as_bytes());
}

// req: TRUST-021
#[test]
fn the_chain_must_begin_at_a_pinned_root() {
    // The same names and extensions, but another key.
    let other = forged(|forge| {
        forge.chain[0] = Card { key: 9, signed_by: 9, ..forge.chain[0].clone() };
        forge.chain[1].signed_by = 9;
    });
    check_refused(&other, &[code::ROOT_UNKNOWN]);
    // The pinned root does not help if it signed nothing.
    let unrelated = forged(|forge| forge.chain[1].signed_by = 9);
    check_refused(&unrelated, &[code::CHAIN]);
    // Without its root, the chain starts at an intermediate.
    check_refused(&forged(|forge| drop(forge.chain.remove(0))), &[code::ROOT_UNKNOWN]);
    // The root must come first.
    check_refused(&forged(|forge| forge.chain.reverse()), &[code::ROOT_UNKNOWN, code::CERTIFICATE_CONSTRAINTS]);
}

// req: TRUST-021
#[test]
fn every_link_of_the_chain_holds() {
    check_refused(&forged(|forge| forge.chain[2].signed_by = 1), &[code::CHAIN]);
    check_refused(&forged(|forge| forge.chain[2].issuer = "CN=somebody else"), &[code::CHAIN]);
    check_refused(&forged(|forge| forge.leaf.signed_by = 2), &[code::CHAIN]);
    check_refused(&forged(|forge| forge.leaf.issuer = "CN=somebody else"), &[code::CHAIN]);
    check_refused(&forged(|forge| drop(forge.chain.remove(1))), &[code::CHAIN]);
    // A chain of the root only.
    check_verified(&forged(|forge| {
        forge.chain.truncate(1);
        forge.leaf = Card::leaf("CN=module", forge.chain[0].subject, 4, 1);
    }));
}

#[test]
fn certificates_are_used_for_what_they_allow() {
    let refused = |change: fn(&mut Forge)| check_refused(&forged(change), &[code::CERTIFICATE_CONSTRAINTS]);
    refused(|forge| forge.chain[1].basic = None);
    refused(|forge| forge.chain[1].basic = Some((false, None)));
    refused(|forge| forge.chain[1].usage = None);
    refused(|forge| forge.chain[1].usage = Some(KeyUsages::DigitalSignature.into()));
    refused(|forge| forge.chain[1].basic = Some((true, Some(0))));
    refused(|forge| forge.leaf.basic = Some((true, None)));
    refused(|forge| forge.leaf.usage = None);
    refused(|forge| forge.leaf.usage = Some(FlagSet::from(KeyUsages::KeyAgreement)));
    // Name constraints, critical.
    refused(|forge| forge.leaf.more = vec![("2.5.29.30", true)]);
    refused(|forge| forge.chain[1].more = vec![("2.5.29.30", true)]);
    check_verified(&forged(|forge| forge.leaf.more = vec![("2.5.29.14", false)]));
    check_verified(&forged(|forge| forge.leaf.basic = None));
    check_verified(&forged(|forge| forge.chain[1].basic = Some((true, Some(7)))));
}

#[test]
fn certificates_follow_the_profile() {
    let refused = |change: fn(&mut Forge)| check_refused(&forged(change), &[code::CERTIFICATE]);
    refused(|forge| forge.leaf.version = Version::V1);
    refused(|forge| forge.leaf.algorithm = "1.2.840.10045.4.3.2");
    refused(|forge| forge.chain[1].curve = "1.2.840.10045.3.1.7");
    refused(|forge| forge.leaf.more = vec![("2.5.29.15", true)]);
    refused(|forge| forge.leaf.more = vec![("2.5.29.14", false), ("2.5.29.14", false)]);
    for garbage in [vec![0], vec![0x30, 0x80], vec![0xff; 1_024], [Forge::default().leaf.der(), vec![0]].concat()] {
        check_refused(&with_field("certificate", byte_string(&garbage)), &[code::CERTIFICATE]);
    }
}

#[test]
fn certificates_are_valid_then_and_now() {
    let valid = |from, until| forged(|forge| forge.leaf.valid = (MADE + from, MADE + until));
    check_refused(&valid(-100, -1), &[code::CERTIFICATE_VALIDITY]);
    check_refused(&valid(1, 100), &[code::CERTIFICATE_VALIDITY]);
    check_verified(&valid(0, 5));
    check_refused(&valid(0, 4), &[code::CERTIFICATE_VALIDITY]);
    let expired_root = forged(|forge| forge.chain[1].valid.1 = MADE - 1);
    check_refused(&expired_root, &[code::CERTIFICATE_VALIDITY]);
    // Our clock may be slightly behind without making a new certificate invalid.
    let young = valid(0, 100);
    assert!(judge_at(&young, UnixTime::from_seconds(MADE - 30)).verified().is_some());
    // Without "now", the time of the document counts.
    let body = valid(0, 4);
    let lenient = Policy { certificates_valid_now: false, ..policy() };
    let claim = Claim { protocol: NITRO, ..Claim::default() };
    let report = Report { body: &body, content_type: None };
    assert!(verify(&report, &claim, &lenient, NOW, None).verified().is_some());
}

#[test]
fn the_signature_covers_the_payload_and_the_headers() {
    let document = Forge::default().document();
    check_refused(&forged(|forge| forge.signed_by = 3), &[code::SIGNATURE]);
    // One bit of the signature, and one of the user data.
    let mut altered = document.clone();
    *altered.last_mut().expect("not empty") ^= 1;
    check_refused(&altered, &[code::SIGNATURE]);
    let place = document.windows(5).position(|window| window == b"hello").expect("the user data");
    let mut altered = document.clone();
    altered[place] ^= 1;
    check_refused(&altered, &[code::SIGNATURE]);
    // A signature over the payload alone.
    let forge = Forge::default();
    let payload = forge.payload(&forge.entries());
    let signature = sign(4, &payload);
    let end = document.len() - 96;
    check_refused(&[&document[..end], &signature.to_bytes()].concat(), &[code::SIGNATURE]);
    // Zero is not a valid signature.
    check_refused(&[&document[..end], &[0; 96]].concat(), &[code::COSE]);
}

#[test]
fn no_single_bit_can_change() {
    let document = Forge::default().document();
    // Every 37th byte, so that each part is covered and the test stays short; a chain costs four signature checks.
    for place in (0..document.len()).step_by(37) {
        let mut altered = document.clone();
        altered[place] ^= 1 << (place % 8);
        let attested = judge(&altered);
        assert!(matches!(attested, Attested::Refused(_)), "bit of byte {place}: {attested:?}");
    }
}

#[test]
fn only_es384_is_accepted() {
    let with = |protected: &[u8]| forged(|forge| forge.protected = protected.to_vec());
    check_refused(&with(&[0xa1, 0x01, 0x26]), &[code::ALGORITHM]); // ES256
    check_refused(&with(&[0xa1, 0x01, 0x38, 35]), &[code::ALGORITHM]); // ES512
    check_refused(&with(&[0xa1, 0x01, 0x00]), &[code::ALGORITHM]);
    check_refused(&with(&[0xa1, 0x02, 0x38, 34]), &[code::COSE]);
    // Numbers beyond 64 bits with their sign.
    for first in [0x1b, 0x3b] {
        check_refused(&with(&[&[0xa1, 0x01, first, 0x80][..], &[0; 7]].concat()), &[code::CBOR]);
    }
    check_refused(&with(&[0xa0]), &[code::COSE]);
    check_refused(&with(&[]), &[code::CBOR]);
    check_refused(&with(&[0xa2, 0x01, 0x38, 34, 0x04, 0x40]), &[code::COSE]);
    check_refused(&with(&[0xa1, 0x01, 0x38, 34, 0x00]), &[code::CBOR]);
}

#[test]
fn envelopes_have_four_parts() {
    let document = Forge::default().document();
    check_refused(&[&[0x84][..], &[0x40; 1]].concat(), &[code::CBOR]);
    check_refused(&[&[0xd2, 0x83][..], &document[1..]].concat(), &[code::COSE]);
    check_refused(&[&document[..], &[0]].concat(), &[code::CBOR]);
    // Unprotected headers are not signed: {4: h''}.
    let place = 1 + 5;
    assert_eq!(document[place], 0xa0);
    check_refused(&[&document[..place], &[0xa1, 0x04, 0x40], &document[place + 1..]].concat(), &[code::COSE]);
    let forge = Forge::default();
    check_refused(&forge.sign(&[]), &[code::COSE]);
    let mut long = vec![0; MAX_PAYLOAD_BYTES];
    check_refused(&forge.sign(&long), &[code::CBOR]);
    long.push(0);
    check_refused(&forge.sign(&long), &[code::COSE]);
    // A signature of another length.
    let end = document.len() - 98;
    check_refused(&[&document[..end], &byte_string(&[1; 64])].concat(), &[code::COSE]);
}

#[test]
fn fields_have_their_bounds() {
    let bytes = |length: usize| byte_string(&vec![1; length]);
    for (name, good, bad) in [
        ("module_id", vec![text("x"), text(&"x".repeat(256))], vec![text(""), text(&"x".repeat(257))]),
        ("digest", vec![], vec![text("SHA256"), text("sha384"), text("")]),
        ("timestamp", vec![], vec![head(0, 0)]),
        ("public_key", vec![bytes(1), bytes(1_024), vec![0xf6]], vec![bytes(0), bytes(1_025)]),
        ("user_data", vec![bytes(0), bytes(1_024), vec![0xf6]], vec![bytes(1_025)]),
        ("nonce", vec![bytes(0), bytes(1_024), vec![0xf6]], vec![bytes(1_025)]),
        ("certificate", vec![], vec![bytes(0), bytes(1_025)]),
        ("cabundle", vec![], vec![head(4, 0), [head(4, 1), bytes(0)].concat(), [head(4, 1), bytes(1_025)].concat()]),
        (
            "pcrs",
            vec![[head(5, 1), head(0, 0), byte_string(&IMAGE)].concat()],
            vec![
                head(5, 0),
                [head(5, 1), head(0, 1), byte_string(&IMAGE)].concat(),
                [head(5, 1), head(0, 0), bytes(47)].concat(),
                [head(5, 2), head(0, 0), byte_string(&IMAGE), head(0, 32), byte_string(&IMAGE)].concat(),
            ],
        ),
    ] {
        for value in good {
            check_verified(&with_field(name, value));
        }
        for value in bad {
            check_refused(&with_field(name, value), &[code::DOCUMENT_FIELD]);
        }
        // Another type: true, a float, an integer, text, bytes, an array, a map, null.
        for value in [vec![0xf5], vec![0xf9, 0, 0], head(0, 7), text("x"), bytes(3), vec![0x80], vec![0xa0], vec![0xf6]] {
            let fits = match name {
                "module_id" => value == text("x"),
                "public_key" | "user_data" | "nonce" => value == bytes(3) || value == [0xf6],
                _ => false,
            };
            assert_eq!(judge(&with_field(name, value.clone())).verified().is_some(), fits, "{name} {value:?}");
        }
    }
    for index in 0..6 {
        check_refused(&with_entries(|entries| drop(entries.remove(index))), &[code::DOCUMENT_FIELD]);
    }
    check_refused(&with_entries(|entries| entries.push([text("extra"), head(0, 1)].concat())), &[code::DOCUMENT_FIELD]);
    check_refused(&with_entries(Vec::clear), &[code::DOCUMENT_FIELD]);
}

#[test]
fn a_long_bundle_is_refused_before_any_signature_is_checked() {
    let bundle = |count: usize| {
        let card = byte_string(&Forge::default().root());
        [head(4, count as u64), card.repeat(count)].concat()
    };
    let at_most = judge(&with_field("cabundle", bundle(MAX_AUTHORITIES)));
    assert!(!codes_of(&at_most).contains(&code::CHAIN_TOO_LONG));
    check_refused(&with_field("cabundle", bundle(MAX_AUTHORITIES + 1)), &[code::CHAIN_TOO_LONG]);
    check_refused(&with_field("cabundle", head(4, u64::MAX)), &[code::CHAIN_TOO_LONG]);
}

#[test]
fn keys_occur_once_and_lengths_are_definite() {
    for index in 0..9 {
        check_refused(&with_entries(|entries| entries.push(entries[index].clone())), &[code::CBOR]);
    }
    let twice = [head(5, 2), head(0, 0), byte_string(&IMAGE), head(0, 0), byte_string(&IMAGE)].concat();
    check_refused(&with_field("pcrs", twice), &[code::CBOR]);
    // The same number in another encoding is the same key.
    let twice = [head(5, 2), head(0, 0), byte_string(&IMAGE), vec![0x18, 0], byte_string(&IMAGE)].concat();
    check_refused(&with_field("pcrs", twice), &[code::CBOR]);
    check_refused(&with_field("user_data", vec![0x5f, 0x41, 1, 0xff]), &[code::CBOR]);
    // A length beyond any memory, text that is not UTF-8, floats and the reserved forms.
    check_refused(&with_field("user_data", [vec![0x5b], vec![0xff; 8], vec![0]].concat()), &[code::CBOR]);
    check_refused(&with_field("module_id", vec![0x61, 0xff]), &[code::CBOR]);
    for odd in [vec![0xf9, 0, 0], vec![0x1c], vec![0x1d], vec![0x1e], vec![0x1f], vec![0x20], vec![0xf6]] {
        check_refused(&with_field("timestamp", odd), &[code::CBOR]);
    }
    // A break instead of a value, and a missing one at the end of the registers.
    let registers = [vec![0xbf], head(0, 0), vec![0xff]].concat();
    check_refused(&with_field("pcrs", registers), &[code::CBOR]);
    check_refused(&with_field("module_id", vec![0x7f, 0x61, b'x', 0xff]), &[code::CBOR]);
    let bundle = [vec![0x9f], byte_string(&Forge::default().root()), vec![0xff]].concat();
    check_refused(&with_field("cabundle", bundle), &[code::CBOR]);
    check_refused(&with_entries(|entries| entries.push(vec![0xff])), &[code::CBOR]);
    // A map that announces more entries than it has.
    let forge = Forge::default();
    check_refused(&forge.sign(&[head(5, u64::MAX), forge.entries().concat()].concat()), &[code::CBOR]);
    check_refused(&forge.sign(&[vec![0xbf], forge.entries().concat()].concat()), &[code::CBOR]);
    check_refused(&forge.sign(&[forge.payload(&forge.entries()), vec![0]].concat()), &[code::CBOR]);
}

#[test]
fn documents_cut_off_anywhere_are_refused() {
    for document in [Forge::default().document(), forged(|forge| (forge.tagged, forge.indefinite) = (true, true))] {
        for end in 0..document.len() {
            let attested = judge(&document[..end]);
            assert!(matches!(attested, Attested::Refused(_)), "{end}: {attested:?}");
        }
    }
    // A truncated payload inside a complete envelope.
    let forge = Forge::default();
    let payload = forge.payload(&forge.entries());
    for end in (1..payload.len()).step_by(53) {
        check_refused(&forge.sign(&payload[..end]), &[code::CBOR]);
    }
}

// req: TRUST-018
#[test]
fn age_has_exact_limits() {
    let document = forged(|forge| forge.leaf.valid.1 = MADE + 80_000);
    let image = image();
    let at = |seconds: i64, max_age, ceiling| {
        let claim = Claim { protocol: NITRO, enclave_hash: Some(&image), max_age, ..Claim::default() };
        let policy = Policy { max_age_ceiling: ceiling, ..policy() };
        let report = Report { body: &document, content_type: None };
        codes_of(&verify(&report, &claim, &policy, UnixTime::from_seconds(MADE + seconds), None))
    };
    for (seconds, max_age, ceiling, expected) in [
        (3_600, None, None, None),
        (3_601, None, None, Some(code::STALE)),
        (1_800, Some(1_800), None, None),
        (1_801, Some(1_800), None, Some(code::STALE)),
        (7_200, Some(7_200), None, None),
        (7_201, Some(7_200), None, Some(code::STALE)),
        (601, Some(7_200), Some(600), Some(code::STALE)),
        (600, Some(7_200), Some(600), None),
        (301, Some(300), Some(600), Some(code::STALE)),
        (0, Some(0), None, None),
        (1, Some(0), None, Some(code::STALE)),
        (70_000, Some(u64::MAX), None, None),
        (-60, None, None, None),
        (-61, None, None, Some(code::FUTURE)),
        (-61, Some(u64::MAX), None, Some(code::FUTURE)),
    ] {
        assert_eq!(at(seconds, max_age, ceiling), Vec::from_iter(expected), "{seconds} {max_age:?} {ceiling:?}");
    }
}

#[test]
fn times_out_of_every_range_are_refused() {
    for made_ms in [1, 999, u64::MAX] {
        let document = forged(|forge| forge.made_ms = made_ms);
        for now in [i64::MIN, -1, 0, MADE, i64::MAX] {
            assert!(judge_at(&document, UnixTime::from_seconds(now)).verified().is_none());
        }
    }
}

// req: TRUST-017
#[test]
fn the_measurement_is_register_zero() {
    let document = Forge::default().document();
    let with = |enclave_hash: &str| {
        let claim = Claim { protocol: NITRO, enclave_hash: Some(enclave_hash), ..Claim::default() };
        codes_of(&verify(&Report { body: &document, content_type: None }, &claim, &policy(), NOW, None))
    };
    assert_eq!(with(&image()), []);
    let other = lower_hex(&[1; 48]);
    for wrong in [&other, &image()[..66], &image().to_uppercase(), &image()[2..], "0x", "", "0xzz", &format!("{}00", image())] {
        assert_eq!(with(wrong), [code::MEASUREMENT], "{wrong}");
    }
    let debug = forged(|forge| forge.registers = vec![(0, vec![0; 48]), (1, vec![0; 48])]);
    check_refused(&debug, &[code::DEBUG_MODE]);
}

#[test]
fn a_nonce_that_was_sent_must_come_back() {
    let judge = |document: &[u8], nonce: Option<&[u8]>| {
        let claim = Claim { protocol: NITRO, ..Claim::default() };
        verify(&Report { body: document, content_type: None }, &claim, &policy(), NOW, nonce)
    };
    let with = forged(|forge| forge.nonce = Some(vec![7; 32]));
    let without = Forge::default().document();
    assert!(judge(&with, Some(&[7; 32])).verified().is_some_and(|verified| verified.nonce_checked));
    assert!(judge(&with, None).verified().is_some_and(|verified| !verified.nonce_checked));
    assert!(judge(&without, None).verified().is_some());
    for (document, nonce) in [(&with, &[8; 32][..]), (&with, &[7; 31]), (&with, &[]), (&without, &[7; 32]), (&without, &[])] {
        assert_eq!(codes_of(&judge(document, Some(nonce)))[0], code::NONCE);
        assert!(judge(document, Some(nonce)).verified().is_none());
    }
}

// req: TRUST-021, TRUST-024
#[test]
fn without_a_pinned_root_nothing_is_verified() {
    let document = Forge::default().document();
    let image = image();
    let claim = Claim { protocol: NITRO, enclave_hash: Some(&image), ..Claim::default() };
    let report = Report { body: &document, content_type: None };
    let attested = verify(&report, &claim, &Policy::default(), NOW, None);
    assert!(matches!(attested, Attested::Claimed(_)), "{attested:?}");
    assert_eq!(codes_of(&attested), [code::NO_PINNED_ROOT]);
    // Definite errors are rejected all the same.
    let late = verify(&report, &claim, &Policy::default(), UnixTime::from_seconds(MADE + 3_601), None);
    assert!(matches!(late, Attested::Refused(_)), "{late:?}");
}

// req: TRUST-010, TRUST-023, TRUST-024
#[test]
fn other_formats_stay_unverified_claims() {
    let document = Forge::default().document();
    for protocol in ["dcap-v3", "sev-snp", "tdx", "Nitro", "nitro ", "", "io.example.enclave"] {
        let claim = Claim { protocol, transparency_log: Some("https://log.example.org/1"), ..Claim::default() };
        let attested = verify(&Report { body: &document, content_type: None }, &claim, &policy(), NOW, None);
        let Attested::Claimed(claimed) = &attested else { panic!("{attested:?}") };
        assert_eq!(claimed.why, "format not verified");
        assert_eq!(codes_of(&attested), [code::UNVERIFIED_CLAIM, code::LOG_NOT_CHECKED], "{protocol}");
    }
}

// req: TRUST-024
#[test]
fn reports_keep_verified_and_claimed_apart() {
    let json = |attested: &Attested| serde_json::to_value(attested).expect("serialises");
    let verified = json(&judge(&Forge::default().document()));
    assert_eq!(verified["status"], "verified");
    assert_eq!(verified["made"], MADE);
    assert_eq!(verified["measurements"][0]["value"], image());
    let refused = json(&judge(b"nothing"));
    assert_eq!((&refused["status"], &refused["findings"][0]["code"]), (&"refused".into(), &"attestation.body_form".into()));
    let claimed = verify(&Report { body: b"", content_type: None }, &Claim::default(), &policy(), NOW, None);
    assert_eq!(json(&claimed)["status"], "claimed");
    for attested in [judge(&Forge::default().document()), judge(b""), claimed] {
        assert_eq!(json(&attested)["status"], attested.as_str());
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let document = forged(|forge| {
        forge.registers[0].1 = vec![9; 48];
        forge.leaf.signed_by = 9;
        forge.leaf.valid.1 = MADE + 1;
        forge.signed_by = 9;
    });
    let attested = judge_at(&document, UnixTime::from_seconds(MADE + 4_000));
    assert_eq!(
        codes_of(&attested),
        [code::STALE, code::MEASUREMENT, code::CHAIN, code::CERTIFICATE_VALIDITY, code::SIGNATURE],
        "{attested:?}"
    );
}

#[test]
fn roots_are_pinned_in_three_ways() {
    let der = Forge::default().root();
    let root = Root::from_der(&der).expect("a root");
    let pem = x509_cert::der::pem::encode_string("CERTIFICATE", x509_cert::der::pem::LineEnding::LF, &der).expect("encodes");
    assert_eq!(Root::from_pem(&pem), Ok(root));
    assert_eq!(Root::from_setting(&format!("\n{pem}")), Ok(root));
    assert_eq!(Root::from_setting(&root.fingerprint()), Ok(root));
    let aws = Root::from_setting(AWS_NITRO_ROOT_G1).expect("a fingerprint");
    assert_eq!(aws.fingerprint(), "0x641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b");
    assert_eq!(Root::from_fingerprint(&aws.fingerprint()[2..]), Ok(aws));
    for wrong in
        ["", "0x", "64:1A", &"g".repeat(64), &"a".repeat(63), &"a".repeat(66), &AWS_NITRO_ROOT_G1.replacen(':', "", 1), "é"]
    {
        assert_eq!(Root::from_setting(wrong), Err(RootFault::NotAFingerprint), "{wrong}");
    }
    assert_eq!(Root::from_setting("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"), Err(RootFault::NotACertificate));
    assert_eq!(Root::from_pem(&pem.replace("CERTIFICATE", "PUBLIC KEY")), Err(RootFault::NotACertificate));
    assert_eq!(Root::from_der(&Forge::default().leaf.der()), Err(RootFault::NotAnAuthority));
    assert_eq!(Root::from_der(&der[1..]), Err(RootFault::NotACertificate));
}

fn manifest(verifiability: &str) -> ToolManifest {
    let source = format!(
        r#"{{"type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1", "name": "tides", "description": "Tides.",
        "endpoint": "https://tools.example.com/tides", "inputs": {{}}, "outputs": {{}},
        "creatorAddress": "0xabcdefabcdef1234567890abcdefabcdef123456", "verifiability": {verifiability}}}"#
    );
    let checked = ToolManifest::parse(source.as_bytes(), Mode::Consumer);
    checked.into_result().unwrap_or_else(|findings| panic!("{findings:?}")).into_parts().0
}

// req: TRUST-004, TRUST-008, TRUST-010, TRUST-014, TRUST-023
#[test]
fn tiers_rest_on_verified_reports() {
    let image = image();
    let attestation = format!(
        r#""attestation": {{"type": "nitro", "endpoint": "https://tools.example.com/report", "enclaveHash": "{image}"}}"#
    );
    let build = r#""reproducibleBuild": {"sourceCodeURI": "https://example.com/source"}"#;
    let unpinned = r#""attestation": {"type": "nitro", "endpoint": "https://tools.example.com/report"}"#;
    let silent = format!(r#""attestation": {{"type": "nitro", "enclaveHash": "{image}"}}"#);
    use Execution::{E2ee, Standard, Tee};
    use Tier::{HardwareAttested, SelfAttested, Verifiable};
    for (tier, execution, blocks, expected) in [
        ("verifiable", "tee", format!("{attestation}, {build}"), (Verifiable, Tee)),
        ("verifiable", "e2ee", format!("{attestation}, {build}"), (Verifiable, E2ee)),
        ("verifiable", "tee", attestation.clone(), (HardwareAttested, Tee)),
        ("verifiable", "tee", format!("{unpinned}, {build}"), (HardwareAttested, Tee)),
        ("hardware-attested", "tee", format!("{attestation}, {build}"), (HardwareAttested, Tee)),
        ("hardware-attested", "tee", unpinned.to_owned(), (HardwareAttested, Tee)),
        ("hardware-attested", "tee", silent, (SelfAttested, Tee)),
        ("self-attested", "tee", attestation.clone(), (SelfAttested, Tee)),
        ("hardware-attested", "standard", attestation.clone(), (SelfAttested, Standard)),
        ("hardware-attested", "io.phala.tee-sidevm", attestation, (SelfAttested, Standard)),
    ] {
        let manifest = manifest(&format!(r#"{{"tier": "{tier}", "execution": "{execution}", {blocks}}}"#));
        let claims = manifest.verifiability().expect("a block");
        let claim = Claim::of(claims.attestation().expect("a block"), "https://tools.example.com/tides");
        let judge = |body: &[u8], policy: &Policy| verify(&Report { body, content_type: None }, &claim, policy, NOW, None);
        let document = Forge::default().document();
        let verified = judge(&document, &policy());
        assert!(verified.verified().is_some(), "{verified:?}");
        let effective = effective_tier(claims, Some(&verified));
        assert_eq!((effective.tier, effective.execution), expected, "{tier} {execution} {blocks}");
        assert!(effective.tier <= effective.claimed && effective.claimed <= effective.declared);
        // Without a verified report, the claim has no effect.
        for other in [None, Some(judge(&document, &Policy::default())), Some(judge(b"", &policy()))] {
            let effective = effective_tier(claims, other.as_ref());
            assert_eq!((effective.tier, effective.execution), (SelfAttested, Standard));
        }
    }
}
