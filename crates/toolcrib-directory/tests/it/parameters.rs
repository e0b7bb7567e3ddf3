//! Parameters of queries: what the document says of them is what is read, and what cannot be read is refused by name.

use axum::http::StatusCode;
use serde_json::Value;
use toolcrib_directory::keys::KeyTerms;

use crate::shelf::{Ask, Reply, Shelf, Stock, open, path};

/// A shelf with one tool, and a key that may do everything.
async fn stocked() -> (Shelf, String) {
    let shelf = Shelf::one(open()).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let terms = KeyTerms { reads: 100_000, writes: 100_000, seconds: 86_400, admin: true };
    let key = shelf.directory.keys().issue_with(Some("operator"), terms, shelf.now()).await.expect("a key").key;
    (shelf, key)
}

async fn get(shelf: &Shelf, key: &str, place: &str) -> Reply {
    Ask::get(place).header("x-api-key", key).of(&shelf.router).await
}

/// The parameter that a refusal is about, its code and its text.
fn refusal(reply: &Reply) -> (String, String, String) {
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text());
    let body = reply.json();
    let detail = |name: &str| body["details"][0][name].as_str().expect("a text").to_owned();
    assert_eq!((&body["code"], &body["errors"][0]), (&body["details"][0]["code"], &body["details"][0]["message"]));
    (detail("parameter"), detail("code"), detail("message"))
}

/// Operations that read a query: their place and the parameters.
fn operations() -> Vec<(String, Vec<Value>)> {
    let document = toolcrib_directory::openapi();
    let mut found = Vec::new();
    for (template, methods) in document["paths"].as_object().expect("paths") {
        let Some(parameters) = methods.get("get").and_then(|operation| operation["parameters"].as_array()) else { continue };
        let query: Vec<Value> = parameters.iter().filter(|parameter| parameter["in"] == "query").cloned().collect();
        if !query.is_empty() {
            let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
            found.push((template.replace(tool, &path(1)), query));
        }
    }
    assert_eq!(found.len(), 10, "operations with a query");
    found
}

/// Parameters that an operation cannot do without, with values.
fn required(parameters: &[Value], but: &str) -> String {
    let needed = parameters.iter().filter(|parameter| parameter["required"] == true && parameter["name"] != but);
    needed.map(|parameter| format!("&{}={}", parameter["name"].as_str().expect("a name"), example(parameter))).collect()
}

/// A value that fits the schema.
fn example(parameter: &Value) -> String {
    let schema = &parameter["schema"];
    let word = schema["enum"].get(0).and_then(Value::as_str);
    match (schema["type"].as_str().expect("a type"), word, schema["pattern"].as_str()) {
        (_, Some(word), _) => word.to_owned(),
        ("integer", ..) => schema["minimum"].to_string(),
        ("boolean", ..) => "true".to_owned(),
        (_, _, Some(pattern)) if pattern.starts_with("^0x") => format!("0x{}", "11".repeat(20)),
        (_, _, Some(pattern)) if pattern.starts_with("^(0|") => "1.5".to_owned(),
        (_, _, Some(pattern)) => {
            assert!(pattern.starts_with("^[a-z0-9]"), "{pattern}");
            "a-b".to_owned()
        }
        _ => "base".to_owned(),
    }
}

