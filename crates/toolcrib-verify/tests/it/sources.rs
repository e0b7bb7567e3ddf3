//! Tools with a given configuration, without a chain.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::Error;
use toolcrib_core::caip::ToolRef;
use toolcrib_judge::evidence::{ChainReads, ConfigRead, ToolConfig, ToolState};
use toolcrib_verify::ToolSource;

/// A registry that does not exist.
pub(crate) const REGISTRY: Address = Address::repeat_byte(0x26);

/// A tool with a given configuration.
#[derive(Debug)]
pub(crate) struct FixedSource {
    tool: ToolRef,
    state: Mutex<ToolState>,
    reads: AtomicUsize,
}

impl FixedSource {
    pub(crate) fn new(chain: u64, id: u64, state: ToolState) -> Self {
        Self::of(REGISTRY, chain, id, state)
    }

    pub(crate) fn of(registry: Address, chain: u64, id: u64, state: ToolState) -> Self {
        let tool = ToolRef { chain, registry, id: U256::from(id) };
        Self { tool, state: Mutex::new(state), reads: AtomicUsize::new(0) }
    }

    pub(crate) fn registered(chain: u64, id: u64, creator: Address, uri: &str, hash: B256) -> Self {
        Self::new(chain, id, present(creator, uri, hash))
    }

    pub(crate) fn set(&self, state: ToolState) {
        *self.state.lock().expect("unpoisoned") = state;
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

pub(crate) fn present(creator: Address, uri: &str, hash: B256) -> ToolState {
    ToolState::Present(ToolConfig { creator, metadata_uri: uri.to_owned(), manifest_hash: hash, access_predicate: None })
}

impl ToolSource for FixedSource {
    fn tool(&self) -> ToolRef {
        self.tool
    }

    async fn config(&self) -> Result<ConfigRead, Error> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Ok(ConfigRead { block: 7, state: self.state.lock().expect("unpoisoned").clone() })
    }

    async fn details(&self, reads: ChainReads) -> Result<ChainReads, Error> {
        Ok(reads)
    }
}
