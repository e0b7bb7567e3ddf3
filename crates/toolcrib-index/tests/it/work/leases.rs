//! Late workers, and registrations that change while somebody looks.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::Clock as _;
use toolcrib_index::Error;
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::{ToolKey, ToolRow};
use toolcrib_index::work::{Look, WorkOptions, Worker};
use toolcrib_store::database::Value;

use super::scripted::{Scripted, fill, followed, good, host};
use super::{Stage, World, hash_of, manifest, put, uri};
use toolcrib_testkit::clock::MovingClock;

pub(super) type Answer = BoxFuture<'static, Result<Look, Error>>;

/// Tells when a slow worker has begun to look, and lets it go on.
pub(super) struct Pair {
    pub(super) began: Arc<Semaphore>,
    pub(super) go: Arc<Semaphore>,
}

impl Default for Pair {
    fn default() -> Self {
        Self { began: Arc::new(Semaphore::new(0)), go: Arc::new(Semaphore::new(0)) }
    }
}

pub(super) fn worker(
    stage: &Stage,
    clock: &MovingClock,
) -> Worker<Scripted<impl Fn(ToolRef, &ToolRow) -> Answer + Send + Sync + use<>>> {
    let now = clock.clone();
    let looks = Scripted(move |tool: ToolRef, row: &ToolRow| {
        let look = good(tool, row, now.now());
        Box::pin(async move { Ok(look) }) as Answer
    });
    Worker::new(stage.queue.clone(), looks, Arc::new(clock.clone()), WorkOptions::default())
}

pub(super) fn slow(
    stage: &Stage,
    clock: &MovingClock,
    pair: &Pair,
) -> Worker<Scripted<impl Fn(ToolRef, &ToolRow) -> Answer + Send + Sync + use<>>> {
    let (began, go, now) = (pair.began.clone(), pair.go.clone(), clock.clone());
    let looks = Scripted(move |tool: ToolRef, row: &ToolRow| {
        let (look, began, go) = (good(tool, row, now.now()), began.clone(), go.clone());
        Box::pin(async move {
            began.add_permits(1);
            let _ = go.acquire().await.expect("open");
            Ok(look)
        }) as Answer
    });
    Worker::new(stage.queue.clone(), looks, Arc::new(clock.clone()), WorkOptions::default())
}

