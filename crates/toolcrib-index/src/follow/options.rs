//! How to follow.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_chain::network::Network;
use toolcrib_chain::registry::MAX_COMPARED;
use toolcrib_core::clock::Clock;

/// How to follow.
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Who knows what time it is.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// The first block that can have events of the registry, for a registry that is not in the index yet.
    pub first_block: u64,
    /// How often the head is asked for.
    pub poll: Duration,
    /// For how many seconds a follower is believed to be alive after it last said so. Another takes over then.
    pub lease_seconds: i64,
    /// Blocks after which one is never taken back, where the chain does not say.
    pub finality_depth: u64,
    /// Whether a head below the checkpoint means that the chain was taken back, and not that the node is behind. True for local chains,
    /// which people rewind.
    pub shrinks: bool,
    /// Blocks of the first range. Ranges grow quickly where little happens; one that is too large is read for nothing.
    pub first_range: u64,
    /// Blocks of the largest range. Public nodes rarely allow more.
    pub largest_range: u64,
    /// Whether the registry numbers its tools from 1 without gaps, as ERC-8257 asks for. Missing numbers then mean missing logs, and nothing is
    /// taken in over them. False for registries that do not, which can be checked less.
    pub numbering: bool,
    /// Headers that are checked against the logs of each range of old blocks. Near the head every header is.
    pub headers_per_range: u64,
    /// One in so many ranges of old blocks is read a second time, in parts and from another node if there is one; 0 for none.
    pub second_reads: u64,
    /// Tools that are compared with the registry's state at each step near the head; 0 for none.
    pub audited_tools: u16,
    /// How often all tools are compared.
    pub audit_every: Duration,
    /// For how long a block is asked for again whose header promises events that no node gives and no node can rule out. Anybody can emit logs
    /// that make a header promise something, so this has an end; it is counted in the metrics then.
    pub doubt: Duration,
    /// The pause before a rescan is repeated in which answers contradicted each other. It doubles each time, up to a day.
    pub rescan_pause: Duration,
    /// How long a registry's past is taken in without the indexes that readers need. Then there are few enough rows to make them at once,
    /// and whoever reads meanwhile need not wait for the end.
    pub without_indexes: Duration,
}

impl FollowOptions {
    /// What suits a network.
    pub fn of(network: &Network, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self {
            clock,
            first_block: 0,
            poll: Duration::from_secs(2),
            lease_seconds: 15,
            finality_depth: finality_depth(network.chain_id),
            shrinks: network.is_local,
            first_range: 100,
            largest_range: 10_000,
            numbering: true,
            headers_per_range: 4,
            second_reads: 20,
            audited_tools: MAX_COMPARED,
            audit_every: Duration::from_secs(3_600),
            doubt: Duration::from_secs(600),
            rescan_pause: Duration::from_secs(600),
            without_indexes: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowOptions").field("first_block", &self.first_block).field("poll", &self.poll).finish_non_exhaustive()
    }
}

/// Blocks after which others, who have followed these chains for years, believe a block for good.
const fn finality_depth(chain: u64) -> u64 {
    match chain {
        1 => 65,
        137 => 200,
        42_161 => 240,
        _ => 64,
    }
}
