//! Four worker processes on one database, some killed at random.
//!
//! A child is this test binary, started for one test that does nothing without instructions. Verification results are made up, so that the
//! queue is what is tested. A trigger in the database counts all writes.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::{ToolKey, ToolRow};
use toolcrib_index::work::{Look, Queue, WorkOptions, Worker};
use toolcrib_index::{Error, Index};
use toolcrib_store::database::PerEngine;
use toolcrib_store::{Database, Location};

use super::scripted::{Scripted, fill, good};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::servers::NOW;

const TASK: &str = "TOOLCRIB_INDEX_WORKER";
const JOBS: u64 = 520;

/// A clock that all processes share, and that runs faster than real time, so that leases expire during the test.
#[derive(Clone, Copy, Debug)]
struct Shared {
    start: u128,
    speed: u128,
}

#[expect(clippy::disallowed_methods, reason = "processes have no other clock in common")]
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

impl Clock for Shared {
    fn now(&self) -> UnixTime {
        NOW.plus(i64::try_from((millis() - self.start) * self.speed / 1_000).expect("small"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let parts: Vec<_> = task.split('\n').collect();
    let [setting, start, speed, look] = parts.as_slice() else { panic!("{task}") };
    let clock = Shared { start: start.parse().expect("a time"), speed: speed.parse().expect("a speed") };
    let look = Duration::from_millis(look.parse().expect("a time"));
    let database = Database::open(&Location::parse(setting).expect("a location")).await.expect("a database");
    let index = Index::open(database).await.expect("an index");
    let looks = Scripted(move |tool: ToolRef, row: &ToolRow| {
        let found = good(tool, row, clock.now());
        Box::pin(async move {
            tokio::time::sleep(look).await;
            Ok(found)
        }) as BoxFuture<'static, Result<Look, Error>>
    });
    let options = WorkOptions { at_once: 8, poll: Duration::from_millis(50), ..WorkOptions::default() };
    Worker::new(Queue::new(index), looks, Arc::new(clock), options).run(std::future::pending()).await;
}

fn start(place: &TestStore, clock: Shared, look: u64) -> Child {
    let task = format!("{}\n{}\n{}\n{look}", place.setting, clock.start, clock.speed);
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "work::processes::child", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

const LOG: &str = "CREATE TABLE test_write (registry BIGINT NOT NULL, tool BIGINT)";
const FUNCTION: PerEngine = PerEngine {
    sqlite: "CREATE TRIGGER test_update AFTER UPDATE ON index_listing BEGIN INSERT INTO test_write VALUES (NEW.registry, 1); END",
    postgres: "CREATE FUNCTION test_count() RETURNS trigger AS
        'BEGIN INSERT INTO test_write VALUES (NEW.registry, 1); RETURN NEW; END' LANGUAGE plpgsql",
};
const TRIGGER: PerEngine = PerEngine {
    sqlite: "CREATE TRIGGER test_insert AFTER INSERT ON index_listing BEGIN INSERT INTO test_write VALUES (NEW.registry, 1); END",
    postgres: "CREATE TRIGGER test_any AFTER INSERT OR UPDATE ON index_listing FOR EACH ROW EXECUTE FUNCTION test_count()",
};

async fn count(index: &Index, sql: &'static str) -> i64 {
    index.database().fetch_optional(sql, &[]).await.expect("read").expect("a row").scalar::<i64>().expect("a number")
}

/// Waits until every tool has a listing.
async fn finished(index: &Index, keys: &[ToolKey], mut meanwhile: impl FnMut()) {
    let begun = std::time::Instant::now();
    while count(index, "SELECT COUNT(*) FROM index_listing").await < i64::try_from(keys.len()).expect("small") {
        assert!(begun.elapsed() < Duration::from_secs(120), "the queue stands still");
        tokio::time::sleep(Duration::from_millis(120)).await;
        meanwhile();
    }
}

async fn stage(backend: Backend) -> Option<(TestStore, Index, Vec<ToolKey>)> {
    let place = TestStore::new(backend).await?;
    let index = Index::open(place.database().await).await.expect("an index");
    let keys = fill(&index, JOBS).await;
    index.database().execute(LOG, &[]).await.expect("a table");
    for statement in [FUNCTION, TRIGGER] {
        index.database().execute(index.database().pick(statement), &[]).await.expect("a trigger");
    }
    Some((place, index, keys))
}

/// Nothing is missing, nothing was done twice, and the feed has one verification for each tool.
async fn check(index: &Index, keys: &[ToolKey]) {
    let written = count(index, "SELECT COUNT(*) FROM test_write").await;
    assert_eq!(written, i64::try_from(keys.len()).expect("small"), "each job was done once");
    assert_eq!(count(index, "SELECT COUNT(*) FROM index_tool WHERE listed").await, written);
    assert_eq!(count(index, "SELECT COUNT(*) FROM index_verdict").await, written);
    assert_eq!(count(index, "SELECT COUNT(*) FROM index_evidence").await, written);
    assert_eq!(count(index, "SELECT COUNT(*) FROM index_job WHERE reason = 'expired'").await, written);
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        let changes = index.changes(cursor, 500).await.expect("changes");
        let Some(last) = changes.last() else { break };
        cursor = last.seq;
        seen.extend(changes.iter().filter(|change| change.kinds == Kinds::VERIFICATION).map(|change| change.key));
    }
    seen.sort();
    assert_eq!(seen, keys);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_share_one_queue() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((place, index, keys)) = stage(backend).await else { continue };
        let clock = Shared { start: millis(), speed: 1 };
        let mut children: Vec<_> = (0..4).map(|_| start(&place, clock, 5)).collect();
        let begun = std::time::Instant::now();
        finished(&index, &keys, || ()).await;
        let took = begun.elapsed();
        for child in &mut children {
            assert!(child.try_wait().expect("a child").is_none(), "nobody gave up");
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        check(&index, &keys).await;
        let _ = writeln!(std::io::stderr(), "{backend:?}: {JOBS} jobs by four processes in {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_any_worker_loses_nothing() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((place, index, keys)) = stage(backend).await else { continue };
        // A lease of two minutes lasts three seconds.
        let clock = Shared { start: millis(), speed: 40 };
        let mut children: Vec<_> = (0..4).map(|_| start(&place, clock, 60)).collect();
        let (mut kills, mut number) = (0_u32, 12_345_u32);
        finished(&index, &keys, || {
            // A random one: xorshift is random enough.
            number ^= number << 13;
            number ^= number >> 17;
            number ^= number << 5;
            if number % 3 == 0 && kills < 12 {
                let which = number as usize % children.len();
                children[which].kill().expect("killed");
                children[which].wait().expect("gone");
                children[which] = start(&place, clock, 60);
                kills += 1;
            }
        })
        .await;
        for child in &mut children {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        assert!(kills >= 3, "{kills}");
        check(&index, &keys).await;
        let _ = writeln!(std::io::stderr(), "{backend:?}: {JOBS} jobs, {kills} kills");
    }
}
