//! The same load on stores of several sizes.

use std::path::{Path, PathBuf};

use toolcrib_store::{Database, Location};

use crate::load::{Outcome, ask, share};
use crate::process::{CHAIN, REGISTRY, Served, Words, cpu_seconds, filled, load_now, memory, server_cpu, tool};
use crate::{argument, number, program};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::samples::crowd::{Dice, sentence};

/// Requests a second of the mix, and of searches in whole sentences.
const MIXED: u64 = 500;
const SENTENCES: u64 = 50;

/// Seconds of the mix before anything is measured: connections, statements and the pages of files that every request needs.
const WARM_SECONDS: u64 = 3;

pub(crate) async fn measure() {
    let sizes = argument("--sizes").unwrap_or_else(|| "10000,100000,1000000".to_owned());
    let stores = argument("--stores").unwrap_or_else(|| "sqlite,postgres".to_owned());
    let seconds = number("--seconds", 20);
    println!("mix: {MIXED} requests/s, 70 get / 20 list / 10 keyword search; sentences: {SENTENCES} searches/s of 8 to 25 words");
    println!("latencies in ms from the moment a request was due; {seconds} s each");
    for size in sizes.split(',').map(|size| size.parse::<u64>().expect("a number of tools")) {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder =
            argument("--keep").map_or_else(|| temporary.path().to_owned(), |keep| Path::new(&keep).join(size.to_string()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for store in stores.split(',') {
            let place;
            let setting = match store {
                "sqlite" => format!("sqlite:{}", folder.join("store.db").display()),
                _ => match argument("--postgres") {
                    Some(url) => url,
                    None => {
                        let Some(made) = TestStore::new(Backend::Postgres).await else { continue };
                        place = made;
                        place.setting.clone()
                    }
                },
            };
            let words = Words { folder: folder.join("search"), embedding: argument("--embedding").map(PathBuf::from) };
            one(store, &setting, &words, size, seconds).await;
        }
    }
}

async fn one(store: &str, setting: &str, words: &Words, size: u64, seconds: u64) {
    // The index of words is the same for both stores, and is made once.
    let was_there = words.folder.exists();
    let (written, all) = filled(setting, words, size);
    if store == "postgres" {
        // What its own housekeeping does sooner or later.
        let database = Database::open(&Location::parse(setting).expect("a location").connections(1)).await.expect("the server");
        for table in ["VACUUM ANALYZE index_tool", "VACUUM ANALYZE index_listing", "VACUUM ANALYZE index_usage_total"] {
            // A vacuum of a million rows takes longer than statements of a directory may.
            database.execute("SET statement_timeout = 0", &[]).await.expect("set");
            database.execute(table, &[]).await.expect("vacuumed");
        }
        database.close().await;
    }
    let built = if was_there { "search kept".to_owned() } else { format!("search built in {:.0} s", all - written) };
    // What was just written is in the system's memory; a store that was kept is read once to be there too.
    if let Some(path) = Location::parse(setting).expect("a location").path() {
        let mut file = std::fs::File::open(path).expect("the store");
        std::io::copy(&mut file, &mut std::io::sink()).expect("read");
    }
    let served = Served::start(setting, words);
    println!("{size} tools, {store}: written in {written:.0} s, {built}; start-up: {}", served.start_up);
    ask(served.port, MIXED, WARM_SECONDS, |number| mixed(size, number + 1_000_000));
    under(&served, "mix", MIXED, seconds, |number| mixed(size, number));
    under(&served, "sentences", SENTENCES, seconds, |number| ("sentence", request(number)));
    let id = served.id();
    println!(
        "  memory: {} MiB, of which {} MiB are its own and {} MiB are files; at most {} MiB",
        memory(&id, "VmRSS"),
        memory(&id, "RssAnon"),
        memory(&id, "RssFile"),
        memory(&id, "VmHWM")
    );
    // One process at a time has the index of words.
    drop(served);
    match program::find() {
        Some(program) => {
            for start in ["first", "again"] {
                println!("  toolcrib directory, started {start}: {}", program::start(&program, setting, words));
            }
        }
        None => println!("  skipped: no toolcrib beside this program; build it, or name it with --program"),
    }
}

fn under(served: &Served, name: &str, rate: u64, seconds: u64, address: impl Fn(u64) -> (&'static str, String) + Sync) {
    let (id, load) = (served.id(), load_now());
    let (before, server) = (cpu_seconds(&id), server_cpu());
    let outcome = ask(served.port, rate, seconds, address);
    let (cpu, server) = (cpu_seconds(&id) - before, server_cpu() - server);
    let Outcome { times, errors, bytes } = &outcome;
    let show = |name: &str, times: &[f64]| {
        let at = |part: f64| share(times, part);
        println!("  {name:10} p50 {:8.2}  p99 {:8.2}  max {:8.2}  ({} requests)", at(0.5), at(0.99), at(1.0), times.len());
    };
    show(name, &outcome.all());
    if times.len() > 1 {
        times.iter().for_each(|(kind, times)| show(&format!("  {kind}"), times));
    }
    println!(
        "    {errors} errors, {:.1} MB; CPU {:.2} s directory, {:.2} s PostgreSQL, in {seconds} s; load {load} to {}",
        *bytes as f64 / 1e6,
        cpu,
        server,
        load_now()
    );
}

/// One request of the mix. Which kind goes around; everything else is drawn.
fn mixed(size: u64, number: u64) -> (&'static str, String) {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5a5a);
    dice.roll(2);
    match number % 10 {
        3 | 7 => ("list", list(&mut dice, size)),
        5 => {
            let words = (0..1 + dice.roll(3)).map(|_| dice.word()).collect::<Vec<_>>().join("+");
            ("search", format!("/api/v2/tools/search?query={words}"))
        }
        // There is no tool with the number nought.
        _ => ("get", format!("/api/v2/tools/{CHAIN}/{REGISTRY:#x}/{}", 1 + dice.roll(size - 1))),
    }
}

/// Half of those who list look at the newest; others go on from somewhere, begin at the other end, or look at a kind or a creator.
fn list(dice: &mut Dice, size: u64) -> String {
    let path = "/api/v2/tools";
    match dice.roll(10) {
        0..5 => path.to_owned(),
        5..8 => {
            let id = dice.roll(size);
            format!("{path}?cursor=n.{:x}.1.{id:x}", tool(id).registered)
        }
        8 => format!("{path}?type=nft_gated&sort_by=oldest&include_unverified=true"),
        _ => format!("{path}?creator={:#x}", tool(dice.roll(size)).creator),
    }
}

fn request(number: u64) -> String {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xa5a5);
    dice.roll(2);
    let words = 8 + dice.roll(18);
    let text = sentence(&mut dice, words);
    format!("/api/v2/tools/search?query={}", text.trim().replace(' ', "+"))
}