/// The document and the reader cannot differ: each parameter of the document is read, and bounds and words are those of the reader.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_document_says_is_what_is_read() {
    let (shelf, key) = stocked().await;
    for (place, parameters) in operations() {
        for parameter in &parameters {
            let (name, schema) = (parameter["name"].as_str().expect("a name"), &parameter["schema"]);
            assert!(schema["$ref"].is_null() && schema["type"].is_string(), "{place} {name}: {schema}");
            assert!(parameter["description"].as_str().is_some_and(|about| about.ends_with('.')), "{place} {name}");
            let rest = required(&parameters, name);
            let ask = async |value: &str| get(&shelf, &key, &format!("{place}?{name}={value}{rest}")).await;
            let good = ask(&example(parameter)).await;
            let alone = ["max_price", "currency"].contains(&name) && place == "/api/v2/agents";
            if name != "cursor" && !alone {
                assert_eq!(good.status, StatusCode::OK, "{place} {name}: {}", good.text());
            }
            // Empty values of what has a form are refused; an empty text is as good as none.
            let is_text = schema["type"] == "array"
                || (schema["type"] == "string" && schema["pattern"].is_null() && schema["enum"].is_null());
            let empty = ask("").await;
            if is_text {
                assert_eq!(empty.status, StatusCode::OK, "{place} {name}: {}", empty.text());
            } else {
                assert_eq!(refusal(&empty).0, name, "{place}");
            }
            if let (Some(least), Some(most)) = (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
                let expected = format!("{name}: expected a whole number from {least} to {most}, got `{}`", least - 1);
                assert_eq!(refusal(&ask(&(least - 1).to_string()).await).2, expected, "{place}");
                if most < i64::MAX {
                    assert_eq!(ask(&most.to_string()).await.status, StatusCode::OK, "{place} {name}");
                    assert_eq!(refusal(&ask(&(most + 1).to_string()).await).0, name, "{place}");
                }
            }
            if let Some(words) = schema["enum"].as_array() {
                let words: Vec<&str> = words.iter().map(|word| word.as_str().expect("a word")).collect();
                let expected = format!("{name}: expected one of {}, got `other`", words.join(", "));
                assert_eq!(refusal(&ask("other").await).2, expected, "{place}");
                for word in words {
                    assert_eq!(ask(word).await.status, StatusCode::OK, "{place} {name}={word}");
                }
            }
            if let Some(most) = schema["maxLength"].as_u64() {
                assert_eq!(refusal(&ask(&"x".repeat(most as usize + 1)).await).0, name, "{place}");
            }
        }
    }
}

/// A parameter that is given twice is refused, equal or not. Tags are several.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_twice_is_refused() {
    let (shelf, key) = stocked().await;
    for (place, parameters) in operations() {
        for parameter in &parameters {
            let (name, value) = (parameter["name"].as_str().expect("a name"), example(parameter));
            for query in [format!("{name}={value}&{name}={value}"), format!("{name}=&{name}="), format!("{name}={value}&{name}")]
            {
                let place = format!("{place}?{query}{}", required(&parameters, name));
                let reply = get(&shelf, &key, &place).await;
                if parameter["schema"]["type"] == "array" {
                    assert_eq!(reply.status, StatusCode::OK, "{place}: {}", reply.text());
                    continue;
                }
                let expected = (name.to_owned(), "directory.parameter".to_owned(), format!("{name}: it is given twice"));
                assert_eq!(refusal(&reply), expected, "{place}");
            }
        }
    }
}

/// A parameter that the operation does not declare is refused, and the refusal names those of the document: the handler reads the type
/// that the document was made from.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_declared_is_refused() {
    let (shelf, key) = stocked().await;
    for (place, parameters) in operations() {
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter["name"].as_str().expect("a name")).collect();
        let rest = required(&parameters, "");
        for (unknown, shown) in [("bogus=1", "bogus"), ("Limit=1", "Limit"), ("limit%5B%5D=1", "limit[]"), ("_", "_"), ("=1", "")]
        {
            let expected = format!("{shown}: unknown parameter, expected one of {}", names.join(", "));
            for place in [format!("{place}?{unknown}{rest}"), format!("{place}?{rest}&{unknown}")] {
                let expected = (shown.to_owned(), "directory.parameter".to_owned(), expected.clone());
                assert_eq!(refusal(&get(&shelf, &key, &place).await), expected, "{place}");
            }
        }
    }
    let reply = get(&shelf, &key, "/api/v2/tools?%3Cb%3E%1b=1").await;
    assert!(!reply.text().contains(['<', '\u{1b}']), "{}", reply.text());
    // Sites that link to pages add parameters of their own, and operations without a query read none.
    for place in
        ["/?utm_source=news&query=weather", "/agents?utm_source=news", "/health?utm_source=news", &format!("{}?x=1", path(1))]
    {
        assert_eq!(get(&shelf, &key, place).await.status, StatusCode::OK, "{place}");
    }
}

