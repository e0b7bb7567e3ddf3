//! Requests to a facilitator, and the meaning of its responses: T13, T8 and T23 on the wire.

use alloy_primitives::{Address, U256, address};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_core::codes::{Code, payment as pay};
use toolcrib_core::money::Amount;

use super::*;
use crate::payment::tests::payments;
use crate::{Authorization, Signature, asset};

const HASH: &str = "0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef";
const PAYER: Address = address!("857b06519E91e3A54538791bDbb0E22373e36b66");
const PAYEE: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");

fn offer() -> Offer {
    Offer::exact(&asset::usdc(8453).expect("listed"), Amount::new(U256::from(20_000)), PAYEE, 60).expect("a chain")
}

fn sold() -> Resource {
    Resource { url: Some("https://tools.example.com/tides".to_owned()), ..Resource::default() }
}

fn payment(version: Version) -> Payment {
    let authorization = Authorization {
        from: PAYER,
        to: PAYEE,
        value: offer().amount,
        valid_after: 0,
        valid_before: 1_740_672_154,
        nonce: B256::repeat_byte(7),
    };
    // v is 0, as some wallets write it.
    let signature = Signature::new([vec![1; 64], vec![0]].concat()).expect("65 bytes");
    Payment::new(version, &offer(), authorization, signature, None, Vec::new())
}

fn request(version: Version, payment: &Payment) -> Json {
    let request = FacilitatorRequest { payment, offer: &offer(), resource: Some(&sold()), extensions: &[] };
    let json = serde_json::from_str::<Json>(&request.to_json().expect("named")).expect("JSON");
    assert_eq!(json["x402Version"], version.number());
    json
}

