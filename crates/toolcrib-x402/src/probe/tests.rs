//! Responses as servers give them, compared with manifests as authors write them.

use std::slice;

use Severity::{Error, Hint, Warning};
use alloy_primitives::{Address, address};
use serde_json::{Value as Json, json};
use toolcrib_core::caip::{AccountId, AssetId};
use toolcrib_core::codes::{Code, x402 as xc};
use toolcrib_core::money::Amount;

use super::*;
use crate::{header, read_json};

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const EURC: &str = "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42";
const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const STRANGER: &str = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const CREATOR: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");

/// An offer on Base in version 2.
fn offer(amount: &str, asset: &str, pay_to: &str) -> Json {
    json!({
        "scheme": "exact", "network": "eip155:8453", "amount": amount, "asset": asset, "payTo": pay_to,
        "maxTimeoutSeconds": 60, "extra": {"name": if asset == USDC { "USD Coin" } else { "EURC" }, "version": "2"}
    })
}

fn on(network: &str, mut offer: Json) -> Json {
    offer["network"] = json!(network);
    offer
}

fn v2(offers: &[Json]) -> Challenge {
    let message = json!({"x402Version": 2, "resource": {"url": "https://a.example/t"}, "accepts": offers});
    read_json(message.to_string().as_bytes()).challenge.expect("a challenge")
}

/// A price on Base in the manifest's spelling.
fn price(amount: &str, asset: &str, recipient: &str) -> Price {
    Price {
        amount: Amount::parse(amount).expect("an amount"),
        asset: AssetId::parse(&format!("eip155:8453/erc20:{}", asset.to_lowercase())).expect("an asset"),
        recipient: AccountId::parse(&format!("eip155:8453:{}", recipient.to_lowercase())).expect("an account"),
        protocol: "x402".to_owned(),
    }
}

fn by(protocol: &str, price: Price) -> Price {
    Price { protocol: protocol.to_owned(), ..price }
}

/// Compares and expects exactly these codes, each at its position in the manifest.
#[track_caller]
fn compared(offers: &[Json], pricing: &[Price], expected: &[(Code, &str)]) -> Vec<Finding> {
    let findings = compare(&v2(offers), pricing);
    let found: Vec<_> = findings.iter().map(|finding| (finding.code.id(), finding.pointer.as_str())).collect();
    let expected: Vec<_> = expected.iter().map(|(code, pointer)| (code.id(), *pointer)).collect();
    assert_eq!(found, expected, "{findings:#?}");
    findings
}

// req: PAY-003, PRICE-007
#[test]
fn each_field_that_differs_is_named() {
    let stated = [price("20000", USDC, PAYEE)];
    compared(&[offer("20000", USDC, PAYEE)], &stated, &[]);
    compared(&[offer("20000", &USDC.to_lowercase(), &PAYEE.to_lowercase())], &stated, &[]);

    let findings = compared(&[offer("30000", USDC, PAYEE)], &stated, &[(code::PRICE_DIFFERS, "/pricing/0/amount")]);
    assert_eq!(findings[0].expected.as_deref(), Some("20000 (0.02 USDC)"));
    assert_eq!(findings[0].got.as_deref(), Some("30000 (0.03 USDC)"));
    assert!(findings[0].message.contains("more"));
    let findings = compared(&[offer("10000", USDC, PAYEE)], &stated, &[(code::PRICE_DIFFERS, "/pricing/0/amount")]);
    assert!(findings[0].message.contains("less"));
    let findings = compared(&[offer("0", USDC, PAYEE)], &stated, &[(code::PRICE_DIFFERS, "/pricing/0/amount")]);
    assert!(findings[0].message.contains("no payment"));

    let findings = compared(&[offer("20000", USDC, STRANGER)], &stated, &[(code::PAY_TO_DIFFERS, "/pricing/0/recipient")]);
    assert_eq!(findings[0].expected.as_deref(), Some(PAYEE.to_lowercase().as_str()));
    assert_eq!(findings[0].got.as_deref(), Some(STRANGER));
    compared(&[offer("20000", EURC, PAYEE)], &stated, &[(code::ASSET_DIFFERS, "/pricing/0/asset")]);
    let findings =
        compared(&[on("eip155:84532", offer("20000", USDC, PAYEE))], &stated, &[(code::NETWORK_DIFFERS, "/pricing/0/asset")]);
    assert_eq!((findings[0].expected.as_deref(), findings[0].got.as_deref()), (Some("eip155:8453"), Some("eip155:84532")));
    compared(
        &[on("eip155:1", offer("5", EURC, STRANGER))],
        &stated,
        &[
            (code::NETWORK_DIFFERS, "/pricing/0/asset"),
            (code::PRICE_DIFFERS, "/pricing/0/amount"),
            (code::PAY_TO_DIFFERS, "/pricing/0/recipient"),
        ],
    );
}

