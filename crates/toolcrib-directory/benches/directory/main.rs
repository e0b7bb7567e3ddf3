//! How fast a directory answers: beside Ponder's API, and as it grows.
//!
//! ```sh
//! cargo bench -p toolcrib-directory --bench directory -- peer --ponder bench/index/ponder
//! cargo bench -p toolcrib-directory --bench directory -- growth [--sizes 10000,100000,1000000] [--stores sqlite,postgres]
//!     [--seconds 20] [--keep FOLDER] [--postgres URL] [--embedding FOLDER] [--program target/release/toolcrib]
//! ```
//!
//! The directory is a process of its own, and so is whoever fills its store; what is measured of it is read from `/proc`. Tools are made up
//! and written straight into the tables, as followers and workers leave them.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod growth;
mod load;
mod peer;
mod process;
mod program;

fn main() {
    let workers = std::env::var("TOOLCRIB_WORKERS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime");
    if let Ok(task) = std::env::var(process::CHILD) {
        return runtime.block_on(process::child(&task));
    }
    match std::env::args().nth(1).as_deref() {
        Some("peer") => runtime.block_on(peer::measure()),
        Some("growth") => runtime.block_on(growth::measure()),
        _ => println!("say peer or growth; see bench/directory"),
    }
}

/// The value of an argument.
fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

fn number(name: &str, usual: u64) -> u64 {
    argument(name).map_or(usual, |text| text.parse().expect("a number"))
}
