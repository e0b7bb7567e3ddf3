//! Genuine AWS Nitro documents of the corpus, and tampered copies of them.
//!
//! The documents and their certificates are old, so the tests verify them at the time of their creation.

#![expect(clippy::disallowed_methods, reason = "core itself reads no files; this test does")]

use std::fs;

use minicbor::Decoder;
use toolcrib_core::codes::Code;
use toolcrib_core::codes::attestation as code;

use super::forge::{Forge, byte_string, head, text};
use super::nitro::{array, bytes_or_null, next_entry};
use super::*;

/// The CBOR fields of a payload by name, and the bytes of signature and chain.
struct Parts {
    name: String,
    body: Vec<u8>,
    entries: Vec<(String, Vec<u8>)>,
    bundle: Vec<Vec<u8>>,
    signature: Vec<u8>,
    made: UnixTime,
    /// Whether it is from a production enclave: the registers of a debug enclave are zero, which is an error of its own.
    production: bool,
}

/// All documents of the corpus; without it `None` and a recorded skip.
fn documents() -> Option<Vec<Parts>> {
    let folder = toolcrib_testkit::corpus("attestation")?;
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    let documents: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "bin")).map(|path| parts(&path)).collect();
    assert!(!documents.is_empty(), "no *.bin in the folder");
    Some(documents)
}

fn parts(path: &std::path::Path) -> Parts {
    let body = fs::read(path).expect("readable");
    let mut envelope = Decoder::new(&body);
    if envelope.probe().tag().is_ok() {
        envelope.tag().expect("a tag");
    }
    assert_eq!(array(&mut envelope).ok(), Some(4));
    let _protected = envelope.bytes().expect("headers");
    assert_eq!(envelope.map().ok(), Some(Some(0)));
    let payload = envelope.bytes().expect("a payload");
    let signature = envelope.bytes().expect("a signature").to_vec();
    let mut reader = Decoder::new(payload);
    let mut count = reader.map().expect("a map");
    let (mut entries, mut bundle) = (Vec::new(), Vec::new());
    while next_entry(&mut reader, &mut count).expect("an entry") {
        let name = reader.str().expect("a name").to_owned();
        let from = reader.position();
        match name.as_str() {
            "module_id" | "digest" => drop(reader.str().expect("text")),
            "timestamp" => drop(reader.u64().expect("a number")),
            "pcrs" => {
                let mut registers = reader.map().expect("a map");
                while next_entry(&mut reader, &mut registers).expect("an entry") {
                    reader.u64().expect("an index");
                    reader.bytes().expect("a register");
                }
            }
            "cabundle" => {
                let count = array(&mut reader).expect("an array");
                bundle = (0..count).map(|_| reader.bytes().expect("a certificate").to_vec()).collect();
            }
            _ => drop(bytes_or_null(&mut reader).expect("bytes or null")),
        }
        entries.push((name, payload[from..reader.position()].to_vec()));
    }
    let document = nitro::Document::parse(&body).expect("a document");
    Parts {
        name: path.display().to_string(),
        made: document.time(),
        production: document.image().iter().any(|&byte| byte != 0),
        body: body.clone(),
        entries,
        bundle,
        signature,
    }
}

impl Parts {
    /// Serialises the document with these values and this signature.
    fn document(&self, entries: &[(String, Vec<u8>)], signature: &[u8]) -> Vec<u8> {
        let entries: Vec<_> = entries.iter().map(|(name, value)| [text(name), value.clone()].concat()).collect();
        let payload = [head(5, entries.len() as u64), entries.concat()].concat();
        [head(4, 4), byte_string(&[0xa1, 0x01, 0x38, 34]), vec![0xa0], byte_string(&payload), byte_string(signature)].concat()
    }

    /// The document with another value in one field and the original signature.
    fn with(&self, name: &str, value: Vec<u8>) -> Vec<u8> {
        self.document(&self.replaced(name, value), &self.signature)
    }

    fn replaced(&self, name: &str, value: Vec<u8>) -> Vec<(String, Vec<u8>)> {
        let mut entries = self.entries.clone();
        entries.iter_mut().find(|entry| entry.0 == name).expect("a field of this name").1 = value;
        entries
    }

    fn value(&self, name: &str) -> &[u8] {
        &self.entries.iter().find(|entry| entry.0 == name).expect("a field of this name").1
    }

    /// The error codes for `body` five seconds after this document was made, if it is rejected.
    fn refused(&self, body: &[u8]) -> Option<Vec<Code>> {
        let attested = judge(body, &aws(), UnixTime::from_seconds(self.made.seconds() + 5));
        let errors = attested.findings().iter().filter(|finding| finding.severity == Severity::Error);
        matches!(attested, Attested::Refused(_)).then(|| errors.map(|finding| finding.code).collect())
    }

