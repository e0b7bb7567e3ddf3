//! Room for results: looked for before a call runs, and made by letting go of results that callers have.
//!
//! A result is kept so that a payer whose answer was lost can come back for it. An answer counts as delivered when its connection
//! brings the next request or is closed in order; a connection that breaks shows nothing. Delivered results are written down as such
//! only when room becomes scarce: until then nobody asks, and a crash that forgets them loses nothing but room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolcrib_core::clock::UnixTime;
use toolcrib_store::Error;
use toolcrib_store::replay::{Limits, ReplayKey, ReplayStore, Room};

use crate::used::Used;

/// For how long a reading of the store's room is believed.
const READING_TIME: Duration = Duration::from_secs(1);

/// Delivered results that are remembered at most, about 6 MB. Of the oldest it is forgotten that they were delivered.
const MAX_DELIVERED: usize = 65_536;

/// Delivered results that one call writes down at a time: a fraction of a second on a slow database.
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
    /// Bytes that were free, less what calls since then may need.
    free: i64,
}

impl Ledger {
    /// Takes room for the largest result. `false` when there is none, even without the results that were delivered.
    pub(crate) async fn take(&self, store: &dyn ReplayStore, now: UnixTime) -> Result<bool, Error> {
        let limits = store.limits();
        let largest = i64::try_from(limits.largest_result()).unwrap_or(i64::MAX);
        if self.take_known(largest) {
            return Ok(true);
        }
        let mut room = store.make_room(limits.largest_result()).await?;
        // One batch a call, so that none waits for all that was ever delivered; more only while there is no room.
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

    /// Writes down which results were delivered, a batch of them, so that they may go. Gives whether there were any.
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

/// Less than half is left of something.
fn is_scarce(room: Room, limits: &Limits) -> bool {
    let half = |limit: u64| i64::try_from(limit / 2).unwrap_or(i64::MAX);
    room.result_bytes < half(limits.result_bytes) || room.entries < half(limits.entries)
}

/// Nothing panics while it is locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A paid answer on its way, in the extensions of the response.
#[derive(Clone, Debug)]
pub(crate) struct Sold {
    pub(crate) used: Arc<Used>,
    pub(crate) key: ReplayKey,
}

impl Sold {
    /// The caller has read the answer.
    pub(crate) fn delivered(&self) {
        self.used.ledger.delivered(self.key);
    }
}
