//! Tables over complete messages and responses; grammars have their tests in their modules.

use std::slice;

use Severity::{Error, Hint, Warning};
use alloy_primitives::{Address, U256, address};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_core::codes::{Code, amount, x402 as xc};

use super::*;

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const OTHER: Address = address!("857b06519E91e3A54538791bDbb0E22373e36b66");

fn v1_offer() -> Json {
    json!({
        "scheme": "exact", "network": "base", "maxAmountRequired": "20000", "asset": USDC, "payTo": PAYEE,
        "resource": "https://tools.example.com/tides", "description": "", "mimeType": "application/json",
        "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"}
    })
}

fn v2_offer() -> Json {
    json!({
        "scheme": "exact", "network": "eip155:8453", "amount": "20000", "asset": USDC, "payTo": PAYEE,
        "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"}
    })
}

fn v1(offers: &[Json]) -> Json {
    json!({"x402Version": 1, "error": "X-PAYMENT header is required", "accepts": offers})
}

fn v2(offers: &[Json]) -> Json {
    json!({"x402Version": 2, "resource": {"url": "https://tools.example.com/tides"}, "accepts": offers})
}

/// `base` with one member added.
fn with(mut base: Json, key: &str, value: Json) -> Json {
    base.as_object_mut().expect("an object").insert(key.to_owned(), value);
    base
}

/// `base` with one member removed.
fn without(mut base: Json, key: &str) -> Json {
    base.as_object_mut().expect("an object").remove(key);
    base
}

fn codes_of(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|finding| (finding.code.id(), finding.severity)).collect()
}

/// Parses a body and expects exactly these findings.
#[track_caller]
fn body(message: &Json, expected: &[(Code, Severity)]) -> Reading {
    let reading = read_body(message.to_string().as_bytes());
    let expected: Vec<_> = expected.iter().map(|(code, severity)| (code.id(), *severity)).collect();
    assert_eq!(codes_of(&reading.findings), expected, "{message}\n{:#?}", reading.findings);
    reading
}

/// Parses a header and expects exactly these findings.
#[track_caller]
fn header(message: &Json, expected: &[(Code, Severity)]) -> Reading {
    let reading = read_header(&header::encode(message.to_string().as_bytes()));
    let expected: Vec<_> = expected.iter().map(|(code, severity)| (code.id(), *severity)).collect();
    assert_eq!(codes_of(&reading.findings), expected, "{message}\n{:#?}", reading.findings);
    reading
}

// req: PAY-010
#[test]
fn a_complete_challenge_is_read_in_both_versions() {
    let one = body(&v1(&[v1_offer()]), &[]);
    let two = header(&v2(&[v2_offer()]), &[]);
    for (reading, version) in [(one, Version::V1), (two, Version::V2)] {
        let challenge = reading.sound().expect("sound");
        assert_eq!(challenge.version, version);
        let offer = &challenge.accepts[0];
        assert_eq!((offer.scheme.as_str(), offer.network.as_str()), ("exact", "eip155:8453"));
        assert_eq!(offer.asset.evm_address(), Some(USDC.parse().expect("an address")));
        assert_eq!((offer.pay_to.as_str(), offer.shown_amount().as_str()), (PAYEE, "20000 (0.02 USDC)"));
        assert_eq!(offer.max_timeout_seconds, Some(60));
        let extra = offer.extra.as_ref().expect("extra");
        assert_eq!((extra.name.as_deref(), extra.version.as_deref()), (Some("USD Coin"), Some("2")));
    }
}

// req: PAY-010
#[test]
fn the_short_challenge_of_the_guide_can_be_paid_but_not_by_stock_clients() {
    for price in ["0", "20000"] {
        let short = json!({"accepts": [{
            "scheme": "exact", "network": "base", "payTo": PAYEE, "maxAmountRequired": price, "asset": USDC
        }]});
        let missing = (xc::FIELD_MISSING, Warning);
        let reading =
            body(&short, &[(xc::VERSION_MISSING, Warning), missing, (xc::DOMAIN_MISSING, Warning), missing, missing, missing]);
        let offer = &reading.sound().expect("no error").accepts[0];
        assert_eq!((offer.amount.to_string().as_str(), offer.max_timeout_seconds), (price, None));
    }
}

