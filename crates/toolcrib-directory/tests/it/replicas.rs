//! A directory that reads from a streaming replica of its database, and what it says when either server goes wrong.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use toolcrib_directory::keys::{KeyTerms, Keys};
use toolcrib_index::replicas::ReplicaLimits;
use toolcrib_store::Location;

use crate::shelf::{Ask, CHAIN, REGISTRY, Reply, Shelf, Stock, path};
use toolcrib_testkit::databases::{Server, TestStore};

/// Replication takes milliseconds, and a loaded machine some more.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMITS: ReplicaLimits = ReplicaLimits { lag: Duration::from_secs(3), age: Duration::from_secs(60) };

const ADMIN: KeyTerms = KeyTerms { reads: 100_000, writes: 100_000, seconds: 86_400, admin: true };

struct Pair {
    shelf: Shelf,
    replica: Server,
    primary: Server,
}

impl Pair {
    async fn new() -> Option<Self> {
        let primary = Server::own()?;
        let place = TestStore::on(&primary).await;
        // The copy is made when there is something in it.
        drop(Shelf::over(TestStore::again(&place), crate::shelf::open(), toolcrib_index::Chains::default()).await);
        let replica = primary.replica();
        let location = Location::parse(&primary.setting_at(&place.setting, &replica)).expect("a location");
        let shelf = Shelf::reading(place, &[location], LIMITS).await;
        Some(Self { shelf, replica, primary })
    }

    async fn ready(&self) -> Reply {
        self.shelf.get("/ready").await
    }

