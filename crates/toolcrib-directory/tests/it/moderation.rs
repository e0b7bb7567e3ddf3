//! What an operator blocks and hides, and what others report.

use std::sync::Arc;

use alloy_primitives::Address;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use toolcrib_directory::keys::KeyTerms;
use toolcrib_directory::mcp::PublicTools;
use toolcrib_directory::{Options, Rate};
use toolcrib_mcp::Server as McpServer;

use crate::shelf::{Ask, CHAIN, REGISTRY, Reply, Shelf, Stock, open, path};
use toolcrib_testkit::mcp_clients::{Does, ERAS, Person, call, connect, data};

const TERMS: KeyTerms = KeyTerms { reads: 100_000, writes: 100_000, seconds: 86_400, admin: true };

struct Operator {
    shelf: Shelf,
    key: String,
}

impl Operator {
    async fn each() -> Vec<Self> {
        let mut all = Vec::new();
        for shelf in Shelf::each(open()).await {
            let issued = shelf.directory.keys().issue_with(Some("operator"), TERMS, shelf.now()).await.expect("a key");
            all.push(Self { shelf, key: issued.key });
        }
        all
    }

    async fn post(&self, place: &str, body: Json) -> Reply {
        let ask = Ask::post(place, body.to_string()).header("x-api-key", &self.key);
        let reply = ask.of(&self.shelf.router).await;
        self.shelf.directory.refresh().await.expect("seen");
        reply
    }

    async fn decide(&self, body: Json) -> bool {
        let reply = self.post("/api/v2/admin/moderation", body).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        reply.json()["changed"].as_bool().expect("yes or no")
    }

    async fn get(&self, place: &str) -> Json {
        let reply = Ask::get(place).header("x-api-key", &self.key).of(&self.shelf.router).await;
        assert_eq!(reply.status, StatusCode::OK, "{place}: {}", reply.text());
        reply.json()
    }

    /// What is listed, found and exported.
    async fn shown(&self) -> [Vec<u64>; 4] {
        let mut found = self.shelf.ids("/api/v2/tools/search?query=weather&include_unverified=true").await;
        found.sort_unstable();
        let export = self.shelf.get("/api/v2/export?include_unverified=true").await.text();
        let id =
            |line: &str| serde_json::from_str::<Json>(line).expect("JSON")["tool_id"].as_str().and_then(|id| id.parse().ok());
        [
            self.shelf.ids("/api/v2/tools?sort_by=oldest").await,
            self.shelf.ids("/api/v2/tools?sort_by=oldest&include_unverified=true").await,
            found,
            export.lines().map(|line| id(line).expect("an id")).collect(),
        ]
    }
}

