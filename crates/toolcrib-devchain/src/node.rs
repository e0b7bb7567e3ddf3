//! The chain behind its lock, and what it tells those who listen.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, broadcast};

use crate::chain::{Chain, Event};
use crate::limits::MAX_SUBSCRIBER_LAG;

/// An event and its place in the order of all events.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) event: Event,
}

/// One running chain, shared by every connection.
#[derive(Debug)]
pub(crate) struct Node {
    inner: Mutex<Inner>,
    events: broadcast::Sender<Arc<Numbered>>,
    /// Rung when the way of mining changed.
    pub(crate) mining_changed: Notify,
}

#[derive(Debug)]
struct Inner {
    chain: Chain,
    sequence: u64,
}

impl Node {
    pub(crate) fn new(chain: Chain) -> Self {
        let (events, _) = broadcast::channel(MAX_SUBSCRIBER_LAG);
        Self { inner: Mutex::new(Inner { chain, sequence: 0 }), events, mining_changed: Notify::new() }
    }

    /// Does something with the chain. Synchronous, so the lock can never be held across an await; what happened is announced
    /// before it is released, so that everybody hears it in the same order.
    pub(crate) fn with<T>(&self, action: impl FnOnce(&mut Chain) -> T) -> T {
        // A panic inside the EVM must not take every later request with it.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mining = inner.chain.mining;
        let result = action(&mut inner.chain);
        for event in inner.chain.take_events() {
            inner.sequence += 1;
            // Nobody listening is no error.
            let _ = self.events.send(Arc::new(Numbered { sequence: inner.sequence, event }));
        }
        if inner.chain.mining != mining {
            self.mining_changed.notify_one();
        }
        result
    }

    /// Every event from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<Numbered>> {
        self.events.subscribe()
    }

    /// The number of the latest event.
    pub(crate) fn sequence(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).sequence
    }
}
