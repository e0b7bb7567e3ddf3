//! Access predicates: a client for each known one, and safe introspection of unknown ones.
//!
//! [`introspect`] asks a contract that may be hostile what it is. Gas, bytes and counts are capped, and each outcome has its own
//! status and code. The result never grants access; only [`crate::registry::Registry::access`] decides that.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolCall;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::known::{KnownFault, known_fault};
use toolcrib_core::registry::{ACCESS_PREDICATE_INTERFACE, INVALID_INTERFACE, RequirementKind};

use crate::Error;
use crate::abi::{IAccessPredicate, IERC165, IToolRegistry};
use crate::rpc::{BoundedCall, CallOutcome, Chain, is_out_of_gas};

mod binding;
mod clients;
mod diagnosis;
mod limits;
mod pin;
mod proof;
mod proxy;
mod requirements;
mod secret;
mod text;

pub use binding::{check_registry, registry_of};
pub use clients::{
    AccessProofPredicate, CompositeOp, CompositePredicate, CompositeTerm, Erc20Gate, Erc20Predicate, Erc721Predicate,
    Erc1155Gate, Erc1155Predicate, MerklePredicate, SubscriptionGate, SubscriptionPredicate, SubscriptionStatus, TraitGate,
    TraitPredicate,
};
pub use diagnosis::{DIAGNOSIS_GAS, Diagnosis, GasShortage, MAX_DIAGNOSED_BYTES, PredicateQuery, diagnose};
pub use limits::Limits;
pub use pin::{InitCode, MAX_PINNED_SLOTS, Pin, PinFault};
pub use proof::proof_kind;
pub use proxy::{
    ADMIN_SLOT, BEACON_SLOT, BEACON_UPGRADED_TOPIC, IMPLEMENTATION_SLOT, UPGRADED_TOPIC, Upgrade, detect_proxy, upgrades,
};
pub use requirements::{
    Limit, MAX_ANSWER_BYTES, MAX_DATA_BYTES, MAX_LABEL_BYTES, MAX_REQUIREMENTS, Meaning, RequirementsError, decode,
};
pub use secret::secret_in;
pub use text::Opaque;
pub(crate) use text::read_text;
pub use toolcrib_core::registry::{Erc165, Proxy, ProxyKind, Requirement, Requirements};
pub use toolcrib_core::tool::Logic;

/// Maximum length of `name()` and `version()` (ERC-8257 Predicate Introspection Hardening). Longer ones count as not implemented.
pub const MAX_TEXT_BYTES: usize = 256;

/// Gas for one ERC-165 call, which the standard limits to less than 30,000.
pub const ERC165_GAS: u64 = 30_000;

/// Gas for `name()` and `version()`: eight storage words and the code around them, with a margin.
pub const TEXT_GAS: u64 = 200_000;

/// Gas for `getRequirements`. A composite forwards 3,000,000 to each of its three terms, 2,000,000 for the call and 1,000,000 for
/// decoding, and does not make the call with less. Its worst case is 9,000,000, another 64th because calls keep that back (EIP-150),
/// and its own output. Third-party composites do not announce themselves through ERC-165, so every predicate gets this much gas; a
/// predicate that stores each requirement in its own slot needs far less.
pub const REQUIREMENTS_GAS: u64 = 10_000_000;

/// What a predicate is and what it says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    /// The contract.
    pub address: Address,
    /// keccak256 of its code; `None` if it has no code, so that no account has access yet.
    pub code_hash: Option<B256>,
    /// Whether and how its code can be replaced.
    pub proxy: Option<Proxy>,
    /// The interfaces that it claims through ERC-165.
    pub erc165: Erc165,
    /// Whether it claims the interface id 0xffffffff, which ERC-165 forbids, so that its other claims mean nothing.
    pub claims_everything: bool,
    /// Its name, if it has one of 1 to 256 bytes. Untrusted text.
    pub name: Option<Opaque>,
    /// Its version, likewise.
    pub version: Option<Opaque>,
    /// Its requirements.
    pub requirements: Requirements,
    /// Why the list of requirements is missing, if one was requested.
    pub no_requirements: Option<Code>,
    /// The known vulnerability or bug of this deployment.
    pub known_fault: Option<KnownFault>,
}

