//! Facilitators with every kind of response, and the outcome for the gate.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use async_trait::async_trait;
use tokio::net::TcpListener;
use toolcrib_chain::wallet::Wallet as _;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;
use toolcrib_core::finding::Severity;
use toolcrib_core::money::Amount;
use toolcrib_fetch::{Resolve, ResolveError};
use toolcrib_gate::{
    Configured, ConfiguredUrl, Facilitator, FacilitatorCall, Found, Headers, Outcome, Record, Settle, SystemClock, Unrecorded,
    Verdict,
};
use toolcrib_x402::{Offer, Payment, Version, asset, read_facilitator_request};

use super::scripted::{Keeping, Reply, Scripted};
use super::stage::{LOCAL, PRICE, Stage, authorization, due, offer, other, payer, signed, signed_in};

const HASH: B256 = B256::repeat_byte(0xab);

fn offered() -> Offer {
    offer(&asset::usdc(LOCAL).expect("listed"), PRICE)
}

fn paid() -> Payment {
    let token = asset::usdc(LOCAL).expect("listed");
    signed(&offered(), &token, authorization(payer().address()), payer())
}

fn at(server: &Scripted) -> Facilitator {
    Facilitator::from_setting(&server.url())
        .expect("a URL")
        .verify_time(Duration::from_millis(500))
        .settle_time(Duration::from_millis(500))
        .supported_time(Duration::from_millis(500))
        .pending_pause(Duration::from_millis(10))
        .confirm_time(Duration::from_millis(300))
}

