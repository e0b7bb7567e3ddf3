//! Pinning a predicate: checking that it is still the contract that was reviewed.
//!
//! A hash of the runtime code is not enough (ERC-8257 Zero-Code Access Predicates): storage determines which accounts the same code
//! grants access, and the constructor writes storage. So a pin holds either the init code, through the CREATE2 address that follows from
//! it, or the runtime code together with the storage slots that matter. Code without storage needs no slots.

use std::fmt;

use alloy_primitives::{Address, B256, keccak256};
use toolcrib_core::codes::{self, Code};

use super::detect_proxy;
use crate::Error;
use crate::rpc::Chain;

/// Maximum number of storage slots in one pin: each is a request to the node.
pub const MAX_PINNED_SLOTS: usize = 64;

/// The expected code and storage of a predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// keccak256 of the runtime code.
    pub code_hash: B256,
    /// How it was deployed, if that is known.
    pub init_code: Option<InitCode>,
    /// Storage slots that determine its behaviour: slot and value.
    pub storage: Vec<(B256, B256)>,
    /// Whether a review established that the code reads no storage and calls no contract, so that no slots need to be pinned.
    pub is_storage_free: bool,
}

/// How a contract was deployed with CREATE2 (EIP-1014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitCode {
    /// The deployer, usually [`crate::network::CREATE2_FACTORY`].
    pub deployer: Address,
    /// The salt.
    pub salt: B256,
    /// keccak256 of the init code including constructor arguments.
    pub hash: B256,
}

/// How a predicate differs from its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinFault {
    /// The runtime code differs, or there is none.
    Code {
        /// The pinned hash.
        expected: B256,
        /// The actual code hash; `None` without code.
        got: Option<B256>,
    },
    /// The init code gives another CREATE2 address.
    InitCode {
        /// The address that it gives.
        leads_to: Address,
    },
    /// A storage slot has another value.
    Storage {
        /// The slot.
        slot: B256,
        /// The pinned value.
        expected: B256,
        /// The actual value.
        got: B256,
    },
    /// Everything matches, but the pin is not sufficient to rely on.
    Weak {
        /// Whether the predicate is a proxy whose implementation can be changed.
        is_proxy: bool,
    },
}

impl PinFault {
    /// Returns the code of this difference.
    pub const fn code(&self) -> Code {
        match self {
            Self::Code { .. } => codes::predicate::PIN_CODE,
            Self::InitCode { .. } => codes::predicate::PIN_INIT_CODE,
            Self::Storage { .. } => codes::predicate::PIN_STORAGE,
            Self::Weak { .. } => codes::predicate::PIN_WEAK,
        }
    }
}

impl fmt::Display for PinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { expected, got: Some(got) } => write!(f, "the code has hash {got}, pinned {expected}"),
            Self::Code { expected, got: None } => write!(f, "there is no code, pinned {expected}"),
            Self::InitCode { leads_to } => write!(f, "the pinned init code gives the address {leads_to}"),
            Self::Storage { slot, expected, got } => write!(f, "storage slot {slot} has {got}, pinned {expected}"),
            Self::Weak { is_proxy: true } => f.write_str("the code of a proxy does not change when its implementation does"),
            Self::Weak { is_proxy: false } => {
                f.write_str("only the runtime code is pinned, but the storage also affects the behaviour")
            }
        }
    }
}

impl Pin {
    /// Compares a predicate with the pin. `None` if it matches and the pin is sufficient.
    pub async fn check(&self, chain: &Chain, predicate: Address) -> Result<Option<PinFault>, Error> {
        let code = chain.code(predicate).await?;
        let got = (!code.is_empty()).then(|| keccak256(&code));
        if got != Some(self.code_hash) {
            return Ok(Some(PinFault::Code { expected: self.code_hash, got }));
        }
        if let Some(init) = &self.init_code {
            let leads_to = init.deployer.create2(init.salt, init.hash);
            if leads_to != predicate {
                return Ok(Some(PinFault::InitCode { leads_to }));
            }
        }
        for &(slot, expected) in self.storage.iter().take(MAX_PINNED_SLOTS) {
            let got = chain.storage(predicate, slot).await?;
            if got != expected {
                return Ok(Some(PinFault::Storage { slot, expected, got }));
            }
        }
        if detect_proxy(chain, predicate, &code).await?.is_some_and(|proxy| {
            // If the slot that holds the implementation's address is pinned, so is the implementation.
            proxy.is_mutable() && !self.storage.iter().any(|(_, value)| *value == proxy.target.into_word())
        }) {
            return Ok(Some(PinFault::Weak { is_proxy: true }));
        }
        let says_enough = self.is_storage_free || self.init_code.is_some() || !self.storage.is_empty();
        let is_cut = self.storage.len() > MAX_PINNED_SLOTS;
        Ok((!says_enough || is_cut).then_some(PinFault::Weak { is_proxy: false }))
    }
}
