//! Read replicas of a real PostgreSQL server: which of them are used, and why others are not.

use std::time::{Duration, Instant};

use alloy_primitives::U256;
use toolcrib_core::clock::UnixTime;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::replicas::{ReplicaLimits, ReplicaState, Replicas};
use toolcrib_index::{Error, Index};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use toolcrib_testkit::databases::{Backend, Server, TestStore};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// Replication takes milliseconds, on a loaded machine longer.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMITS: ReplicaLimits = ReplicaLimits { lag: Duration::from_millis(2_500), age: Duration::from_secs(60) };

const KEY: ToolKey = ToolKey { registry: RegistryId(1), id: U256::from_limbs([7, 0, 0, 0]) };

/// A primary with an index, and a server that follows it.
struct Pair {
    place: TestStore,
    replica: Server,
    index: Index,
    primary: Server,
}

impl Pair {
    async fn new() -> Option<Self> {
        let primary = Server::own()?;
        let place = TestStore::on(&primary).await;
        let index = Index::open(place.database().await).await.expect("an index");
        let replica = primary.replica();
        Some(Self { place, replica, index, primary })
    }

    fn replica_at(&self) -> Location {
        let setting = self.primary.setting_at(&self.place.setting, &self.replica);
        Location::parse(&setting).expect("a location")
    }

    async fn replicas(&self, limits: ReplicaLimits) -> Replicas {
        Replicas::open(self.index.clone(), &[self.replica_at()], limits).await.expect("replicas")
    }

    /// Makes a change, and returns its number.
    async fn change(&self) -> i64 {
        let mut transaction = self.index.database().begin().await.expect("a transaction");
        feed::record(&mut transaction, &[(KEY, Kinds::FACTS)], NOW).await.expect("recorded");
        transaction.commit().await.expect("committed");
        self.index.last_change().await.expect("a number")
    }
}

