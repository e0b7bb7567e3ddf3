//! Every cause is created with other JSON serialisers, and found; after a small alteration it is not.

use std::collections::BTreeSet;
use std::sync::Mutex;

use alloy_primitives::{Address, B256, hex, keccak256};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use sha3::Sha3_256;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::tool::TYPE_V1;
use unicode_normalization::UnicodeNormalization;

use super::*;

const CREATOR: &str = "0xabcdefabcdef1234567890abcdefabcdef123456";
const USDC: &str = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const PLACEHOLDER: &str = "https://eips.ethereum.org/EIPS/eip-XXXX#tool-manifest-v1";

/// A manifest that readers accept, with something for every cause: accented letters, extensions, addresses, and unsorted members.
fn manifest() -> Json {
    json!({
        "type": TYPE_V1,
        "name": "marée",
        "description": "High and low water for a harbour — in mètres.",
        "endpoint": "https://tools.example.com/tides",
        "version": "1.0.0",
        "inputs": { "type": "object", "properties": { "port": { "type": "string" } } },
        "outputs": { "type": "object" },
        "creatorAddress": CREATOR,
        "com.example.colour": "blue",
        "pricing": [{
            "amount": "10000",
            "asset": format!("eip155:8453/erc20:{USDC}"),
            "recipient": format!("eip155:8453:{CREATOR}"),
            "protocol": "x402",
            "com.example.note": "once",
        }],
        "access": { "logic": "OR", "requirements": [{
            "kind": "0xbdf8c428", "data": format!("0x{}{}", "0".repeat(24), &USDC[2..]), "label": "hold one",
        }] },
        "maxAge": 300,
        "featuredImage": "https://tools.example.com/wide.png",
    })
}

fn pretty(value: &Json) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("a value")
}

fn jcs(value: &Json) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("a value")
}

fn hash(value: &Json) -> B256 {
    keccak256(jcs(value))
}

/// The manifest with one change.
fn with(change: impl FnOnce(&mut Json)) -> Json {
    let mut value = manifest();
    change(&mut value);
    value
}

fn without(mut value: Json, keys: &[&str]) -> Json {
    for key in keys {
        value.as_object_mut().expect("an object").shift_remove(*key);
    }
    value
}

fn checksummed(address: &str) -> String {
    address.parse::<Address>().expect("an address").to_checksum(None)
}

/// Expects these mistakes for served bytes and a hash, and none for another hash.
#[track_caller]
fn check(served: &[u8], committed: B256, code: &str, slips: &[HashMistake]) -> Explanation {
    let found = explain(served, committed, &[]);
    assert_eq!(found.code().map(Code::id), Some(code), "{:?}", found.cause);
    assert_eq!(found.cause, Some(Cause::Recipe { label: None, slips: slips.to_vec() }));
    assert!(!found.exhausted && found.tried <= MAX_HASHES);
    assert!(!found.matches());

    check_nothing(served);
    found
}

/// Expects that an arbitrary hash is not explained. Once for each file: the recipes do not depend on the hash.
#[track_caller]
fn check_nothing(served: &[u8]) {
    static DONE: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    if !DONE.lock().expect("no panic inside").insert(served.to_vec()) {
        return;
    }
    let found = explain(served, keccak256("nobody made this"), &[]);
    assert_eq!(found.cause, None);
    assert_eq!(found.code(), Some(codes::explain::UNEXPLAINED));
    assert!(!found.exhausted && found.tried > 40, "{}", found.tried);
}

#[track_caller]
fn check_update(found: &Explanation, value: &Json) {
    assert_eq!(found.repair, Repair::UpdateOnchain { correct_hash: hash(value), lint_first: false });
}

#[test]
fn the_manifest_of_these_tests_is_one_that_readers_accept() {
    let checked = ToolManifest::parse(&pretty(&manifest()), Mode::Consumer);
    assert!(checked.conformant().is_some(), "{:?}", checked.findings);
    let found = explain(&pretty(&manifest()), hash(&manifest()), &[]);
    assert!(found.matches() && found.cause.is_none() && found.code().is_none());
    assert_eq!((found.repair, found.otherwise), (Repair::Nothing, None));
    assert_eq!(found.tried, 1);
}