// req: PAY-003
#[test]
fn offers_and_entries_are_paired_by_likeness() {
    let stated = [price("20000", USDC, PAYEE), price("18000", EURC, PAYEE)];
    let (usdc, eurc) = (offer("20000", USDC, PAYEE), offer("18000", EURC, PAYEE));
    compared(&[eurc.clone(), usdc.clone()], &stated, &[]);
    compared(slice::from_ref(&usdc), &stated, &[(code::NOT_OFFERED, "/pricing/1")]);
    compared(&[eurc.clone(), offer("21000", USDC, PAYEE)], &stated, &[(code::PRICE_DIFFERS, "/pricing/0/amount")]);
    let polygon = on("eip155:137", offer("20000", USDC, STRANGER));
    compared(&[usdc.clone(), eurc.clone(), polygon], &stated, &[(code::EXTRA_OFFER, "")]);
    // The same demand twice, such as for two ways to move the token, is not a difference.
    compared(&[usdc.clone(), usdc.clone(), eurc], &stated, &[]);
    // A second one with another recipient, amount, token or network is.
    for other in [
        offer("20000", USDC, STRANGER),
        offer("20001", USDC, PAYEE),
        offer("20000", EURC, PAYEE),
        on("eip155:1", offer("20000", USDC, PAYEE)),
    ] {
        compared(&[usdc.clone(), other], &stated[..1], &[(code::EXTRA_OFFER, "")]);
    }
    // An entry of the manifest is paired with the exact offer.
    let mut upto = usdc.clone();
    upto["scheme"] = json!("upto");
    upto["amount"] = json!("90000");
    compared(&[upto, usdc.clone()], &stated[..1], &[(code::EXTRA_OFFER, "")]);
    // Entries of other protocols cannot be contradicted, but keep their index.
    compared(
        slice::from_ref(&usdc),
        &[by("mpp", price("5", EURC, STRANGER)), price("20001", USDC, PAYEE)],
        &[(code::PRICE_DIFFERS, "/pricing/1/amount")],
    );
    let findings = compared(&[usdc], &[by("mpp", price("20000", USDC, PAYEE))], &[(code::EXTRA_OFFER, "")]);
    assert!(findings[0].message.contains("other protocols"));
}

// req: PRICE-013, PRICE-014
#[test]
fn free_is_free() {
    let free = offer("0", USDC, PAYEE);
    compared(slice::from_ref(&free), &[], &[]);
    compared(slice::from_ref(&free), &[price("0", USDC, PAYEE)], &[]);
    compared(&[offer("1", USDC, PAYEE)], &[], &[(code::ASKS_MORE, "")]);
    compared(&[offer("1", USDC, PAYEE)], &[price("0", USDC, PAYEE)], &[(code::ASKS_MORE, "/pricing/0/amount")]);
    compared(&[free], &[price("0", USDC, STRANGER)], &[(code::PAY_TO_DIFFERS, "/pricing/0/recipient")]);
}

#[test]
fn other_networks_are_compared_as_text() {
    let chain = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
    let (mint, payee) = ("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4");
    let stated = Price {
        amount: Amount::parse("7").expect("an amount"),
        asset: AssetId::parse(&format!("{chain}/token:{mint}")).expect("an asset"),
        recipient: AccountId::parse(&format!("{chain}:{payee}")).expect("an account"),
        protocol: "x402".to_owned(),
    };
    let asked = |pay_to: &str| json!({"scheme": "exact", "network": chain, "amount": "7", "asset": mint, "payTo": pay_to});
    compared(&[asked(payee)], slice::from_ref(&stated), &[]);
    compared(&[asked(&payee.to_lowercase())], &[stated], &[(code::PAY_TO_DIFFERS, "/pricing/0/recipient")]);
}

/// A builder for responses.
fn answer(method: Method, status: u16) -> ProbeAnswer {
    ProbeAnswer { method, status, headers: Vec::new(), body: Vec::new() }
}

