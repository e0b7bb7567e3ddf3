//! The chains that this process can ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_chain::rpc::Chain;

/// The chains that this process can ask, by number. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Chains(Arc<BTreeMap<u64, Chain>>);

impl Chains {
    /// The chain with this number, if it was configured.
    pub fn get(&self, chain: u64) -> Option<&Chain> {
        self.0.get(&chain)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Chain> {
        self.0.values()
    }
}

impl FromIterator<Chain> for Chains {
    fn from_iter<I: IntoIterator<Item = Chain>>(chains: I) -> Self {
        Self(Arc::new(chains.into_iter().map(|chain| (chain.chain_id(), chain)).collect()))
    }
}