#[test]
fn bytes_that_were_hashed_as_they_are() {
    let value = manifest();
    let served = pretty(&value);
    check_update(&check(&served, keccak256(&served), "hash.raw_bytes", &[HashMistake::RawBytes]), &value);

    let text = String::from_utf8(served).unwrap();
    let dos = text.replace('\n', "\r\n");
    for (served, hashed) in [
        (text.clone(), format!("{text}\n")),
        (format!("{text}\n"), text.clone()),
        (format!("{text}\n\n"), format!("{text}\n")),
        (text.clone(), dos.clone()),
        (text.clone(), format!("{dos}\r\n")),
        (dos.clone(), text.clone()),
        (format!("{dos}\r\n"), format!("{text}\n")),
    ] {
        // For some of these JSON.stringify gives the same; the raw bytes take precedence.
        check(served.as_bytes(), keccak256(&hashed), "hash.line_ends", &[HashMistake::LineEnds]);
    }
    let marked = format!("\u{feff}{text}");
    check(text.as_bytes(), keccak256(&marked), "hash.byte_order_mark", &[HashMistake::Mark]);
    check(text.as_bytes(), keccak256(format!("{marked}\n")), "hash.line_ends", &[HashMistake::LineEnds, HashMistake::Mark]);
}

#[test]
fn a_mark_that_is_served_and_was_dropped() {
    let value = manifest();
    let served = [b"\xEF\xBB\xBF", pretty(&value).as_slice()].concat();
    let found = check(&served, hash(&value), "hash.byte_order_mark", &[HashMistake::MarkDropped]);
    assert_eq!(found.served_hash, None, "readers refuse it");
    assert_eq!(found.repair, Repair::MendServed);
    check(&served, keccak256(&served), "hash.raw_bytes", &[HashMistake::RawBytes]);
    check(&served, keccak256(pretty(&value)), "hash.byte_order_mark", &[HashMistake::Mark]);
}

#[test]
fn text_as_programs_print_it() {
    let value = manifest();
    let served = jcs(&value);
    let source = serde_json::to_vec(&value).unwrap();
    let newline = |text: &[u8]| [text, b"\n"].concat();
    let indented = |text: &[u8], indent: &str| {
        let parsed: Json = serde_json::from_slice(text).unwrap();
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
        serde::Serialize::serialize(&parsed, &mut serde_json::Serializer::with_formatter(&mut out, formatter)).unwrap();
        out
    };
    check(&pretty(&value), keccak256(newline(&served)), "hash.final_newline", &[HashMistake::FinalNewline]);
    check(&pretty(&value), keccak256(&source), "hash.minified", &[HashMistake::Minified]);
    check(&pretty(&value), keccak256(newline(&source)), "hash.minified", &[HashMistake::Minified, HashMistake::FinalNewline]);
    for indent in ["  ", "    ", "\t"] {
        let slip = HashMistake::Indented(indent);
        let text = indented(&source, indent);
        check(&source, keccak256(&text), "hash.pretty_printed", &[slip]);
        check(&source, keccak256(newline(&text)), "hash.pretty_printed", &[slip, HashMistake::FinalNewline]);
        // Sorted first.
        check(&source, keccak256(indented(&served, indent)), "hash.pretty_printed", &[slip]);
    }
}

// The output of Node for `JSON.stringify(o, Object.keys(o).sort())`, and for sorting the outer members by hand.
#[test]
fn text_that_was_sorted_by_hand() {
    let served = br#"{"name":"a","inputs":{"type":"object","name":1},"endpoint":"x"}"#;
    let outer = r#"{"endpoint":"x","inputs":{"type":"object","name":1},"name":"a"}"#;
    check(served, keccak256(outer), "hash.root_sorted", &[HashMistake::RootSorted]);
    let names = r#"{"endpoint":"x","inputs":{"name":1},"name":"a"}"#;
    check(served, keccak256(names), "hash.root_names", &[HashMistake::RootNames]);
}

