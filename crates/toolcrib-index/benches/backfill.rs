//! How fast a registry's past is taken in, from a real node, into both stores.
//!
//! anvil is seeded with registrations and changes, ten to a block, four registrations to a change. Each measurement is a process of its
//! own, from its start to its end: it opens an empty database, makes the tables, follows to the head and ends. What it leaves is complete:
//! events, merged tool rows, change feed, block window and checkpoint; jobs follow from the feed, and are made and counted afterwards. Then
//! the same with kill -9 at random moments.
//!
//! `cargo bench -p toolcrib-index --bench backfill` measures with 20,000 events; arguments after `--` change that: `--events 200000`,
//! `--runs 5`, `--kills 20`, `--quick`, `--unchecked`, which also measures without the checks for logs that a node leaves out, `--ponder FOLDER`, with which Ponder takes turns (see bench/index), and `--node URL`, an anvil of
//! one's own that is seeded when it is empty and can be measured again.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_provider::Provider as _;
use alloy_sol_types::SolEvent as _;
use serde_json::{Value as Json, json};
use toolcrib_chain::abi::IToolRegistry::{AccessPredicateUpdated, ToolMetadataUpdated, ToolRegistered};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::clock::Clock;
use toolcrib_fetch::SystemClock;
use toolcrib_index::Index;
use toolcrib_index::follow::{FollowOptions, Follower};
use toolcrib_index::work::Queue;
use toolcrib_store::{Database, Location};

use toolcrib_testkit::Anvil;
use toolcrib_testkit::databases::{self, Backend, TestStore};

const CHAIN_ID: u64 = 31_337;
const CHILD: &str = "TOOLCRIB_BACKFILL_CHILD";

/// Events of a block.
const PER_BLOCK: u64 = 10;

/// A contract that emits what it is told: for each event how many topics, four words for them, the length of the data, and the data.
///
/// It stands in for the registry. What a follower reads is the same, and the node, which hashes all of a contract's storage for every
/// block, stays quick: the real one takes minutes for 20,000 tools and days for ten times as many. Tests follow the real one.
const EMITTER: &str = "60005b368110156073578060a00135808260c001600037813580600414604e5760031460375781604001358260200135826000a2606b565b816060013582604001358360200135836000a3606b565b508160800135826060013583604001358460200135846000a4606b565b0160c0016002565b00";
const REGISTRY: Address = Address::repeat_byte(0x82);

fn main() {
    let workers = if std::env::var_os(CHILD).is_some() { 2 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime");
    match std::env::var(CHILD) {
        Ok(task) => runtime.block_on(follow(&task)),
        Err(_) => runtime.block_on(measure()),
    }
}

async fn connect(url: &str) -> Chain {
    let network = Network::by_id(CHAIN_ID).cloned().unwrap_or_else(|| Network::unlisted(CHAIN_ID));
    let config = ChainConfig::new(&network, vec![NodeUrl::parse(url).expect("a URL")]).expect("a node");
    Chain::connect(config).await.expect("the node answers")
}

/// The process that is measured.
async fn follow(task: &str) {
    let parts: Vec<&str> = task.split('\n').collect();
    let [setting, url, registry, head, checks] = parts.as_slice() else { panic!("{task}") };
    let index = Index::open(Database::open(&Location::parse(setting).expect("a location")).await.expect("a database")).await;
    let index = index.expect("an index");
    let chain = connect(url).await;
    let mut options = FollowOptions::of(chain.network(), Arc::new(SystemClock));
    options.lease_seconds = 1;
    options.poll = Duration::from_millis(20);
    if *checks == "unchecked" {
        (options.numbering, options.headers_per_range, options.second_reads, options.audited_tools) = (false, 0, 0, 0);
    }
    let mut follower = Follower::new(index, chain, registry.parse().expect("an address"), options);
    follower.catch_up_to(head.parse().expect("a number")).await.expect("caught up");
    let progress = *follower.progress().borrow();
    println!(
        "{}",
        json!({ "cpu": cpu_seconds("self"), "peak": peak_bytes("self"), "events": progress.events, "ranges": progress.ranges })
    );
}

/// Seconds of processor time of a process.
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // utime and stime, in hundredths.
    (ticks(11) + ticks(12)) / 100.0
}

