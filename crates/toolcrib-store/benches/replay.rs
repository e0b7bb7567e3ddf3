//! The cost of using a payment once, compared between the three backends.
//!
//! First a million payments are added and removed in memory, and the size of the process must not grow with them.
//!
//! A free call reserves until its authorization ends; a paid one reserves, begins settlement with a result of 1 KiB, and settles. With one
//! caller at a time, and many: a database that syncs every commit is slow for one and not for many. Rounds alternate, and the median
//! counts. For comparison, the speed of the disk itself is measured: small writes, each followed by fdatasync.
//!
//! `cargo bench -p toolcrib-store` measures; with `-- --quick` it only checks that everything runs.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{B256, keccak256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::replay::{
    EXPIRE_BATCH, Limits, MemoryReplay, Receipt, ReplayKey, ReplayStore, Reservation, Reserve, Settlement, StoredResult,
};

use toolcrib_testkit::databases::{Backend, NOW, TestStore, at, key, reservation};

type Store = Arc<dyn ReplayStore>;

/// The reservation of a free call: its lease ends with it, so the reservation uses the payment up.
fn free(now: UnixTime) -> Reservation<'static> {
    let reservation = reservation(now);
    Reservation { lease_until: reservation.expires_at, ..reservation }
}

/// Counter of payments, which makes each unique.
static NONCE: AtomicU64 = AtomicU64::new(0);

/// Number of concurrent callers.
const MANY: u64 = 64;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // First, while the process is small.
    runtime.block_on(flat(quick));
    runtime.block_on(side_by_side(quick));
}

async fn side_by_side(quick: bool) {
    let (rounds, time) = if quick { (1, Duration::from_millis(100)) } else { (5, Duration::from_millis(500)) };
    let mut stores = Vec::new();
    for backend in [Backend::Memory, Backend::SqliteFile, Backend::Postgres] {
        if let Some(place) = TestStore::new(backend).await {
            let store = place.store(Limits { entries: 1 << 40, result_bytes: 1 << 40, ..Limits::default() }).await;
            stores.push((backend, place, store));
        }
    }
    println!("calls per second     free, one  free, {MANY}   paid, one  paid, {MANY}");
    let mut table = vec![[const { Vec::new() }; 4]; stores.len()];
    for _ in 0..rounds {
        for ((_, _, store), columns) in stores.iter().zip(&mut table) {
            columns[0].push(rate(store, 1, time, false).await);
            columns[1].push(rate(store, MANY, time, false).await);
            columns[2].push(rate(store, 1, time, true).await);
            columns[3].push(rate(store, MANY, time, true).await);
        }
    }
    for ((backend, _, _), columns) in stores.iter().zip(table) {
        let [a, b, c, d] = columns.map(median);
        println!("{:18} {a:11.0} {b:10.0} {c:12.0} {d:10.0}", format!("{backend:?}"));
    }
    println!("the disk: {:.0} writes with fdatasync per second", median((0..rounds).map(|_| disk(time)).collect()));
}

/// Measures calls per second with this number of callers.
async fn rate(store: &Store, callers: u64, time: Duration, paid: bool) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut calls = 0_u64;
                while begun.elapsed() < time {
                    call(&*store, paid).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await.expect("a caller");
    }
    let rate = calls as f64 / begun.elapsed().as_secs_f64();
    // Every round starts with an empty store.
    while store.expire(at(100_000)).await.expect("expired") > 0 {}
    rate
}

async fn call(store: &dyn ReplayStore, paid: bool) {
    // Nonces are random, and so are their places in a B-tree.
    let nonce = keccak256(NONCE.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let id = ReplayKey { nonce, ..key(0) };
    let reservation = if paid { reservation(NOW) } else { free(NOW) };
    let answer = store.reserve(&id, &reservation, NOW).await.expect("an answer");
    let Reserve::Reserved(ticket) = answer else { panic!("{answer:?}") };
    if paid {
        let result = StoredResult { status: 200, content_type: "application/json".to_owned(), body: vec![7; 1024] };
        let settlement = Settlement { lease_until: at(60), note: &[7; 512], result: Some(&result), from_block: None };
        store.begin_settlement(&id, ticket, &settlement).await.expect("begun");
        let receipt = Receipt { transaction: B256::repeat_byte(1), response: vec![7; 256] };
        store.settle(&id, &receipt, NOW).await.expect("settled");
    }
}

fn disk(time: Duration) -> f64 {
    let mut file = tempfile::tempfile().expect("a file");
    let (begun, mut writes) = (Instant::now(), 0_u32);
    while begun.elapsed() < time {
        file.write_all(&[7; 4096]).expect("written");
        file.sync_data().expect("on the disk");
        writes += 1;
    }
    f64::from(writes) / begun.elapsed().as_secs_f64()
}

async fn flat(quick: bool) {
    let rounds = if quick { 50 } else { 1_000 };
    let store = MemoryReplay::new(Limits::default());
    let mut sizes = Vec::new();
    let begun = Instant::now();
    for round in 0..rounds {
        let now = at(round * 100);
        for nonce in 0..1_000 {
            let id = key(round as u64 * 1_000 + nonce);
            let answer = store.reserve(&id, &free(now), now).await.expect("an answer");
            assert!(matches!(answer, Reserve::Reserved(_)), "room");
        }
        while store.expire(now).await.expect("expired") == EXPIRE_BATCH {}
        if (round + 1) % (rounds / 10) == 0 {
            sizes.push(resident());
        }
    }
    let held = store.counts().await.expect("counts").entries();
    println!(
        "{} payments in memory, {held} at a time, {:.1} s; the process after each tenth, in MiB: {sizes:.1?}",
        rounds * 1_000,
        begun.elapsed().as_secs_f64()
    );
    let (second, last) = (sizes[1], sizes[9]);
    assert!(last < second + 8.0, "memory grew from {second} to {last} MiB");
}

/// Returns the resident memory of the process in MiB; 0 if the system does not report it.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
