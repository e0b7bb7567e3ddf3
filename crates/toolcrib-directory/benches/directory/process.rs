//! The processes that are measured, and what `/proc` says about them.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use serde_json::{Map, Value as Json, json};
use tokio::net::TcpListener;
use toolcrib_directory::{Directory, Options, Rate, serve};
use toolcrib_fetch::SystemClock;
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index};
use toolcrib_store::{Database, Location};

use crate::load;
use toolcrib_testkit::samples::{Sample, put};

pub(crate) const CHILD: &str = "TOOLCRIB_DIRECTORY_CHILD";

/// Where made-up tools are registered.
pub(crate) const CHAIN: u64 = 8453;
pub(crate) const REGISTRY: Address = Address::repeat_byte(0x82);

/// As many as nobody exceeds.
const MANY: Rate = Rate::per_hour(u32::MAX);

/// Tools that are written at once.
const BATCH: u64 = 10_000;

/// Where search keeps its words, and the static embedding that it compares meanings by, if any.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) folder: PathBuf,
    pub(crate) embedding: Option<PathBuf>,
}

/// What a child does: `serve` or `fill`, with the store, the folder of search, the folder of the embedding, and how many tools.
pub(crate) async fn child(task: &str) {
    let parts: Vec<&str> = task.split('\n').collect();
    let [what, setting, folder, embedding, count] = parts.as_slice() else { panic!("{task}") };
    let location = Location::parse(setting).expect("a location");
    let index = Index::open(Database::open(&location).await.expect("a database")).await.expect("an index");
    let embedding = (!embedding.is_empty()).then(|| PathBuf::from(embedding));
    let options = SearchOptions { folder: Some(PathBuf::from(folder)), embedding, ..SearchOptions::default() };
    match *what {
        "fill" => fill(&index, count.parse().expect("a number"), options).await,
        _ => answer(index, options).await,
    }
}

/// A tool with schemas of its fields, as real ones have.
pub(crate) fn tool(id: u64) -> Sample {
    let mut sample = toolcrib_testkit::samples::crowd::tool(id);
    let fields = sample.fields.iter().map(|field| (field.clone(), json!({ "type": "string", "maxLength": 200 })));
    let fields: Map<String, Json> = fields.collect();
    sample.inputs =
        Some(json!({ "type": "object", "properties": fields, "required": sample.fields, "additionalProperties": false }));
    sample
}

async fn fill(index: &Index, count: u64, options: SearchOptions) {
    let registry = index.add_registry(CHAIN, REGISTRY, 0).await.expect("a registry").id;
    let begun = Instant::now();
    let there = index.database().fetch("SELECT COUNT(*) FROM index_tool", &[]).await.expect("a count");
    let there = there.first().and_then(|row| row.scalar::<i64>().ok()).unwrap_or_default() as u64;
    for first in (there..count).step_by(BATCH as usize) {
        let samples: Vec<Sample> = (first..(first + BATCH).min(count)).map(tool).collect();
        put(index, registry, &samples).await;
    }
    index.prepare_reading().await.expect("indexes");
    let written = begun.elapsed().as_secs_f64();
    let search = Search::open(index.clone(), options).await.expect("search");
    search.catch_up().await.expect("caught up");
    // Segments that are merged after the last commit are waited for, so that all stores are measured with the same ones.
    tokio::time::sleep(Duration::from_millis(200 + count / 400)).await;
    search.catch_up().await.expect("caught up");
    println!("{}", json!({ "written": written, "all": begun.elapsed().as_secs_f64() }));
}

async fn answer(index: Index, options: SearchOptions) {
    let search = Search::open(index.clone(), options).await.expect("search");
    let options = Options {
        anonymous_reads: None,
        anonymous_writes: MANY,
        keys_per_address: MANY,
        keys_in_all: MANY,
        looks_per_origin: MANY,
        ..Options::default()
    };
    let queue = Queue::new(index.clone());
    let directory = Directory::builder(index, search, queue, Chains::default(), SystemClock).options(options).build().await;
    let directory = directory.expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", json!({ "port": listener.local_addr().expect("an address").port() }));
    let running = directory.clone();
    tokio::spawn(async move { running.run(std::future::pending()).await });
    serve(listener, directory.router(), std::future::pending()).await.expect("served");
}

/// A directory that ends with this process.
pub(crate) struct Served {
    child: Child,
    pub(crate) port: u16,
    pub(crate) start_up: StartUp,
}

/// From the start of a process to its first answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartUp {
    /// The list of tools.
    pub(crate) list: Duration,
    /// A search.
    pub(crate) search: Duration,
    /// `/ready`: the change feed was looked at and search is whole.
    ready: Duration,
}

impl StartUp {
    /// Asks a process that began then and listens at this port, until it answers.
    pub(crate) fn measure(begun: Instant, port: u16) -> Self {
        let wait = |path: &str, needs: usize| {
            let mut connection = None;
            while !load::get(&mut connection, port, path).is_ok_and(|length| length > needs) {
                assert!(begun.elapsed() < Duration::from_secs(60), "the directory does not answer");
                std::thread::sleep(Duration::from_millis(2));
            }
            begun.elapsed()
        };
        Self {
            list: wait("/api/v2/tools", 1_000),
            search: wait("/api/v2/tools/search?query=data", 1_000),
            ready: wait("/ready", 0),
        }
    }
}

impl fmt::Display for StartUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [list, search, ready] = [self.list, self.search, self.ready].map(|time| time.as_secs_f64() * 1e3);
        write!(f, "list after {list:.0} ms, search after {search:.0} ms, ready after {ready:.0} ms")
    }
}

impl Served {
    pub(crate) fn start(setting: &str, words: &Words) -> Self {
        let begun = Instant::now();
        let mut child = command("serve", setting, words, 0).stdout(Stdio::piped()).spawn().expect("a child");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let said: Json = serde_json::from_str(&line).expect("JSON");
        let port = u16::try_from(said["port"].as_u64().expect("a port")).expect("a port");
        Self { child, port, start_up: StartUp::measure(begun, port) }
    }

    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fills a store, and gives the seconds of writing tools, and of everything.
pub(crate) fn filled(setting: &str, words: &Words, count: u64) -> (f64, f64) {
    let output = command("fill", setting, words, count).stdout(Stdio::piped()).spawn().expect("a child");
    let output = output.wait_with_output().expect("an end");
    assert!(output.status.success(), "{output:?}");
    let said: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    (said["written"].as_f64().unwrap_or_default(), said["all"].as_f64().unwrap_or_default())
}

fn command(what: &str, setting: &str, words: &Words, count: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let embedding = words.embedding.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default();
    let task = format!("{what}\n{setting}\n{}\n{embedding}\n{count}", words.folder.display());
    command.env(CHILD, task).stdin(Stdio::null());
    command
}

/// Seconds of processor time of a process, and of its children that have ended.
pub(crate) fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields.iter().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Memory of a process by its name in `/proc/…/status`, in MiB.
pub(crate) fn memory(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or_default() / 1_024
}

/// Processor seconds of the PostgreSQL server, with those of its processes that run.
pub(crate) fn server_cpu() -> f64 {
    let Some(server) = toolcrib_testkit::databases::Server::shared().and_then(toolcrib_testkit::databases::Server::process)
    else {
        return 0.0;
    };
    let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap_or_default();
    cpu_seconds(&server) + children.split_whitespace().map(cpu_seconds).sum::<f64>()
}

pub(crate) fn load_now() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
