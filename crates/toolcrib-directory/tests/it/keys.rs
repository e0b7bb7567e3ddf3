//! Keys and limits.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use toolcrib_directory::{Auth, Options, Rate};
use toolcrib_store::database::Value;
use toolcrib_x402::header;

use crate::shelf::{Ask, Shelf, Stock, open, path};

async fn new_key(shelf: &Shelf) -> String {
    let reply = Ask::post("/api/v2/auth/keys", "").from("192.0.2.7").of(&shelf.router).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text());
    let key = reply.json();
    assert_eq!((key["rate_limits"]["read"].as_str(), key["rate_limits"]["write"].as_str()), (Some("600/h"), Some("30/h")));
    assert_eq!(reply.header("cache-control"), "no-store");
    key["api_key"].as_str().expect("a key").to_owned()
}

// req: API-004
#[tokio::test(flavor = "multi_thread")]
async fn where_keys_are_needed_only_good_ones_count() {
    for shelf in Shelf::each(Options { auth: Auth::Required, ..Options::default() }).await {
        shelf.put(&Stock::good(1, "Weather")).await;
        let with = async |key: &str| Ask::get("/api/v2/tools").header("x-api-key", key).of(&shelf.router).await.status;
        let missing = shelf.get("/api/v2/tools").await;
        assert_eq!((missing.status, missing.json()["code"].as_str()), (StatusCode::UNAUTHORIZED, Some("directory.key_missing")));
        for wrong in ["x", "tcd_", &format!("tcd_{}", "0".repeat(64)), &"k".repeat(5000)] {
            assert_eq!(with(wrong).await, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        // Whether it runs, and what a key is needed for, is said to everybody.
        for path in ["/health", "/ready", "/style.css", "/openapi.json"] {
            assert_eq!(shelf.get(path).await.status, StatusCode::OK, "{path}");
        }
        let key = new_key(&shelf).await;
        // Pages show what the interface shows, and metrics what callers do.
        let page = path(1).replace("/api/v2", "");
        for path in ["/", "/?query=weather", "/metrics", &page] {
            let closed = shelf.get(path).await;
            assert_eq!(closed.status, StatusCode::UNAUTHORIZED, "{path}");
            assert!(closed.header("www-authenticate").starts_with("Basic "), "{path}");
            let basic = format!("Basic {}", header::encode(format!("anybody:{key}").as_bytes()));
            for (name, value) in
                [("authorization", basic), ("authorization", format!("Bearer {key}")), ("x-api-key", key.clone())]
            {
                let reply = Ask::get(path).header(name, &value).of(&shelf.router).await;
                assert_eq!(reply.status, StatusCode::OK, "{path} {name}");
            }
            let wrong = format!("Basic {}", header::encode(b"anybody:tcd_no"));
            assert_eq!(Ask::get(path).header("authorization", &wrong).of(&shelf.router).await.status, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(with(&key).await, StatusCode::OK);
        // Nothing of it is at rest.
        let rows = shelf.index.database().fetch("SELECT hash, name FROM directory_key", &[]).await.expect("rows");
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].scalar::<&[u8]>().expect("a hash").len(), 32);
        let records = shelf.directory.keys().list(10).await.expect("records");
        assert!(!format!("{records:?}").contains(&key[4..]));
        // Revoked and expired ones are no keys.
        let other = new_key(&shelf).await;
        assert!(shelf.directory.keys().revoke(&records[0].name, shelf.now()).await.expect("revoked"));
        assert!(!shelf.directory.keys().revoke("nobody", shelf.now()).await.expect("none"));
        assert_eq!(with(&key).await, StatusCode::UNAUTHORIZED);
        assert_eq!(with(&other).await, StatusCode::OK);
        shelf.clock.advance(7 * 86_400);
        assert_eq!(with(&other).await, StatusCode::UNAUTHORIZED);
        assert_eq!(shelf.directory.keys().forget_expired(shelf.now()).await.expect("forgotten"), 0, "kept for a while");
        shelf.clock.advance(31 * 86_400);
        assert_eq!(shelf.directory.keys().forget_expired(shelf.now()).await.expect("forgotten"), 2);
        let issued = shelf.directory.keys().issue(Some("by hand"), 5, 1, 60, shelf.now()).await.expect("a key");
        assert_eq!(with(&issued.key).await, StatusCode::OK);
        assert!(!format!("{issued:?}").contains(&issued.key[4..]), "not even by accident");
    }
}

/// A key only ever adds to what its address may do without it, and one that is not known is refused before anything is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_only_adds_and_an_unknown_one_is_refused() {
    let options = Options { anonymous_reads: Some(Rate::per_hour(3)), key_reads: Rate::per_hour(2), ..Options::default() };
    let shelf = Shelf::one(options).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let from = async |address: &str, key: Option<&str>| {
        let mut ask = Ask::get("/api/v2/tools").from(address);
        if let Some(key) = key {
            ask = ask.header("x-api-key", key);
        }
        ask.of(&shelf.router).await
    };
    for unknown in ["somebody-elses-key", "tcd_", &format!("tcd_{}", "0".repeat(64))] {
        for path in ["/api/v2/tools", "/api/v2/export", "/", "/api/v2/tools/search?query=x"] {
            let reply = Ask::get(path).from("192.0.2.1").header("x-api-key", unknown).of(&shelf.router).await;
            assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{path} {unknown:?}");
            assert_eq!(reply.json()["code"], "directory.key_unknown", "{path} {unknown:?}");
            assert!(reply.header("ratelimit").is_empty(), "nothing was counted: {path} {unknown:?}");
        }
    }
    assert_eq!(Ask::post("/api/v2/auth/keys", "").from("192.0.2.1").header("x-api-key", "x").of(&shelf.router).await.status, 201);
    // An empty one is none, and credentials that are not a key of ours are for others, such as a proxy.
    let basic = format!("Basic {}", header::encode(b"anybody:password"));
    for (name, value) in [("x-api-key", ""), ("authorization", "Bearer of-another-system"), ("authorization", basic.as_str())] {
        let reply = Ask::get("/api/v2/stats").from("192.0.2.77").header(name, value).of(&shelf.router).await;
        assert_eq!(reply.status, StatusCode::OK, "{name} {value}");
    }
    // A free key of two reads an hour, on an address of three: five altogether, and never two.
    let key = Ask::post("/api/v2/auth/keys", "").from("192.0.2.9").of(&shelf.router).await;
    let key = key.json()["api_key"].as_str().expect("a key").to_owned();
    for turn in 0..5 {
        assert_eq!(from("192.0.2.1", Some(&key)).await.status, StatusCode::OK, "{turn}");
    }
    let refused = from("192.0.2.1", Some(&key)).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (StatusCode::TOO_MANY_REQUESTS, Some("directory.rate")));
    assert_eq!(refused.header("retry-after"), "1200", "the sooner of the two");
    assert_eq!(from("192.0.2.1", None).await.status, StatusCode::TOO_MANY_REQUESTS);
    // Where addresses are not limited, a key limits no caller.
    let unlimited = Shelf::one(Options { key_reads: Rate::per_hour(1), ..open() }).await;
    let key = Ask::post("/api/v2/auth/keys", "").from("192.0.2.9").of(&unlimited.router).await;
    let key = key.json()["api_key"].as_str().expect("a key").to_owned();
    for _ in 0..4 {
        let reply = Ask::get("/api/v2/tools").from("192.0.2.1").header("x-api-key", &key).of(&unlimited.router).await;
        assert_eq!(reply.status, StatusCode::OK);
    }
}

