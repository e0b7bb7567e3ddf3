//! How soon a new node can search, with and without a snapshot, on synthetic tools.
//!
//! ```sh
//! cargo bench -p toolcrib-index --bench snapshot -- 100000 [--quick] [--objects s3://BUCKET/PREFIX?endpoint=URL] [--store postgres://…]
//! ```
//!
//! Objects are files of the same disk unless a store is named. Each start is that of a process with nothing kept: it opens search, and has
//! caught up with the change feed. Ten changes lie between snapshot and start.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use toolcrib_index::Index;
use toolcrib_index::search::{PublishOptions, Published, Publisher, Search, SearchOptions, SearchQuery, Snapshots};
use toolcrib_store::objects::{Objects, ObjectsLocation};
use toolcrib_store::{Database, Location};
use toolcrib_testkit::samples::crowd::tool;
use toolcrib_testkit::samples::{Sample, put};

/// Tools of a quick run: enough for several segments.
const QUICK: u64 = 2_000;

fn line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("written");
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

async fn start(name: &str, index: &Index, folder: Option<&Path>, objects: Option<&Objects>) -> Search {
    let (begun, before) = (Instant::now(), processor());
    let snapshots = objects.cloned().map(Snapshots::new);
    let options = SearchOptions { folder: folder.map(Path::to_owned), snapshots, ..SearchOptions::default() };
    let search = Search::open(index.clone(), options).await.expect("search");
    let (opened, is_ready) = (begun.elapsed(), search.is_ready());
    search.catch_up().await.expect("caught up");
    let (caught_up, cpu) = (begun.elapsed(), processor() - before);
    let query = SearchQuery { text: Some("weather".to_owned()), limit: 20, ..SearchQuery::default() };
    search.run(&query).expect("a page");
    let ready = if is_ready { opened } else { caught_up };
    line(&format!(
        "  {name:34} from {:8}  searchable after {:7.0} ms, caught up after {:7.0} ms, cpu {:6.0} ms",
        search.start().as_str(),
        ready.as_secs_f64() * 1e3,
        caught_up.as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e3
    ));
    search
}

async fn bench(count: u64, folder: &Path, store: Option<&str>, objects: &Objects) {
    let setting = store.map_or_else(|| format!("sqlite:{}", folder.join("store.db").display()), str::to_owned);
    let location = Location::parse(&setting).expect("a location");
    let index = Index::open(Database::open(&location).await.expect("a database")).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    for first in (0..count).step_by(5_000) {
        let samples: Vec<Sample> = (first..(first + 5_000).min(count)).map(tool).collect();
        put(&index, registry, &samples).await;
    }
    line(&format!("{count} tools in {location}, objects in {}", objects.name()));
    let search = start("without a snapshot, in a folder", &index, Some(&folder.join("first")), None).await;
    let mut publisher = Publisher::new(
        search.clone(),
        Snapshots::new(objects.clone()),
        PublishOptions { every_seconds: 0, ..PublishOptions::default() },
    );
    for name in ["first snapshot", "the next, ten changes later"] {
        let begun = Instant::now();
        let Published::Done { bytes, uploaded, .. } = publisher.step().await.expect("a step") else { panic!("a snapshot") };
        let seconds = begun.elapsed().as_secs_f64();
        line(&format!("  {name}: {:.1} MB, {:.1} MB uploaded in {seconds:.2} s", bytes as f64 / 1e6, uploaded as f64 / 1e6));
        let changed: Vec<Sample> = (0..10).map(|id| Sample { payers: id, ..tool(id) }).collect();
        put(&index, registry, &changed).await;
        search.catch_up().await.expect("caught up");
    }
    drop(start("without a snapshot, in memory", &index, None, None).await);
    for round in 0..3 {
        drop(start("with a snapshot, in memory", &index, None, Some(objects)).await);
        let own = folder.join(format!("node-{round}"));
        drop(start("with a snapshot, in a folder", &index, Some(&own), Some(objects)).await);
        drop(start("its own folder, second start", &index, Some(&own), Some(objects)).await);
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut counts, mut objects, mut store) = (Vec::new(), None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--objects" => objects = arguments.next(),
            "--store" => store = arguments.next(),
            "--quick" => counts.push(QUICK),
            count => counts.push(count.parse().expect("a number of tools")),
        }
    }
    for count in if counts.is_empty() { vec![10_000] } else { counts } {
        let folder = tempfile::tempdir().expect("a folder");
        let location = match &objects {
            Some(setting) => ObjectsLocation::parse(setting).expect("a store"),
            None => ObjectsLocation::folder(folder.path().join("objects")),
        };
        let objects = Objects::open(&location, |name| std::env::var(name).ok()).expect("a store");
        bench(count, folder.path(), store.as_deref(), &objects).await;
    }
}