#[test]
fn what_stock_clients_of_version_1_refuse() {
    let offer = v1_offer;
    let missing = [(xc::FIELD_MISSING, Warning)];
    for key in ["resource", "description", "mimeType", "maxTimeoutSeconds"] {
        body(&v1(&[without(offer(), key)]), &missing);
    }
    let null = [(xc::NULL_FIELD, Warning)];
    for key in ["mimeType", "description", "outputSchema", "resource"] {
        body(&v1(&[with(offer(), key, Json::Null)]), &null);
    }
    body(&v1(&[with(offer(), "extra", Json::Null)]), &[(xc::NULL_FIELD, Warning), (xc::DOMAIN_MISSING, Warning)]);
    body(&v1(&[with(offer(), "outputSchema", json!([]))]), &[(xc::WRONG_TYPE, Error)]);
    let reading = body(&v1(&[with(offer(), "outputSchema", json!({"input": {"method": "GET"}}))]), &[]);
    assert!(reading.sound().expect("sound").accepts[0].output_schema.is_some());
    body(&v1(&[with(offer(), "resource", json!("/tides"))]), &[(xc::RESOURCE_URL, Warning)]);
    body(&v1(&[with(offer(), "resource", json!("mcp://tool/tides"))]), &[]);
    body(&v1(&[with(offer(), "scheme", json!("upto"))]), &[(xc::SCHEME_UNKNOWN, Warning)]);
    let later = with(without(offer(), "extra"), "network", json!("ethereum"));
    let expected = [(xc::ASSET_UNKNOWN, Warning), (xc::NETWORK_NOT_IN_V1, Warning), (xc::DOMAIN_MISSING, Warning)];
    let mut found = codes_of(&read_body(v1(&[later]).to_string().as_bytes()).findings);
    let mut expected = expected.map(|(code, severity)| (code.id(), severity));
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

// req: PRICE-002
#[test]
fn essential_fields_must_be_there_and_well_formed() {
    for key in ["scheme", "network", "payTo", "asset"] {
        for (base, read) in [(v1_offer(), true), (v2_offer(), false)] {
            let broken = [without(base.clone(), key), with(base.clone(), key, Json::Null), with(base, key, json!(5))];
            for (offer, code) in broken.into_iter().zip([xc::FIELD_MISSING, xc::WRONG_TYPE, xc::WRONG_TYPE]) {
                let reading = if read { body(&v1(&[offer]), &[(code, Error)]) } else { header(&v2(&[offer]), &[(code, Error)]) };
                assert!(reading.challenge.is_some_and(|challenge| challenge.accepts.is_empty()), "{key}");
            }
        }
    }
    for (text, code) in [
        (json!(""), amount::EMPTY),
        (json!("01"), amount::LEADING_ZERO),
        (json!("-1"), amount::SIGN),
        (json!("1.5"), amount::DECIMAL_POINT),
        (json!("1e4"), amount::CHARACTER),
        (json!("0x2710"), amount::CHARACTER),
        (json!(" 10000"), amount::CHARACTER),
        (json!("1".repeat(79)), amount::TOO_LONG),
        (json!("115792089237316195423570985008687907853269984665640564039457584007913129639936"), amount::TOO_LARGE),
        (json!(20_000), xc::WRONG_TYPE),
        (Json::Null, xc::WRONG_TYPE),
    ] {
        body(&v1(&[with(v1_offer(), "maxAmountRequired", text.clone())]), &[(code, Error)]);
        header(&v2(&[with(v2_offer(), "amount", text)]), &[(code, Error)]);
    }
    let most = json!("115792089237316195423570985008687907853269984665640564039457584007913129639935");
    header(&v2(&[with(v2_offer(), "amount", most)]), &[]);
}

#[test]
fn the_shape_of_the_other_version_is_named() {
    // Amount.
    let moved = |offer: Json, from: &str, to: &str| with(without(offer, from), to, json!("20000"));
    let reading = body(&v1(&[moved(v1_offer(), "maxAmountRequired", "amount")]), &[(xc::AMOUNT_NAME, Error)]);
    assert_eq!(reading.findings[0].expected.as_deref(), Some("maxAmountRequired"));
    let reading = header(&v2(&[moved(v2_offer(), "amount", "maxAmountRequired")]), &[(xc::AMOUNT_NAME, Error)]);
    assert_eq!(reading.findings[0].expected.as_deref(), Some("amount"));
    assert_eq!(reading.challenge.expect("read on").accepts.len(), 1, "the meaning is clear enough to compare");
    header(&v2(&[with(v2_offer(), "maxAmountRequired", json!("20000"))]), &[]);
    header(&v2(&[with(v2_offer(), "maxAmountRequired", json!("30000"))]), &[(xc::AMOUNT_TWICE, Error)]);
    // Network.
    let reading = body(&v1(&[with(v1_offer(), "network", json!("eip155:8453"))]), &[(xc::NETWORK_NAME, Error)]);
    assert_eq!(reading.findings[0].expected.as_deref(), Some("base"));
    let reading = header(&v2(&[with(v2_offer(), "network", json!("base"))]), &[(xc::NETWORK_NAME, Error)]);
    assert_eq!(reading.findings[0].expected.as_deref(), Some("eip155:8453"));
    // Version and place.
    body(&v2(&[v2_offer()]), &[(xc::V2_IN_BODY, Warning)]);
    header(&v1(&[v1_offer()]), &[(xc::V1_IN_HEADER, Error)]);
    assert!(read_json(v1(&[v1_offer()]).to_string().as_bytes()).sound().is_some());
    assert!(read_json(v2(&[v2_offer()]).to_string().as_bytes()).sound().is_some());
}

#[test]
fn versions_are_numbers_and_there_are_two() {
    for (value, reads_on) in
        [(json!("1"), true), (json!("2"), true), (json!(3), false), (json!(0), false), (json!(1.5), false), (Json::Null, false)]
    {
        let reading = read_body(with(v1(&[v1_offer()]), "x402Version", value.clone()).to_string().as_bytes());
        assert!(reading.findings.iter().any(|finding| finding.code == xc::VERSION_UNKNOWN), "{value}");
        assert!(reading.sound().is_none());
        assert_eq!(reading.challenge.is_some(), reads_on, "{value}");
    }
    body(&with(v1(&[v1_offer()]), "x402Version", json!(1.0)), &[]);
    header(&without(v2(&[v2_offer()]), "x402Version"), &[(xc::VERSION_MISSING, Error)]);
    let reading = read_json(without(v2(&[v2_offer()]), "x402Version").to_string().as_bytes());
    assert!(reading.challenge.is_none());
}

#[test]
fn networks_are_known_or_refused() {
    for (text, near) in [
        ("bse", "base"),
        ("optimism", "a name such as base"),
        ("Base", "base"),
        ("base_sepolia", "base-sepolia"),
        ("", "a name such as base"),
    ] {
        let reading = body(&v1(&[with(v1_offer(), "network", json!(text))]), &[(xc::NETWORK_UNKNOWN, Error)]);
        assert_eq!(reading.findings[0].expected.as_deref(), Some(near), "{text}");
    }
    for text in ["8453", "eip155:", "eip155:08453", "eip155:0x2105", "EIP155:8453", "polygn"] {
        header(&v2(&[with(v2_offer(), "network", json!(text))]), &[(xc::NETWORK_UNKNOWN, Error)]);
    }
    let solana = json!({
        "scheme": "exact", "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "amount": "1", "maxTimeoutSeconds": 60,
        "asset": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "payTo": "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4"
    });
    let reading = header(&v2(slice::from_ref(&solana)), &[(toolcrib_core::codes::caip::NAMESPACE_UNVERIFIED, Hint)]);
    assert_eq!(reading.sound().expect("sound").accepts[0].pay_to.evm_address(), None);
    for (length, good) in [(MAX_ADDRESS_CHARS, true), (MAX_ADDRESS_CHARS + 1, false), (0, false)] {
        let reading = read_json(v2(&[with(solana.clone(), "payTo", json!("a".repeat(length)))]).to_string().as_bytes());
        assert_eq!(reading.sound().is_some(), good, "{length}");
    }
    header(
        &v2(&[with(solana, "payTo", json!("two words"))]),
        &[(toolcrib_core::codes::caip::NAMESPACE_UNVERIFIED, Hint), (xc::ADDRESS, Error)],
    );
}

// req: PRICE-007
#[test]
fn addresses_carry_a_checksum_or_none() {
    let lower = PAYEE.to_lowercase();
    let wrong = PAYEE.replace('C', "c");
    for (text, findings) in [
        (lower.as_str(), &[(xc::ADDRESS_CASE, Hint)][..]),
        (&wrong, &[(xc::ADDRESS_CHECKSUM, Error)]),
        (&PAYEE.to_uppercase().replace("0X", "0x"), &[(xc::ADDRESS_CHECKSUM, Error)]),
        (&PAYEE.to_uppercase(), &[(xc::ADDRESS, Error)]),
        (&PAYEE[2..], &[(xc::ADDRESS, Error)]),
        (&PAYEE[..41], &[(xc::ADDRESS, Error)]),
        ("0xServerWalletAddressHere", &[(xc::ADDRESS, Error)]),
        ("0x0000000000000000000000000000000000000000", &[(xc::PAY_TO_UNSPENDABLE, Error)]),
        ("0x000000000000000000000000000000000000dEaD", &[(xc::PAY_TO_UNSPENDABLE, Error)]),
        (USDC, &[(xc::PAY_TO_UNSPENDABLE, Error)]),
    ] {
        let reading = header(&v2(&[with(v2_offer(), "payTo", json!(text))]), findings);
        let is_address = findings[0].0 != xc::ADDRESS;
        let offers = reading.challenge.expect("read").accepts;
        assert_eq!(offers.len(), usize::from(is_address), "{text}");
        if let Some(offer) = offers.first() {
            assert_eq!(offer.pay_to.as_str(), text, "an offer is sent back as it was written");
        }
    }
}

#[test]
fn signing_domains_are_compared_with_the_table() {
    let domain = |name: &str, version: &str| json!({"name": name, "version": version});
    for extra in [domain("USDC", "2"), domain("USD Coin", "1")] {
        header(&v2(&[with(v2_offer(), "extra", extra.clone())]), &[(xc::DOMAIN_DIFFERS, Error)]);
        let free = with(with(v2_offer(), "extra", extra), "amount", json!("0"));
        header(&v2(&[free]), &[(xc::DOMAIN_DIFFERS, Warning)]);
    }
    for extra in [json!({}), json!({"name": "USD Coin"}), json!({"version": "2"})] {
        header(&v2(&[with(v2_offer(), "extra", extra)]), &[(xc::DOMAIN_MISSING, Warning)]);
    }
    header(
        &v2(&[with(v2_offer(), "extra", json!({"name": "USD Coin", "version": 2}))]),
        &[(xc::DOMAIN_MISSING, Warning), (xc::WRONG_TYPE, Error)],
    );
    header(&v2(&[with(v2_offer(), "extra", json!("none"))]), &[(xc::WRONG_TYPE, Error), (xc::DOMAIN_MISSING, Warning)]);
    // Another transfer method requires another signature.
    header(&v2(&[with(v2_offer(), "extra", json!({"assetTransferMethod": "permit2"}))]), &[(xc::TRANSFER_METHOD, Warning)]);
    let flow = json!({"name": "USD Coin", "version": "2", "paymentFlow": "escrow", "assetTransferMethod": "eip3009"});
    header(&v2(&[with(v2_offer(), "extra", flow)]), &[(xc::PAYMENT_FLOW, Warning)]);
    header(&v2(&[with(v2_offer(), "asset", json!(OTHER.to_checksum(None)))]), &[(xc::ASSET_UNKNOWN, Hint)]);
    let sepolia =
        with(with(v2_offer(), "network", json!("eip155:84532")), "asset", json!("0x036CbD53842c5426634e7929541eC2318f3dCF7e"));
    header(&v2(slice::from_ref(&sepolia)), &[(xc::DOMAIN_DIFFERS, Error)]);
    let reading = header(&v2(&[with(sepolia, "network", json!("eip155:8453"))]), &[(xc::ASSET_UNKNOWN, Warning)]);
    assert_eq!(reading.findings[0].message, "this is the address of USDC on eip155:84532, another network");
}

#[test]
fn times_are_positive_whole_numbers() {
    for (value, findings) in [
        (json!(1), &[][..]),
        (json!(LONG_TIMEOUT_SECONDS), &[]),
        (json!(LONG_TIMEOUT_SECONDS + 1), &[(xc::TIMEOUT_LONG, Warning)]),
        (json!(0), &[(xc::TIMEOUT, Error)]),
        (json!(-1), &[(xc::TIMEOUT, Error)]),
        (json!(1.5), &[(xc::TIMEOUT, Error)]),
        (json!("60"), &[(xc::TIMEOUT, Error)]),
        (Json::Null, &[(xc::TIMEOUT, Error)]),
    ] {
        header(&v2(&[with(v2_offer(), "maxTimeoutSeconds", value)]), findings);
    }
}

#[test]
fn the_frame_of_a_challenge() {
    body(&json!([]), &[(xc::NOT_AN_OBJECT, Error)]);
    body(&v1(&[]), &[(xc::NO_OFFERS, Error)]);
    body(&json!({"x402Version": 1}), &[(xc::FIELD_MISSING, Error)]);
    body(&json!({"x402Version": 1, "accepts": {}}), &[(xc::WRONG_TYPE, Error)]);
    body(&v1(&[json!("base")]), &[(xc::WRONG_TYPE, Error)]);
    body(&with(v1(&[v1_offer()]), "error", json!(5)), &[(xc::WRONG_TYPE, Error)]);
    body(&with(v1(&[v1_offer()]), "error", Json::Null), &[(xc::NULL_FIELD, Warning)]);
    header(&without(v2(&[v2_offer()]), "resource"), &[(xc::FIELD_MISSING, Warning)]);
    header(&with(v2(&[v2_offer()]), "resource", json!("https://a.example")), &[(xc::WRONG_TYPE, Error)]);
    header(&with(v2(&[v2_offer()]), "resource", json!({})), &[(xc::FIELD_MISSING, Warning)]);
    header(&with(v2(&[v2_offer()]), "extensions", Json::Null), &[]);
    header(&with(v2(&[v2_offer()]), "extensions", json!([])), &[(xc::WRONG_TYPE, Error)]);
    let limited =
        |key: &str, value: Json| with(v2(&[v2_offer()]), "resource", with(json!({"url": "https://a.example"}), key, value));
    for (key, good, bad) in [
        ("serviceName", json!("n".repeat(32)), json!("n".repeat(33))),
        ("serviceName", json!("a b"), json!("é")),
        ("tags", json!(vec!["a"; 5]), json!(vec!["a"; 6])),
        ("iconUrl", json!("i".repeat(2048)), json!("i".repeat(2049))),
    ] {
        header(&limited(key, good), &[]);
        header(&limited(key, bad), &[(xc::RESOURCE_LIMIT, Warning)]);
    }
}

#[test]
fn json_is_read_strictly_and_in_the_words_of_this_group() {
    for (text, code) in [
        (r#"{"x402Version":1,"x402Version":1,"accepts":[]}"#, xc::DUPLICATE_KEY),
        (r#"{"x402Version":1,"accept\u0073":[],"accepts":[]}"#, xc::DUPLICATE_KEY),
        ("{\"x402Version\":1", xc::NOT_JSON),
        ("", xc::NOT_JSON),
        ("\u{feff}{}", xc::NOT_JSON),
        ("<html>", xc::NOT_JSON),
        ("{} {}", xc::NOT_JSON),
        (&format!("{{\"x402Version\":1,\"accepts\":{}{}}}", "[".repeat(70), "]".repeat(70)), xc::TOO_DEEP),
    ] {
        let reading = read_body(text.as_bytes());
        assert!(reading.findings.iter().any(|finding| finding.code == code), "{text}: {:?}", reading.findings);
        assert!(reading.findings.iter().all(|finding| finding.code.info().check.is_none()), "no check of a manifest failed");
        assert!(reading.sound().is_none());
    }
}

#[test]
fn sizes_are_bounded() {
    let padded = |length: usize| {
        let text = v1(&[v1_offer()]).to_string();
        format!("{text}{}", " ".repeat(length - text.len()))
    };
    assert!(read_body(padded(MAX_BODY_BYTES).as_bytes()).sound().is_some());
    assert_eq!(read_body(padded(MAX_BODY_BYTES + 1).as_bytes()).findings[0].code, xc::TOO_LARGE);
    body(&v1(&vec![v1_offer(); MAX_OFFERS]), &[]);
    let reading = body(&v1(&vec![v1_offer(); MAX_OFFERS + 1]), &[(xc::TOO_MANY_OFFERS, Error)]);
    assert_eq!(reading.challenge.expect("read").accepts.len(), MAX_OFFERS);

    let text = v2(&[v2_offer()]).to_string();
    let value = |length: usize| header::encode(format!("{text}{}", " ".repeat(length / 4 * 3 - text.len())).as_bytes());
    assert_eq!(value(header::MAX_BYTES).len(), header::MAX_BYTES);
    assert!(read_header(&value(header::MAX_BYTES)).sound().is_some());
    assert_eq!(read_header(&value(header::MAX_BYTES + 4)).findings[0].code, xc::HEADER_TOO_LONG);
    assert_eq!(read_header("e30").findings[0].code, xc::BASE64);
    assert!(read_header(&text).findings[0].message.contains("without base64 encoding"));

    // Many problems in a long list take linear time: only the first are fully described.
    let offers = vec![json!({"scheme": 1, "network": 2, "asset": 3, "payTo": 4, "amount": 5, "extra": 6}); 3000];
    let reading = read_body(v1(&offers).to_string().as_bytes());
    assert!(reading.findings.len() <= toolcrib_core::finding::MAX_FINDINGS + 1);
}

#[test]
fn a_server_writes_both_versions_from_one() {
    let offer = |chain: u64| {
        let token = asset::usdc(chain).expect("listed");
        Offer {
            scheme: EXACT.to_owned(),
            network: ChainId::parse(&format!("eip155:{chain}")).expect("a chain"),
            asset: ChainAddress::evm(token.address),
            amount: Amount::new(U256::from(20_000)),
            pay_to: ChainAddress::evm(OTHER),
            max_timeout_seconds: None,
            extra: Some(Extra { name: Some(token.name.to_owned()), version: Some(token.version.to_owned()), ..Extra::default() }),
            resource: None,
            output_schema: None,
            other: Vec::new(),
        }
    };
    let sold = Resource { url: Some("https://tools.example.com/tides".to_owned()), ..Resource::default() };
    let mut accepts = vec![offer(8453), offer(1), offer(137)];
    accepts.iter_mut().for_each(|offer| offer.max_timeout_seconds = Some(60));
    accepts[2].max_timeout_seconds = None;
    let both = Challenge { version: Version::V2, error: None, resource: Some(sold), accepts, extensions: Vec::new() };

    let one = read_body(both.to_v1().to_json().as_bytes());
    assert!(one.findings.is_empty(), "{:?}", one.findings);
    let one = one.challenge.expect("read");
    let chains: Vec<_> = one.accepts.iter().filter_map(|offer| offer.network.evm_id()).collect();
    assert_eq!(chains, [8453, 137], "stock clients do not know the name of Ethereum");

    let two = read_header(&both.to_header().expect("short"));
    assert_eq!(codes_of(&two.findings), [(xc::FIELD_MISSING.id(), Warning)], "one offer has no time");
    assert_eq!(two.challenge.as_ref(), Some(&both));

    let long = Challenge { error: Some("e".repeat(header::MAX_BYTES)), ..both };
    assert_eq!(long.to_header(), None, "nobody would read it");
}

fn members() -> impl Strategy<Value = Members> {
    let value = prop_oneof![Just("null"), Just("true"), Just("12.5"), Just("\"\\u00e9\\n\""), Just("[1,{\"b\":[],\"a\":{}}]")];
    proptest::collection::btree_map("x[a-zé\"/]{0,6}", value, 0..3)
        .prop_map(|map| map.into_iter().filter_map(|(key, value)| Some((key, Raw::parse(value)?))).collect())
}

fn resources() -> impl Strategy<Value = Resource> {
    ("[a-z]{1,8}", proptest::option::of("\\PC{0,12}"), proptest::option::of("[a-z]{1,9}/[a-z]{1,9}"), members()).prop_map(
        |(host, description, mime_type, other)| Resource {
            url: Some(format!("https://{host}.example/\u{e9}\"")),
            description,
            mime_type,
            other,
        },
    )
}

fn extras() -> impl Strategy<Value = Extra> {
    let text = || proptest::option::of("\\PC{0,8}");
    (text(), text(), text(), text(), members()).prop_map(|(name, version, transfer_method, payment_flow, other)| Extra {
        name,
        version,
        transfer_method,
        payment_flow,
        other,
    })
}

fn offers(version: Version) -> impl Strategy<Value = Offer> {
    let network = prop_oneof![
        proptest::sample::select(network::ALL).prop_map(|network| network.caip2.to_owned()),
        (1_u64..).prop_map(move |id| if version == Version::V2 { format!("eip155:{id}") } else { "eip155:8453".to_owned() }),
    ];
    let parties = (any::<[u8; 20]>(), any::<[u8; 20]>(), any::<bool>());
    let said = proptest::option::of(resources());
    (
        ("\\PC{1,8}|exact", network, parties),
        any::<[u64; 4]>(),
        proptest::option::of(1_u64..1 << 53),
        proptest::option::of(extras()),
        said,
        members(),
    )
        .prop_map(move |((scheme, network, (asset, pay_to, lower)), limbs, max_timeout_seconds, extra, said, other)| {
            let network = ChainId::parse(&network).expect("a chain");
            let address = |bytes: [u8; 20]| match network.evm_id() {
                Some(_) if lower => ChainAddress::written(format!("{:#x}", Address::from(bytes)), Some(Address::from(bytes))),
                Some(_) => ChainAddress::evm(Address::from(bytes)),
                None => ChainAddress::other(crate::header::encode(&bytes)),
            };
            Offer {
                scheme,
                asset: address(asset),
                amount: Amount::new(U256::from_limbs(limbs)),
                pay_to: address(pay_to),
                max_timeout_seconds,
                extra,
                resource: said.filter(|_| version == Version::V1).map(|said| Resource { other: Vec::new(), ..said }),
                output_schema: Raw::parse("{\"input\":{}}").filter(|_| version == Version::V1 && lower),
                other,
                network,
            }
        })
}

fn challenges() -> impl Strategy<Value = Challenge> {
    let of = |version| {
        let parts = (
            proptest::option::of("\\PC{0,12}"),
            proptest::option::of(resources()),
            proptest::collection::vec(offers(version), 1..4),
            members(),
        );
        parts.prop_map(move |(error, resource, accepts, extensions)| match version {
            Version::V1 => Challenge { version, error, resource: None, accepts, extensions: Vec::new() },
            Version::V2 => Challenge { version, error, resource, accepts, extensions },
        })
    };
    prop_oneof![of(Version::V1), of(Version::V2)]
}

proptest! {
    #[test]
    fn what_is_written_reads_back(challenge in challenges()) {
        let reading = read_json(challenge.to_json().as_bytes());
        prop_assert_eq!(reading.challenge.as_ref(), Some(&challenge), "{}\n{:?}", challenge.to_json(), reading.findings);
        if let Some(header) = challenge.to_header() {
            let again = read_header(&header).challenge;
            prop_assert_eq!(again.as_ref(), Some(&challenge));
        }
        // Stock clients can parse version 1 of any challenge: no unknown name, no missing field.
        let one = challenge.to_v1();
        let reading = read_body(one.to_json().as_bytes());
        prop_assert_eq!(reading.challenge.as_ref(), Some(&one));
        for finding in &reading.findings {
            let is_stock = ![xc::NETWORK_NOT_IN_V1, xc::NETWORK_UNKNOWN, xc::NETWORK_NAME, xc::SCHEME_UNKNOWN, xc::NULL_FIELD].contains(&finding.code);
            prop_assert!(is_stock, "{:?}", finding);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,80}") {
        let readings = [read_body(&bytes), read_body(text.as_bytes()), read_header(&text), read_header(&header::encode(&bytes))];
        for reading in readings {
            prop_assert!(reading.challenge.is_some() || !reading.findings.is_empty());
        }
    }
}
