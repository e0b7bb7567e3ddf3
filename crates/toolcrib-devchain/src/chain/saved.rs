//! The chain's state file.
//!
//! It contains blocks, receipts and every version of the state, so that a restarted chain still has its history and can
//! be reorganised. Filters, snapshots and the pool belong to clients that are gone, and are not saved.

use alloy_consensus::Header;
use alloy_eips::Encodable2718;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_eth::TransactionReceipt;
use serde::{Deserialize, Serialize};

use super::blocks::{Blocks, Mined};
use super::state::{Epoch, SavedState, State};
use super::{Chain, Config, Mining, Rejection, mining};
use crate::clock::TravelClock;

/// The version of the file format. Increased if older files can no longer be read.
const VERSION: u32 = 1;

/// A serialisable chain.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedChain {
    version: u32,
    chain_id: u64,
    offset: i64,
    forks: u64,
    state: SavedState,
    blocks: Vec<SavedBlock>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedBlock {
    hash: B256,
    header: Header,
    size: usize,
    transactions: Vec<Bytes>,
    receipts: Vec<TransactionReceipt>,
    epoch: Epoch,
}

/// Why a state file in our format is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("it has version {0}, this program reads version {VERSION}")]
    Version(u32),
    #[error("it is of chain {0}, and chain {1} was asked for")]
    Chain(u64, u64),
    #[error("its block {0} is not the one that follows")]
    Broken(usize),
    #[error("a transaction in it cannot be read: {0}")]
    Transaction(#[from] Rejection),
}

impl Chain {
    /// Returns a copy of everything that is saved.
    pub(crate) fn save(&self) -> SavedChain {
        let blocks = self
            .blocks
            .all()
            .iter()
            .map(|block| SavedBlock {
                hash: block.hash,
                header: block.header.clone(),
                size: block.size,
                transactions: block.transactions.iter().map(|tx| tx.encoded_2718().into()).collect(),
                receipts: block.receipts.clone(),
                epoch: block.epoch,
            })
            .collect();
        SavedChain {
            version: VERSION,
            chain_id: self.config.chain_id,
            offset: self.clock.offset(),
            forks: self.forks,
            state: self.state.save(),
            blocks,
        }
    }

    /// Restores a saved chain.
    pub(crate) fn load(saved: SavedChain, config: Config, mining: Mining, mut clock: TravelClock) -> Result<Self, Unusable> {
        if saved.version != VERSION {
            return Err(Unusable::Version(saved.version));
        }
        if saved.chain_id != config.chain_id {
            return Err(Unusable::Chain(saved.chain_id, config.chain_id));
        }
        let mut blocks = Blocks::default();
        let mut parent = B256::ZERO;
        for (index, block) in saved.blocks.into_iter().enumerate() {
            let follows = block.header.number == index as u64 && block.header.parent_hash == parent;
            if !follows || block.header.hash_slow() != block.hash || block.receipts.len() != block.transactions.len() {
                return Err(Unusable::Broken(index));
            }
            parent = block.hash;
            let transactions = block.transactions.iter().map(|raw| mining::decode(raw)).collect::<Result<_, _>>()?;
            let SavedBlock { hash, header, size, receipts, epoch, .. } = block;
            blocks.push(Mined { hash, header, size, transactions, receipts, epoch });
        }
        if blocks.all().is_empty() {
            return Err(Unusable::Broken(0));
        }
        clock.set_offset(saved.offset);
        let mut chain = Self::new(config, mining, clock, &[]);
        chain.blocks = blocks;
        chain.state = State::load(saved.state);
        chain.forks = saved.forks;
        Ok(chain)
    }
}
