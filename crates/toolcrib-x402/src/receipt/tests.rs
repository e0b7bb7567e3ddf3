//! Receipts and settlements: the tables of T13 that need no facilitator.

use alloy_primitives::U256;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_core::codes::{Code, x402};

use super::*;
use crate::payment::tests::payments;
use crate::{Raw, asset};

const HASH: &str = "0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef";
const PAYER: &str = "0x857b06519E91e3A54538791bDbb0E22373e36b66";

fn settled() -> Json {
    json!({"success": true, "transaction": HASH, "network": "eip155:8453", "payer": PAYER})
}

/// Parses a message and expects a response or none, and exactly these codes.
#[track_caller]
fn check(message: &Json, is_read: bool, expected: &[Code]) -> Option<SettleResponse> {
    let reading = read_receipt(&header::encode(message.to_string().as_bytes()));
    let found: Vec<_> = reading.findings.iter().map(|finding| finding.code).collect();
    assert_eq!((reading.response.is_some(), found.as_slice()), (is_read, expected), "{message}");
    reading.response
}

fn with(mut base: Json, key: &str, value: Json) -> Json {
    base.as_object_mut().expect("an object").insert(key.to_owned(), value);
    base
}

#[test]
fn a_receipt_is_read_in_both_versions() {
    for network in ["base", "eip155:8453"] {
        let response = check(&with(settled(), "network", json!(network)), true, &[]).expect("read");
        assert!(response.success && !response.is_pending());
        assert_eq!(response.transaction_hash().map(|hash| hash.to_string()).as_deref(), Some(HASH));
        assert_eq!(response.network.as_ref().map(ChainId::as_str), Some("eip155:8453"));
        assert_eq!(response.payer.as_ref().map(ChainAddress::as_str), Some(PAYER));
        let written: Json = serde_json::from_str(&response.to_json(Version::V1)).expect("JSON");
        assert_eq!(written, with(settled(), "network", json!("base")));
        let written: Json = serde_json::from_str(&response.to_json(Version::V2)).expect("JSON");
        assert_eq!(written, settled());
    }
}

// T13: a success that cannot be verified does not count as one.
#[test]
fn success_names_a_transaction() {
    check(&with(settled(), "transaction", json!("")), false, &[code::NO_TRANSACTION]);
    for bad in ["0x", "done", &HASH[..65], &HASH.replace("0x", "0X")] {
        check(&with(settled(), "transaction", json!(bad)), false, &[code::TRANSACTION]);
    }
    for key in ["success", "transaction", "network"] {
        let mut message = settled();
        message.as_object_mut().expect("an object").remove(key);
        check(&message, false, &[code::FIELD_MISSING]);
        check(&with(settled(), key, json!(7)), false, &[code::WRONG_TYPE]);
    }
    check(&with(settled(), "success", json!("true")), false, &[code::WRONG_TYPE]);
    check(&with(settled(), "network", json!("mars")), false, &[x402::NETWORK_UNKNOWN]);
    check(&with(settled(), "network", json!("")), false, &[x402::NETWORK_UNKNOWN]);
    // An invalid payer is ignored, but the money moved.
    let response = check(&with(settled(), "payer", json!("0x...")), true, &[x402::ADDRESS]).expect("read");
    assert_eq!(response.payer, None);
    check(&with(settled(), "payer", Json::Null), true, &[code::NULL_FIELD]);
    check(&with(settled(), "more", json!([1])), true, &[]);
}

// T13, T23: refusals are parsed regardless of other mistakes, and truncated.
#[test]
fn refusals_are_read_as_people_send_them() {
    let word = |response: SettleResponse| response.reason.expect("a reason");
    let spec =
        json!({"success": false, "errorReason": "insufficient_funds", "transaction": "", "network": "base", "payer": PAYER});
    assert_eq!(word(check(&spec, true, &[]).expect("read")), "insufficient_funds");
    let snake = json!({"success": false, "error_reason": "invalid_signature", "network": ""});
    assert_eq!(word(check(&snake, true, &[]).expect("read")), "invalid_signature");
    let bare = check(&json!({"success": false}), true, &[]).expect("read");
    assert_eq!((bare.reason, bare.network, bare.transaction.as_str()), (None, None, ""));
    let odd =
        json!({"success": false, "errorReason": "no", "network": "mars", "amount": "0.1", "transaction": "?", "payer": "me"});
    let odd = check(&odd, true, &[code::TRANSACTION]).expect("read");
    assert_eq!((odd.network, odd.amount, odd.transaction.as_str()), (None, None, "?"));
    check(&with(settled(), "amount", json!("0.1")), false, &[toolcrib_core::codes::amount::DECIMAL_POINT]);
    let pending = with(with(settled(), "success", json!(false)), "errorReason", json!("settlement_pending"));
    assert!(check(&pending, true, &[]).expect("read").is_pending());
    let long = "\u{e9}".repeat(MAX_REASON_CHARS + 1);
    let told = json!({"success": false, "errorReason": long, "errorMessage": long});
    let response = check(&told, true, &[]).expect("read");
    for text in [response.reason, response.message] {
        assert_eq!(text.expect("kept").chars().count(), MAX_REASON_CHARS);
    }
}

