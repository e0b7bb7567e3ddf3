//! Deployments as processes: followers, workers and directories that share a database, and the state after some of them are killed.

mod full_disk;
mod object_stores;
mod replicas;
pub(crate) mod stage;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{U256, hex};
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use toolcrib_core::clock::Clock as _;
use toolcrib_fetch::SystemClock;
use toolcrib_index::listing::Verdict;
use toolcrib_index::model::ToolKey;
use toolcrib_store::database::Row;

use self::stage::{Caller, Process, Stage, free_address, get};
use toolcrib_testkit::databases::{Backend, TestStore};

/// Tools that are registered before the first verification.
const EARLY: u64 = 60;
/// Tools at the end.
const ALL: u64 = 200;
/// The lease of a follower, plus extra time for a loaded machine.
const TAKE_OVER: Duration = Duration::from_secs(15 + 10);

fn stage(backend: Backend) -> Option<Stage> {
    let runtime: Runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let place = runtime.block_on(TestStore::new(backend))?;
    Some(Stage::start(runtime, place))
}

/// Logs which process takes and ends leases, writes listings, ingests events, and creates jobs for changes, each with its transaction.
const WITNESSES: [&str; 11] = [
    "CREATE TABLE test_lease (turn BIGSERIAL, tool BYTEA NOT NULL, was BYTEA, now BYTEA, who TEXT NOT NULL, transaction BIGINT NOT NULL,
        at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())",
    "CREATE TABLE test_listing (tool BYTEA NOT NULL, who TEXT NOT NULL, transaction BIGINT NOT NULL)",
    "CREATE TABLE test_event (turn BIGSERIAL, who TEXT NOT NULL)",
    "CREATE TABLE test_intake (transaction BIGINT NOT NULL)",
    "CREATE FUNCTION test_leased() RETURNS trigger AS $$ BEGIN
        IF TG_OP = 'DELETE' THEN
            INSERT INTO test_lease (tool, was, who, transaction) VALUES (OLD.tool, OLD.lease, current_setting('test.who'), txid_current());
            RETURN OLD;
        END IF;
        IF OLD.lease IS DISTINCT FROM NEW.lease THEN
            INSERT INTO test_lease (tool, was, now, who, transaction)
                VALUES (NEW.tool, OLD.lease, NEW.lease, current_setting('test.who'), txid_current());
        END IF;
        RETURN NEW;
    END $$ LANGUAGE plpgsql",
    "CREATE FUNCTION test_write() RETURNS trigger AS $$ BEGIN
        IF TG_TABLE_NAME = 'index_event' THEN
            INSERT INTO test_event (who) VALUES (current_setting('test.who'));
        ELSE
            INSERT INTO test_listing (tool, who, transaction) VALUES (NEW.tool, current_setting('test.who'), txid_current());
        END IF;
        RETURN NEW;
    END $$ LANGUAGE plpgsql",
    "CREATE FUNCTION test_intake() RETURNS trigger AS $$ BEGIN
        INSERT INTO test_intake (transaction) VALUES (txid_current());
        RETURN NEW;
    END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER test_taken AFTER UPDATE ON index_intake FOR EACH ROW EXECUTE FUNCTION test_intake()",
    "CREATE TRIGGER test_leased AFTER UPDATE OR DELETE ON index_job FOR EACH ROW EXECUTE FUNCTION test_leased()",
    "CREATE TRIGGER test_listed AFTER INSERT OR UPDATE ON index_listing FOR EACH ROW EXECUTE FUNCTION test_write()",
    "CREATE TRIGGER test_taken_in AFTER INSERT ON index_event FOR EACH ROW EXECUTE FUNCTION test_write()",
];

/// A stream of events: registrations, and changes and removals of existing tools.
fn keep_registering(stage: &Stage, until: u64, pause: Duration, is_done: &AtomicBool) {
    for id in EARLY + 1..=until {
        stage.register();
        if id % 8 == 0 {
            stage.update(id / 8 - 7);
        }
        if id % 25 == 0 {
            stage.deregister(45 + id / 25);
        }
        thread::sleep(pause);
    }
    is_done.store(true, Ordering::SeqCst);
}

