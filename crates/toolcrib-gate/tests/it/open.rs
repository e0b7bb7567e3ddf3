//! Open tools and manifests.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_gate::{Context, Gate, Rate, Rates, Tool, ToolError, Tools};
use toolcrib_judge::evidence::{Body, ChainReads, ConfigRead, Evidence, Exchange, Method, Response, ToolConfig, ToolState};
use toolcrib_judge::{Policy, judge};

use crate::world::{Input, NOW, ORIGIN, Runs, counting, creator, manifest, post, send, serve};

fn many() -> Rates {
    Rates { per_address: None, ..Rates::default() }
}

// req: GATE-001, GATE-006, GATE-010
#[tokio::test]
async fn an_open_tool_answers_without_a_challenge() {
    let runs = Runs::default();
    let at = serve(Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &runs))).await;
    let answer = post(at, "/word-count", &[], &json!({"text": "one two three"})).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"words": 3, "caller": null})));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    // An open tool asks for no payment, and reads none.
    let answer = post(at, "/word-count", &[("X-PAYMENT", "!")], &json!({"text": ""})).await;
    assert_eq!((answer.status, runs.count()), (200, 2));
}

// req: GATE-001
#[tokio::test]
async fn what_is_no_call_is_refused_with_a_code() {
    let runs = Runs::default();
    let tool = counting("word-count", Gate::Open, &runs).max_input(64);
    let at = serve(Tools::new(ORIGIN).rates(many()).tool(tool)).await;
    let json_type: (&str, &[u8]) = ("Content-Type", b"application/json");
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(64 - 11));
    assert_eq!(long.len(), 64);
    assert_eq!(send(at, "POST", "/word-count", &[json_type], long.as_bytes()).await.status, 200, "the limit itself");
    type Case<'c> = (&'c str, &'c str, &'c [(&'c str, &'c [u8])], &'c str, u16, &'c str);
    let cases: &[Case<'_>] = &[
        ("POST", "/word-count", &[json_type], "{", 400, "gate.not_json"),
        ("POST", "/word-count", &[json_type], "", 400, "gate.not_json"),
        ("POST", "/word-count", &[json_type], "{\"text\":\"a\",\"text\":\"b\"}", 400, "gate.not_json"),
        ("POST", "/word-count", &[json_type], "{\"text\":1}", 400, "gate.input_invalid"),
        ("POST", "/word-count", &[json_type], "{}", 400, "gate.input_invalid"),
        ("POST", "/word-count", &[json_type], &format!("{long} "), 413, "gate.body_too_large"),
        ("POST", "/word-count", &[("Content-Type", b"text/plain")], "{\"text\":\"\"}", 415, "gate.content_type"),
        ("GET", "/word-count", &[], "", 405, "gate.method"),
        ("DELETE", "/word-count", &[], "", 405, "gate.method"),
        ("POST", "/word-count/", &[json_type], "{\"text\":\"\"}", 404, "gate.not_found"),
        ("POST", "//word-count", &[json_type], "{\"text\":\"\"}", 404, "gate.not_found"),
        ("POST", "/WORD-COUNT", &[json_type], "{\"text\":\"\"}", 404, "gate.not_found"),
        ("POST", "/word%2dcount", &[json_type], "{\"text\":\"\"}", 404, "gate.not_found"),
        ("GET", "/.well-known/ai-tool/other.json", &[], "", 404, "gate.not_found"),
        ("GET", "/.well-known/ai-tool/Word-Count.json", &[], "", 404, "gate.not_found"),
        ("POST", "/.well-known/ai-tool/word-count.json", &[], "", 405, "gate.method"),
    ];
    for (method, path, headers, body, status, code) in cases {
        let answer = send(at, method, path, headers, body.as_bytes()).await;
        assert_eq!(answer.verdict(), (*status, (*code).to_owned()), "{method} {path} {body}");
        assert!(answer.json()["message"].is_string() && answer.json()["hint"].is_string());
        assert_eq!(answer.header("allow").is_some(), *status == 405);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn browsers_may_ask_before_they_call() {
    let at = serve(Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &Runs::default()))).await;
    for (path, allow) in [("/word-count", "POST, OPTIONS"), ("/.well-known/ai-tool/word-count.json", "GET, HEAD, OPTIONS")] {
        let asked: [(&str, &[u8]); 2] = [("Origin", b"https://page.example"), ("Access-Control-Request-Method", b"POST")];
        let answer = send(at, "OPTIONS", path, &asked, b"").await;
        assert_eq!((answer.status, answer.header("allow")), (204, Some(allow)));
        assert_eq!(answer.header("access-control-allow-methods"), Some(allow));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(answer.header("access-control-allow-headers").is_some_and(|all| all.contains("PAYMENT-SIGNATURE")));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert!(answer.body.is_empty());
    }
}

