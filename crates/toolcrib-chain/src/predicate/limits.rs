//! Size limits of a predicate's configuration: those that it states, or the known limits of our own.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;

use crate::Error;
use crate::abi::ILimits;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// Limits of a predicate's configuration. Those that it does not state are our own predicates' limits, which were measured against the
/// registry's gas; a third-party predicate may accept less, and then reverts when it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of ERC-721 collections for one tool.
    pub erc721_collections: u64,
    /// Maximum number of ERC-1155 collections for one tool.
    pub erc1155_collections: u64,
    /// Maximum number of token ids for one ERC-1155 collection.
    pub token_ids: u64,
    /// Maximum number of token ids over all collections of a tool, if the predicate states it: each collection takes room from the ids.
    pub token_ids_in_all: Option<u64>,
    /// Maximum number of values of a trait.
    pub trait_values: u64,
    /// Maximum number of terms of a composite.
    pub terms: u64,
}

impl Limits {
    /// The limits of our own predicates: the largest configurations that answer within the registry's gas (`contracts/snapshots`).
    pub const OURS: Self =
        Self { erc721_collections: 3, erc1155_collections: 2, token_ids: 12, token_ids_in_all: None, trait_values: 32, terms: 3 };

    /// Reads a predicate's limits. `collections` is the number of ERC-1155 collections of the tool.
    pub async fn read(chain: &Chain, predicate: Address, collections: usize) -> Result<Self, Error> {
        let ours = Self::OURS;
        let in_all = ask(chain, predicate, ILimits::maxTokenIdsCall { collections: U256::from(collections) }).await?;
        let collections = ask(chain, predicate, ILimits::MAX_COLLECTIONS_PER_TOOLCall {}).await?;
        let ids = ask(chain, predicate, ILimits::MAX_TOKEN_IDS_PER_COLLECTIONCall {}).await?;
        let values = ask(chain, predicate, ILimits::MAX_ALLOWED_VALUESCall {}).await?;
        let terms = ask(chain, predicate, ILimits::MAX_TERMS_PER_COMPOSITIONCall {}).await?;
        Ok(Self {
            erc721_collections: collections.unwrap_or(ours.erc721_collections),
            erc1155_collections: collections.unwrap_or(ours.erc1155_collections),
            token_ids_in_all: in_all,
            token_ids: ids.unwrap_or(ours.token_ids),
            trait_values: values.unwrap_or(ours.trait_values),
            terms: terms.unwrap_or(ours.terms),
        })
    }
}

/// Reads a constant. Return data other than one word with a plausible count is treated as missing.
async fn ask<C: SolCall>(chain: &Chain, predicate: Address, call: C) -> Result<Option<u64>, Error> {
    /// A constant costs a few hundred gas, some thousands behind a proxy.
    const GAS: u64 = 50_000;
    /// A configuration with this many parts does not fit into a transaction, so a higher value is not a limit.
    const MOST: u64 = 10_000;
    let call = BoundedCall { to: predicate, data: call.abi_encode().into(), from: None, gas: Some(GAS), max_bytes: 32 };
    let CallOutcome::Returned(bytes) = chain.call(&call).await? else { return Ok(None) };
    let Ok(word) = <[u8; 32]>::try_from(&bytes[..]) else { return Ok(None) };
    Ok(u64::try_from(U256::from_be_bytes(word)).ok().filter(|count| (1..=MOST).contains(count)))
}