/// No job is due or leased, and every event is ingested.
fn is_settled(stage: &Stage) -> bool {
    let events = i64::try_from(stage.chain_events().len()).expect("small");
    let now = SystemClock.now();
    let busy = stage.runtime.block_on(stage.index.queue_state(now)).expect("a state");
    events == stage.number("SELECT COUNT(*) FROM index_event") && (busy.due, busy.leased) == (0, 0) && {
        // A verification whose chain data was newer than the index is repeated after some seconds.
        stage.number(
            "SELECT COUNT(*) FROM index_tool t WHERE NOT EXISTS
            (SELECT 1 FROM index_listing l WHERE l.registry = t.registry AND l.tool = t.tool)",
        ) == 0
            && stage.number("SELECT COUNT(*) FROM index_job WHERE reason NOT IN ('expired', 'drift_suspect') AND attempts = 0")
                == 0
    }
}

/// The index agrees with the chain, and has a verdict for every tool.
fn check_index(stage: &Stage) {
    let index = stage.open_again();
    let events = stage.rows("SELECT block_number, log_index, tool FROM index_event ORDER BY block_number, log_index");
    let events: Vec<_> = events
        .iter()
        .map(|row| {
            let ToolKey { id, .. } = ToolKey::from_columns(1, row.get("tool").expect("bytes")).expect("an id");
            (row.get::<i64>("block_number").expect("a block"), row.get::<i64>("log_index").expect("a place"), id)
        })
        .collect();
    assert_eq!(events, stage.chain_events(), "every event once, in its place");

    let views = stage.runtime.block_on(index.scan(None, 1_000)).expect("tools");
    let told = stage.told.lock().expect("unpoisoned").clone();
    assert_eq!(views.len(), told.len(), "every tool, and no other");
    for (at, (view, told)) in views.iter().zip(&told).enumerate() {
        let (row, id) = (&view.row, at + 1);
        assert_eq!(row.key.id, U256::from(id));
        assert_eq!((&row.metadata_uri, row.manifest_hash, row.events), (&told.uri, told.hash, told.events), "{id}");
        assert_eq!((row.is_active(), view.is_listed()), (!told.is_removed, told.is_good), "{id}: {:?}", view.listing);
        let listing = view.listing.as_ref().unwrap_or_else(|| panic!("{id} was never looked at"));
        assert_eq!(listing.verdict == Verdict::Verified, told.is_good, "{id}: {listing:?}");
        assert_eq!(listing.manifest_hash, told.hash, "{id}: the last look was at the last registration");
    }
    assert_eq!(stage.number("SELECT COUNT(*) FROM index_job WHERE lease IS NOT NULL"), 0);
    let active = told.iter().filter(|told| !told.is_removed).count();
    assert_eq!(
        stage.number("SELECT COUNT(*) FROM index_job"),
        i64::try_from(active).expect("small"),
        "one job a tool that is left"
    );

    let last = stage.runtime.block_on(index.last_change()).expect("a number");
    let rows = stage.rows("SELECT first, seq FROM index_change ORDER BY seq");
    let number = |row: &Row, column| row.get::<i64>(column).expect("a number");
    let numbers: Vec<i64> = rows.iter().flat_map(|row| number(row, "first")..=number(row, "seq")).collect();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "changes without a gap");
}

/// Follows `next` through the pages of one directory, and returns every body.
fn pages(directory: SocketAddr, key: &str, path: &str) -> Vec<String> {
    let (mut bodies, mut next) = (Vec::new(), String::new());
    for _ in 0..20 {
        let (status, body) = get(directory, key, &format!("{path}{next}")).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        let page: Json = serde_json::from_str(&body).expect("JSON");
        bodies.push(body);
        match page["next"].as_str() {
            Some(cursor) if !cursor.is_empty() && page["has_more"] != false => next = format!("&cursor={cursor}"),
            _ => return bodies,
        }
    }
    panic!("{path} has no end");
}

/// The tools of all pages, without duplicates.
fn ids(pages: &[String], rows: &str) -> BTreeSet<u64> {
    let pages: Vec<Json> = pages.iter().map(|page| serde_json::from_str(page).expect("JSON")).collect();
    let all: Vec<u64> = pages
        .iter()
        .flat_map(|page| page[rows].as_array().expect("tools"))
        .map(|tool| tool["tool_id"].as_str().and_then(|id| id.parse().ok()).expect("an id"))
        .collect();
    let ids: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(ids.len(), all.len(), "nothing is on two pages");
    ids
}

/// A key for more requests than the tests make, which exceed the limit without a key.
fn issue_key(stage: &Stage, index: &str) -> String {
    let arguments = ["directory", "keys", "issue", "--name", "test", "--reads", "100000000", "--json"];
    let issued = stage.sandbox.run_with_env(&arguments, &[("TOOLCRIB_INDEX", index)]);
    let issued: Json = serde_json::from_str(&issued.code(0).stdout).expect("JSON");
    issued["data"]["key"].as_str().expect("a key").to_owned()
}