pub(super) async fn due(stage: &Stage, key: ToolKey) -> bool {
    let id = key.id_bytes();
    let sql = "SELECT due_at FROM index_job WHERE registry = $1 AND tool = $2 AND lease IS NULL AND due_at <= $3";
    let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(stage.clock.now().seconds())];
    stage.index.database().fetch_optional(sql, &values).await.expect("read").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_worker_writes_nothing() {
    let world = World::start().await;
    for stage in world.stages().await {
        let key = fill(&stage.index, 1).await[0];
        let pair = Pair::default();
        let late = slow(&stage, &stage.clock, &pair);
        let running = tokio::spawn(async move { late.round().await.expect("a round") });
        let _ = pair.began.acquire().await.expect("it looks");
        assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").leased, 0, "somebody has it");
        // Longer than any lease, and than any turn at an origin.
        stage.clock.advance(200);
        assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").written, 1);
        let written = stage.index.tools(&[key]).await.expect("tools")[0].listing.clone().expect("a listing");
        pair.go.add_permits(1);
        let round = running.await.expect("no panic");
        assert_eq!((round.lost, round.written), (1, 0), "{round:?}");
        let after = stage.index.tools(&[key]).await.expect("tools")[0].listing.clone().expect("a listing");
        assert_eq!((after.checked_at, &after), (stage.clock.now(), &written));
        assert!(!due(&stage, key).await, "the next look is in an hour");
        stage.clock.advance(-200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_worker_whom_nobody_replaced_is_welcome() {
    let world = World::start().await;
    for stage in world.stages().await {
        let key = fill(&stage.index, 1).await[0];
        let pair = Pair::default();
        let late = slow(&stage, &stage.clock, &pair);
        let running = tokio::spawn(async move { late.round().await.expect("a round") });
        let _ = pair.began.acquire().await.expect("it looks");
        stage.clock.advance(200);
        pair.go.add_permits(1);
        assert_eq!(running.await.expect("no panic").written, 1);
        assert!(stage.index.tools(&[key]).await.expect("tools")[0].is_listed());
        stage.clock.advance(-200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_changes_meanwhile_stays_due() {
    let world = World::start().await;
    for stage in world.stages().await {
        for takes_lease in [true, false] {
            let key = fill(&stage.index, 1).await[0];
            let pair = Pair::default();
            let late = slow(&stage, &stage.clock, &pair);
            let running = tokio::spawn(async move { late.round().await.expect("a round") });
            let _ = pair.began.acquire().await.expect("it looks");
            if takes_lease {
                let hash = hash_of(manifest(&host(2)).to_string().as_bytes());
                put(&stage.index, key, &followed(&uri(&host(2)), hash), Kinds::METADATA).await;
            } else {
                // One that forgot the job: the row alone keeps the old answer out.
                let id = key.id_bytes();
                let sql = "UPDATE index_tool SET events = events + 1, listed = FALSE WHERE registry = $1 AND tool = $2";
                let values = [Value::Integer(key.registry.0), Value::Bytes(&id)];
                assert_eq!(stage.index.database().execute(sql, &values).await.expect("changed"), 1);
            }
            pair.go.add_permits(1);
            let round = running.await.expect("no panic");
            assert_eq!((round.lost, round.written), (1, 0), "{round:?}");
            assert!(due(&stage, key).await);
            stage.clock.advance(5);
            assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").written, 1);
            let view = stage.index.tools(&[key]).await.expect("tools").pop().expect("a tool");
            assert!(view.is_listed());
            assert_eq!(view.listing.expect("a listing").metadata_uri, view.row.metadata_uri);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_during_a_look_gets_a_look_of_its_own() {
    let world = World::start().await;
    for stage in world.stages().await {
        let key = fill(&stage.index, 1).await[0];
        let pair = Pair::default();
        let late = slow(&stage, &stage.clock, &pair);
        let running = tokio::spawn(async move { late.round().await.expect("a round") });
        let _ = pair.began.acquire().await.expect("it looks");
        assert!(stage.queue.request(key, stage.clock.now()).await.expect("asked"));
        pair.go.add_permits(1);
        assert_eq!(running.await.expect("no panic").written, 1);
        assert!(due(&stage, key).await, "what was asked for after the look began was not answered by it");
        stage.clock.advance(5);
        assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").written, 1);
        assert!(!due(&stage, key).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_cannot_be_asked_is_asked_later() {
    let world = World::start().await;
    for stage in world.stages().await {
        let key = fill(&stage.index, 1).await[0];
        assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").written, 1);
        let looks = Scripted(move |_: ToolRef, _: &ToolRow| {
            let error = toolcrib_chain::Error::NoQuorum { asked: 3, agreeing: 1, needed: 2 };
            Box::pin(async move { Err(error.into()) }) as Answer
        });
        let lost = Worker::new(stage.queue.clone(), looks, Arc::new(stage.clock.clone()), WorkOptions::default());
        assert!(stage.queue.request(key, stage.clock.now()).await.expect("asked"));
        stage.clock.advance(5);
        assert_eq!(lost.round().await.expect("a round").kept, 1);
        assert!(stage.index.tools(&[key]).await.expect("tools")[0].is_listed());
        assert!(!due(&stage, key).await, "not at once");
        stage.clock.advance(60);
        assert!(due(&stage, key).await);
        // A look whose tool is unlisted when its time is over, although no look ever succeeded again.
        stage.clock.advance(90_000);
        assert_eq!(stage.queue.expire().await.expect("ended").ended, 1);
        assert_eq!(stage.queue.expire().await.expect("ended").ended, 0, "once");
        assert!(!stage.index.tools(&[key]).await.expect("tools")[0].is_listed());
        assert!(stage.listed().await.is_empty());
        stage.clock.advance(-90_065);
    }
}
