//! Used signatures in a store that outlives the process and is shared by replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::x402::ReplayKey;
use toolcrib_store::replay::{self, EXPIRE_BATCH, ReplayStore, Ticket};

use crate::replay::{Claim, Replay, ReplayError, Reservation, Reserve};

/// Seconds between two looks for what has expired.
const EXPIRE_EVERY: i64 = 5;

/// Batches that one look removes at most: ten thousand rows every five seconds keep up with two thousand calls a second.
const EXPIRE_BATCHES: usize = 20;

/// Any store of `toolcrib-store`: SQLite for the processes of one machine, PostgreSQL for more.
#[derive(Clone, Debug)]
pub struct StoredReplay {
    store: Arc<dyn ReplayStore>,
    expired_at: Arc<AtomicI64>,
}

impl StoredReplay {
    /// Uses a store.
    pub fn new(store: impl ReplayStore + 'static) -> Self {
        Self { store: Arc::new(store), expired_at: Arc::new(AtomicI64::new(0)) }
    }

    /// Removes what has expired, now and then, beside the request that happens to notice.
    fn expire(&self, now: UnixTime) {
        let last = self.expired_at.load(Ordering::Relaxed);
        let is_due = now.seconds().saturating_sub(last) >= EXPIRE_EVERY;
        let swap = self.expired_at.compare_exchange(last, now.seconds(), Ordering::Relaxed, Ordering::Relaxed);
        if !is_due || swap.is_err() {
            return;
        }
        let store = self.store.clone();
        tokio::spawn(async move {
            for _ in 0..EXPIRE_BATCHES {
                // A store in trouble says so to the next request.
                if !store.expire(now).await.is_ok_and(|removed| removed >= EXPIRE_BATCH) {
                    break;
                }
            }
        });
    }
}

#[async_trait]
impl Replay for StoredReplay {
    async fn reserve(&self, claim: &Claim<'_>, now: UnixTime) -> Result<Reserve, ReplayError> {
        self.expire(now);
        let reservation = replay::Reservation {
            expires_at: claim.expires_at,
            // Nobody takes it over after a crash: the caller signs anew, and nothing runs twice.
            lease_until: claim.expires_at,
            route: claim.route,
            body_hash: claim.body_hash,
            proof: None,
        };
        match self.store.reserve(&claim.key, &reservation, now).await.map_err(told)? {
            replay::Reserve::Reserved(ticket) => {
                Ok(Reserve::Reserved(Box::new(Held { store: self.store.clone(), key: claim.key, ticket })))
            }
            replay::Reserve::AlreadyUsed { .. } => Ok(Reserve::AlreadyUsed),
            replay::Reserve::Full => Ok(Reserve::Full),
        }
    }
}

#[derive(Debug)]
struct Held {
    store: Arc<dyn ReplayStore>,
    key: ReplayKey,
    ticket: Ticket,
}

#[async_trait]
impl Reservation for Held {
    async fn release(self: Box<Self>) -> Result<(), ReplayError> {
        self.store.release(&self.key, self.ticket).await.map_err(told)
    }

    async fn consume(self: Box<Self>) -> Result<(), ReplayError> {
        // Its lease ends with it, so it is used up already.
        Ok(())
    }
}

fn told(error: toolcrib_store::Error) -> ReplayError {
    ReplayError(format!("{error} ({})", error.code()))
}
