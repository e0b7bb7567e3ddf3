//! The published `OpenAPI` document, operation by operation: every one is called, and every answer is held against its schema.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::shelf::{Ask, REGISTRY, Reply, Shelf, Stock, open, path};

/// The document, which is in the corpus.
fn document() -> Option<Value> {
    let bytes = std::fs::read(toolcrib_testkit::corpus("opensea/tools-openapi.json")?).expect("the document");
    Some(serde_json::from_slice(&bytes).expect("JSON"))
}

/// Holds an answer against the schema that the document has for it.
fn check(document: &Value, method: &str, template: &str, reply: &Reply) {
    let operation = &document["paths"][template][method];
    assert!(operation.is_object(), "{method} {template} is in the document");
    let response = &operation["responses"][reply.status.as_str()];
    assert!(response.is_object(), "{method} {template}: {} is not in the document: {}", reply.status, reply.text());
    let schema = match response.pointer("/content/*~1*/schema") {
        Some(schema) => schema.clone(),
        // Refusals that the document only names have the shape of those that it spells out.
        None => json!({ "$ref": "#/components/schemas/V1ErrorWrapper" }),
    };
    let mut whole = schema;
    whole["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&whole).expect("a schema");
    let body = reply.json();
    let errors: Vec<String> = validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{method} {template}: {errors:?}\n{body}");
}

// req: API-001
// req: API-002
// req: API-003
// req: API-004
// req: USAGE-006
// req: USAGE-008
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_published() {
    let Some(document) = document() else { return };
    let mut left: Vec<(String, String)> = Vec::new();
    for (template, methods) in document["paths"].as_object().expect("paths") {
        left.extend(methods.as_object().expect("methods").keys().map(|method| (method.clone(), template.clone())));
    }
    for shelf in Shelf::each(open()).await {
        shelf
            .put_all(&[
                Stock { payers: 3, ..Stock::good(1, "Weather").priced(10_000) },
                Stock::good(2, "Club").gated(),
                Stock::bad(3),
                Stock { listing: None, ..Stock::good(4, "x") },
                Stock { is_active: false, ..Stock::good(5, "Gone") },
            ])
            .await;
        let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
        let activity = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/activity";
        let mut called = Vec::new();
        let mut seen = |method: &str, template: &str, reply: &Reply, status: StatusCode| {
            assert_eq!(reply.status, status, "{template}: {}", reply.text());
            check(&document, method, template, reply);
            called.push((method.to_owned(), template.to_owned()));
        };
        for query in ["", "?limit=2", "?sort_by=oldest&type=open&source=onchain", "?include_unverified=true&limit=200"] {
            seen("get", "/api/v2/tools", &shelf.get(&format!("/api/v2/tools{query}")).await, StatusCode::OK);
        }
        seen("get", "/api/v2/tools", &shelf.get("/api/v2/tools?limit=0").await, StatusCode::BAD_REQUEST);
        for query in [
            "",
            "?query=weather&limit=1",
            "?include_unverified=true&include_details=false",
            "?tags=data&facets=true&explain=true",
        ] {
            seen("get", "/api/v2/tools/search", &shelf.get(&format!("/api/v2/tools/search{query}")).await, StatusCode::OK);
        }
        seen("get", "/api/v2/tools/search", &shelf.get("/api/v2/tools/search?access_type=x").await, StatusCode::BAD_REQUEST);
        for id in 1..=5 {
            seen("get", tool, &shelf.get(&path(id)).await, StatusCode::OK);
            seen(
                "get",
                activity,
                &shelf.get(&format!("{}/activity?limit=100&offset=0&include_creator_payments=true", path(id))).await,
                StatusCode::OK,
            );
        }
        seen("get", tool, &shelf.get(&path(77)).await, StatusCode::NOT_FOUND);
        seen("get", tool, &shelf.get("/api/v2/tools/x/y/z").await, StatusCode::BAD_REQUEST);
        seen("get", activity, &shelf.get(&format!("{}/activity", path(77))).await, StatusCode::NOT_FOUND);
        seen("get", activity, &shelf.get(&format!("{}/activity?limit=101", path(1))).await, StatusCode::BAD_REQUEST);
        for report in reports() {
            let reply = Ask::post("/api/v2/tools/usage", report.to_string()).of(&shelf.router).await;
            seen("post", "/api/v2/tools/usage", &reply, StatusCode::OK);
            assert_eq!(reply.json()["verified"], false, "no chain is configured, so nothing is proven");
        }
        for bad in [json!({}), json!([]), json!({ "verification_type": "trust_me" })] {
            let reply = Ask::post("/api/v2/tools/usage", bad.to_string()).of(&shelf.router).await;
            seen("post", "/api/v2/tools/usage", &reply, StatusCode::BAD_REQUEST);
        }
        for _ in 0..3 {
            let reply = Ask::post("/api/v2/auth/keys", "").from("192.0.2.1").of(&shelf.router).await;
            seen("post", "/api/v2/auth/keys", &reply, StatusCode::CREATED);
        }
        let reply = Ask::post("/api/v2/auth/keys", "").from("192.0.2.1").of(&shelf.router).await;
        seen("post", "/api/v2/auth/keys", &reply, StatusCode::TOO_MANY_REQUESTS);
        for operation in &left {
            assert!(called.contains(operation), "{operation:?} was never called");
        }
    }
}

/// Both kinds of proof, with numbers as numbers and as text.
fn reports() -> Vec<Value> {
    let caller = format!("{REGISTRY:#x}");
    let tool = |id: Value, mut report: Value| {
        report["tool_chain_id"] = 8453.into();
        report["tool_registry_address"] = caller.clone().into();
        report["tool_onchain_id"] = id;
        report
    };
    let settled = json!({ "verification_type": "x402_settlement", "latency_ms": 250,
        "x402": { "caller_address": caller, "tx_hash": format!("0x{}", "ab".repeat(32)), "chain_id": 8453 } });
    let signed = |number: fn(u64) -> Value| {
        json!({ "verification_type": "eip3009_authorization", "latency_ms": 120, "eip3009": {
            "caller_address": caller, "signature": format!("0x{}1b", "11".repeat(64)), "from": caller, "to": caller, "chain_id": 8453,
            "value": number(0), "valid_after": number(0), "valid_before": number(1_900_000_000), "nonce": format!("0x{}", "22".repeat(32)) } })
    };
    vec![
        tool(1.into(), settled.clone()),
        tool("1".into(), settled),
        tool(1.into(), signed(Value::from)),
        tool("1".into(), signed(|number| number.to_string().into())),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_by_endpoint_is_resolved_or_refused() {
    for shelf in Shelf::each(open()).await {
        let same = |stock: Stock| stock.manifest(|manifest| manifest.endpoint = "https://twice.example/api".to_owned());
        shelf.put_all(&[Stock::good(1, "Once"), same(Stock::good(2, "Twice")), same(Stock::good(3, "Twice again"))]).await;
        let report = |endpoint: &str| {
            let caller = format!("{REGISTRY:#x}");
            json!({ "verification_type": "x402_settlement", "tool_endpoint": endpoint,
                "x402": { "caller_address": caller, "tx_hash": format!("0x{}", "ab".repeat(32)), "chain_id": 8453 } })
        };
        for (endpoint, status, code) in [
            ("https://tool1.example/api/tool-1", StatusCode::OK, None),
            ("https://twice.example/api", StatusCode::BAD_REQUEST, Some("usage.tool_ambiguous")),
            ("https://nobody.example/api", StatusCode::BAD_REQUEST, Some("usage.tool_unknown")),
        ] {
            let reply = Ask::post("/api/v2/tools/usage", report(endpoint).to_string()).of(&shelf.router).await;
            assert_eq!(reply.status, status, "{endpoint}: {}", reply.text());
            if let Some(code) = code {
                assert_eq!(reply.json()["code"], code);
            }
        }
        let large = Ask::post("/api/v2/tools/usage", vec![b' '; 20_000]).of(&shelf.router).await;
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
