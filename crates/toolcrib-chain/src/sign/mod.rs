//! Digests and signatures: EIP-191, EIP-712, EIP-3009, `AccessProof`, strict recovery, ERC-1271, ERC-6492.
//!
//! Only the functions that take a chain need a node. Domain separators are computed once and cached.

use alloy_primitives::{Address, B256, U256, eip191_hash_message, keccak256};

mod access_proof;
mod agent;
mod authorization;
mod contract;
mod counterfactual;
mod signature;

pub use access_proof::{AccessProof, MAX_PROOF_AHEAD_SECONDS};
pub use agent::{check_owner_signature, owner_of};
pub use authorization::{
    CANCEL_TYPEHASH, CancelAuthorization, RECEIVE_TYPEHASH, TRANSFER_TYPEHASH, TransferAuthorization, TransferKind,
};
pub(crate) use contract::{ERC1271_GAS, is_agreed_value};
pub use contract::{check_domain, check_signature};
pub use counterfactual::{DEPLOYMENT_GAS, Simulated, simulate_deployed};
pub use signature::{SignatureError, StrictSignature};

/// The digest that `personal_sign` signs (EIP-191, version 0x45).
pub fn message_digest(message: &[u8]) -> B256 {
    eip191_hash_message(message)
}

/// An EIP-712 domain of name, version, chain and contract, with its separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    name: String,
    version: String,
    chain_id: U256,
    contract: Address,
    separator: B256,
}

impl Domain {
    /// Computes the separator.
    pub fn new(name: &str, version: &str, chain_id: U256, contract: Address) -> Self {
        let mut words = [0; 160];
        words[..32].copy_from_slice(&DOMAIN_TYPEHASH[..]);
        words[32..64].copy_from_slice(&keccak256(name)[..]);
        words[64..96].copy_from_slice(&keccak256(version)[..]);
        words[96..128].copy_from_slice(&chain_id.to_be_bytes::<32>());
        words[128..].copy_from_slice(&contract.into_word()[..]);
        Self { name: name.to_owned(), version: version.to_owned(), chain_id, contract, separator: keccak256(words) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The chain.
    pub const fn chain_id(&self) -> U256 {
        self.chain_id
    }

    /// The verifying contract.
    pub const fn contract(&self) -> Address {
        self.contract
    }

    /// The domain separator.
    pub const fn separator(&self) -> B256 {
        self.separator
    }

    /// The digest of a struct hash in this domain.
    pub fn digest(&self, structure: B256) -> B256 {
        let mut bytes = [0; 66];
        bytes[..2].copy_from_slice(&[0x19, 0x01]);
        bytes[2..34].copy_from_slice(&self.separator[..]);
        bytes[34..].copy_from_slice(&structure[..]);
        keccak256(bytes)
    }

    /// The domain as JSON typed data.
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "version": self.version,
            "chainId": format!("{:#x}", self.chain_id),
            "verifyingContract": self.contract.to_string(),
        })
    }
}

/// `EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)`.
const DOMAIN_TYPEHASH: B256 = alloy_primitives::b256!("8b73c3c69bb8fe3d512ecc4cf759cc79239f7b179b0ffacaa9a75d522b39400f");

/// JSON typed data for wallets, from fields given as (name, Solidity type, value).
fn typed_data(domain: &Domain, primary: &str, fields: &[(&str, &str, serde_json::Value)]) -> alloy_dyn_abi::TypedData {
    use serde_json::{Map, Value, json};
    let types: Vec<_> = fields.iter().map(|(name, kind, _)| json!({ "name": name, "type": kind })).collect();
    let message: Map<String, Value> = fields.iter().map(|(name, _, value)| ((*name).to_owned(), value.clone())).collect();
    let document = json!({
        "types": {
            "EIP712Domain": [
                { "name": "name", "type": "string" },
                { "name": "version", "type": "string" },
                { "name": "chainId", "type": "uint256" },
                { "name": "verifyingContract", "type": "address" },
            ],
            primary: types,
        },
        "primaryType": primary,
        "domain": domain.json(),
        "message": message,
    });
    #[expect(clippy::expect_used, reason = "the document is made here, of parts that are always well-formed")]
    serde_json::from_value(document).expect("well-formed typed data")
}

#[cfg(test)]
mod tests;
