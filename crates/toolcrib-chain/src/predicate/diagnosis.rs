//! Diagnosis of predicates that deny access or fail through the registry.
//!
//! A registry reports every malfunction as the same pair of booleans, and a plain "no" does not say why. Here the predicate is called
//! directly, with the registry as the sender, with the registry's gas limit and a cap on the length of the return data. The result is a
//! reason to show; it never grants access, and no variant means "yes".

use std::fmt;

use alloy_primitives::{Address, Bytes, U256};
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use alloy_sol_types::{SolCall, SolError};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_core::registry::known::REGISTRY_GAS;

use crate::Error;
use crate::abi::{IAccessPredicate, ICompositePredicate, IToolRegistry};
use crate::registry::{AccessResult, Revert};
use crate::rpc::{BoundedCall, CallOutcome, Chain, is_out_of_gas};

use super::binding::registry_of;

/// Maximum length of the return data of a direct call. 32 bytes are expected; this leaves room to tell a long answer from a flood.
pub const MAX_DIAGNOSED_BYTES: usize = 4_096;

/// Gas of the second direct call, made when the registry's gas is not enough: five times what the largest configuration
/// of the reference needs, to tell a predicate that is merely too large from one that burns any amount.
pub const DIAGNOSIS_GAS: u64 = 10_000_000;

/// A check that had too little gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GasShortage {
    /// The gas limit.
    pub given: u64,
    /// The gas that it needs, within about 2 %.
    pub needed: u64,
    /// The chain's title and cold-access costs, if these differ from Ethereum's.
    pub prices: Option<(&'static str, ColdAccess)>,
}

impl fmt::Display for GasShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it gets {} gas and needs about {}", self.given, self.needed)?;
        let Some((title, ColdAccess { account, slot })) = self.prices else { return Ok(()) };
        write!(f, "; {title} charges {account} gas for the first access to an account and {slot} for a storage slot")
    }
}

/// Why a predicate did not grant access.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnosis {
    /// The address has no code.
    NoCode,
    /// It reverts.
    Reverted(Revert),
    /// It uses up the registry's gas limit, and [`DIAGNOSIS_GAS`] too.
    OutOfGas,
    /// It answers, but needs more than the registry's gas limit.
    NeedsMoreGas(GasShortage),
    /// It is a composite, and one of its terms needs more gas than the composite gives each term.
    TermNeedsMoreGas {
        /// The term's index, from 0.
        index: u64,
        /// The term.
        predicate: Address,
        /// The gas limit and the gas that it needs.
        shortage: GasShortage,
    },
    /// It is bound to another registry, and does not answer for this one.
    OtherRegistry {
        /// The registry that it states.
        stated: Address,
    },
    /// It executes an invalid operation. Has the node's message, escaped and truncated.
    Halted(String),
    /// It returns no bytes.
    AnswerEmpty,
    /// It returns less than a word.
    AnswerShort {
        /// The number of bytes.
        length: usize,
    },
    /// It returns more than a word, up to [`MAX_DIAGNOSED_BYTES`].
    AnswerLong {
        /// The number of bytes.
        length: usize,
    },
    /// It returns more than [`MAX_DIAGNOSED_BYTES`].
    AnswerHuge,
    /// It returns one word that is neither 0 nor 1.
    AnswerNotBool {
        /// The word.
        word: U256,
    },
    /// Its answer depends on the registry's answer about the same tool.
    Reentered,
    /// Called directly it returns a valid boolean, which does not count: the registry decides.
    Inconsistent,
}

