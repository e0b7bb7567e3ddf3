//! Parsing of headers into payments or findings. T11 and the grammar of T5, T9 and T10.

use alloy_primitives::{U256, address, b256};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_core::codes::{Code, amount};

use super::*;
use crate::{Raw, asset, network};

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const PAYER: &str = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const NONCE: &str = "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480";

fn signature() -> String {
    format!("0x{}1c", "2d".repeat(64))
}

fn payload() -> Json {
    json!({
        "signature": signature(),
        "authorization": {
            "from": PAYER, "to": PAYEE, "value": "20000", "validAfter": "0", "validBefore": "1740672154", "nonce": NONCE
        }
    })
}

fn v1() -> Json {
    json!({"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload()})
}

fn v2() -> Json {
    json!({
        "x402Version": 2,
        "resource": {"url": "https://tools.example.com/tides"},
        "accepted": {
            "scheme": "exact", "network": "eip155:8453", "amount": "20000", "asset": USDC, "payTo": PAYEE,
            "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"}
        },
        "payload": payload(),
        "extensions": {"bazaar": {"info": {}, "schema": {}}}
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

fn encoded(message: &Json) -> String {
    header::encode(message.to_string().as_bytes())
}

/// Parses a message in the header of its version and expects exactly these codes.
#[track_caller]
fn check(message: &Json, expected: &[Code]) {
    let version = if message["x402Version"] == 2 { Version::V2 } else { Version::V1 };
    let reading = read_payment(version, &encoded(message));
    let found: Vec<_> = reading.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, expected, "{message}\n{:#?}", reading.findings);
    assert_eq!(reading.payment.is_some(), expected.is_empty(), "{message}");
}

// req: PAY-012, PAY-013
#[test]
fn a_payment_is_read_in_both_versions() {
    for (message, version) in [(v1(), Version::V1), (v2(), Version::V2)] {
        let payment = read_payment(version, &encoded(&message)).into_result().expect("well-formed");
        assert_eq!((payment.version, payment.network.as_str()), (version, "eip155:8453"));
        let expected = Authorization {
            from: address!("857b06519E91e3A54538791bDbb0E22373e36b66"),
            to: address!("209693Bc6afc0C5328bA36FaF03C514EF312287C"),
            value: Amount::new(U256::from(20_000)),
            valid_after: 0,
            valid_before: 1_740_672_154,
            nonce: b256!("f3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480"),
        };
        assert_eq!(payment.authorization, expected);
        assert_eq!(payment.signature.to_string(), signature());
        assert_eq!(payment.accepted.is_some(), version == Version::V2);
        assert_eq!(payment.resource.is_some(), version == Version::V2);
        assert_eq!(payment.extensions.len(), usize::from(version == Version::V2));
        assert_eq!(read_payment_json(message.to_string().as_bytes()).payment.as_ref(), Some(&payment));
        // Serialisation gives the parsed message, except for the order of its members.
        let written: Json = serde_json::from_str(&payment.to_json().expect("a name")).expect("JSON");
        assert_eq!(written, message);
    }
}

// T11: the headers around the payment.
// req: PAY-012
#[test]
fn one_header_once() {
    let (one, two) = (encoded(&v1()), encoded(&v2()));
    let read = |headers: &[(&str, &str)]| read_payment_headers(headers.iter().map(|&(name, value)| (name, value.as_bytes())));
    assert!(read(&[]).is_none());
    assert!(read(&[("content-type", "application/json"), ("payment-required", &one), ("x-payments", &one)]).is_none());
    for (headers, version) in [
        (&[("X-Payment", one.as_str())][..], Version::V1),
        (&[("x-payment", &format!("  {one}\t")), ("accept", "*/*")], Version::V1),
        (&[("payment-signature", &two)], Version::V2),
    ] {
        let reading = read(headers).expect("there is one");
        assert_eq!((reading.version, reading.payment.is_some()), (Some(version), true), "{:?}", reading.findings);
    }
    let joined = format!("{one}, {one}");
    for (headers, code, version) in [
        (&[("x-payment", one.as_str()), ("PAYMENT-SIGNATURE", &two)][..], code::BOTH_HEADERS, None),
        (&[("x-payment", ""), ("payment-signature", "")], code::BOTH_HEADERS, None),
        (&[("x-payment", &one), ("X-PAYMENT", &one)], code::HEADER_TWICE, Some(Version::V1)),
        (&[("payment-signature", &two), ("payment-signature", "")], code::HEADER_TWICE, Some(Version::V2)),
        (&[("x-payment", &joined)], code::BASE64, Some(Version::V1)),
        (&[("x-payment", "")], code::BASE64, Some(Version::V1)),
        // Each version in its own header.
        (&[("x-payment", &two)], code::VERSION, Some(Version::V1)),
        (&[("payment-signature", &one)], code::VERSION, Some(Version::V2)),
    ] {
        let reading = read(headers).expect("there is one");
        assert_eq!(reading.findings.first().map(|finding| finding.code), Some(code), "{headers:?}");
        assert_eq!((reading.version, reading.payment), (version, None));
    }
    for bytes in [&b"\xff\xfe"[..], &vec![0xff; header::MAX_BYTES + 1]] {
        let reading = read_payment_headers([("x-payment", bytes)]).expect("there is one");
        let expected = if bytes.len() == 2 { code::BASE64 } else { code::HEADER_TOO_LONG };
        assert_eq!(reading.findings[0].code, expected);
    }
}

// T11: the encoding of the header and of the JSON in it.
#[test]
fn one_spelling() {
    let text = v1().to_string();
    let good = header::encode(text.as_bytes());
    // Blanks after the JSON until there is padding to remove.
    let blanks = (0..3).map(|count| header::encode(format!("{text}{}", " ".repeat(count)).as_bytes()));
    let padded = blanks.into_iter().find(|value| value.ends_with("==")).expect("one of three");
    assert!(read_payment(Version::V1, &padded).payment.is_some());
    let url_safe = header::encode(text.replace("exact", "\u{ff}\u{ff}\u{ff}").as_bytes()).replace('/', "_");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(70), "]".repeat(70));
    let twice = text.replace("\"validAfter\":\"0\"", "\"validAfter\":\"0\",\"validAfter\":\"0\"");
    let escaped = text.replace("\"value\":\"20000\"", "\"value\":\"20000\",\"v\\u0061lue\":\"0\"");
    for (value, expected) in [
        (url_safe, code::BASE64),
        (padded.trim_end_matches('=').to_owned(), code::BASE64),
        (format!("{}\n{}", &good[..4], &good[4..]), code::BASE64),
        (text, code::BASE64),
        ("A".repeat(header::MAX_BYTES + 1), code::HEADER_TOO_LONG),
        ("A".repeat(1 << 20), code::HEADER_TOO_LONG),
        ("A".repeat(header::MAX_BYTES), code::NOT_JSON),
        (header::encode(b"null"), code::NOT_AN_OBJECT),
        (header::encode(b"[]"), code::NOT_AN_OBJECT),
        (header::encode(b"\xff{}"), code::NOT_JSON),
        (header::encode(b"{}{}"), code::NOT_JSON),
        (header::encode(deep.as_bytes()), code::TOO_DEEP),
        (header::encode(twice.as_bytes()), code::DUPLICATE_KEY),
        (header::encode(escaped.as_bytes()), code::DUPLICATE_KEY),
    ] {
        let reading = read_payment(Version::V1, &value);
        assert_eq!(reading.findings.first().map(|finding| finding.code), Some(expected), "{}", &value[..value.len().min(80)]);
        assert!(reading.payment.is_none());
    }
}

// T11
#[test]
fn the_version_is_a_plain_number() {
    for version in ["\"1\"", "1.0", "1e0", "3", "0", "null", "true", "-1"] {
        let text = v1().to_string().replace("\"x402Version\":1", &format!("\"x402Version\":{version}"));
        let reading = read_payment(Version::V1, &header::encode(text.as_bytes()));
        assert_eq!(reading.findings.first().map(|finding| finding.code), Some(code::VERSION), "{version}");
        assert!(read_payment_json(text.as_bytes()).payment.is_none());
    }
    check(&with(v1(), "/x402Version", None), &[code::FIELD_MISSING]);
}

// T5, T9, T10: fields are interpreted literally.
// req: PAY-013
#[test]
fn fields_are_never_guessed() {
    let texts = |values: &[&str]| values.iter().map(|&value| json!(value)).collect::<Vec<_>>();
    let nonce = NONCE;
    let mut cases: Vec<(&str, Vec<Json>, Code)> = vec![
        ("value", texts(&[""]), amount::EMPTY),
        ("value", texts(&["0x2710", "1e4", " 10000", "10 000", "1_0"]), amount::CHARACTER),
        ("value", texts(&["010000", "00"]), amount::LEADING_ZERO),
        ("value", texts(&["-1", "+1"]), amount::SIGN),
        ("value", texts(&["0.02"]), amount::DECIMAL_POINT),
        ("value", texts(&["115792089237316195423570985008687907853269984665640564039457584007913129639936"]), amount::TOO_LARGE),
        ("nonce", texts(&["", "0x", &nonce[2..], &nonce[..65], &format!("{nonce}0"), &nonce.replace("0x", "0X")]), code::NONCE),
        ("from", texts(&["0x", "alice.eth", &PAYER[2..], &PAYER.replace("0x", "0X")]), x402::ADDRESS),
        ("from", texts(&["0x857B06519E91e3A54538791bDbb0E22373e36b66"]), x402::ADDRESS_CHECKSUM),
        ("to", texts(&["0x209693Bc6afc0C5328bA36FaF03C514EF312287"]), x402::ADDRESS),
        ("from", texts(&["0x0000000000000000000000000000000000000000"]), code::FROM_ZERO_ADDRESS),
    ];
    let times = texts(&["", "0x1", "1e3", "01", " 1", "-1", "1.5", "18446744073709551616", "soon"]);
    for key in ["validAfter", "validBefore"] {
        cases.push((key, times.clone(), code::TIME));
    }
    for key in ["from", "to", "value", "validAfter", "validBefore", "nonce"] {
        cases.push((key, vec![json!(1), Json::Null, json!(["1"]), json!({})], code::WRONG_TYPE));
    }
    for base in [v1(), v2()] {
        for (key, values, code) in &cases {
            for value in values {
                check(&with(base.clone(), &format!("/payload/authorization/{key}"), Some(value.clone())), &[*code]);
            }
        }
        for key in ["from", "to", "value", "validAfter", "validBefore", "nonce"] {
            check(&with(base.clone(), &format!("/payload/authorization/{key}"), None), &[code::FIELD_MISSING]);
        }
        for key in ["/payload", "/payload/authorization", "/payload/signature"] {
            check(&with(base.clone(), key, None), &[code::FIELD_MISSING]);
            check(&with(base.clone(), key, Some(json!(7))), &[code::WRONG_TYPE]);
        }
        for bad in ["", "0x", &"1c".repeat(65), &format!("0x{}", "1c".repeat(64)), &format!("{}0", signature())] {
            check(&with(base.clone(), "/payload/signature", Some(json!(bad))), &[code::SIGNATURE]);
        }
        let most = with(base.clone(), "/payload/authorization/validBefore", Some(json!("18446744073709551615")));
        check(&most, &[]);
        // Lower case carries no checksum, and unknown fields are ignored.
        check(&with(base.clone(), "/payload/authorization/from", Some(json!(PAYER.to_lowercase()))), &[]);
        check(&with(base.clone(), "/payload/authorization/gas", Some(json!(7))), &[]);
        check(&with(base, "/more", Some(json!({"value": "1"}))), &[]);
    }
}

// req: PAY-013
#[test]
fn schemes_networks_and_methods_that_are_not_ours() {
    for (pointer, value, code) in [
        ("/scheme", json!("upto"), code::SCHEME),
        ("/scheme", json!("Exact"), code::SCHEME),
        ("/network", json!("base-goerli"), x402::NETWORK_UNKNOWN),
        ("/network", json!("eip155:8453"), x402::NETWORK_NAME),
        ("/network", json!("solana"), code::NETWORK),
        ("/network", json!(8453), code::WRONG_TYPE),
    ] {
        check(&with(v1(), pointer, Some(value)), &[code]);
    }
    check(&with(v1(), "/scheme", None), &[code::FIELD_MISSING]);
    check(&with(v1(), "/network", None), &[code::FIELD_MISSING]);
    for (pointer, value, code) in [
        ("/accepted/scheme", json!("batch-settlement"), code::SCHEME),
        ("/accepted/network", json!("base"), x402::NETWORK_NAME),
        ("/accepted/network", json!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"), code::NETWORK),
        ("/accepted/network", json!("mars"), x402::NETWORK_UNKNOWN),
        ("/accepted/extra/assetTransferMethod", json!("permit2"), code::METHOD),
        ("/accepted/amount", json!(20000), code::WRONG_TYPE),
        ("/accepted/asset", json!("USDC"), x402::ADDRESS),
        ("/accepted", json!([]), code::WRONG_TYPE),
        ("/resource", json!("https://tools.example.com"), code::WRONG_TYPE),
        ("/extensions", json!([]), code::WRONG_TYPE),
    ] {
        check(&with(v2(), pointer, Some(value)), &[code]);
    }
    for key in ["scheme", "network", "amount", "asset", "payTo"] {
        check(&with(v2(), &format!("/accepted/{key}"), None), &[code::FIELD_MISSING]);
    }
    check(&with(v2(), "/accepted", None), &[code::FIELD_MISSING]);
    // Fields that stock clients send or omit.
    for key in ["/extensions", "/resource"] {
        check(&with(v2(), key, Some(Json::Null)), &[]);
        check(&with(v2(), key, None), &[]);
    }
    check(&with(v2(), "/accepted/extra/assetTransferMethod", Some(json!("eip3009"))), &[]);
    // A domain that our client would not sign for is the payer's decision here: the signature decides.
    check(&with(v2(), "/accepted/extra/name", Some(json!("USDC"))), &[]);
    let permit = json!({"signature": signature(), "permit2Authorization": {"from": PAYER}});
    for base in [v1(), v2()] {
        check(&with(base.clone(), "/payload", Some(permit.clone())), &[code::METHOD]);
        check(&with(base, "/payload", Some(json!({"transaction": "AQ=="}))), &[code::METHOD]);
    }
}

#[test]
fn findings_do_not_show_what_could_be_used() {
    let secret = "2d".repeat(64);
    let short = with(v1(), "/payload/signature", Some(json!(format!("0x{secret}"))));
    let reading = read_payment(Version::V1, &encoded(&short));
    assert!(!format!("{reading:?}").contains(&secret));
    let reading = read_payment(Version::V1, &format!("{}-", encoded(&v1())));
    assert!(reading.findings[0].got.is_none());
    let payment = read_payment(Version::V1, &encoded(&v1())).into_result().expect("well-formed");
    assert!(!format!("{payment:?}").contains(&secret));
}

#[test]
fn json_of_other_transports_has_the_same_cap() {
    let text = v2().to_string();
    let filled = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert!(read_payment_json(filled(header::MAX_BYTES).as_bytes()).payment.is_some());
    let reading = read_payment_json(filled(header::MAX_BYTES + 1).as_bytes());
    assert_eq!((reading.findings[0].code, reading.version), (code::TOO_LARGE, None));
}

#[test]
fn version_1_needs_a_name_and_version_2_an_offer() {
    let mut payment = read_payment(Version::V1, &encoded(&v1())).into_result().expect("well-formed");
    payment.network = ChainId::parse("eip155:10").expect("a chain");
    assert_eq!((payment.to_json(), payment.to_header()), (None, None));
    payment.version = Version::V2;
    assert_eq!(payment.to_json(), None);
    let mut payment = read_payment(Version::V2, &encoded(&v2())).into_result().expect("well-formed");
    let long = Raw::parse(&format!("\"{}\"", "x".repeat(header::MAX_BYTES))).expect("JSON");
    payment.extensions.push(("long".to_owned(), long));
    assert_eq!(payment.to_header(), None);
}

pub(crate) fn authorizations() -> impl Strategy<Value = Authorization> {
    (any::<[u8; 20]>(), any::<[u8; 20]>(), any::<[u64; 4]>(), any::<u64>(), any::<u64>(), any::<[u8; 32]>())
        .prop_filter("a payer is somebody", |(from, ..)| *from != [0; 20])
        .prop_map(|(from, to, value, valid_after, valid_before, nonce)| Authorization {
            from: from.into(),
            to: to.into(),
            value: Amount::new(U256::from_limbs(value)),
            valid_after,
            valid_before,
            nonce: nonce.into(),
        })
}

pub(crate) fn payments() -> impl Strategy<Value = Payment> {
    let signature = proptest::collection::vec(any::<u8>(), 65..300).prop_filter_map("long enough", Signature::new);
    let token = proptest::sample::select(asset::ALL).prop_filter("version 1 has a name for it", |token| {
        ChainId::parse(&format!("eip155:{}", token.chain)).is_ok_and(|chain| network::by_chain(&chain).is_some())
    });
    (authorizations(), signature, token, any::<bool>(), any::<[u64; 4]>(), 1_u64..1 << 53, "\\PC{0,12}").prop_map(
        |(authorization, signature, token, is_v2, limbs, seconds, text)| {
            let version = if is_v2 { Version::V2 } else { Version::V1 };
            let offer = Offer::exact(&token, Amount::new(U256::from_limbs(limbs)), authorization.to, seconds).expect("a chain");
            let resource = Resource { url: Some("https://a.example".to_owned()), description: Some(text), ..Resource::default() };
            let extensions = vec![("x".to_owned(), Raw::parse("{\"info\":[1,null]}").expect("JSON"))];
            Payment::new(version, &offer, authorization, signature, Some(resource), extensions)
        },
    )
}

proptest! {
    // req: PAY-012, PAY-013, PAY-014
    #[test]
    fn what_is_written_reads_back(payment in payments()) {
        let header = payment.to_header().expect("short and named");
        let reading = read_payment(payment.version, &header);
        prop_assert_eq!(reading.payment.as_ref(), Some(&payment), "{:?}", reading.findings);
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,80}") {
        for version in [Version::V1, Version::V2] {
            let readings = [
                read_payment(version, &text),
                read_payment(version, &header::encode(&bytes)),
                read_payment_json(&bytes),
                read_payment_headers([(version.payment_header(), &bytes[..])]).expect("there is one"),
            ];
            for reading in readings {
                prop_assert_eq!(reading.payment.is_none(), !reading.findings.is_empty());
            }
        }
    }

    /// T11: changing one byte of a valid message gives another payment or a finding, and never both or neither.
    #[test]
    fn one_wrong_byte(at: prop::sample::Index, byte: u8, is_v2: bool) {
        let (message, version) = if is_v2 { (v2(), Version::V2) } else { (v1(), Version::V1) };
        let mut bytes = message.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let reading = read_payment(version, &header::encode(&bytes));
        prop_assert_eq!(reading.payment.is_none(), !reading.findings.is_empty());
        if let Some(payment) = reading.payment {
            let again = read_payment(version, &payment.to_header().expect("named")).into_result().expect("well-formed");
            prop_assert_eq!(again.authorization, payment.authorization);
            prop_assert_eq!(again.signature, payment.signature);
        }
    }
}