/// A flood of guesses is slowed down, and does not keep the owner of a key out.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_limited_by_themselves() {
    let shelf = Shelf::one(Options { key_reads: Rate::per_hour(5), ..Options::default() }).await;
    let key = Ask::post("/api/v2/auth/keys", "").from("192.0.2.1").of(&shelf.router).await;
    let key = key.json()["api_key"].as_str().expect("a key").to_owned();
    let with = async |key: &str| Ask::get("/api/v2/stats").from("192.0.2.1").header("x-api-key", key).of(&shelf.router).await;
    let mut statuses = Vec::new();
    for guess in 0..100_u64 {
        statuses.push(with(&format!("tcd_{guess:064x}")).await.status);
    }
    assert_eq!(statuses[0], StatusCode::UNAUTHORIZED);
    assert_eq!(statuses[99], StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(with(&key).await.status, StatusCode::OK);
    assert_eq!(Ask::get("/api/v2/stats").from("192.0.2.1").of(&shelf.router).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_directory_limits_addresses() {
    let options = Options { anonymous_reads: Some(Rate::per_hour(3)), key_reads: Rate::per_hour(5), ..Options::default() };
    let shelf = Shelf::one(options).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let from = async |address: &str, key: Option<&str>| {
        let mut ask = Ask::get("/api/v2/tools").from(address);
        if let Some(key) = key {
            ask = ask.header("x-api-key", key);
        }
        ask.of(&shelf.router).await
    };
    for left in [2, 1, 0] {
        let reply = from("192.0.2.1", None).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.header("ratelimit-policy"), "\"read\";q=3;w=3600");
        assert!(reply.header("ratelimit").starts_with(&format!("\"read\";r={left};")), "{}", reply.header("ratelimit"));
    }
    let refused = from("192.0.2.1", None).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (StatusCode::TOO_MANY_REQUESTS, Some("directory.rate")));
    assert_eq!(refused.header("retry-after"), "1200");
    assert_eq!(from("192.0.2.2", None).await.status, StatusCode::OK, "another address");
    // A key has its own, from wherever it is used.
    let reply = Ask::post("/api/v2/auth/keys", "").from("192.0.2.9").of(&shelf.router).await;
    let key = reply.json()["api_key"].as_str().expect("a key").to_owned();
    for _ in 0..5 {
        assert_eq!(from("192.0.2.1", Some(&key)).await.status, StatusCode::OK);
    }
    assert_eq!(from("192.0.2.1", Some(&key)).await.status, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..3 {
        assert_eq!(from("192.0.2.3", Some(&key)).await.status, StatusCode::OK, "what the other address has without a key");
    }
    assert_eq!(from("192.0.2.3", Some(&key)).await.status, StatusCode::TOO_MANY_REQUESTS);
    // Keys are free, so another one from the same address has nothing left; elsewhere it has.
    let reply = Ask::post("/api/v2/auth/keys", "").from("192.0.2.9").of(&shelf.router).await;
    let second = reply.json()["api_key"].as_str().expect("a key").to_owned();
    assert_eq!(from("192.0.2.1", Some(&second)).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(from("192.0.2.4", Some(&second)).await.status, StatusCode::OK);
    // What a caller writes himself is not believed.
    let forged = Ask::get("/api/v2/tools").from("192.0.2.1").header("x-forwarded-for", "198.51.100.1").of(&shelf.router).await;
    assert_eq!(forged.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_the_last_entry_counts() {
    let header = Some(axum::http::HeaderName::from_static("x-forwarded-for"));
    let options = Options { anonymous_reads: Some(Rate::per_hour(1)), address_header: header, ..Options::default() };
    let shelf = Shelf::one(options).await;
    let from = async |value: &str| {
        Ask::get("/api/v2/stats").from("127.0.0.1").header("x-forwarded-for", value).of(&shelf.router).await.status
    };
    assert_eq!(from("192.0.2.1").await, StatusCode::OK);
    assert_eq!(from("203.0.113.5, 192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS, "what stands before is the caller's own");
    assert_eq!(from("192.0.2.1, 192.0.2.2").await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_given_out_with_measure() {
    let options = Options { keys_in_all: Rate::per_hour(4), ..open() };
    let shelf = Shelf::one(options).await;
    let ask = async |address: &str| Ask::post("/api/v2/auth/keys", "").from(address).of(&shelf.router).await.status;
    for _ in 0..3 {
        assert_eq!(ask("192.0.2.1").await, StatusCode::CREATED);
    }
    assert_eq!(ask("192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("192.0.2.2").await, StatusCode::CREATED);
    assert_eq!(ask("192.0.2.3").await, StatusCode::TOO_MANY_REQUESTS, "all together");
    let off = Shelf::one(Options { issues_keys: false, ..open() }).await;
    let refused = Ask::post("/api/v2/auth/keys", "").of(&off.router).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("directory.keys_off")));
}

/// Collects everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.0.lock().expect("whole").push_str(&format!("{span:?}\n"));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        self.0.lock().expect("whole").push_str(&format!("{values:?}\n"));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().expect("whole").push_str(&format!("{event:?}\n"));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// req: API-004
#[tokio::test]
async fn a_key_is_never_logged() {
    let log = Log::default();
    // With one subscriber alone, whichever thread meets a message first decides whether it is ever logged.
    let _second = tracing::Dispatch::new(Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    let shelf = Shelf::one(Options { auth: Auth::Required, ..Options::default() }).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let key = new_key(&shelf).await;
    let reply = Ask::get(&path(1)).header("x-api-key", &key).of(&shelf.router).await;
    assert_eq!(reply.status, StatusCode::OK);
    let wrong = format!("tcd_{}", "7".repeat(64));
    Ask::get(&path(1)).header("x-api-key", &wrong).of(&shelf.router).await;
    let metrics = shelf.get("/metrics").await.text();
    let log = log.0.lock().expect("whole").clone();
    assert!(log.contains("request"), "something is logged: {log}");
    for secret in [&key[4..], &wrong[4..]] {
        assert!(!log.contains(secret) && !metrics.contains(secret));
    }
    let values = [Value::Text(&key)];
    let found = shelf.index.database().fetch("SELECT name FROM directory_key WHERE name = $1", &values).await.expect("rows");
    assert!(found.is_empty());
}
