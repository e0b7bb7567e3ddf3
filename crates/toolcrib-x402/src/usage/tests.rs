//! Both formats of the report: T24 on the wire.

use alloy_primitives::address;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Severity;

use super::*;
use crate::payment::tests::payments;
use crate::{Offer, Version, asset, header, read_payment};

const CALLER: &str = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const OPERATOR: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const REGISTRY: &str = "0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1";
const HASH: &str = "0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef";

fn signature() -> String {
    format!("0x{}1c", "2d".repeat(64))
}

fn free() -> Json {
    json!({
        "verification_type": "eip3009_authorization",
        "tool_chain_id": 8453, "tool_registry_address": REGISTRY, "tool_onchain_id": "42", "latency_ms": 120,
        "eip3009": {
            "caller_address": CALLER, "signature": signature(), "from": CALLER, "to": OPERATOR, "value": "0",
            "valid_after": "0", "valid_before": "1749158400", "nonce": HASH
        }
    })
}

fn paid() -> Json {
    json!({
        "verification_type": "x402_settlement",
        "tool_chain_id": 8453, "tool_registry_address": REGISTRY, "tool_onchain_id": "42", "latency_ms": 250,
        "x402": {"caller_address": CALLER, "tx_hash": HASH, "chain_id": 8453}
    })
}

/// `base` with the value at `pointer` replaced or removed.
fn with(mut base: Json, pointer: &str, value: Option<Json>) -> Json {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let object = base.pointer_mut(parent).and_then(Json::as_object_mut).expect("an object");
    match value {
        Some(value) => object.insert(key.to_owned(), value),
        None => object.remove(key),
    };
    base
}

#[track_caller]
fn check(message: &Json, expected: &[Code]) -> Option<UsageReport> {
    let (report, findings) = read_report(message.to_string().as_bytes());
    let found: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, expected, "{message}");
    let has_error = findings.iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(report.is_none(), has_error, "{message}");
    report
}

// req: USAGE-005, USAGE-006, USAGE-008
#[test]
fn both_shapes_are_those_of_the_guide() {
    for message in [free(), paid()] {
        let report = check(&message, &[]).expect("well-formed");
        assert_eq!((report.tool.chain, report.tool.id), (8453, U256::from(42)));
        let written: Json = serde_json::from_str(&report.to_json()).expect("JSON");
        assert_eq!(written, message);
    }
}

// T24: the report has the six fields and the signature exactly as in the header.
// req: USAGE-006, USAGE-007
#[test]
fn the_callers_signature_is_forwarded_as_it_came() {
    // Unusual, but legal: no checksums and upper-case digits.
    let odd = json!({
        "x402Version": 1, "scheme": "exact", "network": "base",
        "payload": {"signature": signature().to_uppercase().replace("0X", "0x"), "authorization": {
            "from": CALLER.to_lowercase(), "to": OPERATOR.to_lowercase(), "value": "0", "validAfter": "0",
            "validBefore": "1749158400", "nonce": HASH.to_uppercase().replace("0X", "0x")
        }}
    });
    let payment = read_payment(Version::V1, &header::encode(odd.to_string().as_bytes())).into_result().expect("well-formed");
    let tool = ToolRef { chain: 8453, registry: address!("265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1"), id: U256::from(42) };
    let proof = UsageProof::of_identity(&payment).expect("free");
    let report = UsageReport { tool, latency_ms: 120, proof };
    let written: Json = serde_json::from_str(&report.to_json()).expect("JSON");
    let sent = &odd["payload"]["authorization"];
    let told = &written["eip3009"];
    for (ours, theirs) in [
        ("from", "from"),
        ("to", "to"),
        ("value", "value"),
        ("valid_after", "validAfter"),
        ("valid_before", "validBefore"),
        ("nonce", "nonce"),
        ("caller_address", "from"),
    ] {
        assert_eq!(told[ours], sent[theirs], "{ours}");
    }
    assert_eq!(told["signature"], odd["payload"]["signature"]);
    assert_eq!(read_report(report.to_json().as_bytes()).0, Some(report));
}

