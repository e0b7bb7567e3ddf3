//! Tools that cost money: every way in which a settlement can end, and what the caller, the store and the operator see of it.
//!
//! A script replaces the settlement, because every outcome is needed; on a chain it is tested in `settle`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, U256};
use async_trait::async_trait;
use serde_json::{Value, json};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::Finding;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_gate::{
    Context, Due, Found, Gate, Handler, Journal, Outcome, PaidGate, Rates, Reconciled, Record, SETTLEMENT_SECONDS, Server,
    Settle, Tool, ToolError, Tools, Verdict,
};
use toolcrib_store::replay::{Limits, MemoryReplay, RETRY_PAUSE_SECONDS, ReplayStore, State};
use toolcrib_x402::nonce::{BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Challenge, Offer, TimePolicy, Version, read_receipt};

use crate::world::{
    HttpResponse, Input, NOW, ORIGIN, Output, Runs, World, authorization, base_domain, creator, fresh, header, holder, post,
    sign, stranger,
};
use toolcrib_testkit::clock::MovingClock;

const PRICE: u64 = 20_000;
const USDC: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const TRANSACTION: B256 = B256::repeat_byte(0xaa);

fn recipient() -> Address {
    Address::repeat_byte(0x42)
}

/// Settles as it is told, and counts.
#[derive(Debug, Default)]
struct Script {
    verdicts: Mutex<VecDeque<Verdict>>,
    outcomes: Mutex<VecDeque<Outcome>>,
    found: Mutex<VecDeque<Found>>,
    verified: Mutex<usize>,
    settled: Mutex<usize>,
}

impl Script {
    fn verdict(self, verdict: Verdict) -> Self {
        self.verdicts.lock().expect("no panic").push_back(verdict);
        self
    }

    fn outcome(self, outcome: Outcome) -> Self {
        self.outcomes.lock().expect("no panic").push_back(outcome);
        self
    }

    fn find(&self, found: Found) {
        self.found.lock().expect("no panic").push_back(found);
    }

    fn settles(&self) -> usize {
        *self.settled.lock().expect("no panic")
    }
}

/// The newest block when payments are taken.
const FROM_BLOCK: u64 = 77;

#[async_trait]
impl Settle for Script {
    async fn check(&self, _: &[Offer]) -> Vec<Finding> {
        Vec::new()
    }

    async fn verify(&self, due: Due<'_>) -> Verdict {
        assert_eq!(due.offer.pay_to.evm_address(), Some(recipient()));
        *self.verified.lock().expect("no panic") += 1;
        self.verdicts.lock().expect("no panic").pop_front().unwrap_or(Verdict::Good { from_block: Some(FROM_BLOCK) })
    }

    async fn settle(&self, due: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        assert_eq!(due.payment.authorization.value, due.offer.amount);
        *self.settled.lock().expect("no panic") += 1;
        self.outcomes.lock().expect("no panic").pop_front().unwrap_or(Outcome::Settled { transaction: TRANSACTION })
    }

    async fn look_up(&self, _: Due<'_>, record: &Record) -> Found {
        assert!(record.reserved_at.seconds() >= NOW, "never from before the payment was taken");
        assert_eq!(record.from_block, Some(FROM_BLOCK), "kept from the check to the search");
        self.found.lock().expect("no panic").pop_front().unwrap_or(Found::Open)
    }
}

/// In how many seconds an answer says to come back.
#[track_caller]
fn retry_after(answer: &HttpResponse) -> i64 {
    answer.header("retry-after").and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("no Retry-After: {answer:?}"))
}

/// A server with one paid tool.
struct Shop {
    at: std::net::SocketAddr,
    server: Server,
    script: Arc<Script>,
    store: Arc<MemoryReplay>,
    runs: Runs,
    clock: MovingClock,
    faults: Arc<Mutex<Vec<String>>>,
    challenges: [Challenge; 2],
}

