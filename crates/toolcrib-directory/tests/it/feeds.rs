//! The change feed as pages and as a stream, the export, registries, statistics, health.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use serde_json::Value;
use toolcrib_store::database::Value as Column;

use crate::shelf::{Ask, CHAIN, NOW, REGISTRY, Shelf, Stock, open, path};

#[tokio::test(flavor = "multi_thread")]
async fn changes_page_by_page() {
    for shelf in Shelf::each(open()).await {
        for id in 1..=5 {
            shelf.put(&Stock::good(id, "x")).await;
        }
        let page = shelf.get("/api/v2/changes?limit=2").await.json();
        assert_eq!(page["changes"][0]["seq"], 1);
        assert_eq!(page["changes"][0]["id"], format!("eip155:{CHAIN}/erc8257:{REGISTRY:#x}/1"));
        assert_eq!(page["changes"][0]["kinds"][0], "registered");
        assert_eq!((page["next"].as_str(), page["has_more"].as_bool()), (Some("2"), Some(true)));
        let rest = shelf.get("/api/v2/changes?cursor=2&limit=1000").await.json();
        assert_eq!(rest["changes"].as_array().map(Vec::len), Some(3));
        let end = shelf.get("/api/v2/changes?cursor=5").await.json();
        assert_eq!((end["next"].as_str(), end["has_more"].as_bool()), (Some("5"), Some(false)));
        // A cursor that leads nowhere says where to go on, as a page and as a stream.
        for accept in ["application/json", "text/event-stream"] {
            let ahead = Ask::get("/api/v2/changes?cursor=6").header("accept", accept).of(&shelf.router).await;
            assert_eq!(ahead.status, StatusCode::GONE, "{accept}");
            assert_eq!((ahead.json()["code"].as_str(), ahead.json()["cursor"].as_str()), (Some("index.cursor_ahead"), Some("5")));
        }
        for bad in ["cursor=", "cursor=-1", "cursor=x", "limit=0", "limit=1001"] {
            assert_eq!(shelf.get(&format!("/api/v2/changes?{bad}")).await.status, StatusCode::BAD_REQUEST, "{bad}");
        }
        shelf.index.database().execute("DELETE FROM index_change WHERE seq < 4", &[]).await.expect("deleted");
        let gone = shelf.get("/api/v2/changes?cursor=1").await;
        assert_eq!((gone.status, gone.json()["code"].as_str()), (StatusCode::GONE, Some("index.cursor_expired")));
        assert_eq!(gone.json()["cursor"], "5", "where to go on");
    }
}

/// Reads a stream until `count` events are there.
pub(crate) async fn events(body: Body, count: usize) -> Vec<(i64, Value)> {
    let mut stream = body.into_data_stream();
    let mut text = String::new();
    let read = async {
        loop {
            let found: Vec<_> = text
                .split("\n\n")
                .filter_map(|event| {
                    let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                    Some((line("id: ")?.parse().ok()?, serde_json::from_str(line("data: ")?).ok()?))
                })
                .collect();
            if found.len() >= count {
                return found;
            }
            let chunk = stream.next().await.expect("more").expect("bytes");
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_where_it_was_cut_off() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "a"), Stock::good(2, "b"), Stock::good(3, "c")]).await;
        let stream = |ask: Ask| ask.header("accept", "text/event-stream");
        let response = stream(Ask::get("/api/v2/changes?cursor=0")).send(&shelf.router).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let seen = events(response.into_body(), 3).await;
        assert_eq!(seen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(seen[2].1["tool_id"], "3");
        // The header counts before the parameter, as browsers send it.
        let response = stream(Ask::get("/api/v2/changes?cursor=0")).header("last-event-id", "2").send(&shelf.router).await;
        let body = response.into_body();
        let reading = tokio::spawn(events(body, 2));
        tokio::time::sleep(Duration::from_millis(50)).await;
        shelf.put(&Stock::good(4, "d")).await;
        let seen = reading.await.expect("read");
        assert_eq!(seen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 4], "nothing twice, nothing lost");
        for (bad, status) in [("x", StatusCode::BAD_REQUEST), ("-1", StatusCode::BAD_REQUEST), ("99", StatusCode::GONE)] {
            let reply = stream(Ask::get("/api/v2/changes")).header("last-event-id", bad).of(&shelf.router).await;
            assert_eq!(reply.status, status, "{bad}");
        }
        assert!(shelf.directory.metrics().contains("toolcrib_directory_streams 0"), "streams that ended are not counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_everything_and_goes_on() {
    for shelf in Shelf::each(open()).await {
        let mut stock: Vec<Stock> = (1..=250).map(|id| Stock::good(id, &format!("Tool {id}"))).collect();
        stock.push(Stock::bad(300));
        shelf.put_all(&stock).await;
        let lines = |reply: &crate::shelf::Reply| -> Vec<Value> {
            reply.text().lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
        };
        let reply = shelf.get("/api/v2/export").await;
        assert_eq!((reply.header("content-type"), reply.header("x-feed-cursor")), ("application/x-ndjson", "251"));
        let all = lines(&reply);
        assert_eq!(all.len(), 250);
        assert_eq!((all[0]["tool_id"].as_str(), all[249]["tool_id"].as_str()), (Some("1"), Some("250")));
        assert_eq!(all[7]["verified"], true);
        let cursor = all[119]["cursor"].as_str().expect("a cursor");
        let rest = lines(&shelf.get(&format!("/api/v2/export?cursor={cursor}")).await);
        assert_eq!((rest.len(), rest[0]["tool_id"].as_str()), (130, Some("121")));
        let whole = lines(&shelf.get("/api/v2/export?include_unverified=true").await);
        assert_eq!((whole.len(), whole[250]["verdict"].as_str()), (251, Some("refused")));
        for coding in ["gzip", "br"] {
            let packed = Ask::get("/api/v2/export").header("accept-encoding", coding).of(&shelf.router).await;
            assert_eq!(packed.header("content-encoding"), coding);
            assert!(packed.body.len() > 1000 && packed.body.len() < reply.body.len() / 5);
        }
        assert_eq!(shelf.get("/api/v2/export?cursor=nonsense").await.status, StatusCode::BAD_REQUEST);
    }
}