    #[track_caller]
    fn check_refused(&self, body: &[u8], expected: &[Code]) {
        assert_eq!(self.refused(body).as_deref(), Some(expected), "{}", self.name);
    }
}

fn aws() -> Policy {
    Policy {
        nitro_roots: vec![Root::from_fingerprint(AWS_NITRO_ROOT_G1).expect("a fingerprint")],
        certificates_valid_now: false,
        ..Policy::default()
    }
}

fn judge(body: &[u8], policy: &Policy, now: UnixTime) -> Attested {
    let claim = Claim { protocol: NITRO, max_age: Some(u64::MAX), ..Claim::default() };
    verify(&Report { body, content_type: None }, &claim, policy, now, None)
}

/// The production documents. Those of debug enclaves are rejected without tampering.
fn production() -> Option<Vec<Parts>> {
    let documents: Vec<_> = documents()?.into_iter().filter(|document| document.production).collect();
    assert!(!documents.is_empty(), "all documents are of debug enclaves");
    Some(documents)
}

fn bundle_of(certificates: &[Vec<u8>]) -> Vec<u8> {
    let strings = certificates.iter().flat_map(|certificate| byte_string(certificate));
    head(4, certificates.len() as u64).into_iter().chain(strings).collect()
}

// req: TRUST-021
#[test]
fn genuine_documents_were_valid_when_they_were_made() {
    let Some(documents) = documents() else { return };
    for document in &documents {
        let attested = judge(&document.body, &aws(), UnixTime::from_seconds(i64::MAX));
        if !document.production {
            assert_eq!(document.refused(&document.body), Some(vec![code::DEBUG_MODE]), "{}", document.name);
            continue;
        }
        let verified = attested.verified().unwrap_or_else(|| panic!("{}: {:?}", document.name, attested.findings()));
        assert_eq!(verified.chain[0].sha256, aws().nitro_roots[0].fingerprint());
        assert_eq!(verified.chain.len(), document.bundle.len() + 1);
        // Parsing and serialising gives the same document, so each of the following changes is the only one.
        let again = document.document(&document.entries, &document.signature);
        assert!(judge(&again, &aws(), document.made).verified().is_some(), "{}", document.name);
    }
}

// req: TRUST-021
#[test]
fn genuine_documents_are_not_valid_today() {
    let Some(documents) = production() else { return };
    let today = UnixTime::from_seconds(1_790_000_000);
    for document in &documents {
        let policy = Policy { certificates_valid_now: true, ..aws() };
        let attested = judge(&document.body, &policy, today);
        assert!(attested.findings().iter().any(|it| it.code == code::CERTIFICATE_VALIDITY), "{:?}", attested.findings());
        let claim = Claim { protocol: NITRO, ..Claim::default() };
        let attested = verify(&Report { body: &document.body, content_type: None }, &claim, &aws(), today, None);
        assert!(attested.findings().iter().any(|it| it.code == code::STALE), "{:?}", attested.findings());
        assert!(attested.verified().is_none());
    }
}

// req: TRUST-021
#[test]
fn a_genuine_document_with_one_changed_field_is_refused() {
    let Some(documents) = production() else { return };
    for document in &documents {
        let made = u64::try_from(document.made.seconds()).expect("after 1970") * 1_000;
        for (name, value, expected) in [
            ("module_id", text("i-0123456789abcdef0-enc0123456789abcdef"), code::SIGNATURE),
            ("digest", text("SHA256"), code::DOCUMENT_FIELD),
            ("timestamp", head(0, made + 1), code::SIGNATURE),
            ("timestamp", head(0, made + 600_000), code::FUTURE),
            ("timestamp", head(0, 0), code::DOCUMENT_FIELD),
            ("public_key", byte_string(&[4; 97]), code::SIGNATURE),
            ("user_data", byte_string(b"hello"), code::SIGNATURE),
            ("nonce", byte_string(b"a nonce"), code::SIGNATURE),
            ("cabundle", head(4, 0), code::DOCUMENT_FIELD),
            ("certificate", byte_string(&[0x30, 0]), code::CERTIFICATE),
        ] {
            let codes = document.refused(&document.with(name, value));
            assert!(codes.as_ref().is_some_and(|codes| codes.contains(&expected)), "{name}: {codes:?}, not {expected:?}");
        }
        // One bit of every register: a byte for the map, then for each an index, two bytes for the length and 48 for the value.
        let registers = document.value("pcrs");
        for at in (0..registers.len()).filter(|at| at % 51 == 14) {
            let mut changed = registers.to_vec();
            changed[at] ^= 1;
            document.check_refused(&document.with("pcrs", changed), &[code::SIGNATURE]);
        }
        // A missing field, an unknown one, a duplicate one.
        for index in 0..document.entries.len() {
            let mut entries = document.entries.clone();
            let (name, _) = entries.remove(index);
            let required = !["public_key", "user_data", "nonce"].contains(&name.as_str());
            let expected = if required { code::DOCUMENT_FIELD } else { code::SIGNATURE };
            document.check_refused(&document.document(&entries, &document.signature), &[expected]);
            entries.push(("debug".to_owned(), vec![0xf6]));
            document.check_refused(&document.document(&entries, &document.signature), &[code::DOCUMENT_FIELD]);
            let twice = [document.entries.clone(), vec![document.entries[index].clone()]].concat();
            document.check_refused(&document.document(&twice, &document.signature), &[code::CBOR]);
        }
    }
}

