//! The document that the directory gives out about itself.

use std::path::Path;

use serde_json::Value;

use crate::shelf::{Ask, Shelf, Stock, open, path};

/// Set `TOOLCRIB_BLESS=1` to write it anew.
#[test]
fn the_document_is_the_one_that_is_kept() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let document = serde_json::to_string_pretty(&toolcrib_directory::openapi()).expect("JSON") + "\n";
    if std::env::var_os("TOOLCRIB_BLESS").is_some() {
        std::fs::write(&file, &document).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == document, "openapi.json is not up to date: run this test with TOOLCRIB_BLESS=1 and look at the difference");
}

/// Every operation is there, its schema compiles, and what the directory answers fits.
#[tokio::test(flavor = "multi_thread")]
async fn answers_fit_the_document() {
    let shelf = Shelf::one(open()).await;
    shelf
        .put_all(&[Stock { payers: 2, ..Stock::good(1, "Weather").priced(10) }, Stock::good(2, "Club").gated(), Stock::bad(3)])
        .await;
    let served = shelf.get("/openapi.json").await.json();
    assert_eq!(served, toolcrib_directory::openapi());
    let check = |method: &str, template: &str, status: &str, body: &Value| {
        let pointer =
            format!("/paths/{}/{method}/responses/{status}/content/application~1json/schema", template.replace('/', "~1"));
        let mut schema = served.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}")).clone();
        schema["components"] = served["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let errors: Vec<String> =
            validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{template}: {errors:?}\n{body}");
    };
    let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
    for (place, template) in [
        ("/api/v2/tools?include_unverified=true".to_owned(), "/api/v2/tools".to_owned()),
        ("/api/v2/tools/search?facets=true&explain=true&query=weather".to_owned(), "/api/v2/tools/search".to_owned()),
        (path(1), tool.to_owned()),
        (path(2), tool.to_owned()),
        (path(3), tool.to_owned()),
        (format!("{}/activity", path(1)), format!("{tool}/activity")),
        (format!("{}/history", path(1)), format!("{tool}/history")),
        (format!("{}/can_call?wallet=0x1111111111111111111111111111111111111111&budget=1", path(1)), format!("{tool}/can_call")),
        ("/api/v2/changes".to_owned(), "/api/v2/changes".to_owned()),
        ("/api/v2/stats".to_owned(), "/api/v2/stats".to_owned()),
        ("/api/v2/registries".to_owned(), "/api/v2/registries".to_owned()),
        ("/health".to_owned(), "/health".to_owned()),
        ("/ready".to_owned(), "/ready".to_owned()),
    ] {
        let reply = shelf.get(&place).await;
        check("get", &template, reply.status.as_str(), &reply.json());
    }
    let key = Ask::post("/api/v2/auth/keys", "").of(&shelf.router).await;
    check("post", "/api/v2/auth/keys", "201", &key.json());
    check("get", "/api/v2/tools", "400", &shelf.get("/api/v2/tools?limit=x").await.json());
}