    /// Looks until the directory shows everything and reads from the replica, or does not.
    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut(&Json) -> bool) -> Duration {
        let begun = Instant::now();
        loop {
            let _ = self.shelf.directory.refresh().await;
            let ready = self.ready().await.json();
            if is_so(&ready).await {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {ready}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_read(&self) {
        let shows = async |ready: &Json| ready["replicas"][0]["usable"] == true && ready["shown"] == ready["last_change"];
        self.until("the replica is read", shows).await;
    }

    async fn until_code(&self, code: &str) -> Duration {
        self.until(code, async |ready: &Json| ready["replicas"][0]["code"] == code).await
    }

    /// Requests that a database answered; the primary is 0.
    fn reads(&self, database: usize) -> u64 {
        let name = format!("toolcrib_directory_database_reads_total{{replica=\"{database}\"}} ");
        let page = self.shelf.directory.metrics();
        page.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().expect("a count"))
    }

    async fn admin_key(&self) -> String {
        let keys = self.shelf.directory.keys();
        keys.issue_with(Some("operator"), ADMIN, self.shelf.now()).await.expect("a key").key
    }
}

/// A single request is slow when another process takes the processor.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn reference(id: u64) -> String {
    format!("eip155:{CHAIN}/erc8257:{REGISTRY:#x}/{id}")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_from_the_replica_and_own_writes_are_seen() {
    let Some(pair) = Pair::new().await else { return };
    let shelf = &pair.shelf;
    shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    pair.until_read().await;
    let before = pair.reads(0);
    let paths = [path(1), path(2), format!("{}/history", path(1)), "/api/v2/tools".to_owned(), "/api/v2/changes".to_owned()];
    for path in paths.iter().chain([&"/api/v2/tools/search?query=weather".to_owned(), &"/".to_owned()]) {
        let reply = shelf.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
    }
    assert!(pair.reads(1) >= 7, "{}", shelf.directory.metrics());
    assert_eq!(pair.reads(0), before, "the primary answers nothing");

    // From here on nothing arrives at the replica. What this node writes is seen all the same.
    let key = pair.admin_key().await;
    pair.replica.admin("SELECT pg_wal_replay_pause()").await;
    let hide = json!({"action": "hide", "tool": reference(2), "reason": "spam"}).to_string();
    let reply = Ask::post("/api/v2/admin/moderation", hide).header("x-api-key", &key).of(&shelf.router).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let cursor: i64 = reply.header("x-feed-cursor").parse().expect("a number");
    assert_eq!(shelf.ids("/api/v2/tools").await, [1], "a list after hiding");
    assert_eq!(shelf.ids("/api/v2/tools/search?query=maps").await, Vec::<u64>::new());
    let log = Ask::get("/api/v2/admin/moderation").header("x-api-key", &key).of(&shelf.router).await;
    assert!(log.text().contains("spam"), "{}", log.text());
    // A key that was issued a moment ago.
    let issued = Ask::post("/api/v2/auth/keys", "").of(&shelf.router).await.json();
    let issued = issued["api_key"].as_str().expect("a key");
    assert_eq!(Ask::get(&path(1)).header("x-api-key", issued).of(&shelf.router).await.status, StatusCode::OK);

    // Another node wrote: who names the change sees it here, before this node has looked.
    shelf.write_all(&[Stock::good(1, "Weather tomorrow")]).await;
    let last = shelf.index.last_change().await.expect("a number");
    assert!(last > cursor);
    let asked = Ask::get(&path(1)).header("x-feed-cursor", &last.to_string()).of(&shelf.router).await;
    assert!(asked.text().contains("Weather tomorrow"), "{}", asked.text());
    assert!(shelf.get(&path(1)).await.text().contains("\"Weather\""));
    // A reader of the feed who was told more elsewhere is not sent back to the beginning.
    let ahead = shelf.get(&format!("/api/v2/changes?cursor={last}")).await;
    assert_eq!((ahead.status, ahead.json()["next"].as_str()), (StatusCode::OK, Some(&*last.to_string())));
    let beyond = shelf.get(&format!("/api/v2/changes?cursor={}", last + 1)).await;
    assert_eq!(beyond.json()["code"], "index.cursor_ahead");

    pair.until_code("replica.behind").await;
    assert_eq!(shelf.ids("/api/v2/tools").await, [1]);
    assert!(shelf.get(&path(1)).await.text().contains("Weather tomorrow"), "the primary answers");
    pair.replica.admin("SELECT pg_wal_replay_resume()").await;
    pair.until_read().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_fails_costs_no_request() {
    let Some(mut pair) = Pair::new().await else { return };
    pair.shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    pair.until_read().await;
    let looking = tokio::spawn({
        let directory = pair.shelf.directory.clone();
        async move { directory.run(std::future::pending()).await }
    });
    pair.replica.kill();
    // Parts are not kept, so each request reads the database. The directory was not told.
    let mut times = Vec::new();
    for round in 0..30 {
        let begun = Instant::now();
        let reply = pair.shelf.get(&format!("{}/history?limit={}", path(1), 1 + round)).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        times.push(begun.elapsed());
    }
    assert!(median(&mut times) < Duration::from_millis(500), "{times:?}");
    pair.until_code("replica.unreachable").await;
    let page = pair.shelf.directory.metrics();
    assert!(page.contains("toolcrib_directory_replica_fault{replica=\"1\",code=\"replica.unreachable\"} 1"), "{page}");
    let ready = pair.ready().await;
    assert_eq!((ready.status, ready.json()["status"].as_str()), (StatusCode::OK, Some("ok")), "the primary is there");
    assert!(!ready.text().contains("postgres"), "no host is shown: {}", ready.text());
    pair.replica.restart();
    pair.until_read().await;

    // It hangs: connections stay open.
    pair.replica.freeze(true);
    let asked: Vec<_> = (0..20)
        .map(|round| {
            let router = pair.shelf.router.clone();
            tokio::spawn(async move {
                let begun = Instant::now();
                let reply = Ask::get(&format!("{}/history?limit={}", path(1), 50 + round)).of(&router).await;
                (reply.status, begun.elapsed())
            })
        })
        .collect();
    let mut times = Vec::new();
    for asked in asked {
        let (status, took) = asked.await.expect("no panic");
        assert_eq!(status, StatusCode::OK);
        times.push(took);
    }
    // Two probes. The pool alone would find out after four seconds and a quarter.
    assert!(times.iter().min() < Some(&Duration::from_secs(4)), "{times:?}");
    // Slow at first, and gone once the pool has given it up.
    let is_left =
        async |ready: &Json| matches!(ready["replicas"][0]["code"].as_str(), Some("replica.slow" | "replica.unreachable"));
    pair.until("the replica is left", is_left).await;
    let mut times = Vec::new();
    for round in 0..20 {
        let begun = Instant::now();
        assert_eq!(pair.shelf.get(&format!("{}/history?limit={}", path(2), 1 + round)).await.status, StatusCode::OK);
        times.push(begun.elapsed());
    }
    assert!(median(&mut times) < Duration::from_millis(500), "{times:?}");
    pair.replica.freeze(false);
    pair.until_read().await;
    looking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_without_the_primary_and_says_when_it_is_old() {
    let Some(mut pair) = Pair::new().await else { return };
    pair.shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    // A key that this node has not seen.
    let elsewhere = Keys::open(pair.shelf.index.database().clone()).await.expect("keys");
    let key = elsewhere.issue(None, 1_000, 1_000, 86_400, pair.shelf.now()).await.expect("a key").key;
    pair.until_read().await;
    pair.primary.kill();
    let shelf = &pair.shelf;
    let _ = shelf.directory.refresh().await;
    let begun = Instant::now();
    let fresh = shelf.get(&format!("{}/history?limit=3", path(1))).await;
    assert_eq!(fresh.status, StatusCode::OK, "{}", fresh.text());
    assert_eq!(Ask::get(&path(2)).header("x-api-key", &key).of(&shelf.router).await.status, StatusCode::OK);
    assert_eq!(shelf.ids("/api/v2/tools/search?query=weather").await, [1]);
    if begun.elapsed() < Duration::from_secs(1) {
        assert!(!fresh.headers.contains_key("cache-status"), "as old as it may be with a primary: {:?}", fresh.headers);
    }
    let refused = Ask::post("/api/v2/auth/keys", "").of(&shelf.router).await;
    assert_eq!(
        (refused.status, refused.json()["code"].as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, Some("directory.unavailable"))
    );
    assert_eq!(refused.header("cache-control"), "no-store");
    let ready = pair.ready().await;
    assert_eq!(ready.status, StatusCode::OK, "{}", ready.text());
    assert_eq!(ready.json()["status"], "the primary does not answer; read replicas do");

    // After a while answers say how old they may be.
    let is_marked = async |_: &Json| shelf.get(&path(1)).await.headers.contains_key("cache-status");
    pair.until("answers are marked", is_marked).await;
    for path in [path(1), "/api/v2/tools".to_owned(), format!("{}/history?limit=7", path(1)), "/".to_owned()] {
        let reply = shelf.get(&path).await;
        assert_eq!((reply.status, reply.header("cache-control")), (StatusCode::OK, "no-store"), "{path}");
        assert!(reply.header("age").parse::<u64>().expect("seconds") >= 3, "{path}: {:?}", reply.headers);
        assert!(reply.header("cache-status").contains("database-unavailable"), "{path}");
    }
    pair.primary.restart();
    let is_well = async |ready: &Json| {
        let is_marked = shelf.get(&path(1)).await.headers.contains_key("cache-status");
        ready["status"] == "ok" && ready["replicas"][0]["usable"] == true && !is_marked
    };
    pair.until("the primary is back", is_well).await;
}