/// Waits until directories show the last change, and compares their responses byte by byte.
fn check_directories(stage: &Stage, directories: &[SocketAddr], key: &str) {
    let last = stage.runtime.block_on(stage.index.last_change()).expect("a number");
    for directory in directories {
        stage.wait("a directory shows everything", Duration::from_secs(20), || {
            let (_, body) = get(*directory, key, "/ready").expect("an answer");
            let ready: Json = serde_json::from_str(&body).expect("JSON");
            ready["status"] == "ok" && ready["shown"] == last
        });
    }
    let address = format!("{:#x}", stage.registry.address());
    let told = stage.told.lock().expect("unpoisoned").clone();
    let mut said = directories.iter().map(|directory| {
        let list = pages(*directory, key, "/api/v2/tools?limit=50");
        let whole = pages(*directory, key, "/api/v2/tools?limit=50&include_unverified=true");
        // Ranks depend on a directory's full-text index; the found tools do not.
        let found = pages(*directory, key, "/api/v2/tools/search?query=count%20words&limit=50");
        let good = told.iter().zip(1..).filter(|(told, _)| told.is_good).map(|(_, id): (_, u64)| id).collect::<BTreeSet<_>>();
        assert!(ids(&list, "tools") == good && ids(&found, "results") == good);
        assert_eq!(ids(&whole, "tools").len(), told.len());
        let mut said = [list, whole].concat();
        for id in 1..=told.len() {
            for part in ["", "/report", "/history"] {
                let path = format!("/api/v2/tools/31337/{address}/{id}{part}");
                let (status, body) = get(*directory, key, &path).expect("an answer");
                assert_eq!(status, 200, "{path}: {body}");
                said.push(body);
            }
        }
        for cursor in (0..last).step_by(500) {
            said.push(get(*directory, key, &format!("/api/v2/changes?limit=500&cursor={cursor}")).expect("an answer").1);
        }
        said
    });
    let first = said.next().expect("a directory");
    for (at, other) in said.enumerate() {
        for (one, two) in first.iter().zip(&other) {
            assert!(one == two, "directory {} does not say what the first says: {one:.2000}\n{two:.2000}", at + 2);
        }
        assert_eq!(first.len(), other.len());
    }
}

/// Checks the recorded events: each job was done once per lease, by its holder, and no process wrote after its end.
fn check_leases(stage: &Stage, dead: &[&str]) {
    struct Lease {
        holder: String,
        end: Option<(String, i64, bool)>,
    }
    let mut leases = BTreeMap::<(String, String), Lease>::new();
    for row in stage.rows("SELECT tool, was, now, who, transaction FROM test_lease ORDER BY turn") {
        let tool = hex::encode(row.get::<&[u8]>("tool").expect("an id"));
        let [was, now] = ["was", "now"].map(|column| row.get::<Option<&[u8]>>(column).expect("a token").map(hex::encode));
        let (who, transaction) = (row.get::<String>("who").expect("a name"), row.get::<i64>("transaction").expect("a number"));
        if let Some(was) = was {
            let lease = leases.get_mut(&(tool.clone(), was)).expect("somebody took it");
            assert!(lease.end.is_none(), "a lease ends once");
            lease.end = Some((who.clone(), transaction, now.is_some()));
        }
        if let Some(now) = now {
            assert!(leases.insert((tool, now), Lease { holder: who, end: None }).is_none(), "a job is leased once by one token");
        }
    }
    let intakes = stage.rows("SELECT transaction FROM test_intake");
    let intakes: BTreeSet<i64> = intakes.iter().map(|row| row.scalar::<i64>().expect("a number")).collect();
    let (mut ends, mut returned) = (BTreeSet::new(), 0);
    for ((tool, _), lease) in &leases {
        let (ender, transaction, is_taken_over) = lease.end.as_ref().expect("no lease is left over");
        if ender != &lease.holder {
            // A lease only ends early because of an event on the chain, ingested by any process, or the end of its holder.
            let is_of_the_dead = *is_taken_over && dead.contains(&lease.holder.as_str());
            let is_changed = !is_taken_over && intakes.contains(transaction);
            assert!(is_of_the_dead || is_changed, "{tool}: {} lost its lease to {ender}", lease.holder);
            returned += usize::from(is_of_the_dead);
        } else {
            ends.insert((tool.clone(), ender.clone(), *transaction));
        }
    }
    assert!(returned > 0, "a dead worker held something, and others did it");
    let mut written = BTreeMap::<_, usize>::new();
    for row in stage.rows("SELECT tool, who, transaction FROM test_listing") {
        let tool = hex::encode(row.get::<&[u8]>("tool").expect("an id"));
        let write = (tool, row.get::<String>("who").expect("a name"), row.get::<i64>("transaction").expect("a number"));
        assert!(ends.contains(&write), "{write:?}: what is written ends a lease of the writer's own");
        *written.entry(write).or_default() += 1;
    }
    assert!(written.values().all(|count| *count == 1), "each lease was done once");
    let workers: BTreeSet<_> = written.keys().map(|(_, who, _)| who.as_str()).collect();
    assert_eq!(workers.into_iter().collect::<Vec<_>>(), ["worker1", "worker2", "worker3", "worker4"], "all of them worked");
    let _ = writeln!(
        std::io::stderr(),
        "{} leases, {} listings written, {returned} returned by the dead",
        leases.len(),
        written.len()
    );
}

