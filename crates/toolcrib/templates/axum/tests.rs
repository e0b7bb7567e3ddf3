//! The tool through its own router, and its manifest against the one that is committed.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::ToolManifest;
//#if paid
use toolcrib_gate::{Facilitator, Gate, Tool, Tools};
use toolcrib_store::replay::MemoryReplay;
//#end
//#if free
use toolcrib_gate::{Gate, Tool, Tools};
//#end
use tower::ServiceExt;

use {{crate}}::{ORIGIN, SLUG, free_manifest, manifest, tool, tools};

/// Calls the tool itself, without its gate.
async fn call(input: &Value) -> Response {
    let served = Tool::new(free_manifest()).slug(SLUG).handler(tool::answer);
    ask(Tools::new(ORIGIN).tool(served), input).await
}

async fn ask(tools: Tools, input: &Value) -> Response {
    let server = tools.build().expect("sound settings");
    let request = Request::post(format!("/{SLUG}")).header("content-type", "application/json");
    server.router().oneshot(request.body(Body::from(input.to_string())).expect("a request")).await.expect("an answer")
}

async fn read(response: Response) -> Value {
    serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.expect("a body")).expect("JSON")
}

#[tokio::test]
async fn a_call_is_answered() {
    let response = call(&json!({ "text": "a tide comes in" })).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(read(response).await, json!({ "words": 4, "longest": "comes" }));
}

#[tokio::test]
async fn an_input_that_the_manifest_does_not_promise_is_refused() {
    for input in [json!({}), json!({ "text": 7 }), json!({ "text": "x", "more": 1 }), json!({ "text": "" })] {
        assert_eq!(call(&input).await.status(), StatusCode::BAD_REQUEST, "{input}");
    }
    assert_eq!(call(&json!({ "text": "  " })).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

//#if paid
#[tokio::test]
async fn a_call_without_a_payment_gets_the_price() {
    let settle = Facilitator::from_setting("http://127.0.0.1:1/").expect("a URL");
    let response = ask(tools(Gate::paid(settle).into(), true).store(MemoryReplay::default()), &json!({ "text": "x" })).await;
    assert_eq!(response.status(), StatusCode::PAYMENT_REQUIRED);
    assert!(response.headers().contains_key("payment-required"));
}
//#end
//#if free
#[tokio::test]
async fn the_tool_is_served_with_its_manifest() {
    let server = tools(Gate::Open, true).build().expect("sound settings");
    let request = Request::get(format!("/.well-known/ai-tool/{SLUG}.json")).body(Body::empty()).expect("a request");
    let response = server.router().oneshot(request).await.expect("an answer");
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let served = ToolManifest::parse(&bytes, Mode::Consumer).into_result().expect("a manifest");
    assert_eq!(served.hash(), manifest().hash());
}
//#end

/// The registered hash is that of manifest.json. When this fails, the code promises something else: write the file anew with
/// `cargo run -- manifest >manifest.json`, review the change, and publish it.
#[test]
fn the_committed_manifest_is_that_of_the_code() {
    let committed = ToolManifest::parse(include_bytes!("../manifest.json"), Mode::Producer).into_result().expect("a manifest");
    assert_eq!(committed.hash(), manifest().hash(), "manifest.json is not what the code says");
}
