//! Tools that are called with GET, and what caches may store of them.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::tool::ToolBuilder;
use toolcrib_gate::{Context, Gate, Handler, MAX_QUERY_BYTES, PaidGate, Rates, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::nonce::{BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Version};

use crate::till::{PRICE, USDC_ON_BASE, of_the_price, till};
use crate::world::{
    HttpResponse, ORIGIN, Runs, authorization, base_domain, creator, fresh, header, holder, post, send, serve, sign,
};

#[derive(Deserialize, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Tides {
    harbour: String,
    days: Option<u8>,
    #[serde(default)]
    metric: bool,
    level: Option<f64>,
    #[serde(default)]
    years: Vec<u16>,
}

/// A tool that says what it was asked.
fn echo(name: &str, gate: impl Into<Gate>, is_paid: bool, runs: &Runs) -> Tool<Handler> {
    let mut builder = ToolBuilder::new(name, "Says what it was asked.", &format!("{ORIGIN}/{name}"), creator());
    if is_paid {
        builder = builder.price(&PRICE.to_string(), USDC_ON_BASE, &format!("eip155:8453:{:#x}", creator()), "x402");
    }
    let manifest = builder.inputs::<Tides>().outputs::<Tides>().build().expect("a manifest without errors").manifest;
    let runs = runs.clone();
    Tool::new(manifest).gate(gate).handler(move |input: Tides, _: Context| {
        runs.add();
        async move { Ok::<_, ToolError>(input) }
    })
}

fn tools() -> Tools {
    let store = Arc::new(MemoryReplay::new(Limits::default()));
    Tools::new(ORIGIN).shared_store(store).rates(Rates { per_address: None, ..Rates::default() })
}

async fn get(at: SocketAddr, target: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    send(at, "GET", target, &headers, b"").await
}

