//! The chain itself: synchronous, without sockets, tasks or threads.
//!
//! `blocks` and `state` store the chain, `pool` stores pending transactions, `mining` makes blocks, `calls` executes without writing,
//! `history` reverts, `filters` stores what pollers have not seen, and `saved` serialises everything to a file.

use std::collections::BTreeMap;

use alloy_consensus::{Header, Transaction as _};
use alloy_eips::{BlockId, BlockNumberOrTag, RpcBlockHash};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_eth::{Header as RpcHeader, Log};
use toolcrib_core::registry::gas::ColdAccess;

use crate::accounts::{DEV_BALANCE, dev_accounts};
use crate::clock::TravelClock;
use crate::limits::BLOCK_GAS;
use crate::predeploy::Predeploy;

mod blocks;
mod calls;
mod evm;
mod fees;
mod filters;
mod history;
mod mining;
mod pool;
mod refusal;
mod saved;
mod state;

pub(crate) use blocks::{Mined, Tx};
pub(crate) use fees::SUGGESTED_TIP;
pub(crate) use filters::check_filter;
pub use mining::Mining;
pub(crate) use mining::decode;
pub use refusal::Rejection;
pub(crate) use saved::SavedChain;

use blocks::Blocks;
use filters::Filters;
use history::Snapshot;
use pool::Pool;
use state::{Epoch, State, View};

/// Base fee of the first block, 1 gwei: every wallet displays it without a warning.
const GENESIS_BASE_FEE: u64 = 1_000_000_000;

/// How far `safe` and `finalized` are behind the newest block: one and two epochs of 32 slots.
const SAFE_DEPTH: u64 = 32;
const FINAL_DEPTH: u64 = 64;

/// Settings that do not change while the chain runs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) chain_id: u64,
    pub(crate) log_range: u64,
    pub(crate) coinbase: Address,
    pub(crate) cold_access: ColdAccess,
}

/// An event for subscribers.
#[derive(Debug)]
pub(crate) enum Event {
    /// A new block, with its logs.
    Block { header: Box<RpcHeader>, logs: Vec<Log> },
    /// Logs that are no longer part of the chain, newest first, marked as removed.
    Removed { logs: Vec<Log> },
    /// A transaction entered the pool.
    Pending(B256),
}

/// The complete chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) config: Config,
    pub(crate) mining: Mining,
    pub(crate) clock: TravelClock,
    state: State,
    blocks: Blocks,
    pool: Pool,
    filters: Filters,
    snapshots: BTreeMap<u64, Snapshot>,
    next_snapshot: u64,
    /// Number of reverts, so that a replacement block with the same contents has another hash.
    forks: u64,
    events: Vec<Event>,
    /// Increases with every change; tells whether the state file is outdated.
    revision: u64,
}

/// A point to execute calls at: a header for the block environment, and the epoch of the state.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) header: Header,
    epoch: Epoch,
}

impl Chain {
    /// A chain with only its genesis block.
    pub(crate) fn new(config: Config, mining: Mining, clock: TravelClock, predeploys: &[Predeploy]) -> Self {
        let mut state = State::default();
        for account in dev_accounts() {
            state.update(account, |account| account.balance = DEV_BALANCE);
        }
        for predeploy in predeploys {
            state.set_code(predeploy.address, predeploy.code.clone());
            // EIP-161: contracts have a nonce of at least 1, and an account with storage must not be empty.
            state.update(predeploy.address, |account| account.nonce = account.nonce.max(1));
            for (slot, value) in &predeploy.storage {
                state.set_slot(predeploy.address, *slot, *value);
            }
        }
        let mut blocks = Blocks::default();
        let header = Header {
            timestamp: clock.upcoming(0),
            gas_limit: BLOCK_GAS,
            base_fee_per_gas: Some(GENESIS_BASE_FEE),
            beneficiary: config.coinbase,
            ..Mined::blank_header()
        };
        blocks.push(Mined::seal(header, Vec::new(), state.epoch()));
        Self {
            config,
            mining,
            clock,
            state,
            blocks,
            pool: Pool::default(),
            filters: Filters::default(),
            snapshots: BTreeMap::new(),
            next_snapshot: 0,
            forks: 0,
            events: Vec::new(),
            revision: 0,
        }
    }

    /// The newest block.
    pub(crate) fn head(&self) -> &Mined {
        self.blocks.head()
    }

    /// Increases with every change of the chain.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns and clears the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The block with this id; `None` for `pending`, and for blocks that do not exist.
    pub(crate) fn block(&self, id: BlockId) -> Option<&Mined> {
        match id {
            BlockId::Hash(RpcBlockHash { block_hash, .. }) => self.blocks.by_hash(block_hash),
            BlockId::Number(BlockNumberOrTag::Pending) => None,
            BlockId::Number(tag) => self.blocks.at(self.number(tag)),
        }
    }

