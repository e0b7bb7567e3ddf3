//! Compares manifest hashing and checking with other implementations, in one run on one machine.
//!
//! Rounds are interleaved: each round runs every contender once, so that a busy moment affects all of them alike. Times are CPU time of
//! the process that does the work. Before anything is timed, all must agree on every hash.

mod input;
mod ours;
mod peer;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use rustix::time::{ClockId, clock_gettime};

use crate::input::Set;
use crate::ours::{Prepared, STAGES, Stage};
use crate::peer::Peer;

/// The amount of measurement.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// CPU time one contender aims to take in one round.
    slice_ns: u64,
}

const FULL: Effort = Effort { rounds: 15, slice_ns: 40_000_000 };
const QUICK: Effort = Effort { rounds: 3, slice_ns: 3_000_000 };

fn main() -> Result<(), Box<dyn Error>> {
    let quick = env::args().skip(1).any(|argument| argument == "--quick");
    let effort = if quick { QUICK } else { FULL };
    let folder = env::temp_dir().join(format!("toolcrib-bench-{}", std::process::id()));
    let mut sets = input::generated(&folder)?;
    match env::var_os("TOOLCRIB_CORPUS") {
        Some(corpus) => sets.push(input::corpus(&Path::new(&corpus).join("erc8257/manifests"), |source| {
            ours::read(source).is_some_and(|document| document.is_canonicalisable())
        })?),
        None => eprintln!("skipped: TOOLCRIB_CORPUS is not set, so real manifests are not measured"),
    }
    if let [_, flag, stage, set, passes] = &env::args().collect::<Vec<_>>()[..]
        && flag == "--profile"
    {
        fs::remove_dir_all(folder)?;
        return profile(stage, set, passes.parse()?, &sets);
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = |name: &str| home.join("peers").join(name).display().to_string();
    let python = env::var("TOOLCRIB_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut peers = [
        Peer::start("Node: canonicalize + noble", "node", &script("node.mjs"))?,
        Peer::start("Python: jcs + pycryptodome", &python, &script("python.py"))?,
    ];

    println!("{} rounds, {} ms of CPU time for each contender and round", effort.rounds, effort.slice_ns / 1_000_000);
    println!("load average before: {}", load_average());
    for set in &sets {
        measure(set, &mut peers, effort)?;
    }
    println!("\nload average after: {}", load_average());
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Runs only one stage on one set, for a profiler.
fn profile(stage: &str, set: &str, passes: u64, sets: &[Set]) -> Result<(), Box<dyn Error>> {
    let stage = STAGES.iter().find(|known| known.name == stage).ok_or("no such stage")?;
    let set = sets.iter().find(|known| known.name == set).ok_or("no such set")?;
    let prepared = Prepared::of(set).ok_or("a generated manifest has no canonical form")?;
    println!("{} ns a pass", time(stage, &prepared, passes) / passes);
    Ok(())
}

fn measure(set: &Set, peers: &mut [Peer], effort: Effort) -> Result<(), Box<dyn Error>> {
    let prepared = Prepared::of(set).ok_or("a generated manifest has no canonical form")?;
    agree(set, &prepared, peers)?;

    // A contender is one of our stages or a peer; both return the CPU time of a number of passes.
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).chain(peers.iter().map(|peer| peer.name)).collect();
    let mut run = |contender: usize, passes: u64| match STAGES.get(contender) {
        Some(stage) => Ok(time(stage, &prepared, passes)),
        None => peers[contender - STAGES.len()].time(passes),
    };
    let mut passes = Vec::new();
    for contender in 0..names.len() {
        // Warm up for a few slices, so that a just-in-time compiler settles, then measure one pass.
        let mut each = run(contender, 1)?.max(1);
        for _ in 0..5 {
            let guess = (effort.slice_ns / each).max(1);
            each = (run(contender, guess)? / guess).max(1);
        }
        passes.push((effort.slice_ns / each).max(1));
    }
    let mut samples = vec![Vec::new(); names.len()];
    for _ in 0..effort.rounds {
        for (contender, samples) in samples.iter_mut().enumerate() {
            let passes = passes[contender];
            samples.push(run(contender, passes)? as f64 / (passes as usize * set.sources.len()) as f64);
        }
    }
    report(set, &prepared, &names, samples);
    Ok(())
}

/// Fails unless all implementations compute the same hash for every file.
fn agree(set: &Set, prepared: &Prepared, peers: &mut [Peer]) -> Result<(), Box<dyn Error>> {
    let ours: Vec<String> =
        prepared.hashes().iter().map(|hash| format!("{hash:x}").trim_start_matches("0x").to_owned()).collect();
    for peer in peers {
        let theirs = peer.load(&set.paths)?;
        if theirs != ours {
            return Err(format!("{} disagrees on the hashes of {}: {ours:?} {theirs:?}", peer.name, set.name).into());
        }
    }
    if set.name != "corpus" {
        let flaws: Vec<String> = set.sources.iter().flat_map(|source| ours::flaws(source)).collect();
        if !flaws.is_empty() {
            return Err(format!("the generated manifest {} is not conformant: {flaws:?}", set.name).into());
        }
    }
    Ok(())
}

fn time(stage: &Stage, prepared: &Prepared, passes: u64) -> u64 {
    let before = cpu_ns();
    for _ in 0..passes {
        (stage.run)(prepared);
    }
    cpu_ns() - before
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn report(set: &Set, prepared: &Prepared, names: &[&str], mut samples: Vec<Vec<f64>>) {
    let files = set.sources.len();
    println!(
        "\n{}: {files} file(s), {} bytes as written, {} canonical, all hashes agree",
        set.name,
        set.source_bytes(),
        prepared.canonical_bytes()
    );
    println!(
        "{:<30} {:>12} {:>12} {:>12} {:>8} {:>9} {:>10} {:>10}",
        "ns per manifest", "median", "min", "max", "MB/s", "x keccak", "Node / it", "Python / it"
    );
    for samples in &mut samples {
        samples.sort_by(f64::total_cmp);
    }
    let median = |contender: usize| samples[contender][samples[contender].len() / 2];
    let (floor, node, python) = (median(0), median(names.len() - 2), median(names.len() - 1));
    for (contender, name) in names.iter().enumerate() {
        let (own, sorted) = (median(contender), &samples[contender]);
        println!(
            "{name:<30} {own:>12.0} {:>12.0} {:>12.0} {:>8.0} {:>9.2} {:>10.1} {:>10.1}",
            sorted[0],
            sorted[sorted.len() - 1],
            set.source_bytes() as f64 / files as f64 * 1000.0 / own,
            own / floor,
            node / own,
            python / own,
        );
    }
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
