//! How many verdicts a second workers write, on both stores.
//!
//! Three measurements. `counter`: sixteen clients that change a row of their own and take the feed's number from one row, as a feed does
//! whose order is that of a counter. `record`: the same clients with [`feed::record`]. `verdicts`: a worker that leases jobs, makes up what
//! it fetched, judges it and writes listing, report, evidence, history, job and change, with a reader of the feed beside it; servers and
//! chains are left out, everything else is there. It is measured after a tenth of the tools and an `ANALYZE`, as autovacuum does within a
//! minute: a server that believes tables to be empty reads all of them. Then all tools are verified `again`, which finds nothing new: that is
//! what workers do all day. On PostgreSQL the sizes of rows and of the log follow, and how far a streaming replica is behind.
//!
//! `cargo bench -p toolcrib-index --bench verdicts`; arguments after `--`: `--tools 20000`, `--at-once 32`, `--seconds 5`, `--sqlite`,
//! `--quick`.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use serde_json::json;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_fetch::SystemClock;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey, ToolRow};
use toolcrib_index::work::{Look, Queue, ToolVerifier, WorkOptions, Worker};
use toolcrib_index::{Error, Index, text_key};
use toolcrib_judge::Policy;
use toolcrib_judge::evidence::{Body, ChainReads, ConfigRead, Evidence, Exchange, Method, Response, ToolConfig, ToolState};
use toolcrib_store::database::{Bulk, Column, Value};
use toolcrib_store::{Database, Location};

mod sizes;

use toolcrib_testkit::databases::{self, Backend, TestStore};

const CHAIN_ID: u64 = 31_337;
const REGISTRY: Address = Address::repeat_byte(0x26);
const CREATOR: Address = Address::repeat_byte(0xc1);
const CLIENTS: i64 = 16;
/// Connections of the process: one for each client and some for the reader and for leases.
const CONNECTIONS: u32 = 24;

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let number = |name: &str, usual: u64, quick: u64| {
        argument(name).map_or(if is_quick { quick } else { usual }, |text| text.parse().expect("a number"))
    };
    let (tools, at_once) = (number("--tools", 20_000, 1_000), number("--at-once", 32, 32));
    let time = Duration::from_secs(number("--seconds", 5, 1));
    let backends: &[Backend] =
        if std::env::args().any(|argument| argument == "--sqlite") { &[Backend::SqliteFile] } else { &[Backend::Postgres] };
    for backend in backends {
        let Some(place) = TestStore::new(*backend).await else { return println!("skipped: no PostgreSQL") };
        println!("{backend:?}; load {}", load());
        let index = open(&place).await;
        clients(&index, time).await;
        let other = TestStore::new(*backend).await.expect("a place");
        let index = open(&other).await;
        verdicts(&index, tools, at_once as usize).await;
        if *backend == Backend::Postgres {
            sizes::replica().await;
        }
    }
}

async fn open(place: &TestStore) -> Index {
    let location = match place.setting.strip_prefix("postgres") {
        Some(_) => Location::postgres(&place.setting).expect("a URL").connections(CONNECTIONS),
        None => Location::parse(&place.setting).expect("a location"),
    };
    let index = Index::open(Database::open(&location).await.expect("a database")).await.expect("an index");
    index.prepare_reading().await.expect("indexes");
    index
}

const ROWS: &str = "CREATE TABLE bench_row (client BIGINT NOT NULL PRIMARY KEY, value BIGINT NOT NULL)";
const ROW: &str =
    "INSERT INTO bench_row (client, value) VALUES ($1, 1) ON CONFLICT (client) DO UPDATE SET value = bench_row.value + 1";
const COUNTER: &str = "UPDATE index_feed SET last = last + 1 WHERE id = 1 RETURNING last";
const CHANGE: &str = "INSERT INTO index_change (seq, first, at, changes) VALUES ($1, $1, 1800000000, $2)";