/// How many jobs a worker has leased.
fn held(stage: &Stage, worker: &str) -> usize {
    let held = stage.rows("SELECT l.who FROM index_job j JOIN test_lease l ON l.tool = j.tool AND l.now = j.lease");
    held.iter().filter(|row| row.scalar::<&str>().expect("a name") == worker).count()
}

#[test]
fn two_followers_four_workers_and_two_directories_share_one_postgres() {
    let Some(stage) = stage(Backend::Postgres) else { return };
    let begun = Instant::now();
    for witness in WITNESSES {
        stage.execute(witness);
    }
    for _ in 0..EARLY {
        stage.register();
    }
    let key = issue_key(&stage, &format!("{}%20-c%20test.who%3Doperator", stage.setting));

    let mut followers = ["follower1", "follower2"].map(|name| stage.process(name, &["index", "--workers", "0"]));
    let addresses = [free_address(), free_address()];
    let directory = |name, at: SocketAddr| {
        stage.process(name, &["directory", "--listen", &at.to_string(), "--search", &format!("words-{name}")])
    };
    let mut directories = [directory("directory1", addresses[0]), directory("directory2", addresses[1])];
    let caller = Caller::start(addresses.to_vec(), key.clone());
    let mut workers =
        ["worker1", "worker2", "worker3", "worker4"].map(|name| stage.process(name, &["index", "--no-follow", "--workers", "4"]));

    let is_done = AtomicBool::new(false);
    let mut dead = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| keep_registering(&stage, ALL, Duration::from_millis(100), &is_done));

        // A worker is killed while it has leased jobs. It is stopped first: on a fast machine it would finish them before a signal
        // arrives.
        stage.wait("a worker holds jobs", Duration::from_secs(120), || {
            if stage.number("SELECT COUNT(DISTINCT who) FROM test_listing") < 4 {
                return false;
            }
            let recent = stage.rows(
                "SELECT l.who FROM index_job j JOIN test_lease l ON l.tool = j.tool AND l.now = j.lease
                WHERE l.at > clock_timestamp() - interval '300 ms' GROUP BY l.who ORDER BY COUNT(*) DESC LIMIT 1",
            );
            let Some(who) = recent.first().map(|row| row.scalar::<&str>().expect("a name").to_owned()) else { return false };
            let worker = workers.iter_mut().find(|worker| worker.name == who).expect("one of ours");
            worker.freeze(true);
            // The database completes the statements that it got.
            thread::sleep(Duration::from_millis(100));
            if held(&stage, &who) < 2 {
                worker.freeze(false);
                return false;
            }
            worker.kill();
            dead.push(worker.name);
            // Ages its leases and its slots at origins by two minutes. All at once, since a change of a tool, such as its registration
            // becoming final, also ends a lease.
            age(&stage, worker.name);
            true
        });
        // The leading follower is killed.
        let leader = stage.rows("SELECT who FROM test_event ORDER BY turn DESC LIMIT 1");
        let leader = leader.first().expect("events were taken in").scalar::<&str>().expect("a name").to_owned();
        followers.iter_mut().find(|follower| follower.name == leader).expect("one of ours").kill();
        let killed_at = Instant::now();
        dead.push(if leader == "follower1" { "follower1" } else { "follower2" });
        // A directory is killed and restarted.
        directories[0].kill();
        thread::sleep(Duration::from_secs(1));
        directories[0] = directory("directory1", addresses[0]);

        let taken_over = stage.wait("the other follower leads", TAKE_OVER, || {
            let last = stage.rows("SELECT who FROM test_event ORDER BY turn DESC LIMIT 1");
            last.first().is_some_and(|row| row.scalar::<&str>().expect("a name") != leader)
        });
        let _ = writeln!(std::io::stderr(), "the standby leads after {:?} ({taken_over:?})", killed_at.elapsed());
        // The other directory is killed while the new leader is catching up.
        directories[1].kill();
        thread::sleep(Duration::from_millis(300));
        directories[1] = directory("directory2", addresses[1]);
    });
    assert!(is_done.load(Ordering::SeqCst));
    stage.wait("everything is done", Duration::from_secs(180), || is_settled(&stage));
    let (seen, absent) = caller.end();
    for process in followers.iter_mut().chain(&mut workers).chain(&mut directories) {
        assert_eq!(process.is_running(), !dead.contains(&process.name), "{}", process.name);
    }

    check_index(&stage);
    check_leases(&stage, &dead);
    check_directories(&stage, &addresses, &key);
    let last = stage.runtime.block_on(stage.index.last_change()).expect("a number");
    assert_eq!(seen, (1..=last).collect::<Vec<_>>(), "a reader who is sent hither and thither sees every change once");
    assert!(absent > 0, "the caller met a directory that was not there");
    let turns = stage.rows("SELECT who FROM test_event GROUP BY who ORDER BY MIN(turn)");
    assert_eq!(turns.len(), 2, "both followers led");
    let overlap = stage.number(
        "SELECT COUNT(*) FROM test_event a JOIN test_event b ON a.turn < b.turn
        WHERE a.who <> b.who AND b.who = (SELECT who FROM test_event ORDER BY turn LIMIT 1)",
    );
    assert_eq!(overlap, 0, "one after the other");
    let _ = writeln!(std::io::stderr(), "{last} changes, {absent} absences, {:?} in all", begun.elapsed());
    for process in followers.into_iter().chain(workers).chain(directories) {
        if !dead.contains(&process.name) {
            assert_eq!(process.terminate(), Some(0));
        }
    }
}

