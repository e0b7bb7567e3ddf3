//! Why there was no yes: a closer look at a predicate whose answer through the registry says little.
//!
//! A registry folds every malfunction into one pair of noes, and a clean no does not say how it came about. Here the predicate
//! is asked directly, in the registry's name, with the registry's gas and under a cap on the answer. What is learnt is a
//! reason to show; it never grants, and no variant says yes.

use std::fmt;

use alloy_primitives::{Address, Bytes, U256};
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use alloy_sol_types::SolCall;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::known::REGISTRY_GAS;

use crate::Error;
use crate::abi::{IAccessPredicate, IToolRegistry};
use crate::registry::{Access, Revert};
use crate::rpc::{BoundedCall, CallOutcome, Chain, is_out_of_gas};

/// Most bytes of a direct answer that are read. 32 are due; this leaves room to tell a long answer from a flood.
pub const MAX_DIAGNOSED_BYTES: usize = 4_096;

/// Gas of the second direct question, asked when the registry's does not suffice: five times what the largest configuration
/// of the reference needs, so that one that is merely too large is told from one that burns whatever it gets.
pub const DIAGNOSIS_GAS: u64 = 10_000_000;

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
    NeedsMoreGas,
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
            Self::NeedsMoreGas => codes::predicate::NEEDS_MORE_GAS,
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
            Self::NeedsMoreGas => write!(f, "{title}: {REGISTRY_GAS} were not enough, {DIAGNOSIS_GAS} were"),
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
    let CallOutcome::Halted(words) = &first else { return question.classify(chain, first).await.map(Some) };
    if !is_out_of_gas(words) {
        return Ok(Some(Diagnosis::Halted(words.clone())));
    }
    Ok(Some(match question.ask(chain, DIAGNOSIS_GAS).await? {
        CallOutcome::TooLarge => Diagnosis::AnswerHuge,
        CallOutcome::Returned(bytes) if bytes.len() == 32 => Diagnosis::NeedsMoreGas,
        // Whatever else it does with gas that it never gets: with the gas that it gets it does nothing.
        _ => Diagnosis::OutOfGas,
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
