//! Headers of blocks, as much of them as following a chain takes.

use alloy_primitives::{B256, Bloom, U64};
use alloy_rpc_types_eth::BlockNumberOrTag;
use serde::Deserialize;

use super::Chain;
use crate::Error;

/// The most bytes of a block without its transactions: their hashes are 69 bytes each, and no chain of the table has ten thousand of them
/// in a block.
pub(super) const MAX_HEADER_ANSWER: usize = 2 << 20;

/// The header of a block.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Header {
    /// The number of the block.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// The hash of the block before.
    pub parent: B256,
    /// Its time in seconds since 1970.
    pub time: u64,
    /// Which addresses and topics its logs may have. Nodes of chains that have none send zeroes.
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
    /// The newest block: a little behind it where several nodes must agree.
    pub async fn head(&self) -> Result<Header, Error> {
        let block = self.read_block().await?;
        self.header_of(block)
            .await?
            .ok_or(Error::Refused { rpc_code: 0, message: "the RPC node returned no latest block".to_owned() })
    }

    /// The header of the block with this number; `None` when the node has no such block, or another under the number.
    pub async fn header(&self, number: u64) -> Result<Option<Header>, Error> {
        Ok(self.header_of(BlockNumberOrTag::Number(number)).await?.filter(|header| header.number == number))
    }

    /// The last block that the chain says it will never take back; `None` where the node does not know such a thing.
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