// The output of Python 3 for `{"b": "é", "a": [1, 2.0, 1e16], "endpoint": "x"}`.
#[test]
fn text_as_python_prints_it() {
    let served = "{\"b\":\"é\",\"a\":[1,2.0,1e16],\"endpoint\":\"x\"}".as_bytes();
    for (text, sorted, ascii) in [
        (r#"{"b": "\u00e9", "a": [1, 2.0, 1e+16], "endpoint": "x"}"#, false, true),
        (r#"{"a": [1, 2.0, 1e+16], "b": "\u00e9", "endpoint": "x"}"#, true, true),
        (r#"{"a":[1,2.0,1e+16],"b":"\u00e9","endpoint":"x"}"#, true, true),
        (r#"{"b": "é", "a": [1, 2.0, 1e+16], "endpoint": "x"}"#, false, false),
        (r#"{"a": [1, 2.0, 1e+16], "b": "é", "endpoint": "x"}"#, true, false),
        ("{\n  \"a\": [\n    1,\n    2.0,\n    1e+16\n  ],\n  \"b\": \"\\u00e9\",\n  \"endpoint\": \"x\"\n}", true, true),
    ] {
        check(served, keccak256(text), "hash.python", &[HashMistake::Python { sorted, ascii }]);
        let slips = [HashMistake::Python { sorted, ascii }, HashMistake::FinalNewline];
        check(served, keccak256(format!("{text}\n")), "hash.python", &slips);
    }
    // Sorted, without spaces, without escapes: the canonical form except for its numbers.
    check(served, keccak256("{\"a\":[1,2.0,1e+16],\"b\":\"é\",\"endpoint\":\"x\"}"), "hash.numbers", &[HashMistake::Numbers]);
    check(served, keccak256("{\"a\":[1,2.0,1e16],\"b\":\"é\",\"endpoint\":\"x\"}"), "hash.numbers", &[HashMistake::Numbers]);
}

#[test]
fn fields_that_were_stripped() {
    let value = manifest();
    let served = pretty(&value);
    let top = without(value.clone(), &["com.example.colour"]);
    let found = check(&served, hash(&top), "hash.fields_stripped", &[HashMistake::FieldsStripped { nested: false }]);
    check_update(&found, &value);
    let mut nested = top.clone();
    nested["pricing"][0].as_object_mut().unwrap().shift_remove("com.example.note");
    check(&served, hash(&nested), "hash.fields_stripped", &[HashMistake::FieldsStripped { nested: true }]);
    for older in [&["featuredImage"][..], &["featuredImage", "maxAge"]] {
        let older = without(top.clone(), older);
        check(&served, hash(&older), "hash.fields_stripped", &[HashMistake::FieldsStripped { nested: false }]);
    }
}

#[test]
fn types_that_were_added_replaced_or_removed() {
    let value = manifest();
    let bare = without(value.clone(), &["type"]);
    let placeholder = with(|value| value["type"] = PLACEHOLDER.into());

    // The served file lacks what was committed: fixing it is enough.
    let found = check(&pretty(&bare), hash(&value), "hash.type_injected", &[HashMistake::TypeInjected]);
    assert_eq!(found.repair, Repair::MendServed);
    assert_eq!(found.otherwise, Some(Repair::UpdateOnchain { correct_hash: hash(&bare), lint_first: true }));
    let found = check(&pretty(&placeholder), hash(&value), "hash.type_placeholder", &[HashMistake::TypeReplaced(TYPE_V1)]);
    assert_eq!(found.repair, Repair::MendServed);

    // The served file is correct, the commitment is not.
    let found = check(&pretty(&value), hash(&placeholder), "hash.type_placeholder", &[HashMistake::TypeReplaced(PLACEHOLDER)]);
    check_update(&found, &value);
    check_update(&check(&pretty(&value), hash(&bare), "hash.type_removed", &[HashMistake::TypeRemoved]), &value);
    check(&pretty(&bare), hash(&placeholder), "hash.type_placeholder", &[HashMistake::TypeReplaced(PLACEHOLDER)]);
    for kind in search::KNOWN_TYPES.iter().skip(1) {
        let other = with(|value| value["type"] = (*kind).into());
        check(&pretty(&value), hash(&other), "hash.type_placeholder", &[HashMistake::TypeReplaced(kind)]);
    }
}

#[test]
fn addresses_in_another_spelling() {
    use HexSites::{Access, All, Creator, Price, Pricing};
    use HexSpelling::{Checksummed, Lower, Upper};

    let creator = |value: &mut Json| value["creatorAddress"] = checksummed(CREATOR).into();
    let asset = |value: &mut Json| value["pricing"][0]["asset"] = format!("eip155:8453/erc20:{}", checksummed(USDC)).into();
    let recipient = |value: &mut Json| value["pricing"][0]["recipient"] = format!("eip155:8453:{}", checksummed(CREATOR)).into();
    let value = manifest();
    let served = pretty(&value);

    let only_creator = with(creator);
    let only_asset = with(asset);
    let pricing = with(|value| [asset, recipient].iter().for_each(|change| change(value)));
    let all = with(|value| {
        creator(value);
        asset(value);
        recipient(value);
    });
    for (other, sites) in [(&only_creator, Creator), (&only_asset, Price(0)), (&pricing, Pricing), (&all, All)] {
        // The commitment has capital letters: the served manifest is correct.
        let found = check(&served, hash(other), "hash.hex_case", &[HashMistake::HexCase(sites, Checksummed)]);
        check_update(&found, &value);
        // The served manifest has capital letters: the committed one is entirely in lower case.
        let found = check(&pretty(other), hash(&value), "hash.hex_case", &[HashMistake::HexCase(All, Lower)]);
        assert_eq!(found.repair, Repair::MendServed);
    }
    // From capital letters in pricing to capital letters in the creator.
    let slips = [HashMistake::HexCase(Creator, Checksummed), HashMistake::HexCase(Pricing, Lower)];
    check(&pretty(&pricing), hash(&only_creator), "hash.hex_case", &slips);
    let upper = with(|value| value["creatorAddress"] = format!("0x{}", CREATOR[2..].to_uppercase()).into());
    check(&served, hash(&upper), "hash.hex_case", &[HashMistake::HexCase(Creator, Upper)]);
    let data = with(|value| {
        let requirement = &mut value["access"]["requirements"][0];
        for key in ["kind", "data"] {
            requirement[key] = format!("0x{}", requirement[key].as_str().unwrap()[2..].to_uppercase()).into();
        }
    });
    check(&served, hash(&data), "hash.hex_case", &[HashMistake::HexCase(Access, Upper)]);
}

#[test]
fn letters_in_another_form() {
    let value = manifest();
    let decomposed = with(|value| {
        for key in ["name", "description"] {
            value[key] = value[key].as_str().unwrap().nfd().collect::<String>().into();
        }
    });
    let found = check(&pretty(&value), hash(&decomposed), "hash.unicode_form", &[HashMistake::Unicode(UnicodeForm::Nfd)]);
    check_update(&found, &value);
    let found = check(&pretty(&decomposed), hash(&value), "hash.unicode_form", &[HashMistake::Unicode(UnicodeForm::Nfc)]);
    assert_eq!(found.repair, Repair::MendServed);
}

#[test]
fn members_that_stand_there_twice() {
    let value = manifest();
    let text = String::from_utf8(pretty(&value)).unwrap();
    let twice = text.replacen('{', "{\"name\": \"first\",", 1);
    let found = check(twice.as_bytes(), hash(&value), "hash.duplicate_keys", &[HashMistake::DuplicatesDropped]);
    assert_eq!((found.repair, found.served_hash), (Repair::MendServed, None));
}

#[test]
fn other_digests() {
    let value = manifest();
    let (served, canonical) = (pretty(&value), jcs(&value));
    let sha256 = |bytes: &[u8]| B256::from_slice(&<sha2::Sha256 as sha2::Digest>::digest(bytes));
    let sha3 = |bytes: &[u8]| B256::from_slice(&<Sha3_256 as sha3::Digest>::digest(bytes));
    check_update(&check(&served, sha256(&canonical), "hash.sha256", &[HashMistake::Sha256]), &value);
    check(&served, sha3(&canonical), "hash.sha3_256", &[HashMistake::Sha3]);
    check(&served, sha256(&served), "hash.raw_bytes", &[HashMistake::RawBytes, HashMistake::Sha256]);
    check(&served, sha3(&served), "hash.raw_bytes", &[HashMistake::RawBytes, HashMistake::Sha3]);
    // Known answers, to check the functions.
    assert_eq!(sha256(b""), "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".parse::<B256>().unwrap());
    assert_eq!(sha3(b""), "0xa7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a".parse::<B256>().unwrap());

    check(&served, keccak256(hex::encode(&canonical)), "hash.hex_text", &[HashMistake::HexText]);
    check(&served, keccak256(hex::encode_prefixed(&canonical)), "hash.hex_text", &[HashMistake::HexText]);
    check(&served, keccak256(keccak256(&canonical)), "hash.twice", &[HashMistake::Twice]);
    check(&served, keccak256(hex::encode_prefixed(keccak256(&canonical))), "hash.twice", &[HashMistake::Twice]);
    check(&served, keccak256(hex::encode(keccak256(&canonical))), "hash.twice", &[HashMistake::Twice]);
    let mut encoded = vec![0; 64];
    encoded[31] = 0x20;
    encoded[62..].copy_from_slice(&u16::try_from(canonical.len()).unwrap().to_be_bytes());
    encoded.extend_from_slice(&canonical);
    while !encoded.len().is_multiple_of(32) {
        encoded.push(0);
    }
    check(&served, keccak256(encoded), "hash.abi_encoded", &[HashMistake::AbiEncoded]);
}

#[test]
fn changes_are_combined() {
    // What tool-sdk before 0.18 did to a manifest without type.
    let served = without(manifest(), &["type"]);
    let mut hashed = without(manifest(), &["com.example.colour"]);
    let slips = [HashMistake::FieldsStripped { nested: false }, HashMistake::TypeInjected];
    check(&pretty(&served), hash(&hashed), "hash.fields_stripped", &slips);
    hashed["creatorAddress"] = checksummed(CREATOR).into();
    let slips = [slips[0], slips[1], HashMistake::HexCase(HexSites::Creator, HexSpelling::Checksummed)];
    check(&pretty(&served), hash(&hashed), "hash.fields_stripped", &slips);
    hashed["name"] = hashed["name"].as_str().unwrap().nfd().collect::<String>().into();
    hashed["description"] = hashed["description"].as_str().unwrap().nfd().collect::<String>().into();
    let slips = [slips[0], slips[1], slips[2], HashMistake::Unicode(UnicodeForm::Nfd)];
    check(&pretty(&served), hash(&hashed), "hash.fields_stripped", &slips);

    // A placeholder in an indented file whose raw bytes were hashed, fixed later.
    let placeholder = with(|value| value["type"] = PLACEHOLDER.into());
    let slips = [HashMistake::TypeReplaced(PLACEHOLDER), HashMistake::Indented("  ")];
    check(&jcs_in_order(&manifest()), keccak256(pretty(&placeholder)), "hash.type_placeholder", &slips);
    let slips = [slips[0], slips[1], HashMistake::FinalNewline];
    let committed = keccak256([pretty(&placeholder), b"\n".to_vec()].concat());
    check(&jcs_in_order(&manifest()), committed, "hash.type_placeholder", &slips);
    let committed = keccak256(serde_json::to_vec(&placeholder).unwrap());
    check(&pretty(&manifest()), committed, "hash.type_placeholder", &[slips[0], HashMistake::Minified]);
}

/// Without spaces, in the order of the value.
fn jcs_in_order(value: &Json) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value")
}

#[track_caller]
fn check_served(served: &[u8], code: &str) {
    let committed = hash(&manifest());
    let found = explain(served, committed, &[]);
    assert_eq!(found.code().map(Code::id), Some(code));
    assert_eq!((found.repair, found.diff), (Repair::FixServer { label: None }, None));

    // If the committed file is available, the explanation says which one is missing.
    let bytes = pretty(&manifest());
    let local = Candidate { label: "tool.json", relation: Relation::Local, bytes: &bytes };
    let found = explain(served, committed, &[local]);
    assert_eq!(found.code().map(Code::id), Some(code));
    assert_eq!(found.further, Some(Cause::OtherFile { label: "tool.json".to_owned(), relation: Relation::Local }));
    assert_eq!(found.repair, Repair::FixServer { label: Some("tool.json".to_owned()) });
}

#[test]
fn answers_that_are_no_manifest() {
    check_served(b"", "hash.empty_body");
    check_served(b" \r\n\t", "hash.empty_body");
    check_served("\u{feff}".as_bytes(), "hash.empty_body");
    check_served(b"\n<!DOCTYPE html><html><body>404</body></html>", "hash.error_page");
    check_served(b"<html>", "hash.error_page");
    check_served(b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "hash.error_page");
    check_served(br#"{"error":"not found"}"#, "hash.error_object");
    check_served(br#"{"statusCode":500,"message":"Internal Server Error"}"#, "hash.error_object");
    check_served(b"Not found", "hash.not_a_manifest");
    check_served(b"[]", "hash.not_a_manifest");
    check_served(b"{\"name\":", "hash.not_a_manifest");
    check_served(&[0xff, 0xfe, b'{', 0], "hash.not_a_manifest");
    check_served(&vec![b' '; json::MAX_BYTES + 1], "hash.too_large");

    // A manifest may mention errors.
    let value = with(|value| value["error"] = "none".into());
    check(&pretty(&value), keccak256(pretty(&value)), "hash.raw_bytes", &[HashMistake::RawBytes]);
    // A page whose own hash is committed.
    let found = explain(b"<html>", keccak256("<html>"), &[]);
    assert_eq!(found.cause, Some(Cause::Recipe { label: None, slips: vec![HashMistake::RawBytes] }));
    assert_eq!(found.repair, Repair::FixServer { label: None });
}

#[track_caller]
fn check_odd(committed: B256, wanted: OddHash, code: &str) {
    let served = pretty(&manifest());
    let uri = Some("https://tools.example.com/.well-known/ai-tool/tides.json");
    let found = Case { served: &served, committed, metadata_uri: uri, candidates: &[] }.explain();
    assert_eq!(found.cause, Some(Cause::Commitment(wanted)));
    assert_eq!(found.code().map(Code::id), Some(code));
    if wanted == OddHash::Zero {
        assert_eq!(found.repair, Repair::CheckReference);
    } else {
        check_update(&found, &manifest());
    }
}

#[test]
fn commitments_that_are_none() {
    check_odd(B256::ZERO, OddHash::Zero, "hash.zero");
    check_odd(B256::with_last_byte(1), OddHash::Placeholder, "hash.placeholder");
    check_odd(B256::repeat_byte(0x11), OddHash::Placeholder, "hash.placeholder");
    for nothing in ["", "{}", "null"] {
        check_odd(keccak256(nothing), OddHash::OfNothing, "hash.of_empty_input");
    }
    check_odd(keccak256("https://tools.example.com/.well-known/ai-tool/tides.json"), OddHash::OfUri, "hash.of_uri");
    let found = explain(&pretty(&manifest()), keccak256("https://tools.example.com/other"), &[]);
    assert_eq!(found.cause, None);
    // An odd hash is reported even if the server sends nothing.
    assert_eq!(explain(b"", B256::ZERO, &[]).cause, Some(Cause::Commitment(OddHash::Zero)));
}

#[test]
fn other_files() {
    let old = with(|value| value["version"] = "0.9.0".into());
    let other = with(|value| value["endpoint"] = "https://tools.example.com/winds".into());
    let (served, old_bytes, other_bytes) = (pretty(&manifest()), pretty(&old), pretty(&other));
    let version = Candidate { label: "3f2a tides.json", relation: Relation::Version, bytes: &old_bytes };
    let winds = Candidate { label: "winds", relation: Relation::OtherTool, bytes: &other_bytes };
    let local = Candidate { label: "./tides.json", relation: Relation::Local, bytes: &old_bytes };

    let found = explain(&served, hash(&old), &[winds, version]);
    assert_eq!(found.code().map(Code::id), Some("hash.older_version"));
    check_update(&found, &manifest());
    assert_eq!(found.otherwise, Some(Repair::ServeCommitted { label: "3f2a tides.json".to_owned() }));
    assert_eq!(found.nearest.as_deref(), Some("3f2a tides.json"));
    let diff = found.diff.expect("against the committed version");
    assert_eq!((diff.total, diff.changes[0].pointer.as_str()), (1, "/version"));
    assert_eq!(diff.changes[0].before.as_deref(), Some("\"0.9.0\""));

    let found = explain(&served, hash(&old), &[local]);
    assert_eq!(found.code().map(Code::id), Some("hash.local_file"));
    assert_eq!(found.repair, Repair::ServeCommitted { label: "./tides.json".to_owned() });

    let found = explain(&served, hash(&other), &[version, winds]);
    assert_eq!(found.code().map(Code::id), Some("hash.other_tool"));
    check_update(&found, &manifest());

    let found = explain(&other_bytes, hash(&old), &[winds, version]);
    assert_eq!(found.cause, Some(Cause::ServesOtherTool("winds".to_owned())));
    assert_eq!(found.code().map(Code::id), Some("hash.serves_other_tool"));
    assert_eq!(found.repair, Repair::FixServer { label: Some("3f2a tides.json".to_owned()) });
    // The served bytes are the committed ones: as far as the hash is concerned, nothing is wrong.
    assert!(explain(&other_bytes, hash(&other), &[winds]).matches());

    // Each recipe is tried on each candidate.
    let bytes = keccak256(&old_bytes);
    let stripped = hash(&without(old.clone(), &["com.example.colour"]));
    let both = hash(&without(old, &["com.example.colour", "type"]));
    let (strip, remove) = (HashMistake::FieldsStripped { nested: false }, HashMistake::TypeRemoved);
    for (committed, slips) in [(bytes, vec![HashMistake::RawBytes]), (stripped, vec![strip]), (both, vec![strip, remove])] {
        let found = explain(&served, committed, &[winds, version]);
        assert_eq!(found.cause, Some(Cause::Recipe { label: Some("3f2a tides.json".to_owned()), slips }));
        assert_eq!(found.diff.map(|diff| diff.total), Some(1));
        assert_eq!(explain(&served, committed, &[winds]).cause, None);
    }
}

#[test]
fn without_a_cause_the_nearest_version_is_shown() {
    let served = pretty(&manifest());
    let near = pretty(&with(|value| value["version"] = "0.9.0".into()));
    let far = pretty(&json!({ "name": "something else", "endpoint": "https://a.example/" }));
    let candidate = |label, bytes| Candidate { label, relation: Relation::Version, bytes };
    let other = Candidate { label: "same", relation: Relation::OtherTool, bytes: &served };
    let nobody = keccak256("nobody made this");

    let found = explain(&served, nobody, &[candidate("far", &far), candidate("near", &near), candidate("bad", b"{")]);
    assert_eq!((found.cause.as_ref(), found.code()), (None, Some(codes::explain::UNEXPLAINED)));
    assert_eq!(found.nearest.as_deref(), Some("near"));
    assert_eq!(found.diff.map(|diff| diff.total), Some(1));
    check_update(&explain(&served, nobody, &[]), &manifest());
    // Only the file of another tool is available: it is the served one, and the explanation says so.
    let found = explain(&served, nobody, &[other]);
    assert_eq!((found.cause, found.diff), (Some(Cause::ServesOtherTool("same".to_owned())), None));
}

#[test]
fn candidates_beyond_the_limit_are_not_looked_at() {
    let (served, old) = (pretty(&manifest()), pretty(&with(|value| value["version"] = "0.9.0".into())));
    let filler = Candidate { label: "filler", relation: Relation::Version, bytes: b"{}" };
    let wanted = Candidate { label: "wanted", relation: Relation::Version, bytes: &old };
    for (before, finds) in [(MAX_CANDIDATES - 1, true), (MAX_CANDIDATES, false)] {
        let mut candidates = vec![filler; before];
        candidates.push(wanted);
        let found = explain(&served, keccak256(jcs(&serde_json::from_slice(&old).unwrap())), &candidates);
        assert_eq!(found.cause.is_some(), finds, "{before}");
    }
}

#[test]
fn commands_have_nothing_of_the_manifest_in_them() {
    let tool = ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").unwrap();
    let label = "x'; rm -rf ~ #".to_owned();
    let update = |lint_first| Repair::UpdateOnchain { correct_hash: B256::ZERO, lint_first };
    let repairs = [
        (Repair::Nothing, vec![]),
        (update(false), vec![format!("toolcrib update {tool} --manifest 'my tool.json'")]),
        (
            update(true),
            vec!["toolcrib lint 'my tool.json' --fix".to_owned(), format!("toolcrib update {tool} --manifest 'my tool.json'")],
        ),
        (Repair::MendServed, vec!["toolcrib lint 'my tool.json' --fix".to_owned(), format!("toolcrib verify {tool}")]),
        (Repair::ServeCommitted { label: label.clone() }, vec![format!("toolcrib verify {tool}")]),
        (Repair::FixServer { label: Some(label) }, vec![format!("toolcrib verify {tool}")]),
        (Repair::CheckReference, vec![format!("toolcrib inspect {tool}")]),
    ];
    for (repair, wanted) in repairs {
        assert_eq!(repair.commands(Some(&tool), Some("'my tool.json'")), wanted, "{repair}");
    }
    assert_eq!(update(false).commands(None, None), ["toolcrib update TOOL --manifest FILE"]);
}

#[test]
fn causes_are_told_in_words() {
    let slips = vec![
        HashMistake::TypeReplaced(PLACEHOLDER),
        HashMistake::HexCase(HexSites::Price(1), HexSpelling::Lower),
        HashMistake::FinalNewline,
    ];
    assert_eq!(
        Cause::Recipe { label: None, slips }.to_string(),
        format!(
            "the served manifest was committed, with the `type` {PLACEHOLDER} and with an address of pricing/1 in lower case and with a \
             trailing newline"
        )
    );
    let other = Cause::OtherFile { label: "3f2a tides.json".to_owned(), relation: Relation::Version };
    assert_eq!(other.to_string(), "the committed hash is that of another version of this manifest: 3f2a tides.json");
}

/// A manifest of about `size` bytes with something for every axis.
fn large(size: usize, salt: usize) -> Vec<u8> {
    let mut value = with(|value| value["version"] = format!("{salt}.0.0").into());
    let note = "é".repeat(size.saturating_sub(pretty(&value).len() + 40) / 2);
    value["com.example.note"] = note.into();
    pretty(&value)
}

#[track_caller]
fn check_bounded(size: usize, count: usize, budget: Budget) -> Explanation {
    let served = large(size, 0);
    let files: Vec<_> = (1..=count).map(|salt| large(size, salt)).collect();
    let candidates: Vec<_> = files.iter().map(|bytes| Candidate { label: "v", relation: Relation::Version, bytes }).collect();
    let case = Case { served: &served, committed: keccak256("nobody"), metadata_uri: None, candidates: &candidates };
    let found = case.explain_within(budget);
    assert_eq!(found.cause, None);
    assert!(found.tried <= budget.hashes, "{}", found.tried);
    // Each hash reads about as many bytes as the file has.
    assert!(found.tried * size / 2 <= budget.bytes, "{} hashes of {size} bytes", found.tried);
    found
}

#[test]
fn the_budget_holds() {
    let found = check_bounded(4096, 4, Budget { hashes: 100, bytes: usize::MAX });
    assert!(found.exhausted);
    assert_eq!(found.tried, 100);
    let found = check_bounded(4096, 4, Budget { hashes: usize::MAX, bytes: 400_000 });
    assert!(found.exhausted);
    assert!(found.diff.is_some(), "the nearest is shown all the same");
}

#[test]
fn an_ordinary_case_is_tried_to_its_end() {
    let found = check_bounded(5 * 1024, 4, Budget::default());
    assert!(!found.exhausted, "{} hashes", found.tried);
    assert!(found.tried < 5_000, "{}", found.tried);
}

/// The complete worst case: a mebibyte served, thirty-two candidates of the same size. Too slow without optimisation.
#[test]
#[cfg(not(debug_assertions))]
fn the_largest_case_ends_soon() {
    let found = check_bounded(json::MAX_BYTES - 64, 32, Budget::default());
    assert!(found.exhausted);
    assert!((100..400).contains(&found.tried), "{}", found.tried);
}

/// The same size, but many small values, which cost more to parse, serialise and compare than one long text.
#[test]
#[cfg(not(debug_assertions))]
fn the_largest_case_of_small_values_ends_soon() {
    let file = |salt: usize| {
        let mut value = manifest();
        value["com.example.list"] = vec![json!([salt, { "a": salt }]); 70_000].into();
        serde_json::to_vec(&value).expect("a value")
    };
    let served = file(0);
    assert!((json::MAX_BYTES / 2..json::MAX_BYTES).contains(&served.len()), "{}", served.len());
    let files: Vec<_> = (1..=32).map(file).collect();
    let candidates: Vec<_> = files.iter().map(|bytes| Candidate { label: "v", relation: Relation::Version, bytes }).collect();
    let found = explain(&served, keccak256("nobody"), &candidates);
    assert_eq!(found.cause, None);
    assert!(found.exhausted && found.tried < 1_000, "{}", found.tried);
    let diff = found.diff.expect("against the nearest");
    assert_eq!((diff.changes.len(), diff.total), (MAX_CHANGES, 140_000));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(served in bytes(), candidate in bytes(), committed in proptest::array::uniform32(0_u8..)) {
        let candidates = [Candidate { label: "c", relation: Relation::Version, bytes: &candidate }];
        let case = Case { served: &served, committed: committed.into(), metadata_uri: Some("é"), candidates: &candidates };
        let found = case.explain_within(Budget { hashes: 150, bytes: 1 << 16 });
        prop_assert!(found.tried <= 150);
        let _ = found.cause.map(|cause| cause.to_string());
    }

    /// For any layout of the served and of the committed file, the committed version is found.
    #[test]
    fn a_version_that_was_committed_is_found(name in "[a-zé\u{1F600}\"\\\\]{0,8}", number in -1e20_f64..1e20) {
        let old = with(|value| value["name"] = name.into());
        let new = with(|value| value["maxAge"] = number.into());
        let (old_bytes, new_bytes) = (pretty(&old), serde_json::to_vec(&new).expect("a value"));
        let candidates = [Candidate { label: "old", relation: Relation::Version, bytes: &old_bytes }];
        let found = explain(&new_bytes, hash(&old), &candidates);
        prop_assert_eq!(found.cause, Some(Cause::OtherFile { label: "old".to_owned(), relation: Relation::Version }));
    }
}

/// Arbitrary bytes, and pieces of manifests in any order.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"type\"",
        "\"pricing\"",
        "\"asset\"",
        "\"creatorAddress\"",
        "\"eip155:1:0x\"",
        "1e5",
        "\r\n",
        "\u{feff}",
        "<",
        "\"e\u{301}\"",
    ];
    let members = [
        "\"creatorAddress\":\"0xABcdefabcdef1234567890abcdefabcdef123456\"",
        "\"pricing\":[{\"asset\":\"x:0x\"},{\"recipient\":\"é:0X00\"},7]",
        "\"access\":{\"requirements\":[{\"kind\":\"0xAB\",\"data\":\"0x\"}]}",
        "\"type\":7",
        "\"x\":\"e\u{301}\"",
        "\"x\":-0.0",
    ];
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..12).prop_map(|list| list.concat().into_bytes()),
        proptest::collection::vec(proptest::sample::select(members.to_vec()), 0..5).prop_map(|list| format!(
            "{{{}}}",
            list.join(",")
        )
        .into_bytes()),
    ]
}
