//! x402 messages: findings can be displayed, parsed messages are written and parsed to the same value, every endpoint response gets a
//! verdict, and no payment, receipt, report or facilitator response is both accepted and refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_x402::usage::read_report;
use toolcrib_x402::{
    FacilitatorAnswer, FacilitatorRequest, MAX_OFFERS, MAX_REASON_CHARS, MAX_SIGNATURE_BYTES, Method, Payment, ProbeAnswer,
    Reading, SettleOutcome, Subject, TimePolicy, Version, check_payment, header, judge_probe, match_offers, read_answer,
    read_body, read_facilitator_request, read_header, read_json, read_payment, read_payment_headers, read_payment_json,
    read_receipt, read_settle_response, read_supported, read_verify_response, settle_outcome,
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
    payments(data);
    settlements(data);
    let (report, found) = read_report(data);
    told(data, report.is_some(), &found);
    if let Some(report) = report {
        assert_eq!(read_report(report.to_json().as_bytes()).0, Some(report));
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
    // Networks without a name are omitted in version 1, and the output can be longer than the input.
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

/// A value is present if and only if no finding is an error.
fn told(data: &[u8], is_there: bool, findings: &[Finding]) {
    toolcrib_fuzz::findings(data, findings);
    assert_eq!(is_there, findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
}

fn payments(data: &[u8]) {
    let reading = read_payment_json(data);
    told(data, reading.payment.is_some(), &reading.findings);
    if let Some(payment) = &reading.payment {
        payment_holds(payment);
    }
    let encoded = header::encode(data);
    for version in [Version::V1, Version::V2] {
        let reading = read_payment(version, &encoded);
        assert_eq!(reading.payment.is_some(), reading.findings.is_empty());
        assert!(reading.payment.is_none_or(|payment| payment.version == version));
        let reading = read_payment_headers([(version.payment_header(), data)]).expect("there is one");
        assert_eq!(reading.payment.is_some(), reading.findings.is_empty());
    }
    if let Ok((payment, offer)) = read_facilitator_request(data) {
        payment_holds(&payment);
        if let Some(request) = (FacilitatorRequest { payment: &payment, offer: &offer, resource: None, extensions: &[] }).to_json()
            && let Ok((again, _)) = read_facilitator_request(request.as_bytes())
        {
            assert_eq!(again.authorization, payment.authorization);
        }
    }
}

fn payment_holds(payment: &Payment) {
    let authorization = payment.authorization;
    assert!(!authorization.from.is_zero() && payment.network.evm_id().is_some());
    assert!((65..=MAX_SIGNATURE_BYTES).contains(&payment.signature.as_bytes().len()));
    assert_eq!(payment.accepted.is_some(), payment.version == Version::V2);
    if let Some(header) = payment.to_header() {
        let again = read_payment(payment.version, &header).into_result().expect("what is written is read");
        assert_eq!((again.authorization, &again.signature), (authorization, &payment.signature));
        assert_eq!(again.accepted, payment.accepted);
    }
    let Some(offer) = &payment.accepted else { return };
    let now = UnixTime::from_seconds(i64::try_from(authorization.valid_before.saturating_sub(30)).unwrap_or(i64::MAX));
    let findings = check_payment(payment, offer, now, &TimePolicy::default());
    if findings.is_empty() {
        assert_eq!((authorization.value, Some(authorization.to)), (offer.amount, offer.pay_to.evm_address()));
        assert_eq!(match_offers(payment, std::slice::from_ref(offer)).map(|met| met.len()), Ok(1));
    }
}

fn settlements(data: &[u8]) {
    let reading = read_settle_response(data, header::MAX_BYTES);
    told(data, reading.response.is_some(), &reading.findings);
    if let Some(response) = &reading.response {
        assert!(!response.success || !response.transaction.is_empty());
        assert!(response.reason.iter().all(|reason| reason.chars().count() <= MAX_REASON_CHARS));
        assert!(read_receipt(&response.to_header(Version::V2)).response.is_some());
    }
    let (response, found) = read_verify_response(data);
    told(data, response.is_some(), &found);
    if let Some(response) = response {
        assert_eq!(read_verify_response(response.to_json().as_bytes()).0.map(|again| again.is_valid), Some(response.is_valid));
    }
    let (supported, found) = read_supported(data);
    told(data, supported.is_some(), &found);
    // A payment that the input cannot refer to, so a success must not be about it.
    let text = format!(
        "{{\"x402Version\":1,\"scheme\":\"exact\",\"network\":\"base\",\"payload\":{{\"signature\":\"0x{}\",\"authorization\":{{\
         \"from\":\"0x{}\",\"to\":\"0x{}\",\"value\":\"1\",\"validAfter\":\"0\",\"validBefore\":\"1\",\"nonce\":\"0x{}\"}}}}}}",
        "01".repeat(65),
        "01".repeat(20),
        "02".repeat(20),
        "03".repeat(32)
    );
    let payment = read_payment_json(text.as_bytes()).into_result().expect("a payment");
    let challenge = read_body(include_bytes!("../seeds/x402/v1.json"));
    let Some(offer) = challenge.challenge.as_ref().and_then(|challenge| challenge.accepts.first()) else { return };
    match settle_outcome(FacilitatorAnswer::Answered { status: 200, body: data }, &payment, offer) {
        SettleOutcome::Settled(response) => assert!(response.success && response.transaction_hash().is_some()),
        SettleOutcome::Refused(response) => assert!(!response.success && response.transaction.is_empty()),
        _ => {}
    }
}