impl Diagnosis {
    /// Returns the code of this diagnosis.
    pub const fn code(&self) -> Code {
        match self {
            Self::NoCode => codes::predicate::NO_CODE,
            Self::Reverted(_) => codes::predicate::REVERTED,
            Self::OutOfGas => codes::predicate::OUT_OF_GAS,
            Self::NeedsMoreGas(_) => codes::predicate::NEEDS_MORE_GAS,
            Self::TermNeedsMoreGas { .. } => codes::predicate::TERM_NEEDS_MORE_GAS,
            Self::OtherRegistry { .. } => codes::predicate::OTHER_REGISTRY,
            Self::Halted(_) => codes::predicate::HALTED,
            Self::AnswerEmpty => codes::predicate::ANSWER_EMPTY,
            Self::AnswerShort { .. } => codes::predicate::ANSWER_SHORT,
            Self::AnswerLong { .. } => codes::predicate::ANSWER_LONG,
            Self::AnswerHuge => codes::predicate::ANSWER_HUGE,
            Self::AnswerNotBool { .. } => codes::predicate::ANSWER_NOT_BOOL,
            Self::Reentered => codes::predicate::REENTERED,
            Self::Inconsistent => codes::predicate::INCONSISTENT,
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.code().title();
        match self {
            Self::Reverted(revert) => write!(f, "{title}: {revert}"),
            Self::Halted(words) => write!(f, "{title}: {words}"),
            Self::AnswerShort { length } | Self::AnswerLong { length } => write!(f, "{title}: {length} bytes"),
            Self::AnswerNotBool { word } => write!(f, "{title}: {word:#x}"),
            Self::OutOfGas => write!(f, "{title}: {DIAGNOSIS_GAS} were not enough"),
            Self::NeedsMoreGas(shortage) => write!(f, "{title}: {shortage}"),
            Self::TermNeedsMoreGas { index, predicate, shortage } => write!(f, "{title}: term {index}, {predicate}: {shortage}"),
            Self::OtherRegistry { stated } => write!(f, "{title}: {stated}"),
            _ => f.write_str(title),
        }
    }
}

/// The access check that a registry makes on a predicate.
#[derive(Clone, Debug)]
pub struct PredicateQuery {
    /// The registry, which is the sender of the call.
    pub registry: Address,
    /// The predicate.
    pub predicate: Address,
    /// The tool.
    pub tool: U256,
    /// The account.
    pub account: Address,
    /// The proof that the account sends.
    pub data: Bytes,
}

/// Finds the reason of a registry's answer. `None` if access was granted or properly denied.
pub async fn diagnose(chain: &Chain, question: &PredicateQuery, answer: AccessResult) -> Result<Option<Diagnosis>, Error> {
    if answer == AccessResult::Granted {
        return Ok(None);
    }
    let first = question.ask(chain, REGISTRY_GAS).await?;
    let may_circle = match (&first, answer) {
        (CallOutcome::Returned(bytes), AccessResult::Denied) => bytes[..] == [0; 32],
        (CallOutcome::Reverted(_) | CallOutcome::Halted(_), AccessResult::Malfunction) => true,
        _ => false,
    };
    if may_circle && question.turns_with_the_registry(chain).await? {
        return Ok(Some(Diagnosis::Reentered));
    }
    if answer == AccessResult::Denied {
        return Ok(None);
    }
    Ok(Some(match first {
        CallOutcome::Reverted(data) => question.why_reverted(chain, &data).await?,
        CallOutcome::Halted(words) if is_out_of_gas(&words) => match question.ask(chain, DIAGNOSIS_GAS).await? {
            CallOutcome::TooLarge => Diagnosis::AnswerHuge,
            CallOutcome::Returned(bytes) if bytes.len() == 32 => {
                Diagnosis::NeedsMoreGas(question.shortage(chain, REGISTRY_GAS).await?)
            }
            // What it would return with more gas does not matter: it never gets more.
            _ => Diagnosis::OutOfGas,
        },
        other => question.classify(chain, other).await?,
    }))
}

impl PredicateQuery {
    fn input(&self) -> Bytes {
        let (id, account) = (self.tool, self.account);
        IAccessPredicate::hasAccessCall { toolId: id, account, data: self.data.clone() }.abi_encode().into()
    }

    async fn ask(&self, chain: &Chain, gas: u64) -> Result<CallOutcome, Error> {
        chain.call(&self.call(chain, gas)).await
    }

    fn call(&self, chain: &Chain, gas: u64) -> BoundedCall {
        /// Base cost of a transaction before calldata, on Ethereum and equivalent chains.
        const BASE: u64 = 21_000;
        let data = self.input();
        // The predicate must get exactly the gas that the registry would give it: add the cost of the call itself, and subtract
        // the margin by which the network's configured overhead exceeds it.
        let calldata: u64 = data.iter().map(|&byte| if byte == 0 { 4 } else { 16 }).sum();
        let margin = chain.network().call_overhead.saturating_sub(BASE).min(BASE);
        let gas = Some((gas + calldata).saturating_sub(margin));
        BoundedCall { to: self.predicate, data, from: Some(self.registry), gas, max_bytes: MAX_DIAGNOSED_BYTES }
    }

    /// Whether the predicate returns a valid boolean with this gas.
    async fn is_answered(&self, chain: &Chain, gas: u64) -> Result<bool, Error> {
        Ok(matches!(self.ask(chain, gas).await?, CallOutcome::Returned(bytes) if is_bool(&bytes)))
    }

    /// Finds the gas that a predicate needs by binary search. `given` must be too little, and [`DIAGNOSIS_GAS`] enough.
    async fn shortage(&self, chain: &Chain, given: u64) -> Result<GasShortage, Error> {
        let (mut low, mut high) = (given, DIAGNOSIS_GAS);
        // The geometric mean halves the ratio each time: eight calls from 200,000 and 10,000,000.
        while high - low > low / 50 {
            let middle = (u128::from(low) * u128::from(high)).isqrt() as u64;
            if self.is_answered(chain, middle).await? { high = middle } else { low = middle }
        }
        let network = chain.network();
        let prices = (network.cold_access != ColdAccess::ETHEREUM).then_some((network.title, network.cold_access));
        Ok(GasShortage { given, needed: high, prices })
    }

