//! Pinning a predicate: making sure that it is still the contract that somebody looked at.
//!
//! A hash of the running code is not enough (ERC-8257 Zero-Code Access Predicates): storage decides whom the same code lets
//! in, and the constructor decides about storage. A pin holds the init code, by the CREATE2 address that it leads to, or the
//! running code together with the words of storage that matter. A code without storage needs no words.

use std::fmt;

use alloy_primitives::{Address, B256, keccak256};
use toolcrib_core::codes::{self, Code};

use super::detect_proxy;
use crate::Error;
use crate::rpc::Chain;

/// Most words of storage in one pin: each is a request to the node.
pub const MAX_PINNED_SLOTS: usize = 64;

/// What a predicate is expected to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// keccak256 of the running code.
    pub code_hash: B256,
    /// How it came to its address, where that is known.
    pub init_code: Option<InitCode>,
    /// Words of storage that decide how it behaves: slot and value.
    pub storage: Vec<(B256, B256)>,
    /// Whether somebody made sure that the code reads no storage and calls nobody, so that no words need be pinned.
    pub is_storage_free: bool,
}

/// How a contract came to be at its address by CREATE2 (EIP-1014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitCode {
    /// Who deployed it, usually [`crate::network::CREATE2_FACTORY`].
    pub deployer: Address,
    /// The salt.
    pub salt: B256,
    /// keccak256 of the init code with its arguments.
    pub hash: B256,
}

/// How a predicate differs from its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinFault {
    /// The running code is another, or there is none.
    Code {
        /// The pinned hash.
        expected: B256,
        /// The hash of what is there; `None` without code.
        got: Option<B256>,
    },
    /// The init code does not lead to this address.
    InitCode {
        /// Where it leads.
        leads_to: Address,
    },
    /// A word of storage is another.
    Storage {
        /// The slot.
        slot: B256,
        /// The pinned value.
        expected: B256,
        /// What is there.
        got: B256,
    },
    /// Everything is as pinned, but the pin does not say enough to rely on.
    Weak {
        /// Whether it is a proxy whose target can be changed.
        is_proxy: bool,
    },
}

impl PinFault {
    /// Its code.
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
    /// Holds a predicate against the pin. Nothing found: it is what was pinned, and the pin says enough.
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
            // Where the slot that names the target is pinned, the target is.
            proxy.is_mutable() && !self.storage.iter().any(|(_, value)| *value == proxy.target.into_word())
        }) {
            return Ok(Some(PinFault::Weak { is_proxy: true }));
        }
        let says_enough = self.is_storage_free || self.init_code.is_some() || !self.storage.is_empty();
        let is_cut = self.storage.len() > MAX_PINNED_SLOTS;
        Ok((!says_enough || is_cut).then_some(PinFault::Weak { is_proxy: false }))
    }
}
