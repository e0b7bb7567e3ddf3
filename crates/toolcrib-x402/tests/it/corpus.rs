//! Messages from the specifications and documents of x402.

use std::collections::BTreeMap;
use std::fs;

use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_x402::{
    FacilitatorRequest, Method, ProbeAnswer, TimePolicy, Version, check_payment, header, read_answer, read_body,
    read_facilitator_request, read_header, read_json, read_payment, read_receipt, read_supported, read_verify_response,
};

#[test]
fn every_published_challenge_is_read_or_refused_for_a_reason() {
    let Some(folder) = toolcrib_testkit::corpus("x402") else { return };
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    let mut sound = 0;
    for row in toolcrib_testkit::rows(&folder.join("messages.tsv")) {
        let (name, kind) = (&row[0], row[1].as_str());
        let version = match kind {
            "challenge-v1" => Version::V1,
            "challenge-v2" => Version::V2,
            _ => continue,
        };
        *counts.entry(kind.to_owned()).or_default() += 1;
        let bytes = fs::read(folder.join("messages").join(name)).expect("a file of the corpus can be read");
        let reading = read_json(&bytes);
        for finding in &reading.findings {
            eprintln!("{name}: {} {} {} {:?}", finding.severity, finding.code, finding.pointer, finding.got);
        }
        let challenge = reading.challenge.as_ref().expect("each of them is meant as a challenge");
        assert_eq!(challenge.version, version, "{name}");
        assert_eq!(read_json(challenge.to_json().as_bytes()).challenge.as_ref(), Some(challenge), "{name}");
        let Some(challenge) = reading.sound() else {
            // Documents abbreviate addresses, quote numbers, mistype checksums and invent networks; nothing else is wrong.
            let why = |finding: &&Finding| {
                use codes::x402 as code;
                let known =
                    [code::ADDRESS, code::ADDRESS_CHECKSUM, code::VERSION_UNKNOWN, code::WRONG_TYPE, code::NETWORK_UNKNOWN];
                finding.severity == Severity::Error && !known.contains(&finding.code)
            };
            assert_eq!(reading.findings.iter().find(why), None, "{name}");
            continue;
        };
        sound += 1;
        // The same as an HTTP response.
        let mut answer = ProbeAnswer { method: Method::Post, status: 402, headers: Vec::new(), body: Vec::new() };
        let found = match version {
            Version::V1 => {
                answer.headers.push(("content-type".to_owned(), "application/json".to_owned()));
                answer.body = bytes.clone();
                read_body(&bytes)
            }
            Version::V2 => {
                answer.headers.push(("payment-required".to_owned(), header::encode(&bytes)));
                read_header(&header::encode(&bytes))
            }
        };
        assert_eq!(found.sound(), Some(challenge), "{name}");
        let reading = read_answer(&answer);
        assert_eq!((reading.versions(), reading.challenge()), (vec![version], Some(challenge)), "{name}");
    }
    eprintln!("{counts:?}, {sound} of them sound");
    assert_eq!(counts, BTreeMap::from([("challenge-v1".to_owned(), 5), ("challenge-v2".to_owned(), 15)]));
    assert!(sound >= 8, "{sound}");
}

#[test]
fn every_published_requirement_is_an_offer() {
    let Some(folder) = toolcrib_testkit::corpus("x402") else { return };
    let (mut total, mut read) = (0, 0);
    for row in toolcrib_testkit::rows(&folder.join("messages.tsv")) {
        let (name, kind) = (&row[0], row[1].as_str());
        let version = match kind {
            "requirement-v1" => 1,
            "requirement-v2" => 2,
            _ => continue,
        };
        let text = fs::read_to_string(folder.join("messages").join(name)).expect("a file of the corpus can be read");
        let message =
            format!("{{\"x402Version\":{version},\"resource\":{{\"url\":\"https://a.example\"}},\"accepts\":[{text}]}}");
        let reading = read_json(message.as_bytes());
        total += 1;
        match reading.challenge.as_ref().and_then(|challenge| challenge.accepts.first()) {
            Some(offer) => {
                read += 1;
                assert!(!offer.scheme.is_empty(), "{name}");
            }
            None => {
                let errors: Vec<_> = reading.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
                assert!(!errors.is_empty(), "{name} was dropped without a word");
                eprintln!("{name}: {errors:?}");
            }
        }
    }
    eprintln!("{read} of {total} requirements are offers");
    assert_eq!(total, 30);
    assert!(read >= 20, "{read}");
}

/// Other kinds of messages are not parsed as challenges.
#[test]
fn other_messages_are_not_taken_for_challenges() {
    let Some(folder) = toolcrib_testkit::corpus("x402") else { return };
    for row in toolcrib_testkit::rows(&folder.join("messages.tsv")) {
        let (name, kind) = (&row[0], row[1].as_str());
        if kind.starts_with("challenge") {
            continue;
        }
        let bytes = fs::read(folder.join("messages").join(name)).expect("a file of the corpus can be read");
        for status in [200, 402] {
            let answer = ProbeAnswer { method: Method::Post, status, headers: Vec::new(), body: bytes.clone() };
            let reading = read_answer(&answer);
            let offers = reading.challenge().map_or(0, |challenge| challenge.accepts.len());
            assert_eq!(offers, 0, "{name} with {status}");
        }
    }
}

