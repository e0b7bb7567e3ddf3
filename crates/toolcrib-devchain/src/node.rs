//! The chain behind a lock, and its events for subscribers.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, broadcast};

use crate::chain::{Chain, Event};
use crate::limits::MAX_SUBSCRIBER_LAG;

/// An event with its sequence number.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) event: Event,
}

/// A running chain, shared by every connection.
#[derive(Debug)]
pub(crate) struct Node {
    inner: Mutex<Inner>,
    events: broadcast::Sender<Arc<Numbered>>,
    /// Notified when the mining mode changes.
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

    /// Runs an action on the chain. It is synchronous, so the lock is never held across an await; events are sent
    /// before the lock is released, so that all subscribers get them in the same order.
    pub(crate) fn with<T>(&self, action: impl FnOnce(&mut Chain) -> T) -> T {
        // A panic inside the EVM must not fail all later requests.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mining = inner.chain.mining;
        let result = action(&mut inner.chain);
        for event in inner.chain.take_events() {
            inner.sequence += 1;
            // There may be no subscribers.
            let _ = self.events.send(Arc::new(Numbered { sequence: inner.sequence, event }));
        }
        if inner.chain.mining != mining {
            self.mining_changed.notify_one();
        }
        result
    }

    /// Subscribes to all further events.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<Numbered>> {
        self.events.subscribe()
    }

    /// The sequence number of the latest event.
    pub(crate) fn sequence(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).sequence
    }
}