#[tokio::test]
async fn the_query_is_the_input_in_the_types_of_the_manifest() {
    let runs = Runs::default();
    let at =
        serve(tools().tool(echo("tides", Gate::Open, false, &runs).get()).tool(echo("closed", Gate::Open, false, &runs))).await;
    for (query, expected) in [
        ("harbour=Brest", json!({"harbour": "Brest", "days": null, "metric": false, "level": null, "years": []})),
        (
            "harbour=Le+Conquet%20%26%C3%A9&days=3&metric=true&level=-1.5&years=2025&years=2026",
            json!({"harbour": "Le Conquet &é", "days": 3, "metric": true, "level": -1.5, "years": [2025, 2026]}),
        ),
        ("harbour=7&years=1", json!({"harbour": "7", "days": null, "metric": false, "level": null, "years": [1]})),
    ] {
        let answer = get(at, &format!("/tides?{query}"), &[]).await;
        assert_eq!((answer.status, answer.json()), (200, expected), "{query}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    assert_eq!(runs.count(), 3);
    let long = format!("/tides?harbour={}", "x".repeat(MAX_QUERY_BYTES));
    for (target, code) in [
        ("/tides", "gate.input_invalid"),
        ("/tides?", "gate.input_invalid"),
        ("/tides?harbour=Brest&days=three", "gate.input_invalid"),
        ("/tides?harbour=Brest&days=300", "gate.input_invalid"),
        ("/tides?harbour=Brest&metric=yes", "gate.input_invalid"),
        ("/tides?harbour=Brest&unknown=1", "gate.input_invalid"),
        ("/tides?harbour=Brest&harbour=Brest", "gate.query_twice"),
        ("/tides?harbour=%zz", "gate.query"),
        ("/tides?harbour=%ff", "gate.query"),
        (&long, "gate.query"),
    ] {
        assert_eq!(get(at, target, &[]).await.verdict(), (400, code.to_owned()), "{target}");
    }
    // POST stays, HEAD does not come, and a body has no meaning here.
    assert_eq!(post(at, "/tides?harbour=x", &[], &json!({"harbour": "Brest"})).await.json()["harbour"], json!("Brest"));
    let head = send(at, "HEAD", "/tides?harbour=Brest", &[], b"").await;
    assert_eq!((head.status, head.header("allow")), (405, Some("GET, POST, OPTIONS")));
    let options = send(at, "OPTIONS", "/tides?harbour=Brest", &[], b"").await;
    assert_eq!((options.status, options.header("access-control-allow-methods")), (204, Some("GET, POST, OPTIONS")));
    let with_body = send(at, "GET", "/tides?harbour=Brest", &[], b"{\"harbour\":\"x\"}").await;
    assert_eq!(with_body.verdict(), (413, "gate.body_too_large".to_owned()));
    let closed = get(at, "/closed?harbour=Brest", &[]).await;
    assert_eq!((closed.status, closed.header("allow")), (405, Some("POST, OPTIONS")));
    assert_eq!(runs.count(), 4);
}

// req: PAY-005
// attack: T3, T17
#[tokio::test]
async fn a_get_is_paid_for_as_it_was_written() {
    let (runs, till) = (Runs::default(), till());
    let reference = "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7";
    let tool = toolcrib_core::caip::ToolRef::parse(reference).expect("a reference");
    let at = serve(tools().tool(echo("tides", PaidGate::new(till.clone()).tool(tool), true, &runs).get())).await;
    let challenge = get(at, "/tides?harbour=Brest", &[]).await;
    assert_eq!((challenge.status, challenge.header("cache-control")), (402, Some("no-store")));
    let challenges = challenge.challenges();
    let pay = |signed: Authorization| header(&challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()));

    // Bound to the method, the target with its query, and an empty body.
    let target = format!("{ORIGIN}/tides?harbour=Brest");
    let bound = BoundNonce::make(&BoundCall { tool, method: "GET", target: &target, body: b"" }, fresh());
    let payment = pay(Authorization { nonce: bound.nonce, ..of_the_price(authorization(holder(), fresh())) });
    let salt = bound.salt_header();
    let headers = [("X-PAYMENT", payment.as_str()), ("X-Tool-Nonce-Salt", salt.as_str())];
    for other in ["/tides?harbour=Ouessant", "/tides?harbour=Brest&", "/tides?harbour=%42rest", "/tides"] {
        assert_eq!(get(at, other, &headers).await.verdict(), (402, "payment.nonce_other_call".to_owned()), "{other}");
    }
    let posted = post(at, "/tides?harbour=Brest", &headers, &json!({"harbour": "Brest"})).await;
    assert_eq!(posted.verdict(), (402, "payment.nonce_other_call".to_owned()));
    assert_eq!((runs.count(), till.settled()), (0, 0));
    for time in ["first", "again"] {
        let answer = get(at, "/tides?harbour=Brest", &headers).await;
        assert_eq!((answer.status, answer.json()["harbour"].as_str()), (200, Some("Brest")), "{time}");
        assert_eq!(answer.header("cache-control"), Some("private, no-store"), "{time}");
    }
    assert_eq!((runs.count(), till.settled()), (1, 1));

    // Not bound: the result that comes back is of the same query or of none.
    let payment = pay(of_the_price(authorization(holder(), fresh())));
    let first = get(at, "/tides?harbour=Brest", &[("X-PAYMENT", &payment)]).await;
    let token = first.header("x-tool-retry-token").expect("a token").to_owned();
    let headers = [("X-PAYMENT", payment.as_str()), ("X-Tool-Retry-Token", token.as_str())];
    let other = get(at, "/tides?harbour=Ouessant", &headers).await;
    assert_eq!(other.verdict(), (409, "payment.replayed".to_owned()));
    assert_eq!(other.header("cache-control"), Some("no-store"));
    let same: Value = get(at, "/tides?harbour=Brest", &headers).await.json();
    assert_eq!(same["harbour"], json!("Brest"));
    assert_eq!((runs.count(), till.settled()), (2, 2));
}
