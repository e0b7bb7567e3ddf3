//! How well search finds tools, on two public sets of requests with known answers: nDCG@10, beside plain BM25 over one flat field (FTS5).
//!
//! ```sh
//! cargo run --release -p toolcrib-index --example search_quality -- $TOOLCRIB_CORPUS/retrieval [--embedding DIR]
//! ```
//!
//! Two fifths of the queries, by a hash of set and number, are the dev split: weights were chosen on it. The rest is the test split.

#[path = "../tests/support/quality.rs"]
mod quality;
#[path = "../tests/support/mod.rs"]
mod samples;

use std::io::Write as _;
use std::path::PathBuf;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let corpus = arguments.next().expect("the folder of the corpus");
    let embedding = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--embedding"), Some(folder)) => Some(PathBuf::from(folder)),
        (None, _) => None,
        _ => panic!("search_quality FOLDER [--embedding FOLDER]"),
    };
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| writeln!(out, "{text}").expect("written");
    line(format!("{:12} {:28} {:>7} {:>7} {:>7}", "set", "nDCG@10", "dev", "test", "all"));
    for set in quality::SETS {
        let set = quality::Set::read(corpus.as_ref(), set);
        let mut show = |name: &str, scores: quality::Scores| {
            line(format!("{:12} {:28} {:7.2} {:7.2} {:7.2}", set.name, name, scores.dev, scores.test, scores.all));
        };
        show("FTS5, one flat field", quality::flat(&set).await);
        show("search", quality::ours(&set, None).await);
        if let Some(folder) = &embedding {
            show("search with embedding", quality::ours(&set, Some(folder)).await);
        }
    }
}
