//! Sixteen writers in four processes, readers in each of them, and kill -9 among them.
//!
//! A writer counts its commits in a table, in the transaction of the change: the expected feed follows from the counts, whenever a process
//! dies. A child is this test binary, started for one test that does nothing without instructions.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{Error, Index};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use super::NOW;
use toolcrib_testkit::databases::{Backend, TestStore};

const TASK: &str = "TOOLCRIB_FEED_WRITER";
const PROCESSES: i64 = 4;
const WRITERS_EACH: i64 = 4;
const KILLS: u32 = 12;

const COUNTS: &str = "CREATE TABLE test_count (writer BIGINT NOT NULL PRIMARY KEY, count BIGINT NOT NULL)";
const COUNT: &str = "INSERT INTO test_count (writer, count) VALUES ($1, 1)
    ON CONFLICT (writer) DO UPDATE SET count = test_count.count + 1 RETURNING count";

async fn open(setting: &str) -> Index {
    let location = Location::parse(setting).expect("a location");
    Index::open(Database::open(&location).await.expect("a database")).await.expect("an index")
}

/// One commit: the count, and its change. Every seventh is rolled back instead.
async fn write(index: &Index, writer: i64, round: u64) -> Result<(), Error> {
    let mut transaction = index.database().begin().await?;
    let row = transaction.fetch_optional(COUNT, &[Value::Integer(writer)]).await?.expect("a row");
    let id = U256::from(row.scalar::<i64>()?.unsigned_abs());
    let changes = [(ToolKey { registry: RegistryId(writer), id }, Kinds::VERIFICATION)];
    feed::record(&mut transaction, &changes, NOW.plus((round / 50).cast_signed())).await?;
    // Transactions overlap, and commit in another order than they recorded in.
    tokio::time::sleep(Duration::from_micros(round * 7 % 1_500)).await;
    if round % 7 == 6 { Ok(transaction.rollback().await?) } else { Ok(transaction.commit().await?) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (number, setting) = task.split_once('\n').expect("a task");
    let number: i64 = number.parse().expect("a number");
    let index = open(setting).await;
    for writer in number * WRITERS_EACH..(number + 1) * WRITERS_EACH {
        let index = index.clone();
        tokio::spawn(async move {
            for round in 0.. {
                match write(&index, writer, round).await {
                    Err(error) if !error.is_retryable() => panic!("{error}"),
                    _ => {}
                }
            }
        });
    }
    // This one numbers, and is killed meanwhile.
    let is_over = AtomicBool::new(false);
    follow(&index, &is_over).await;
}

fn start(place: &TestStore, number: i64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "feed::processes::child", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{number}\n{}", place.setting))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

/// Reads until the end: every number once, every writer's changes in order. Returns the last of each.
async fn follow(index: &Index, is_over: &AtomicBool) -> BTreeMap<i64, u64> {
    let (mut cursor, mut seen) = (0, BTreeMap::<i64, u64>::new());
    loop {
        // Read before the feed: everything committed by then must be in it.
        let is_last = is_over.load(Ordering::SeqCst);
        let changes = match index.changes(cursor, 700).await {
            Ok(changes) => changes,
            Err(error) if error.is_retryable() => continue,
            Err(error) => panic!("{error}"),
        };
        for change in &changes {
            assert_eq!(change.seq, cursor + 1, "no gap");
            cursor = change.seq;
            let last = seen.entry(change.key.registry.0).or_default();
            assert_eq!(
                change.key.id,
                U256::from(*last + 1),
                "writer {}: nothing skipped, repeated or out of order",
                change.key.registry.0
            );
            *last += 1;
        }
        if changes.is_empty() {
            if is_last {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_writers_and_kills_leave_no_gap() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = open(&place.setting).await;
        index.database().execute(COUNTS, &[]).await.expect("a table");
        let is_over = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (index, is_over) = (index.clone(), Arc::clone(&is_over));
                tokio::spawn(async move { follow(&index, &is_over).await })
            })
            .collect();
        let mut children: Vec<_> = (0..PROCESSES).map(|number| start(&place, number)).collect();
        let begun = Instant::now();
        for kill in 0..KILLS {
            tokio::time::sleep(Duration::from_millis(150 + u64::from(kill * 37 % 190))).await;
            let which = kill as usize % children.len();
            assert!(children[which].try_wait().expect("a child").is_none(), "nobody gave up");
            children[which].kill().expect("killed");
            children[which].wait().expect("gone");
            children[which] = start(&place, which as i64);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        for child in &mut children {
            assert!(child.try_wait().expect("a child").is_none(), "nobody gave up");
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        // The server may still be executing a commit of a killed process.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let took = begun.elapsed();
        is_over.store(true, Ordering::SeqCst);
        let rows = index.database().fetch("SELECT writer, count FROM test_count", &[]).await.expect("counts");
        let counts: BTreeMap<i64, u64> =
            rows.iter().map(|row| (row.get("writer").expect("a writer"), row.get("count").expect("a count"))).collect();
        assert_eq!(counts.len() as i64, PROCESSES * WRITERS_EACH);
        for reader in readers {
            assert_eq!(reader.await.expect("a reader"), counts, "every commit is in the feed, and nothing else");
        }
        let all: u64 = counts.values().sum();
        let _ = writeln!(std::io::stderr(), "{backend:?}: {all} commits, {KILLS} kills in {took:?}");
    }
}
