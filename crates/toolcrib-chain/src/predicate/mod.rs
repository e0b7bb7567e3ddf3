//! Access predicates: a client for each known one, and a look at an unknown one that cannot hurt.
//!
//! [`introspect`] asks a contract that may be hostile what it is. Gas, bytes and counts are capped; each outcome has its own
//! status and code; nothing it says grants access, which only [`crate::registry::Registry::access`] answers.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolCall;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::ACCESS_PREDICATE_INTERFACE;

use crate::Error;
use crate::abi::{IAccessPredicate, IERC165, IToolRegistry};
use crate::rpc::{BoundedCall, CallOutcome, Chain};

mod clients;
mod proxy;
mod requirements;

pub use clients::{
    AccessProofPredicate, CompositeOp, CompositePredicate, CompositeTerm, Erc20Gate, Erc20Predicate, Erc721Predicate,
    Erc1155Gate, Erc1155Predicate, MerklePredicate, SubscriptionGate, SubscriptionPredicate, SubscriptionStatus, TraitGate,
    TraitPredicate, registry_of,
};
pub use proxy::{
    ADMIN_SLOT, BEACON_SLOT, BEACON_UPGRADED_TOPIC, IMPLEMENTATION_SLOT, Proxy, ProxyKind, UPGRADED_TOPIC, Upgrade, upgrades,
};
pub use requirements::{
    Fault, Logic, MAX_ANSWER_BYTES, MAX_DATA_BYTES, MAX_LABEL_BYTES, MAX_REQUIREMENTS, Meaning, Requirement, decode,
};

/// Most bytes of `name()` and `version()` (ERC-8257 Predicate Introspection Hardening). Longer counts as not implemented.
pub const MAX_TEXT_BYTES: usize = 256;

/// Gas for one ERC-165 question, which must be answered with less than 30,000.
pub const ERC165_GAS: u64 = 30_000;

/// Gas for `name()` and `version()`: eight words of storage and the code around them, with room to spare.
pub const TEXT_GAS: u64 = 200_000;

/// Gas for `getRequirements`: a composite of three predicates at their largest takes about a tenth.
pub const REQUIREMENTS_GAS: u64 = 10_000_000;

/// What a predicate is and says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    /// The contract.
    pub address: Address,
    /// keccak256 of its code; `None` when there is none, so that nobody has access yet.
    pub code_hash: Option<B256>,
    /// How its code can be replaced.
    pub proxy: Option<Proxy>,
    /// What it says about itself by ERC-165.
    pub erc165: Erc165,
    /// Its name, if it has one of 1 to 256 bytes. Foreign text, opaque.
    pub name: Option<String>,
    /// Its version, likewise.
    pub version: Option<String>,
    /// What it asks for.
    pub requirements: Requirements,
}

/// Where a contract ends up on the ladder that registries climb before they take a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Erc165 {
    /// It does not speak ERC-165. Registries take it on trust.
    NotAdvertised,
    /// It speaks ERC-165 and is something else. Registries refuse it.
    Other,
    /// It says that it is an access predicate.
    Predicate,
}

/// The outcome of asking for requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirements {
    /// There is no code to ask.
    NoCode,
    /// It told.
    Listed {
        /// How they combine.
        logic: Logic,
        /// What it asks for.
        entries: Vec<Requirement>,
    },
    /// It reverted, ran out of gas, or returned bytes that do not decode.
    Failed,
    /// It returned more than readers take. Not a denial.
    OverLimit,
}

impl Introspection {
    /// Everything worth a word, worst first.
    pub fn codes(&self) -> Vec<Code> {
        if self.code_hash.is_none() {
            return vec![codes::predicate::NO_CODE];
        }
        let mut found = Vec::new();
        match self.erc165 {
            Erc165::Other => found.push(codes::predicate::NOT_A_PREDICATE),
            Erc165::NotAdvertised => found.push(codes::predicate::NOT_ADVERTISED),
            Erc165::Predicate => {}
        }
        if self.proxy.is_some_and(|proxy| proxy.is_mutable()) {
            found.push(codes::predicate::PROXY);
        }
        match &self.requirements {
            Requirements::Failed => found.push(codes::predicate::INTROSPECTION_FAILED),
            Requirements::OverLimit => found.push(codes::predicate::INTROSPECTION_OVER_LIMIT),
            Requirements::Listed { entries, .. } => {
                if entries.iter().any(|entry| entry.meaning == Meaning::Unread) {
                    found.push(codes::predicate::INCOMPLETE);
                }
                if entries.iter().any(|entry| entry.meaning == Meaning::Undecodable) {
                    found.push(codes::predicate::UNDECODABLE);
                }
            }
            Requirements::NoCode => {}
        }
        if self.name.is_none() {
            found.push(codes::predicate::NAME_MISSING);
        }
        found
    }

    /// Whether the list is known to be the whole truth about what is asked. Never say so to an agent otherwise.
    pub fn is_complete(&self) -> bool {
        matches!(&self.requirements, Requirements::Listed { entries, .. }
            if entries.iter().all(|entry| !matches!(entry.meaning, Meaning::Unread | Meaning::Undecodable | Meaning::Unknown)))
    }
}