/// Processor seconds of the PostgreSQL server and of those of its processes that have ended.
fn server_cpu() -> f64 {
    let Some(server) = databases::Server::shared() else { return 0.0 };
    // Its number stands in the first line of a file; the process that listens on the port is the same one.
    let process = server.process().unwrap_or_default();
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields.iter().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that a process ever had.
fn peak_bytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or_default() * 1_024
}

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

async fn measure() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let number = |name: &str, usual: u64, quick: u64| {
        argument(name).map_or(if is_quick { quick } else { usual }, |text| text.parse().expect("a number"))
    };
    let (events, runs, kills) = (number("--events", 20_000, 2_000), number("--runs", 5, 1), number("--kills", 20, 2));
    let node = argument("--node").map(|url| (None, url));
    let Some((_node, url)) = node.or_else(|| anvil().map(|(node, url)| (Some(node), url))) else {
        return println!("skipped: no anvil");
    };
    let chain = connect(&url).await;
    let begun = Instant::now();
    if chain.block_number().await.expect("a head") == 0 {
        seed(&chain, events).await;
    }
    let registry = REGISTRY;
    let head = chain.block_number().await.expect("a head");
    println!("seeded {events} events in {head} blocks in {:.1} s; load {}", begun.elapsed().as_secs_f64(), load());
    floor(&chain, registry, head).await;
    println!(
        "{:<11}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10}{:>8}{:>8}",
        "store", "seconds", "cpu s", "PG cpu s", "events/s", "ranges", "peak MiB", "jobs s", "load"
    );
    let is_compared = std::env::args().any(|argument| argument == "--unchecked");
    let mut rates: [Vec<f64>; 5] = Default::default();
    for round in 0..runs {
        let measured = [Backend::SqliteFile, Backend::Postgres].into_iter().zip([0, 1]);
        let measured = measured.flat_map(|(backend, place)| [(backend, "checked", place), (backend, "unchecked", place + 3)]);
        for (backend, checks, rate) in measured.filter(|(_, checks, _)| is_compared || *checks == "checked") {
            let rates = &mut rates[rate];
            let Some(place) = TestStore::new(backend).await else { continue };
            let task = format!("{}\n{url}\n{registry}\n{head}\n{checks}", place.setting);
            // Somebody was there before, as in the database that Ponder uses: what a server does once for a new one is not measured.
            place.database().await.close().await;
            let before = server_cpu();
            let begun = Instant::now();
            let output = child(&task).stdout(Stdio::piped()).spawn().expect("a child").wait_with_output().expect("an end");
            let seconds = begun.elapsed().as_secs_f64();
            assert!(output.status.success(), "{output:?}");
            let said: Json = serde_json::from_slice(&output.stdout).expect("JSON");
            let jobs = take_in(&place).await;
            check(&place, events).await;
            rates.push(events as f64 / seconds);
            let number = |key: &str| said[key].as_f64().unwrap_or_default();
            show(
                &format!("{backend:?}"),
                seconds,
                number("cpu"),
                server_cpu() - before,
                events,
                &said["ranges"].to_string(),
                number("peak"),
                &format!("{jobs:.2}"),
            );
        }
        if let Some(folder) = argument("--ponder") {
            let before = server_cpu();
            let (seconds, cpu, peak) = ponder(&folder, round, &url, registry, head, events).await;
            rates[2].push(events as f64 / seconds);
            show("Ponder", seconds, cpu, server_cpu() - before, events, "", peak, "");
        }
    }
    let names = ["SQLite", "PostgreSQL", "Ponder", "SQLite without checks", "PostgreSQL without checks"];
    for (name, rates) in names.into_iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
            let median = f64::midpoint(rates[(rates.len() - 1) / 2], rates[rates.len() / 2]);
            println!("{name}: median {median:.0} events/s ({least:.0} to {most:.0})");
        }
    }
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let mut bad = 0;
        let mut killed = 0;
        for run in 0..kills {
            let Some(place) = TestStore::new(backend).await else { break };
            let task = format!("{}\n{url}\n{registry}\n{head}\nchecked", place.setting);
            // Two kills a run, each at a moment that the number of the run decides.
            for kill in 0..2_u64 {
                let dice = keccak256([run.to_be_bytes(), kill.to_be_bytes()].concat());
                let mut following = child(&task).stdout(Stdio::null()).spawn().expect("a child");
                std::thread::sleep(Duration::from_millis(30 + u64::from(dice[0]) * events / 40_000));
                killed += u64::from(following.try_wait().expect("a child").is_none());
                following.kill().expect("killed");
                following.wait().expect("gone");
            }
            let status = child(&task).stdout(Stdio::null()).status().expect("a child");
            assert!(status.success(), "{status}");
            bad += u64::from(!is_whole(&place, events).await);
        }
        println!("{backend:?}: {kills} runs, {killed} times killed while following, {bad} with duplicates or gaps");
    }
}

