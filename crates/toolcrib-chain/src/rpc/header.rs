//! Block headers, with the fields that followers of a chain need.

use alloy_primitives::{B256, Bloom, U64};
use alloy_rpc_types_eth::BlockNumberOrTag;
use serde::Deserialize;

use super::Chain;
use crate::Error;

/// Maximum size of a block without its transactions: their hashes take 69 bytes each, and no chain of the table has ten thousand of them
/// in a block.
pub(super) const MAX_HEADER_ANSWER: usize = 2 << 20;

/// The header of a block.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Header {
    /// The block number.
    pub number: u64,
    /// The block hash.
    pub hash: B256,
    /// The hash of the parent block.
    pub parent: B256,
    /// The Unix timestamp.
    pub time: u64,
    /// The bloom filter of the logs. Nodes of chains without filters send zeros.
    pub bloom: Bloom,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    number: U64,
    hash: B256,
    parent_hash: B256,
    timestamp: U64,
    #[serde(default)]
    logs_bloom: Bloom,
}

impl From<Wire> for Header {
    fn from(wire: Wire) -> Self {
        Self {
            number: wire.number.to(),
            hash: wire.hash,
            parent: wire.parent_hash,
            time: wire.timestamp.to(),
            bloom: wire.logs_bloom,
        }
    }
}

impl Chain {
    /// The chain head; a little behind it if several nodes must agree.
    pub async fn head(&self) -> Result<Header, Error> {
        let block = self.read_block().await?;
        self.header_of(block)
            .await?
            .ok_or(Error::Refused { rpc_code: 0, message: "the RPC node returned no latest block".to_owned() })
    }

    /// The header of the block with this number; `None` if the node has no such block, or returns another number.
    pub async fn header(&self, number: u64) -> Result<Option<Header>, Error> {
        Ok(self.header_of(BlockNumberOrTag::Number(number)).await?.filter(|header| header.number == number))
    }

    /// The newest finalized block; `None` if the node does not know the tag.
    pub async fn finalized(&self) -> Result<Option<Header>, Error> {
        match self.header_of(BlockNumberOrTag::Finalized).await {
            Err(Error::Refused { .. }) => Ok(None),
            answer => answer,
        }
    }

    async fn header_of(&self, block: BlockNumberOrTag) -> Result<Option<Header>, Error> {
        self.request("eth_getBlockByNumber", (block, false), MAX_HEADER_ANSWER).await.map_err(Error::from_rpc)
    }
}
