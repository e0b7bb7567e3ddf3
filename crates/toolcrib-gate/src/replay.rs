//! A signature is good for one call.
//!
//! [`Replay`] is what a gate needs from a store: take a [`ReplayKey`] for one request, then use it up or give it back. The store
//! of this file is [`MemoryReplay`], for one process. [`StoredReplay`](crate::StoredReplay) is on a database, for several and across
//! restarts.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::B256;
use async_trait::async_trait;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::x402::ReplayKey;

/// Signatures that [`MemoryReplay`] remembers at most, unless told otherwise. One takes about 300 bytes, so that is some 300 MB
/// in the worst case, and more than a thousand calls a second for as long as a signature can be valid.
pub const DEFAULT_REMEMBERED: usize = 1_000_000;

/// Expired entries that one reservation clears away at most, so that no request waits for all the others.
const CLEARED_AT_ONCE: usize = 64;

/// Where used signatures are kept. Shared by all tools of an operator: those with the same recipient take the same signatures.
#[async_trait]
pub trait Replay: fmt::Debug + Send + Sync {
    /// Takes a signature for one request. Of any number of callers exactly one gets [`Reserve::Reserved`].
    async fn reserve(&self, claim: &Claim<'_>, now: UnixTime) -> Result<Reserve, ReplayError>;
}

/// A signature that belongs to this request. Dropped without a word it stays taken until it expires.
#[async_trait]
pub trait Reservation: fmt::Debug + Send {
    /// Gives it back: nothing was done for it.
    async fn release(self: Box<Self>) -> Result<(), ReplayError>;

    /// Uses it up for good.
    async fn consume(self: Box<Self>) -> Result<(), ReplayError>;
}

/// What is reserved.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The signature.
    pub key: ReplayKey,
    /// From when on nobody accepts it any more, skew included.
    pub expires_at: UnixTime,
    /// Which tool and path the request is for.
    pub route: &'c str,
    /// keccak256 of the request's body.
    pub body_hash: B256,
}

/// The answer to [`Replay::reserve`].
#[derive(Debug)]
pub enum Reserve {
    /// It is this request's.
    Reserved(Box<dyn Reservation>),
    /// It was used, or another request is using it.
    AlreadyUsed,
    /// No room: it must not be accepted.
    Full,
}

/// The store could not say. Its words are for operators.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the replay store does not answer: {0}")]
pub struct ReplayError(pub String);

/// A bounded store in the memory of one process. It forgets everything when the process ends, which leaves signatures usable
/// again for as long as they are valid: for a tool whose calls may not be repeated after a restart, use
/// [`StoredReplay`](crate::StoredReplay).
#[derive(Clone)]
pub struct MemoryReplay {
    shared: Arc<Mutex<Memory>>,
    most: usize,
}

#[derive(Default)]
struct Memory {
    entries: HashMap<ReplayKey, Entry>,
    by_end: BTreeSet<(i64, ReplayKey)>,
    tickets: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    ends: i64,
    ticket: u64,
}

impl Default for MemoryReplay {
    fn default() -> Self {
        Self::new(DEFAULT_REMEMBERED)
    }
}

impl MemoryReplay {
    /// A store for so many signatures.
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most }
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // Nothing under the lock panics half-way through a change.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReplay").field("most", &self.most).finish_non_exhaustive()
    }
}

#[async_trait]
impl Replay for MemoryReplay {
    async fn reserve(&self, claim: &Claim<'_>, now: UnixTime) -> Result<Reserve, ReplayError> {
        let mut memory = self.lock();
        memory.clear(now.seconds());
        if memory.entries.get(&claim.key).is_some_and(|entry| entry.ends > now.seconds()) {
            return Ok(Reserve::AlreadyUsed);
        }
        memory.remove(&claim.key);
        if memory.entries.len() >= self.most {
            return Ok(Reserve::Full);
        }
        memory.tickets += 1;
        let entry = Entry { ends: claim.expires_at.seconds(), ticket: memory.tickets };
        memory.entries.insert(claim.key, entry);
        memory.by_end.insert((entry.ends, claim.key));
        Ok(Reserve::Reserved(Box::new(Held { store: self.clone(), key: claim.key, ticket: entry.ticket })))
    }
}