impl Introspection {
    /// Returns all codes to report, the most severe first.
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
        if self.claims_everything {
            found.push(codes::predicate::LIES_ABOUT_ERC165);
        }
        if self.proxy.is_some_and(|proxy| proxy.is_mutable()) {
            found.push(codes::predicate::PROXY);
        }
        // First the class, then the reason.
        match &self.requirements {
            Requirements::Failed => found.push(codes::predicate::INTROSPECTION_FAILED),
            Requirements::OverLimit => found.push(codes::predicate::INTROSPECTION_OVER_LIMIT),
            Requirements::Listed { entries, .. } => {
                if self.requirements.has_unread() {
                    found.push(codes::predicate::INCOMPLETE);
                }
                if entries.iter().any(|entry| Meaning::from(entry) == Meaning::Undecodable) {
                    found.push(codes::predicate::UNDECODABLE);
                }
            }
            Requirements::NoCode => {}
        }
        found.extend(self.no_requirements);
        if self.name.is_none() {
            found.push(codes::predicate::NAME_MISSING);
        }
        found.extend(self.known_fault.map(|fault| fault.code()));
        found
    }

    /// Whether, according to its list of requirements, an account must send a proof to get access.
    pub fn needs_proof(&self) -> bool {
        matches!(&self.requirements, Requirements::Listed { entries, .. }
            if entries.iter().any(|entry| RequirementKind::from_id(entry.kind.0).is_some_and(RequirementKind::needs_proof)))
    }

    /// Whether every entry of the list was understood. Unless it is, do not tell an agent that the list is complete.
    pub fn is_complete(&self) -> bool {
        matches!(&self.requirements, Requirements::Listed { entries, .. }
            if entries.iter().all(|entry| !matches!(Meaning::from(entry), Meaning::Unread | Meaning::Undecodable | Meaning::Unknown)))
    }
}

/// Reads what a contract is and what it requires for one tool.
pub async fn introspect(chain: &Chain, address: Address, tool_id: U256) -> Result<Introspection, Error> {
    let code = chain.code(address).await?;
    if code.is_empty() {
        return Ok(Introspection {
            address,
            code_hash: None,
            proxy: None,
            erc165: Erc165::NotAdvertised,
            claims_everything: false,
            name: None,
            version: None,
            requirements: Requirements::NoCode,
            no_requirements: None,
            known_fault: None,
        });
    }
    let code_hash = keccak256(&code);
    let erc165 = ladder(chain, address).await?;
    let (requirements, no_requirements) = ask_requirements(chain, address, tool_id).await?;
    Ok(Introspection {
        address,
        code_hash: Some(code_hash),
        proxy: detect_proxy(chain, address, &code).await?,
        erc165,
        claims_everything: erc165 != Erc165::NotAdvertised && supports_interface(chain, address, INVALID_INTERFACE).await?,
        name: read_text(chain, address, IAccessPredicate::nameCall {}.abi_encode()).await?,
        version: read_text(chain, address, IToolRegistry::versionCall {}.abi_encode()).await?,
        requirements,
        no_requirements,
        known_fault: known_fault(chain.chain_id(), &address, Some(&code_hash)),
    })
}

/// Runs the ERC-165 checks of ERC-8257 Predicate Validation at Registration, in order.
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

/// Whether a contract claims an interface. Return data other than exactly one word with the value 1 counts as "no", as in our registry.
pub async fn supports_interface(chain: &Chain, address: Address, interface: [u8; 4]) -> Result<bool, Error> {
    const YES: B256 = B256::with_last_byte(1);
    let data = IERC165::supportsInterfaceCall { interfaceId: interface.into() }.abi_encode().into();
    let call = BoundedCall { to: address, data, from: None, gas: Some(ERC165_GAS), max_bytes: 32 };
    Ok(matches!(chain.call(&call).await?, CallOutcome::Returned(bytes) if bytes[..] == YES[..]))
}

/// Reads only the requirements.
pub async fn read_requirements(chain: &Chain, address: Address, tool_id: U256) -> Result<Requirements, Error> {
    Ok(ask_requirements(chain, address, tool_id).await?.0)
}

/// Reads the requirements, and the code of the error if there is no list.
async fn ask_requirements(chain: &Chain, address: Address, tool_id: U256) -> Result<(Requirements, Option<Code>), Error> {
    let data = IAccessPredicate::getRequirementsCall { toolId: tool_id }.abi_encode().into();
    let gas = Some(REQUIREMENTS_GAS);
    let call = BoundedCall { to: address, data, from: None, gas, max_bytes: MAX_ANSWER_BYTES };
    let failed = |why| (Requirements::Failed, Some(why));
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => match decode(&bytes) {
            Ok((logic, entries)) => (Requirements::Listed { logic, entries }, None),
            Err(RequirementsError::Malformed) => failed(codes::predicate::REQUIREMENTS_MALFORMED),
            Err(RequirementsError::OverLimit(limit)) => (Requirements::OverLimit, Some(limit.code())),
        },
        CallOutcome::Reverted(_) => failed(codes::predicate::REQUIREMENTS_REVERTED),
        CallOutcome::Halted(words) if is_out_of_gas(&words) => failed(codes::predicate::REQUIREMENTS_OUT_OF_GAS),
        CallOutcome::Halted(_) => failed(codes::predicate::REQUIREMENTS_HALTED),
        CallOutcome::TooLarge => (Requirements::OverLimit, Some(Limit::Answer.code())),
    })
}
