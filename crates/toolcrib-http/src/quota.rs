//! Quotas: a number of units for all clients together, and a share for each client network.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::network::Network;

/// A quota of units that are held for a while: open streams, or bytes of bodies that are being read.
///
/// Clients without a known address count as one network.
#[derive(Debug)]
pub struct Quota {
    total: usize,
    per_network: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    networks: HashMap<Option<Network>, usize>,
}

impl Quota {
    /// Returns a quota of `total` units. One network may hold `per_network` of them.
    pub fn new(total: usize, per_network: usize) -> Arc<Self> {
        Arc::new(Self { total, per_network, state: Mutex::default() })
    }

    /// Takes units for a client, until the hold is dropped. `None` if the total or the share of its network is used up.
    pub fn take(self: &Arc<Self>, network: Option<Network>, units: usize) -> Option<Hold> {
        let mut hold = Hold { quota: self.clone(), network, units: 0 };
        hold.grow(units).then_some(hold)
    }

    /// Returns the units in use.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    fn add(&self, network: Option<Network>, units: usize) -> bool {
        let mut state = self.lock();
        let held = state.networks.get(&network).copied().unwrap_or_default();
        let fits = |used: usize, most: usize| used.checked_add(units).is_some_and(|sum| sum <= most);
        if !fits(state.used, self.total) || !fits(held, self.per_network) {
            return false;
        }
        if units > 0 {
            state.used += units;
            state.networks.insert(network, held + units);
        }
        true
    }

    fn give_back(&self, network: Option<Network>, units: usize) {
        if units == 0 {
            return;
        }
        let mut state = self.lock();
        state.used = state.used.saturating_sub(units);
        if let Entry::Occupied(mut entry) = state.networks.entry(network) {
            let left = entry.get().saturating_sub(units);
            if left == 0 {
                entry.remove();
            } else {
                *entry.get_mut() = left;
            }
        }
    }

    /// The lock cannot be poisoned: nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Units of a [`Quota`], released when this is dropped.
#[derive(Debug)]
pub struct Hold {
    quota: Arc<Quota>,
    network: Option<Network>,
    units: usize,
}

impl Hold {
    /// Takes more units. Returns `false` if there are not enough, and then takes none.
    #[must_use]
    pub fn grow(&mut self, units: usize) -> bool {
        let is_taken = self.quota.add(self.network, units);
        if is_taken {
            self.units += units;
        }
        is_taken
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.quota.give_back(self.network, self.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Option<Network> {
        Some(Network::of([192, 0, 2, last].into()))
    }

    #[test]
    fn a_network_cannot_hold_everything() {
        let quota = Quota::new(5, 2);
        let _first = quota.take(network(1), 1).expect("there is room");
        let second = quota.take(network(1), 1).expect("there is room");
        assert!(quota.take(network(1), 1).is_none(), "its share is used up");
        let _others = [2, 3].map(|last| quota.take(network(last), 1).expect("there is room"));
        let _unknown = quota.take(None, 1).expect("there is room");
        assert!(quota.take(network(4), 1).is_none(), "all are held");
        drop(second);
        assert!(quota.take(network(4), 1).is_some());
        assert_eq!(quota.used(), 4);
    }

    #[test]
    fn a_hold_grows_and_gives_everything_back() {
        let quota = Quota::new(100, 60);
        let mut hold = quota.take(network(1), 0).expect("nothing is asked for");
        assert!(hold.grow(50) && !hold.grow(11) && hold.grow(10) && !hold.grow(usize::MAX));
        assert_eq!(quota.used(), 60);
        drop(hold);
        assert_eq!(quota.used(), 0);
        assert!(quota.lock().networks.is_empty(), "networks that hold nothing are forgotten");
    }
}