fn reference(id: u64) -> String {
    format!("eip155:{CHAIN}/erc8257:{REGISTRY:#x}/{id}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_tool_shows_a_notice_and_a_hidden_one_is_left_out() {
    for operator in Operator::each().await {
        let shelf = &operator.shelf;
        shelf.put_all(&[Stock::good(1, "Weather one"), Stock::good(2, "Weather two"), Stock::good(3, "Weather three")]).await;
        let before = shelf.index.last_change().await.expect("a number");
        let block = json!({"action": "block", "tool": reference(2), "reason": "malware", "notice": "It steals keys."});
        assert!(operator.decide(block).await);
        assert_eq!(operator.shown().await, [vec![1, 3], vec![1, 3], vec![1, 3], vec![1, 3]]);
        let reply = shelf.get(&path(2)).await;
        let tool = reply.json();
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!((tool["verdict"].as_str(), tool["verified"].as_bool()), (Some("blocked"), Some(false)));
        assert_eq!(
            (tool["moderation"]["reason"].as_str(), tool["moderation"]["notice"].as_str()),
            (Some("malware"), Some("It steals keys."))
        );
        let page = shelf.get(&path(2).replace("/api/v2", "")).await.text();
        assert!(page.contains("It steals keys.") && page.contains("Blocked by the operator"), "{page}");
        let compact = Ask::get(&path(2)).header("accept", "text/markdown").of(&shelf.router).await.text();
        assert!(compact.contains("It steals keys."), "{compact}");
        let server = McpServer::new(Arc::new(PublicTools::new(shelf.router.clone()))).expect("a server");
        let client = connect(&server, ERAS[0], Person::new(Does::IsNotAsked)).await;
        let told = data(call(&client, "get_tool", json!({"reference": reference(2)})).await);
        assert_eq!(
            (told["tool"]["verdict"].clone(), told["tool"]["moderation"]["untrusted_notice"].clone()),
            (json!("blocked"), json!("It steals keys.")),
            "{told}"
        );
        for text in [reply.text(), page, compact, told.to_string()] {
            assert!(!text.contains("Weather two") && !text.contains("tool2.example"), "nothing of its content: {text}");
        }
        for part in ["report", "evidence", "history", "activity", "can_call?wallet=0x1111111111111111111111111111111111111111"] {
            let reply = shelf.get(&format!("{}/{part}", path(2))).await;
            assert_eq!(reply.status, StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, "{part}");
            assert_eq!(
                (reply.json()["code"].as_str(), reply.json()["errors"][0].as_str()),
                (Some("directory.blocked"), Some("It steals keys."))
            );
        }
        // Another process reads it in the feed.
        let changes = shelf.get(&format!("/api/v2/changes?cursor={before}")).await.json();
        assert_eq!(
            (changes["changes"][0]["tool_id"].as_str(), &changes["changes"][0]["kinds"]),
            (Some("2"), &json!(["moderation"]))
        );
        assert!(!operator.decide(json!({"action": "unhide", "tool": reference(2)})).await, "it is not hidden");
        assert!(operator.decide(json!({"action": "unblock", "tool": reference(2)})).await);
        assert!(!operator.decide(json!({"action": "unblock", "tool": reference(2)})).await, "it was so already");
        assert_eq!(operator.shown().await[0], [1, 2, 3]);
        assert_eq!(shelf.get(&path(2)).await.json()["name"], "Weather two");

        assert!(operator.decide(json!({"action": "hide", "tool": reference(3), "reason": "a duplicate"})).await);
        assert_eq!(operator.shown().await, [vec![1, 2], vec![1, 2], vec![1, 2], vec![1, 2]]);
        let hidden = shelf.get(&path(3)).await.json();
        assert_eq!((hidden["name"].as_str(), hidden["moderation"]["action"].as_str()), (Some("Weather three"), Some("hide")));
        let rules = operator.get("/api/v2/admin/moderation").await;
        assert_eq!(
            (rules["rules"].as_array().map(Vec::len), rules["rules"][0]["subject"].as_str()),
            (Some(1), Some(reference(3).as_str()))
        );
        let log = operator.get("/api/v2/admin/log").await;
        let actions: Vec<_> =
            log["entries"].as_array().expect("entries").iter().map(|entry| entry["action"].as_str().expect("a word")).collect();
        assert_eq!(actions, ["hide", "unblock", "block"]);
        assert!(log["entries"].as_array().expect("entries").iter().all(|entry| entry["actor"] == "operator"));
        let older = operator.get("/api/v2/admin/log?before=3&limit=1").await;
        assert_eq!((older["entries"][0]["action"].as_str(), older["next"].as_i64()), (Some("unblock"), Some(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creator_is_blocked_with_all_tools_to_come() {
    for operator in Operator::each().await {
        let shelf = &operator.shelf;
        let villain = Address::repeat_byte(0x66);
        let of = |id: u64| Stock { creator: villain, ..Stock::good(id, "Weather") };
        shelf.put_all(&[Stock::good(1, "Weather"), of(2), of(3)]).await;
        let block = json!({"action": "block", "creator": format!("{villain:#x}"), "reason": "phishing"});
        assert!(operator.decide(block).await);
        assert_eq!(operator.shown().await[2], [1]);
        shelf.put(&of(4)).await;
        assert_eq!(operator.shown().await, [vec![1], vec![1], vec![1], vec![1]]);
        let refused = shelf.get(&format!("{}/history", path(4))).await;
        assert_eq!(
            refused.json()["errors"][0],
            "the operator of this directory blocked this tool",
            "without a notice the code speaks"
        );
        assert!(operator.decide(json!({"action": "unblock", "creator": format!("{villain:#x}")})).await);
        assert_eq!(operator.shown().await[2], [1, 2, 3, 4]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admin_keys_moderate() {
    let operator = Operator::each().await.remove(0);
    let shelf = &operator.shelf;
    shelf.put(&Stock::good(1, "Weather")).await;
    let plain = Ask::post("/api/v2/auth/keys", "").of(&shelf.router).await.json();
    let plain = plain["api_key"].as_str().expect("a key").to_owned();
    let body = json!({"action": "block", "tool": reference(1), "reason": "x"}).to_string();
    for (key, status, code) in [
        ("", StatusCode::UNAUTHORIZED, "directory.key_missing"),
        ("tcd_nothing", StatusCode::UNAUTHORIZED, "directory.key_unknown"),
        (plain.as_str(), StatusCode::FORBIDDEN, "directory.not_admin"),
    ] {
        for place in ["/api/v2/admin/moderation", "/api/v2/admin/log", "/api/v2/admin/reports"] {
            let reply = Ask::get(place).header("x-api-key", key).of(&shelf.router).await;
            assert_eq!((reply.status, reply.json()["code"].as_str()), (status, Some(code)), "{place}");
        }
        for place in ["/api/v2/admin/moderation", "/api/v2/admin/reports/1/close"] {
            let reply = Ask::post(place, body.clone()).header("x-api-key", key).of(&shelf.router).await;
            assert_eq!((reply.status, reply.json()["code"].as_str()), (status, Some(code)), "{place}");
        }
    }
    let long = "x".repeat(1_001);
    for bad in [
        json!({"action": "burn", "tool": reference(1), "reason": "x"}),
        json!({"action": "block", "tool": reference(1)}),
        json!({"action": "block", "reason": "x"}),
        json!({"action": "block", "tool": reference(1), "creator": "0x1111111111111111111111111111111111111111", "reason": "x"}),
        json!({"action": "block", "creator": "0x12", "reason": "x"}),
        json!({"action": "block", "tool": "seven", "reason": "x"}),
        json!({"action": "block", "tool": reference(1), "reason": long}),
        json!({"action": "block", "tool": reference(1), "reason": "x", "more": 1}),
        json!([]),
    ] {
        assert_eq!(operator.post("/api/v2/admin/moderation", bad.clone()).await.status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let missing = json!({"action": "block", "tool": reference(9), "reason": "x"});
    assert_eq!(operator.post("/api/v2/admin/moderation", missing).await.status, StatusCode::NOT_FOUND);
    assert_eq!(shelf.ids("/api/v2/tools").await, [1], "nothing of it was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_is_reported_read_and_closed() {
    for operator in Operator::each().await {
        let shelf = &operator.shelf;
        shelf.put(&Stock::good(1, "Weather")).await;
        let report = |body: Json| Ask::post(&format!("{}/abuse", path(1)), body.to_string()).header("x-api-key", &operator.key);
        let reply = report(json!({"reason": "phishing", "details": "It asks for <b>keys</b>."})).of(&shelf.router).await;
        assert_eq!((reply.status, reply.json()), (StatusCode::ACCEPTED, json!({"status": "received", "report": 1})));
        for bad in
            [json!({}), json!({"reason": "boring"}), json!({"reason": "spam", "details": "x".repeat(2_001)}), json!("spam")]
        {
            assert_eq!(report(bad.clone()).of(&shelf.router).await.status, StatusCode::BAD_REQUEST, "{bad}");
        }
        let nowhere = Ask::post(&format!("{}/abuse", path(9)), json!({"reason": "spam"}).to_string()).of(&shelf.router).await;
        assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
        // Many about one tool say nothing new.
        for _ in 1..50 {
            assert_eq!(report(json!({"reason": "spam"})).of(&shelf.router).await.json()["status"], "received");
        }
        assert_eq!(report(json!({"reason": "spam"})).of(&shelf.router).await.json(), json!({"status": "known"}));
        let page = operator.get("/api/v2/admin/reports?limit=200").await;
        let reports = page["reports"].as_array().expect("reports");
        assert_eq!(
            (reports.len(), reports[49]["number"].as_i64(), reports[49]["tool"].as_str()),
            (50, Some(1), Some(reference(1).as_str()))
        );
        assert_eq!(reports[49]["details"], "It asks for <b>keys</b>.");
        let closed = operator.post("/api/v2/admin/reports/1/close", json!({})).await;
        assert_eq!(closed.json(), json!({"changed": true}));
        assert_eq!(operator.post("/api/v2/admin/reports/1/close", json!({})).await.json(), json!({"changed": false}));
        assert_eq!(operator.post("/api/v2/admin/reports/x/close", json!({})).await.status, StatusCode::BAD_REQUEST);
        let closed = operator.get("/api/v2/admin/reports?state=closed").await;
        assert_eq!((closed["reports"][0]["number"].as_i64(), closed["reports"][0]["closed_at"].is_string()), (Some(1), true));
        assert_eq!(operator.get("/api/v2/admin/log").await["entries"][0]["subject"], "report 1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_abuse_are_limited_as_writes_are() {
    let shelf = Shelf::one(Options { anonymous_writes: Rate::per_hour(2), ..open() }).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let ask = Ask::post(&format!("{}/abuse", path(1)), json!({"reason": "spam"}).to_string()).from("192.0.2.1");
        statuses.push(ask.of(&shelf.router).await.status.as_u16());
    }
    assert_eq!(statuses, [202, 202, 429]);
}
