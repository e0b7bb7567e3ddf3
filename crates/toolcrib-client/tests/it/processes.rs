//! Several processes on one ledger, and one that is killed after it has signed.
//!
//! A child is this very program, started for one test that does nothing unless it is told what to do. Chain and server run in the
//! parent; the child makes real calls.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{U256, hex};
use toolcrib_chain::registry::Registry;
use toolcrib_client::ledger::State;
use toolcrib_client::{Client, Ledger, Usdc};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, FixedClock};
use toolcrib_fetch::{CertificateDer, Untrusted};
use toolcrib_store::{Database, Location};
use toolcrib_verify::Verifier;

use toolcrib_testkit::servers::{NOW, Recorder};
use toolcrib_testkit::tools::{
    Counting, PRICE, RECIPIENT, Reply, Speaks, Tool, World, challenge, check, connect, input, offer, payment_of, priced, result,
    roomy, served, settle, usual,
};

const TASK: &str = "TOOLCRIB_CLIENT_CHILD";

struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(world: &World, tool: &Tool, calls: usize, micro: u64) -> Self {
        let host = tool.endpoint.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap();
        let task = [
            tool.reference.to_string(),
            world.devchain.http_url(),
            tool.server.address.to_string(),
            host.to_owned(),
            hex::encode(world.net.authority.der()),
            world.folder.path().join("spend.db").display().to_string(),
            calls.to_string(),
            micro.to_string(),
        ]
        .join("\n");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, lines };
        assert_eq!(process.line().as_deref(), Some("ready"));
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
    let Ok(task) = std::env::var(TASK) else { return };
    let parts: Vec<_> = task.split('\n').collect();
    let [tool, node, server, host, authority, database, calls, micro] = parts.as_slice() else { panic!("{task}") };
    let tool = ToolRef::parse(tool).unwrap();
    let recorder = Recorder::default();
    recorder.host(host, &["5.5.5.5"]);
    recorder.route("5.5.5.5", server.parse().unwrap());
    let door = Untrusted::builder(FixedClock(NOW))
        .resolver(recorder.clone())
        .connector(recorder)
        .authorities(vec![CertificateDer::from(hex::decode(authority).unwrap())])
        .build()
        .unwrap();
    let clock: Arc<dyn Clock + Send + Sync> = Arc::new(FixedClock(NOW));
    let database = Database::open(&Location::parse(&format!("sqlite:{database}")).unwrap()).await.unwrap();
    let ledger = Ledger::open(database).await.unwrap();
    let mut policy = roomy();
    policy.per_day = Usdc::micro(micro.parse().unwrap());
    let client = Client::builder(Verifier::new(door.clone(), clock.clone(), "child"), door, ledger, clock)
        .wallet(Counting::new())
        .chain(Registry::new(connect(node).await, tool.registry).chain().clone())
        .policy(policy)
        .build();
    say("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..calls.parse().unwrap() {
        let client = client.clone();
        running.spawn(async move {
            match client.call(tool, &input(), &usual()).await {
                Ok(called) => format!("paid {}", called.paid.unwrap().id),
                Err(error) => error.code().id().to_owned(),
            }
        });
    }
    while let Some(said) = running.join_next().await {
        say(&said.unwrap());
    }
    say("done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_calls_of_two_processes_keep_the_budget() {
    const AFFORDABLE: usize = 7;
    let world = World::start().await;
    let payments = Arc::new(AtomicUsize::new(0));
    let (devchain, seen) = (world.devchain.clone(), payments.clone());
    let reply: Reply = Arc::new(move |request| {
        let Some(payment) = payment_of(request) else { return challenge(Speaks::V2, vec![offer()]) };
        check(&payment, &offer());
        seen.fetch_add(1, Ordering::SeqCst);
        served(&payment, settle(&devchain, &payment).expect("it settles"), &result())
    });
    let tool = world.tool(priced, reply).await;
    // Some change more than seven calls, and less than eight.
    let budget = AFFORDABLE as u64 * PRICE + PRICE / 2;
    let mut processes: Vec<_> = (0..2).map(|_| Process::start(&world, &tool, 25, budget)).collect();
    processes.iter_mut().for_each(Process::go);
    let (mut paid, mut refused) = (0, 0);
    for process in &mut processes {
        while let Some(line) = process.line().filter(|line| line != "done") {
            match line.split(' ').next() {
                Some("paid") => paid += 1,
                Some("spend.per_day") => refused += 1,
                _ => panic!("{line}"),
            }
        }
        assert!(process.child.wait().unwrap().success());
    }
    assert_eq!((paid, refused), (AFFORDABLE, 50 - AFFORDABLE));
    assert_eq!(payments.load(Ordering::SeqCst), AFFORDABLE, "signatures that left");
    assert_eq!(world.balance(RECIPIENT), U256::from(AFFORDABLE as u64 * PRICE), "money that moved");
    assert_eq!(world.ledger.test_totals(NOW).await.unwrap().day, Usdc::micro(AFFORDABLE as u64 * PRICE));
    let entries = world.ledger.newest(100).await.unwrap();
    assert!(entries.len() == AFFORDABLE && entries.iter().all(|entry| entry.state == State::Settled), "{entries:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_after_signing_has_spent() {
    let world = World::start().await;
    let (told, heard) = std::sync::mpsc::channel();
    let reply: Reply = Arc::new(move |request| {
        let Some(_) = payment_of(request) else { return challenge(Speaks::V2, vec![offer()]) };
        // The payment is here; its owner hears no more of it.
        let _ = told.send(());
        tokio::task::block_in_place(|| std::thread::sleep(std::time::Duration::from_secs(2)));
        Vec::new()
    });
    let tool = world.tool(priced, reply).await;
    let mut process = Process::start(&world, &tool, 1, PRICE);
    process.go();
    heard.recv_timeout(std::time::Duration::from_secs(60)).expect("the child pays");
    process.kill();
    let entry = world.newest().await.expect("it is in the ledger");
    assert_eq!((entry.state, entry.spend.amount), (State::Signed, Usdc::micro(PRICE)));
    assert_eq!(world.ledger.test_totals(NOW).await.unwrap().day, Usdc::micro(PRICE), "it counts");

    // The budget was for one call, so there is no other.
    let mut policy = roomy();
    policy.per_day = Usdc::micro(PRICE);
    let wallet = Counting::new();
    let client = world.builder().wallet(wallet.clone()).policy(policy).build();
    let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
    assert_eq!((error.code().id(), wallet.signatures()), ("spend.per_day", 0));
    // A later process has everything to find the outcome, and to redeem the result.
    let hash =
        settle(&world.devchain, &payment_of(tool.calls().last().unwrap()).or(payment_of(&tool.calls()[1])).unwrap()).unwrap();
    assert_eq!(client.resolve(entry.id).await.unwrap(), toolcrib_client::Resolution::Settled(Some(hash)));
}
