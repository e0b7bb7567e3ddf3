//! Consistent reads, pinned to one block by its hash.
//!
//! After a reorg, a number refers to another block, and reads from before and after it would be mixed into a state that no chain ever had.
//! So every read names the block by its hash and requires that it is still canonical (EIP-1898). Nodes that cannot read by
//! hash are asked by number, and [`Snapshot::confirm`] compares the block's hash with the one from before the reads.

use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256, Bytes, U64};
use alloy_provider::Provider as _;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockId, BlockNumberOrTag, RpcBlockHash};
use serde::Deserialize;

use super::header::MAX_HEADER_ANSWER;
use super::node::TransportFault;
use super::pool::{BlockIdentity, MaxBytes, Only, Quorum};
use super::{BoundedCall, CallOutcome, Chain};
use crate::Error;

/// A block that reads are pinned to.
#[derive(Debug)]
pub struct Snapshot<'c> {
    chain: &'c Chain,
    number: u64,
    hash: B256,
    /// Whether a read of this snapshot was made by number.
    is_numbered: AtomicBool,
}

/// The fields of a block that several nodes must agree on.
#[derive(Debug, Deserialize)]
struct Identity {
    number: U64,
    hash: B256,
}

impl Chain {
    /// The chain head; a little behind it if several nodes must agree.
    pub async fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        let block = self.read_block().await?;
        self.snapshot_of(block).await?.ok_or_else(|| missing("the RPC node returned no latest block"))
    }

    /// The block with this number.
    pub async fn snapshot_at(&self, number: u64) -> Result<Snapshot<'_>, Error> {
        let found = self.snapshot_of(BlockNumberOrTag::Number(number)).await?;
        found.filter(|snapshot| snapshot.number == number).ok_or_else(|| missing("the RPC node does not have the block"))
    }

    /// The newest finalized block.
    pub async fn finalized_snapshot(&self) -> Result<Snapshot<'_>, Error> {
        let found = self.snapshot_of(BlockNumberOrTag::Finalized).await?;
        found.ok_or_else(|| missing("the RPC node does not support the finalized block"))
    }

    async fn snapshot_of(&self, block: BlockNumberOrTag) -> Result<Option<Snapshot<'_>>, Error> {
        let (quorum, only) = (self.quorum, self.only);
        let found: Option<Identity> = self
            .provider
            .client()
            .request("eth_getBlockByNumber", (block, false))
            .map_meta(|mut meta| {
                meta.extensions_mut().insert(MaxBytes(MAX_HEADER_ANSWER));
                if let Some(node) = only {
                    meta.extensions_mut().insert(Only(node));
                }
                if let Some(needed) = quorum {
                    meta.extensions_mut().insert(Quorum(needed));
                    meta.extensions_mut().insert(BlockIdentity);
                }
                meta
            })
            .await
            .map_err(Error::from_rpc)?;
        let is_numbered = self.is_numbered.load(Ordering::Relaxed);
        Ok(found.map(|Identity { number, hash }| Snapshot {
            chain: self,
            number: number.to(),
            hash,
            is_numbered: AtomicBool::new(is_numbered),
        }))
    }
}

impl Snapshot<'_> {
    /// The number of the block.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The hash of the block.
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// Returns the code at an address.
    pub async fn code(&self, address: Address) -> Result<Bytes, Error> {
        let error = match self.chain.code_in(address, self.block()).await {
            Err(error) => self.explain(error).await?,
            answer => return answer,
        };
        let answer = self.chain.code_in(address, BlockId::number(self.number)).await?;
        self.use_numbers(&error);
        Ok(answer)
    }

    /// Executes a read-only call, with limits on gas and return data.
    pub async fn call(&self, call: &BoundedCall) -> Result<CallOutcome, Error> {
        let error = match self.chain.call_in(call, StateOverride::default(), self.block()).await {
            Err(error) => self.explain(error).await?,
            answer => return answer,
        };
        let answer = self.chain.call_in(call, StateOverride::default(), BlockId::number(self.number)).await?;
        self.use_numbers(&error);
        Ok(answer)
    }

    /// Checks that the block still has the hash from before the reads. Use their results only after this.
    pub async fn confirm(&self) -> Result<(), Error> {
        // With reads by hash, the node has checked it each time.
        if self.is_numbered.load(Ordering::Relaxed) { self.compare().await } else { Ok(()) }
    }

    async fn compare(&self) -> Result<(), Error> {
        let number = self.number;
        let now = self.chain.snapshot_of(BlockNumberOrTag::Number(number)).await?;
        if now.is_some_and(|now| (now.number, now.hash) == (number, self.hash)) { Ok(()) } else { Err(Error::Reorg { number }) }
    }

    fn block(&self) -> BlockId {
        if self.is_numbered.load(Ordering::Relaxed) {
            return BlockId::number(self.number);
        }
        BlockId::Hash(RpcBlockHash { block_hash: self.hash, require_canonical: Some(true) })
    }

    /// Finds out why a read failed: `Ok` with the error if the node may be unable to read by hash. Nodes have different messages for a
    /// block that is no longer canonical and for a parameter that they do not understand, so the block's hash is compared instead.
    async fn explain(&self, error: Error) -> Result<Error, Error> {
        let is_refusal = match &error {
            Error::Refused { .. } | Error::Transport { fault: TransportFault::NoQuorum { .. }, .. } => true,
            // Nodes that do not have a block respond with the error of a rate limit.
            Error::Transport { fault: TransportFault::RateLimited, .. } => false,
            _ => return Err(error),
        };
        if let Err(reorg @ Error::Reorg { .. }) = self.compare().await {
            return Err(reorg);
        }
        if is_refusal && !self.is_numbered.load(Ordering::Relaxed) { Ok(error) } else { Err(error) }
    }

    /// Remembers that a read by number succeeded after the node refused one by hash.
    fn use_numbers(&self, refusal: &Error) {
        self.is_numbered.store(true, Ordering::Relaxed);
        // In a quorum, perhaps only one of the nodes cannot read by hash; the next snapshot tries again.
        if matches!(refusal, Error::Refused { .. }) {
            self.chain.is_numbered.store(true, Ordering::Relaxed);
        }
    }
}

fn missing(message: &str) -> Error {
    Error::Refused { rpc_code: 0, message: message.to_owned() }
}
