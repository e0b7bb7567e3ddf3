//! Access predicates: a client for each known one, and a look at an unknown one that cannot hurt.
//!
//! [`introspect`] asks a contract that may be hostile what it is. Gas, bytes and counts are capped; each outcome has its own
//! status and code; nothing it says grants access, which only [`crate::registry::Registry::access`] answers.

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
pub use diagnosis::{DIAGNOSIS_GAS, Diagnosis, GasShortage, MAX_DIAGNOSED_BYTES, Question, diagnose};
pub use limits::Limits;
pub use pin::{InitCode, MAX_PINNED_SLOTS, Pin, PinFault};
pub use proof::proof_kind;
pub use proxy::{
    ADMIN_SLOT, BEACON_SLOT, BEACON_UPGRADED_TOPIC, IMPLEMENTATION_SLOT, UPGRADED_TOPIC, Upgrade, detect_proxy, upgrades,
};
pub use requirements::{Fault, Limit, MAX_ANSWER_BYTES, MAX_DATA_BYTES, MAX_LABEL_BYTES, MAX_REQUIREMENTS, Meaning, decode};
pub use secret::secret_in;
pub use text::Opaque;
pub(crate) use text::read_text;
pub use toolcrib_core::registry::{Erc165, Proxy, ProxyKind, Requirement, Requirements};
pub use toolcrib_core::tool::Logic;

/// Most bytes of `name()` and `version()` (ERC-8257 Predicate Introspection Hardening). Longer counts as not implemented.
pub const MAX_TEXT_BYTES: usize = 256;

/// Gas for one ERC-165 question, which must be answered with less than 30,000.
pub const ERC165_GAS: u64 = 30_000;

/// Gas for `name()` and `version()`: eight words of storage and the code around them, with room to spare.
pub const TEXT_GAS: u64 = 200_000;

/// Gas for `getRequirements`. A composite hands 3,000,000 to each of its three terms, 2,000,000 for asking and 1,000,000 for
/// decoding, and refuses to ask with less: its worst case is 9,000,000, a 64th more because calls keep that back (EIP-150),
/// and what it writes itself. Composites of others do not say by ERC-165 that they are some, so every predicate is read with
/// this; one that stores each of its requirements in a slot of its own needs far less.
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
    /// Whether it claims the interface id that nobody may claim, so that its other claims are worth nothing.
    pub claims_everything: bool,
    /// Its name, if it has one of 1 to 256 bytes. Foreign text.
    pub name: Option<Opaque>,
    /// Its version, likewise.
    pub version: Option<Opaque>,
    /// What it asks for.
    pub requirements: Requirements,
    /// Why there is no list of requirements, where one was asked for.
    pub no_requirements: Option<Code>,
    /// What is known to be wrong with this very deployment.
    pub known_fault: Option<KnownFault>,
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
        if self.claims_everything {
            found.push(codes::predicate::LIES_ABOUT_ERC165);
        }
        if self.proxy.is_some_and(|proxy| proxy.is_mutable()) {
            found.push(codes::predicate::PROXY);
        }
        // The class first, then the reason.
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

    /// Whether an account must show something before access can be granted, by what the list says.
    pub fn needs_proof(&self) -> bool {
        matches!(&self.requirements, Requirements::Listed { entries, .. }
            if entries.iter().any(|entry| RequirementKind::from_id(entry.kind.0).is_some_and(RequirementKind::needs_proof)))
    }

    /// Whether the list is known to be the whole truth about what is asked. Never say so to an agent otherwise.
    pub fn is_complete(&self) -> bool {
        matches!(&self.requirements, Requirements::Listed { entries, .. }
            if entries.iter().all(|entry| !matches!(Meaning::from(entry), Meaning::Unread | Meaning::Undecodable | Meaning::Unknown)))
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
    Ok(ask_requirements(chain, address, tool_id).await?.0)
}

/// Asks for requirements, and says why there is no list.
async fn ask_requirements(chain: &Chain, address: Address, tool_id: U256) -> Result<(Requirements, Option<Code>), Error> {
    let data = IAccessPredicate::getRequirementsCall { toolId: tool_id }.abi_encode().into();
    let gas = Some(REQUIREMENTS_GAS);
    let call = BoundedCall { to: address, data, from: None, gas, max_bytes: MAX_ANSWER_BYTES };
    let failed = |why| (Requirements::Failed, Some(why));
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => match decode(&bytes) {
            Ok((logic, entries)) => (Requirements::Listed { logic, entries }, None),
            Err(Fault::Malformed) => failed(codes::predicate::REQUIREMENTS_MALFORMED),
            Err(Fault::OverLimit(limit)) => (Requirements::OverLimit, Some(limit.code())),
        },
        CallOutcome::Reverted(_) => failed(codes::predicate::REQUIREMENTS_REVERTED),
        CallOutcome::Halted(words) if is_out_of_gas(&words) => failed(codes::predicate::REQUIREMENTS_OUT_OF_GAS),
        CallOutcome::Halted(_) => failed(codes::predicate::REQUIREMENTS_HALTED),
        CallOutcome::TooLarge => (Requirements::OverLimit, Some(Limit::Answer.code())),
    })
}
