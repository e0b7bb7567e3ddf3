//! The store of used signatures, and the removal of expired entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use toolcrib_core::clock::UnixTime;
use toolcrib_store::replay::{EXPIRE_BATCH, ReplayStore};

use crate::room::Ledger;

/// Seconds between two removals of expired entries.
const EXPIRE_EVERY: i64 = 5;

/// Most batches of one removal: ten thousand rows every five seconds keep up with two thousand calls a second.
const EXPIRE_BATCHES: usize = 20;

/// The store, and when expired entries were last removed.
#[derive(Debug)]
pub(crate) struct Used {
    store: Arc<dyn ReplayStore>,
    expired_at: AtomicI64,
    pub(crate) ledger: Ledger,
}

impl Used {
    pub(crate) fn new(store: Arc<dyn ReplayStore>) -> Self {
        Self { store, expired_at: AtomicI64::new(0), ledger: Ledger::default() }
    }

    /// Returns the store. The first request after [`EXPIRE_EVERY`] seconds starts the removal of expired entries in the background.
    pub(crate) fn store(&self, now: UnixTime) -> &Arc<dyn ReplayStore> {
        let last = self.expired_at.load(Ordering::Relaxed);
        let is_due = now.seconds().saturating_sub(last) >= EXPIRE_EVERY;
        if is_due && self.expired_at.compare_exchange(last, now.seconds(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let store = self.store.clone();
            tokio::spawn(async move {
                for _ in 0..EXPIRE_BATCHES {
                    // If the store fails, the next request gets its error.
                    if !store.expire(now).await.is_ok_and(|removed| removed >= EXPIRE_BATCH) {
                        break;
                    }
                }
            });
        }
        &self.store
    }

    /// Returns the most bytes of a paid call's result.
    pub(crate) fn largest_result(&self) -> usize {
        usize::try_from(self.store.limits().largest_result()).unwrap_or(usize::MAX)
    }
}
