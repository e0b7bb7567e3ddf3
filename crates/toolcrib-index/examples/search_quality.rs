//! How well search finds tools, on three public sets of requests with known answers: nDCG@10, beside plain BM25 over one flat field (FTS5).
//!
//! ```sh
//! cargo run --release -p toolcrib-index --example search_quality -- $TOOLCRIB_CORPUS/retrieval [--dev] [--embedding DIR]
//! ```
//!
//! Two fifths of the queries, by a hash of set and number, are the dev split, by which weights are chosen. The rest is the test split. With
//! `--dev` nothing but the dev split is searched for: that is the way to choose. The whole table is for what was chosen already.

use std::io::Write as _;
use std::path::PathBuf;

use toolcrib_testkit::samples::quality;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut corpus, mut embedding, mut is_dev_only) = (None, None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--embedding" => embedding = Some(PathBuf::from(arguments.next().expect("the folder of an embedding"))),
            "--dev" => is_dev_only = true,
            _ => corpus = Some(PathBuf::from(argument)),
        }
    }
    let corpus = corpus.expect("search_quality FOLDER [--dev] [--embedding FOLDER]");
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| writeln!(out, "{text}").expect("written");
    let splits = if is_dev_only { format!("{:>7}", "dev") } else { format!("{:>7} {:>7} {:>7}", "dev", "test", "all") };
    line(format!("{:12} {:28} {splits}", "set", "nDCG@10"));
    for set in quality::SETS {
        let mut set = quality::Set::read(&corpus, set);
        if is_dev_only {
            set.keep_dev();
        }
        let mut show = |name: &str, scores: quality::Scores| {
            let quality::Scores { dev, test, all } = scores;
            let splits = if is_dev_only { format!("{dev:7.2}") } else { format!("{dev:7.2} {test:7.2} {all:7.2}") };
            line(format!("{:12} {name:28} {splits}", set.name));
        };
        show("FTS5, one flat field", quality::flat(&set, true).await);
        show("FTS5, without stop words", quality::flat(&set, false).await);
        show("search", quality::ours(&set, None).await);
        if let Some(folder) = &embedding {
            show("search with embedding", quality::ours(&set, Some(folder)).await);
        }
    }
}