// T24
// req: USAGE-008
#[test]
fn money_is_reported_by_transaction_only() {
    let token = asset::usdc(8453).expect("listed");
    let offer = Offer::exact(&token, Amount::new(U256::from(1)), token.address, 60).expect("a chain");
    let authorization = Authorization {
        from: token.address,
        to: token.address,
        value: offer.amount,
        valid_after: 0,
        valid_before: 1,
        nonce: B256::ZERO,
    };
    let signature = Signature::new(vec![1; 65]).expect("long enough");
    let payment = Payment::new(Version::V2, &offer, authorization, signature, None, Vec::new());
    assert_eq!(UsageProof::of_identity(&payment), None, "whoever reads it could cash it");
    let proof = UsageProof::of_settlement(&payment, B256::repeat_byte(1)).expect("an EVM chain");
    assert!(matches!(proof, UsageProof::Settlement { transaction, .. } if transaction == B256::repeat_byte(1)));
    check(&with(free(), "/eip3009/value", Some(json!("1"))), &[code::VALUE_NOT_ZERO]);
}

// req: USAGE-005
#[test]
fn ids_come_as_strings_and_as_numbers() {
    for base in [free(), paid()] {
        let same = with(base.clone(), "/tool_onchain_id", Some(json!(42)));
        assert_eq!(check(&same, &[]), check(&base, &[]));
        let most = U256::MAX.to_string();
        let report = check(&with(base.clone(), "/tool_onchain_id", Some(json!(most))), &[]).expect("well-formed");
        assert_eq!(report.tool.id, U256::MAX);
        for bad in [json!(""), json!("0"), json!(0), json!("042"), json!("0x2a"), json!(-1), json!(1.5), json!(true), Json::Null]
        {
            check(&with(base.clone(), "/tool_onchain_id", Some(bad)), &[code::NUMBER]);
        }
        for bad in [json!("8453"), json!(0), json!(-1), json!(1.5)] {
            check(&with(base.clone(), "/tool_chain_id", Some(bad)), &[code::NUMBER]);
        }
        for bad in [json!("120"), json!(-1), json!(0.5)] {
            check(&with(base.clone(), "/latency_ms", Some(bad)), &[code::NUMBER]);
        }
        for bad in ["x402_bazaar", "0x", "0x0000000000000000000000000000000000000000"] {
            check(&with(base.clone(), "/tool_registry_address", Some(json!(bad))), &[x402::ADDRESS]);
        }
    }
    let numbers = with(with(free(), "/eip3009/value", Some(json!(0))), "/eip3009/valid_before", Some(json!(1_749_158_400)));
    assert_eq!(check(&numbers, &[]), check(&free(), &[]));
    check(&with(free(), "/eip3009/valid_before", Some(json!("soon"))), &[code::NUMBER]);
}

