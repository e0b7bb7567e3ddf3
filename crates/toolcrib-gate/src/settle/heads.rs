//! The newest block seen on each chain.
//!
//! Nodes behind one URL, and fallback nodes, are not equally up to date. A block that one of them has shown exists, whatever the next one
//! says, and a transfer in it was made before a payment that is reserved now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_chain::rpc::Chain;

/// For how long a block counts that no other node has shown.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Most blocks that a node may lag behind another one: those of [`REMEMBERED`] on a chain with four blocks a second, and some more. A head
/// further ahead counts as an error; otherwise one wrong response would make every payment of the next minute older than its reservation.
const MAX_LEAD: u64 = 300;

/// The newest block of each chain, and when it was seen. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads(Arc<Mutex<BTreeMap<u64, (u64, Instant)>>>);

impl Heads {
    /// Records a node's newest block, and returns the newest one of all nodes that were asked recently.
    pub(super) fn newest(&self, chain: &Chain, number: u64) -> u64 {
        // A local chain has one node, and can restart from block 0.
        if chain.network().is_local { number } else { self.newest_of(chain.chain_id(), number) }
    }

    fn newest_of(&self, chain_id: u64, number: u64) -> u64 {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (newest, at) = heads.entry(chain_id).or_insert_with(|| (number, Instant::now()));
        if number >= *newest || *newest - number > MAX_LEAD || at.elapsed() >= REMEMBERED {
            (*newest, *at) = (number, Instant::now());
        }
        *newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_block_that_any_node_has_shown_counts_for_a_while() {
        let heads = Heads::default();
        assert_eq!(heads.newest_of(1, 100), 100);
        assert_eq!(heads.newest_of(1, 98), 100, "another node is behind");
        assert_eq!(heads.newest_of(8453, 7), 7, "another chain");
        assert_eq!(heads.newest_of(1, 101), 101);
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(heads.newest_of(1, 99), 99, "nothing newer was seen for a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_cannot_be_is_not_remembered() {
        let heads = Heads::default();
        heads.newest_of(1, u64::MAX);
        assert_eq!(heads.newest_of(1, 100), 100, "one wrong answer makes no payment old");
        heads.newest_of(1, 100 + MAX_LEAD);
        assert_eq!(heads.newest_of(1, 100), 100 + MAX_LEAD);
    }
}
