//! Gates as tower layers: handlers of axum behind a real listener, with the same promises as the tools of a server.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, U256};
use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as posted};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::finding::Finding;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::{ToolBuilder, ToolManifest};
use toolcrib_gate::{
    Context, Due, Found, Gate, GateLayer, Journal, LayerBuilder, Outcome, PaidGate, Rate, Rates, Record, Settle, Tools, Verdict,
};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore};
use toolcrib_x402::{Authorization, Challenge, Version};

use crate::world::{
    HttpResponse, Input, NOW, ORIGIN, Output, Runs, authorization, base_domain, counting, creator, fresh, header, holder,
    manifest, post, send, sign,
};

const PRICE: u64 = 20_000;
const USDC: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const TRANSACTION: B256 = B256::repeat_byte(0xaa);

fn recipient() -> Address {
    Address::repeat_byte(0x42)
}

/// Settles as it is told, and counts.
#[derive(Debug, Default)]
struct Script {
    outcomes: Mutex<VecDeque<Outcome>>,
    found: Mutex<VecDeque<Found>>,
    settled: Mutex<usize>,
}

#[async_trait]
impl Settle for Script {
    async fn verify(&self, _: Due<'_>) -> Verdict {
        Verdict::Good { from_block: None }
    }

    async fn settle(&self, _: Due<'_>, _: Option<u64>, _: &dyn Journal) -> Outcome {
        *self.settled.lock().expect("no panic") += 1;
        self.outcomes.lock().expect("no panic").pop_front().unwrap_or(Outcome::Settled { transaction: TRANSACTION })
    }

    async fn look_up(&self, _: Due<'_>, _: &Record) -> Found {
        self.found.lock().expect("no panic").pop_front().unwrap_or(Found::Open)
    }

    async fn check(&self, _: &[toolcrib_x402::Offer]) -> Vec<Finding> {
        Vec::new()
    }
}

/// Counts words. Some texts make it answer what a tool must not.
async fn count(State(runs): State<Runs>, context: Context, headers: HeaderMap, body: Bytes) -> Response {
    runs.add();
    for proof in ["x-payment", "payment-signature", "x-tool-retry-token", "sign-in-with-x"] {
        assert!(!headers.contains_key(proof), "{proof} is the gate's");
    }
    assert_eq!(headers["content-type"], "application/json");
    let Input { text } = serde_json::from_slice(&body).expect("the gate has read it");
    let json = |status: StatusCode, body: String| (status, [(CONTENT_TYPE, "application/json")], body).into_response();
    match text.as_str() {
        "fail" if runs.count() == 1 => (StatusCode::SERVICE_UNAVAILABLE, "not today").into_response(),
        "plain" => "two words".into_response(),
        "empty" => StatusCode::NO_CONTENT.into_response(),
        "other" => json(StatusCode::OK, json!({"words": "two"}).to_string()),
        "twice" => json(StatusCode::OK, "{\"words\": 1, \"words\": 2, \"caller\": null}".to_owned()),
        "long" => json(StatusCode::OK, json!({"words": 2, "caller": "x".repeat(100_000)}).to_string()),
        "panic" => panic!("as it was told"),
        // With a blank that a serializer would not write.
        text => {
            let output = serde_json::to_string(&Output::new(text, context.caller())).expect("an output");
            json(StatusCode::OK, format!(" {output}"))
        }
    }
}

/// Serves the handler behind a layer, and other routes beside it, with axum's own server.
async fn serve(layer: &GateLayer, runs: &Runs) -> SocketAddr {
    let router = Router::new()
        .route("/word-count", posted(count))
        .layer(layer.clone())
        .route("/health", get(|| async { "well" }).post(|body: String| async move { body }))
        .with_state(runs.clone())
        .merge(layer.routes());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    at
}

fn priced() -> Sealed<ToolManifest> {
    let account = format!("eip155:8453:{:#x}", recipient());
    let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("{ORIGIN}/word-count"), creator());
    let builder = builder.price(&PRICE.to_string(), USDC, &account, "x402");
    builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest
}