/// Asks a contract what it is and what it asks for, as to one tool.
pub async fn introspect(chain: &Chain, address: Address, tool_id: U256) -> Result<Introspection, Error> {
    let code = chain.code(address).await?;
    if code.is_empty() {
        return Ok(Introspection {
            address,
            code_hash: None,
            proxy: None,
            erc165: Erc165::NotAdvertised,
            name: None,
            version: None,
            requirements: Requirements::NoCode,
        });
    }
    Ok(Introspection {
        address,
        code_hash: Some(keccak256(&code)),
        proxy: Proxy::detect(chain, address, &code).await?,
        erc165: ladder(chain, address).await?,
        name: read_text(chain, address, IAccessPredicate::nameCall {}.abi_encode()).await?,
        version: read_text(chain, address, IToolRegistry::versionCall {}.abi_encode()).await?,
        requirements: read_requirements(chain, address, tool_id).await?,
    })
}

/// Climbs the ladder of ERC-8257 Predicate Validation at Registration.
pub async fn ladder(chain: &Chain, address: Address) -> Result<Erc165, Error> {
    /// The interface id of ERC-165 itself.
    const ERC165: [u8; 4] = [0x01, 0xff, 0xc9, 0xa7];
    Ok(if !supports_interface(chain, address, ERC165).await? {
        Erc165::NotAdvertised
    } else if supports_interface(chain, address, ACCESS_PREDICATE_INTERFACE).await? {
        Erc165::Predicate
    } else {
        Erc165::Other
    })
}

/// Whether a contract claims an interface. Anything but exactly one word that says 1 is a no, as in our registry.
pub async fn supports_interface(chain: &Chain, address: Address, interface: [u8; 4]) -> Result<bool, Error> {
    const YES: B256 = B256::with_last_byte(1);
    let data = IERC165::supportsInterfaceCall { interfaceId: interface.into() }.abi_encode().into();
    let call = BoundedCall { to: address, data, from: None, gas: Some(ERC165_GAS), max_bytes: 32 };
    Ok(matches!(chain.call(&call).await?, CallOutcome::Returned(bytes) if bytes[..] == YES[..]))
}

/// Asks for requirements alone.
pub async fn read_requirements(chain: &Chain, address: Address, tool_id: U256) -> Result<Requirements, Error> {
    let data = IAccessPredicate::getRequirementsCall { toolId: tool_id }.abi_encode().into();
    let gas = Some(REQUIREMENTS_GAS);
    let call = BoundedCall { to: address, data, from: None, gas, max_bytes: MAX_ANSWER_BYTES };
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => match decode(&bytes) {
            Ok((logic, entries)) => Requirements::Listed { logic, entries },
            Err(Fault::Malformed) => Requirements::Failed,
            Err(Fault::OverLimit) => Requirements::OverLimit,
        },
        CallOutcome::Reverted(_) | CallOutcome::Halted(_) => Requirements::Failed,
        CallOutcome::TooLarge => Requirements::OverLimit,
    })
}

/// Reads a short text; `None` when there is none, it is empty, or longer than [`MAX_TEXT_BYTES`].
pub(crate) async fn read_text(chain: &Chain, address: Address, data: Vec<u8>) -> Result<Option<String>, Error> {
    // Offset, length, and the text in whole words.
    let call = BoundedCall { to: address, data: data.into(), from: None, gas: Some(TEXT_GAS), max_bytes: 64 + MAX_TEXT_BYTES };
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => decode_text(&bytes),
        _ => None,
    })
}

/// The bytes of the predicate's answer as a text.
fn decode_text(bytes: &Bytes) -> Option<String> {
    let (offset, tail) = bytes.split_first_chunk::<32>()?;
    // No compiler writes another offset for a single text.
    if U256::from_be_bytes(*offset) != U256::from(32) {
        return None;
    }
    let length = usize::try_from(U256::from_be_bytes(*tail.first_chunk::<32>()?)).ok()?;
    if length == 0 || length > MAX_TEXT_BYTES {
        return None;
    }
    let text = tail.get(32..32 + length)?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolValue;

    use super::*;

    // req: HARDEN-017, PRED-002
    #[test]
    fn texts_have_1_to_256_bytes() {
        let text = |length: usize| decode_text(&"x".repeat(length).abi_encode().into()).map(|text| text.len());
        assert_eq!(text(1), Some(1));
        assert_eq!(text(256), Some(256));
        assert_eq!(text(257), None);
        assert_eq!(text(0), None, "a name is not empty");
        assert_eq!(text(5_000_000), None);
    }

    // req: HARDEN-017
    #[test]
    fn texts_that_lie_are_none() {
        let word = |value: u64| U256::from(value).to_be_bytes_vec();
        let max = vec![0xff; 32];
        for bytes in [
            vec![],
            word(32),
            [word(32), word(5)].concat(),
            [max.clone(), word(5), vec![b'x'; 32]].concat(),
            [word(32), max, vec![b'x'; 32]].concat(),
            [word(64), word(5), vec![b'x'; 32]].concat(),
            [word(32), word(2), vec![0xff; 32]].concat(),
            vec![b'x'; 31],
        ] {
            assert_eq!(decode_text(&bytes.clone().into()), None, "{bytes:02x?}");
        }
    }
}
