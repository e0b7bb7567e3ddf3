//! Catalogues that lie, fail, hang and are full of rubbish.

use serde_json::{Value as Json, json};
use toolcrib_core::codes::{self, Code, bazaar as code};
use toolcrib_index::bazaar::{BazaarOptions, Walk, WalkEnd};

use super::server::{Behaviour, Catalogue, MovingClock, follower, follower_of, indexes, item, options, status, url, urls, walk};
use toolcrib_testkit::servers::{Script, Server, Step};

fn items(count: usize) -> Vec<Json> {
    (0..count).map(|number| item(&url(number))).collect()
}

/// Walks once through fifty items, and then through what a liar makes of them; nothing is unlisted, however often that happens within a day.
async fn after(lie: impl Fn(&mut Behaviour)) -> Vec<(Walk, usize)> {
    let mut walks = Vec::new();
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(items(50)).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        catalogue.set(|behaviour| behaviour.cap = Some(20));
        assert_eq!(walk(&follower).await.end, WalkEnd::Complete);
        catalogue.set(&lie);
        clock.advance(4_000);
        let (first, before) = (walk(&follower).await, catalogue.pages());
        for _ in 0..4 {
            clock.advance(7_300);
            walk(&follower).await;
        }
        assert_eq!(urls(&index).await.len(), 50, "nothing is unlisted within a day");
        walks.push((first, before - 4));
    }
    walks
}