#[test]
fn our_extensions_are_passed_on_and_identifiers_are_not() {
    let bazaar = ("bazaar".to_owned(), Raw::parse(r#"{"info":{}}"#).expect("JSON"));
    let ours = [payment_id::declaration(), bazaar];
    for (version, expected) in [(Version::V1, Json::Null), (Version::V2, json!({"bazaar": {"info": {}}}))] {
        let mut payment = payment(version);
        payment.extensions = vec![payment_id::declaration(), ("theirs".to_owned(), Raw::parse("1").expect("JSON"))];
        payment_id::append(&mut payment.extensions, "pay_0f3c9a17b2d84e55a6c1");
        let request = FacilitatorRequest { payment: &payment, offer: &offer(), resource: None, extensions: &ours };
        let json = serde_json::from_str::<Json>(&request.to_json().expect("named")).expect("JSON");
        assert_eq!(json["paymentPayload"]["extensions"], expected, "{version}");
    }
}

#[test]
fn requests_have_the_shape_of_their_version() {
    let authorization = json!({
        "from": PAYER.to_checksum(None), "to": PAYEE.to_checksum(None), "value": "20000",
        "validAfter": "0", "validBefore": "1740672154", "nonce": format!("0x{}", "07".repeat(32))
    });
    let payload = json!({"signature": format!("0x{}1b", "01".repeat(64)), "authorization": authorization});
    let usdc = asset::usdc(8453).expect("listed").address.to_checksum(None);
    let extra = json!({"name": "USD Coin", "version": "2"});
    assert_eq!(
        request(Version::V1, &payment(Version::V1)),
        json!({
            "x402Version": 1,
            "paymentPayload": {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload},
            "paymentRequirements": {
                "scheme": "exact", "network": "base", "maxAmountRequired": "20000", "asset": usdc, "maxTimeoutSeconds": 60,
                "payTo": PAYEE.to_checksum(None), "resource": "https://tools.example.com/tides", "description": "",
                "mimeType": "application/json", "extra": extra
            }
        })
    );
    let accepted = json!({
        "scheme": "exact", "network": "eip155:8453", "amount": "20000", "asset": usdc, "maxTimeoutSeconds": 60,
        "payTo": PAYEE.to_checksum(None), "extra": extra
    });
    assert_eq!(
        request(Version::V2, &payment(Version::V2)),
        json!({
            "x402Version": 2,
            "paymentPayload": {
                "x402Version": 2, "resource": {"url": "https://tools.example.com/tides"}, "accepted": accepted, "payload": payload
            },
            "paymentRequirements": accepted
        })
    );
    let optimism = Offer::exact(&asset::usdc(10).expect("listed"), offer().amount, PAYEE, 60).expect("a chain");
    let payment = Payment { network: optimism.network.clone(), ..payment(Version::V1) };
    assert_eq!(FacilitatorRequest { payment: &payment, offer: &optimism, resource: None, extensions: &[] }.to_json(), None);
}

// T8, T19: what a caller sends beside the authorization is not forwarded.
#[test]
fn nothing_of_the_callers_is_passed_on() {
    let mut payment = payment(Version::V2);
    let accepted = payment.accepted.as_mut().expect("version 2");
    accepted.asset = ChainAddress::evm(PAYER);
    accepted.other.push(("evil".to_owned(), Raw::parse("1").expect("JSON")));
    payment.resource = Some(Resource { url: Some("https://evil.example".to_owned()), ..Resource::default() });
    payment.extensions.push(("evil".to_owned(), Raw::parse("{}").expect("JSON")));
    let text = request(Version::V2, &payment).to_string();
    assert!(!text.contains("evil"), "{text}");
    assert_eq!(text.matches(&PAYER.to_checksum(None)).count(), 1, "as the payer alone: {text}");
}

#[test]
fn requests_are_read_back_and_refused_when_torn() {
    for version in [Version::V1, Version::V2] {
        let good = request(version, &payment(version));
        let (read, offered) = read_facilitator_request(good.to_string().as_bytes()).expect("well-formed");
        assert_eq!(read.authorization, payment(version).authorization);
        assert!(offered.is_same_demand(&offer()));
        let without = |key: &str| {
            let mut torn = good.clone();
            torn.as_object_mut().expect("an object").remove(key);
            torn
        };
        assert!(read_facilitator_request(without("x402Version").to_string().as_bytes()).is_ok());
        let mut other = good.clone();
        other["x402Version"] = json!(3 - version.number());
        let mut mixed = good.clone();
        mixed["paymentRequirements"] = request(opposite(version), &payment(opposite(version)))["paymentRequirements"].clone();
        let mut numbers = good.clone();
        numbers["paymentPayload"]["payload"]["authorization"]["value"] = json!(20000);
        let cases: [(Json, Option<Code>); 5] = [
            (without("paymentPayload"), Some(code::FIELD_MISSING)),
            (without("paymentRequirements"), Some(code::FIELD_MISSING)),
            (other, Some(code::REQUIREMENTS_DIFFER)),
            (mixed, None),
            (numbers, Some(code::WRONG_TYPE)),
        ];
        for (torn, expected) in cases {
            let findings = read_facilitator_request(torn.to_string().as_bytes()).expect_err("torn");
            assert!(expected.is_none_or(|code| findings[0].code == code), "{torn} {findings:?}");
        }
    }
    let findings = read_facilitator_request(&vec![b' '; MAX_FACILITATOR_BYTES + 1]).expect_err("too long");
    assert_eq!(findings[0].code, code::TOO_LARGE);
    assert_ne!(pay::FIELD_MISSING, code::FIELD_MISSING);
}

const fn opposite(version: Version) -> Version {
    match version {
        Version::V1 => Version::V2,
        Version::V2 => Version::V1,
    }
}

#[test]
fn answers_of_verify() {
    let answered =
        |status, body: &str| verify_outcome(FacilitatorAnswer::Answered { status, body: body.as_bytes() }, &payment(Version::V1));
    let valid = format!("{{\"isValid\":true,\"payer\":\"{PAYER:#x}\"}}");
    assert_eq!(answered(200, &valid), VerifyOutcome::Valid);
    assert_eq!(answered(200, "{\"isValid\":true}"), VerifyOutcome::Valid);
    for status in [200, 400, 402, 500] {
        let VerifyOutcome::Invalid(response) = answered(status, "{\"isValid\":false,\"invalidReason\":\"insufficient_funds\"}")
        else {
            panic!("a refusal, whatever the status");
        };
        assert_eq!(response.reason.as_deref(), Some("insufficient_funds"));
        assert_eq!(read_verify_response(response.to_json().as_bytes()).0, Some(response));
    }
    for reason in ["nonce_already_used", "FiatTokenV2: authorization is used or canceled"] {
        let body = json!({"isValid": false, "invalidReason": reason}).to_string();
        assert!(matches!(answered(200, &body), VerifyOutcome::NonceUsed(_)), "{reason}");
    }
    let other = format!("{{\"isValid\":true,\"payer\":\"{PAYEE:#x}\"}}");
    for (status, body) in
        [(500, valid.as_str()), (200, ""), (200, "[]"), (200, "{\"isValid\":\"true\"}"), (200, "{}"), (200, &other)]
    {
        assert!(matches!(answered(status, body), VerifyOutcome::Unavailable(_)), "{status} {body}");
    }
    for answer in [FacilitatorAnswer::NotSent, FacilitatorAnswer::Lost] {
        assert_eq!(verify_outcome(answer, &payment(Version::V1)), VerifyOutcome::Unavailable(Vec::new()));
    }
}

// T13, T15
#[test]
fn answers_of_settle() {
    let word = |status: u16, body: &Json| {
        let body = body.to_string();
        let answer = FacilitatorAnswer::Answered { status, body: body.as_bytes() };
        match settle_outcome(answer, &payment(Version::V1), &offer()) {
            SettleOutcome::Settled(_) => "settled",
            SettleOutcome::Pending(_) => "pending",
            SettleOutcome::Refused(_) => "refused",
            SettleOutcome::NonceUsed(_) => "nonce used",
            SettleOutcome::NotTaken(_) => "not taken",
            SettleOutcome::NotAttempted => "not attempted",
            SettleOutcome::Unknown { transaction: None, .. } => "unknown",
            SettleOutcome::Unknown { transaction: Some(_), .. } => "look there",
        }
    };
    let settled = json!({"success": true, "transaction": HASH, "network": "base", "payer": PAYER.to_checksum(None)});
    let with = |key: &str, value: Json| {
        let mut message = settled.clone();
        message[key] = value;
        message
    };
    let refused = |reason: &str| json!({"success": false, "errorReason": reason, "transaction": "", "network": "base"});
    let hashed = |reason: &str| json!({"success": false, "errorReason": reason, "transaction": HASH, "network": "base"});
    // As viem writes it: the node's message comes last, after the whole transaction.
    let not_taken = format!(
        "Transaction creation failed.\n\nRequest body: 0x{}\nDetails: replacement transaction underpriced",
        "5c".repeat(900)
    );
    for (status, body, expected) in [
        (200, settled.clone(), "settled"),
        (200, refused(&not_taken), "not taken"),
        (200, with("network", json!("eip155:8453")), "settled"),
        (200, with("network", json!("polygon")), "look there"),
        (200, with("payer", json!(PAYEE.to_checksum(None))), "look there"),
        (200, with("amount", json!("1")), "look there"),
        (200, with("transaction", json!("")), "unknown"),
        (200, with("success", json!("true")), "unknown"),
        // The body decides: refusals come with any status, and so do successes.
        (200, refused("insufficient_funds"), "refused"),
        (400, refused("invalid_signature"), "refused"),
        (402, refused("insufficient_funds"), "refused"),
        (500, refused("insufficient_funds"), "refused"),
        (500, settled.clone(), "settled"),
        (200, hashed("settlement_pending"), "pending"),
        (202, refused("settlement_pending"), "pending"),
        (200, hashed("transfer_event_mismatch"), "look there"),
        (200, json!({"success": false, "errorReason": "insufficient_funds", "transaction": "?"}), "unknown"),
        (200, json!({"success": false, "errorReason": "insufficient_funds", "network": "mars"}), "refused"),
        (200, refused("unexpected_settle_error"), "unknown"),
        (200, refused("invalid_transaction_state"), "unknown"),
        (200, refused("duplicate_settlement"), "unknown"),
        (200, refused("invalid_exact_evm_nonce_already_used"), "nonce used"),
        (200, hashed("invalid_exact_evm_nonce_already_used"), "look there"),
        // Responses of stock facilitators after a broadcast, or if they do not know the outcome, by group.
        (200, refused("transaction_failed"), "unknown"),
        (200, refused("invalid_exact_evm_transaction_failed"), "unknown"),
        (200, refused("Timed out while waiting for transaction with hash \"0x12\" to be confirmed."), "unknown"),
        (200, refused("a word of tomorrow"), "unknown"),
        (200, json!({"success": false}), "unknown"),
        (500, json!({"error": "internal"}), "unknown"),
        (200, json!({}), "unknown"),
        (502, json!("bad gateway"), "unknown"),
        (401, json!({"error": "unauthorized"}), "unknown"),
        (429, json!({"error": "slow down"}), "unknown"),
        (404, json!("not found"), "unknown"),
        (429, json!({"success": "perhaps"}), "unknown"),
    ] {
        assert_eq!(word(status, &body), expected, "{status} {body}");
    }
    let outcome = |answer| settle_outcome(answer, &payment(Version::V1), &offer());
    assert_eq!(outcome(FacilitatorAnswer::NotSent), SettleOutcome::NotAttempted);
    assert!(matches!(outcome(FacilitatorAnswer::Lost), SettleOutcome::Unknown { .. }));
}

#[test]
fn what_a_facilitator_supports() {
    let message = json!({
        "kinds": [
            {"x402Version": 1, "scheme": "exact", "network": "base"},
            {"x402Version": 2, "scheme": "exact", "network": "eip155:84532", "extra": {"a": 1}},
            {"x402Version": 2, "scheme": "exact", "network": "no chain"},
            {"x402Version": 3, "scheme": "exact", "network": "eip155:8453"}
        ],
        "extensions": ["bazaar", 7],
        "signers": {
            "eip155:*": ["0x...", PAYER, PAYEE.to_checksum(None), 7], "eip155:84532": [PAYER], "eip155:1": "0x", "solana:*": [PAYER]
        }
    });
    let (supported, findings) = read_supported(message.to_string().as_bytes());
    let supported = supported.unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!((supported.kinds.len(), supported.extensions.as_slice()), (3, &["bazaar".to_owned()][..]));
    assert!(supported.settles(Version::V1, &offer()) && !supported.settles(Version::V2, &offer()));
    let sepolia = Offer::exact(&asset::usdc(84_532).expect("listed"), offer().amount, PAYEE, 60).expect("a chain");
    assert!(supported.settles(Version::V2, &sepolia) && !supported.settles(Version::V1, &sepolia));
    assert!(!supported.settles(Version::V2, &Offer { scheme: "upto".to_owned(), ..sepolia }));
    assert_eq!(read_supported(supported.to_json().as_bytes()).0.as_ref(), Some(&supported));
    let network = |id: &str| ChainId::parse(id).expect("a chain");
    let signers = |id: &str| supported.signers_on(&network(id)).collect::<Vec<_>>();
    assert_eq!(signers("eip155:84532"), [PAYER, PAYEE, PAYER]);
    assert_eq!(signers("eip155:8453"), [PAYER, PAYEE]);
    assert!(signers("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp").is_empty(), "accounts of EVM chains alone");
    for none in [json!(null), json!([PAYER]), json!({"eip155:*": []}), json!({"eip155:*": {"0": PAYER}})] {
        let (supported, _) = read_supported(json!({"kinds": [], "signers": none}).to_string().as_bytes());
        assert_eq!(supported.map(|supported| supported.signers), Some(Vec::new()), "{none}");
    }
    let (crowd, _) = read_supported(json!({"kinds": [], "signers": {"eip155:*": vec![PAYER; 1_000]}}).to_string().as_bytes());
    assert_eq!(crowd.expect("a list").signers.len(), MAX_SIGNERS);
    let kind = "{\"x402Version\":2,\"scheme\":\"exact\",\"network\":\"eip155:1\"}";
    let many = |count: usize| format!("{{\"kinds\":[{}]}}", vec![kind; count].join(","));
    assert!(read_supported(many(MAX_KINDS).as_bytes()).0.is_some());
    assert_eq!(read_supported(many(MAX_KINDS + 1).as_bytes()).1[0].code, code::TOO_MANY_KINDS);
    assert_eq!(read_supported(b"{}").1[0].code, code::FIELD_MISSING);
    assert_eq!(read_supported(b"{\"kinds\":{}}").1[0].code, code::WRONG_TYPE);
}

proptest! {
    #[test]
    fn what_is_sent_reads_back(payment in payments()) {
        let offer = payment.accepted.clone().unwrap_or_else(offer);
        let payment = Payment { network: offer.network.clone(), ..payment };
        let text = FacilitatorRequest { payment: &payment, offer: &offer, resource: Some(&sold()), extensions: &[] }.to_json().expect("named");
        let (read, offered) = read_facilitator_request(text.as_bytes()).expect("well-formed");
        prop_assert_eq!(read.authorization, payment.authorization);
        prop_assert_eq!(read.signature, payment.signature.canonical());
        prop_assert!(offered.is_same_demand(&offer));
    }

    #[test]
    fn no_answer_is_too_strange(status in 100_u16..600, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (payment, offer) = (payment(Version::V2), offer());
        let answer = FacilitatorAnswer::Answered { status, body: &body };
        prop_assert!(!matches!(settle_outcome(answer, &payment, &offer), SettleOutcome::Settled(_)));
        prop_assert_ne!(verify_outcome(answer, &payment), VerifyOutcome::Valid);
        let _ = read_supported(&body);
        prop_assert!(read_facilitator_request(&body).is_err());
    }
}
