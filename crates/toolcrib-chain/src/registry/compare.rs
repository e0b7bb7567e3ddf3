//! Compares an index's state of many tools with the registry in few requests.
//!
//! One `eth_call` without a recipient runs a small program on the node: it calls the registry for the configuration of consecutive ids and
//! returns a hash of each result. Nothing is deployed, no helper contract is needed, and each tool takes 32 bytes of the response.

use alloy_primitives::{B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall as _, SolError as _};

use super::{Registry, ToolState};
use crate::Error;
use crate::abi::{IRawToolRegistry, IToolRegistry};
use crate::rpc::CallOutcome;

/// Maximum number of tools in one comparison: with the longest URIs they take about 10 million gas, below the nodes' gas cap for calls.
pub const MAX_COMPARED: u16 = 64;

/// Gas for each tool: the longest URI takes 65 storage words at 2,100 each.
const GAS_PER_TOOL: u64 = 200_000;

/// Returns the digest that [`Registry::state_digests_at`] computes for a tool in this state: the hash of the registry's return data, with
/// the lowest bit flipped if the call does not revert.
pub fn state_digest(id: U256, state: &ToolState) -> B256 {
    let (data, bit) = match state {
        ToolState::Present(config) => {
            let raw = IRawToolRegistry::RawToolConfig {
                creator: config.creator,
                metadataURI: config.metadata_uri.clone().into_bytes().into(),
                manifestHash: config.manifest_hash,
                accessPredicate: config.access_predicate.unwrap_or_default(),
            };
            (IRawToolRegistry::getToolConfigCall::abi_encode_returns(&raw), 1)
        }
        ToolState::Deregistered => (IToolRegistry::ToolIsDeregistered { toolId: id }.abi_encode(), 0),
        ToolState::NotFound => (IToolRegistry::ToolNotFound { toolId: id }.abi_encode(), 0),
    };
    let mut digest = keccak256(data);
    digest[31] ^= bit;
    digest
}

impl Registry {
    /// Returns a digest of the state of each of `count` consecutive tools, at most [`MAX_COMPARED`], after the block with this number.
    ///
    /// Equal digests mean equal states. For different ones, check the state with [`Self::tool_at`]: registries may encode their return data
    /// in more than one way. `None` if the node cannot run the program or no longer has the state.
    pub async fn state_digests_at(&self, first: U256, count: u16, block: u64) -> Result<Option<Vec<B256>>, Error> {
        let count = count.clamp(1, MAX_COMPARED);
        let code = program(self, first, count);
        let gas = GAS_PER_TOOL * u64::from(count);
        match self.chain().call_code_at(code, gas, 32 * usize::from(count), block).await {
            Ok(CallOutcome::Returned(bytes)) if bytes.len() == 32 * usize::from(count) => {
                Ok(Some(bytes.chunks_exact(32).map(B256::from_slice).collect()))
            }
            Ok(_) | Err(Error::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Builds the program. Memory: calldata at 0, digests from 0x40, return data after them.
fn program(registry: &Registry, first: U256, count: u16) -> Bytes {
    let size = 32 * count;
    let answer = (0x40 + size).to_be_bytes();
    let mut code = Vec::with_capacity(160);
    let [a, b, c, d] = IRawToolRegistry::getToolConfigCall::SELECTOR;
    // mem[0..4] = selector; i = 0
    code.extend([0x63, a, b, c, d, 0x60, 0xe0, 0x1b, 0x60, 0x00, 0x52, 0x60, 0x00]);
    let start = code.len() as u8;
    let [high, low] = count.to_be_bytes();
    // loop: if i == count, jump to the end, whose offset is filled in below
    code.extend([0x5b, 0x80, 0x61, high, low, 0x14, 0x60, 0x00, 0x57]);
    let end_at = code.len() - 2;
    // mem[4..36] = first + i
    code.extend([0x80, 0x7f]);
    code.extend(first.to_be_bytes::<32>());
    code.extend([0x01, 0x60, 0x04, 0x52]);
    // ok = staticcall(gas, registry, 0, 36, 0, 0)
    code.extend([0x60, 0x00, 0x60, 0x00, 0x60, 0x24, 0x60, 0x00, 0x73]);
    code.extend(registry.address());
    code.extend([0x5a, 0xfa]);
    // Return data after the digests, and its hash, with ok in the lowest bit.
    code.extend([0x3d, 0x60, 0x00, 0x61, answer[0], answer[1], 0x3e]);
    code.extend([0x3d, 0x61, answer[0], answer[1], 0x20, 0x18]);
    // mem[0x40 + 32 * i] = digest; i += 1
    code.extend([0x81, 0x60, 0x05, 0x1b, 0x60, 0x40, 0x01, 0x52, 0x60, 0x01, 0x01, 0x60, start, 0x56]);
    code[end_at] = code.len() as u8;
    let [high, low] = size.to_be_bytes();
    code.extend([0x5b, 0x61, high, low, 0x60, 0x40, 0xf3]);
    code.into()
}