fn at_now(builder: LayerBuilder) -> GateLayer {
    builder.settings(|tools| tools.clock(FixedClock(UnixTime::from_seconds(NOW)))).build().expect("sound settings")
}

/// A paid handler behind a layer.
struct Shop {
    at: SocketAddr,
    layer: GateLayer,
    script: Arc<Script>,
    store: Arc<MemoryReplay>,
    runs: Runs,
    challenges: [Challenge; 2],
}

impl Shop {
    async fn open(script: Script, change: impl FnOnce(PaidGate) -> PaidGate) -> Self {
        let (script, runs) = (Arc::new(script), Runs::default());
        let store = Arc::new(MemoryReplay::new(Limits { one_result_bytes: 50_000, ..Limits::default() }));
        let (used, gate) = (store.clone(), change(PaidGate::new(script.clone())));
        let layer = at_now(
            gate.layer(priced())
                .settings(|tools| tools.shared_store(used).rates(Rates { per_address: None, ..Rates::default() })),
        );
        let at = serve(&layer, &runs).await;
        let challenges = post(at, "/word-count", &[], &json!({})).await.challenges();
        Self { at, layer, script, store, runs, challenges }
    }

    fn payment(&self) -> String {
        let price = Amount::new(U256::from(PRICE));
        let authorization = Authorization { to: recipient(), value: price, ..authorization(holder(), fresh()) };
        header(&self.challenges, Version::V1, authorization, sign(holder(), &authorization, &base_domain()))
    }

    async fn call(&self, payment: &str, more: &[(&str, &str)], text: &str) -> HttpResponse {
        let headers: Vec<_> = [("X-PAYMENT", payment)].into_iter().chain(more.iter().copied()).collect();
        post(self.at, "/word-count", &headers, &json!({ "text": text })).await
    }

    fn settles(&self) -> usize {
        *self.script.settled.lock().expect("no panic")
    }

    async fn entries(&self) -> u64 {
        self.store.counts().await.expect("memory answers").entries()
    }
}

fn has_receipt(answer: &HttpResponse) -> bool {
    answer.header("x-payment-response").is_some()
}

// req: GATE-002, GATE-007, PAY-010
#[tokio::test]
async fn a_paid_handler_gets_calls_that_were_paid_for_alone() {
    let shop = Shop::open(Script::default(), |gate| gate).await;
    for challenge in &shop.challenges {
        assert_eq!(challenge.accepts[0].amount, Amount::new(U256::from(PRICE)));
    }
    assert_eq!((shop.runs.count(), shop.settles()), (0, 0), "nothing ran for nothing");
    let payment = shop.payment();
    let answer = shop.call(&payment, &[], "one two").await;
    assert_eq!((answer.status, answer.json()["words"].as_u64()), (200, Some(2)), "{answer:?}");
    assert_eq!(answer.json()["caller"], holder().address().to_checksum(None), "the handler knows who called");
    assert_eq!(answer.body.first(), Some(&b' '), "the bytes of the handler");
    assert!(has_receipt(&answer));
    assert_eq!((shop.runs.count(), shop.settles()), (1, 1));
    // The same payment gets the same result with the token, and none without. The handler does not run again.
    let token = answer.header("x-tool-retry-token").expect("a token").to_owned();
    let again = shop.call(&payment, &[("X-Tool-Retry-Token", &token)], "one two").await;
    assert_eq!((again.status, &again.body), (200, &answer.body));
    assert!(has_receipt(&again));
    let stranger = shop.call(&payment, &[], "one two").await;
    assert_eq!(stranger.verdict(), (409, "payment.replayed".to_owned()));
    let other = shop.call(&payment, &[("X-Tool-Retry-Token", &token)], "another call").await;
    assert_eq!(other.verdict(), (409, "payment.replayed".to_owned()));
    assert_eq!((shop.runs.count(), shop.settles()), (1, 1));
    shop.layer.server().wait_until_idle().await;
    assert!(shop.layer.server().metrics().await.contains("toolcrib_payments_total{tool=\"word-count\",outcome=\"settled\"} 1\n"));
}

