//! Chain data: squatters, deregistered tools, wrong hashes, pending updates, and predicates.

use alloy_primitives::{B256, U256};
use serde_json::json;
use toolcrib_core::codes::{chain, predicate, tool, url, verify};
use toolcrib_judge::Step;

use crate::row::{Between, Life, Row};

pub(crate) fn rows() -> Vec<Row> {
    [registrations(), hashes(), creators(), predicates()].into_iter().flatten().collect()
}

// req: VERIFY-001, VERIFY-006, VERIFY-018
fn registrations() -> Vec<Row> {
    vec![
        Row::new("never registered").life(Life::Never).gone(Step::Registration, chain::TOOL_NOT_FOUND),
        Row::new("deregistered").life(Life::Deregistered).gone(Step::Registration, chain::TOOL_DEREGISTERED),
        Row::new("squatted").by(1).says("0x70997970c51812dc3a010c7d01b50e0d17dc79c8 registered the tool").refused(
            4,
            Step::Creator,
            verify::CREATOR_MISMATCH,
        ),
    ]
}

// req: VERIFY-004, VERIFY-007, VERIFY-015, VERIFY-016, VERIFY-017
fn hashes() -> Vec<Row> {
    let wrong = B256::repeat_byte(0x99);
    vec![
        Row::new("another hash").committed(wrong).reads(2).refused(3, Step::Hash, verify::HASH_MISMATCH).finds(verify::REREAD),
        Row::new("one byte flipped")
            .committed_to_honest()
            .bytes(|bytes| String::from_utf8(bytes).expect("JSON").replace("Counts", "counts").into_bytes())
            .reads(2)
            .refused(3, Step::Hash, verify::HASH_MISMATCH),
        Row::new("an extension added by the server").committed_to_honest().with("vendor.example/x", json!(1)).reads(2).refused(
            3,
            Step::Hash,
            verify::HASH_MISMATCH,
        ),
        Row::new("a price added by the server").committed_to_honest().with("maxAge", json!(86_400)).reads(2).refused(
            3,
            Step::Hash,
            verify::HASH_MISMATCH,
        ),
        Row::new("another hash at every read").between(Between::AlwaysAnotherHash).reads(2).refused(
            3,
            Step::Hash,
            verify::HASH_MISMATCH,
        ),
        Row::new("updated between the reads").committed(wrong).between(Between::Commits).reads(2).finds(verify::REREAD),
        Row::new("moved between the reads")
            .committed(wrong)
            .between(Between::Moves("https://HOST/.well-known/ai-tool/other.json".to_owned()))
            .reads(2)
            .refused(3, Step::Hash, verify::URI_CHANGED),
        Row::new("moved to a bad place between the reads")
            .committed(wrong)
            .between(Between::Moves("https://127.0.0.1/x".to_owned()))
            .reads(2)
            .after_fetch()
            .refused(2, Step::MetadataUri, url::METADATA_MALFORMED),
        Row::new("removed between the reads")
            .committed(wrong)
            .between(Between::Removes)
            .reads(2)
            .after_fetch()
            .gone(Step::Registration, chain::TOOL_DEREGISTERED),
    ]
}

// req: CREATOR-001, CREATOR-002, CREATOR-003, CREATOR-004, VERIFY-005, VERIFY-007, VERIFY-018
fn creators() -> Vec<Row> {
    let names = |name: &str, value: &str| Row::new(&format!("creator: {name}")).with("creatorAddress", json!(value));
    let own = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
    vec![
        names("somebody else", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8").refused(4, Step::Creator, verify::CREATOR_MISMATCH),
        names("zero", &format!("0x{}", "0".repeat(40))).refused(4, Step::Creator, tool::CREATOR_ZERO),
        names("mixed case", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266").refused(3, Step::Canonical, tool::HEX_UPPERCASE),
        names("upper case", "0xF39FD6E51AAD88F6F4CE6AB8827279CFFFB92266").refused(3, Step::Canonical, tool::HEX_UPPERCASE),
        names("0X before", &own.replace("0x", "0X")).refused(3, Step::Canonical, tool::HEX_UPPERCASE),
        names("39 digits", &own[..41]).refused(4, Step::Creator, tool::CREATOR_GRAMMAR),
        names("41 digits", &format!("{own}0")).refused(4, Step::Creator, tool::CREATOR_GRAMMAR),
        names("ENS name", "vitalik.eth").refused(4, Step::Creator, tool::CREATOR_GRAMMAR),
        names("empty", "").refused(4, Step::Creator, tool::CREATOR_GRAMMAR),
        Row::new("creator: missing").without("creatorAddress").refused(
            4,
            Step::Creator,
            toolcrib_core::codes::manifest::FIELD_MISSING,
        ),
        Row::new("creator: null").with("creatorAddress", json!(null)).refused(
            4,
            Step::Creator,
            toolcrib_core::codes::manifest::WRONG_TYPE,
        ),
        Row::new("creator: an extension names another").with(
            "vendor.example/creator",
            json!({"ens": "vitalik.eth", "creatorAddress": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"}),
        ),
        Row::new("creator: an extension names the one who squats")
            .by(1)
            .with("vendor.example/creatorAddress", json!("0x70997970c51812dc3a010c7d01b50e0d17dc79c8"))
            .refused(4, Step::Creator, verify::CREATOR_MISMATCH),
    ]
}

/// Code that returns these bytes from every call: a short loader, followed by the bytes.
fn returns(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
    // PUSH4 length, DUP1, PUSH1 14, PUSH1 0, CODECOPY, PUSH1 0, RETURN
    [&[0x63][..], &length, &[0x80, 0x60, 14, 0x60, 0, 0x39, 0x60, 0, 0xf3], bytes].concat()
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| U256::from(*value).to_be_bytes::<32>()).collect()
}

/// The ABI encoding of a string of this length.
fn text(length: usize) -> Vec<u8> {
    [words(&[32, length as u64]), vec![b'x'; length.next_multiple_of(32)]].concat()
}

// The verdict is about the manifest; problems of the predicate are separate findings.
// req: HARDEN-014, HARDEN-015, HARDEN-016, HARDEN-017
fn predicates() -> Vec<Row> {
    let behind = |name: &str, code: Vec<u8>| Row::new(&format!("predicate: {name}")).predicate(code);
    vec![
        behind("reverts", vec![0x60, 0, 0x60, 0, 0xfd]).finds(predicate::INTROSPECTION_FAILED),
        behind("burns all gas", vec![0x5b, 0x60, 0, 0x56]).finds(predicate::INTROSPECTION_FAILED),
        behind("claims a million requirements", returns(&words(&[64, 0, 1_000_000]))).finds(predicate::INTROSPECTION_OVER_LIMIT),
        behind("claims a label of 10 MiB", returns(&words(&[64, 0, 1, 32, 0, 96, 96, 10 << 20])))
            .finds(predicate::INTROSPECTION_OVER_LIMIT),
        behind("points beyond its answer", returns(&[words(&[64, 0, 1]), vec![0xff; 32]].concat()))
            .finds(predicate::INTROSPECTION_FAILED),
        behind("a name of 257 bytes", returns(&text(257))).finds(predicate::NAME_MISSING),
        behind("no code", Vec::new()).finds(predicate::NO_CODE),
    ]
}