/// Ages the leases of a worker by two minutes.
fn age(stage: &Stage, worker: &str) {
    use toolcrib_store::database::Value;

    const LEASES: &str =
        "UPDATE index_job SET leased_until = leased_until - 120 WHERE lease IN (SELECT now FROM test_lease WHERE who = $1)";
    const TURNS: &str =
        "UPDATE index_origin SET next_at = next_at - 120 WHERE holder IN (SELECT now FROM test_lease WHERE who = $1)";
    for sql in [LEASES, TURNS] {
        stage.runtime.block_on(stage.index.database().execute(sql, &[Value::Text(worker)])).expect("aged");
    }
}

/// One machine with several processes on one file: the leader is killed, and a standby takes over.
#[test]
fn processes_share_one_sqlite_file_and_the_one_that_waits_takes_over() {
    let Some(stage) = stage(Backend::SqliteFile) else { return };
    for _ in 0..EARLY {
        stage.register();
    }
    let mut first: Process = stage.process("first", &["index", "--workers", "4"]);
    stage.wait("the first leads", Duration::from_secs(20), || stage.number("SELECT COUNT(*) FROM index_event") > 0);
    let mut second = stage.process("second", &["index", "--workers", "4"]);
    let address = free_address();
    let directory = stage.process("directory", &["directory", "--listen", &address.to_string()]);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| keep_registering(&stage, EARLY + 30, Duration::from_millis(50), &is_done));
        thread::sleep(Duration::from_millis(700));
        first.kill();
    });
    let known = stage.number("SELECT COUNT(*) FROM index_event");
    let killed_at = Instant::now();
    assert!(known < i64::try_from(stage.chain_events().len()).expect("small"), "there is something left to do");
    stage.wait("the second leads", TAKE_OVER, || stage.number("SELECT COUNT(*) FROM index_event") > known);
    let _ = writeln!(std::io::stderr(), "SQLite: the standby leads after {:?}", killed_at.elapsed());
    // Ages the leases of the killed process by two minutes.
    stage.execute("UPDATE index_job SET leased_until = leased_until - 120 WHERE leased_until IS NOT NULL");
    stage.execute("UPDATE index_origin SET next_at = next_at - 120 WHERE holder IS NOT NULL");
    stage.wait("everything is done", Duration::from_secs(180), || is_settled(&stage));
    assert!(second.is_running());
    check_index(&stage);
    check_directories(&stage, &[address], &issue_key(&stage, &stage.setting));
    assert_eq!((second.terminate(), directory.terminate()), (Some(0), Some(0)));
}
