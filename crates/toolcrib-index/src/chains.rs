//! The chains that this process has RPC nodes for.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_chain::rpc::Chain;

/// The chains that this process has RPC nodes for, by chain id. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Chains(Arc<BTreeMap<u64, Chain>>);

impl Chains {
    /// Returns the chain with this id, if it is configured.
    pub fn get(&self, chain: u64) -> Option<&Chain> {
        self.0.get(&chain)
    }

    /// Iterates over all chains.
    pub fn iter(&self) -> impl Iterator<Item = &Chain> {
        self.0.values()
    }
}

impl FromIterator<Chain> for Chains {
    fn from_iter<I: IntoIterator<Item = Chain>>(chains: I) -> Self {
        Self(Arc::new(chains.into_iter().map(|chain| (chain.chain_id(), chain)).collect()))
    }
}