/// What facilitators say of a settlement.
fn said(success: bool, transaction: &str, more: &str) -> String {
    format!(r#"{{"success":{success},"transaction":"{transaction}","network":"eip155:{LOCAL}"{more}}}"#)
}

fn succeeded(transaction: B256) -> Reply {
    Reply::Answer(200, said(true, &transaction.to_string(), &format!(r#","payer":"{}""#, payer().address())))
}

fn failed(status: u16, reason: &str) -> Reply {
    Reply::Answer(status, said(false, "", &format!(r#","errorReason":"{reason}""#)))
}

fn pending() -> Reply {
    Reply::Answer(200, said(false, &HASH.to_string(), r#","errorReason":"settlement_pending""#))
}

/// What came of it, without the words for the operator.
#[derive(Debug, PartialEq)]
enum End {
    Settled(B256),
    Refused(&'static str),
    NotAttempted,
    Unknown(Option<B256>),
}

#[track_caller]
fn check(name: &str, outcome: &Outcome, expected: &End, asked: usize, requests: usize) {
    let is_it = match (outcome, expected) {
        (Outcome::Settled { transaction }, End::Settled(hash)) => transaction == hash,
        (Outcome::Refused { reason }, End::Refused(word)) => reason == word,
        (Outcome::NotAttempted { detail }, End::NotAttempted) => !detail.is_empty(),
        (Outcome::Unknown { transaction, detail }, End::Unknown(hash)) => transaction == hash && !detail.is_empty(),
        _ => false,
    };
    assert!(is_it, "{name}: {outcome:?} instead of {expected:?}");
    assert_eq!(asked, requests, "{name}: requests");
}

// attack: T13, T23
#[tokio::test]
async fn every_way_to_answer() {
    let (hash, zero) = (HASH.to_string(), B256::ZERO.to_string());
    let plain = |status: u16, body: &str| Reply::Answer(status, body.to_owned());
    let stranger = format!(r#","payer":"{}""#, Address::repeat_byte(0x66));
    let elsewhere = format!(r#"{{"success":true,"transaction":"{hash}","network":"eip155:1"}}"#);
    let key = "https://rpc.example/v2/s3cret";
    let table: Vec<(&str, Vec<Reply>, End, usize)> = vec![
        ("success", vec![succeeded(HASH)], End::Settled(HASH), 1),
        ("success without payer", vec![plain(200, &said(true, &hash, ""))], End::Settled(HASH), 1),
        ("refused with 200", vec![failed(200, "insufficient_funds")], End::Refused("insufficient_funds"), 1),
        ("refused with 400", vec![failed(400, "invalid_scheme")], End::Refused("invalid_scheme"), 1),
        ("refused with 402", vec![failed(402, "insufficient_funds")], End::Refused("insufficient_funds"), 1),
        ("refused with a sentence", vec![failed(200, &format!("call to {key} failed"))], End::Unknown(None), 1),
        ("refused for a word of tomorrow", vec![failed(200, "transaction_failed")], End::Unknown(None), 1),
        ("refused for a used nonce", vec![failed(200, "invalid_nonce_already_used")], End::Unknown(None), 1),
        ("refused unexpectedly", vec![failed(500, "unexpected_settle_error")], End::Unknown(None), 1),
        (
            "refused, with a transaction",
            vec![plain(200, &said(false, &hash, r#","errorReason":"x""#))],
            End::Unknown(Some(HASH)),
            1,
        ),
        ("400 without a word", vec![plain(400, "{}")], End::Unknown(None), 1),
        ("401", vec![plain(401, r#"{"error":"who are you"}"#)], End::Unknown(None), 1),
        ("404", vec![plain(404, "not here")], End::Unknown(None), 1),
        ("429", vec![plain(429, "")], End::Unknown(None), 1),
        ("401 that speaks of success", vec![plain(401, r#"{"success":"maybe"}"#)], End::Unknown(None), 1),
        ("redirect", vec![plain(307, "")], End::Unknown(None), 1),
        ("500", vec![plain(500, r#"{"error":"oh"}"#)], End::Unknown(None), 1),
        ("503", vec![plain(503, "")], End::Unknown(None), 1),
        ("silence", vec![Reply::Hang], End::Unknown(None), 1),
        ("hanging up", vec![Reply::Close], End::Unknown(None), 1),
        ("a reset", vec![Reply::Reset], End::Unknown(None), 1),
        ("half an answer", vec![Reply::Half], End::Unknown(None), 1),
        ("no end", vec![Reply::Huge], End::Unknown(None), 1),
        ("not HTTP", vec![Reply::Garbage], End::Unknown(None), 1),
        ("not JSON", vec![plain(200, "<html>")], End::Unknown(None), 1),
        ("nothing", vec![plain(200, "")], End::Unknown(None), 1),
        ("success as text", vec![plain(200, r#"{"success":"true"}"#)], End::Unknown(None), 1),
        ("success without a transaction", vec![plain(200, &said(true, "", ""))], End::Unknown(None), 1),
        ("success with no hash", vec![plain(200, &said(true, "0x12", ""))], End::Unknown(None), 1),
        ("success with a zero hash", vec![plain(200, &said(true, &zero, ""))], End::Unknown(None), 1),
        ("success on another network", vec![plain(200, &elsewhere)], End::Unknown(Some(HASH)), 1),
        ("success of another payer", vec![plain(200, &said(true, &hash, &stranger))], End::Unknown(Some(HASH)), 1),
        ("pending, then success", vec![pending(), succeeded(HASH)], End::Settled(HASH), 2),
        (
            "pending, then success elsewhere",
            vec![pending(), succeeded(B256::repeat_byte(1))],
            End::Settled(B256::repeat_byte(1)),
            2,
        ),
        ("pending twice", vec![pending(), pending(), succeeded(HASH)], End::Unknown(Some(HASH)), 2),
        ("pending, then refused", vec![pending(), failed(200, "insufficient_funds")], End::Unknown(Some(HASH)), 2),
        ("pending, then 401", vec![pending(), plain(401, "")], End::Unknown(Some(HASH)), 2),
        ("pending, then silence", vec![pending(), Reply::Hang], End::Unknown(Some(HASH)), 2),
        ("pending, then 500", vec![pending(), plain(500, "")], End::Unknown(Some(HASH)), 2),
    ];
    let (offer, payment) = (offered(), paid());
    for (name, replies, expected, asked) in table {
        let server = Scripted::start(replies).await;
        let outcome = at(&server).settle(due(&payment, &offer), None, &Unrecorded).await;
        check(name, &outcome, &expected, asked, server.requests().len());
        assert!(!format!("{outcome:?}").contains("s3cret"), "{outcome:?}");
        let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{name}: repeated to the letter");
    }
}

// attack: T13, T23
#[tokio::test]
async fn every_way_to_check() {
    let payer = payer().address();
    let valid = |more: &str| Reply::Answer(200, format!(r#"{{"isValid":true{more}}}"#));
    let invalid = |status: u16, reason: &str| Reply::Answer(status, format!(r#"{{"isValid":false,"invalidReason":"{reason}"}}"#));
    let bad = |word: &str| Verdict::Bad { reason: word.to_owned() };
    let unclear = Verdict::Unclear { detail: String::new() };
    let (offer, payment) = (offered(), paid());
    for (name, reply, expected) in [
        ("valid", valid(""), Verdict::Good { from_block: None }),
        ("valid of the payer", valid(&format!(r#","payer":"{payer}""#)), Verdict::Good { from_block: None }),
        ("valid of a stranger", valid(&format!(r#","payer":"{}""#, Address::repeat_byte(1))), unclear.clone()),
        ("invalid", invalid(200, "insufficient_funds"), bad("insufficient_funds")),
        ("invalid with 400", invalid(400, "invalid_payload"), bad("invalid_payload")),
        ("invalid in a sentence", invalid(200, "see https://rpc.example/s3cret"), bad("payment_not_valid")),
        ("valid with 500", Reply::Answer(500, r#"{"isValid":true}"#.to_owned()), unclear.clone()),
        ("401", Reply::Answer(401, String::new()), unclear.clone()),
        ("silence", Reply::Hang, unclear.clone()),
        ("hanging up", Reply::Close, unclear.clone()),
        ("no end", Reply::Huge, unclear.clone()),
        ("garbage", Reply::Garbage, unclear.clone()),
    ] {
        let server = Scripted::start([reply]).await;
        let verdict = match at(&server).verify(due(&payment, &offer)).await {
            Verdict::Unclear { detail } if !detail.is_empty() && !detail.contains("s3cret") => unclear.clone(),
            verdict => verdict,
        };
        assert_eq!(verdict, expected, "{name}");
        assert_eq!(server.requests().len(), 1, "{name}");
        assert_eq!(server.requests()[0].line(), "POST /x402/verify", "{name}");
    }
}

#[tokio::test]
async fn a_check_and_its_settlement_share_a_connection() {
    let valid = Reply::Answer(200, r#"{"isValid":true}"#.to_owned());
    let server = Keeping::start([valid.clone(), succeeded(HASH), valid, succeeded(HASH)]).await;
    let facilitator = Facilitator::from_setting(&format!("http://{}", server.address)).expect("a URL");
    let (offer, payment) = (offered(), paid());
    for _ in 0..2 {
        assert_eq!(facilitator.verify(due(&payment, &offer)).await, Verdict::Good { from_block: None });
        assert_eq!(facilitator.settle(due(&payment, &offer), None, &Unrecorded).await, Outcome::Settled { transaction: HASH });
    }
    let asked = ["POST /verify", "POST /settle"].map(str::to_owned);
    assert_eq!(server.seen(), (1, [asked.clone(), asked].concat()));
}

// A facilitator that closes a kept connection may have settled before. Asked again, it would say that the nonce is used, and the gate
// would take its own settlement for another server's.
#[tokio::test]
async fn a_settlement_on_a_connection_that_ends_is_not_sent_twice() {
    let valid = Reply::Answer(200, r#"{"isValid":true}"#.to_owned());
    let server = Keeping::start([valid, Reply::Close]).await;
    let facilitator = Facilitator::from_setting(&format!("http://{}", server.address)).expect("a URL");
    let (offer, payment) = (offered(), paid());
    assert_eq!(facilitator.verify(due(&payment, &offer)).await, Verdict::Good { from_block: None });
    let outcome = facilitator.settle(due(&payment, &offer), None, &Unrecorded).await;
    let asked = server.seen().1.iter().filter(|line| line.ends_with("settle")).count();
    check("closed", &outcome, &End::Unknown(None), asked, 1);
    assert_eq!(server.seen().0, 1);
    // A check is: the connection that it met its end on, and a new one.
    for _ in 0..2 {
        assert_eq!(facilitator.verify(due(&payment, &offer)).await, Verdict::Good { from_block: None });
    }
    let (connections, asked) = server.seen();
    assert_eq!((connections, asked.iter().filter(|line| line.ends_with("verify")).count()), (3, 4));
}

/// No name resolves.
#[derive(Debug)]
struct Nameless;

#[async_trait]
impl Resolve for Nameless {
    async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Err(ResolveError::NoSuchHost)
    }
}

// attack: T13
#[tokio::test]
async fn without_a_connection_nothing_was_attempted() {
    let (offer, payment) = (offered(), paid());
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let plain = Scripted::start([succeeded(HASH)]).await;
    let door = Configured::builder(SystemClock).resolver(Nameless).build().expect("a door");
    let nameless = Facilitator::new(ConfiguredUrl::from_setting("https://pay.invalid/x402").expect("a URL"), door);
    for facilitator in [
        Facilitator::from_setting(&format!("http://{closed}")).expect("a URL"),
        // It does not speak TLS, so the handshake fails.
        Facilitator::from_setting(&format!("https://{}/x402", plain.address)).expect("a URL"),
        nameless,
        at(&plain).authorize(|_| async { Err("no key: s3cret".into()) }),
        at(&plain).authorize(|_| std::future::pending()),
    ] {
        let facilitator = facilitator.settle_time(Duration::from_secs(2)).verify_time(Duration::from_secs(1));
        let outcome = facilitator.settle(due(&payment, &offer), None, &Unrecorded).await;
        check("not reached", &outcome, &End::NotAttempted, 0, plain.requests().len());
        assert!(!format!("{outcome:?}").contains("s3cret"), "{outcome:?}");
        let verdict = facilitator.verify(due(&payment, &offer)).await;
        assert!(matches!(verdict, Verdict::Unclear { .. }), "{verdict:?}");
    }
}

#[tokio::test]
async fn requests_are_written_from_what_was_understood() {
    let base = asset::usdc(84_532).expect("listed");
    for version in [Version::V1, Version::V2] {
        let offer = offer(&base, PRICE);
        let payment = signed_in(version, &offer, &base, authorization(payer().address()), payer());
        let server = Scripted::start([]).await;
        let count = Arc::new(AtomicU32::new(0));
        let counting = count.clone();
        let facilitator = at(&server).authorize(move |call: FacilitatorCall| {
            let number = counting.fetch_add(1, Ordering::SeqCst);
            async move { Ok(Headers::new().with("authorization", &format!("Bearer {}-{number}", call.name()))?) }
        });
        facilitator.verify(due(&payment, &offer)).await;
        facilitator.settle(due(&payment, &offer), None, &Unrecorded).await;
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        for (request, (line, token)) in
            requests.iter().zip([("POST /x402/verify", "Bearer verify-0"), ("POST /x402/settle", "Bearer settle-1")])
        {
            assert_eq!((request.line(), request.header("authorization")), (line, Some(token)));
            assert_eq!(request.header("content-type"), Some("application/json"));
            let (read, terms) = read_facilitator_request(&request.body).expect("sound");
            assert_eq!(
                (read.version, read.authorization, read.signature),
                (version, payment.authorization, payment.signature.clone())
            );
            assert_eq!(
                (terms.amount, terms.network.clone(), terms.pay_to),
                (offer.amount, offer.network.clone(), offer.pay_to.clone())
            );
        }
    }
}

// attack: T20, T6
#[tokio::test]
async fn what_can_never_settle_is_not_asked_for() {
    let server = Scripted::start([]).await;
    let token = asset::usdc(LOCAL).expect("listed");
    let mut offer = offered();
    let nameless = signed_in(Version::V1, &offer, &token, authorization(payer().address()), payer());
    let outcome = at(&server).settle(due(&nameless, &offer), None, &Unrecorded).await;
    check("version 1 has no name for the network", &outcome, &End::Refused("unsupported_network"), 0, server.requests().len());
    offer.amount = Amount::new(U256::ZERO);
    let mut nothing = authorization(payer().address());
    nothing.value = offer.amount;
    let nothing = signed(&offer, &token, nothing, payer());
    let outcome = at(&server).settle(due(&nothing, &offer), None, &Unrecorded).await;
    check("zero", &outcome, &End::Refused("zero_value"), 0, server.requests().len());
    assert_eq!(at(&server).verify(due(&nothing, &offer)).await, Verdict::Bad { reason: "zero_value".to_owned() });
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn what_is_supported_is_told_at_the_start() {
    let base = [offer(&asset::usdc(8453).expect("listed"), PRICE)];
    let local = [offered()];
    let kinds = |list: &[(u8, &str, &str)]| {
        let kinds: Vec<_> = list
            .iter()
            .map(|(version, scheme, network)| format!(r#"{{"x402Version":{version},"scheme":"{scheme}","network":"{network}"}}"#))
            .collect();
        Reply::Answer(200, format!(r#"{{"kinds":[{}],"extensions":[],"signers":{{}}}}"#, kinds.join(",")))
    };
    let missing = codes::settlement::KIND_NOT_SETTLED;
    let silent = codes::settlement::KINDS_UNKNOWN;
    let both = [(2, "exact", "eip155:8453"), (1, "exact", "base")];
    for (name, offers, reply, expected) in [
        ("both", &base, kinds(&both), vec![]),
        ("no version 1", &base, kinds(&both[..1]), vec![(missing, Severity::Warning)]),
        ("no version 2", &base, kinds(&both[1..]), vec![(missing, Severity::Error)]),
        ("nothing", &base, kinds(&[]), vec![(missing, Severity::Error); 2]),
        ("another scheme", &base, kinds(&[(2, "upto", "eip155:8453"), (1, "upto", "base")]), vec![(missing, Severity::Error); 2]),
        ("another network", &base, kinds(&[(2, "exact", "eip155:1"), (1, "exact", "base")]), vec![(missing, Severity::Error)]),
        ("no name in version 1", &local, kinds(&[(2, "exact", "eip155:31337")]), vec![]),
        ("500", &base, Reply::Answer(500, String::new()), vec![(silent, Severity::Warning)]),
        ("not JSON", &base, Reply::Answer(200, "<html>".to_owned()), vec![(silent, Severity::Warning)]),
        ("silence", &base, Reply::Hang, vec![(silent, Severity::Warning)]),
        ("no end", &base, Reply::Huge, vec![(silent, Severity::Warning)]),
    ] {
        let server = Scripted::start([reply]).await;
        let findings = at(&server).check(offers).await;
        let found: Vec<_> = findings.iter().map(|finding| (finding.code, finding.severity)).collect();
        assert_eq!(found, expected, "{name}: {findings:?}");
        assert_eq!(server.requests()[0].line(), "GET /x402/supported");
    }
}

#[tokio::test]
async fn a_facilitator_without_signers_is_told_at_the_start_where_they_matter() {
    let stage = Stage::ours(toolcrib_devchain::Devchain::builder(SystemClock).spawn().await.expect("a chain")).await;
    let list = |signers: &str| {
        let kinds = r#"[{"x402Version":2,"scheme":"exact","network":"eip155:31337"}]"#;
        Reply::Answer(200, format!(r#"{{"kinds":{kinds},"extensions":[],"signers":{signers}}}"#))
    };
    let none = vec![(codes::settlement::NO_SIGNERS, Severity::Warning)];
    for (name, signers, has_node, is_sole, expected) in [
        ("none", "{}", true, false, none.clone()),
        ("of another network", r#"{"eip155:1":["0x0000000000000000000000000000000000000001"]}"#, true, false, none),
        ("of every network", r#"{"eip155:*":["0x0000000000000000000000000000000000000001"]}"#, true, false, vec![]),
        ("of the network", r#"{"eip155:31337":["0x0000000000000000000000000000000000000001"]}"#, true, false, vec![]),
        ("without a node", "{}", false, false, vec![]),
        ("sole recipient", "{}", true, true, vec![]),
    ] {
        let server = Scripted::start([list(signers)]).await;
        let facilitator = at(&server);
        let facilitator = if has_node { facilitator.confirm_with([stage.chain.clone()]) } else { facilitator };
        let facilitator = if is_sole { facilitator.sole_recipient() } else { facilitator };
        let findings = facilitator.check(&[offered(), offered()]).await;
        let found: Vec<_> = findings.iter().map(|finding| (finding.code, finding.severity)).collect();
        assert_eq!(found, expected, "{name}: {findings:?}");
    }
}

/// Without a block in which the nonce was unused, an older transfer could be taken for this settlement's.
// attack: T2, T15
#[tokio::test]
async fn a_payment_is_not_taken_while_the_node_does_not_answer() {
    let devchain = toolcrib_devchain::Devchain::builder(SystemClock).spawn().await.expect("a chain");
    let chain = super::stage::connect(&devchain.http_url(), LOCAL).await;
    drop(devchain);
    let server = Scripted::start([Reply::Answer(200, r#"{"isValid":true}"#.to_owned())]).await;
    let (offer, payment) = (offered(), paid());
    let verdict = at(&server).confirm_with([chain]).verify(due(&payment, &offer)).await;
    assert!(matches!(verdict, Verdict::Unclear { .. }), "{verdict:?}");
}

// attack: T13
#[tokio::test]
async fn with_a_node_success_has_to_be_on_the_chain() {
    for stage in Stage::each().await {
        let offer = stage.offer();
        let since = SystemClock.now();
        // As it should be: the facilitator sends the transfer and names it.
        let payment = stage.payment();
        let hash = stage.send(&other(), stage.token.address, stage.transfer(&payment)).await;
        let server = Scripted::start([succeeded(hash)]).await;
        server.announce(&[other().address()]);
        let facilitator = at(&server).confirm_with([stage.chain.clone()]);
        assert_eq!(facilitator.settle(due(&payment, &offer), None, &Unrecorded).await, Outcome::Settled { transaction: hash });
        assert_eq!(facilitator.look_up(due(&payment, &offer), &Record::since(since)).await, Found::Settled { transaction: hash });
        // The same transaction for another payment; one that was mined and failed; one that does not exist.
        let next = stage.payment();
        let failed = failed_transaction(&stage, &payment).await;
        for (name, claimed, looked_for) in
            [("another's", hash, None), ("failed", failed, Some(failed)), ("none", HASH, Some(HASH))]
        {
            let server = Scripted::start([succeeded(claimed)]).await;
            let facilitator = at(&server).confirm_with([stage.chain.clone()]);
            let outcome = facilitator.settle(due(&next, &offer), None, &Unrecorded).await;
            check(name, &outcome, &End::Unknown(looked_for), 1, server.requests().len());
            assert_eq!(facilitator.look_up(due(&next, &offer), &Record::since(since)).await, Found::Open, "{name}");
        }
        stage.assert_paid(1).await;
        // A hash that is wrong, of a payment that was made all the same.
        let theirs = stage.send(&other(), stage.token.address, stage.transfer(&next)).await;
        let server = Scripted::start([succeeded(hash)]).await;
        server.announce(&[other().address()]);
        let facilitator = at(&server).confirm_with([stage.chain.clone()]);
        check(
            "wrong",
            &facilitator.settle(due(&next, &offer), None, &Unrecorded).await,
            &End::Unknown(None),
            1,
            server.requests().len(),
        );
        assert_eq!(facilitator.look_up(due(&next, &offer), &Record::since(since)).await, Found::Settled { transaction: theirs });
        stage.assert_paid(2).await;
        // Without a node the outcome is unknown.
        let found = at(&server).look_up(due(&next, &offer), &Record::since(since)).await;
        assert!(matches!(found, Found::Unclear { .. }), "{found:?}");
    }
}

/// Sends a transfer that is used up already, past all the checks, so that it is mined and fails.
async fn failed_transaction(stage: &Stage, used: &Payment) -> B256 {
    let prepared = stage.unchecked(&other(), stage.transfer(used)).await;
    let signed = stage.chain.sign(&other(), &prepared).await.expect("signed");
    stage.chain.broadcast(&signed).await.expect("sent");
    let ended = stage.chain.wait(&signed, Duration::from_secs(20), |_| {}).await;
    assert!(matches!(ended, Err(toolcrib_chain::Error::Failed { .. })), "{ended:?}");
    signed.hash
}
