//! Lists and searches: every filter alone and together, pages, and what is left out.

use alloy_primitives::Address;
use axum::http::StatusCode;
use serde_json::Value as Json;

use crate::shelf::{Shelf, Stock, USDC, open, path};

async fn stocked() -> Vec<Shelf> {
    let shelves = Shelf::each(open()).await;
    for shelf in &shelves {
        let other = Address::repeat_byte(0x22);
        let stock = [
            Stock::good(1, "Weather oracle"),
            Stock::good(2, "Price feed").priced(50_000),
            Stock::good(3, "Secret club weather").gated(),
            Stock::good(4, "Image maker")
                .priced(2_000_000)
                .manifest(|manifest| manifest.tags = vec!["art".to_owned(), "data".to_owned()]),
            Stock::good(5, "Translator").with(|stock, listing| {
                stock.creator = other;
                listing.tier = "verifiable".to_owned();
            }),
            Stock::bad(6),
            Stock { listing: None, ..Stock::good(7, "Not looked at") },
            Stock { is_active: false, ..Stock::good(8, "Gone weather") },
            Stock { payers: 9, ..Stock::good(9, "Price feed") },
        ];
        shelf.put_all(&stock).await;
    }
    shelves
}

// req: API-001, VERIFY-008
// req: IDX-010
#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_an_order_pages_and_no_unverified_tools() {
    for shelf in stocked().await {
        assert_eq!(shelf.ids("/api/v2/tools").await, [9, 5, 4, 3, 2, 1]);
        assert_eq!(shelf.ids("/api/v2/tools?sort_by=oldest").await, [1, 2, 3, 4, 5, 9]);
        assert_eq!(shelf.ids("/api/v2/tools?type=nft_gated").await, [3]);
        assert_eq!(shelf.ids("/api/v2/tools?type=token_gated").await, [0; 0]);
        assert_eq!(shelf.ids("/api/v2/tools?source=onchain").await.len(), 6);
        assert_eq!(shelf.ids("/api/v2/tools?source=x402_bazaar").await, [0; 0]);
        assert_eq!(shelf.ids("/api/v2/tools?include_unverified=true").await, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(shelf.ids("/api/v2/tools?limit=3").await, [9, 5, 4]);
        // The two kinds are read apart: pages and both orders go on as if they were one.
        for (order, expected) in [("newest", [9, 8, 7, 6, 5, 4, 3, 2, 1]), ("oldest", [1, 2, 3, 4, 5, 6, 7, 8, 9])] {
            let mut seen = Vec::new();
            let mut next = String::new();
            loop {
                let place = format!("/api/v2/tools?include_unverified=true&sort_by={order}&limit=2{next}");
                seen.extend(shelf.ids(&place).await);
                let Some(cursor) = shelf.get(&place).await.json()["next"].as_str().map(str::to_owned) else { break };
                next = format!("&cursor={cursor}");
            }
            assert_eq!(seen, expected, "{order}");
        }
        let other = format!("creator={:#x}", Address::repeat_byte(0x22));
        assert_eq!(shelf.ids(&format!("/api/v2/tools?{other}")).await, [5]);
        assert_eq!(shelf.ids(&format!("/api/v2/tools?{other}&type=nft_gated")).await, [0; 0]);
        assert_eq!(shelf.ids("/api/v2/tools?type=nft_gated&include_unverified=true&sort_by=oldest").await, [3]);
        // Page by page, while a new tool comes in between.
        let mut seen = Vec::new();
        let mut next = String::new();
        for round in 0..10 {
            let reply = shelf.get(&format!("/api/v2/tools?limit=2{next}")).await.json();
            seen.extend(
                reply["tools"].as_array().expect("tools").iter().map(|tool| tool["tool_id"].as_str().expect("an id").to_owned()),
            );
            if round == 0 {
                shelf.put(&Stock::good(20, "A newcomer")).await;
            }
            let Some(cursor) = reply["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        assert_eq!(seen, ["9", "5", "4", "3", "2", "1"]);
        for bad in [
            "limit=0",
            "limit=abc",
            "limit=201",
            "limit=-1",
            "sort_by=best",
            "type=closed",
            "source=moon",
            "cursor=x",
            "include_unverified=maybe",
            "creator=",
        ] {
            let reply = shelf.get(&format!("/api/v2/tools?{bad}")).await;
            let body = reply.json();
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{bad}");
            let name = bad.split('=').next().expect("a name");
            assert_eq!(body["details"][0]["parameter"], name, "{body}");
            assert!(body["errors"][0].is_string() && body["code"].is_string(), "{body}");
        }
    }
}

// req: API-002, TRUST-009
#[tokio::test(flavor = "multi_thread")]
async fn every_filter_alone_and_together() {
    for shelf in stocked().await {
        let sorted = async |query: &str| {
            let mut ids = shelf.ids(&format!("/api/v2/tools/search?{query}")).await;
            ids.sort_unstable();
            ids
        };
        let none: [u64; 0] = [];
        assert_eq!(sorted("").await, [1, 2, 3, 4, 5, 9]);
        assert_eq!(sorted("query=weather").await, [1, 3]);
        assert_eq!(sorted("query=wether").await, [1, 3], "a typing mistake");
        assert_eq!(sorted("registry_chain=8453").await.len(), 6);
        assert_eq!(sorted("registry_chain=base").await.len(), 6);
        assert_eq!(sorted("registry_chain=1").await, none);
        assert_eq!(sorted("tags=art").await, [4]);
        assert_eq!(sorted("tags=art&tags=data").await, [4]);
        assert_eq!(sorted("tags=art,data").await, [4]);
        assert_eq!(sorted("tags=art&tags=none").await, none);
        assert_eq!(sorted("access_type=nft_gated").await, [3]);
        assert_eq!(sorted("access_type=open").await, [1, 2, 4, 5, 9]);
        assert_eq!(sorted(&format!("creator={:#x}", Address::repeat_byte(0x22))).await, [5]);
        assert_eq!(sorted("source=onchain").await.len(), 6);
        assert_eq!(sorted("source=x402_bankr").await, none);
        assert_eq!(sorted("collection=0xc0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0").await, [3]);
        assert_eq!(sorted("collection=fine-apes").await, [3]);
        assert_eq!(sorted("collection=other-apes").await, none);
        assert_eq!(sorted("min_price=0.01").await, [2, 4]);
        assert_eq!(sorted("min_price=0.01&max_price=0.05").await, [2]);
        assert_eq!(sorted("max_price=0").await, [1, 3, 5, 9]);
        assert_eq!(sorted(&format!("asset={}", USDC.replace('/', "%2F"))).await, [2, 4]);
        assert_eq!(sorted("protocol=x402").await, [2, 4]);
        assert_eq!(sorted("tier=verifiable").await, [5]);
        assert_eq!(sorted("tier=self-attested").await.len(), 6, "at least");
        assert_eq!(sorted("origin=https://tool2.example").await, [2]);
        assert_eq!(sorted("query=weather&access_type=open&tags=data&registry_chain=8453").await, [1]);
        assert_eq!(sorted("query=weather&max_price=0&collection=fine-apes").await, [3]);
        // What is not fit to be shown comes last, and only when it is asked for. What was never looked at has no words yet.
        let all = shelf.ids("/api/v2/tools/search?include_unverified=true").await;
        assert!(all.len() >= 8 && all[..6].iter().all(|id| ![6, 7, 8].contains(id)), "{all:?}");
        assert_eq!(shelf.ids("/api/v2/tools/search?sort_by=newest&limit=2").await, [9, 5]);
        assert_eq!(shelf.ids("/api/v2/tools/search?sort_by=most_used&limit=1").await, [9]);
        assert_eq!(shelf.ids("/api/v2/tools/search?query=price+feed&limit=1").await, [9], "proven use ranks");
        for bad in [
            "access_type=closed",
            "limit=0",
            "limit=201",
            "sort_by=best",
            "min_price=-1",
            "max_price=x",
            "tier=gold",
            "creator=0x12",
            "creator=",
            "cursor=!",
            "registry_chain=nowhere",
            "include_details=maybe",
            "facets=2",
            "callable_by=me",
            "source=moon",
        ] {
            let reply = shelf.get(&format!("/api/v2/tools/search?{bad}")).await;
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{bad}: {}", reply.text());
            let name = bad.split('=').next().expect("a name");
            assert_eq!(reply.json()["details"][0]["parameter"], name, "{bad}");
        }
        assert_eq!(shelf.get("/api/v2/tools/search?min_price=2&max_price=1").await.status, StatusCode::BAD_REQUEST);
        assert_eq!(shelf.get(&format!("/api/v2/tools/search?query={}", "x".repeat(1001))).await.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_goes_page_by_page_and_explains_itself() {
    for shelf in stocked().await {
        let (mut seen, mut next) = (Vec::new(), String::new());
        for _ in 0..10 {
            let reply = shelf.get(&format!("/api/v2/tools/search?limit=2&sort_by=newest{next}")).await.json();
            seen.extend(
                reply["results"]
                    .as_array()
                    .expect("results")
                    .iter()
                    .map(|tool| tool["tool_id"].as_str().expect("an id").to_owned()),
            );
            let Some(cursor) = reply["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        assert_eq!(seen, ["9", "5", "4", "3", "2", "1"]);
        let reply = shelf.get("/api/v2/tools/search?query=weather&facets=true&explain=true").await.json();
        let results = reply["results"].as_array().expect("results");
        assert!(!results.is_empty());
        for result in results {
            let parts = result["explanation"].as_object().expect("an explanation");
            let named = ["text", "trust", "usage", "creator", "health", "age", "recency", "reputation"];
            assert!(named.iter().all(|name| parts[*name].is_number()), "{result}");
            let (sum, score) = (parts.values().filter_map(Json::as_f64).sum::<f64>(), result["score"].as_f64().expect("a score"));
            assert!((sum - score).abs() < 1e-4 * score.max(1.0), "the parts are the score: {sum} and {score}");
        }
        assert!(reply["facets"]["tags"].as_array().is_some_and(|tags| !tags.is_empty()), "{reply}");
        let light = shelf.get("/api/v2/tools/search?include_details=false&tags=art").await.json();
        assert!(light["results"][0].get("pricing_recipients").is_none() && light["results"][0].get("access").is_none());
        let whole = shelf.get("/api/v2/tools/search?tags=art").await.json();
        assert_eq!(whole["results"][0]["pricing_recipients"][0]["amount_per_call_usd"], "2");
        assert_eq!(whole["results"][0]["access"]["open_access"], true);
    }
}

// req: API-003
// req: API-005
// req: IDX-005
#[tokio::test(flavor = "multi_thread")]
async fn get_answers_for_every_registration_and_says_why() {
    for shelf in stocked().await {
        let good = shelf.get(&path(3)).await.json();
        assert_eq!(good["verified"], true);
        assert_eq!(good["conformant"], true);
        assert_eq!(good["predicate_is_proxy"], true);
        assert_eq!(good["predicate_name"], "Owners");
        assert_eq!(good["access"]["logic"], "OR");
        assert_eq!(good["access"]["requirements"][0]["collection"]["name"], "Fine Apes");
        assert_eq!(good["access"]["requirements"][0]["collection"]["floor_price"], serde_json::Value::Null);
        assert_eq!(good["warnings"][0]["title"], "predicate does not advertise IAccessPredicate");
        let open = shelf.get(&path(1)).await.json();
        assert_eq!(open["warnings"].as_array().map(Vec::len), Some(0), "{open}");
        let bad = shelf.get(&path(6)).await.json();
        assert_eq!((&bad["verified"], &bad["verdict"]), (&false.into(), &"refused".into()));
        assert_eq!(bad["failed"]["check"], 3);
        assert_eq!(bad["checks"][2]["status"], "failed");
        assert_eq!(bad["claims"]["name"], "Claimed 6");
        assert!(bad.get("name").is_none() && bad.get("endpoint").is_none() && bad["manifest_hash_verified"] == false, "{bad}");
        let unseen = shelf.get(&path(7)).await.json();
        assert_eq!(unseen["verdict"], "pending");
        let gone = shelf.get(&path(8)).await.json();
        assert_eq!((&gone["is_active"], &gone["life"]), (&false.into(), &"retired".into()));
        assert!(gone["deregistered_at"].is_string());
        // The registration changed after the look: nothing of the old manifest counts.
        shelf.put(&Stock::good(1, "Weather oracle").with(|stock, _| stock.hash = Default::default())).await;
        let stale = shelf.get(&path(1)).await.json();
        assert_eq!((&stale["verdict"], &stale["verified"]), (&"pending".into(), &false.into()));
        assert!(stale.get("name").is_none());
        assert_eq!(shelf.get(&path(99)).await.status, StatusCode::NOT_FOUND);
        assert_eq!(shelf.get("/api/v2/tools/8453/x402_bazaar/1").await.status, StatusCode::NOT_FOUND);
        assert_eq!(shelf.get("/api/v2/tools/8453/0x12/1").await.status, StatusCode::BAD_REQUEST);
        assert_eq!(shelf.get(&path(0)).await.status, StatusCode::BAD_REQUEST);
    }
}