// req: TRUST-021
#[test]
fn a_genuine_document_with_another_signature_is_refused() {
    let Some(documents) = production() else { return };
    for document in &documents {
        for at in [0, 47, 48, 95] {
            let mut signature = document.signature.clone();
            signature[at] ^= 1;
            document.check_refused(&document.document(&document.entries, &signature), &[code::SIGNATURE]);
        }
        document.check_refused(&document.document(&document.entries, &[0; 96]), &[code::COSE]);
        document.check_refused(&document.document(&document.entries, &document.signature[..95]), &[code::COSE]);
        for other in documents.iter().filter(|other| other.signature != document.signature) {
            document.check_refused(&document.document(&document.entries, &other.signature), &[code::SIGNATURE]);
        }
        // One byte more or less, and every byte of the envelope's head.
        let body = &document.body;
        document.check_refused(&body[..body.len() - 1], &[code::CBOR]);
        document.check_refused(&[&body[..], &[0]].concat(), &[code::CBOR]);
    }
}

// req: TRUST-021
#[test]
fn a_genuine_chain_in_another_order_or_incomplete_is_refused() {
    let Some(documents) = production() else { return };
    for document in &documents {
        let bundle = &document.bundle;
        let with = |certificates: &[Vec<u8>]| document.refused(&document.with("cabundle", bundle_of(certificates)));
        let has = |codes: &Option<Vec<Code>>, wanted: Code| codes.as_ref().is_some_and(|codes| codes.contains(&wanted));
        assert!(bundle.len() >= 3, "{} certificates", bundle.len());
        let mut reversed = bundle.clone();
        reversed.reverse();
        assert!(has(&with(&reversed), code::ROOT_UNKNOWN), "{:?}", with(&reversed));
        assert!(has(&with(&bundle[1..]), code::ROOT_UNKNOWN), "{:?}", with(&bundle[1..]));
        for first in 1..bundle.len() - 1 {
            let mut swapped = bundle.clone();
            swapped.swap(first, first + 1);
            assert!(has(&with(&swapped), code::CHAIN), "{first}: {:?}", with(&swapped));
        }
        for missing in 1..bundle.len() {
            let mut shorter = bundle.clone();
            shorter.remove(missing);
            assert!(has(&with(&shorter), code::CHAIN), "{missing}: {:?}", with(&shorter));
        }
        let longer = [bundle.clone(), vec![bundle[1].clone(); nitro::MAX_AUTHORITIES]].concat();
        assert_eq!(with(&longer), Some(vec![code::CHAIN_TOO_LONG]));
    }
}

// req: TRUST-021
#[test]
fn a_genuine_chain_lends_its_name_to_no_other_key() {
    let Some(documents) = production() else { return };
    let forge = Forge::default();
    let own = Root::from_der(&forge.root()).expect("a root");
    for document in &documents {
        // Genuine, but not what is pinned.
        let other_root = Policy { nitro_roots: vec![own], ..aws() };
        let attested = judge(&document.body, &other_root, document.made);
        let errors: Vec<_> = attested.findings().iter().filter(|it| it.severity == Severity::Error).map(|it| it.code).collect();
        assert_eq!(errors, [code::ROOT_UNKNOWN]);
        let nothing_pinned = judge(&document.body, &Policy { nitro_roots: Vec::new(), ..aws() }, document.made);
        assert!(matches!(nothing_pinned, Attested::Claimed(_)));
        // The genuine authorities above a test leaf, whose signature is valid.
        let mut entries = document.entries.clone();
        for (name, value) in &mut entries {
            if name == "certificate" {
                *value = byte_string(&forge.leaf.der());
            }
        }
        let payload: Vec<_> = entries.iter().map(|(name, value)| [text(name), value.clone()].concat()).collect();
        let codes = document.refused(&forge.sign(&forge.payload(&payload)));
        assert_eq!(codes.as_deref(), Some(&[code::CHAIN, code::CERTIFICATE_VALIDITY][..]));
        // The genuine leaf below test authorities.
        let own_bundle: Vec<_> = forge.chain.iter().map(super::forge::Card::der).collect();
        let attested = judge(&document.with("cabundle", bundle_of(&own_bundle)), &other_root, document.made);
        assert!(attested.findings().iter().any(|it| it.code == code::CHAIN), "{:?}", attested.findings());
        assert!(attested.verified().is_none());
    }
}
