//! Options of following a registry.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_chain::network::Network;
use toolcrib_chain::registry::MAX_COMPARED;
use toolcrib_core::clock::Clock;

/// Options of following a registry.
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowOptions {
    /// The clock.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// The first block that can have events of the registry, for a registry that is not in the index yet.
    pub first_block: u64,
    /// How often the chain head is polled.
    pub poll: Duration,
    /// The duration of the lease in seconds. After it expires another follower takes over.
    pub lease_seconds: i64,
    /// The number of blocks after which a block is final, if the chain does not say.
    pub finality_depth: u64,
    /// Whether a head below the checkpoint means that the chain was rewound, instead of a node that is behind. True for local chains,
    /// which developers rewind.
    pub shrinks: bool,
    /// The size of the first range in blocks. Ranges grow quickly if they have few events; a request for one that is too large is wasted.
    pub first_range: u64,
    /// The maximum size of a range in blocks. Public nodes rarely allow more.
    pub largest_range: u64,
    /// Whether the registry numbers its tools from 1 without gaps, as ERC-8257 requires. Missing numbers then mean missing logs, and the
    /// follower does not advance past them. False for registries that do not, which allow fewer checks.
    pub numbering: bool,
    /// The number of headers checked against the logs of each range of old blocks. Near the head every header is checked.
    pub headers_per_range: u64,
    /// Every n-th range of old blocks is read a second time, in parts and from another node if there is one; 0 for none.
    pub second_reads: u64,
    /// The number of tools compared with the registry's state at each step near the head; 0 for none.
    pub audited_tools: u16,
    /// How often all tools are compared.
    pub audit_every: Duration,
    /// For how long the follower retries a block whose header matches events that no node returns and no node can rule out. Any account
    /// can emit logs that make a bloom filter match, so this is limited; after it the block is counted in the metrics.
    pub doubt: Duration,
    /// The pause before a rescan with contradictory responses is repeated. It doubles each time, up to a day.
    pub rescan_pause: Duration,
    /// How long a backfill runs without the indexes that readers need. At that point there are few enough rows to build them at once, and
    /// readers need not wait for the end of the backfill.
    pub without_indexes: Duration,
}

impl FollowOptions {
    /// Returns the defaults for a network.
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

/// Returns the finality depth that long-established services use for these chains.
const fn finality_depth(chain: u64) -> u64 {
    match chain {
        1 => 65,
        137 => 200,
        42_161 => 240,
        _ => 64,
    }
}
