//! The connections of a server: their number, their networks, and the idle ones that may be closed for others.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::Limits;
use crate::network::Network;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Registry {
    limits: Limits,
    begun: Instant,
    state: Mutex<State>,
    /// Notified when the last connection is closed.
    empty: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: usize,
    /// By number, in the order of acceptance.
    networks: HashMap<Network, BTreeMap<u64, Arc<Entry>>>,
    handshaking: BTreeMap<u64, Arc<Entry>>,
    /// A lower limit of connections, and its start: the process was out of file descriptors.
    lowered: Option<(usize, Instant)>,
}

impl State {
    /// Returns the current limit of connections.
    fn most(&mut self, limits: &Limits) -> usize {
        if self.lowered.is_some_and(|(_, since)| since.elapsed() >= LOWERED_FOR) {
            self.lowered = None;
        }
        self.lowered.map_or(limits.connections, |(most, _)| most.min(limits.connections))
    }
}

/// How long a lower limit applies. What used up the descriptors may have ended by then.
const LOWERED_FOR: Duration = Duration::from_secs(60);

/// When descriptors run out, one connection in 16 is closed for files and connections of other parts of the process.
const SPARE: usize = 16;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Entry {
    number: u64,
    network: Network,
    phase: AtomicU8,
    /// A write waits for the peer.
    is_writing: AtomicBool,
    /// Milliseconds from the start of the server to the time at which it became idle.
    idle_since: AtomicU64,
    is_evicted: AtomicBool,
    evict: Notify,
    begun: Instant,
}

/// No request is being answered: nothing has arrived, or a part of a head.
const IDLE: u8 = 0;
/// A request is being answered.
const BUSY: u8 = 1;
/// The connection has switched to another protocol.
const UPGRADED: u8 = 2;

impl Registry {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, begun: Instant::now(), state: Mutex::default(), empty: Notify::new() })
    }

    /// Takes a slot for a new connection, and closes an idle one if necessary. `None` if there is no slot.
    pub(crate) fn admit(self: &Arc<Self>, network: Network, is_handshaking: bool) -> Option<ConnectionGuard> {
        let mut state = self.lock();
        if let (Some(most), Some(own)) = (self.limits.per_network, state.networks.get(&network)) {
            // Evicted connections may still be closing. They are not counted as staying.
            let staying = own.values().filter(|entry| !entry.is_evicted.load(Ordering::Relaxed)).count();
            if staying >= most && !evict_idle(own) {
                return None;
            }
        }
        if state.open >= state.most(&self.limits) && !evict_from_largest(&state.networks) {
            return None;
        }
        if is_handshaking
            && state.handshaking.len() >= self.limits.handshakes
            && let Some((_, oldest)) = state.handshaking.pop_first()
        {
            oldest.evict();
        }
        state.next += 1;
        state.open += 1;
        let entry = Arc::new(Entry {
            number: state.next,
            network,
            phase: AtomicU8::new(IDLE),
            is_writing: AtomicBool::new(false),
            idle_since: AtomicU64::new(self.begun.elapsed().as_millis() as u64),
            is_evicted: AtomicBool::new(false),
            evict: Notify::new(),
            begun: self.begun,
        });
        state.networks.entry(network).or_default().insert(entry.number, entry.clone());
        if is_handshaking {
            state.handshaking.insert(entry.number, entry.clone());
        }
        Some(ConnectionGuard { registry: self.clone(), entry })
    }

    /// Makes room for a process that is out of file descriptors: closes idle connections of the networks with the most, and lowers the
    /// limit for a while. Returns how many were evicted.
    pub(crate) fn make_room(&self) -> usize {
        let mut state = self.lock();
        let spare = state.open.div_ceil(SPARE);
        state.lowered = Some((state.open.saturating_sub(spare).max(1), Instant::now()));
        (0..spare).take_while(|_| evict_from_largest(&state.networks)).count()
    }

    /// Returns when no connection is open.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            let mut told = std::pin::pin!(self.empty.notified());
            told.as_mut().enable();
            if self.lock().open == 0 {
                return;
            }
            told.await;
        }
    }

    fn remove(&self, entry: &Entry) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(1);
        state.handshaking.remove(&entry.number);
        if let Some(own) = state.networks.get_mut(&entry.network) {
            own.remove(&entry.number);
            if own.is_empty() {
                state.networks.remove(&entry.network);
            }
        }
        if state.open == 0 {
            self.empty.notify_waiters();
        }
    }

    /// The lock cannot be poisoned: nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the connection that has been idle longest. Returns `false` if none is idle.
fn evict_idle(connections: &BTreeMap<u64, Arc<Entry>>) -> bool {
    let idle = connections.values().filter(|entry| entry.is_idle() && !entry.is_evicted.load(Ordering::Relaxed));
    let longest = idle.min_by_key(|entry| entry.idle_since.load(Ordering::Relaxed));
    longest.map(|entry| entry.evict()).is_some()
}