#[test]
fn texts_that_are_no_receipt() {
    for (value, expected) in [
        (String::new(), code::HEADER),
        ("not base64".to_owned(), code::HEADER),
        ("A".repeat(header::MAX_BYTES + 4), code::HEADER),
        (header::encode(b"{"), code::NOT_JSON),
        (header::encode(b"[]"), code::NOT_AN_OBJECT),
        (header::encode(b"{\"success\":false,\"success\":true}"), code::DUPLICATE_KEY),
        (header::encode(format!("{{\"a\":{}{}}}", "[".repeat(70), "]".repeat(70)).as_bytes()), code::TOO_DEEP),
    ] {
        let reading = read_receipt(&value);
        assert_eq!(reading.findings.first().map(|finding| finding.code), Some(expected), "{value:.40}");
        assert!(reading.response.is_none());
    }
    let settled = settled().to_string();
    assert!(read_settle_response(settled.as_bytes(), settled.len()).response.is_some());
    let reading = read_settle_response(settled.as_bytes(), settled.len() - 1);
    assert_eq!(reading.findings[0].code, code::TOO_LARGE);
}

// T13: a success that belongs to another payment.
#[test]
fn a_settlement_is_that_of_the_payment() {
    let token = asset::usdc(8453).expect("listed");
    let offer = Offer::exact(&token, Amount::new(U256::from(5)), token.address, 60).expect("a chain");
    let from: alloy_primitives::Address = PAYER.parse().expect("an address");
    let authorization =
        crate::Authorization { from, to: token.address, value: offer.amount, valid_after: 0, valid_before: 1, nonce: B256::ZERO };
    let signature = crate::Signature::new(vec![1; 65]).expect("long enough");
    let payment = Payment::new(Version::V1, &offer, authorization, signature, None, Vec::new());
    let good = SettleResponse::settled(&payment, B256::repeat_byte(1));
    let no_transaction = SettleResponse { transaction: String::new(), ..good.clone() };
    let other = ChainAddress::evm(token.address);
    for (response, expected) in [
        (good.clone(), None),
        (SettleResponse { payer: None, ..good.clone() }, None),
        (SettleResponse { amount: Some(offer.amount), ..good.clone() }, None),
        (SettleResponse { network: None, ..good.clone() }, Some(code::NETWORK_DIFFERS)),
        (SettleResponse { network: ChainId::parse("eip155:1").ok(), ..good.clone() }, Some(code::NETWORK_DIFFERS)),
        (SettleResponse { payer: Some(other), ..good.clone() }, Some(code::PAYER_DIFFERS)),
        (SettleResponse { amount: Some(Amount::ZERO), ..good.clone() }, Some(code::AMOUNT_DIFFERS)),
        (no_transaction, Some(code::TRANSACTION)),
        (SettleResponse { transaction: B256::ZERO.to_string(), ..good }, Some(code::TRANSACTION)),
    ] {
        let findings = check_settlement(&response, &payment, &offer);
        assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), Vec::from_iter(expected), "{response:?}");
    }
    let refused = SettleResponse::failed(&payment, "insufficient_funds");
    assert_eq!(
        (refused.success, refused.transaction.as_str(), refused.reason.as_deref()),
        (false, "", Some("insufficient_funds"))
    );
}

#[test]
fn a_receipt_always_fits() {
    let long = Raw::parse(&format!("\"{}\"", "x".repeat(header::MAX_BYTES))).expect("JSON");
    let response = check(&settled(), true, &[]).expect("read");
    let long = SettleResponse { extensions: vec![("x".to_owned(), long)], ..response.clone() };
    assert_eq!(read_receipt(&long.to_header(Version::V2)).response, Some(response));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(payment in payments(), hash: [u8; 32], reason in proptest::option::of("\\PC{0,20}"), amount: [u64; 4], has_amount: bool) {
        let settled = SettleResponse {
            amount: has_amount.then(|| Amount::new(U256::from_limbs(amount))),
            message: reason.clone(),
            ..SettleResponse::settled(&payment, hash.into())
        };
        let failed = SettleResponse::failed(&payment, reason.as_deref().unwrap_or_default());
        for response in [settled, failed] {
            let reading = read_receipt(&response.to_header(payment.version));
            prop_assert_eq!(reading.response, Some(response), "{:?}", reading.findings);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,80}") {
        for reading in [read_receipt(&text), read_receipt(&header::encode(&bytes)), read_settle_response(&bytes, 200)] {
            let has_error = reading.findings.iter().any(|finding| finding.severity == Severity::Error);
            prop_assert_eq!(reading.response.is_none(), has_error);
        }
    }
}