/// Payments in the documents: those with an EIP-3009 authorization are parsed, all others rejected with a specific code.
#[test]
fn every_published_payment_is_read_or_refused_for_a_reason() {
    let Some(folder) = toolcrib_testkit::corpus("x402") else { return };
    let (mut total, mut read) = (0, Vec::new());
    for row in toolcrib_testkit::rows(&folder.join("messages.tsv")) {
        let (name, kind) = (&row[0], row[1].as_str());
        let version = match kind {
            "payment-v1" => Version::V1,
            "payment-v2" => Version::V2,
            _ => continue,
        };
        total += 1;
        let bytes = fs::read(folder.join("messages").join(name)).expect("a file of the corpus can be read");
        let reading = read_payment(version, &header::encode(&bytes));
        let text = String::from_utf8_lossy(&bytes);
        let Some(payment) = reading.payment else {
            // Other networks, schemes and methods, and documents that abbreviate.
            let is_other = ["eip155:", "\"base"].iter().all(|network| !text.contains(network));
            let is_short = ["0x...", "...", "AddressHere", "\"permit2Authorization\"", "\"permissionContext\""];
            assert!(is_other || is_short.iter().any(|part| text.contains(part)), "{name}: {:?}", reading.findings);
            assert!(!reading.findings.is_empty(), "{name} was refused without a word");
            continue;
        };
        assert!(reading.findings.is_empty(), "{name}");
        let again = read_payment(version, &payment.to_header().expect("short and named"));
        assert_eq!(again.payment.as_ref(), Some(&payment), "{name}");
        // In the header of the other version it is rejected.
        let other = if version == Version::V1 { Version::V2 } else { Version::V1 };
        assert_eq!(read_payment(other, &header::encode(&bytes)).findings[0].code, codes::payment::VERSION, "{name}");
        // It has long expired, and otherwise meets its own offer.
        if let Some(offer) = &payment.accepted {
            let at = |seconds| check_payment(&payment, offer, UnixTime::from_seconds(seconds), &TimePolicy::default());
            assert_eq!(at(1_740_672_100), [], "{name}");
            assert_eq!(at(1_800_000_000)[0].code, codes::payment::EXPIRED, "{name}");
            let request =
                FacilitatorRequest { payment: &payment, offer, resource: None, extensions: &[] }.to_json().expect("named");
            let (sent, _) = read_facilitator_request(request.as_bytes()).expect("well-formed");
            assert_eq!(sent.authorization, payment.authorization, "{name}");
        }
        read.push(name.clone());
    }
    eprintln!("{} of {total} payments are read: {read:?}", read.len());
    assert_eq!(total, 24);
    assert!(read.len() >= 5, "{read:?}");
}

/// Responses of facilitators, and receipts.
#[test]
fn every_published_answer_of_a_facilitator_is_read_or_refused_for_a_reason() {
    let Some(folder) = toolcrib_testkit::corpus("x402") else { return };
    let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for row in toolcrib_testkit::rows(&folder.join("messages.tsv")) {
        let (name, kind) = (&row[0], row[1].as_str());
        let bytes = fs::read(folder.join("messages").join(name)).expect("a file of the corpus can be read");
        let (is_read, findings) = match kind {
            "settle-response" => {
                let reading = read_receipt(&header::encode(&bytes));
                if let Some(response) = &reading.response {
                    let version = Version::V2;
                    assert_eq!(read_receipt(&response.to_header(version)).response.as_ref(), Some(response), "{name}");
                }
                let is_refusal = String::from_utf8_lossy(&bytes).contains("\"success\": false");
                assert!(!is_refusal || reading.response.is_some(), "refusals are always read: {name}");
                (reading.response.is_some(), reading.findings)
            }
            "verify-response" => {
                let (response, findings) = read_verify_response(&bytes);
                (response.is_some(), findings)
            }
            "supported-response" => {
                let (response, findings) = read_supported(&bytes);
                (response.is_some(), findings)
            }
            "facilitator-request-v2" => match read_facilitator_request(&bytes) {
                Ok(_) => (true, Vec::new()),
                Err(findings) => (false, findings),
            },
            _ => continue,
        };
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert_eq!(is_read, errors.is_empty(), "{name}: {errors:?}");
        if !is_read {
            eprintln!("{name}: {:?}", errors.iter().map(|finding| (finding.code, &finding.got)).collect::<Vec<_>>());
        }
        let count = counts.entry(kind.to_owned()).or_default();
        *count = (count.0 + 1, count.1 + usize::from(is_read));
    }
    eprintln!("{counts:?}");
    assert_eq!(counts["settle-response"].0, 22);
    assert!(counts["settle-response"].1 >= 15, "{counts:?}");
    assert_eq!((counts["verify-response"], counts["supported-response"]), ((2, 2), (2, 2)));
    // The only published request abbreviates its addresses.
    assert_eq!(counts["facilitator-request-v2"], (1, 0));
}