#[test]
fn every_field_counts() {
    for key in ["verification_type", "tool_chain_id", "tool_registry_address", "tool_onchain_id", "latency_ms"] {
        check(&with(free(), &format!("/{key}"), None), &[code::FIELD_MISSING]);
    }
    for key in ["caller_address", "signature", "from", "to", "value", "valid_after", "valid_before", "nonce"] {
        check(&with(free(), &format!("/eip3009/{key}"), None), &[code::FIELD_MISSING]);
    }
    for key in ["caller_address", "tx_hash", "chain_id"] {
        check(&with(paid(), &format!("/x402/{key}"), None), &[code::FIELD_MISSING]);
    }
    for (message, expected) in [
        (with(free(), "/eip3009", None), code::FIELD_MISSING),
        (with(free(), "/verification_type", Some(json!("siwe"))), code::TYPE_UNKNOWN),
        (with(free(), "/verification_type", Some(json!(X402_SETTLEMENT))), code::FIELD_MISSING),
        (with(free(), "/x402", Some(paid()["x402"].clone())), code::TWO_PROOFS),
        (with(paid(), "/x402/tx_hash", Some(json!(""))), code::TRANSACTION),
        (with(paid(), "/x402/tx_hash", Some(json!(B256::ZERO.to_string()))), code::TRANSACTION),
        (with(free(), "/eip3009/nonce", Some(json!("0x01"))), code::HEX),
        (with(free(), "/eip3009/signature", Some(json!("0x01"))), code::HEX),
        (with(free(), "/eip3009/caller_address", Some(json!(OPERATOR))), code::CALLER_DIFFERS),
    ] {
        let (_, findings) = read_report(message.to_string().as_bytes());
        assert!(findings.iter().any(|finding| finding.code == expected), "{message} {findings:?}");
    }
    let long = format!("{}{}", free(), " ".repeat(MAX_BYTES));
    assert_eq!(read_report(long.as_bytes()).1[0].code, code::TOO_LARGE);
    for (text, expected) in [("[]", code::NOT_AN_OBJECT), ("", code::NOT_JSON), ("{\"a\":1,\"a\":1}", code::DUPLICATE_KEY)] {
        assert_eq!(read_report(text.as_bytes()).1[0].code, expected);
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(payment in payments(), chain in 1_u64..1 << 53, id: [u64; 4], latency_ms in 0_u64..1 << 53, hash: [u8; 32]) {
        let mut payment = payment;
        payment.authorization.value = Amount::ZERO;
        payment.authorization.to = payment.authorization.from;
        payment.spelling = Spelling::usual(&payment.authorization, &payment.signature);
        prop_assume!(id != [0; 4] && hash != [0; 32]);
        let tool = ToolRef { chain, registry: payment.authorization.from, id: U256::from_limbs(id) };
        let proofs = [UsageProof::of_identity(&payment), UsageProof::of_settlement(&payment, hash.into())];
        for proof in proofs.into_iter().flatten() {
            let report = UsageReport { tool, latency_ms, proof };
            let (read, findings) = read_report(report.to_json().as_bytes());
            prop_assert_eq!(read, Some(report), "{:?}", findings);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (report, findings) = read_report(&bytes);
        prop_assert!(report.is_some() || !findings.is_empty());
    }
}

/// Directories accept reports of other software: the tool by its endpoint, without a time, and the chain of a signature.
// req: USAGE-005
#[test]
fn a_submission_may_name_an_endpoint_alone() {
    let read = |message: &Json| read_submission(message.to_string().as_bytes());
    for base in [free(), paid()] {
        let (report, findings) = read(&base);
        assert!(findings.is_empty());
        let whole = check(&base, &[]).expect("well-formed");
        assert_eq!(report, Some(whole.clone().into()));
        let mut message = base.clone();
        for key in ["tool_chain_id", "tool_registry_address", "tool_onchain_id", "latency_ms"] {
            message = with(message, &format!("/{key}"), None);
        }
        let endpoint = "https://tools.example.com/tides";
        message = with(message, "/tool_endpoint", Some(json!(endpoint)));
        let (report, findings) = read(&message);
        assert!(findings.is_empty(), "{findings:?}");
        let expected = Submission {
            subject: Subject::Endpoint(endpoint.to_owned()),
            latency_ms: None,
            chain: None,
            proof: whole.proof.clone(),
        };
        assert_eq!(report, Some(expected));
        // A registration takes precedence over an endpoint, and a partial registration is an error.
        let both = with(base.clone(), "/tool_endpoint", Some(json!(endpoint)));
        assert_eq!(read(&both).0, Some(whole.into()));
        let half = with(both, "/tool_onchain_id", None);
        assert_eq!(read(&half).1[0].code, code::FIELD_MISSING);
        for (key, value) in [("/tool_endpoint", json!(7)), ("/latency_ms", json!(-1)), ("/latency_ms", json!("12"))] {
            assert_eq!(read(&with(message.clone(), key, Some(value))).0, None, "{key}");
        }
    }
    let (report, _) = read(&with(free(), "/eip3009/chain_id", Some(json!(137))));
    assert_eq!(report.and_then(|report| report.chain), Some(137));
    assert_eq!(read(&with(free(), "/eip3009/chain_id", Some(json!("137")))).0, None);
    assert_eq!(read(&with(paid(), "/verification_type", Some(json!("siwe")))).0, None);
}