impl ProbeAnswer {
    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn json(self, body: &str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..self.with("Content-Type", "application/json; charset=utf-8") }
    }

    fn v1(self, challenge: &Challenge) -> Self {
        self.json(&challenge.to_v1().to_json())
    }

    fn v2(self, challenge: &Challenge) -> Self {
        self.with("payment-required", &challenge.to_header().expect("short"))
    }
}

fn challenge() -> Challenge {
    v2(&[offer("20000", USDC, PAYEE)])
}

/// Judges, and expects exactly these findings in this order.
#[track_caller]
fn judged(answers: &[ProbeAnswer], subject: &Subject<'_>, state: ProbeState, expected: &[(Code, Severity)]) -> ProbeReport {
    let report = judge_probe(answers, subject);
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.code.id(), finding.severity)).collect();
    let expected: Vec<_> = expected.iter().map(|(code, severity)| (code.id(), *severity)).collect();
    assert_eq!(found, expected, "{:#?}", report.findings);
    assert_eq!(report.state, state);
    for finding in &report.findings {
        assert!(!finding.message.ends_with('.') && finding.span.is_none(), "{finding:?}");
    }
    report
}

const fn subject(pricing: &[Price], is_gated: bool) -> Subject<'_> {
    Subject { pricing, is_gated, creator: Some(CREATOR) }
}

// req: GATE-002
#[test]
fn a_good_answer_has_both_versions() {
    let stated = [price("20000", USDC, PAYEE)];
    let good = answer(Method::Post, 402).v1(&challenge()).v2(&challenge());
    let report = judged(&[good], &subject(&stated, false), ProbeState::Challenges, &[]);
    assert_eq!((report.agrees, report.is_good()), (Some(true), true));
    assert_eq!(report.versions, [Version::V1, Version::V2]);
    assert_eq!((report.asks[0].shown.as_str(), report.asks[0].network.as_str()), ("20000 (0.02 USDC)", "eip155:8453"));
    let written = serde_json::to_value(&report).expect("serialisable");
    assert_eq!(written["versions"], json!([1, 2]));
    assert_eq!((&written["state"], &written["method"]), (&json!("challenges"), &json!("POST")));

    let subject = subject(&stated, true);
    judged(&[answer(Method::Post, 402).v1(&challenge())], &subject, ProbeState::Challenges, &[(xc::V2_MISSING, Hint)]);
    judged(&[answer(Method::Post, 402).v2(&challenge())], &subject, ProbeState::Challenges, &[(xc::V1_MISSING, Hint)]);
    let empty = answer(Method::Post, 402).v2(&challenge()).json("{}");
    judged(&[empty], &subject, ProbeState::Challenges, &[(xc::V1_MISSING, Hint)]);
    let differs = v2(&[offer("20000", USDC, STRANGER)]);
    let report = judge_probe(&[answer(Method::Post, 402).v1(&differs).v2(&differs)], &subject);
    assert_eq!((report.agrees, report.is_good()), (Some(false), false));
    assert!(report.has(code::PAY_TO_DIFFERS));
}