// req: MAN-016, URL-001
#[tokio::test]
async fn a_manifest_is_served_to_the_byte_and_verifies() {
    // A file as people write it: other bytes, the same manifest.
    let sealed = manifest("word-count");
    let value: Value = serde_json::from_slice(sealed.canonical().as_bytes()).expect("JSON");
    let file = serde_json::to_vec_pretty(&value).expect("JSON");
    let tool = Tool::new(sealed.clone()).bytes(file.clone()).handler(async |_: Value, _| Ok(json!({"words": 1, "caller": null})));
    let other = counting("other", Gate::Open, &Runs::default());
    let at = serve(Tools::new(ORIGIN).tool(tool).tool(other)).await;
    let path = "/.well-known/ai-tool/word-count.json";
    let whole = send(at, "GET", path, &[], b"").await;
    assert_eq!((whole.status, &whole.body), (200, &file));
    assert_eq!(whole.header("content-type"), Some("application/json"));
    assert_eq!(whole.header("cache-control"), Some("public, no-cache"));
    let canonical = send(at, "GET", "/.well-known/ai-tool/other.json", &[], b"").await;
    assert_eq!(canonical.body, manifest("other").canonical().as_bytes());

    let head = send(at, "HEAD", path, &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(file.len().to_string().as_str()));
    let etag = whole.header("etag").expect("a tag").to_owned();
    assert_eq!(head.header("etag"), Some(etag.as_str()));
    for (given, status) in
        [(etag.clone(), 304), (format!("\"a\", W/{etag}"), 304), ("*".to_owned(), 304), ("\"a\"".to_owned(), 200)]
    {
        let answer = send(at, "GET", path, &[("If-None-Match", given.as_bytes())], b"").await;
        assert_eq!((answer.status, answer.body.is_empty()), (status, status == 304), "{given}");
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
    }

    let uri = format!("{ORIGIN}{path}");
    let now = UnixTime::from_seconds(NOW);
    let mut exchange = Exchange::new(Method::Get, uri.clone(), now);
    exchange.addresses = vec!["93.184.215.14".parse().expect("an address")];
    exchange.connected = Some("93.184.215.14:443".parse().expect("an address"));
    let headers = whole.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    exchange.response = Some(Response { status: whole.status, headers, body: Body(whole.body.clone()) });
    let config = ToolConfig { creator: creator(), metadata_uri: uri, manifest_hash: sealed.hash(), access_predicate: None };
    let mut evidence = Evidence::new("test", now);
    evidence.tool =
        Some(ToolRef { chain: 8453, registry: alloy_primitives::Address::repeat_byte(9), id: alloy_primitives::U256::from(1) });
    evidence.chain = Some(ChainReads {
        registry_code_hash: None,
        config: vec![ConfigRead { block: 1, state: ToolState::Present(config) }],
        predicate: None,
        registration: None,
    });
    evidence.manifest = Some(exchange);
    let report = judge(&evidence, &Policy::default(), now);
    assert!(report.verified && report.conformant, "{report:?}");
}

#[tokio::test]
async fn a_handler_that_goes_wrong_costs_its_own_call_only() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = told.clone();
    let tool = Tool::new(manifest("word-count")).time_limit(Duration::from_millis(200)).handler(
        async |input: Input, context: Context| match input.text.as_str() {
            "panic" => panic!("on purpose"),
            "sleep" => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok(Value::Null)
            }
            "refuse" => Err(ToolError::refused("not this text")),
            "later" => Err(ToolError::unavailable("the dictionary is away")),
            "fail" => Err("secret".parse::<u8>().expect_err("no number").into()),
            "lie" => Ok(json!({"words": "three"})),
            "huge" => Ok(json!({"words": 1, "caller": "x".repeat(toolcrib_gate::MAX_OUTPUT_BYTES)})),
            _ => Ok(json!({"words": context.slug().len(), "caller": null})),
        },
    );
    let tools = Tools::new(ORIGIN).rates(many()).tool(tool);
    let at = serve(tools.on_fault(move |fault| seen.lock().unwrap().push((fault.code.id(), fault.detail.to_owned())))).await;
    let cases = [
        ("panic", 500, "gate.panicked", true),
        ("sleep", 504, "gate.timed_out", true),
        ("refuse", 422, "gate.refused", false),
        ("later", 503, "gate.unavailable", false),
        ("fail", 500, "gate.failed", true),
        ("lie", 500, "gate.output_invalid", true),
        ("huge", 500, "gate.output_too_large", true),
    ];
    for (text, status, code, is_fault) in cases {
        let answer = post(at, "/word-count", &[], &json!({"text": text})).await;
        assert_eq!(answer.verdict(), (status, code.to_owned()));
        let told = told.lock().unwrap().pop();
        assert_eq!(told.as_ref().map(|(code, _)| *code), is_fault.then_some(code));
        assert!(!String::from_utf8_lossy(&answer.body).contains("invalid digit"), "what went wrong inside stays there");
    }
    assert_eq!(post(at, "/word-count", &[], &json!({"text": "fine"})).await.status, 200, "the server goes on");
}

#[tokio::test]
async fn who_calls_too_often_waits() {
    let runs = Runs::default();
    let rates = Rates { per_address: Some(Rate::new(2, 0.01)), ..Rates::default() };
    let at = serve(Tools::new(ORIGIN).rates(rates).tool(counting("word-count", Gate::Open, &runs))).await;
    for _ in 0..2 {
        assert_eq!(post(at, "/word-count", &[], &json!({"text": ""})).await.status, 200);
    }
    let answer = post(at, "/word-count", &[("X-Forwarded-For", "192.0.2.1")], &json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (429, "gate.rate_limited".to_owned()));
    assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|seconds| seconds > 50)));
    assert_eq!(runs.count(), 2);

    let rates = Rates { global: Rate::new(1, 0.01), ..Rates::default() };
    let at = serve(Tools::new(ORIGIN).rates(rates).tool(counting("word-count", Gate::Open, &runs))).await;
    assert_eq!(post(at, "/word-count", &[], &json!({"text": ""})).await.status, 200);
    let answer = post(at, "/word-count", &[], &json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (503, "gate.busy".to_owned()));
}