/// A tool that counts words for money. The word `fail` makes its first run fail, `long N` makes it say N words.
fn tool(gate: PaidGate, runs: &Runs) -> Tool<Handler> {
    let account = format!("eip155:8453:{:#x}", recipient());
    let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("{ORIGIN}/word-count"), creator());
    let builder = builder.price(&PRICE.to_string(), USDC, &account, "x402");
    let manifest = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest;
    let runs = runs.clone();
    Tool::new(manifest).gate(gate).handler(move |input: Input, context: Context| {
        runs.add();
        let first = runs.count() == 1;
        async move {
            assert_eq!(context.paid().expect("it was paid for").amount, Amount::new(U256::from(PRICE)));
            if input.text.starts_with("fail") && first {
                return Err(ToolError::unavailable("not today"));
            }
            let mut output = Output::new(&input.text, context.caller());
            if let Some(length) = input.text.strip_prefix("long ").and_then(|length| length.parse().ok()) {
                output.pad(length);
            }
            Ok(output)
        }
    })
}

impl Shop {
    async fn open(script: Script) -> Self {
        Self::with(script, |gate| gate).await
    }

    async fn with(script: Script, change: impl Fn(PaidGate) -> PaidGate) -> Self {
        Self::keeping(script, Limits::default(), change).await
    }

    async fn keeping(script: Script, limits: Limits, change: impl Fn(PaidGate) -> PaidGate) -> Self {
        let (script, runs) = (Arc::new(script), Runs::default());
        let store = Arc::new(MemoryReplay::new(limits));
        let clock = MovingClock::new();
        let faults = Arc::<Mutex<Vec<String>>>::default();
        let told = faults.clone();
        let server = Tools::new(ORIGIN)
            .shared_store(store.clone())
            .clock(clock.clone())
            .rates(Rates { per_address: None, ..Rates::default() })
            .on_fault(move |fault| told.lock().expect("no panic").push(format!("{} {}", fault.code, fault.detail)))
            .tool(tool(change(PaidGate::new(script.clone())), &runs))
            .build()
            .expect("sound settings");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("bound");
        tokio::spawn(server.clone().serve(listener, std::future::pending()));
        let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
        Self { at, server, script, store, runs, clock, faults, challenges }
    }

    fn authorization(&self) -> Authorization {
        Authorization { to: recipient(), value: Amount::new(U256::from(PRICE)), ..authorization(holder(), fresh()) }
    }

    async fn send(&self, version: Version, payment: &str, more: &[(&str, &str)], input: &Value) -> HttpResponse {
        let mut headers = vec![(version.payment_header(), payment)];
        headers.extend_from_slice(more);
        post(self.at, "/word-count", &headers, input).await
    }

    fn payment(&self, version: Version, authorization: Authorization) -> String {
        header(&self.challenges, version, authorization, sign(holder(), &authorization, &base_domain()))
    }

    async fn pay(&self, version: Version) -> HttpResponse {
        self.send(version, &self.payment(version, self.authorization()), &[], &two_words()).await
    }

    async fn entries(&self) -> u64 {
        self.store.counts().await.expect("memory answers").entries()
    }

    fn later(&self, seconds: i64) {
        self.clock.advance(seconds);
    }

