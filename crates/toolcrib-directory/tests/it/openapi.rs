//! The document that the directory gives out about itself.

use std::path::Path;

use axum::http::StatusCode;
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

/// The operation with this id: its method, its path and what it says.
fn operation<'a>(document: &'a Value, id: &str) -> (&'a str, &'a str, &'a Value) {
    let paths = document["paths"].as_object().expect("paths");
    let mut all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().expect("methods").iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    all.find(|(.., operation)| operation["operationId"] == id).unwrap_or_else(|| panic!("no operation {id}"))
}

fn links(operation: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let responses = operation["responses"].as_object().expect("responses").values();
    responses.filter_map(|response| response.get("links")?.as_object()).flatten()
}

/// What a path has in braces is declared, and cannot be left out.
#[test]
fn parameters_of_paths_are_required() {
    let document = toolcrib_directory::openapi();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let names: Vec<&str> = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        for (method, operation) in methods.as_object().expect("methods") {
            let declared = operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "path");
            let required = declared.filter(|parameter| parameter["required"] == true);
            let required: Vec<&str> = required.map(|parameter| parameter["name"].as_str().expect("a name")).collect();
            assert_eq!(required, names, "{method} {path}");
        }
    }
}

/// Links name operations and parameters that there are, and give all that a path needs.
#[test]
fn links_lead_to_operations_of_the_document() {
    let document = toolcrib_directory::openapi();
    let mut seen = Vec::new();
    for methods in document["paths"].as_object().expect("paths").values() {
        for source in methods.as_object().expect("methods").values() {
            for (name, link) in links(source) {
                let (.., target) = operation(&document, link["operationId"].as_str().expect("an id"));
                let given = link["parameters"].as_object().expect("parameters");
                let declared: Vec<(String, bool)> = target["parameters"]
                    .as_array()
                    .expect("parameters")
                    .iter()
                    .map(|parameter| match parameter["in"].as_str() {
                        Some("path") => (parameter["name"].as_str().expect("a name").to_owned(), true),
                        place => (format!("{}.{}", place.expect("a place"), parameter["name"].as_str().expect("a name")), false),
                    })
                    .collect();
                for key in given.keys() {
                    assert!(declared.iter().any(|(name, _)| name == key), "{name}: {key}");
                }
                for (key, _) in declared.iter().filter(|(_, is_path)| *is_path) {
                    assert!(given.contains_key(key), "{name} gives no {key}");
                }
                seen.push(format!("{} {name}", source["operationId"].as_str().expect("an id")));
            }
        }
    }
    for expected in ["list_tools first", "list_tools next", "search_tools first", "list_changes next", "get_tool history"] {
        assert!(seen.iter().any(|one| one == expected), "{expected}: {seen:?}");
    }
}

/// Each link of what the directory answers leads to an answer that is no refusal of what the link gave.
#[tokio::test(flavor = "multi_thread")]
async fn links_of_answers_lead_on() {
    let shelf = Shelf::one(open()).await;
    shelf.put_all(&[Stock::good(1, "Weather one"), Stock::good(2, "Weather two").gated()]).await;
    let document = toolcrib_directory::openapi();
    let mut waiting = vec![
        ("list_tools", "/api/v2/tools?limit=1&sort_by=oldest".to_owned()),
        ("search_tools", "/api/v2/tools/search?limit=1&query=weather".to_owned()),
        ("list_changes", "/api/v2/changes?limit=1".to_owned()),
    ];
    let mut followed = std::collections::BTreeSet::new();
    while let Some((id, place)) = waiting.pop() {
        let (_, template, source) = operation(&document, id);
        let reply = shelf.get(&place).await;
        assert_eq!(reply.status, StatusCode::OK, "{id} {place}: {}", reply.text());
        let (answer, before) = (reply.json(), place.split_once('?').map_or("", |(_, query)| query));
        for (name, link) in links(source) {
            let target = link["operationId"].as_str().expect("an id");
            let (method, path, _) = operation(&document, target);
            let (mut path, mut query, mut is_given) = (path.to_owned(), Vec::new(), true);
            for (key, expression) in link["parameters"].as_object().expect("parameters") {
                let expression = expression.as_str().expect("an expression");
                let value = if let Some(pointer) = expression.strip_prefix("$response.body#") {
                    let value = answer.pointer(pointer).and_then(|value| value.as_str().map(str::to_owned));
                    is_given &= value.is_some();
                    value
                } else if let Some(name) = expression.strip_prefix("$request.query.") {
                    before.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
                } else {
                    let name = expression.strip_prefix("$request.path.").expect("an expression");
                    let at = template.split('/').position(|part| part == format!("{{{name}}}")).expect("a part");
                    place.split(['/', '?']).nth(at).map(str::to_owned)
                };
                let Some(value) = value else { continue };
                match key.strip_prefix("query.") {
                    Some(name) => query.push(format!("{name}={value}")),
                    None => path = path.replace(&format!("{{{key}}}"), &value),
                }
            }
            // What has no next page has no link to one.
            if !is_given || !followed.insert((id, name.clone(), path.clone(), query.clone())) || method != "get" {
                continue;
            }
            assert!(!path.contains('{'), "{id} {name}: {path}");
            let place = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
            match target {
                "list_tools" | "search_tools" | "list_changes" | "get_tool" => {
                    let id = ["list_tools", "search_tools", "list_changes", "get_tool"].into_iter().find(|id| *id == target);
                    waiting.push((id.expect("one of them"), place));
                }
                // It also wants an account.
                "can_call_tool" => {}
                _ => {
                    let status = shelf.get(&place).await.status;
                    assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&status), "{id} {name} {place}: {status}");
                }
            }
        }
    }
    let names: std::collections::BTreeSet<String> = followed.iter().map(|(id, name, ..)| format!("{id} {name}")).collect();
    for expected in ["list_tools first", "list_tools next", "search_tools first", "search_tools next", "list_changes next"] {
        assert!(names.contains(expected), "{expected}: {names:?}");
    }
}