/// Observes until a replica is in a state, and returns how long that took.
async fn wait_for(replicas: &Replicas, number: usize, state: ReplicaState) -> Duration {
    let begun = Instant::now();
    loop {
        let _ = replicas.observe(0).await;
        let reports = replicas.reports();
        if reports[number - 1].state == state {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < PATIENCE, "expected {state:?}, got {reports:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_read_once_it_has_what_must_be_shown() {
    let Some(pair) = Pair::new().await else { return };
    let replicas = pair.replicas(LIMITS).await;
    assert!(replicas.candidates(0).is_empty(), "it was not probed yet");
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    let last = pair.change().await;
    let begun = Instant::now();
    while replicas.candidates(last).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", replicas.reports());
        let _ = replicas.observe(0).await;
    }
    let replica = replicas.candidates(last).remove(0);
    let changes = replica.index().changes(0, 10).await.expect("the feed");
    assert_eq!(changes.last().map(|change| change.seq), Some(last));
    assert!(replicas.candidates(last + 1).is_empty(), "it does not have the next change");

    // A change without a number on the primary has none on the replica, and no process tries to assign one there.
    let mut transaction = pair.index.database().begin().await.expect("a transaction");
    feed::record(&mut transaction, &[(KEY, Kinds::USAGE)], NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
    let pending = "SELECT COUNT(*) FROM index_change_pending";
    let begun = Instant::now();
    while replica
        .index()
        .database()
        .fetch_optional(pending, &[])
        .await
        .expect("read")
        .expect("a row")
        .scalar::<i64>()
        .expect("a count")
        == 0
    {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(replica.index().last_change().await.expect("a number"), last);
    // Our client and the server both reject a write.
    let error = replica.index().database().execute("UPDATE index_feed SET last = 0", &[]).await.expect_err("read-only");
    assert_eq!(error.code().id(), "store.disk", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_replaying_is_left_and_used_again_when_it_has_caught_up() {
    let Some(pair) = Pair::new().await else { return };
    let replicas = pair.replicas(LIMITS).await;
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    pair.replica.admin("SELECT pg_wal_replay_pause()").await;
    // No tool changes: only the heartbeat shows that replication stopped.
    let took = wait_for(&replicas, 1, ReplicaState::Behind).await;
    assert!(took >= LIMITS.lag - Duration::from_secs(1), "{took:?} is before the limit");
    assert_eq!(replicas.reports()[0].state.code().map(|code| code.id()), Some("replica.behind"));
    let last = pair.change().await;
    let observation = replicas.observe(0).await.expect("the primary");
    assert_eq!((observation.watermark, replicas.candidates(0).len()), (last, 0), "the primary is read");
    pair.replica.admin("SELECT pg_wal_replay_resume()").await;
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    let begun = Instant::now();
    while replicas.candidates(last).is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        let _ = replicas.observe(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_gone_or_hangs_is_left_at_once() {
    let Some(mut pair) = Pair::new().await else { return };
    let replicas = pair.replicas(LIMITS).await;
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    // It hangs: connections stay open and get no response.
    let replica = replicas.candidates(0).remove(0);
    let stuck = tokio::spawn({
        let replica = replica.clone();
        async move {
            let read = replica.index().database().fetch("SELECT pg_sleep(60)", &[]);
            tokio::select! { _ = read => false, () = replica.broken() => true }
        }
    });
    pair.replica.freeze(true);
    let took = wait_for(&replicas, 1, ReplicaState::Slow).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(stuck.await.expect("no panic"), "who was reading from it is told");
    // An observer waits for one probe at most, and mostly for none.
    let mut times = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        let _ = replicas.observe(0).await.expect("the primary");
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    assert!(times[4] < Duration::from_millis(400), "{times:?}");
    pair.replica.freeze(false);
    wait_for(&replicas, 1, ReplicaState::Usable).await;

    pair.replica.kill();
    wait_for(&replicas, 1, ReplicaState::Unreachable).await;
    pair.replica.restart();
    wait_for(&replicas, 1, ReplicaState::Usable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_promoted_is_never_read_again() {
    let Some(pair) = Pair::new().await else { return };
    let replicas = pair.replicas(LIMITS).await;
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    pair.replica.admin("SELECT pg_promote()").await;
    wait_for(&replicas, 1, ReplicaState::Promoted).await;
    // It accepts writes of others by now, and none of ours.
    let replica = Database::open_replica(&pair.replica_at()).expect("a replica");
    let error = replica.execute("UPDATE index_feed SET last = 0", &[]).await.expect_err("read-only");
    assert_eq!(error.code().id(), "store.disk", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_databases_and_older_schemas_are_told_apart() {
    let Some(pair) = Pair::new().await else { return };
    // Next to the right one: a schema of the same server with another index, and an empty one.
    let (other, empty) = (TestStore::on(&pair.primary).await, TestStore::on(&pair.primary).await);
    let other_index = Index::open(other.database().await).await.expect("an index");
    let _ = Replicas::open(other_index, &[pair.replica_at()], LIMITS).await.expect("an identity of its own");
    let at = |place: &TestStore| Location::parse(&pair.primary.setting_at(&place.setting, &pair.replica)).expect("a location");
    let places = [at(&other), at(&empty), pair.replica_at(), pair.place.location()];
    let replicas = Replicas::open(pair.index.clone(), &places, LIMITS).await.expect("replicas");
    for (number, state) in
        [(1, ReplicaState::Identity), (2, ReplicaState::Schema), (3, ReplicaState::Usable), (4, ReplicaState::Promoted)]
    {
        wait_for(&replicas, number, state).await;
    }
    assert_eq!(replicas.candidates(0).len(), 1);
    // A schema that lacks the last migration, as while a primary is being upgraded.
    let old = "DELETE FROM toolcrib_migration WHERE module = $1";
    let replicas = pair.replicas(LIMITS).await;
    pair.index.database().execute(old, &[Value::Text("index.replication")]).await.expect("an older schema");
    wait_for(&replicas, 1, ReplicaState::Schema).await;
    // No migration was applied through the replica.
    let applied = "SELECT COUNT(*) FROM toolcrib_migration WHERE module = 'index.replication'";
    let row = pair.index.database().fetch_optional(applied, &[]).await.expect("read").expect("a row");
    assert_eq!(row.scalar::<i64>().expect("a count"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_changes_that_the_primary_lacks_is_not_read() {
    let Some(pair) = Pair::new().await else { return };
    for _ in 0..3 {
        pair.change().await;
    }
    let replicas = pair.replicas(ReplicaLimits { lag: Duration::from_secs(60), ..LIMITS }).await;
    let begun = Instant::now();
    while replicas.candidates(3).is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        let _ = replicas.observe(0).await;
    }
    // As if the primary had been restored from a backup.
    pair.replica.admin("SELECT pg_wal_replay_pause()").await;
    pair.index.database().execute("UPDATE index_feed SET last = 1", &[]).await.expect("an older state");
    wait_for(&replicas, 1, ReplicaState::Diverged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_go_on_without_the_primary_until_they_are_too_old() {
    let Some(mut pair) = Pair::new().await else { return };
    let limits = ReplicaLimits { lag: Duration::from_millis(2_500), age: Duration::from_secs(6) };
    let replicas = pair.replicas(limits).await;
    let last = pair.change().await;
    let begun = Instant::now();
    while replicas.candidates(last).is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        let _ = replicas.observe(0).await;
    }
    assert!(replicas.has_primary() && replicas.stale_seconds().is_none());
    pair.primary.kill();
    let begun = Instant::now();
    let observation = replicas.observe(last).await.expect("the replica");
    assert_eq!(observation.watermark, last);
    assert!(!replicas.has_primary());
    assert!(replicas.stale_seconds().is_none(), "as old as it may be with a primary");
    while replicas.stale_seconds().is_none() {
        assert!(begun.elapsed() < PATIENCE);
        replicas.observe(last).await.expect("the replica");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "{:?}", begun.elapsed());
    wait_for(&replicas, 1, ReplicaState::Behind).await;
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(replicas.observe(last).await.is_err(), "nothing is left to read from");
    pair.primary.restart();
    wait_for(&replicas, 1, ReplicaState::Usable).await;
    assert!(replicas.has_primary());
}

#[tokio::test]
async fn only_postgres_has_replicas() {
    let place = TestStore::new(Backend::SqliteFile).await.expect("a place");
    let index = Index::open(place.database().await).await.expect("an index");
    let replica = Location::parse("postgres://127.0.0.1:1/none").expect("a location");
    for places in [vec![Location::memory()], vec![replica]] {
        let error = Replicas::open(index.clone(), &places, LIMITS).await.expect_err("no replicas");
        assert!(matches!(error, Error::Store(toolcrib_store::Error::Location { .. })), "{error}");
    }
    let none = Replicas::none(index);
    assert!(none.is_empty() && none.has_primary());
    assert_eq!(none.observe(0).await.expect("the index").watermark, 0);
}
