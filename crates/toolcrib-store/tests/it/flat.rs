//! Memory stays flat however many payments come and go.

use peak_alloc::PeakAlloc;
use toolcrib_store::replay::{EXPIRE_BATCH, Limits, MemoryReplay, ReplayStore, Reserve};

use crate::support::{at, key, reservation};

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// A million payments, a thousand each second, each kept for 16 minutes: 960,000 at the end of the first 16 minutes would be many, so
/// the store is made smaller and time runs faster, a thousand payments for every 100 seconds.
#[tokio::test]
async fn a_million_nonces_expire_and_memory_stays_flat() {
    let limits = Limits { entries: 20_000, ..Limits::default() };
    let store = MemoryReplay::new(limits);
    let mut most = 0;
    let mut after_warm_up = 0.0;
    for round in 0..1_000 {
        let now = at(round * 100);
        for nonce in 0..1_000 {
            let id = key(round as u64 * 1_000 + nonce);
            let Reserve::Reserved(ticket) = store.reserve(&id, &reservation(now), now).await.unwrap() else { panic!("room") };
            store.consume(&id, ticket).await.unwrap();
        }
        while store.expire(now).await.unwrap() == EXPIRE_BATCH {}
        if round % 100 == 99 {
            most = most.max(store.counts().await.unwrap().entries());
            let used = PEAK.current_usage_as_kb();
            if round == 99 {
                after_warm_up = used;
            }
            // Other tests of this process allocate too; a leak of one payment in a hundred would show as far more.
            assert!(used < after_warm_up + 16.0 * 1024.0, "{used} KiB, {after_warm_up} KiB after the first tenth");
        }
    }
    assert_eq!(most, 10_000);
}
