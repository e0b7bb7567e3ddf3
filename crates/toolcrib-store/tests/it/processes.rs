//! Several processes on one store, and processes that are killed.
//!
//! A child is this very program, started for one test that does nothing unless it is told what to do.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use toolcrib_store::replay::{Again, Limits, Proof, Redeem, ReplayStore, Reservation, Reserve, Settlement, SqlReplay, State};
use toolcrib_store::{Database, Location};

use crate::scenarios::{receipt, result};
use toolcrib_testkit::databases::{DURABLE, NOW, TestStore, at, key, reservation};

const TASK: &str = "TOOLCRIB_STORE_CHILD";
const SETTING: &str = "TOOLCRIB_STORE_SETTING";
/// The store that children fill up.
const SMALL: Limits = Limits { entries: 100, result_bytes: 1 << 20, one_result_bytes: 1 << 20, result_seconds: 3_600 };

struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(place: &TestStore, task: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
            .env(TASK, task)
            .env(SETTING, &place.setting)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, lines };
        process.wait_for("ready");
        process
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// The next line that the child says to us; `None` when it says no more.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The test program has things to say too.
            if let Some((_, said)) = line.trim_end().split_once("> ") {
                return Some(said.to_owned());
            }
        }
    }

    fn wait_for(&mut self, expected: &str) {
        assert_eq!(self.line().as_deref(), Some(expected));
    }

    /// SIGKILL: nothing is tidied up.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn say(what: &str) {
    println!("> {what}");
    std::io::stdout().flush().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(task), Ok(setting)) = (std::env::var(TASK), std::env::var(SETTING)) else { return };
    let limits = if task == "fill" { SMALL } else { Limits::default() };
    let database = Database::open(&Location::parse(&setting).unwrap()).await.unwrap();
    let store = SqlReplay::open(database, limits).await.unwrap();
    say("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    match task.as_str() {
        // Everybody wants the same payments, in the same order.
        "race" => {
            for nonce in 0..200 {
                if let Reserve::Reserved(_) = store.reserve(&key(nonce), &reservation(NOW), NOW).await.unwrap() {
                    say(&nonce.to_string());
                }
            }
        }
        // Everybody wants payments of its own.
        "fill" => {
            let own = u64::from(std::process::id()) << 20;
            for nonce in 0..100 {
                if let Reserve::Reserved(_) = store.reserve(&key(own + nonce), &reservation(NOW), NOW).await.unwrap() {
                    say("one");
                }
            }
        }
        // One call after the other, and a word after each step that was acknowledged.
        "calls" => {
            for nonce in 0.. {
                let proof = Some(Proof::of(b"salt"));
                let answer = store.reserve(&key(nonce), &Reservation { proof, ..reservation(NOW) }, NOW).await.unwrap();
                let Reserve::Reserved(ticket) = answer else { panic!("{answer:?}") };
                say(&format!("{nonce} reserved"));
                let body = result(format!("result {nonce}").as_bytes());
                let settlement = Settlement { lease_until: at(30), note: b"the payment", result: Some(&body), from_block: None };
                store.begin_settlement(&key(nonce), ticket, &settlement).await.unwrap();
                say(&format!("{nonce} settling"));
                if nonce % 3 == 2 {
                    store.release(&key(nonce), ticket).await.unwrap();
                    say(&format!("{nonce} gone"));
                } else {
                    store.settle(&key(nonce), &receipt(7), NOW).await.unwrap();
                    say(&format!("{nonce} settled"));
                }
            }
        }
        other => panic!("no such task: {other}"),
    }
    say("done");
}

// T1 and T2: the same payments, several processes at once, one store.
#[tokio::test]
async fn of_several_processes_one_wins() {
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let mut processes: Vec<_> = (0..3).map(|_| Process::start(&place, "race")).collect();
        processes.iter_mut().for_each(Process::go);
        let mut wins: HashMap<String, u32> = HashMap::new();
        for process in &mut processes {
            while let Some(line) = process.line().filter(|line| line != "done") {
                *wins.entry(line).or_default() += 1;
            }
            assert!(process.child.wait().unwrap().success());
        }
        assert_eq!(wins.len(), 200, "{backend:?}");
        assert!(wins.values().all(|wins| *wins == 1), "{backend:?}: {wins:?}");
    }
}

