//! The transaction pool.

use std::collections::{BTreeMap, BinaryHeap};

use alloy_consensus::Transaction as _;
use alloy_primitives::map::{AddressMap, B256Map};
use alloy_primitives::{Address, B256};

use super::blocks::Tx;
use super::refusal::Rejection;
use crate::limits::MAX_POOL;

/// A replacement must raise both fees by this many percent, as in geth.
const PRICE_BUMP: u128 = 10;

#[derive(Clone, Debug)]
struct Waiting {
    tx: Tx,
    arrival: u64,
}

/// Transactions by sender and nonce.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    senders: AddressMap<BTreeMap<u64, Waiting>>,
    places: B256Map<(Address, u64)>,
    arrivals: u64,
}

impl Pool {
    /// Adds a transaction. It replaces one with the same nonce if it pays enough more.
    pub(crate) fn add(&mut self, tx: Tx) -> Result<(), Rejection> {
        let (sender, nonce, hash) = (tx.signer(), tx.nonce(), *tx.tx_hash());
        let before = self.senders.get(&sender).and_then(|queue| queue.get(&nonce));
        match before {
            Some(before) if !outbids(&tx, &before.tx) => return Err(Rejection::Underpriced),
            Some(before) => {
                let replaced = *before.tx.tx_hash();
                self.places.remove(&replaced);
            }
            None if self.places.len() >= MAX_POOL => return Err(Rejection::PoolFull),
            None => {}
        }
        self.arrivals += 1;
        self.places.insert(hash, (sender, nonce));
        self.senders.entry(sender).or_default().insert(nonce, Waiting { tx, arrival: self.arrivals });
        Ok(())
    }

    /// A transaction by its hash.
    pub(crate) fn get(&self, hash: B256) -> Option<&Tx> {
        let (sender, nonce) = self.places.get(&hash)?;
        self.senders.get(sender)?.get(nonce).map(|waiting| &waiting.tx)
    }

    /// Removes a transaction.
    pub(crate) fn remove(&mut self, hash: B256) -> Option<Tx> {
        let (sender, nonce) = self.places.remove(&hash)?;
        let queue = self.senders.get_mut(&sender)?;
        let removed = queue.remove(&nonce);
        if queue.is_empty() {
            self.senders.remove(&sender);
        }
        removed.map(|waiting| waiting.tx)
    }

    /// Removes transactions of `sender` with a nonce below `nonce`, which can never be mined any more.
    pub(crate) fn forget_below(&mut self, sender: Address, nonce: u64) {
        let Some(queue) = self.senders.get_mut(&sender) else { return };
        while let Some(first) = queue.first_entry() {
            if *first.key() >= nonce {
                break;
            }
            self.places.remove(first.remove().tx.tx_hash());
        }
        if queue.is_empty() {
            self.senders.remove(&sender);
        }
    }

    /// The first nonce from `nonce` on without a transaction of `sender` in the pool.
    pub(crate) fn next_nonce(&self, sender: Address, mut nonce: u64) -> u64 {
        if let Some(queue) = self.senders.get(&sender) {
            for waiting in queue.range(nonce..).map(|(waiting, _)| *waiting) {
                if waiting != nonce {
                    break;
                }
                nonce += 1;
            }
        }
        nonce
    }

    /// Number of transactions.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Every waiting transaction, by sender and nonce.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tx> {
        self.senders.values().flat_map(|queue| queue.values().map(|waiting| &waiting.tx))
    }

    /// Removes every transaction.
    pub(crate) fn clear(&mut self) {
        *self = Self { arrivals: self.arrivals, ..Self::default() };
    }

    /// The transactions that a block with this base fee may include: the highest priority fee first, each sender's in nonce order.
    pub(crate) fn ready(&self, base_fee: u64, nonce_of: impl Fn(Address) -> u64) -> Ready<'_> {
        let mut ready = Ready { pool: self, heap: BinaryHeap::new(), base_fee };
        for sender in self.senders.keys() {
            ready.offer(*sender, nonce_of(*sender));
        }
        ready
    }
}

/// Candidates for a block. A sender's next transaction is offered only after [`Ready::advance`].
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    pool: &'a Pool,
    /// Ordered by priority fee, then by arrival; sender and nonce find the transaction.
    heap: BinaryHeap<(u128, std::cmp::Reverse<u64>, Address, u64)>,
    base_fee: u64,
}

impl<'a> Ready<'a> {
    /// The best candidate.
    pub(crate) fn pop(&mut self) -> Option<&'a Tx> {
        let (_, _, sender, nonce) = self.heap.pop()?;
        self.pool.senders.get(&sender)?.get(&nonce).map(|waiting| &waiting.tx)
    }

    /// Offers the sender's next transaction after this one was included.
    pub(crate) fn advance(&mut self, tx: &Tx) {
        if let Some(next) = tx.nonce().checked_add(1) {
            self.offer(tx.signer(), next);
        }
    }

    fn offer(&mut self, sender: Address, nonce: u64) {
        let Some(waiting) = self.pool.senders.get(&sender).and_then(|queue| queue.get(&nonce)) else { return };
        if let Some(tip) = waiting.tx.effective_tip_per_gas(self.base_fee) {
            self.heap.push((tip, std::cmp::Reverse(waiting.arrival), sender, nonce));
        }
    }
}

fn outbids(new: &Tx, old: &Tx) -> bool {
    let raised = |new: u128, old: u128| new >= old.saturating_add(old.saturating_mul(PRICE_BUMP) / 100) && new > old;
    let tip = |tx: &Tx| tx.max_priority_fee_per_gas().unwrap_or_else(|| tx.max_fee_per_gas());
    raised(new.max_fee_per_gas(), old.max_fee_per_gas()) && (raised(tip(new), tip(old)) || tip(old) == 0)
}
