//! HTTP access control.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value as Json, json};
use toolcrib_mcp::{Bearer, HttpOptions, MAX_MESSAGE_BYTES, MAX_SESSIONS, http_router};
use tower::ServiceExt;

use crate::Three;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn router(bearer: bool, sessions: bool) -> Router {
    let bearer = bearer.then(|| Bearer::new(TOKEN).unwrap());
    let origins = vec!["https://app.example:443".to_owned()];
    http_router(Arc::new(Three), HttpOptions { bearer, hosts: vec!["tools.example".to_owned()], origins, sessions }).unwrap()
}

/// A request of the newer era. `headers` replace the default ones; an empty value removes one.
fn modern(method: &str, params: Json, headers: &[(&str, &str)]) -> Request<Body> {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut all = vec![
        ("host", "tools.example"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    if !name.is_empty() {
        all.push(("mcp-name", &name));
    }
    request(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), &all, headers)
}

fn initialize(headers: &[(&str, &str)]) -> Request<Body> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let usual =
        [("host", "tools.example"), ("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    request(&body, &usual, headers)
}

fn request(body: &Json, usual: &[(&str, &str)], headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post("/");
    for (name, value) in usual.iter().filter(|(name, _)| !headers.iter().any(|(other, _)| other == name)).chain(headers) {
        if !value.is_empty() {
            request = request.header(*name, *value);
        }
    }
    request.body(Body::from(body.to_string())).unwrap()
}

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn list(headers: &[(&str, &str)]) -> Request<Body> {
    modern("tools/list", json!({}), headers)
}

#[tokio::test]
async fn without_the_token_nothing_is_said() {
    let router = router(true, true);
    let bearer = format!("Bearer {TOKEN}");
    let (status, body) = send(&router, list(&[("authorization", &bearer)])).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.contains("\"add\""));
    let (status, _) = send(&router, list(&[("authorization", &bearer.replace("Bearer", "bearer"))])).await;
    assert_eq!(status, StatusCode::OK, "schemes have no case");
    let wrong = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        TOKEN.to_owned(),
        format!("Basic {TOKEN}"),
        format!("Bearer {TOKEN}0"),
        format!("Bearer {}", &TOKEN[1..]),
        format!("Bearer {}", TOKEN.to_uppercase()),
        format!("Bearer  {TOKEN}"),
    ];
    for value in wrong {
        for request in [list(&[("authorization", &value)]), initialize(&[("authorization", &value)])] {
            let (status, body) = send(&router, request).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{value}");
            assert!(body.contains("mcp.unauthorized") && !body.contains("add") && !body.contains(TOKEN), "{body}");
        }
    }
    assert!(Bearer::new("short").is_err() && Bearer::new(&"é".repeat(32)).is_err());
    assert!(!format!("{:?}", Bearer::new(TOKEN).unwrap()).contains(TOKEN));
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_turned_away() {
    for sessions in [false, true] {
        let router = router(false, sessions);
        for request in [list as fn(&[(&str, &str)]) -> Request<Body>, initialize] {
            for (headers, expected) in [
                (vec![], StatusCode::OK),
                (vec![("host", "TOOLS.example")], StatusCode::OK),
                (vec![("host", "tools.example:8080")], StatusCode::OK),
                (vec![("host", "evil.example")], StatusCode::FORBIDDEN),
                (vec![("host", "tools.example.evil.example")], StatusCode::FORBIDDEN),
                (vec![("host", "127.0.0.1")], StatusCode::FORBIDDEN),
                (vec![("origin", "https://app.example")], StatusCode::OK),
                (vec![("origin", "https://app.example:444")], StatusCode::FORBIDDEN),
                (vec![("origin", "http://app.example")], StatusCode::FORBIDDEN),
                (vec![("origin", "https://evil.example")], StatusCode::FORBIDDEN),
                (vec![("origin", "null")], StatusCode::FORBIDDEN),
            ] {
                let (status, body) = send(&router, request(&headers)).await;
                assert_eq!(status, expected, "{headers:?} {body}");
            }
        }
    }
    // Default options: the names of this computer, and no pages.
    let router = http_router(Arc::new(Three), HttpOptions::default()).unwrap();
    for (headers, expected) in [
        (vec![("host", "localhost:1")], StatusCode::OK),
        (vec![("host", "127.0.0.1")], StatusCode::OK),
        (vec![("host", "tools.example")], StatusCode::FORBIDDEN),
        (vec![("host", "localhost"), ("origin", "http://localhost:3000")], StatusCode::FORBIDDEN),
    ] {
        assert_eq!(send(&router, list(&headers)).await.0, expected, "{headers:?}");
    }
}

/// Bodies that are not JSON, or not JSON-RPC messages, get the error that JSON-RPC defines.
#[tokio::test]
async fn what_cannot_be_read_gets_the_error_of_json_rpc() {
    for sessions in [false, true] {
        let router = router(false, sessions);
        for (body, expected) in [
            ("not json", -32700),
            ("", -32700),
            ("{\"jsonrpc\": \"2.0\", \"id\": 1, ", -32700),
            ("\u{feff}{}", -32700),
            ("{}", -32600),
            ("[]", -32600),
            ("7", -32600),
            ("{\"jsonrpc\": \"1.0\", \"id\": 1, \"method\": \"ping\"}", -32600),
        ] {
            let mut request = list(&[]);
            *request.body_mut() = Body::from(body);
            let (status, text) = send(&router, request).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
            let answer: Json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{body}: {text}"));
            assert_eq!((answer["jsonrpc"].as_str(), &answer["id"]), (Some("2.0"), &Json::Null), "{body}");
            assert_eq!(answer["error"]["code"], expected, "{body}");
        }
        // Media types are case-insensitive.
        let (status, text) = send(&router, list(&[("content-type", "Application/JSON; charset=utf-8")])).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        // Other media types are still rejected.
        let mut request = list(&[("content-type", "text/plain")]);
        *request.body_mut() = Body::from("not json");
        assert_eq!(send(&router, request).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}

#[tokio::test]
async fn calls_by_http_and_their_limits() {
    let router = router(false, false);
    let add = modern("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}}), &[]);
    let (status, body) = send(&router, add).await;
    assert!(status == StatusCode::OK && body.contains("\"sum\":3"), "{status} {body}");
    let unknown = modern("tools/call", json!({"name": "x", "arguments": {}}), &[]);
    assert!(send(&router, unknown).await.1.contains("-32602"));
    let mismatch = modern("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}}), &[("mcp-name", "slow")]);
    let (status, body) = send(&router, mismatch).await;
    assert!(status == StatusCode::BAD_REQUEST && body.contains("-32020"), "{status} {body}");
    let large = json!({"name": "greet", "arguments": {"greeting": "x".repeat(MAX_MESSAGE_BYTES)}});
    assert_eq!(send(&router, modern("tools/call", large, &[])).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    // A public server stores nothing for clients of the older era.
    let response = router.clone().oneshot(initialize(&[])).await.unwrap();
    assert!(response.status() == StatusCode::OK && response.headers().get("mcp-session-id").is_none());
    let body =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}});
    let headers = [
        ("host", "tools.example"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let (status, body) = send(&router, request(&body, &headers, &[])).await;
    assert!(status == StatusCode::OK && body.contains("\"sum\":3") && !body.contains("resultType"), "{status} {body}");
}

#[tokio::test]
async fn sessions_are_bounded() {
    let router = router(false, true);
    for _ in 0..MAX_SESSIONS {
        let response = router.clone().oneshot(initialize(&[])).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().get("mcp-session-id").is_some());
    }
    let response = router.clone().oneshot(initialize(&[])).await.unwrap();
    assert!(response.status().is_server_error(), "{}", response.status());
    assert_eq!(send(&router, list(&[])).await.0, StatusCode::OK, "the newer era has no sessions");
}