    /// A payment that is bound to a call, and the headers that say so.
    fn bound(&self, input: &Value) -> (String, [(&'static str, String); 2]) {
        let tool = "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7";
        let reference = toolcrib_core::caip::ToolRef::parse(tool).expect("a reference");
        let (body, target) = (input.to_string(), format!("{ORIGIN}/word-count"));
        let call = BoundCall { tool: reference, method: "POST", target: &target, body: body.as_bytes() };
        let bound = BoundNonce::make(&call, fresh());
        let payment = self.payment(Version::V1, Authorization { nonce: bound.nonce, ..self.authorization() });
        (payment, [("X-Tool-Nonce-Salt", bound.salt_header()), ("X-Tool-Reference", tool.to_owned())])
    }
}

fn two_words() -> Value {
    json!({"text": "one two"})
}

/// The receipt of an answer, under the name of the version and no other.
#[track_caller]
fn receipt(answer: &HttpResponse, version: Version) -> toolcrib_x402::SettleResponse {
    let other = if version == Version::V1 { Version::V2 } else { Version::V1 };
    assert_eq!(answer.header(other.receipt_header()), None);
    let reading = read_receipt(answer.header(version.receipt_header()).expect("a receipt"));
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    reading.response.expect("a receipt")
}

// req: GATE-002, GATE-010, PAY-010
#[tokio::test]
async fn the_challenge_is_the_price_of_the_manifest() {
    let shop = Shop::open(Script::default()).await;
    for challenge in &shop.challenges {
        let [offer] = &challenge.accepts[..] else { panic!("one offer") };
        assert_eq!(offer.amount, Amount::new(U256::from(PRICE)));
        assert_eq!((offer.pay_to.evm_address(), offer.network.evm_id()), (Some(recipient()), Some(8453)));
    }
    // A signature for nothing buys nothing, and more than the price is not the price.
    for value in [0, PRICE - 1, PRICE + 1] {
        let changed = Authorization { value: Amount::new(U256::from(value)), ..shop.authorization() };
        let answer = shop.send(Version::V1, &shop.payment(Version::V1, changed), &[], &two_words()).await;
        let code = if value == 0 { "payment.value_missing" } else { "payment.value_differs" };
        assert_eq!(answer.verdict(), (402, code.to_owned()));
    }
    assert_eq!((shop.runs.count(), shop.script.settles(), shop.entries().await), (0, 0, 0));
}

// req: GATE-007, PAY-005
#[tokio::test]
async fn who_pays_gets_the_output_and_a_receipt_in_either_version() {
    let shop = Shop::open(Script::default()).await;
    for (at, version) in [Version::V1, Version::V2].into_iter().enumerate() {
        let answer = shop.pay(version).await;
        assert_eq!((answer.status, answer.json()["words"].as_u64()), (200, Some(2)), "{answer:?}");
        assert_eq!(answer.header("cache-control"), Some("private, no-store"));
        let receipt = receipt(&answer, version);
        assert!(receipt.success);
        assert_eq!(receipt.transaction_hash(), Some(TRANSACTION));
        assert_eq!(receipt.payer.expect("a payer").evm_address(), Some(holder().address()));
        assert_eq!((shop.runs.count(), shop.script.settles()), (at + 1, at + 1));
    }
    assert!(shop.faults.lock().expect("no panic").is_empty());
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn every_end_of_a_settlement_has_its_answer() {
    let refused = || Outcome::Refused { reason: "insufficient_funds".to_owned() };
    let unknown =
        || Outcome::Unknown { transaction: Some(TRANSACTION), detail: "no answer from https://secret.example".to_owned() };
    let not_attempted = || Outcome::NotAttempted { detail: "https://secret.example refused".to_owned() };
    // What the script says, what the chain says, and: answer, code, runs, payments that stay.
    let rows = [
        (Script::default().outcome(refused()), None, (402, "settlement.refused"), 1, 0),
        (Script::default().outcome(not_attempted()), None, (502, "settlement.unavailable"), 1, 0),
        (Script::default().outcome(unknown()), None, (502, "settlement.unknown"), 1, 1),
        (Script::default().outcome(unknown()), Some(Found::Unclear { detail: String::new() }), (502, "settlement.unknown"), 1, 1),
        (Script::default().outcome(unknown()), Some(Found::Spent), (409, "payment.replayed"), 1, 0),
        (
            Script::default().outcome(unknown()),
            Some(Found::Elsewhere { transaction: TRANSACTION }),
            (409, "payment.replayed"),
            1,
            1,
        ),
        (
            Script::default().outcome(Outcome::RefusedForNow { reason: "insufficient_funds".to_owned() }),
            None,
            (402, "settlement.refused"),
            1,
            1,
        ),
        (Script::default().outcome(unknown()), Some(Found::Settled { transaction: TRANSACTION }), (200, ""), 1, 1),
        (Script::default().verdict(Verdict::Bad { reason: "expired".to_owned() }), None, (402, "settlement.refused"), 0, 0),
        (Script::default().verdict(Verdict::Used), None, (409, "payment.replayed"), 0, 0),
        (Script::default().verdict(Verdict::Unclear { detail: "x".to_owned() }), None, (502, "settlement.unavailable"), 0, 0),
    ];
    for (at, (script, found, (status, code), runs, kept)) in rows.into_iter().enumerate() {
        let shop = Shop::open(script).await;
        if let Some(found) = found {
            shop.script.find(found);
        }
        let answer = shop.pay(Version::V2).await;
        assert_eq!(answer.verdict(), (status, code.to_owned()), "row {at}: {answer:?}");
        assert_eq!((shop.runs.count(), shop.entries().await), (runs, kept), "row {at}");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(!text.contains("secret.example"), "what a facilitator says is the operator's: {text}");
        assert_eq!(text.contains("\"words\""), status == 200, "row {at}: the output is withheld");
        if status == 402 {
            answer.challenges();
            let receipt = receipt(&answer, Version::V2);
            assert!(!receipt.success && receipt.reason.is_some());
        }
        if status == 502 {
            assert!(answer.header("retry-after").is_some());
            assert_eq!(answer.header("payment-required"), None, "nobody is asked to pay again");
        }
    }
}

// req: GATE-007
// attack: T14
#[tokio::test]
async fn a_handler_that_fails_costs_nothing() {
    let shop = Shop::open(Script::default()).await;
    let payment = shop.payment(Version::V1, shop.authorization());
    let answer = shop.send(Version::V1, &payment, &[], &json!({"text": "fail"})).await;
    assert_eq!(answer.verdict(), (503, "gate.unavailable".to_owned()));
    assert_eq!((shop.runs.count(), shop.script.settles(), shop.entries().await), (1, 0, 0));
    let answer = shop.send(Version::V1, &payment, &[], &json!({"text": "fail"})).await;
    assert_eq!((answer.status, shop.script.settles()), (200, 1), "the same payment is still good");
}

// attack: T1, T4
#[tokio::test]
async fn one_payment_runs_once_however_often_and_in_whatever_version_it_comes() {
    let shop = Shop::open(Script::default()).await;
    let authorization = shop.authorization();
    let payments = [Version::V1, Version::V2].map(|version| (version, shop.payment(version, authorization)));
    let calls = (0..20).map(|at| {
        let (version, payment) = &payments[at % 2];
        let shop = &shop;
        async move { shop.send(*version, payment, &[], &two_words()).await }
    });
    let answers = futures_util::future::join_all(calls).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(200), count(409), shop.runs.count(), shop.script.settles()), (1, 19, 1, 1));
    for (version, payment) in &payments {
        let answer = shop.send(*version, payment, &[], &two_words()).await;
        assert_eq!(answer.verdict(), (409, "payment.replayed".to_owned()));
        assert_eq!(answer.json()["transaction"], json!(TRANSACTION));
        assert_eq!(receipt(&answer, *version).transaction_hash(), Some(TRANSACTION));
        assert!(!String::from_utf8_lossy(&answer.body).contains("words"));
    }
}

// attack: T16
#[tokio::test]
async fn the_result_is_for_whoever_proves_to_have_paid() {
    let shop = Shop::open(Script::default()).await;
    // Bound: the salt is the proof, and nothing else is given.
    let (payment, [salt, reference]) = shop.bound(&two_words());
    let proof = [(salt.0, salt.1.as_str()), (reference.0, reference.1.as_str())];
    let first = shop.send(Version::V1, &payment, &proof, &two_words()).await;
    assert_eq!((first.status, first.header("x-tool-retry-token")), (200, None), "{first:?}");
    for seconds in [0, 400, 3_000] {
        shop.later(seconds);
        let again = shop.send(Version::V1, &payment, &proof, &two_words()).await;
        assert_eq!((again.status, &again.body), (200, &first.body), "after {seconds} s more");
        assert_eq!(receipt(&again, Version::V1), receipt(&first, Version::V1));
    }
    shop.later(3_600);
    let late = shop.send(Version::V1, &payment, &proof, &two_words()).await;
    assert!(matches!(late.status, 402 | 409), "an hour is over, whether or not it is forgotten already: {late:?}");
    // Without the salt, as a reader of the chain has it.
    let answer = shop.send(Version::V1, &payment, &[], &two_words()).await;
    assert_eq!(answer.verdict(), (402, "payment.salt_missing".to_owned()));
    assert_eq!((shop.runs.count(), shop.script.settles()), (1, 1));
}

// attack: T16
#[tokio::test]
async fn a_caller_without_a_salt_gets_a_token() {
    let shop = Shop::open(Script::default()).await;
    let payment = shop.payment(Version::V2, shop.authorization());
    let first = shop.send(Version::V2, &payment, &[], &two_words()).await;
    let token = first.header("x-tool-retry-token").expect("a token").to_owned();
    assert_eq!(first.header("x-tool-redeemable-seconds"), Some("3600"), "for how long the result is kept");
    let exposed = first.header("access-control-expose-headers").expect("for browsers");
    assert!(exposed.contains("X-Tool-Retry-Token, X-Tool-Redeemable-Seconds"), "{exposed}");
    let again = shop.send(Version::V2, &payment, &[("X-Tool-Retry-Token", &token)], &two_words()).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    // Another token, another body, no token: the receipt and no more.
    let wrong = fresh().to_string();
    for (token, input) in [(Some(&wrong), two_words()), (Some(&token), json!({"text": "other"})), (None, two_words())] {
        let headers: Vec<_> = token.iter().map(|token| ("X-Tool-Retry-Token", token.as_str())).collect();
        let answer = shop.send(Version::V2, &payment, &headers, &input).await;
        assert_eq!(answer.verdict(), (409, "payment.replayed".to_owned()));
        assert!(receipt(&answer, Version::V2).success);
    }
    for bad in ["", "0x12", "zz"] {
        let answer = shop.send(Version::V2, &payment, &[("X-Tool-Retry-Token", bad)], &two_words()).await;
        assert_eq!(answer.verdict(), (400, "payment.retry_token".to_owned()), "{bad:?}");
    }
    assert_eq!((shop.runs.count(), shop.script.settles()), (1, 1));
}

// attack: T13, T16
#[tokio::test]
async fn an_unknown_end_is_found_out_later_and_the_payer_gets_the_result() {
    let unknown = Outcome::Unknown { transaction: None, detail: "timed out".to_owned() };
    let shop = Shop::open(Script::default().outcome(unknown)).await;
    let payment = shop.payment(Version::V2, shop.authorization());
    let first = shop.send(Version::V2, &payment, &[], &two_words()).await;
    assert_eq!(first.verdict(), (502, "settlement.unknown".to_owned()));
    let token = first.header("x-tool-retry-token").expect("a token").to_owned();
    let with_token = [("X-Tool-Retry-Token", token.as_str())];
    // Nobody knows yet; strangers never learn.
    assert_eq!(shop.send(Version::V2, &payment, &with_token, &two_words()).await.verdict().1, "settlement.unknown");
    assert_eq!(shop.send(Version::V2, &payment, &[], &two_words()).await.verdict().1, "settlement.unknown");
    // The chain knows: the payer's retry gets the result at once.
    shop.script.find(Found::Settled { transaction: TRANSACTION });
    let again = shop.send(Version::V2, &payment, &with_token, &two_words()).await;
    assert_eq!((again.status, again.json()["words"].as_u64()), (200, Some(2)));
    assert_eq!(shop.send(Version::V2, &payment, &[], &two_words()).await.verdict(), (409, "payment.replayed".to_owned()));
    assert_eq!((shop.runs.count(), shop.script.settles()), (1, 1), "nothing ran and nothing was charged twice");
}

#[tokio::test]
async fn payments_whose_end_is_unknown_are_looked_up_in_the_background() {
    for (found, expected, kept) in [
        (Found::Settled { transaction: TRANSACTION }, Reconciled { settled: 1, released: 0, open: 0 }, 1),
        (Found::Never, Reconciled { settled: 0, released: 1, open: 0 }, 0),
        (Found::Spent, Reconciled { settled: 0, released: 1, open: 0 }, 0),
        (Found::Open, Reconciled { settled: 0, released: 0, open: 1 }, 1),
        // Its payer has paid, so its result is kept for as long as others.
        (Found::Elsewhere { transaction: TRANSACTION }, Reconciled { settled: 0, released: 0, open: 1 }, 1),
    ] {
        let unknown = Outcome::Unknown { transaction: None, detail: "timed out".to_owned() };
        let shop = Shop::open(Script::default().outcome(unknown)).await;
        assert_eq!(shop.pay(Version::V1).await.verdict().1, "settlement.unknown");
        // Not before its lease is over: the server itself looks every few seconds.
        shop.later(SETTLEMENT_SECONDS);
        shop.script.find(found);
        assert_eq!(shop.server.reconcile().await, expected);
        assert_eq!(shop.entries().await, kept);
        assert_eq!(shop.script.settles(), 1);
        assert_eq!(shop.store.counts().await.expect("counts").unknown, u64::from(expected.open == 1));
    }
}

// attack: T14
#[tokio::test]
async fn where_it_settles_first_the_receipt_comes_with_the_failure_and_the_call_can_be_made_up_for() {
    let shop = Shop::with(Script::default(), PaidGate::settle_first).await;
    let (payment, [salt, reference]) = shop.bound(&json!({"text": "fail"}));
    let proof = [(salt.0, salt.1.as_str()), (reference.0, reference.1.as_str())];
    let failed = shop.send(Version::V1, &payment, &proof, &json!({"text": "fail"})).await;
    assert_eq!(failed.verdict(), (503, "gate.unavailable".to_owned()));
    assert!(receipt(&failed, Version::V1).success, "paid");
    // Not at once, and then it runs again and is not charged again.
    let waiting = shop.send(Version::V1, &payment, &proof, &json!({"text": "fail"})).await;
    assert_eq!(waiting.verdict(), (409, "payment.pending".to_owned()));
    assert_eq!(failed.header("x-tool-redeemable-seconds"), Some("3600"));
    // A caller that comes back when it is told to is not sent away again.
    assert!(retry_after(&waiting) >= RETRY_PAUSE_SECONDS, "{waiting:?}");
    shop.later(retry_after(&waiting));
    let again = shop.send(Version::V1, &payment, &proof, &json!({"text": "fail"})).await;
    assert_eq!((again.status, again.json()["words"].as_u64()), (200, Some(1)), "{again:?}");
    assert_eq!(again.header("x-tool-redeemable-seconds"), None, "its time began with the settlement, and was said then");
    let kept = shop.send(Version::V1, &payment, &proof, &json!({"text": "fail"})).await;
    assert_eq!((kept.status, &kept.body), (200, &again.body));
    assert_eq!((shop.runs.count(), shop.script.settles()), (2, 1));
}

// req: GATE-007, GATE-008
// attack: T12
#[tokio::test]
async fn a_denied_caller_pays_nothing() {
    let world = World::start().await;
    let id = world.tool_for_holders().await;
    // The payment's own times count, whatever the predicate's gate says.
    let (short, usual) = (TimePolicy { max_seconds: 1, ..TimePolicy::default() }, TimePolicy::default());
    for (times, predicate_times, status) in [(usual, short, 200), (short, usual, 402)] {
        let shop = Shop::with(Script::default(), |gate| gate.times(times).predicate(world.gate(id).times(predicate_times))).await;
        assert_eq!(shop.pay(Version::V2).await.status, status);
    }
    let shop = Shop::with(Script::default(), |gate| gate.predicate(world.gate(id))).await;
    let authorization = Authorization { from: stranger().address(), ..shop.authorization() };
    let payment = header(&shop.challenges, Version::V2, authorization, sign(stranger(), &authorization, &base_domain()));
    let answer = shop.send(Version::V2, &payment, &[], &two_words()).await;
    assert_eq!(answer.verdict(), (403, "access.denied".to_owned()));
    assert_eq!((shop.runs.count(), shop.script.settles(), shop.entries().await), (0, 0, 0));
    let answer = shop.pay(Version::V2).await;
    assert_eq!((answer.status, shop.script.settles()), (200, 1), "a holder pays once, with one signature");
    // A predicate that does not work is nobody's denial, and moves nothing either.
    world.devchain.set_code(world.predicate, vec![0xfe]);
    assert_eq!(shop.pay(Version::V2).await.verdict(), (502, "access.predicate_malfunction".to_owned()));
    assert_eq!(shop.script.settles(), 1);
}

#[tokio::test]
async fn a_crash_before_the_money_moves_leaves_the_payment_good() {
    let shop = Shop::open(Script::default()).await;
    let authorization = shop.authorization();
    let key = toolcrib_x402::ReplayKey::of(&authorization, &shop.challenges[1].accepts[0]).expect("a key");
    let payment = shop.payment(Version::V1, authorization);
    // Somebody else's reservation, whose holder is gone.
    let reservation = toolcrib_store::replay::Reservation {
        expires_at: UnixTime::from_seconds(NOW + 360),
        lease_until: UnixTime::from_seconds(NOW + 60),
        route: "elsewhere",
        body_hash: B256::ZERO,
        proof: None,
        payment_id: None,
    };
    shop.store.reserve(&key, &reservation, UnixTime::from_seconds(NOW)).await.expect("memory answers");
    // Whoever keeps coming back when told to is served once the lease is over.
    let mut waited = 0;
    let answer = loop {
        let answer = shop.send(Version::V1, &payment, &[], &two_words()).await;
        if answer.status != 409 {
            break answer;
        }
        assert_eq!(answer.verdict(), (409, "payment.pending".to_owned()));
        let seconds = retry_after(&answer);
        assert!((1..=60).contains(&seconds) && waited <= 60, "a lease is not longer: {answer:?} after {waited} s");
        shop.later(seconds);
        waited += seconds;
    };
    assert!(answer.status == 200 && waited >= 60, "{answer:?} after {waited} s");
    assert_eq!(shop.store.entry(&key).await.expect("memory").expect("there").state, State::Settled);
}

#[tokio::test]
async fn nobody_pays_for_what_cannot_be_kept() {
    // A store without room for results, and an output that is larger than any store keeps.
    for (words, room, code) in [(2, 0, "store.full"), (400_000, u64::MAX, "gate.output_too_large")] {
        let limits = Limits { result_bytes: room, ..Limits::default() };
        let shop = Shop::keeping(Script::default(), limits, |gate| gate).await;
        let payment = shop.payment(Version::V1, shop.authorization());
        let input = json!({"text": format!("long {words}")});
        let answer = shop.send(Version::V1, &payment, &[], &input).await;
        assert_eq!(answer.verdict().1, code, "{answer:?}");
        assert_eq!((shop.script.settles(), shop.entries().await), (0, 0), "nothing is charged, and the payment is given back");
    }
}

#[test]
fn what_a_paid_tool_is_not_served_with() {
    let check = |tools: Tools, codes: &[&str]| {
        let errors = tools.build().map_or_else(|errors| errors.0, |_| Vec::new());
        assert_eq!(errors.iter().map(|error| error.code().id()).collect::<Vec<_>>(), codes, "{errors:?}");
    };
    let paid = || Gate::paid(Script::default());
    let memory = || MemoryReplay::new(Limits::default());
    check(Tools::new(ORIGIN).tool(tool(paid(), &Runs::default())), &["gate.no_store"]);
    check(Tools::new(ORIGIN).store(memory()).tool(tool(paid(), &Runs::default())), &[]);
    let priced = |amount: &str, asset: &str, protocol: &str| {
        let account = format!("{}:{:#x}", asset.split('/').next().expect("a chain"), recipient());
        let builder = ToolBuilder::new("word-count", "Counts.", &format!("{ORIGIN}/x"), creator());
        let manifest = builder.price(amount, asset, &account, protocol).build().expect("a manifest").manifest;
        Tool::new(manifest).gate(paid()).handler(async |input: Value, _| Ok(input))
    };
    for (amount, asset, protocol) in [
        ("0", USDC, "x402"),
        ("1", "eip155:8453/slip44:60", "x402"),
        ("1", USDC, "erc20-transfer"),
        ("1", "eip155:8453/erc20:0x00000000000000000000000000000000000000aa", "x402"),
    ] {
        check(Tools::new(ORIGIN).store(memory()).tool(priced(amount, asset, protocol)), &["gate.challenge"]);
    }
    let free = ToolBuilder::new("word-count", "Counts.", &format!("{ORIGIN}/x"), creator()).build().expect("a manifest").manifest;
    let free = Tool::new(free).gate(paid()).handler(async |input: Value, _| Ok(input));
    check(Tools::new(ORIGIN).store(memory()).tool(free), &["gate.no_price", "gate.challenge"]);
}
