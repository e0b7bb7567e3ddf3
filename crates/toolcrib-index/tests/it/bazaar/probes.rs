//! Probes: what a resource itself asks for, and what is not asked.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use toolcrib_core::codes;
use toolcrib_index::Index;
use toolcrib_index::bazaar::{BazaarOptions, ProbeFacts, Prober, ResourceView};
use toolcrib_index::feed::Kinds;

use super::server::{Catalogue, MovingClock, PAYEE, USDC, changes, follower, indexes, item, listed, options, walk};
use toolcrib_testkit::servers::{Request, World, answer, ok};

fn challenge(amount: &str) -> Vec<u8> {
    let body = json!({"x402Version": 1, "error": "pay", "accepts": [{
        "scheme": "exact", "network": "base", "maxAmountRequired": amount, "asset": USDC, "payTo": PAYEE,
        "resource": "https://a.example/call", "description": "", "mimeType": "application/json", "maxTimeoutSeconds": 60,
        "extra": {"name": "USD Coin", "version": "2"},
    }]});
    answer("402 Payment Required", "Content-Type: application/json\r\n", body.to_string().as_bytes())
}

fn prober(index: &Index, world: &World, clock: &MovingClock, options: BazaarOptions) -> Prober {
    Prober::new(index.clone(), world.fetch(), Arc::new(clock.clone()), options).expect("a prober")
}

/// Lists items, and probes until nothing is due.
async fn probed(index: &Index, world: &World, clock: &MovingClock, items: Vec<Json>) -> Vec<ResourceView> {
    let catalogue = Catalogue::start(items).await;
    walk(&follower(index, &catalogue, clock)).await;
    let prober = prober(index, world, clock, options());
    while prober.round().await.expect("a round").leased > 0 {}
    listed(index).await
}

