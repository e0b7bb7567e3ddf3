//! Registered tools at the endpoints of an agent, over REST and on its page.

use alloy_primitives::Address;
use serde_json::{Value as Json, json};
use toolcrib_core::agent::AgtDomain;
use toolcrib_index::listing::{Claims, Verdict};

use crate::agents::{judged, sold, stock, verdict};
use crate::shelf::{Shelf, Stock, open};

/// The endpoint and the owner of the agents of these tests.
const ENDPOINT: &str = "https://agent.example/mcp";
const OWNER: Address = Address::repeat_byte(0x11);

/// A verified tool at an endpoint.
fn at(id: u64, endpoint: &str, creator: Address) -> Stock {
    let mut stock = Stock { creator, ..Stock::good(id, "x") };
    if let Some(manifest) = stock.listing.as_mut().and_then(|listing| listing.manifest.as_mut()) {
        manifest.endpoint = endpoint.to_owned();
    }
    stock
}

/// A tool that was refused and says that it is at an endpoint.
fn refused(id: u64, endpoint: &str, creator: Address) -> Stock {
    let mut stock = at(id, endpoint, creator);
    if let Some(listing) = &mut stock.listing {
        (listing.verified, listing.conformant, listing.verdict, listing.manifest) = (false, false, Verdict::Refused, None);
        listing.claims = Some(Claims { name: None, endpoint: Some(endpoint.to_owned()) });
    }
    stock
}

/// Id, place, whether the owner registered it, verdict, whether both are vouched for by one account.
fn rows(agent: &Json) -> Vec<Json> {
    let tools = agent["tools"].as_array().expect("a list");
    tools
        .iter()
        .map(|tool| json!([tool["tool_id"], tool["place"], tool["same_owner"], tool["verdict"], tool["confirmed"]]))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_at_the_endpoints_are_shown_with_both_verdicts() {
    for shelf in Shelf::each(open()).await {
        let stranger = Address::repeat_byte(0x22);
        shelf
            .put_all(&[
                at(1, ENDPOINT, OWNER),
                at(2, ENDPOINT, stranger),
                refused(3, ENDPOINT, OWNER),
                at(4, "https://agent.example/mcp/rain", OWNER),
                at(5, "https://agent.example/other", OWNER),
                // Of others only what is at the very endpoint counts, and other hosts do not.
                at(6, "https://agent.example/other", stranger),
                at(7, "https://elsewhere.example/mcp", OWNER),
                Stock { is_active: false, ..at(8, ENDPOINT, OWNER) },
                refused(9, ENDPOINT, stranger),
            ])
            .await;
        stock(&shelf, &["alpha.agt"], |domain: &AgtDomain| judged(verdict(domain))).await;
        let agent = shelf.get("/api/v2/agents/alpha.agt").await.json();
        let mut found = rows(&agent);
        assert_eq!(found.iter().filter(|row| row[1] == "same").count(), 3, "the closest first: {found:?}");
        assert!(found[..3].iter().all(|row| row[1] == "same"), "{found:?}");
        found.sort_by_key(Json::to_string);
        assert_eq!(
            found,
            [
                json!(["1", "same", true, "verified", true]),
                json!(["2", "same", false, "verified", false]),
                json!(["3", "same", true, "refused", false]),
                json!(["4", "below", true, "verified", true]),
                json!(["5", "same_origin", true, "verified", true]),
            ]
        );
        let tool = agent["tools"].as_array().expect("a list").iter().find(|tool| tool["tool_id"] == "2").expect("there");
        assert_eq!((tool["protocol"].as_str(), tool["creator"].as_str()), (Some("mcp"), Some(&*stranger.to_checksum(None))));
        let page = shelf.get("/agents/alpha.agt").await.text();
        for text in ["Registered tools", "verified, same owner", "registered by another account", "refused"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        // A tool that changes later is shown as it is then.
        shelf.put(&at(10, ENDPOINT, OWNER)).await;
        let agent = shelf.get("/api/v2/agents/alpha.agt").await.json();
        assert!(rows(&agent).contains(&json!(["10", "same", true, "verified", true])), "{agent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_not_shown_beside_agents_that_are_not_verified() {
    for shelf in Shelf::each(open()).await {
        shelf.put(&at(1, ENDPOINT, OWNER)).await;
        stock(&shelf, &["sold.agt"], |domain: &AgtDomain| judged(sold(domain))).await;
        assert_eq!(shelf.get("/api/v2/agents/sold.agt").await.json()["tools"], json!([]));
        assert!(!shelf.get("/agents/sold.agt").await.text().contains("Registered tools"));
    }
}
