//! A scripted facilitator that can lie, and a clock that the test sets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use toolcrib_core::clock::FixedClock;
use toolcrib_fetch::Configured;
use toolcrib_index::Index;
use toolcrib_index::bazaar::{BazaarOptions, CatalogueFollower, Facilitator, ResourceList, ResourceView, Walk};
use toolcrib_index::feed::Kinds;

pub(crate) use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::servers::{NOW, Request, Script, Server, Step, answer, ok, quick};

pub(crate) const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
pub(crate) const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/// An index on each engine.
pub(crate) async fn indexes() -> Vec<(TestStore, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}

/// An item of version 2 that costs two cents.
pub(crate) fn item(url: &str) -> Json {
    json!({
        "resource": url, "type": "http", "x402Version": 2, "lastUpdated": "2026-09-01T12:00:00Z", "description": format!("What {url} does."),
        "serviceName": "Service", "tags": ["weather"],
        "accepts": [{"scheme": "exact", "network": "eip155:8453", "amount": "20000", "asset": USDC, "payTo": PAYEE,
            "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"}}],
        "extensions": {"bazaar": {"info": {"input": {"type": "http", "method": "GET"}}, "schema": {}}},
    })
}

/// The same in version 1.
pub(crate) fn old_item(url: &str) -> Json {
    json!({
        "resource": url, "type": "http", "x402Version": 1, "lastUpdated": 1_756_000_000,
        "accepts": [{"scheme": "exact", "network": "base", "maxAmountRequired": "20000", "asset": USDC, "payTo": PAYEE, "resource": url,
            "description": "Old.", "mimeType": "application/json", "maxTimeoutSeconds": 60,
            "outputSchema": {"input": {"type": "http", "method": "POST"}}}],
    })
}

pub(crate) fn url(number: usize) -> String {
    format!("https://r{number}.example/call")
}

/// The behaviour of a facilitator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    pub(crate) items: Vec<Json>,
    /// The maximum number of items on a page, whatever is requested.
    pub(crate) cap: Option<usize>,
    /// The total that it states, instead of the truth; `Some(None)` states none.
    pub(crate) total: Option<Option<Json>>,
    /// Returns the first page, whatever is requested.
    pub(crate) ignores_offset: bool,
    /// Returns this instead of a page.
    pub(crate) instead: Option<Vec<u8>>,
    /// The first page that is replaced, counted from 0; all of them without a number.
    pub(crate) instead_from: usize,
}

/// A facilitator on loopback.
pub(crate) struct Catalogue {
    pub(crate) server: Server,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Catalogue {
    pub(crate) async fn start(items: Vec<Json>) -> Self {
        let behaviour = Arc::new(Mutex::new(Behaviour { items, ..Behaviour::default() }));
        let shared = Arc::clone(&behaviour);
        let reply = move |request: &Request| shared.lock().expect("unpoisoned").reply(request);
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::answer(reply)])).await;
        Self { server, behaviour }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock().expect("unpoisoned"));
    }

    pub(crate) fn facilitator(&self) -> Facilitator {
        Facilitator::from_setting(&format!("http://{}/x402?key=s3cret", self.server.address)).expect("a URL")
    }

    pub(crate) fn pages(&self) -> usize {
        self.server.requests().len()
    }
}

impl Behaviour {
    fn reply(&self, request: &Request) -> Vec<u8> {
        assert!(request.path().starts_with("/x402/discovery/resources?key=s3cret&"), "{}", request.path());
        let number = |name: &str| -> usize {
            let value = request.path().split(['?', '&']).find_map(|pair| pair.strip_prefix(name)).expect("a parameter");
            value.parse().expect("a number")
        };
        let (limit, offset) = (number("limit="), number("offset="));
        assert!((1..=100).contains(&limit), "{limit}");
        if let Some(instead) = self.instead.as_ref().filter(|_| offset >= self.instead_from) {
            return instead.clone();
        }
        let from = if self.ignores_offset { 0 } else { offset.min(self.items.len()) };
        let count = limit.min(self.cap.unwrap_or(limit));
        let items: Vec<Json> = self.items.iter().skip(from).take(count).cloned().collect();
        let mut page = json!({"x402Version": 2, "items": items});
        match &self.total {
            Some(None) => {}
            Some(Some(total)) => page["pagination"] = json!({"limit": limit, "offset": offset, "total": total}),
            None => page["pagination"] = json!({"limit": limit, "offset": offset, "total": self.items.len()}),
        }
        ok(page.to_string())
    }
}

pub(crate) fn status(line: &str, headers: &str, body: &str) -> Vec<u8> {
    answer(line, headers, body.as_bytes())
}

/// Short pauses for tests.
pub(crate) fn options() -> BazaarOptions {
    let mut page_limits = quick();
    page_limits.body = 64 * 1024;
    BazaarOptions {
        page_pause: Duration::ZERO,
        poll: Duration::from_millis(20),
        page_limits,
        max_skew: None,
        ..BazaarOptions::default()
    }
}

pub(crate) fn follower_of(
    index: &Index,
    facilitators: Vec<Facilitator>,
    clock: &MovingClock,
    options: BazaarOptions,
) -> CatalogueFollower {
    let client = Configured::builder(FixedClock(NOW)).build().expect("a client");
    CatalogueFollower::new(index.clone(), facilitators, client, Arc::new(clock.clone()), options).expect("a follower")
}

pub(crate) fn follower(index: &Index, catalogue: &Catalogue, clock: &MovingClock) -> CatalogueFollower {
    follower_of(index, vec![catalogue.facilitator()], clock, options())
}

/// The only walk of a round.
pub(crate) async fn walk(follower: &CatalogueFollower) -> Walk {
    let walks = follower.round().await.expect("a round");
    assert_eq!(walks.len(), 1, "{walks:?}");
    walks[0].1
}

/// Returns all listed resources.
pub(crate) async fn listed(index: &Index) -> Vec<ResourceView> {
    let list = ResourceList { limit: 200, ..ResourceList::default() };
    index.list_resources(&list).await.expect("a list").resources
}

pub(crate) async fn urls(index: &Index) -> Vec<String> {
    let mut urls: Vec<String> = listed(index).await.into_iter().map(|view| view.url).collect();
    urls.sort();
    urls
}

/// The kinds of changes after a cursor, with the number of the resource, and the new cursor.
pub(crate) async fn changes(index: &Index, cursor: &mut i64) -> Vec<(i64, Kinds)> {
    let changes = index.changes(*cursor, 1_000).await.expect("changes");
    if let Some(last) = changes.last() {
        *cursor = last.seq;
    }
    changes.into_iter().map(|change| (change.key.resource().expect("a resource"), change.kinds)).collect()
}
