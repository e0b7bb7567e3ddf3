//! Challenges: findings can be shown, what is read is written and read back as the same, and every answer gets a verdict.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::finding::Severity;
use toolcrib_core::x402::{
    MAX_OFFERS, Method, ProbeAnswer, Reading, Subject, header, judge_probe, read_answer, read_body, read_header, read_json,
};

fuzz_target!(|data: &[u8]| {
    for reading in [read_body(data), read_json(data)] {
        toolcrib_fuzz::findings(data, &reading.findings);
        check(&reading);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        check(&read_header(text));
        if let Ok(bytes) = header::decode(text) {
            assert_eq!(header::encode(&bytes), text, "each value has one spelling");
        }
    }
    let Some((&status, body)) = data.split_first() else { return };
    let mut answer =
        ProbeAnswer { method: Method::Post, status: 400 + u16::from(status % 8), headers: Vec::new(), body: body.to_vec() };
    check_answer(&answer);
    answer.headers.push(("payment-required".to_owned(), header::encode(body)));
    check_answer(&answer);
});

fn check(reading: &Reading) {
    let has_error = reading.findings.iter().any(|finding| finding.severity == Severity::Error);
    assert!(reading.challenge.is_some() || has_error, "refused without an error");
    assert_eq!(reading.sound().is_some(), reading.challenge.is_some() && !has_error);
    let Some(challenge) = &reading.challenge else { return };
    assert!(challenge.accepts.len() <= MAX_OFFERS);
    // Networks without a name are left out of version 1, and writing can take more bytes than reading did.
    if let Some(sound) = reading.sound()
        && let Some(again) = read_json(sound.to_json().as_bytes()).challenge
    {
        assert_eq!(&again, sound, "{}", sound.to_json());
    }
}

fn check_answer(answer: &ProbeAnswer) {
    let reading = read_answer(answer);
    let report = judge_probe(std::slice::from_ref(answer), &Subject { pricing: &[], is_gated: true, creator: None });
    assert_eq!(report.asks.len(), reading.challenge().map_or(0, |challenge| challenge.accepts.len()));
    assert_eq!(report.agrees.is_some(), reading.challenge().is_some());
    assert!(!report.findings.is_empty() || report.status == Some(402), "anything but a challenge is worth a word");
}