// req: IDX-004
#[tokio::test(flavor = "multi_thread")]
async fn registries_have_the_hash_of_their_code() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "a"), Stock::bad(2), Stock { is_active: false, payers: 2, ..Stock::good(3, "c") }]).await;
        let sql =
            "UPDATE index_registry SET code_hash = $1, checkpoint = 90, head = 100, finalized = 80, code_changed_at = 1800000000";
        shelf.index.database().execute(sql, &[Column::Bytes(&[0xab; 32])]).await.expect("set");
        let reply = shelf.get("/api/v2/registries").await.json();
        let registry = &reply["registries"][0];
        assert_eq!(registry["registry_addr"], format!("{REGISTRY:#x}"));
        assert_eq!(registry["code_hash"], format!("0x{}", "ab".repeat(32)));
        assert_eq!((registry["lag"].as_u64(), registry["checkpoint"].as_u64()), (Some(10), Some(90)));
        assert!(registry["code_changed_at"].is_string(), "changed code is said");
        let stats = shelf.get("/api/v2/stats").await.json();
        assert_eq!(
            (stats["tools"].as_u64(), stats["active"].as_u64(), stats["listed"].as_u64()),
            (Some(3), Some(2), Some(1)),
            "{stats}"
        );
        assert_eq!((stats["paid_calls"].as_u64(), stats["volume_usd"].as_str()), (Some(2), Some("1.5")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness() {
    for shelf in Shelf::each(open()).await {
        assert_eq!(shelf.get("/health").await.status, StatusCode::OK);
        assert_eq!(shelf.get("/ready").await.status, StatusCode::SERVICE_UNAVAILABLE, "nobody has looked at the feed yet");
        shelf.put(&Stock::good(1, "a")).await;
        assert_eq!(shelf.get("/ready").await.status, StatusCode::OK);
        shelf.clock.advance(60);
        assert_eq!(shelf.get("/ready").await.json()["status"], "the change feed is not being read");
        shelf.get(&path(1)).await;
        let metrics = shelf.get("/metrics").await;
        assert!(metrics.header("content-type").starts_with("text/plain; version=0.0.4"));
        let text = metrics.text();
        assert!(text.contains("toolcrib_directory_requests_total{route=\"tool\",status=\"2xx\"} 1"), "{text}");
        assert!(text.contains("# TYPE toolcrib_directory_seconds histogram"));
        shelf.index.database().close().await;
        assert_eq!(shelf.get("/ready").await.json()["status"], "the database does not answer");
        let failed = shelf.get("/api/v2/tools?limit=3").await;
        assert!(failed.status.is_server_error() && failed.json()["errors"][0].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_how_long_the_queue_is() {
    for shelf in Shelf::each(open()).await {
        assert!(!shelf.directory.metrics().contains("queue_"), "nothing is said before anybody looked");
        let sql =
            "INSERT INTO index_job (registry, tool, due_at, priority, reason, leased_until) VALUES ($1, $2, $3, 1, 'new', $4)";
        // Two wait, one of them for a minute and a half, and held by somebody who died. One is held, and one is not due.
        for (id, due, leased) in [(1, -10, None), (2, -90, Some(-1)), (3, -50, Some(60)), (4, 3_600, None)] {
            let (id, at) = (shelf.key(id).id_bytes(), |seconds: i64| NOW + seconds);
            let values = [
                Column::Integer(shelf.registry.0),
                Column::Bytes(&id),
                Column::Integer(at(due)),
                Column::OptionalInteger(leased.map(at)),
            ];
            shelf.index.database().execute(sql, &values).await.expect("a job");
        }
        shelf.directory.refresh().await.expect("a look");
        let says = |line: &str| {
            let text = shelf.directory.metrics();
            assert!(text.lines().any(|said| said == format!("toolcrib_directory_{line}")), "{line}: {text}");
        };
        says("queue_waiting 2");
        says("queue_leased 1");
        says("queue_oldest_seconds 90");
        // It is not counted for whoever asks: the age goes on, the numbers wait for the next look.
        shelf.index.database().execute("DELETE FROM index_job", &[]).await.expect("gone");
        shelf.clock.advance(10);
        shelf.directory.refresh().await.expect("a look");
        says("queue_waiting 2");
        says("queue_oldest_seconds 100");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_no_worker_has_taken_in() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "a"), Stock::good(2, "b"), Stock::good(3, "c")]).await;
        let text = shelf.directory.metrics();
        assert!(text.lines().any(|said| said == "toolcrib_directory_queue_waiting 3"), "{text}");
        let place = format!("{{chain=\"{CHAIN}\",registry=\"{REGISTRY:#x}\"}}");
        // Nobody followed it: it is where it was put in, one block before its first.
        for said in [format!("toolcrib_directory_registry_block{place} 0"), format!("toolcrib_directory_registry_head{place} 0")]
        {
            assert!(text.lines().any(|line| line == said), "{said}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_that_logs_are_missing() {
    const MISSING: &str = "INSERT INTO index_completeness (registry, incomplete_since, reason, omitted, wrong_tools)
        VALUES (1, 1000, 'a tool id was skipped', 7, 2)";
    for shelf in Shelf::each(open()).await {
        shelf.index.database().execute(MISSING, &[]).await.expect("written");
        shelf.put_all(&[Stock::good(1, "a")]).await;
        let text = shelf.directory.metrics();
        let place = format!("{{chain=\"{CHAIN}\",registry=\"{REGISTRY:#x}\"}}");
        for (name, value) in [("incomplete", 1), ("wrong_tools", 2), ("rescanning", 0), ("omitted_logs_total", 7)] {
            let said = format!("toolcrib_directory_registry_{name}{place} {value}");
            assert!(text.lines().any(|line| line == said), "{said}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_hold_all_streams_and_exports() {
    let shelf = Shelf::one(open()).await;
    let stream = |from: &str| Ask::get("/api/v2/changes").header("accept", "text/event-stream").from(from);
    let mut held = Vec::new();
    loop {
        let response = stream("192.0.2.1").send(&shelf.router).await;
        if response.status() != StatusCode::OK {
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()["retry-after"], "2");
            break;
        }
        held.push(response);
        assert!(held.len() <= 100, "an address has a share");
    }
    assert!(held.len() >= 10, "{}", held.len());
    // Exports have places of their own, of which an address has a share too.
    let export = |from: &str| Ask::get("/api/v2/export").from(from);
    let mut exports = Vec::new();
    let full = loop {
        let response = export("192.0.2.1").send(&shelf.router).await;
        if response.status() != StatusCode::OK {
            break response;
        }
        exports.push(response);
        assert!(exports.len() <= 100, "an address has a share");
    };
    assert_eq!((full.status(), exports.is_empty()), (StatusCode::SERVICE_UNAVAILABLE, false));
    assert_eq!(export("192.0.2.2").of(&shelf.router).await.status, StatusCode::OK);
    exports.pop();
    assert_eq!(export("192.0.2.1").send(&shelf.router).await.status(), StatusCode::OK, "what ends makes room");
    // The same customer of an IPv6 network is the same, other addresses are not.
    let held_too: Vec<_> = [stream("2001:db8::1"), stream("192.0.2.2")].into_iter().collect();
    for ask in held_too {
        assert_eq!(ask.send(&shelf.router).await.status(), StatusCode::OK);
    }
    assert_eq!(Ask::get("/api/v2/export").from("192.0.2.2").of(&shelf.router).await.status, StatusCode::OK);
    held.pop();
    assert_eq!(stream("192.0.2.1").send(&shelf.router).await.status(), StatusCode::OK, "what ends makes room");
}

/// Addresses that keep to their shares still cannot hold more than there is for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn all_addresses_together_hold_no_more_than_the_totals() {
    let shelf = Shelf::one(open()).await;
    let stream = |from: &str| Ask::get("/api/v2/changes").header("accept", "text/event-stream").from(from);
    let export = |from: &str| Ask::get("/api/v2/export").from(from);
    // The totals, and how many of them one address may hold.
    for (ask, total, share) in [(&stream as &dyn Fn(&str) -> Ask, 500, 20), (&export, 100, 4)] {
        let mut held = Vec::new();
        for number in 0..total {
            let from = format!("192.0.2.{}", number / share);
            let response = ask(&from).send(&shelf.router).await;
            assert_eq!(response.status(), StatusCode::OK, "{number} of {total}");
            held.push(response);
        }
        // An address that holds nothing yet.
        let reply = ask("198.51.100.1").of(&shelf.router).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            (reply.json()["code"].as_str(), reply.header("retry-after")),
            (Some("directory.busy"), "2"),
            "{}",
            reply.text()
        );
        held.truncate(total - 1);
        assert_eq!(ask("198.51.100.1").send(&shelf.router).await.status(), StatusCode::OK, "what ends makes room");
    }
}
