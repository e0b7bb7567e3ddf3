//! Search quality: requests with known answers, and how well they are found.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use toolcrib_index::Index;
use toolcrib_index::search::{Search, SearchOptions, SearchQuery};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use super::{Sample, described, put};

/// The data sets of the corpus.
pub const SETS: [&str; 3] = ["seal-tools", "bfcl-v4", "metatool"];

#[derive(Debug, Deserialize)]
struct Tool {
    id: String,
    name: String,
    description: String,
    parameters: String,
}

#[derive(Debug, Deserialize)]
struct Request {
    id: u64,
    query: String,
    relevant: Vec<String>,
}

/// A data set: tools and requests.
#[derive(Debug)]
pub struct Set {
    /// The name of the set.
    pub name: &'static str,
    tools: Vec<Tool>,
    requests: Vec<Request>,
}

/// nDCG@10 in percent.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// On the split that weights are tuned on.
    pub dev: f64,
    /// On the other split.
    pub test: f64,
    /// On both.
    pub all: f64,
}

impl Set {
    /// Reads a data set from the corpus.
    pub fn read(folder: &Path, name: &'static str) -> Self {
        fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Vec<T> {
            let text = std::fs::read_to_string(path).expect("a file of the corpus");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        }
        let tools = lines(&folder.join(format!("{name}.tools.jsonl")));
        let requests = lines(&folder.join(format!("{name}.queries.jsonl")));
        Self { name, tools, requests }
    }

    /// Keeps only the requests that weights may be tuned on. The others are not searched, so no tuning can depend on them.
    pub fn keep_dev(&mut self) {
        let name = self.name;
        self.requests.retain(|request| is_dev(name, request.id));
    }

    fn scores(&self, found: &[Vec<usize>]) -> Scores {
        let (mut dev, mut test) = (Vec::new(), Vec::new());
        for (request, found) in self.requests.iter().zip(found) {
            let relevant: HashSet<&str> = request.relevant.iter().map(String::as_str).collect();
            let gain = |place: usize| 1.0 / ((place + 2) as f64).log2();
            let hits = found.iter().take(10).enumerate().filter(|(_, tool)| relevant.contains(self.tools[**tool].id.as_str()));
            let score = hits.map(|(place, _)| gain(place)).sum::<f64>() / (0..relevant.len().min(10)).map(gain).sum::<f64>();
            if is_dev(self.name, request.id) { dev.push(score) } else { test.push(score) }
        }
        let mean = |scores: &[f64]| 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
        Scores { dev: mean(&dev), test: mean(&test), all: mean(&[dev, test].concat()) }
    }
}

/// Whether a request is in the split that weights are tuned on: two fifths, by a hash of set and number.
fn is_dev(set: &str, request: u64) -> bool {
    alloy_primitives::keccak256(format!("{set}:{request}"))[0] % 5 < 2
}

async fn empty_index() -> Index {
    let location = Location::parse("memory").expect("a location");
    Index::open(Database::open(&location).await.expect("a database")).await.expect("an index")
}

/// Fifty English stop words for the measurement of plain BM25 without them.
const STOP_WORDS: [&str; 50] = [
    "a", "an", "the", "this", "that", "these", "i", "me", "my", "you", "your", "it", "its", "we", "our", "they", "he", "she",
    "and", "or", "but", "if", "of", "in", "on", "at", "by", "for", "with", "about", "to", "from", "as", "is", "are", "was", "be",
    "do", "does", "have", "has", "can", "could", "will", "would", "what", "which", "how", "some", "any",
];

/// Measures plain BM25 of SQLite, with all words or without stop words.
pub async fn flat(set: &Set, keeps_stop_words: bool) -> Scores {
    let index = empty_index().await;
    let database = index.database();
    database.execute("CREATE VIRTUAL TABLE flat USING fts5(text, tokenize = 'porter')", &[]).await.expect("FTS5");
    let mut transaction = database.begin().await.expect("a transaction");
    for (number, tool) in set.tools.iter().enumerate() {
        let text = format!("{} {} {}", tool.name, tool.description, tool.parameters);
        let values = [Value::Integer(i64::try_from(number).expect("small")), Value::Text(&text)];
        transaction.execute("INSERT INTO flat (rowid, text) VALUES ($1, $2)", &values).await.expect("a row");
    }
    transaction.commit().await.expect("committed");
    let mut found = Vec::with_capacity(set.requests.len());
    for request in &set.requests {
        let words: BTreeSet<String> = request
            .query
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .filter(|word| keeps_stop_words || !STOP_WORDS.contains(&word.as_str()))
            .map(|word| format!("\"{word}\""))
            .collect();
        if words.is_empty() {
            found.push(Vec::new());
            continue;
        }
        let any = words.into_iter().collect::<Vec<_>>().join(" OR ");
        let sql = "SELECT rowid FROM flat WHERE flat MATCH $1 ORDER BY bm25(flat) LIMIT 10";
        let rows = database.fetch(sql, &[Value::Text(&any)]).await.expect("rows");
        found.push(rows.iter().map(|row| usize::try_from(row.scalar::<i64>().expect("a number")).expect("small")).collect());
    }
    set.scores(&found)
}

/// Measures Toolcrib's search.
pub async fn ours(set: &Set, embedding: Option<&Path>) -> Scores {
    let index = empty_index().await;
    let registry = index.add_registry(8453, alloy_primitives::Address::repeat_byte(1), 0).await.expect("a registry").id;
    let samples: Vec<Sample> = set
        .tools
        .iter()
        .zip(0..)
        .map(|(tool, id)| {
            // Everything else is equal: the same time, the same creator.
            let plain = Sample::new(0, &tool.name, &tool.description);
            Sample { id, inputs: Some(described(&tool.parameters)), ..plain }
        })
        .collect();
    for samples in samples.chunks(1_000) {
        put(&index, registry, samples).await;
    }
    let options = SearchOptions { embedding: embedding.map(Path::to_owned), ..SearchOptions::default() };
    let search = Search::open(index, options).await.expect("search");
    search.catch_up().await.expect("caught up");
    let numbers: HashMap<_, _> = samples.iter().map(|sample| (sample.key(registry), sample.id)).collect();
    let mut found = Vec::with_capacity(set.requests.len());
    for request in &set.requests {
        let query = SearchQuery { text: Some(request.query.clone()), limit: 10, ..SearchQuery::default() };
        let page = search.run(&query).expect("a page");
        found.push(page.hits.iter().map(|hit| usize::try_from(numbers[&hit.key]).expect("small")).collect());
    }
    set.scores(&found)
}
