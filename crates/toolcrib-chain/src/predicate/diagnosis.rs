//! Why there was no yes: a closer look at a predicate whose answer through the registry says little.
//!
//! A registry folds every malfunction into one pair of noes, and a clean no does not say how it came about. Here the predicate
//! is asked directly, in the registry's name, with the registry's gas and under a cap on the answer. What is learnt is a
//! reason to show; it never grants, and no variant says yes.

use std::fmt;

use alloy_primitives::{Address, Bytes, U256};
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use alloy_sol_types::{SolCall, SolError};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_core::registry::known::REGISTRY_GAS;

use crate::Error;
use crate::abi::{IAccessPredicate, ICompositePredicate, IToolRegistry};
use crate::registry::{Access, Revert};
use crate::rpc::{BoundedCall, CallOutcome, Chain, is_out_of_gas};

use super::binding::registry_of;

/// Most bytes of a direct answer that are read. 32 are due; this leaves room to tell a long answer from a flood.
pub const MAX_DIAGNOSED_BYTES: usize = 4_096;

/// Gas of the second direct question, asked when the registry's does not suffice: five times what the largest configuration
/// of the reference needs, so that one that is merely too large is told from one that burns whatever it gets.
pub const DIAGNOSIS_GAS: u64 = 10_000_000;

/// A check that had too little gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GasShortage {
    /// What it is given.
    pub given: u64,
    /// What it needs, to about 2 %.
    pub needed: u64,
    /// The chain's title and prices, where these are not Ethereum's.
    pub prices: Option<(&'static str, ColdAccess)>,
}

impl fmt::Display for GasShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it gets {} gas and needs about {}", self.given, self.needed)?;
        let Some((title, ColdAccess { account, slot })) = self.prices else { return Ok(()) };
        write!(f, "; {title} charges {account} gas for the first access to an account and {slot} for a storage slot")
    }
}

/// What a predicate does when it is asked for access.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnosis {
    /// There is no code.
    NoCode,
    /// It reverts.
    Reverted(Revert),
    /// It uses up the registry's gas, and [`DIAGNOSIS_GAS`] too.
    OutOfGas,
    /// It answers, but not within the registry's gas.
    NeedsMoreGas(GasShortage),
    /// It is a composite, and a term of it answers, but not within the gas that the composite gives.
    TermNeedsMoreGas {
        /// The term's place, from 0.
        index: u64,
        /// The term.
        predicate: Address,
        /// The gas.
        shortage: GasShortage,
    },
    /// It serves another registry, and does not answer this one.
    OtherRegistry {
        /// The registry that it states.
        stated: Address,
    },
    /// It does what the machine forbids, in the node's words, escaped and shortened.
    Halted(String),
    /// It returns no bytes.
    AnswerEmpty,
    /// It returns less than a word.
    AnswerShort {
        /// The bytes.
        length: usize,
    },
    /// It returns more than a word, up to [`MAX_DIAGNOSED_BYTES`].
    AnswerLong {
        /// The bytes.
        length: usize,
    },
    /// It returns more than [`MAX_DIAGNOSED_BYTES`].
    AnswerHuge,
    /// It returns one word that is neither 0 nor 1.
    AnswerNotBool {
        /// The word.
        word: U256,
    },
    /// Its answer turns with the registry's answer about the same tool.
    Reentered,
    /// Asked directly it gives a proper answer, which is not believed: the registry decides.
    Inconsistent,
}

impl Diagnosis {
    /// Its code.
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

/// The question that a registry puts to a predicate.
#[derive(Clone, Debug)]
pub struct Question {
    /// The registry, in whose name it is asked.
    pub registry: Address,
    /// The predicate.
    pub predicate: Address,
    /// The tool.
    pub tool: U256,
    /// The account.
    pub account: Address,
    /// What the account shows.
    pub data: Bytes,
}

/// Looks for the reason of an answer that a registry gave. `None`: there is nothing to explain about a yes or an honest no.
pub async fn diagnose(chain: &Chain, question: &Question, answer: Access) -> Result<Option<Diagnosis>, Error> {
    if answer == Access::Granted {
        return Ok(None);
    }
    let first = question.ask(chain, REGISTRY_GAS).await?;
    let may_circle = match (&first, answer) {
        (CallOutcome::Returned(bytes), Access::Denied) => bytes[..] == [0; 32],
        (CallOutcome::Reverted(_) | CallOutcome::Halted(_), Access::Malfunction) => true,
        _ => false,
    };
    if may_circle && question.turns_with_the_registry(chain).await? {
        return Ok(Some(Diagnosis::Reentered));
    }
    if answer == Access::Denied {
        return Ok(None);
    }
    Ok(Some(match first {
        CallOutcome::Reverted(data) => question.why_reverted(chain, &data).await?,
        CallOutcome::Halted(words) if is_out_of_gas(&words) => match question.ask(chain, DIAGNOSIS_GAS).await? {
            CallOutcome::TooLarge => Diagnosis::AnswerHuge,
            CallOutcome::Returned(bytes) if bytes.len() == 32 => {
                Diagnosis::NeedsMoreGas(question.shortage(chain, REGISTRY_GAS).await?)
            }
            // Whatever else it does with gas that it never gets: with the gas that it gets it does nothing.
            _ => Diagnosis::OutOfGas,
        },
        other => question.classify(chain, other).await?,
    }))
}

impl Question {
    fn input(&self) -> Bytes {
        let (id, account) = (self.tool, self.account);
        IAccessPredicate::hasAccessCall { toolId: id, account, data: self.data.clone() }.abi_encode().into()
    }