/// The texts of refusals, word for word.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_what_was_expected() {
    let (shelf, key) = stocked().await;
    let (tool, wallet) = (path(1), format!("0x{}", "11".repeat(20)));
    let address = "expected 0x and 40 hexadecimal digits";
    let dollars = "expected dollars such as 0.05, with at most six decimal places";
    for (place, expected) in [
        ("/api/v2/tools?limit=".to_owned(), "limit: expected a whole number from 1 to 200, got ``".to_owned()),
        ("/api/v2/tools?limit=%2B1".to_owned(), "limit: expected a whole number from 1 to 200, got `+1`".to_owned()),
        ("/api/v2/tools?limit=1.5".to_owned(), "limit: expected a whole number from 1 to 200, got `1.5`".to_owned()),
        ("/api/v2/tools?sort_by=best".to_owned(), "sort_by: expected one of newest, oldest, got `best`".to_owned()),
        (
            "/api/v2/tools?type=x".to_owned(),
            "type: expected one of open, nft_gated, token_gated, subscription, gated, got `x`".to_owned(),
        ),
        (
            "/api/v2/tools?source=moon".to_owned(),
            "source: expected one of onchain, x402_bazaar, x402_bankr, got `moon`".to_owned(),
        ),
        ("/api/v2/tools?creator=0x12".to_owned(), format!("creator: {address}")),
        ("/api/v2/tools?include_unverified=TRUE".to_owned(), "include_unverified: expected true or false, got `TRUE`".to_owned()),
        (
            "/api/v2/tools/search?registry_chain=08453".to_owned(),
            "registry_chain: expected a chain id, or a network name such as base".to_owned(),
        ),
        ("/api/v2/tools/search?min_price=.5".to_owned(), format!("min_price: {dollars}")),
        ("/api/v2/tools/search?max_price=1e3".to_owned(), format!("max_price: {dollars}")),
        ("/api/v2/tools/search?min_price=2&max_price=1".to_owned(), "min_price: it is above max_price".to_owned()),
        (
            "/api/v2/tools/search?tier=gold".to_owned(),
            "tier: expected one of self-attested, hardware-attested, verifiable, got `gold`".to_owned(),
        ),
        (format!("/api/v2/tools/search?tags={}", "a,".repeat(17)), "tags: more than 16 tags".to_owned()),
        (format!("/api/v2/tools/search?query={}", "x".repeat(1001)), "query: it is longer than 1000 characters".to_owned()),
        (format!("/api/v2/tools/search?asset={}", "x".repeat(301)), "asset: it is longer than 300 characters".to_owned()),
        ("/api/v2/tools/search?query=%ff".to_owned(), "query: it is not encoded as UTF-8".to_owned()),
        ("/api/v2/tools/search?%ff=1".to_owned(), "query string: it is not encoded as UTF-8".to_owned()),
        (format!("/api/v2/tools/search?{}", "tags=a&".repeat(101)), "query string: it has more than 100 parameters".to_owned()),
        (format!("/api/v2/tools/search?q={}", "x".repeat(8192)), "query string: it is longer than 8 KiB".to_owned()),
        (
            "/api/v2/agents?capability=A".to_owned(),
            "capability: expected an id: at most 64 lowercase letters and digits, joined by single hyphens".to_owned(),
        ),
        (
            "/api/v2/agents?max_price=x&currency=USD".to_owned(),
            "max_price: expected an amount such as 0.05, with at most six decimal places".to_owned(),
        ),
        (
            "/api/v2/agents?max_price=1".to_owned(),
            "currency: required with max_price, because amounts are not converted".to_owned(),
        ),
        ("/api/v2/agents?currency=USD".to_owned(), "max_price: required with currency".to_owned()),
        (format!("{tool}/can_call"), "wallet: expected the account of the caller".to_owned()),
        (format!("{tool}/can_call?wallet="), format!("wallet: {address}")),
        (format!("{tool}/can_call?wallet={wallet}&budget="), format!("budget: {dollars}")),
    ] {
        let (name, code, message) = refusal(&get(&shelf, &key, &place).await);
        assert_eq!((code.as_str(), message.as_str()), ("directory.parameter", expected.as_str()), "{place}");
        assert!(message.starts_with(&format!("{name}: ")), "{place}: {name}");
    }
    for place in ["/api/v2/tools?cursor=x", "/api/v2/tools/search?cursor=!", "/api/v2/agents?cursor=!", "/api/v2/export?cursor=x"]
    {
        let (name, code, message) = refusal(&get(&shelf, &key, place).await);
        let expected = ("cursor", "directory.cursor", "the cursor does not match this query");
        assert_eq!((name.as_str(), code.as_str(), message.as_str()), expected, "{place}");
    }
    // A caller without the right to moderate is not told what else is wrong.
    assert_eq!(shelf.get("/api/v2/admin/log?limit=x").await.status, StatusCode::UNAUTHORIZED);
}