    /// The number of a tag; for `pending` that of the next block.
    pub(crate) fn number(&self, tag: BlockNumberOrTag) -> u64 {
        let newest = self.head().header.number;
        match tag {
            BlockNumberOrTag::Latest => newest,
            BlockNumberOrTag::Pending => newest + 1,
            BlockNumberOrTag::Safe => newest.saturating_sub(SAFE_DEPTH),
            BlockNumberOrTag::Finalized => newest.saturating_sub(FINAL_DEPTH),
            BlockNumberOrTag::Earliest => 0,
            BlockNumberOrTag::Number(number) => number,
        }
    }

    /// The point to execute calls at for a block id.
    ///
    /// At `latest`, code sees the number of the newest block, but the current time. Otherwise, a chain that
    /// mines only on demand would check the validity of signatures at the time of its last transaction, perhaps hours ago.
    pub(crate) fn point(&self, id: BlockId) -> Result<Point, Rejection> {
        match id {
            BlockId::Number(BlockNumberOrTag::Pending) => Ok(Point { header: self.next_header(), epoch: self.state.epoch() }),
            BlockId::Number(BlockNumberOrTag::Latest) => {
                let head = self.head();
                let timestamp = self.clock.upcoming(head.header.timestamp);
                Ok(Point { header: Header { timestamp, ..head.header.clone() }, epoch: head.epoch })
            }
            _ => {
                let block = self.block(id).ok_or(Rejection::NoBlock)?;
                Ok(Point { header: block.header.clone(), epoch: block.epoch })
            }
        }
    }

    /// Balance of an account in wei.
    pub(crate) fn balance(&self, address: Address, at: &Point) -> U256 {
        self.state.account(address, at.epoch).balance
    }

    /// Nonce of an account; at `pending` including transactions in the pool.
    pub(crate) fn nonce(&self, address: Address, id: BlockId) -> Result<u64, Rejection> {
        let mined = self.state.account(address, self.point(id)?.epoch).nonce;
        Ok(if id.is_pending() { self.pool.next_nonce(address, mined) } else { mined })
    }

    /// Code of an account.
    pub(crate) fn code(&self, address: Address, at: &Point) -> Bytes {
        self.state.code(address, at.epoch)
    }

    /// A storage slot of an account.
    pub(crate) fn slot(&self, address: Address, slot: U256, at: &Point) -> U256 {
        self.state.slot(address, slot, at.epoch)
    }

    /// A mined transaction: its block and its index.
    pub(crate) fn mined(&self, hash: B256) -> Option<(&Mined, usize)> {
        self.blocks.transaction(hash)
    }

    /// A transaction in the pool.
    pub(crate) fn waiting(&self, hash: B256) -> Option<&Tx> {
        self.pool.get(hash)
    }

    /// Every transaction in the pool.
    pub(crate) fn pool(&self) -> impl Iterator<Item = &Tx> {
        self.pool.iter()
    }

    /// Whether a transaction in the pool could be mined next, without a nonce gap before it.
    pub(crate) fn is_pending(&self, tx: &Tx) -> bool {
        let mined = self.state.account(tx.signer(), self.state.epoch()).nonce;
        (mined..self.pool.next_nonce(tx.signer(), mined)).contains(&tx.nonce())
    }

    /// Drops a transaction from the pool.
    pub(crate) fn drop_waiting(&mut self, hash: B256) -> bool {
        self.pool.remove(hash).is_some()
    }

    /// Drops every transaction from the pool.
    pub(crate) fn clear_pool(&mut self) {
        self.pool.clear();
    }

    /// Sets a balance directly.
    pub(crate) fn set_balance(&mut self, address: Address, balance: U256) {
        self.by_hand(|state| state.update(address, |account| account.balance = balance));
    }

    /// Sets a nonce directly.
    pub(crate) fn set_nonce(&mut self, address: Address, nonce: u64) {
        self.by_hand(|state| state.update(address, |account| account.nonce = nonce));
        self.pool.forget_below(address, nonce);
    }

    /// Sets code directly.
    pub(crate) fn set_code(&mut self, address: Address, code: Bytes) {
        self.by_hand(|state| state.set_code(address, code));
    }

    /// Sets a storage slot directly.
    pub(crate) fn set_slot(&mut self, address: Address, slot: U256, value: U256) {
        self.by_hand(|state| state.set_slot(address, slot, value));
    }

    /// Direct changes belong to the newest block: `latest` shows them at once, and a reorg of that block reverts them.
    fn by_hand(&mut self, change: impl FnOnce(&mut State)) {
        let epoch = self.state.begin();
        change(&mut self.state);
        self.blocks.head_mut().epoch = epoch;
        self.revision += 1;
    }

    fn view(&self, epoch: Epoch) -> View<'_> {
        View { state: &self.state, blocks: &self.blocks, epoch }
    }
}