#[test]
fn shapes_that_clients_stumble_over() {
    let stated = [price("20000", USDC, PAYEE)];
    let subject = subject(&stated, false);
    let state = ProbeState::Challenges;
    let post = || answer(Method::Post, 402);
    judged(&[post()], &subject, state, &[(code::NO_CHALLENGE, Error)]);
    judged(&[post().json(r#"{"error":"pay"}"#)], &subject, state, &[(code::NO_CHALLENGE, Error)]);
    let page = ProbeAnswer { body: b"<html>".to_vec(), ..post().with("content-type", "text/html") };
    let report = judged(&[page], &subject, state, &[(code::NO_CHALLENGE, Error)]);
    assert_eq!(report.findings[0].got.as_deref(), Some("402 with text/html"));
    judged(&[post().json(r#"{"accepts":["#)], &subject, state, &[(xc::NOT_JSON, Error)]);

    let text = ProbeAnswer { headers: vec![("Content-Type".to_owned(), "text/plain".to_owned())], ..post().v1(&challenge()) };
    judged(&[text.v2(&challenge())], &subject, state, &[(code::WRONG_CONTENT_TYPE, Warning)]);
    let bare = ProbeAnswer { headers: Vec::new(), ..post().v1(&challenge()) };
    judged(&[bare.v2(&challenge())], &subject, state, &[(code::WRONG_CONTENT_TYPE, Warning)]);
    judged(&[post().v1(&challenge()).v2(&challenge()).v2(&challenge())], &subject, state, &[(xc::HEADER_TWICE, Error)]);
    let old = post().v1(&challenge()).with("X-Payment-Required", &challenge().to_header().expect("short"));
    judged(&[old], &subject, state, &[(xc::HEADER_NAME, Warning)]);
    let joined = format!("{0}, {0}", challenge().to_header().expect("short"));
    judged(&[post().v1(&challenge()).with("Payment-Required", &joined)], &subject, state, &[(xc::BASE64, Error)]);
    // Clients do not find version 2 in the body, unless the header has it too.
    let misplaced = challenge().to_json();
    judged(&[post().json(&misplaced)], &subject, state, &[(xc::V2_IN_BODY, Error)]);
    judged(&[post().v2(&challenge()).json(&misplaced)], &subject, state, &[(xc::V1_MISSING, Hint), (xc::V2_IN_BODY, Warning)]);
    let raw = header::encode(challenge().to_v1().to_json().as_bytes());
    judged(&[post().with("payment-required", &raw)], &subject, state, &[(xc::V1_IN_HEADER, Error)]);
}

#[test]
fn two_versions_that_disagree() {
    let stated = [price("20000", USDC, PAYEE)];
    let subject = subject(&stated, false);
    let both = |one: &[Json], two: &[Json]| [answer(Method::Post, 402).v1(&v2(one)).v2(&v2(two))];
    let base = offer("20000", USDC, PAYEE);
    let disagree = (xc::VERSIONS_DISAGREE, Error);
    let state = ProbeState::Challenges;
    let report = judged(&both(&[offer("30000", USDC, STRANGER)], slice::from_ref(&base)), &subject, state, &[disagree, disagree]);
    assert_eq!(report.findings[0].expected.as_deref(), Some("20000 (0.02 USDC)"));
    assert_eq!(report.findings[1].got.as_deref(), Some(STRANGER));
    let sepolia = json!({
        "scheme": "exact", "network": "eip155:84532", "amount": "20000", "payTo": PAYEE, "maxTimeoutSeconds": 60,
        "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "extra": {"name": "USDC", "version": "2"}
    });
    judged(&both(&[base.clone(), sepolia], slice::from_ref(&base)), &subject, state, &[disagree]);
    // Version 1 has no name for OP Mainnet that stock clients know; it may omit that offer.
    let optimism = json!({
        "scheme": "exact", "network": "eip155:10", "amount": "20000", "payTo": PAYEE, "maxTimeoutSeconds": 60,
        "asset": "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "extra": {"name": "USD Coin", "version": "2"}
    });
    judged(&both(slice::from_ref(&base), &[base.clone(), optimism]), &subject, state, &[(code::EXTRA_OFFER, Warning)]);
}

// req: GATE-010
#[test]
fn every_status_has_its_meaning() {
    let stated = [price("20000", USDC, PAYEE)];
    let zero = [price("0", USDC, PAYEE)];
    let (paid, gated, open, free) = (subject(&stated, false), subject(&[], true), subject(&[], false), subject(&zero, false));
    let post = |status| answer(Method::Post, status);
    let ok = || [post(200).json("{}")];
    judged(&ok(), &open, ProbeState::Serves, &[]);
    judged(&ok(), &free, ProbeState::Serves, &[]);
    judged(&ok(), &paid, ProbeState::Serves, &[(code::UNEXPECTED_SUCCESS, Error)]);
    judged(&ok(), &gated, ProbeState::Serves, &[(code::UNEXPECTED_SUCCESS, Error)]);
    judged(&[post(200).with("content-type", "text/html")], &open, ProbeState::Serves, &[(code::WRONG_CONTENT_TYPE, Warning)]);
    judged(&[post(204)], &open, ProbeState::Serves, &[]);
    judged(
        &[post(200).v1(&challenge()).v2(&challenge())],
        &paid,
        ProbeState::Serves,
        &[(code::UNEXPECTED_SUCCESS, Error), (xc::STATUS, Error)],
    );
    judged(&[post(200).json(r#"{"accepts":[],"output":1}"#)], &open, ProbeState::Serves, &[]);
    for status in [301, 302, 303, 307, 308] {
        let moved = post(status).with("Location", "https://b.example/");
        let report = judged(&[moved], &paid, ProbeState::Redirects, &[(code::REDIRECT, Error)]);
        assert_eq!(report.findings[0].got, Some(format!("{status} to https://b.example/")));
    }
    for status in [500, 502, 503] {
        judged(&[post(status)], &paid, ProbeState::Fails, &[(code::SERVER_ERROR, Error)]);
    }
    for status in [401, 403] {
        judged(&[post(status)], &paid, ProbeState::Refuses, &[(code::NO_CHALLENGE, Error)]);
        judged(&[post(status)], &gated, ProbeState::Refuses, &[(code::NO_CHALLENGE, Error)]);
        judged(&[post(status)], &open, ProbeState::Refuses, &[(code::REFUSED, Warning)]);
    }
    for status in [400, 422] {
        judged(&[post(status)], &paid, ProbeState::Refuses, &[(code::REFUSED, Warning)]);
        judged(&[post(status)], &open, ProbeState::Refuses, &[(code::REFUSED, Hint)]);
    }
    for status in [0, 100, 415, 429, 600, 999] {
        judged(&[post(status)], &open, ProbeState::Refuses, &[(code::REFUSED, Warning)]);
    }
    judged(&[], &paid, ProbeState::NoAnswer, &[(code::NO_ANSWER, Error)]);
}

#[test]
fn post_is_asked_first_and_get_second() {
    let stated = [price("20000", USDC, PAYEE)];
    let subject = subject(&stated, false);
    let (post, get) = (|status| answer(Method::Post, status), |status| answer(Method::Get, status));
    let report =
        judged(&[post(405).with("Allow", "GET, HEAD")], &subject, ProbeState::Missing, &[(code::METHOD_NOT_ALLOWED, Error)]);
    assert_eq!(report.findings[0].got.as_deref(), Some("405 to POST, allowed: GET, HEAD"));
    judged(&[post(404)], &subject, ProbeState::Missing, &[(code::NOT_FOUND, Error)]);
    judged(&[post(404), get(404)], &subject, ProbeState::Missing, &[(code::NOT_FOUND, Error)]);
    judged(&[post(410), get(405)], &subject, ProbeState::Missing, &[(code::NOT_FOUND, Error)]);
    // A web page at the same URL is not the tool.
    let page = get(200).with("content-type", "text/html");
    judged(&[post(404), page.clone()], &subject, ProbeState::Missing, &[(code::NOT_FOUND, Error)]);
    let there = get(402).v1(&challenge()).v2(&challenge());
    let report = judged(&[post(405), there.clone()], &subject, ProbeState::Challenges, &[(code::METHOD_NOT_ALLOWED, Warning)]);
    assert_eq!((report.method, report.status, report.agrees), (Some(Method::Get), Some(402), Some(true)));
    assert_eq!(report.findings[0].message, "POST returns 405, GET returns 402");
    judged(&[post(404), there.clone()], &subject, ProbeState::Challenges, &[(code::NOT_FOUND, Warning)]);
    judged(slice::from_ref(&there), &subject, ProbeState::Challenges, &[]);
    // If the POST is answered, it counts.
    judged(&[page, post(402).v1(&challenge()).v2(&challenge())], &subject, ProbeState::Challenges, &[]);
    judged(&[post(500), there], &subject, ProbeState::Fails, &[(code::SERVER_ERROR, Error)]);
}

// req: GATE-008
#[test]
fn who_a_free_caller_identifies_to() {
    let proof = |payee: &str| {
        let challenge = v2(&[offer("0", USDC, payee)]);
        [answer(Method::Post, 402).v1(&challenge).v2(&challenge)]
    };
    let state = ProbeState::Challenges;
    judged(&proof(PAYEE), &subject(&[], true), state, &[]);
    judged(&proof(STRANGER), &subject(&[], true), state, &[(code::OPERATOR_UNSTATED, Warning)]);
    let nobody = Subject { pricing: &[], is_gated: true, creator: None };
    judged(&proof(PAYEE), &nobody, state, &[(code::OPERATOR_UNSTATED, Warning)]);
    judged(&proof(STRANGER), &subject(&[price("0", USDC, STRANGER)], true), state, &[]);
    judged(&proof(PAYEE), &subject(&[], false), state, &[(code::NEEDLESS_CHALLENGE, Warning)]);
    // A gated tool with a price must not ask for zero.
    judged(&proof(PAYEE), &subject(&[price("20000", USDC, PAYEE)], true), state, &[(code::PRICE_DIFFERS, Error)]);
    let paid = [answer(Method::Post, 402).v1(&challenge()).v2(&challenge())];
    judged(&paid, &subject(&[], true), state, &[(code::ASKS_MORE, Error)]);
}
