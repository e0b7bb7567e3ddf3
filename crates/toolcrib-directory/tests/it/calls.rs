//! Reports, evidence, verification on demand and `can_call`.

use std::time::Duration;

use alloy_primitives::Address;
use axum::http::StatusCode;
use toolcrib_core::clock::UnixTime;
use toolcrib_directory::{Options, Rate};
use toolcrib_store::database::Value;

use crate::shelf::{Ask, NOW, Shelf, Stock, open, path};

async fn jobs(shelf: &Shelf) -> usize {
    shelf.index.database().fetch("SELECT tool FROM index_job", &[]).await.expect("jobs").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_on_demand_is_asked_for_once_and_waited_for() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "Weather"), Stock { is_active: false, ..Stock::good(2, "Gone") }]).await;
        let verify = |id: u64| Ask::post(&format!("{}/verify", path(id)), "");
        // Nobody works here: the caller is told where to look later. Two that ask are one job.
        let (one, two) = tokio::join!(verify(1).of(&shelf.router), verify(1).of(&shelf.router));
        for reply in [one, two] {
            assert_eq!(
                (reply.status, reply.json()["status"].as_str()),
                (StatusCode::ACCEPTED, Some("queued")),
                "{}",
                reply.text()
            );
            assert_eq!(reply.header("location"), format!("{}/report", path(1)));
        }
        assert_eq!(jobs(&shelf).await, 1);
        // Somebody looks while a caller waits.
        let router = shelf.router.clone();
        let waiting = tokio::spawn(async move { Ask::post(&format!("{}/verify", path(1)), "").of(&router).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        shelf.put(&Stock::good(1, "Weather").with(|_, listing| listing.checked_at = UnixTime::from_seconds(NOW - 1))).await;
        let reply = waiting.await.expect("an answer");
        assert_eq!((reply.status, reply.json()["status"].as_str()), (StatusCode::OK, Some("done")), "{}", reply.text());
        assert_eq!(reply.json()["verified"], true);
        // What was looked at a moment ago is not looked at again.
        assert_eq!(verify(1).of(&shelf.router).await.json()["status"], "recent");
        assert_eq!(verify(2).of(&shelf.router).await.status, StatusCode::CONFLICT);
        assert_eq!(verify(9).of(&shelf.router).await.status, StatusCode::NOT_FOUND, "only what is registered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_are_limited_by_origin_and_by_caller() {
    let shelf = Shelf::one(Options { looks_per_origin: Rate::per_hour(1), anonymous_writes: Rate::per_hour(3), ..open() }).await;
    let same = |stock: Stock| {
        stock.with(|stock, listing| {
            stock.uri = format!("https://one.example/.well-known/ai-tool/t{}.json", stock.id);
            listing.metadata_uri = stock.uri.clone();
        })
    };
    shelf.put_all(&[same(Stock::good(1, "a")), same(Stock::good(2, "b")), Stock::good(3, "c")]).await;
    let verify =
        async |id: u64, from: &str| Ask::post(&format!("{}/verify", path(id)), "").from(from).of(&shelf.router).await.status;
    assert_eq!(verify(1, "192.0.2.1").await, StatusCode::ACCEPTED);
    assert_eq!(verify(2, "192.0.2.2").await, StatusCode::TOO_MANY_REQUESTS, "the same origin, whoever asks");
    assert_eq!(verify(2, "192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(verify(2, "192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(verify(3, "192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS, "the caller's own limit");
    assert_eq!(jobs(&shelf).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_and_evidence_after_the_first_look() {
    for shelf in Shelf::each(open()).await {
        shelf.put(&Stock::good(1, "Weather")).await;
        for part in ["report", "evidence"] {
            let reply = shelf.get(&format!("{}/{part}", path(1))).await;
            assert_eq!(
                (reply.status, reply.json()["code"].as_str()),
                (StatusCode::NOT_FOUND, Some("directory.not_verified_yet"))
            );
        }
        let sql = "INSERT INTO index_report (registry, tool, at, document) VALUES ($1, $2, 0, $3)";
        let (registry, id) = (shelf.registry.0, shelf.key(1).id_bytes());
        let report = r#"{"verdict":"verified","note":"<b>\u202e"}"#;
        shelf
            .index
            .database()
            .execute(sql, &[Value::Integer(registry), Value::Bytes(&id), Value::Text(report)])
            .await
            .expect("kept");
        let reply = shelf.get(&format!("{}/report", path(1))).await;
        assert_eq!(reply.json(), serde_json::from_str::<serde_json::Value>(report).expect("JSON"));
        assert!(!reply.text().contains(['<', '\u{202e}']), "{}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_call() {
    for shelf in Shelf::each(open()).await {
        shelf
            .put_all(&[
                Stock::good(1, "Free"),
                Stock::good(2, "Paid").priced(50_000),
                Stock::good(3, "Club").gated(),
                Stock::bad(4),
            ])
            .await;
        let wallet = format!("{:#x}", Address::repeat_byte(0x55));
        let can = async |id: u64, more: &str| shelf.get(&format!("{}/can_call?wallet={wallet}{more}", path(id))).await.json();
        let free = can(1, "&budget=0").await;
        assert_eq!(
            (&free["can_call"], &free["access"], &free["price_usd"]),
            (&true.into(), &"granted".into(), &"0".into()),
            "{free}"
        );
        assert_eq!(can(2, "").await["can_call"], true);
        assert_eq!(can(2, "&budget=0.05").await["can_call"], true);
        let dear = can(2, "&budget=0.049999").await;
        assert_eq!((&dear["can_call"], &dear["within_budget"]), (&false.into(), &false.into()), "{dear}");
        let unknown = can(3, "").await;
        assert_eq!((&unknown["can_call"], &unknown["access"]), (&serde_json::Value::Null, &"unknown".into()), "{unknown}");
        assert_eq!(can(4, "").await["can_call"], false, "not verified");
        for bad in ["", "?wallet=me", "?wallet=0x1111111111111111111111111111111111111111&budget=x"] {
            assert_eq!(shelf.get(&format!("{}/can_call{bad}", path(1))).await.status, StatusCode::BAD_REQUEST, "{bad}");
        }
        // A search for what a wallet may use: the chain of the club is not followed, so it is left out, and the answer says so.
        let reply = shelf.get(&format!("/api/v2/tools/search?callable_by={wallet}&limit=50")).await;
        assert_eq!(reply.header("cache-control"), "no-store");
        let json = reply.json();
        let mut ids: Vec<_> =
            json["results"].as_array().expect("results").iter().map(|tool| tool["tool_id"].as_str().expect("an id")).collect();
        ids.sort_unstable();
        assert_eq!((ids, &json["partial"]), (vec!["1", "2"], &true.into()));
    }
}

/// Pages of what a wallet may use have everything once, however small they are.
#[tokio::test(flavor = "multi_thread")]
async fn usable_tools_page_by_page() {
    let shelf = Shelf::one(open()).await;
    let stock: Vec<Stock> =
        (1..=40).map(|id| if id % 3 == 0 { Stock::good(id, "Club").gated() } else { Stock::good(id, "Free") }).collect();
    shelf.put_all(&stock).await;
    let wallet = format!("{:#x}", Address::repeat_byte(0x55));
    let (mut seen, mut next) = (Vec::new(), String::new());
    for _ in 0..60 {
        let reply = shelf.get(&format!("/api/v2/tools/search?callable_by={wallet}&limit=4&sort_by=newest{next}")).await.json();
        let page: Vec<u64> = reply["results"]
            .as_array()
            .expect("results")
            .iter()
            .map(|tool| tool["tool_id"].as_str().expect("an id").parse().expect("a number"))
            .collect();
        assert!(page.len() <= 4);
        seen.extend(page);
        let Some(cursor) = reply["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    let expected: Vec<u64> = (1..=40).rev().filter(|id| id % 3 != 0).collect();
    assert_eq!(seen, expected);
}
