//! The challenge that proves to a predicate that an account itself asks for access (ERC-8257 Concrete `AccessProof` Pattern).

use alloy_dyn_abi::TypedData;
use alloy_primitives::{Address, B256, U256, b256, keccak256};
use serde_json::json;

use super::{Domain, typed_data};

/// `AccessProof(uint256 toolId,address account,uint64 deadline)`.
const TYPEHASH: B256 = b256!("e8f08e8f7306d04c98c930c7b6c46de720239a6eb1d975d517f79832d0120a03");

/// How far in the future a deadline may be: a proof is for one visit.
pub const MAX_PROOF_AHEAD_SECONDS: u64 = 600;

/// An account's request to use a tool until a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessProof {
    /// The tool.
    pub tool_id: U256,
    /// The signer.
    pub account: Address,
    /// The last second in which the proof is valid.
    pub deadline: u64,
}

impl AccessProof {
    /// The domain of a predicate.
    pub fn domain(chain_id: u64, predicate: Address) -> Domain {
        Domain::new("ERC8257-AccessProof", "1", U256::from(chain_id), predicate)
    }

    /// The digest to sign.
    pub fn digest(&self, domain: &Domain) -> B256 {
        let words =
            [TYPEHASH, B256::from(self.tool_id), self.account.into_word(), B256::from(U256::from(self.deadline))].concat();
        domain.digest(keccak256(words))
    }

    /// The typed data, for wallets that show what they sign.
    pub fn typed_data(&self, domain: &Domain) -> TypedData {
        typed_data(
            domain,
            "AccessProof",
            &[
                ("toolId", "uint256", json!(self.tool_id.to_string())),
                ("account", "address", json!(self.account.to_string())),
                ("deadline", "uint64", json!(self.deadline.to_string())),
            ],
        )
    }

    /// Whether the deadline has not passed and is not too far in the future. `now` is a Unix timestamp.
    pub const fn is_timely(&self, now: u64) -> bool {
        now <= self.deadline && self.deadline <= now.saturating_add(MAX_PROOF_AHEAD_SECONDS)
    }
}