fn probe_of<'v>(views: &'v [ResourceView], url: &str) -> &'v ProbeFacts {
    views.iter().find(|view| view.url == url).and_then(|view| view.probe.as_ref()).expect("a probe")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_says_itself_what_it_costs() {
    for (_place, index) in indexes().await {
        let (world, clock, mut cursor) = (World::new(), MovingClock::new(), 0);
        let honest = world.honest("honest.example", |_| challenge("20000")).await;
        let _dear = world.honest("dear.example", |_| challenge("900000")).await;
        let _free = world.honest("free.example", |_| ok("{}")).await;
        let _gone = world.honest("gone.example", |_| answer("404 Not Found", "", b"")).await;
        let urls = ["honest", "dear", "free", "gone"].map(|name| format!("https://{name}.example/call"));
        let views = probed(&index, &world, &clock, urls.iter().map(|url| item(url)).collect()).await;
        let view = |url: &str| views.iter().find(|view| view.url == url).expect("a resource");
        let agrees = |url: &str| view(url).agrees(view(url).claim().expect("a claim"));
        assert_eq!(probe_of(&views, &urls[0]).prices[0].micro_usd, Some(20_000));
        assert_eq!(agrees(&urls[0]), Some(true));
        // What is claimed and what was said are both there.
        assert_eq!(probe_of(&views, &urls[1]).prices[0].micro_usd, Some(900_000));
        assert_eq!(view(&urls[1]).claim().expect("a claim").prices[0].micro_usd, Some(20_000));
        assert_eq!(agrees(&urls[1]), Some(false));
        let states = urls.each_ref().map(|url| (probe_of(&views, url).state.as_str(), probe_of(&views, url).status));
        let expected = [("challenges", Some(402)), ("challenges", Some(402)), ("serves", Some(200)), ("missing", Some(404))];
        assert_eq!(states, expected);
        assert_eq!((agrees(&urls[2]), view(&urls[2]).prices().len()), (None, 0));
        let facts = changes(&index, &mut cursor).await.into_iter().filter(|(_, kinds)| kinds.has(Kinds::FACTS)).count();
        assert_eq!(facts, 4, "each outcome is told");
        let asked = honest.requests();
        assert_eq!((asked.len(), asked[0].method(), asked[0].path()), (1, "GET", "/call"));
        assert!(asked[0].header("authorization").is_none() && asked[0].header("cookie").is_none());
        // A day later the same answer is no news.
        clock.advance(100_000);
        let round = prober(&index, &world, &clock, options()).round().await.expect("a round");
        assert_eq!((round.leased, round.probed, round.changed), (4, 4, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_change_something_is_not_asked() {
    for (_place, index) in indexes().await {
        let (world, clock) = (World::new(), MovingClock::new());
        let server =
            world.honest("a.example", |request: &Request| challenge(if request.method() == "POST" { "1" } else { "2" })).await;
        let with = |path: &str, method: &str| {
            let mut item = item(&format!("https://a.example/{path}"));
            item["extensions"]["bazaar"]["info"]["input"]["method"] = json!(method);
            item
        };
        let mut mcp = item("https://a.example/mcp");
        mcp["type"] = json!("mcp");
        mcp["extensions"]["bazaar"]["info"]["input"] = json!({"type": "mcp", "toolName": "forecast", "inputSchema": {}});
        let items = vec![with("delete", "DELETE"), with("put", "PUT"), with("patch", "PATCH"), mcp, with("post", "POST")];
        let views = probed(&index, &world, &clock, items).await;
        for path in ["delete", "put", "patch"] {
            let probe = probe_of(&views, &format!("https://a.example/{path}"));
            assert_eq!((probe.state.as_str(), probe.code.as_deref()), ("not_probed", Some(codes::bazaar::METHOD.id())));
        }
        assert_eq!(probe_of(&views, "https://a.example/mcp").code.as_deref(), Some(codes::bazaar::MCP.id()));
        assert_eq!(views.iter().find(|view| view.tool.is_some()).expect("a tool").tool.as_deref(), Some("forecast"));
        assert_eq!(probe_of(&views, "https://a.example/post").prices[0].amount, "1");
        let asked: Vec<_> = server.requests().iter().map(|request| (request.method().to_owned(), request.body.clone())).collect();
        assert_eq!(asked, [("POST".to_owned(), b"{}".to_vec())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogue_leads_nobody_into_a_private_network() {
    for (_place, index) in indexes().await {
        let (world, clock) = (World::new(), MovingClock::new());
        world.recorder.host("inside.example", &["10.0.0.7"]);
        world.recorder.host("mixed.example", &["5.5.5.5", "169.254.169.254"]);
        let urls = ["https://inside.example/", "https://mixed.example/latest/meta-data", "https://x.tool.localhost/call"];
        let views = probed(&index, &world, &clock, urls.iter().map(|url| item(url)).collect()).await;
        for url in urls {
            let probe = probe_of(&views, url);
            assert_eq!((probe.state.as_str(), probe.status), ("no_answer", None), "{url}");
            assert!(probe.code.as_deref().is_some_and(|code| code.starts_with("fetch.")), "{probe:?}");
        }
        assert!(world.recorder.dialled().is_empty(), "no connection was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_few_and_polite() {
    for (_place, index) in indexes().await {
        let (world, clock) = (World::new(), MovingClock::new());
        let server = world.honest("busy.example", |_| challenge("20000")).await;
        let catalogue = Catalogue::start((0..9).map(|number| item(&format!("https://busy.example/{number}"))).collect()).await;
        walk(&follower(&index, &catalogue, &clock)).await;
        let probers = [prober(&index, &world, &clock, options()), prober(&index, &world, &clock, options())];
        // One request at a time to an origin, for any caller; the others have turns of their own.
        let mut leased = 0;
        for _ in 0..3 {
            for round in futures_util::future::join_all(probers.iter().map(Prober::round)).await {
                let round = round.expect("a round");
                assert!(round.leased <= options().probes);
                leased += round.leased;
            }
        }
        assert_eq!((leased, server.requests().len()), (9, 1));
        for expected in 2..=4 {
            clock.advance(options().origin_pause + 1);
            for prober in &probers {
                prober.round().await.expect("a round");
            }
            assert_eq!(server.requests().len(), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_our_own_network_says_nothing_about_a_resource() {
    for (_place, index) in indexes().await {
        let (world, clock) = (World::new(), MovingClock::new());
        let _server = world.honest("a.example", |_| challenge("20000")).await;
        let url = "https://a.example/call";
        let views = probed(&index, &world, &clock, vec![item(url)]).await;
        assert_eq!(probe_of(&views, url).state, "challenges");
        // Name servers are away.
        world.recorder.never("a.example");
        clock.advance(100_000);
        let prober = prober(&index, &world, &clock, options());
        for _ in 0..3 {
            let round = prober.round().await.expect("a round");
            assert_eq!((round.leased, round.postponed, round.probed), (1, 1, 0));
            assert_eq!(probe_of(&listed(&index).await, url).state, "challenges", "what was known stays");
            clock.advance(3_000);
        }
        // What lasts is no fault of ours.
        assert_eq!(prober.round().await.expect("a round").probed, 1);
        let views = listed(&index).await;
        let probe = probe_of(&views, url);
        assert_eq!((probe.state.as_str(), probe.prices.len()), ("no_answer", 0));
        assert_eq!(probe.code.as_deref(), Some(codes::fetch::DNS_FAILED.id()));
    }
}