impl Memory {
    fn clear(&mut self, now: i64) {
        for _ in 0..CLEARED_AT_ONCE {
            let Some((_, key)) = self.by_end.first().copied().filter(|(ends, _)| *ends <= now) else { break };
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &ReplayKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_end.remove(&(entry.ends, *key));
        }
    }
}

#[derive(Debug)]
struct Held {
    store: MemoryReplay,
    key: ReplayKey,
    ticket: u64,
}

#[async_trait]
impl Reservation for Held {
    async fn release(self: Box<Self>) -> Result<(), ReplayError> {
        let mut memory = self.store.lock();
        // A late release must not free what another has reserved since.
        if memory.entries.get(&self.key).is_some_and(|entry| entry.ticket == self.ticket) {
            memory.remove(&self.key);
        }
        Ok(())
    }

    async fn consume(self: Box<Self>) -> Result<(), ReplayError> {
        // It is in the store until it expires, and that is all there is to it.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::*;

    fn claim(nonce: u64, ends: i64) -> Claim<'static> {
        let key = ReplayKey {
            chain: 8453,
            asset: Address::repeat_byte(1),
            from: Address::repeat_byte(2),
            nonce: B256::left_padding_from(&nonce.to_be_bytes()),
        };
        Claim { key, expires_at: UnixTime::from_seconds(ends), route: "/a", body_hash: B256::ZERO }
    }

    async fn reserve(store: &MemoryReplay, nonce: u64, ends: i64, now: i64) -> Reserve {
        store.reserve(&claim(nonce, ends), UnixTime::from_seconds(now)).await.expect("memory answers")
    }

    // req: PAY-005
    #[tokio::test]
    async fn one_of_many_gets_it() {
        let store = MemoryReplay::new(10);
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { matches!(reserve(&store, 7, 100, 1).await, Reserve::Reserved(_)) })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += usize::from(task.await.expect("no panic"));
        }
        assert_eq!((won, store.len()), (1, 1));
    }

    #[tokio::test]
    async fn what_is_released_is_free_and_what_is_consumed_is_not() {
        let store = MemoryReplay::new(10);
        let Reserve::Reserved(first) = reserve(&store, 1, 100, 1).await else { panic!("free") };
        first.release().await.expect("memory answers");
        assert!(store.is_empty());
        let Reserve::Reserved(second) = reserve(&store, 1, 100, 1).await else { panic!("free again") };
        second.consume().await.expect("memory answers");
        assert!(matches!(reserve(&store, 1, 100, 99).await, Reserve::AlreadyUsed));
        // The end itself is past it.
        let Reserve::Reserved(_) = reserve(&store, 1, 200, 100).await else { panic!("expired") };
    }

    #[tokio::test]
    async fn a_late_release_frees_nothing_of_another() {
        let store = MemoryReplay::new(10);
        let Reserve::Reserved(late) = reserve(&store, 1, 100, 1).await else { panic!("free") };
        let Reserve::Reserved(_other) = reserve(&store, 1, 300, 200).await else { panic!("expired") };
        late.release().await.expect("memory answers");
        assert!(matches!(reserve(&store, 1, 300, 201).await, Reserve::AlreadyUsed));
    }

    #[tokio::test]
    async fn a_full_store_takes_no_more_until_something_expires() {
        let store = MemoryReplay::new(2);
        for nonce in 0..2 {
            assert!(matches!(reserve(&store, nonce, 100, 1).await, Reserve::Reserved(_)));
        }
        assert!(matches!(reserve(&store, 2, 100, 1).await, Reserve::Full));
        assert!(matches!(reserve(&store, 0, 100, 1).await, Reserve::AlreadyUsed), "what is known is still known");
        assert!(matches!(reserve(&store, 2, 200, 100).await, Reserve::Reserved(_)));
        assert_eq!(store.len(), 1);
    }
}