/// What the order of the feed costs: clients that change a row each, and say so.
async fn clients(index: &Index, time: Duration) {
    index.database().execute(ROWS, &[]).await.expect("a table");
    for is_counter in [true, false] {
        let (committed, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let running = (0..CLIENTS).map(|client| {
            let (index, committed) = (index.clone(), Arc::clone(&committed));
            tokio::spawn(async move {
                while begun.elapsed() < time {
                    let mut transaction = index.database().begin().await.expect("a transaction");
                    transaction.execute(ROW, &[Value::Integer(client)]).await.expect("a row");
                    if is_counter {
                        let row = transaction.fetch_optional(COUNTER, &[]).await.expect("numbered").expect("a row");
                        let values = [Value::Integer(row.scalar::<i64>().expect("a number")), Value::Bytes(&[1, 1, 7, 64])];
                        transaction.execute(CHANGE, &values).await.expect("recorded");
                    } else {
                        let key = ToolKey { registry: RegistryId(1), id: U256::from(client) };
                        feed::record(&mut transaction, &[(key, Kinds::VERIFICATION)], SystemClock.now()).await.expect("recorded");
                    }
                    transaction.commit().await.expect("committed");
                    committed.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        futures_util::future::join_all(running).await;
        let (count, seconds) = (committed.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        index.last_change().await.expect("numbered");
        let name = if is_counter { "counter" } else { "record" };
        let numbered = begun.elapsed().as_millis();
        println!("{name}: {:.0} transactions/s, {CLIENTS} clients; then numbered in {numbered} ms", count as f64 / seconds);
    }
}

/// Looks that fetch nothing.
struct MadeUp;

impl ToolVerifier for MadeUp {
    async fn look(&self, tool: ToolRef, row: &ToolRow) -> Result<Look, Error> {
        let at = SystemClock.now();
        let mut evidence = Evidence::new("bench", at);
        evidence.tool = Some(tool);
        let config = ToolConfig {
            creator: row.creator,
            metadata_uri: row.metadata_uri.clone(),
            manifest_hash: row.manifest_hash,
            access_predicate: row.predicate,
        };
        let config = vec![ConfigRead { block: 7, state: ToolState::Present(config) }];
        evidence.chain = Some(ChainReads { registry_code_hash: None, config, predicate: None, registration: None });
        let mut exchange = Exchange::new(Method::Get, row.metadata_uri.clone(), at);
        exchange.addresses = vec!["5.5.5.5".parse().expect("an address")];
        exchange.connected = Some("5.5.5.5:443".parse().expect("an address"));
        exchange.response = Some(Response {
            status: 200,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: Body(manifest(host_of(&row.metadata_uri))),
        });
        evidence.manifest = Some(exchange);
        Ok(Look::judged(evidence, &Policy::default()))
    }

    fn can_ask(&self, _: u64) -> bool {
        true
    }
}

fn host_of(uri: &str) -> &str {
    uri.trim_start_matches("https://").split('/').next().unwrap_or_default()
}

fn manifest(host: &str) -> Vec<u8> {
    let manifest = json!({
        "type": TYPE_V1,
        "name": "word-count",
        "description": "Counts the words of a text.",
        "endpoint": format!("https://{host}/count"),
        "inputs": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}},
        "creatorAddress": format!("{CREATOR:#x}"),
    });
    manifest.to_string().into_bytes()
}

fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().map_or_else(|| keccak256(bytes), |canonical| canonical.hash())
}

const TOOL: Bulk = Bulk {
    table: "index_tool",
    columns: &[
        "registry",
        "tool",
        "creator",
        "uri",
        "uri_key",
        "hash",
        "registered_block",
        "registered_at",
        "updated_block",
        "updated_at",
        "events",
    ],
    conflict: "",
};

const EVENT: Bulk = Bulk {
    table: "index_event",
    columns: &["registry", "block_number", "log_index", "block_hash", "tx", "time", "tool", "kind", "creator", "uri", "hash"],
    conflict: "",
};

/// Tools with a host and an event each, due at once.
async fn fill(index: &Index, tools: u64) {
    let registry = index.add_registry(CHAIN_ID, REGISTRY, 0).await.expect("a registry").id;
    let keys: Vec<ToolKey> = (1..=tools).map(|id| ToolKey { registry, id: U256::from(id) }).collect();
    let now = SystemClock.now().seconds() - 3_600;
    let uris: Vec<String> = (1..=tools).map(|id| format!("https://t{id}.example/.well-known/ai-tool/word-count.json")).collect();
    let hashes: Vec<B256> = uris.iter().map(|uri| hash_of(&manifest(host_of(uri)))).collect();
    let ids: Vec<_> = keys.iter().map(ToolKey::id_bytes).collect();
    let count = keys.len();
    let (registries, ones, times) = (vec![registry.0; count], vec![1; count], vec![now; count]);
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids.iter().map(|id| &**id).collect::<Vec<_>>()),
        Column::Bytes(&vec![CREATOR.as_slice(); count]),
        Column::Texts(&uris.iter().map(String::as_str).collect::<Vec<_>>()),
        Column::Integers(&uris.iter().map(|uri| text_key(uri)).collect::<Vec<_>>()),
        Column::Bytes(&hashes.iter().map(|hash| hash.as_slice()).collect::<Vec<_>>()),
        Column::Integers(&ones),
        Column::Integers(&times),
        Column::Integers(&ones),
        Column::Integers(&times),
        Column::Integers(&ones),
    ];
    let mut transaction = index.database().begin().await.expect("a transaction");
    transaction.insert_many(&TOOL, &columns).await.expect("tools");
    let logs: Vec<i64> = (0..count as i64).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let columns = [
        Column::Integers(&registries),
        Column::Integers(&ones),
        Column::Integers(&logs),
        Column::Bytes(&hashes),
        Column::Bytes(&hashes),
        Column::Integers(&times),
        Column::Bytes(&ids),
        Column::Integers(&ones),
        Column::Bytes(&vec![CREATOR.as_slice(); count]),
        Column::Texts(&uris.iter().map(String::as_str).collect::<Vec<_>>()),
        Column::Bytes(&hashes),
    ];
    transaction.insert_many(&EVENT, &columns).await.expect("events");
    let changes: Vec<_> = keys.iter().map(|key| (*key, Kinds::REGISTERED)).collect();
    feed::record(&mut transaction, &changes, UnixTime::from_seconds(now)).await.expect("recorded");
    transaction.commit().await.expect("committed");
    let queue = Queue::new(index.clone());
    while queue.intake(SystemClock.now()).await.expect("taken in") > 0 {}
    // Turns of one creator are spread over hours; here every job is due.
    index.database().execute("UPDATE index_job SET due_at = due_at - early, early = 0", &[]).await.expect("due");
    if place_is_postgres(index) {
        index.database().execute("ANALYZE", &[]).await.expect("counted");
    }
}

fn place_is_postgres(index: &Index) -> bool {
    index.database().engine() == toolcrib_store::database::Engine::Postgres
}

async fn count(index: &Index, sql: &'static str) -> u64 {
    let row = index.database().fetch_optional(sql, &[]).await.expect("read").expect("a row");
    row.scalar::<i64>().expect("a number").unsigned_abs()
}

/// Works until there are so many of what `sql` counts.
async fn work(index: &Index, sql: &'static str, tools: u64, at_once: usize) {
    let options = WorkOptions { at_once, poll: Duration::from_millis(100), ..WorkOptions::default() };
    let worker = Worker::new(Queue::new(index.clone()), MadeUp, Arc::new(SystemClock), options);
    let written = async {
        while count(index, sql).await < tools {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    worker.run(written).await;
}

const DONE: &str = "SELECT COUNT(*) FROM index_listing";
/// Tools that are not due any more.
const AGAIN: &str = "SELECT COUNT(*) FROM index_job WHERE due_at > 1";

async fn verdicts(index: &Index, tools: u64, at_once: usize) {
    fill(index, tools).await;
    work(index, DONE, tools / 10, at_once).await;
    if place_is_postgres(index) {
        index.database().execute("ANALYZE", &[]).await.expect("counted");
    }
    let before = count(index, DONE).await;
    measured(index, "verdicts", DONE, (before, tools), at_once).await;
    if place_is_postgres(index) {
        sizes::tables(index, tools).await;
    }
    // Origins have a pause of a second, which has to be over.
    tokio::time::sleep(Duration::from_secs(3)).await;
    index.database().execute("UPDATE index_job SET due_at = 1, early = 0", &[]).await.expect("due");
    measured(index, "again", AGAIN, (0, tools), at_once).await;
}

/// Works until there are `to` of what `sql` counts, instead of `from`, and says how fast that was.
async fn measured(index: &Index, name: &str, sql: &'static str, (from, to): (u64, u64), at_once: usize) {
    let first = index.last_change().await.expect("a number");
    let (cpu, log) = ((cpu_seconds(), server_cpu()), sizes::log_bytes(index).await);
    let begun = Instant::now();
    // As directories do, once a second.
    let reader = {
        let index = index.clone();
        tokio::spawn(async move {
            let (mut cursor, mut read) = (first, 0_u64);
            while read < to - from {
                tokio::time::sleep(Duration::from_millis(200)).await;
                loop {
                    let changes = index.changes(cursor, feed::MAX_PAGE).await.expect("changes");
                    let Some(last) = changes.last() else { break };
                    cursor = last.seq;
                    read += changes.len() as u64;
                }
            }
            begun.elapsed()
        })
    };
    work(index, sql, to, at_once).await;
    let seconds = begun.elapsed().as_secs_f64();
    let (ours, servers) = (cpu_seconds() - cpu.0, server_cpu() - cpu.1);
    let log = sizes::log_bytes(index).await - log;
    let verdicts = to - from;
    // What is found again changes nothing that a reader is told.
    let seen = match tokio::time::timeout(Duration::from_secs(2), reader).await {
        Ok(seen) => format!("all seen by a reader after {:.2} s", seen.expect("a reader").as_secs_f64()),
        Err(_) => "not all told to readers".to_owned(),
    };
    println!(
        "{name}: {:.0}/s ({verdicts} in {seconds:.2} s, {seen}), {at_once} at once; cpu a verdict {:.2} ms here, {:.2} ms in the server; \
         log {} bytes a verdict; load {}",
        verdicts as f64 / seconds,
        ours * 1e3 / verdicts as f64,
        servers * 1e3 / verdicts as f64,
        log / verdicts as i64,
        load()
    );
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

/// Processor seconds of this process.
fn cpu_seconds() -> f64 {
    ticks("self", 2)
}

/// Processor seconds of the PostgreSQL server: the processes that it has started, and those that have ended.
fn server_cpu() -> f64 {
    let Some(process) = databases::Server::running().and_then(databases::Server::process) else { return 0.0 };
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    ticks(&process, 4) + children.split_whitespace().map(|child| ticks(child, 2)).sum::<f64>()
}

fn ticks(process: &str, fields: usize) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // utime, stime, and those of ended children, in hundredths.
    let after = stat.rsplit(')').next().unwrap_or_default();
    after.split_whitespace().skip(11).take(fields).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