// req: GATE-007
// attack: T14
#[tokio::test]
async fn a_handler_that_gives_no_output_costs_nothing() {
    let shop = Shop::open(Script::default(), |gate| gate).await;
    let payment = shop.payment();
    let failed = shop.call(&payment, &[], "fail").await;
    assert_eq!((failed.status, &*failed.body), (503, &b"not today"[..]), "the handler's own words");
    assert_eq!(failed.header("access-control-allow-origin"), Some("*"));
    assert_eq!((shop.settles(), shop.entries().await), (0, 0), "the payment was given back");
    for (text, code) in [
        ("plain", "gate.output_invalid"),
        ("empty", "gate.output_invalid"),
        ("other", "gate.output_invalid"),
        ("twice", "gate.output_invalid"),
        ("long", "gate.output_too_large"),
    ] {
        assert_eq!(shop.call(&payment, &[], text).await.verdict(), (500, code.to_owned()), "{text}");
        assert_eq!((shop.settles(), shop.entries().await), (0, 0), "{text}");
    }
    assert_eq!(shop.call(&shop.payment(), &[], "panic").await.verdict(), (500, "gate.panicked".to_owned()));
    assert_eq!(shop.settles(), 0);
    let served = shop.call(&payment, &[], "one two").await;
    assert_eq!((served.status, shop.settles()), (200, 1), "{served:?}");
}

// req: GATE-007
// attack: T13
#[tokio::test]
async fn a_result_is_withheld_until_its_payment_is_known_to_have_moved() {
    let unknown = Outcome::Unknown { transaction: Some(TRANSACTION), detail: "no answer".to_owned() };
    let script = Script { outcomes: Mutex::new([unknown].into()), ..Script::default() };
    let shop = Shop::open(script, |gate| gate).await;
    let payment = shop.payment();
    let answer = shop.call(&payment, &[], "one two").await;
    assert_eq!(answer.verdict(), (502, "settlement.unknown".to_owned()));
    assert!(!String::from_utf8_lossy(&answer.body).contains("words"));
    let token = answer.header("x-tool-retry-token").expect("a token").to_owned();
    shop.script.found.lock().expect("no panic").push_back(Found::Settled { transaction: TRANSACTION });
    let again = shop.call(&payment, &[("X-Tool-Retry-Token", &token)], "one two").await;
    assert_eq!((again.status, again.json()["words"].as_u64()), (200, Some(2)), "{again:?}");
    assert!(has_receipt(&again));
    assert_eq!((shop.runs.count(), shop.settles()), (1, 1), "neither run nor charged again");
}

// req: GATE-007
#[tokio::test]
async fn a_handler_that_is_paid_first_keeps_the_receipt_when_it_fails() {
    let shop = Shop::open(Script::default(), PaidGate::settle_first).await;
    let payment = shop.payment();
    let failed = shop.call(&payment, &[], "fail").await;
    assert_eq!((failed.status, &*failed.body), (503, &b"not today"[..]));
    assert!(has_receipt(&failed) && failed.header("x-tool-retry-token").is_some());
    assert_eq!((shop.settles(), shop.entries().await), (1, 1));
}

// req: GATE-001
#[tokio::test]
async fn other_routes_are_as_they_were() {
    let shop = Shop::open(Script::default(), |gate| gate).await;
    let well = send(shop.at, "GET", "/health", &[], b"").await;
    assert_eq!((well.status, &*well.body), (200, &b"well"[..]));
    let echoed = send(shop.at, "POST", "/health", &[("X-PAYMENT", b"not read")], b"no json").await;
    assert_eq!((echoed.status, &*echoed.body), (200, &b"no json"[..]));
    assert_eq!(send(shop.at, "GET", "/elsewhere", &[], b"").await.status, 404);
    let manifest = send(shop.at, "GET", "/.well-known/ai-tool/word-count.json", &[], b"").await;
    assert_eq!((manifest.status, &*manifest.body), (200, priced().canonical().as_bytes()));
    // Methods are the gate's: nothing passes it.
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        assert_eq!(send(shop.at, method, "/word-count", &[], b"").await.status, 405, "{method}");
    }
    assert_eq!(send(shop.at, "OPTIONS", "/word-count", &[], b"").await.status, 204);
    let other = send(shop.at, "POST", "/word-count", &[("Content-Type", b"text/plain")], b"{}").await;
    assert_eq!(other.verdict(), (415, "gate.content_type".to_owned()));
    assert_eq!(shop.runs.count(), 0);
}

