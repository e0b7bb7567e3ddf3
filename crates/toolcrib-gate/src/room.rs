//! Room for results: checked before a call runs, and made by removing results that were delivered.
//!
//! A result is kept so that a payer whose response was lost can redeem it. A response counts as delivered when its connection carries the
//! next request or is closed cleanly; a connection that breaks proves nothing. Delivered results are marked in the store only when room
//! becomes scarce: before that the mark is not needed, and a crash that loses it costs only room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolcrib_core::clock::UnixTime;
use toolcrib_store::Error;
use toolcrib_store::replay::{Limits, ReplayKey, ReplayStore, Room};

use crate::used::Used;

/// For how long a reading of the store's room is trusted.
const READING_TIME: Duration = Duration::from_secs(1);

/// Most delivered results that are remembered, about 6 MB. Beyond that, the oldest count as not delivered.
const MAX_DELIVERED: usize = 65_536;

/// Most delivered results that one call marks at a time: a fraction of a second on a slow database.
const BATCH: usize = 500;

/// What is known about a store's room.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    reading: Mutex<Option<Reading>>,
    delivered: Mutex<VecDeque<ReplayKey>>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// Free bytes, less what calls since the reading may need.
    free: i64,
}

impl Ledger {
    /// Takes room for the largest result. Returns `false` if there is none, even without the delivered results.
    pub(crate) async fn take(&self, store: &dyn ReplayStore, now: UnixTime) -> Result<bool, Error> {
        let limits = store.limits();
        let largest = i64::try_from(limits.largest_result()).unwrap_or(i64::MAX);
        if self.take_known(largest) {
            return Ok(true);
        }
        let mut room = store.make_room(limits.largest_result()).await?;
        // One batch for each call, so that no call waits for all delivered results; more only while there is no room.
        while is_scarce(room, &limits) && self.write_down(store, now).await? {
            room = store.make_room(limits.largest_result()).await?;
            if room.result_bytes >= largest {
                break;
            }
        }
        let free = room.result_bytes.saturating_sub(largest);
        *lock(&self.reading) = Some(Reading { at: Instant::now(), free });
        // One result may be larger than the whole limit; the first one fits anyway.
        Ok(free >= 0 || room.result_bytes >= i64::try_from(limits.result_bytes).unwrap_or(i64::MAX))
    }

    fn take_known(&self, bytes: i64) -> bool {
        let mut reading = lock(&self.reading);
        let known = reading.as_mut().filter(|reading| reading.at.elapsed() < READING_TIME && reading.free >= bytes);
        known.map(|reading| reading.free -= bytes).is_some()
    }

    /// Marks a batch of delivered results in the store, so that they may be removed. Returns whether there were any.
    pub(crate) async fn write_down(&self, store: &dyn ReplayStore, now: UnixTime) -> Result<bool, Error> {
        let keys: Vec<_> = {
            let mut delivered = lock(&self.delivered);
            let count = delivered.len().min(BATCH);
            delivered.drain(..count).collect()
        };
        if !keys.is_empty() {
            store.mark_delivered(&keys, now).await?;
        }
        Ok(!keys.is_empty())
    }

    fn delivered(&self, key: ReplayKey) {
        let mut delivered = lock(&self.delivered);
        if delivered.len() >= MAX_DELIVERED {
            delivered.pop_front();
        }
        delivered.push_back(key);
    }
}

/// Whether less than half of bytes or entries is left.
fn is_scarce(room: Room, limits: &Limits) -> bool {
    let half = |limit: u64| i64::try_from(limit / 2).unwrap_or(i64::MAX);
    room.result_bytes < half(limits.result_bytes) || room.entries < half(limits.entries)
}

/// The lock cannot be poisoned: nothing panics while it is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A paid response that is being sent, in the response's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Sold {
    pub(crate) used: Arc<Used>,
    pub(crate) key: ReplayKey,
}

impl Sold {
    /// Marks the response as delivered, since the caller has read it.
    pub(crate) fn delivered(&self) {
        self.used.ledger.delivered(self.key);
    }
}