#[expect(clippy::too_many_arguments, reason = "a line of the table")]
fn show(name: &str, seconds: f64, cpu: f64, server: f64, events: u64, ranges: &str, peak: f64, jobs: &str) {
    let (rate, peak) = (events as f64 / seconds, peak / f64::from(1 << 20));
    println!("{name:<11}{seconds:>9.3}{cpu:>9.2}{server:>9.2}{rate:>11.0}{ranges:>9}{peak:>10.1}{jobs:>8}{:>8}", load());
}

/// Runs Ponder from nothing until every event is in its history. Seconds, processor seconds, and the most bytes of memory.
async fn ponder(folder: &str, round: u64, url: &str, registry: Address, head: u64, events: u64) -> (f64, f64, f64) {
    let server = databases::Server::shared().expect("PostgreSQL");
    let database = format!("postgres://toolcrib:{}@127.0.0.1:{}/postgres", databases::PASSWORD, server.port);
    let schema = format!("ponder_{}_{round}", std::process::id());
    let ours = Database::open(&Location::postgres(&database).expect("a URL").connections(1)).await.expect("the server");
    // Its cache of what nodes said is shared by all schemas: a run that begins with nothing has none.
    let _ = ours.execute("DROP SCHEMA IF EXISTS ponder_sync CASCADE", &[]).await;
    let begun = Instant::now();
    let mut child = Command::new(format!("{folder}/node_modules/node/bin/node"))
        .args([&format!("{folder}/node_modules/ponder/dist/esm/bin/ponder.js"), "start", "--schema", &schema, "--port", "0"])
        .current_dir(folder)
        .env("DATABASE_URL", &database)
        .env("PONDER_RPC_URL_31337", url)
        .env("PONDER_TELEMETRY_DISABLED", "true")
        .env("REGISTRY", registry.to_string())
        .env("END_BLOCK", head.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("Ponder starts");
    let process = child.id().to_string();
    let seconds = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(child.try_wait().expect("a child").is_none(), "Ponder ended");
        let counted = ours.fetch_made(format!("SELECT COUNT(*) FROM {schema}.history"), &[]).await;
        // Before its first table there is nothing to count.
        let counted = counted.ok().and_then(|rows| rows.first().and_then(|row| row.scalar::<i64>().ok())).unwrap_or_default();
        if counted as u64 >= events {
            break begun.elapsed().as_secs_f64();
        }
        assert!(begun.elapsed() < Duration::from_secs(3_600), "Ponder does not end");
    };
    let (cpu, peak) = (cpu_seconds(&process), peak_bytes(&process));
    child.kill().expect("killed");
    child.wait().expect("gone");
    ours.close().await;
    (seconds, cpu, peak as f64)
}

fn child(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(CHILD, task).stdin(Stdio::null());
    command
}

async fn check(place: &TestStore, events: u64) {
    assert!(is_whole(place, events).await, "what was taken in is not what happened");
}

/// Makes the jobs, as workers do before they lease them, and says how many seconds it takes.
async fn take_in(place: &TestStore) -> f64 {
    let queue = Queue::new(Index::open(place.database().await).await.expect("an index"));
    let begun = Instant::now();
    while queue.intake(SystemClock.now()).await.expect("taken in") > 0 {}
    let seconds = begun.elapsed().as_secs_f64();
    queue.index().database().close().await;
    seconds
}