    async fn ask(&self, chain: &Chain, gas: u64) -> Result<CallOutcome, Error> {
        chain.call(&self.call(chain, gas)).await
    }

    fn call(&self, chain: &Chain, gas: u64) -> BoundedCall {
        /// What a transaction costs before its calldata, on Ethereum and its like.
        const BASE: u64 = 21_000;
        let data = self.input();
        // The predicate is to get what the registry would give, to the unit: what the call itself costs is added, and the
        // margin that the network's overhead has over it is taken away.
        let calldata: u64 = data.iter().map(|&byte| if byte == 0 { 4 } else { 16 }).sum();
        let margin = chain.network().call_overhead.saturating_sub(BASE).min(BASE);
        let gas = Some((gas + calldata).saturating_sub(margin));
        BoundedCall { to: self.predicate, data, from: Some(self.registry), gas, max_bytes: MAX_DIAGNOSED_BYTES }
    }

    /// Whether the predicate gives a proper answer with this gas.
    async fn is_answered(&self, chain: &Chain, gas: u64) -> Result<bool, Error> {
        Ok(matches!(self.ask(chain, gas).await?, CallOutcome::Returned(bytes) if is_bool(&bytes)))
    }

    /// Searches for the gas that a predicate needs which has too little with `given` and enough with [`DIAGNOSIS_GAS`].
    async fn shortage(&self, chain: &Chain, given: u64) -> Result<GasShortage, Error> {
        let (mut low, mut high) = (given, DIAGNOSIS_GAS);
        // Halving the ratio each time takes eight questions from 200,000 and 10,000,000.
        while high - low > low / 50 {
            let middle = (u128::from(low) * u128::from(high)).isqrt() as u64;
            if self.is_answered(chain, middle).await? { high = middle } else { low = middle }
        }
        let network = chain.network();
        let prices = (network.cold_access != ColdAccess::ETHEREUM).then_some((network.title, network.cold_access));
        Ok(GasShortage { given, needed: high, prices })
    }

    /// A contract that asks others reports their lack of gas as a revert of its own, so a revert may have the same cause.
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

    /// Whether the predicate would say yes if the registry said yes about the same tool. For this question alone the node puts
    /// other code in the registry's place; a node that cannot do that leaves the matter open.
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

/// Whether an answer is one word that says 0 or 1.
fn is_bool(bytes: &[u8]) -> bool {
    <[u8; 32]>::try_from(bytes).is_ok_and(|word| U256::from_be_bytes(word) <= U256::ONE)
}

/// The gas that a composite says it gives each term; `None` unless that is less than the registry gives the composite.
async fn term_gas(chain: &Chain, composite: Address) -> Result<Option<u64>, Error> {
    /// A constant costs a few hundred gas; a proxy in front of it some thousands.
    const GAS: u64 = 50_000;
    let data = ICompositePredicate::TERM_GASCall {}.abi_encode().into();
    let call = BoundedCall { to: composite, data, from: None, gas: Some(GAS), max_bytes: 32 };
    let CallOutcome::Returned(bytes) = chain.call(&call).await? else { return Ok(None) };
    let Ok(word) = <[u8; 32]>::try_from(&bytes[..]) else { return Ok(None) };
    Ok(u64::try_from(U256::from_be_bytes(word)).ok().filter(|gas| (1..REGISTRY_GAS).contains(gas)))
}

/// Code of a registry that says yes about one tool and no about all others: one word, or two for `tryHasAccess`.
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
