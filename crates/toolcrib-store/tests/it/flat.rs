//! Memory stays flat however many payments come and go.

use std::process::Command;

use peak_alloc::PeakAlloc;
use toolcrib_store::replay::{EXPIRE_BATCH, Limits, MemoryReplay, ReplayStore, Reserve};

use crate::scenarios::free;
use toolcrib_testkit::databases::{at, key};

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Says that this process was started for the one test, since others allocate too.
const ALONE: &str = "TOOLCRIB_STORE_ALONE";

#[test]
fn payments_come_and_go_and_memory_stays_flat() {
    let arguments = ["--exact", "flat::alone", "--test-threads=1"];
    let output = Command::new(std::env::current_exe().unwrap()).args(arguments).env(ALONE, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// A thousand payments for every 100 seconds, each kept for 16 minutes. The benchmark does the same with a million.
#[tokio::test]
async fn alone() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let limits = Limits { entries: 20_000, ..Limits::default() };
    let store = MemoryReplay::new(limits);
    let mut most = 0;
    let mut after_warm_up = 0.0;
    for round in 0..100 {
        let now = at(round * 100);
        for nonce in 0..1_000 {
            let id = key(round as u64 * 1_000 + nonce);
            assert!(matches!(store.reserve(&id, &free(now), now).await.unwrap(), Reserve::Reserved(_)), "room");
        }
        while store.expire(now).await.unwrap() == EXPIRE_BATCH {}
        if round % 10 == 9 {
            most = most.max(store.counts().await.unwrap().entries());
            let used = PEAK.current_usage_as_kb();
            if round == 19 {
                after_warm_up = used;
            }
            // Tables grow by doubling. Were payments kept, 80,000 of them would be some 25 MB.
            let grown = used - after_warm_up;
            assert!(round <= 19 || grown < 8.0 * 1024.0, "{grown} KiB more than after the first fifth");
        }
    }
    assert_eq!(most, 10_000);
}
