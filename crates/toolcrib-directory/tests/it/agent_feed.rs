//! Agents in the change feed, page by page and as a stream, and in metrics.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::StreamExt as _;
use serde_json::{Value as Json, json};
use toolcrib_core::agent::AgtDomain;
use toolcrib_index::agents::AgentResolution;

use crate::agents::{judged, script, sold, stock, verdict};
use crate::feeds::events;
use crate::shelf::{Ask, Shelf, Stock, open};

fn said(change: &Json) -> String {
    let kinds: Vec<&str> = change["kinds"].as_array().expect("kinds").iter().filter_map(Json::as_str).collect();
    let text = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} {} {}", change["seq"], text("subject"), text("id"), kinds.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_tools_share_one_cursor() {
    for shelf in Shelf::each(open()).await {
        shelf.put(&Stock::good(1, "x")).await;
        stock(&shelf, &["alpha.agt", "sold.agt"], script).await;
        shelf.put(&Stock::good(2, "y")).await;
        let page = shelf.get("/api/v2/changes").await.json();
        let changes = page["changes"].as_array().expect("changes");
        let tools: Vec<&Json> = changes.iter().filter(|change| change["subject"] == "tool").collect();
        assert_eq!(tools.iter().map(|tool| tool["seq"].clone()).collect::<Vec<_>>(), [json!(1), json!(6)]);
        assert!(tools.iter().all(|tool| tool["tool_id"].is_string()));
        let agents: Vec<String> = changes.iter().filter(|change| change["subject"] == "agent").map(said).collect();
        assert_eq!(
            agents,
            [
                "2 agent alpha.agt listed",
                "3 agent sold.agt listed",
                "4 agent alpha.agt verification",
                "5 agent sold.agt verification"
            ]
        );
        assert!(changes[1].get("tool_id").is_none() && changes[1].get("registry_addr").is_none(), "{}", changes[1]);
        // A cursor is a place among all of them.
        let rest = shelf.get("/api/v2/changes?cursor=3&limit=2").await.json();
        assert_eq!((rest["next"].as_str(), rest["has_more"].as_bool()), (Some("5"), Some(true)));
        // The same verdict again, and a check that could not be completed, are no changes.
        shelf.clock.advance(100_000);
        stock(&shelf, &["alpha.agt", "sold.agt"], script).await;
        shelf.clock.advance(100_000);
        let down = |_: &AgtDomain| AgentResolution::Unreachable { step: "txt".to_owned(), code: "fetch.timeout".to_owned() };
        stock(&shelf, &["alpha.agt", "sold.agt"], down).await;
        assert_eq!(shelf.get("/api/v2/changes?cursor=6").await.json()["changes"], json!([]));
        shelf.clock.advance(100_000);
        stock(&shelf, &["alpha.agt"], |domain: &AgtDomain| judged(sold(domain))).await;
        let changes = shelf.get("/api/v2/changes?cursor=6").await.json();
        let changes: Vec<String> = changes["changes"].as_array().expect("changes").iter().map(said).collect();
        assert_eq!(changes, ["7 agent sold.agt delisted", "8 agent alpha.agt verification"]);
        shelf.index.database().execute("DELETE FROM index_change WHERE seq < 7", &[]).await.expect("deleted");
        assert_eq!(shelf.get("/api/v2/changes?cursor=2").await.status, StatusCode::GONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_agents_as_events_of_their_own() {
    for shelf in Shelf::each(open()).await {
        stock(&shelf, &["alpha.agt"], |domain: &AgtDomain| judged(verdict(domain))).await;
        let ask = Ask::get("/api/v2/changes?cursor=0").header("accept", "text/event-stream");
        let seen = events(ask.send(&shelf.router).await.into_body(), 2).await;
        let changes: Vec<String> = seen.iter().map(|(_, change)| said(change)).collect();
        assert_eq!(changes, ["1 agent alpha.agt listed", "2 agent alpha.agt verification"]);
        // What comes while the stream is open arrives, after the last event that was seen.
        let ask = Ask::get("/api/v2/changes").header("accept", "text/event-stream").header("last-event-id", "2");
        let body = ask.send(&shelf.router).await.into_body();
        let reading = tokio::spawn(events(body, 2));
        tokio::time::sleep(Duration::from_millis(50)).await;
        shelf.clock.advance(100_000);
        stock(&shelf, &["beta.agt"], |domain: &AgtDomain| judged(verdict(domain))).await;
        let seen = reading.await.expect("read");
        let changes: Vec<String> = seen.iter().take(2).map(|(_, change)| said(change)).collect();
        assert_eq!(changes, ["3 agent beta.agt listed", "4 agent alpha.agt delisted"], "nothing twice, nothing lost");
        // Clients that know tools alone listen for `change`.
        shelf.put(&Stock::good(1, "x")).await;
        let ask = Ask::get("/api/v2/changes?cursor=4").header("accept", "text/event-stream");
        let mut stream = ask.send(&shelf.router).await.into_body().into_data_stream();
        let mut text = String::new();
        while !text.contains("id: 6\n") {
            let chunk = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("in time");
            text.push_str(std::str::from_utf8(&chunk.expect("more").expect("bytes")).expect("text"));
        }
        assert!(text.contains("id: 5\nevent: agent\n") && text.contains("id: 6\nevent: change\n"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_checks_by_state_and_error() {
    for shelf in Shelf::each(open()).await {
        shelf.directory.refresh().await.expect("a look");
        assert!(!shelf.directory.metrics().contains("toolcrib_directory_agents"), "an index without agents says nothing");
    }
    for shelf in Shelf::each(open()).await {
        let names = ["alpha.agt", "beta.agt", "sold.agt", "down.agt"].map(|text| AgtDomain::parse(text).expect("a name"));
        let now = toolcrib_core::clock::Clock::now(&shelf.clock);
        shelf.index.set_agent_names(&names.into_iter().collect(), now).await.expect("a list");
        shelf.clock.advance(90);
        let says = |line: &str| {
            let text = shelf.directory.metrics();
            assert!(text.lines().any(|said| said == format!("toolcrib_directory_{line}")), "{line}: {text}");
        };
        shelf.directory.refresh().await.expect("a look");
        says("agents{state=\"pending\"} 4");
        says("agents_due 4");
        says("agents_oldest_seconds 90");
    }
    for shelf in Shelf::each(open()).await {
        stock(&shelf, &["alpha.agt", "beta.agt", "sold.agt", "down.agt"], script).await;
        let text = shelf.directory.metrics();
        for line in [
            "agents{state=\"manifest\"} 2",
            "agents{state=\"invalid-owner\"} 1",
            "agents{state=\"pending\"} 1",
            "agents_unreachable{code=\"fetch.dns_failed\"} 1",
            "agents_verified 2",
            "agents_due 0",
            "agents_leased 0",
            "agents_oldest_seconds 0",
        ] {
            assert!(text.lines().any(|said| said == format!("toolcrib_directory_{line}")), "{line}: {text}");
        }
    }
}