    /// A contract that calls others reports their out-of-gas errors as its own revert, so a revert may have the same cause.
    async fn why_reverted(&self, chain: &Chain, data: &Bytes) -> Result<Diagnosis, Error> {
        if let Some(stated) = registry_of(chain, self.predicate).await?.filter(|stated| *stated != self.registry) {
            return Ok(Diagnosis::OtherRegistry { stated });
        }
        if self.is_answered(chain, DIAGNOSIS_GAS).await? {
            return Ok(Diagnosis::NeedsMoreGas(self.shortage(chain, REGISTRY_GAS).await?));
        }
        if let Ok(error) = ICompositePredicate::TermMalfunctioned::abi_decode_validate(data)
            && let Some(given) = term_gas(chain, self.predicate).await?
        {
            let (registry, predicate) = (self.predicate, error.predicate);
            let term = Self { registry, predicate, ..self.clone() };
            if !term.is_answered(chain, given).await? && term.is_answered(chain, DIAGNOSIS_GAS).await? {
                let (index, shortage) = (error.index.saturating_to(), term.shortage(chain, given).await?);
                return Ok(Diagnosis::TermNeedsMoreGas { index, predicate, shortage });
            }
        }
        Ok(Diagnosis::Reverted(Revert::decode(data)))
    }

    async fn classify(&self, chain: &Chain, outcome: CallOutcome) -> Result<Diagnosis, Error> {
        Ok(match outcome {
            CallOutcome::Reverted(data) => Diagnosis::Reverted(Revert::decode(&data)),
            CallOutcome::Halted(words) => Diagnosis::Halted(words),
            CallOutcome::TooLarge => Diagnosis::AnswerHuge,
            CallOutcome::Returned(bytes) => match (bytes.len(), bytes.first_chunk::<32>()) {
                (0, _) if chain.code(self.predicate).await?.is_empty() => Diagnosis::NoCode,
                (0, _) => Diagnosis::AnswerEmpty,
                (length, None) => Diagnosis::AnswerShort { length },
                (32, Some(word)) => match U256::from_be_bytes(*word) {
                    U256::ZERO | U256::ONE => Diagnosis::Inconsistent,
                    word => Diagnosis::AnswerNotBool { word },
                },
                (length, Some(_)) => Diagnosis::AnswerLong { length },
            },
        })
    }

    /// Whether the predicate would grant access if the registry granted it for the same tool. A state override replaces the registry's
    /// code for this call; if the node does not support overrides, the result is `false`.
    async fn turns_with_the_registry(&self, chain: &Chain) -> Result<bool, Error> {
        const YES: U256 = U256::ONE;
        let mut overrides = StateOverride::default();
        overrides.insert(self.registry, AccountOverride { code: Some(agreeable(self.tool)), ..AccountOverride::default() });
        match chain.call_with(&self.call(chain, REGISTRY_GAS), overrides).await {
            Ok(CallOutcome::Returned(bytes)) => Ok(bytes[..] == YES.to_be_bytes::<32>()),
            Ok(_) | Err(Error::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether the return data is one word with the value 0 or 1.
fn is_bool(bytes: &[u8]) -> bool {
    <[u8; 32]>::try_from(bytes).is_ok_and(|word| U256::from_be_bytes(word) <= U256::ONE)
}

/// The gas that a composite states for each term; `None` unless it is less than the registry gives the composite.
async fn term_gas(chain: &Chain, composite: Address) -> Result<Option<u64>, Error> {
    /// A constant costs a few hundred gas, some thousands behind a proxy.
    const GAS: u64 = 50_000;
    let data = ICompositePredicate::TERM_GASCall {}.abi_encode().into();
    let call = BoundedCall { to: composite, data, from: None, gas: Some(GAS), max_bytes: 32 };
    let CallOutcome::Returned(bytes) = chain.call(&call).await? else { return Ok(None) };
    let Ok(word) = <[u8; 32]>::try_from(&bytes[..]) else { return Ok(None) };
    Ok(u64::try_from(U256::from_be_bytes(word)).ok().filter(|gas| (1..REGISTRY_GAS).contains(gas)))
}

/// Code of a registry that grants access to one tool and denies all others: one word, or two for `tryHasAccess`.
fn agreeable(tool: U256) -> Bytes {
    let id = tool.to_be_bytes::<32>();
    [
        // CALLDATALOAD(4) == id, into both words
        &[0x60, 0x04, 0x35, 0x7f][..],
        &id,
        &[0x14, 0x80, 0x60, 0x00, 0x52, 0x60, 0x20, 0x52],
        // RETURN(0, 32 + (selector == tryHasAccess) * 32)
        &[0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c, 0x63],
        &IToolRegistry::tryHasAccessCall::SELECTOR,
        &[0x14, 0x60, 0x05, 0x1b, 0x60, 0x20, 0x01, 0x60, 0x00, 0xf3],
    ]
    .concat()
    .into()
}
