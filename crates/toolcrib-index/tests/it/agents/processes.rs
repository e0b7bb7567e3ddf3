//! Four processes share one list. A child is this very program, started for one test that does nothing unless it is told what to do.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::agents::{AgentMemory, AgentOptions, AgentResolution, AgentWorker, ResolveAgent};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use super::scripted::{NOW, good, indexes, name};

const TASK: &str = "TOOLCRIB_INDEX_AGENT_WORKER";
const NAMES: i64 = 400;

/// Notes every resolution in the database.
struct Noting(Index);

impl ResolveAgent for Noting {
    async fn resolve(&self, domain: &AgtDomain, _: Option<&AgentMemory>) -> AgentResolution {
        let sql = "INSERT INTO test_resolution (domain, process) VALUES ($1, $2)";
        let process = i64::from(std::process::id());
        self.0.database().execute(sql, &[Value::Text(domain.as_str()), Value::Integer(process)]).await.expect("noted");
        tokio::time::sleep(Duration::from_millis(10)).await;
        good(domain, 1_000, |_| ())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(setting) = std::env::var(TASK) else { return };
    let database = Database::open(&Location::parse(&setting).expect("a location")).await.expect("a database");
    let index = Index::open(database).await.expect("an index");
    let options = AgentOptions { at_once: 8, poll: Duration::from_millis(20), ..AgentOptions::default() };
    let clock = Arc::new(FixedClock(UnixTime::from_seconds(NOW)));
    let worker = AgentWorker::new(index.clone(), Noting(index), clock, options).expect("a worker");
    worker.run(std::future::pending()).await;
}

/// A worker that ends with the test, however that ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(setting: &str) -> Started {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "agents::processes::child", "--nocapture", "--test-threads=1"])
        .env(TASK, setting)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Started(child.expect("a process"))
}

async fn count(index: &Index, sql: &'static str) -> i64 {
    index.database().fetch_optional(sql, &[]).await.expect("read").expect("a row").scalar::<i64>().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_the_list() {
    for (place, index) in indexes().await {
        index
            .database()
            .execute("CREATE TABLE test_resolution (domain TEXT NOT NULL, process BIGINT NOT NULL)", &[])
            .await
            .expect("a table");
        let names = (0..NAMES).map(|n| name(&format!("n{n}.agt"))).collect();
        index.set_agent_names(&names, UnixTime::from_seconds(NOW)).await.expect("a list");
        let mut children: Vec<_> = (0..4).map(|_| start(&place.setting)).collect();
        let begun = Instant::now();
        while count(&index, "SELECT COUNT(*) FROM index_agent_document").await < NAMES {
            assert!(begun.elapsed() < Duration::from_secs(120), "the list stands still");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for child in &mut children {
            assert!(child.0.try_wait().expect("a child").is_none(), "no process gave up");
        }
        drop(children);
        assert_eq!(count(&index, "SELECT COUNT(*) FROM test_resolution").await, NAMES, "each name was resolved once");
        assert_eq!(count(&index, "SELECT COUNT(*) FROM index_agent_change").await, NAMES);
        assert!(count(&index, "SELECT COUNT(DISTINCT process) FROM test_resolution").await > 1, "the work was shared");
    }
}