// req: GATE-006, GATE-009
#[tokio::test]
async fn an_identity_layer_tells_the_handler_who_calls() {
    let runs = Runs::default();
    let layer = at_now(Gate::identity().layer(manifest("word-count")));
    let at = serve(&layer, &runs).await;
    let unsigned = post(at, "/word-count", &[], &json!({"text": "a"})).await;
    assert_eq!((unsigned.status, runs.count()), (402, 0));
    let challenges = unsigned.challenges();
    let authorization = authorization(holder(), fresh());
    let proof = header(&challenges, Version::V1, authorization, sign(holder(), &authorization, &base_domain()));
    let answer = post(at, "/word-count", &[("X-PAYMENT", &proof)], &json!({"text": "a"})).await;
    assert_eq!((answer.status, answer.json()["caller"].clone()), (200, json!(holder().address().to_checksum(None))));
    let again = post(at, "/word-count", &[("X-PAYMENT", &proof)], &json!({"text": "a"})).await;
    assert_eq!((again.verdict(), runs.count()), ((409, "payment.replayed".to_owned()), 1));
}

// req: GATE-001
#[tokio::test]
async fn an_open_layer_has_limits_and_checks_what_the_manifest_promises() {
    let runs = Runs::default();
    let rates = Rates { per_address: Some(Rate::new(3, 0.01)), ..Rates::default() };
    let layer = at_now(Gate::Open.layer(manifest("word-count")).settings(|tools| tools.rates(rates)));
    let at = serve(&layer, &runs).await;
    let answer = post(at, "/word-count", &[], &json!({"text": "a b c"})).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"words": 3, "caller": Value::Null})));
    assert_eq!(post(at, "/word-count", &[], &json!({"text": 7})).await.verdict(), (400, "gate.input_invalid".to_owned()));
    assert_eq!(post(at, "/word-count", &[], &json!({"text": "other"})).await.verdict(), (500, "gate.output_invalid".to_owned()));
    assert_eq!(post(at, "/word-count", &[], &json!({"text": "a"})).await.verdict(), (429, "gate.rate_limited".to_owned()));
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_handler_that_takes_the_context_does_not_run_without_a_layer() {
    let runs = Runs::default();
    let router = Router::new().route("/word-count", posted(count)).with_state(runs.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    assert_eq!(post(at, "/word-count", &[], &json!({"text": "a"})).await.verdict(), (500, "gate.failed".to_owned()));
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_server_has_layers_beside_tools_of_its_own() {
    let runs = Runs::default();
    let layered = toolcrib_gate::Tool::new(manifest("word-count")).layered();
    let tools = Tools::new(ORIGIN).tool(layered).tool(counting("letters", Gate::Open, &runs));
    let server = tools.build().expect("sound settings");
    assert!(server.layer("letters").is_none() && server.layer("none").is_none());
    let layer = server.layer("word-count").expect("it is layered");
    let at = serve(&layer, &runs).await;
    for path in ["/word-count", "/letters"] {
        assert_eq!(post(at, path, &[], &json!({"text": "a b"})).await.json()["words"], 2, "{path}");
    }
    // A paid layer without a store is refused as a paid tool is.
    let error = PaidGate::new(Arc::new(Script::default())).layer(priced()).build().expect_err("no store");
    assert!(error.to_string().contains("store"), "{error}");
}