#[tokio::test]
async fn several_processes_together_keep_to_the_limit() {
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let mut processes: Vec<_> = (0..3).map(|_| Process::start(&place, "fill")).collect();
        processes.iter_mut().for_each(Process::go);
        let mut taken = 0;
        for process in &mut processes {
            while process.line().is_some_and(|line| line != "done") {
                taken += 1;
            }
            assert!(process.child.wait().unwrap().success());
        }
        assert_eq!(taken, SMALL.entries, "{backend:?}");
        assert_eq!(place.store(SMALL).await.counts().await.unwrap().entries(), SMALL.entries);
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    for backend in DURABLE {
        // Killed after each of the words that a call says, and a little later, when it is in the middle of something.
        for after in [1, 2, 3, 8, 13, 30] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let mut process = Process::start(&place, "calls");
            process.go();
            let mut acknowledged: HashMap<u64, String> = HashMap::new();
            for _ in 0..after {
                let line = process.line().unwrap();
                let (nonce, state) = line.split_once(' ').unwrap();
                acknowledged.insert(nonce.parse().unwrap(), state.to_owned());
            }
            process.kill();
            let store = place.store(Limits::default()).await;
            let newest = acknowledged.keys().max().copied().unwrap();
            for (&nonce, state) in &acknowledged {
                let found = store.entry(&key(nonce)).await.unwrap();
                let found = found.map_or("gone".to_owned(), |entry| entry.state.to_string());
                // What the child did after its last word may be there too: the last call may be one step further on.
                let order = ["reserved", "settling", if nonce % 3 == 2 { "gone" } else { "settled" }];
                let step = |state: &str| order.iter().position(|known| *known == state);
                let (said, is) = (step(state), step(&found));
                assert!(is >= said && (nonce == newest || is == said), "{backend:?}: {nonce} was {state} and is {found}");
            }
            recovered(&*store, backend).await;
        }
    }

    /// Another process takes over, and everything adds up.
    async fn recovered(store: &dyn ReplayStore, backend: toolcrib_testkit::databases::Backend) {
        for (entry, _) in store.claim_unknowns(at(30), at(60), 100).await.unwrap() {
            assert_eq!((entry.note.as_slice(), entry.state), (b"the payment".as_slice(), State::Unknown));
            store.settle(&entry.key, &receipt(8), at(31)).await.unwrap();
            let first = reservation(NOW);
            let proof = Some(Proof::of(b"salt"));
            let again = Again { route: first.route, body_hash: first.body_hash, proof, lease_until: at(90) };
            let nonce = u64::from_be_bytes(entry.key.nonce[24..].try_into().unwrap());
            let kept = result(format!("result {nonce}").as_bytes());
            assert_eq!(store.redeem(&entry.key, &again, at(32)).await.unwrap(), Redeem::Result(kept, receipt(8)), "{backend:?}");
        }
        let counts = store.counts().await.unwrap();
        assert_eq!((counts.settling, counts.unknown), (0, 0));
        // Everything goes in the end, and the rooms agree that it has.
        while store.expire(at(100_000)).await.unwrap() > 0 {}
        assert_eq!(store.counts().await.unwrap(), Default::default());
    }
}

/// The counters of the rooms are what the rows say, after everything that happened.
#[tokio::test]
async fn rooms_agree_with_rows_after_a_kill() {
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let mut processes: Vec<_> = (0..1).map(|_| Process::start(&place, "calls")).collect();
        processes.iter_mut().for_each(Process::go);
        for _ in 0..100 {
            processes[0].line().unwrap();
        }
        processes.into_iter().for_each(Process::kill);
        let database = place.database().await;
        let one = async |sql: &'static str| database.fetch(sql, &[]).await.unwrap()[0].scalar::<i64>().unwrap();
        assert_eq!(one("SELECT CAST(SUM(entries) AS BIGINT) FROM replay_room").await, one("SELECT COUNT(*) FROM replay").await);
        assert_eq!(
            one("SELECT CAST(SUM(bytes) AS BIGINT) FROM replay_room").await,
            one("SELECT CAST(SUM(result_bytes) AS BIGINT) FROM replay").await
        );
        assert_eq!(
            one("SELECT COUNT(*) FROM replay_result").await + one("SELECT COUNT(*) FROM replay WHERE body IS NOT NULL").await,
            one("SELECT COUNT(*) FROM replay WHERE result_bytes > 0").await
        );
    }
}