async fn ends(expected: WalkEnd, lie: impl Fn(&mut Behaviour)) {
    for (walk, _) in after(lie).await {
        assert_eq!(walk.end, expected, "{walk:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_repeat_and_totals_that_lie() {
    ends(WalkEnd::Early(code::REPEATS), |behaviour| behaviour.ignores_offset = true).await;
    // Without a total, a page that repeats is no end either.
    ends(WalkEnd::Early(code::REPEATS), |behaviour| {
        behaviour.ignores_offset = true;
        behaviour.total = Some(None);
    })
    .await;
    ends(WalkEnd::Early(code::TOTAL), |behaviour| behaviour.total = Some(Some(json!(1_000_000)))).await;
    // An empty catalogue is one; it takes more than one walk to believe it.
    ends(WalkEnd::Complete, |behaviour| behaviour.items.truncate(0)).await;
    ends(WalkEnd::Early(code::TOTAL), |behaviour| {
        behaviour.items.truncate(20);
        behaviour.total = Some(Some(json!(50)));
    })
    .await;
    // A total that is too small ends nothing: all pages are read.
    for (walk, pages) in after(|behaviour| behaviour.total = Some(Some(json!(3)))).await {
        assert_eq!((walk.end, walk.items, pages), (WalkEnd::Complete, 50, 4));
    }
    for total in [json!(-1), json!("50"), json!(1e300), json!(null)] {
        ends(WalkEnd::Complete, |behaviour| behaviour.total = Some(Some(total.clone()))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_no_page() {
    for (instead, expected) in [
        (status("500 Internal Server Error", "", "{}"), code::STATUS),
        (status("404 Not Found", "", ""), code::STATUS),
        (status("302 Found", "Location: http://10.0.0.1/\r\n", ""), code::STATUS),
        (status("200 OK", "Content-Type: text/html\r\n", "<!doctype html><title>hi</title>"), code::PAGE),
        (status("200 OK", "", "{\"items\": \"none\"}"), code::PAGE),
        (status("200 OK", "", &"[".repeat(50_000)), code::PAGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort".to_vec(), codes::fetch::TRUNCATED),
    ] {
        ends(WalkEnd::Early(expected), |behaviour| behaviour.instead = Some(instead.clone())).await;
        // In the middle of a walk as well.
        ends(WalkEnd::Early(expected), |behaviour| {
            behaviour.instead = Some(instead.clone());
            behaviour.instead_from = 20;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_is_asked_again_when_it_says() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(items(1)).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        let limited = |seconds: &str| status("429 Too Many Requests", &format!("Retry-After: {seconds}\r\n"), "");
        catalogue.set(|behaviour| behaviour.instead = Some(limited("600")));
        assert_eq!(walk(&follower).await.end, WalkEnd::Early(code::STATUS));
        for (pause, expected) in [(599, 0), (1, 1)] {
            clock.advance(pause);
            assert_eq!(follower.round().await.expect("a round").len(), expected, "{pause}");
        }
        // No pause lasts a year, and one that cannot be read is replaced by ours.
        for (said, longest) in [("99999999999", 86_400), ("soon", 3_600), ("-5", 3_600)] {
            catalogue.set(|behaviour| behaviour.instead = Some(limited(said)));
            clock.advance(86_400);
            walk(&follower).await;
            assert!(follower.round().await.expect("a round").is_empty(), "{said}");
            clock.advance(longest);
            walk(&follower).await;
        }
        // Pauses after failures grow, and end with the first walk that works.
        catalogue.set(|behaviour| behaviour.instead = None);
        clock.advance(86_400);
        assert_eq!(walk(&follower).await.end, WalkEnd::Complete);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_items_are_skipped_and_the_others_listed() {
    for (_place, index) in indexes().await {
        let mut all = items(3);
        all.insert(1, json!({"resource": "https://bad.example/", "accepts": []}));
        all.insert(0, json!(7));
        all.push(json!({"resource": "javascript:alert(1)", "accepts": [{}]}));
        all.push(json!({"resource": "https://10.0.0.1/", "accepts": all[2]["accepts"]}));
        let mut loud = item(&url(9));
        loud["description"] = json!("red \u{1b}[31m \u{202e}evil\u{0}");
        loud["iconUrl"] = json!("javascript:alert(1)");
        all.push(loud);
        let catalogue = Catalogue::start(all).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        let first = walk(&follower).await;
        assert_eq!((first.end, first.items, first.skipped, first.added), (WalkEnd::Complete, 8, 4, 4));
        let views = super::server::listed(&index).await;
        let shown = views.iter().find(|view| view.url == url(9)).and_then(|view| view.claim()).expect("a claim");
        assert_eq!(shown.description.as_deref(), Some("red \\u{1b}[31m \\u{202e}evil\\u{0}"));
        assert_eq!(shown.icon, None);
        clock.advance(4_000);
        assert_eq!(walk(&follower).await.skipped, 4, "counted each time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_items_cost_themselves_alone() {
    for (_place, index) in indexes().await {
        let mut all = items(30);
        all[11]["description"] = json!("x".repeat(70_000));
        let catalogue = Catalogue::start(all).await;
        let walk = walk(&follower(&index, &catalogue, &MovingClock::new())).await;
        // The page is larger than is read, fewer items are asked for, and at last the one.
        assert_eq!((walk.end, walk.items, walk.skipped, walk.added), (WalkEnd::Complete, 30, 1, 29));
        assert!(!urls(&index).await.contains(&url(11)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_has_so_many_resources_and_no_more() {
    for (_place, index) in indexes().await {
        let catalogue = Catalogue::start(items(60)).await;
        catalogue.set(|behaviour| behaviour.cap = Some(20));
        let clock = MovingClock::new();
        let few = BazaarOptions { max_items: 30, ..options() };
        let follower = follower_of(&index, vec![catalogue.facilitator()], &clock, few);
        let first = walk(&follower).await;
        assert_eq!((first.end, first.items, first.added, first.skipped), (WalkEnd::Early(code::TOO_MANY), 40, 30, 10));
        // Others in their place do not come in on top.
        catalogue.set(|behaviour| behaviour.items = (100..160).map(|number| item(&url(number))).collect());
        clock.advance(4_000);
        assert_eq!(walk(&follower).await.added, 0);
        assert_eq!(urls(&index).await.len(), 30);
        let pages = BazaarOptions { max_pages: 1, ..options() };
        let other = Catalogue::start(items(60)).await;
        other.set(|behaviour| behaviour.cap = Some(20));
        let follower = follower_of(&index, vec![other.facilitator()], &clock, pages);
        assert_eq!(walk(&follower).await.end, WalkEnd::Early(code::TOO_MANY));
    }
}

/// A facilitator that does something else than answer.
async fn silent(steps: Vec<Step>) -> Code {
    let mut found = None;
    for (_place, index) in indexes().await {
        let server = Server::start(Script::plain(steps.clone())).await;
        let url = format!("http://{}", server.address);
        let facilitator = toolcrib_index::bazaar::Facilitator::from_setting(&url).expect("a URL");
        let follower = follower_of(&index, vec![facilitator], &MovingClock::new(), options());
        let WalkEnd::Early(code) = walk(&follower).await.end else { panic!("no walk") };
        assert!(found.is_none_or(|found| found == code));
        found = Some(code);
    }
    found.expect("an engine")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_that_hangs_drips_or_never_ends() {
    assert_eq!(silent(vec![Step::Hold]).await, codes::fetch::READ_TIMEOUT);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let pause = std::time::Duration::from_millis(300);
    let drip = vec![Step::ReadRequest, Step::Send(head.clone()), Step::Drip(b"1\r\n{\r\n".repeat(100), pause)];
    assert_eq!(silent(drip).await, codes::fetch::TOTAL_TIMEOUT);
    // An answer without an end is too large with one item as well: so many pages, and the walk ends.
    for (_place, index) in indexes().await {
        let chunk = [b"800\r\n".to_vec(), vec![b' '; 0x800], b"\r\n".to_vec()].concat();
        let steps = vec![Step::ReadRequest, Step::Send(head.clone()), Step::Endless(chunk)];
        let server = Server::start(Script::plain(steps)).await;
        let url = format!("http://{}", server.address);
        let facilitator = toolcrib_index::bazaar::Facilitator::from_setting(&url).expect("a URL");
        let few = BazaarOptions { max_pages: 3, ..options() };
        let walk = walk(&follower_of(&index, vec![facilitator], &MovingClock::new(), few)).await;
        assert_eq!((walk.end, walk.items, walk.skipped), (WalkEnd::Early(code::TOO_MANY), 3, 3));
    }
}
