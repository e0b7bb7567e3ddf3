//! How fast search is, and what it takes, on synthetic tools.
//!
//! ```sh
//! cargo bench -p toolcrib-index --bench search -- 10000 100000 1000000 [--embedding DIR]
//! ```
//!
//! Words are drawn as in real text: a few are everywhere, most are rare. Everything goes the real way, through the database and the change
//! feed. One client asks, one search after the other; latencies are of `Search::run` alone. Processor time stands beside wall time.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use toolcrib_index::Index;
use toolcrib_index::search::{Filters, Search, SearchOptions, SearchQuery, Sort};
use toolcrib_store::{Database, Location};
use toolcrib_testkit::samples::crowd::{Dice, sentence, tool};
use toolcrib_testkit::samples::{Sample, put};

/// Searches of each kind.
const SEARCHES: u64 = 1_000;

fn line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("written");
}

/// A number of `/proc/self/status` in MiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim_start_matches(':').trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

fn measure(name: &str, search: &Search, query: impl Fn(&mut Dice) -> SearchQuery) {
    let mut dice = Dice(42);
    let mut times = Vec::new();
    let (before, mut hits) = (processor(), 0);
    for _ in 0..SEARCHES {
        let query = query(&mut dice);
        let begun = Instant::now();
        hits += search.run(&query).expect("a page").hits.len();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)].as_secs_f64() * 1e3;
    let each = (processor() - before).as_secs_f64() * 1e3 / SEARCHES as f64;
    let mean = hits as f64 / SEARCHES as f64;
    line(&format!(
        "  {name:34} p50 {:7.2} ms  p99 {:7.2} ms  max {:7.2} ms  cpu {each:6.2} ms  {mean:4.1} hits",
        at(0.5),
        at(0.99),
        at(1.0)
    ));
}

async fn bench(count: u64, folder: &Path, embedding: Option<&Path>) {
    let location = Location::parse(&format!("sqlite:{}", folder.join("store.db").display())).expect("a location");
    let index = Index::open(Database::open(&location).await.expect("a database")).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    let begun = Instant::now();
    for first in (0..count).step_by(5_000) {
        let samples: Vec<Sample> = (first..(first + 5_000).min(count)).map(tool).collect();
        put(&index, registry, &samples).await;
    }
    line(&format!("{count} tools: written to the store in {:.1} s", begun.elapsed().as_secs_f64()));
    let options = SearchOptions {
        folder: Some(folder.join("search")),
        embedding: embedding.map(Path::to_owned),
        ..SearchOptions::default()
    };
    let (begun, before) = (Instant::now(), processor());
    let search = Search::open(index.clone(), options.clone()).await.expect("search");
    search.catch_up().await.expect("caught up");
    let cpu = (processor() - before).as_secs_f64();
    line(&format!(
        "  built in {:.1} s (cpu {cpu:.1} s), memory {} MiB, at most {} MiB",
        begun.elapsed().as_secs_f64(),
        memory("VmRSS"),
        memory("VmHWM")
    ));
    drop(search);
    let begun = Instant::now();
    let search = Search::open(index.clone(), options).await.expect("search");
    let opened = begun.elapsed();
    search.catch_up().await.expect("caught up");
    line(&format!(
        "  opened again in {:.0} ms, caught up after {:.0} ms",
        opened.as_secs_f64() * 1e3,
        begun.elapsed().as_secs_f64() * 1e3
    ));
    let plain = SearchQuery { limit: 20, ..SearchQuery::default() };
    measure("keyword (1 to 3 words)", &search, |dice| {
        let words = (0..1 + dice.roll(3)).map(|_| dice.word()).collect::<Vec<_>>().join(" ");
        SearchQuery { text: Some(words), ..plain.clone() }
    });
    let request = |dice: &mut Dice| {
        let words = 8 + dice.roll(18);
        sentence(dice, words)
    };
    measure("natural language (8 to 25 words)", &search, |dice| SearchQuery { text: Some(request(dice)), ..plain.clone() });
    measure("the same in parts of four words", &search, |dice| {
        let words = request(dice);
        let words: Vec<&str> = words.split(' ').collect();
        let parts = words.chunks(4).map(|part| part.join(" ")).collect::<Vec<_>>().join(", ");
        SearchQuery { text: Some(parts), ..plain.clone() }
    });
    measure("the same, 100 words", &search, |dice| SearchQuery { text: Some(sentence(dice, 100)), ..plain.clone() });
    measure("the same with facets", &search, |dice| SearchQuery { text: Some(request(dice)), facets: true, ..plain.clone() });
    measure("keyword, misspelled", &search, |dice| {
        let word = dice.word();
        SearchQuery { text: Some(format!("{}q{}", &word[..4], &word[4..])), ..plain.clone() }
    });
    let tagged = |dice: &mut Dice| Filters { tags: vec![format!("tag-{}", dice.rank(500))], ..Filters::default() };
    measure("natural language with a tag", &search, |dice| {
        let filters = tagged(dice);
        SearchQuery { text: Some(request(dice)), filters, ..plain.clone() }
    });
    measure("list, newest", &search, |_| SearchQuery { sort: Sort::Newest, ..plain.clone() });
    measure("list with a tag and a price", &search, |dice| {
        let filters = Filters { max_price: Some(10_000), ..tagged(dice) };
        SearchQuery { filters, ..plain.clone() }
    });
    let begun = Instant::now();
    for id in 0..100 {
        put(&index, registry, &[Sample { payers: id, ..tool(id) }]).await;
        search.catch_up().await.expect("caught up");
    }
    line(&format!("  a change is found after {:.1} ms, with its write", begun.elapsed().as_secs_f64() * 10.0));
    line(&format!("  memory at the end {} MiB, at most {} MiB", memory("VmRSS"), memory("VmHWM")));
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut counts, mut embedding) = (Vec::new(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--embedding" => embedding = arguments.next().map(PathBuf::from),
            count => counts.push(count.parse().expect("a number of tools")),
        }
    }
    if counts.is_empty() {
        counts = vec![10_000, 100_000];
    }
    for count in counts {
        let folder = tempfile::tempdir().expect("a folder");
        bench(count, folder.path(), embedding.as_deref()).await;
    }
}
