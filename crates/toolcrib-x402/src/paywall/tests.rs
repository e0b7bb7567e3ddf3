//! The 402 response, parsed by our own probe and checked against the requirements of stock clients of version 1.

use alloy_primitives::{Address, U256, address};
use serde_json::Value as Json;
use toolcrib_core::codes::payment;
use toolcrib_core::finding::Severity;
use toolcrib_core::money::Amount;

use super::*;
use crate::{Method, ProbeAnswer, asset, read_answer, read_header};

const PAYEE: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");

fn offer(chain: u64, amount: u64) -> Offer {
    Offer::exact(&asset::usdc(chain).expect("listed"), Amount::new(U256::from(amount)), PAYEE, 60).expect("a chain")
}

fn sold() -> Resource {
    Resource { url: Some("https://tools.example.com/tides".to_owned()), ..Resource::default() }
}

fn answer(paywall: &Paywall, reason: Option<Code>) -> ProbeAnswer {
    let PaywallAnswer { headers, body } = paywall.answer(reason);
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ProbeAnswer { method: Method::Post, status: PaywallAnswer::STATUS, headers, body: body.into_bytes() }
}

// req: PAY-010, GATE-002
#[test]
fn both_versions_in_one_answer() {
    for amount in [0, 20_000] {
        for reason in [None, Some(payment::EXPIRED)] {
            let paywall = Paywall::new(vec![offer(8453, amount), offer(10, amount)], sold(), Vec::new()).expect("short");
            let answer = answer(&paywall, reason);
            let reading = read_answer(&answer);
            let all = reading.all_findings();
            assert!(all.is_empty(), "{all:#?}");
            assert_eq!(reading.versions(), [Version::V1, Version::V2]);
            let count = |reading: &Option<crate::Reading>| {
                reading.as_ref().and_then(|reading| reading.sound()).map(|challenge| challenge.accepts.len())
            };
            assert_eq!((count(&reading.body), count(&reading.header)), (Some(1), Some(2)), "version 1 has no name for chain 10");
            assert_eq!(reading.challenge().map(|challenge| challenge.accepts.as_slice()), Some(paywall.offers()));
            let body: Json = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(body.get("code").and_then(Json::as_str), reason.map(Code::id));
            assert_eq!(body["error"], reason.map_or("payment required", Code::title));
        }
    }
}

// T17: neither prices nor paid results are cached.
#[test]
fn answers_are_not_kept() {
    let answer = answer(&Paywall::new(vec![offer(8453, 5)], sold(), Vec::new()).expect("short"), None);
    assert_eq!(answer.header("cache-control").collect::<Vec<_>>(), ["no-store"]);
    assert!(PAID_CACHE_CONTROL.contains("private"));
    let exposed = answer.header("access-control-expose-headers").next().expect("set");
    for version in [Version::V1, Version::V2] {
        assert!(exposed.contains(version.receipt_header()), "{exposed}");
    }
    assert!(answer.is_json());
}

/// The schema of the last library of version 1 for every entry: it rejects all if one lacks anything.
#[test]
fn entries_of_version_1_are_complete() {
    let short = Offer {
        extra: None,
        max_timeout_seconds: None,
        asset: ChainAddress::written(offer(8453, 5).asset.as_str().to_lowercase(), offer(8453, 5).asset.evm_address()),
        ..offer(8453, 5)
    };
    let paywall = Paywall::new(vec![short, offer(84_532, 5), offer(1, 5), offer(137, 5)], sold(), Vec::new()).expect("short");
    let body: Json = serde_json::from_slice(&answer(&paywall, None).body).expect("JSON");
    let accepts = body["accepts"].as_array().expect("a list");
    assert_eq!(accepts.len(), 3, "ethereum has no name that they know");
    for entry in accepts {
        for key in ["scheme", "network", "maxAmountRequired", "resource", "description", "mimeType", "payTo", "asset"] {
            assert!(entry[key].is_string(), "{key} of {entry}");
        }
        assert!(entry["maxTimeoutSeconds"].is_u64() && entry["extra"].is_object() && entry.get("outputSchema").is_none());
        let address = entry["asset"].as_str().expect("a string");
        assert!(Address::parse_checksummed(address, None).is_ok(), "{address}");
    }
    assert_eq!(accepts[0]["extra"]["name"], "USD Coin");
    assert_eq!(accepts[1]["extra"]["name"], "USDC");
}

#[test]
fn without_a_name_there_is_no_version_1() {
    let paywall = Paywall::new(vec![offer(10, 5)], sold(), Vec::new()).expect("short");
    for reason in [None, Some(payment::BASE64)] {
        let answer = answer(&paywall, reason);
        let reading = read_answer(&answer);
        assert_eq!(reading.versions(), [Version::V2]);
        assert!(reading.all_findings().iter().all(|finding| finding.severity == Severity::Hint));
        let body: Json = serde_json::from_slice(&answer.body).expect("JSON");
        assert!(body.get("accepts").is_none() && body["error"].is_string());
    }
}

#[test]
fn paywalls_that_nobody_could_pay() {
    let refused = |offers, resource| Paywall::new(offers, resource, Vec::new()).map_err(|findings| findings[0].code);
    assert_eq!(refused(Vec::new(), sold()), Err(code::NO_OFFERS));
    assert_eq!(refused(vec![offer(8453, 1); crate::MAX_OFFERS + 1], sold()), Err(code::TOO_MANY_OFFERS));
    assert!(refused(vec![offer(8453, 1); crate::MAX_OFFERS], sold()).is_ok());
    assert_eq!(refused(vec![Offer { scheme: "upto".to_owned(), ..offer(8453, 1) }], sold()), Err(code::SCHEME_UNKNOWN));
    let long = Resource { description: Some("x".repeat(header::MAX_BYTES)), ..sold() };
    assert_eq!(refused(vec![offer(8453, 1)], long), Err(code::HEADER_TOO_LONG));
    let long = vec![("x".to_owned(), Raw::parse(&format!("\"{}\"", "x".repeat(header::MAX_BYTES))).expect("JSON"))];
    assert!(Paywall::new(vec![offer(8453, 1)], sold(), long).is_err());
}

/// An extension for one response goes into the header if there is room for it.
#[test]
fn an_extension_of_one_answer() {
    let paywall = Paywall::new(vec![offer(8453, 0)], sold(), Vec::new()).expect("sound");
    let extension = |text: &str| Some(("own".to_owned(), Raw::parse(text).expect("JSON")));
    let of = |answer: &PaywallAnswer| {
        let value = answer.headers.iter().find(|(name, _)| *name == header::PAYMENT_REQUIRED).map(|(_, value)| value.clone());
        read_header(&value.expect("version 2")).challenge.expect("a challenge").extensions
    };
    assert_eq!(of(&paywall.answer_with(None, extension("{}"))), extension("{}").into_iter().collect::<Vec<_>>());
    assert_eq!(of(&paywall.answer_with(None, None)), []);
    let long = format!("\"{}\"", "a".repeat(header::MAX_BYTES));
    assert_eq!(of(&paywall.answer_with(None, extension(&long))), []);
}
