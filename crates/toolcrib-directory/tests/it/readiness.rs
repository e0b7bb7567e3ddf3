//! A directory that is not ready says so, instead of answering as if there were no tools.

use std::sync::Arc;

use alloy_primitives::Address;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use toolcrib_directory::mcp::PublicTools;
use toolcrib_mcp::Server;
use toolcrib_store::database::Value;

use crate::shelf::{Ask, CHAIN, REGISTRY, Reply, Shelf, Stock, open, path};
use toolcrib_testkit::mcp_clients::{Does, ERAS, Person, call, code, connect, data};

/// Checks the headers of an answer that is to be asked for again.
fn is_later(reply: &Reply, place: &str) {
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{place}: {}", reply.text());
    assert_eq!(reply.header("cache-control"), "no-store", "{place}");
    let seconds: u64 = reply.header("retry-after").parse().unwrap_or_else(|_| panic!("{place}: no Retry-After"));
    assert!((1..=60).contains(&seconds), "{place}: {seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_is_not_built_is_not_empty() {
    for shelf in Shelf::each(open()).await {
        shelf.write_all(&[Stock::good(1, "Weather"), Stock::good(2, "Club").gated()]).await;
        for place in ["/api/v2/tools/search?query=weather", "/api/v2/tools/search", "/api/v2/tools/search?collection=fine-apes"] {
            let reply = shelf.get(place).await;
            is_later(&reply, place);
            assert_eq!(reply.json()["code"], "index.not_ready", "{place}");
            let compact = Ask::get(place).header("accept", "text/markdown").of(&shelf.router).await;
            is_later(&compact, place);
        }
        for place in ["/", "/?query=weather"] {
            let page = shelf.get(place).await;
            is_later(&page, place);
            assert!(page.header("content-type").starts_with("text/html") && page.text().contains("not ready"), "{place}");
            assert!(!page.text().contains("No results"), "{place}");
        }
        let ready = shelf.get("/ready").await;
        assert_eq!((ready.status, ready.header("cache-control")), (StatusCode::SERVICE_UNAVAILABLE, "no-store"));
        assert!(shelf.directory.metrics().contains("toolcrib_directory_search_ready 0\n"));
        // What the database answers by itself is there.
        assert_eq!(shelf.ids("/api/v2/tools").await, [2, 1]);
        assert_eq!(shelf.get(&path(1)).await.status, StatusCode::OK);

        let server = Server::new(Arc::new(PublicTools::new(shelf.router.clone()))).expect("a server");
        let client = connect(&server, ERAS[1], Person::new(Does::IsNotAsked)).await;
        let refused = call(&client, "search_tools", json!({"query": "weather"})).await;
        assert_eq!(code(&refused), "index.not_ready");
        assert!(format!("{refused:?}").contains("retry_after_seconds"), "{refused:?}");

        // Over HTTP the status says it too, in both eras; greetings, lists of tools and what needs no search are answered.
        let router = shelf.directory.clone().with_mcp(Vec::new(), Vec::new()).expect("a server").router();
        let post = async |method: &str, params: Json| {
            let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
            let ask = Ask::post("/mcp", body)
                .header("host", "localhost")
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream");
            ask.header("mcp-protocol-version", "2025-11-25").of(&router).await
        };
        let search = |name: &str| match name {
            "get_wallet_tools" => json!({"name": name, "arguments": {"wallet": format!("{:#x}", Address::repeat_byte(0x11))}}),
            _ => json!({"name": name, "arguments": {"query": "weather"}}),
        };
        for name in ["search_tools", "get_wallet_tools"] {
            let reply = post("tools/call", search(name)).await;
            is_later(&reply, name);
            let told = reply.json();
            assert_eq!(
                (told["id"].clone(), told["error"]["data"]["code"].clone()),
                (json!(7), json!("index.not_ready")),
                "{told}"
            );
            assert_eq!(told["error"]["data"]["details"]["retry_after_seconds"], 5, "{told}");
            assert!(told.get("result").is_none(), "{told}");
        }
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let tool = json!({"name": "get_tool", "arguments": {"reference": format!("eip155:{CHAIN}/erc8257:{REGISTRY:#x}/1")}});
        for (method, params) in [("initialize", hello), ("tools/list", json!({})), ("tools/call", tool)] {
            let reply = post(method, params).await;
            assert_eq!((reply.status, reply.json()["error"].clone()), (StatusCode::OK, Json::Null), "{method}: {}", reply.text());
        }

        shelf.directory.refresh().await.expect("built");
        let reply = post("tools/call", search("search_tools")).await;
        assert_eq!((reply.status, reply.json()["result"]["isError"].clone()), (StatusCode::OK, json!(false)), "{}", reply.text());
        assert_eq!(shelf.ids("/api/v2/tools/search?query=weather").await, [1]);
        assert_eq!(shelf.get("/").await.status, StatusCode::OK, "nothing of it was kept");
        assert_eq!(shelf.get("/ready").await.status, StatusCode::OK);
        let found = data(call(&client, "search_tools", json!({"query": "weather"})).await);
        assert_eq!(found["tools"].as_array().map(Vec::len), Some(1), "{found}");
        assert!(shelf.directory.metrics().contains("toolcrib_directory_search_ready 1\n"));
    }
}

/// A directory whose clock is two days ahead ends no listing: the database says what the time is.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_a_wrong_clock_ends_no_listing() {
    for shelf in Shelf::each(open()).await {
        let stock: Vec<Stock> = (1..=40).map(|id| Stock::good(id, "Weather")).collect();
        shelf.put_all(&stock).await;
        // In an hour, as the database counts. The clock of the directory is months ahead.
        let ends = shelf.index.database().now().await.expect("a time") + 3_600;
        assert!(shelf.now().seconds() > ends);
        let watch = "INSERT INTO index_watch (registry, tool, expires_at, looks, memory)
            SELECT registry, tool, $1, hash, '{}' FROM index_tool";
        shelf.index.database().execute(watch, &[Value::Integer(ends)]).await.expect("watched");
        let look = async || {
            let (directory, begun) = (shelf.directory.clone(), std::time::Instant::now());
            directory.run(tokio::time::sleep(std::time::Duration::from_millis(400))).await;
            directory.refresh().await.expect("seen");
            toolcrib_testkit::assert_not_hung(begun, "a look");
        };
        look().await;
        assert_eq!(shelf.ids("/api/v2/tools?limit=200").await.len(), 40);
        assert!(shelf.directory.metrics().contains("toolcrib_directory_expiry_held 0\n"));
        // The database's clock says that all are over, and no chain agrees: a few go, the others are held back and counted.
        let over = "UPDATE index_watch SET expires_at = $1";
        shelf.index.database().execute(over, &[Value::Integer(ends - 7_200)]).await.expect("over");
        look().await;
        let metrics = shelf.directory.metrics();
        assert!(metrics.contains("toolcrib_directory_expiry_held 30\n"), "{metrics}");
        assert!(metrics.contains("toolcrib_directory_listings_expired_total 10\n"), "{metrics}");
        assert_eq!(shelf.ids("/api/v2/tools?limit=200").await.len(), 30);
    }
}

/// An empty directory is empty once it has looked.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_is_ready() {
    let shelf = Shelf::one(open()).await;
    shelf.directory.refresh().await.expect("built");
    assert!(shelf.ids("/api/v2/tools/search?query=weather").await.is_empty());
    assert_eq!(shelf.get("/ready").await.status, StatusCode::OK);
}
