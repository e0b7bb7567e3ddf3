//! Finality of blocks.

use alloy_primitives::B256;
use alloy_provider::Provider as _;
use alloy_rpc_types_eth::BlockNumberOrTag;

use crate::Error;
use crate::rpc::Chain;

/// Number of blocks behind the head that count as final if a node does not know the tag `finalized`: two epochs of Ethereum.
pub const CONFIRMATIONS: u64 = 64;

/// The fields of a block's header that settlement depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Its Unix timestamp.
    pub time: u64,
}

/// Returns the newest block.
pub async fn newest_block(chain: &Chain) -> Result<Block, Error> {
    block(chain, BlockNumberOrTag::Latest).await?.ok_or_else(|| missing("the RPC node has no block"))
}

/// Returns the newest final block, given the newest block; `None` while a chain is too short to have one.
///
/// A local development chain has no reorgs, so its newest block is final.
pub async fn last_final(chain: &Chain, newest: Block) -> Result<Option<Block>, Error> {
    if chain.network().is_local {
        return Ok(Some(newest));
    }
    let last = match block(chain, BlockNumberOrTag::Finalized).await {
        Ok(Some(last)) => Some(last),
        Ok(None) | Err(Error::Refused { .. }) => match newest.number.checked_sub(CONFIRMATIONS) {
            Some(number) => block(chain, number.into()).await?,
            None => None,
        },
        Err(error) => return Err(error),
    };
    // A final block that is newer than the newest block is a contradiction.
    Ok(last.filter(|last| last.number <= newest.number))
}

/// Returns a block by its number, if the node has it.
pub async fn block_at(chain: &Chain, number: u64) -> Result<Option<Block>, Error> {
    block(chain, number.into()).await
}

async fn block(chain: &Chain, which: BlockNumberOrTag) -> Result<Option<Block>, Error> {
    let block = chain.provider().get_block_by_number(which).await.map_err(Error::from_rpc)?;
    let block = block.map(|block| Block { number: block.header.number, hash: block.header.hash, time: block.header.timestamp });
    // Ignore a block with another number than the requested one.
    Ok(block.filter(|block| which.as_number().is_none_or(|number| number == block.number)))
}

pub(super) fn missing(message: &str) -> Error {
    Error::Refused { rpc_code: 0, message: message.to_owned() }
}
