//! Honest catalogues: both versions, pages, changes, resources that disappear and return, two facilitators, leases.

use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_index::bazaar::{BazaarOptions, ResourceList, WalkEnd};
use toolcrib_index::feed::Kinds;
use toolcrib_index::moderation::{Decision, Step, Subject};
use toolcrib_index::{ListPosition, Order};

use super::server::{
    Catalogue, MovingClock, changes, follower, follower_of, indexes, item, listed, old_item, options, url, urls, walk,
};
use toolcrib_testkit::samples::{Sample, put};

/// Longer than the interval and its spread.
pub(super) const HOUR: i64 = 4_000;
pub(super) const DAY: i64 = 86_400;

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogue_is_read_page_by_page_and_changes_are_told() {
    for (_place, index) in indexes().await {
        let mut items: Vec<_> = (0..23).map(|number| item(&url(number))).collect();
        items.extend((23..30).map(|number| old_item(&url(number))));
        let catalogue = Catalogue::start(items.clone()).await;
        catalogue.set(|behaviour| behaviour.cap = Some(7));
        let (clock, mut cursor) = (MovingClock::new(), 0);
        let follower = follower(&index, &catalogue, &clock);
        let first = walk(&follower).await;
        assert_eq!((first.end, first.pages, first.items, first.added, first.skipped), (WalkEnd::Complete, 5, 30, 30, 0));
        let told = changes(&index, &mut cursor).await;
        assert_eq!(told.len(), 30);
        assert!(told.iter().all(|(_, kinds)| *kinds == Kinds::LISTED));
        let views = listed(&index).await;
        let new = views.iter().find(|view| view.url == url(3)).expect("a resource");
        let claim = new.claim().expect("a claim");
        assert_eq!((claim.name.as_deref(), claim.method.as_deref()), (Some("Service"), Some("GET")));
        assert_eq!((claim.prices[0].micro_usd, claim.prices[0].symbol.as_deref()), (Some(20_000), Some("USDC")));
        assert!(new.prices().is_empty() && new.agrees(claim).is_none(), "what is claimed is no price");
        assert_eq!(new.claims[0].facilitator, format!("http://{}", catalogue.server.address), "no secret");
        let old = views.iter().find(|view| view.url == url(25)).expect("a resource");
        assert_eq!(old.claim().expect("a claim").prices, claim.prices, "both forms say the same");
        assert_eq!((new.chain(), new.name().as_str()), (8453, "Service"));

        assert!(follower.round().await.expect("a round").is_empty(), "not before the interval is over");
        clock.advance(HOUR);
        items[3]["lastUpdated"] = json!("2026-09-02T00:00:00Z");
        items[4]["description"] = json!("Something else.");
        catalogue.set(|behaviour| behaviour.items = items);
        let second = walk(&follower).await;
        assert_eq!((second.end, second.added, second.changed), (WalkEnd::Complete, 0, 1));
        let told = changes(&index, &mut cursor).await;
        assert_eq!(told.iter().map(|(_, kinds)| *kinds).collect::<Vec<_>>(), [Kinds::FACTS], "that it was used is no change");
        let census = index.bazaar_census(toolcrib_core::clock::Clock::now(&clock)).await.expect("a census");
        assert_eq!((census.listed, census.due, census.facilitators[0].resources), (30, 30, 30));
        assert_eq!(census.facilitators[0].outcome, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_go_on_where_they_were() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start((0..11).map(|number| item(&url(number))).collect()).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        walk(&follower).await;
        clock.advance(HOUR);
        catalogue.set(|behaviour| behaviour.items.push(item(&url(11))));
        walk(&follower).await;
        for order in [Order::Newest, Order::Oldest] {
            let (mut seen, mut after): (Vec<i64>, Option<ListPosition>) = (Vec::new(), None);
            loop {
                let page = index.list_resources(&ResourceList { order, after, limit: 5 }).await.expect("a page");
                seen.extend(page.resources.iter().map(|view| view.id));
                after = page.last;
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(seen.len(), 12);
            let is_sorted = if order == Order::Newest { seen.is_sorted_by(|a, b| a > b) } else { seen.is_sorted() };
            assert!(is_sorted, "{seen:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_vanishes_is_unlisted_after_a_while_and_comes_back_with_its_number() {
    for (_place, index) in indexes().await {
        let all: Vec<_> = (0..3).map(|number| item(&url(number))).collect();
        let catalogue = Catalogue::start(all.clone()).await;
        let (clock, mut cursor) = (MovingClock::new(), 0);
        let follower = follower(&index, &catalogue, &clock);
        walk(&follower).await;
        let id = listed(&index).await.iter().find(|view| view.url == url(1)).expect("a resource").id;
        changes(&index, &mut cursor).await;
        catalogue.set(|behaviour| drop(behaviour.items.remove(1)));
        // Many walks within the grace period do not unlist it.
        for _ in 0..5 {
            clock.advance(HOUR);
            assert_eq!(walk(&follower).await.removed, 0);
        }
        assert_eq!(urls(&index).await.len(), 3);
        clock.advance(DAY);
        assert_eq!(walk(&follower).await.removed, 1);
        assert_eq!(urls(&index).await, [url(0), url(2)]);
        assert_eq!(changes(&index, &mut cursor).await, [(id, Kinds::DELISTED)]);
        assert!(index.resource(id).await.expect("read").is_none());
        clock.advance(HOUR);
        catalogue.set(|behaviour| behaviour.items = all);
        assert_eq!(walk(&follower).await.added, 1);
        assert_eq!(changes(&index, &mut cursor).await, [(id, Kinds::LISTED)]);
        assert!(index.resource(id).await.expect("read").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_facilitators_may_list_one_resource() {
    for (_place, index) in indexes().await {
        let first = Catalogue::start(vec![item(&url(1)), item(&url(2))]).await;
        let mut other = item("https://R1.example:443/call");
        other["accepts"][0]["amount"] = json!("90000");
        other["serviceName"] = json!("Another name");
        let second = Catalogue::start(vec![other]).await;
        let clock = MovingClock::new();
        let follower = follower_of(&index, vec![first.facilitator(), second.facilitator()], &clock, options());
        assert_eq!(follower.round().await.expect("a round").len(), 2);
        let views = listed(&index).await;
        assert_eq!(views.len(), 2);
        let both = views.iter().find(|view| view.url == url(1)).expect("a resource");
        assert_eq!(both.claims.len(), 2);
        assert_eq!(both.name(), "Service", "that of the facilitator that was configured first");
        assert_eq!(both.claims[1].claim.prices[0].amount, "90000");
        // One drops it: the other still lists it, and its claim is shown.
        first.set(|behaviour| drop(behaviour.items.remove(0)));
        for pause in [HOUR, HOUR, DAY + HOUR] {
            clock.advance(pause);
            follower.round().await.expect("a round");
        }
        let views = listed(&index).await;
        let left = views.iter().find(|view| view.url == url(1)).expect("still there");
        assert_eq!((left.claims.len(), left.name().as_str()), (1, "Another name"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_that_is_gone_for_a_week_lists_nothing() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(vec![item(&url(1))]).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        walk(&follower).await;
        catalogue.set(|behaviour| behaviour.instead = Some(super::server::status("503 Service Unavailable", "", "")));
        clock.advance(6 * DAY);
        assert_eq!(walk(&follower).await.end, WalkEnd::Early(codes::bazaar::STATUS));
        assert_eq!(urls(&index).await.len(), 1, "a walk that fails unlists nothing");
        clock.advance(DAY);
        assert_eq!(walk(&follower).await.removed, 1);
        assert!(urls(&index).await.is_empty());
        // Another week later its row is deleted.
        clock.advance(8 * DAY);
        walk(&follower).await;
        let rows = index.database().fetch("SELECT id FROM index_bazaar_resource", &[]).await.expect("rows");
        assert!(rows.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_walks_through_a_catalogue() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start((0..9).map(|number| item(&url(number))).collect()).await;
        let clock = MovingClock::new();
        let small = BazaarOptions { page_items: 1, ..options() };
        let followers: Vec<_> = (0..4).map(|_| follower_of(&index, vec![catalogue.facilitator()], &clock, small)).collect();
        let rounds = futures_util::future::join_all(followers.iter().map(|follower| follower.round())).await;
        let walks: Vec<_> = rounds.into_iter().flat_map(|walks| walks.expect("a round")).collect();
        assert_eq!(walks.len(), 1, "{walks:?}");
        assert_eq!(catalogue.pages(), 10, "nine pages and an empty one");
        assert_eq!(urls(&index).await.len(), 9);
        // A walk that lost its lease to another process writes nothing more.
        clock.advance(HOUR);
        catalogue.set(|behaviour| behaviour.items.push(item(&url(50))));
        let steal = async {
            while catalogue.pages() < 13 {
                tokio::task::yield_now().await;
            }
            // Until it expires between two pages, which renew it.
            loop {
                let sql = "UPDATE index_bazaar_facilitator SET leased_until = 0";
                index.database().execute(sql, &[]).await.expect("the lease ends");
                let walks = followers[1].round().await.expect("a round");
                if !walks.is_empty() {
                    break walks;
                }
            }
        };
        let slow = BazaarOptions { page_pause: std::time::Duration::from_millis(100), page_items: 1, ..options() };
        let robbed = follower_of(&index, vec![catalogue.facilitator()], &clock, slow);
        let (lost, won) = tokio::join!(robbed.round(), steal);
        assert_eq!(lost.expect("a round")[0].1.end, WalkEnd::Interrupted);
        assert_eq!((won[0].1.end, urls(&index).await.len()), (WalkEnd::Complete, 10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verified_tool_takes_the_place_of_its_resource() {
    for (_place, index) in indexes().await {
        index.prepare_reading().await.expect("indexes");
        let registry = index.add_registry(8453, alloy_primitives::Address::repeat_byte(0x82), 1).await.expect("a registry").id;
        let verified = Sample::new(1, "Weather", "Tells the weather.");
        let unverified = Sample { is_verified: false, ..Sample::new(2, "Other", "Claims an endpoint.") };
        put(&index, registry, &[verified.clone(), unverified.clone()]).await;
        for sample in [&verified, &unverified] {
            let endpoint = format!("{}/call/{}", sample.origin, sample.id);
            let values = [
                toolcrib_store::database::Value::Integer(toolcrib_index::text_key(&endpoint)),
                toolcrib_store::database::Value::Integer(i64::try_from(sample.id).expect("small")),
            ];
            // As workers write it.
            let sql = "UPDATE index_listing SET endpoint_key = $1 WHERE checked_at = 1 AND tool = (SELECT tool FROM index_tool
                WHERE registered_at = (SELECT MIN(registered_at) FROM index_tool) - 1 + $2)";
            assert_eq!(index.database().execute(sql, &values).await.expect("a key"), 1);
        }
        let catalogue = Catalogue::start(vec![
            item("https://tools.example/call/1"),
            item("https://tools.example/call/2"),
            item("https://tools.example/call/3"),
        ])
        .await;
        let clock = MovingClock::new();
        walk(&follower(&index, &catalogue, &clock)).await;
        let shown = urls(&index).await;
        assert_eq!(
            shown,
            ["https://tools.example/call/2", "https://tools.example/call/3"],
            "an unverified tool takes nobody's place"
        );
        let found = index.resources_at(&["https://tools.example/call/1", "https://tools.example/none"]).await.expect("read");
        assert_eq!(found.len(), 1);
        let resource = &found["https://tools.example/call/1"];
        let tool = index.tool_at_resource(resource).await.expect("read").expect("the tool");
        assert_eq!(tool.row.key, verified.key(registry));
        assert!(index.resource(resource.id).await.expect("read").is_some(), "by its number it is still there");
        // A tool that the operator restricts does not reappear as a resource.
        for step in [Step::Block, Step::Hide] {
            let decision =
                Decision { subject: Subject::Tool(verified.key(registry)), step, reason: "x", notice: "", actor: "test" };
            assert!(index.moderate(&decision, clock.now()).await.expect("decided"));
            assert_eq!(urls(&index).await, shown);
            assert!(index.tool_at_resource(resource).await.expect("read").is_none(), "nor is the tool named");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_a_wrong_clock_follows_nothing() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(vec![item(&url(1))]).await;
        let clock = MovingClock::new();
        let now = index.database().now().await.expect("a time");
        clock.advance(now - toolcrib_core::clock::Clock::now(&clock).seconds());
        let careful = BazaarOptions { max_skew: Some(600), ..options() };
        let follower = follower_of(&index, vec![catalogue.facilitator()], &clock, careful);
        assert_eq!(walk(&follower).await.added, 1);
        // Months ahead it would consider everything stale.
        clock.advance(100 * DAY);
        assert!(follower.round().await.expect("a round").is_empty());
        assert_eq!((urls(&index).await.len(), catalogue.pages()), (1, 2));
    }
}
