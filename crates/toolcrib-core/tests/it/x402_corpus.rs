//! Challenges from the specifications and documents of x402 itself.

use std::collections::BTreeMap;
use std::fs;

use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::x402::{Method, ProbeAnswer, Version, header, read_answer, read_body, read_header, read_json};

#[test]
fn every_published_challenge_is_read_or_refused_for_a_reason() {
    let Some(folder) = crate::corpus("x402") else { return };
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    let mut sound = 0;
    for row in crate::rows(&folder.join("messages.tsv")) {
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
            // Documents abbreviate addresses, quote numbers, mistype checksums and make up networks; nothing else is wrong.
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
        // The same, where HTTP has it.
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
    let Some(folder) = crate::corpus("x402") else { return };
    let (mut total, mut read) = (0, 0);
    for row in crate::rows(&folder.join("messages.tsv")) {
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

/// Messages of other kinds are no challenges, whatever they look like.
#[test]
fn other_messages_are_not_taken_for_challenges() {
    let Some(folder) = crate::corpus("x402") else { return };
    for row in crate::rows(&folder.join("messages.tsv")) {
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