/// Evicts one of the network with the most connections, or of the next networks.
fn evict_from_largest(networks: &HashMap<Network, BTreeMap<u64, Arc<Entry>>>) -> bool {
    let largest = networks.values().max_by_key(|connections| connections.len());
    largest.is_some_and(evict_idle) || networks.values().any(evict_idle)
}

impl Entry {
    /// Returns whether the connection could be closed without interrupting anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == IDLE && !self.is_writing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Marks the connection as switched to another protocol, and never idle.
    pub(crate) fn upgrade(&self) {
        self.phase.store(UPGRADED, Ordering::Relaxed);
    }

    /// Marks a request as being answered until the guard is dropped.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        // The phase of an upgraded connection does not change.
        let _ = self.phase.compare_exchange(IDLE, BUSY, Ordering::Relaxed, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Waits until the connection has to close if it is idle.
    pub(crate) async fn evicted(&self) {
        self.evict.notified().await;
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Relaxed);
        self.evict.notify_one();
    }
}

/// Guard of a request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Entry>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
        let _ = self.0.phase.compare_exchange(BUSY, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The slot of one connection, released when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    registry: Arc<Registry>,
    entry: Arc<Entry>,
}

impl ConnectionGuard {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.registry.remove(&self.entry);
    }
}

impl Registry {
    /// Marks the handshake of a connection as done.
    pub(crate) fn shook_hands(&self, entry: &Entry) {
        self.lock().handshaking.remove(&entry.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Network {
        Network::of([192, 0, 2, last].into())
    }

    fn registry(connections: usize, per_network: Option<usize>) -> Arc<Registry> {
        Registry::new(Limits { connections, per_network, handshakes: 2, ..Limits::default() })
    }

    fn is_told_to_go(place: &ConnectionGuard) -> bool {
        place.entry().is_evicted.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_loses_its_own_connections_and_no_other() {
        let registry = registry(100, Some(2));
        let other = registry.admit(network(2), false).expect("a place");
        let first = registry.admit(network(1), false).expect("a place");
        let second = registry.admit(network(1), false).expect("a place");
        // The first becomes idle after the second did.
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(first.entry().answering());
        let third = registry.admit(network(1), false).expect("an idle one goes");
        assert!(is_told_to_go(&second) && !is_told_to_go(&first) && !is_told_to_go(&other));
        second.entry().evicted().await;
        drop(second);
        let _busy = [first.entry().answering(), third.entry().answering()];
        assert!(registry.admit(network(1), false).is_none(), "none is idle");
        assert!(registry.admit(network(3), false).is_some(), "others are not concerned");
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_total_the_largest_network_pays() {
        let registry = registry(4, Some(3));
        let largest: Vec<_> = (0..3).map(|_| registry.admit(network(1), false).expect("a place")).collect();
        let other = registry.admit(network(2), false).expect("a place");
        let third = registry.admit(network(3), false).expect("one of the largest goes");
        assert!(is_told_to_go(&largest[0]) && !is_told_to_go(&other));
        let _busy: Vec<_> = largest.iter().map(|place| place.entry().answering()).collect();
        let _fourth = registry.admit(network(4), false).expect("another one that is idle goes");
        assert!(is_told_to_go(&other) || is_told_to_go(&third));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_without_descriptors_takes_fewer_connections_for_a_while() {
        let registry = registry(100, None);
        let mut places: Vec<_> = (0..32).map(|_| registry.admit(network(1), false).expect("a place")).collect();
        assert_eq!(registry.make_room(), 2);
        places.retain(|place| !is_told_to_go(place));
        assert_eq!(places.len(), 30);
        let _busy: Vec<_> = places.iter().map(|place| place.entry().answering()).collect();
        assert!(registry.admit(network(2), false).is_none(), "as many as there are descriptors for");
        tokio::time::advance(LOWERED_FOR).await;
        assert!(registry.admit(network(2), false).is_some());
    }

    #[tokio::test]
    async fn what_is_written_or_upgraded_is_not_idle() {
        let registry = registry(100, Some(1));
        let place = registry.admit(network(1), false).expect("a place");
        place.entry().set_writing(true);
        assert!(registry.admit(network(1), false).is_none());
        place.entry().set_writing(false);
        place.entry().upgrade();
        drop(place.entry().answering());
        assert!(registry.admit(network(1), false).is_none());
        drop(place);
        assert!(registry.admit(network(1), false).is_some());
        registry.wait_until_empty().await;
    }

    #[tokio::test]
    async fn the_oldest_handshake_goes_first() {
        let registry = registry(100, None);
        let places: Vec<_> = (0..4).map(|_| registry.admit(network(1), true).expect("a place")).collect();
        assert_eq!(places.iter().map(is_told_to_go).collect::<Vec<_>>(), [true, true, false, false]);
        registry.shook_hands(places[2].entry());
        let _more = registry.admit(network(1), true).expect("a place");
        assert!(!is_told_to_go(&places[3]));
    }
}
