//! The newest blocks that were seen of each chain.
//!
//! Nodes behind one address, and those that are asked when the first one fails, are not equally far. A block that one of them has shown
//! is there, whatever the next one says, and a transfer in it was made before a payment that is taken now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_chain::rpc::Chain;

/// For how long a block counts that no other node has shown. A node that is further behind has other troubles; and one that names a
/// block which does not exist is believed no longer than this.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The newest block of each chain, and when it was seen. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads(Arc<Mutex<BTreeMap<u64, (u64, Instant)>>>);

impl Heads {
    /// Notes the newest block of a node, and returns the newest one of all that were asked a moment ago.
    pub(super) fn newest(&self, chain: &Chain, number: u64) -> u64 {
        // A local chain is one node, and can begin anew.
        if chain.network().is_local {
            return number;
        }
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (newest, at) = heads.entry(chain.chain_id()).or_insert_with(|| (number, Instant::now()));
        if number >= *newest || at.elapsed() >= REMEMBERED {
            (*newest, *at) = (number, Instant::now());
        }
        *newest
    }
}