/// Whether every event was taken in once, and every tool is the fold over its events.
async fn is_whole(place: &TestStore, events: u64) -> bool {
    let database = place.database().await;
    let count = |sql: &'static str| {
        let database = database.clone();
        async move {
            let row = database.fetch_optional(sql, &[]).await.expect("a count").expect("a row");
            row.scalar::<i64>().expect("a number") as u64
        }
    };
    let tools = registrations(events);
    take_in(place).await;
    let counts = [
        count("SELECT COUNT(*) FROM index_event").await == events,
        count("SELECT COUNT(*) FROM (SELECT DISTINCT tx, log_index FROM index_event) t").await == events,
        count("SELECT COUNT(*) FROM index_tool").await == tools,
        count("SELECT COALESCE(CAST(SUM(events) AS BIGINT), 0) FROM index_tool").await == events,
        count("SELECT COUNT(*) FROM index_job").await == tools,
    ];
    let index = Index::open(database.clone()).await.expect("an index");
    let (mut told, mut cursor) = (std::collections::HashSet::new(), 0);
    while cursor < index.last_change().await.expect("a number") {
        for change in index.changes(cursor, 1_000).await.expect("changes") {
            assert_eq!(change.seq, cursor + 1, "a gap");
            cursor = change.seq;
            told.insert(change.key);
        }
    }
    database.close().await;
    counts.iter().all(|is_right| *is_right) && told.len() as u64 == tools
}

/// What the node alone needs to give all logs, as text.
async fn floor(chain: &Chain, registry: Address, head: u64) {
    let begun = Instant::now();
    let mut bytes = 0;
    let step = 1_000;
    for from in (0..=head).step_by(step) {
        let filter = json!([{ "address": registry, "fromBlock": format!("{from:#x}"), "toBlock": format!("{:#x}", from + step as u64 - 1) }]);
        let raw: Box<serde_json::value::RawValue> = chain.provider().client().request("eth_getLogs", filter).await.expect("logs");
        bytes += raw.get().len();
    }
    println!("floor: the node gives all logs, {:.1} MB, in {:.3} s", bytes as f64 / 1e6, begun.elapsed().as_secs_f64());
}

const fn registrations(events: u64) -> u64 {
    events - events / 5
}

/// Registers, and changes every fifth time something that is there.
async fn seed(chain: &Chain, events: u64) {
    request(chain, "anvil_setCode", json!([REGISTRY, format!("0x{EMITTER}")])).await;
    let creator = DEV_ACCOUNTS[0];
    let mut tools = 0_u64;
    let mut done = 0;
    while done < events {
        let mut data = Vec::new();
        for n in done..events.min(done + PER_BLOCK) {
            let word = keccak256(n.to_be_bytes());
            let log = if n % 5 == 4 {
                let id = U256::from(u64::from_be_bytes(word[..8].try_into().expect("eight")) % tools + 1);
                match n % 20 {
                    9 => AccessPredicateUpdated { toolId: id, newPredicate: Address::repeat_byte(0x50 + word[31] % 16) }
                        .encode_log_data(),
                    _ => ToolMetadataUpdated { toolId: id, newURI: uri(n, "changed"), newHash: word }.encode_log_data(),
                }
            } else {
                tools += 1;
                let (id, uri) = (U256::from(tools), uri(tools, "tool"));
                let registered =
                    ToolRegistered { toolId: id, creator, accessPredicate: Address::ZERO, metadataURI: uri, manifestHash: word };
                registered.encode_log_data()
            };
            data.extend(U256::from(log.topics().len()).to_be_bytes::<32>());
            (0..4).for_each(|place| data.extend(log.topics().get(place).copied().unwrap_or_default()));
            data.extend(U256::from(log.data.len()).to_be_bytes::<32>());
            data.extend(&log.data);
        }
        let call = json!([{ "from": creator, "to": REGISTRY, "data": Bytes::from(data), "gas": "0x1c9c380" }]);
        request(chain, "eth_sendTransaction", call).await;
        request(chain, "evm_mine", json!([])).await;
        done += PER_BLOCK;
    }
}

fn uri(n: u64, what: &str) -> String {
    format!("https://tools-{n:06}.example.com/.well-known/ai-tool/{what}-{n:06}.json")
}

async fn request(chain: &Chain, method: &'static str, params: Json) -> Json {
    chain.provider().client().request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// A node that ends with this process.
fn anvil() -> Option<(Anvil, String)> {
    // Without pruning it writes every state to the disk.
    let chain_id = CHAIN_ID.to_string();
    let node = Anvil::start(&["--chain-id", &chain_id, "--prune-history", "16", "--gas-limit", "100000000", "--no-mining"])?;
    let url = node.url.clone();
    Some((node, url))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
