//! Decoded reasons of reverts.

use std::fmt;

use alloy_primitives::{Address, Bytes, U256, keccak256};
use alloy_sol_types::{Panic, SolError, SolInterface};
use toolcrib_core::codes::{self, Code};

use crate::abi::IToolRegistry::IToolRegistryErrors;
use crate::error::foreign;

/// The reason of a revert.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revert {
    /// No tool was ever registered with this id.
    ToolNotFound(U256),
    /// The tool was deregistered.
    ToolDeregistered(U256),
    /// The caller is not the creator of the tool.
    NotToolCreator {
        /// The tool.
        id: U256,
        /// The caller.
        caller: Address,
    },
    /// The URI is empty or too long.
    InvalidMetadataUri,
    /// The hash is zero.
    InvalidManifestHash,
    /// The contract implements ERC-165, but not the interface of predicates.
    InvalidAccessPredicate(Address),
    /// An unknown error of a call that would have stored this predicate.
    PredicateRefused {
        /// The predicate.
        predicate: Address,
        /// The raw revert data.
        data: Bytes,
    },
    /// An error of one of the known predicates.
    Named {
        /// Its Solidity name.
        name: &'static str,
        /// Its arguments, formatted.
        arguments: Vec<String>,
    },
    /// A revert reason (`Error(string)`). Untrusted: escape it before showing it.
    Message(String),
    /// A Solidity panic, such as a failed assertion.
    Panic(U256),
    /// Other revert data, unchanged. Empty for a revert without data.
    Unknown(Bytes),
}

impl Revert {
    /// Decodes revert data; unknown data is kept.
    pub fn decode(data: &Bytes) -> Self {
        if let Ok(error) = IToolRegistryErrors::abi_decode_validate(data) {
            return match error {
                IToolRegistryErrors::ToolNotFound(error) => Self::ToolNotFound(error.toolId),
                IToolRegistryErrors::ToolIsDeregistered(error) => Self::ToolDeregistered(error.toolId),
                IToolRegistryErrors::NotToolCreator(error) => Self::NotToolCreator { id: error.toolId, caller: error.caller },
                IToolRegistryErrors::InvalidMetadataURI(_) => Self::InvalidMetadataUri,
                IToolRegistryErrors::InvalidManifestHash(_) => Self::InvalidManifestHash,
                IToolRegistryErrors::InvalidAccessPredicate(error) => Self::InvalidAccessPredicate(error.predicate),
            };
        }
        if let Ok(error) = alloy_sol_types::Revert::abi_decode_validate(data) {
            return Self::Message(error.reason);
        }
        if let Ok(error) = Panic::abi_decode_validate(data) {
            return Self::Panic(error.code);
        }
        named(data).unwrap_or_else(|| Self::Unknown(data.clone()))
    }

    /// Returns the code of this revert.
    pub const fn code(&self) -> Code {
        match self {
            Self::ToolNotFound(_) => codes::chain::TOOL_NOT_FOUND,
            Self::ToolDeregistered(_) => codes::chain::TOOL_DEREGISTERED,
            Self::NotToolCreator { .. } => codes::chain::NOT_CREATOR,
            Self::InvalidMetadataUri => codes::chain::URI_REFUSED,
            Self::InvalidManifestHash => codes::chain::HASH_REFUSED,
            Self::InvalidAccessPredicate(_) | Self::PredicateRefused { .. } => codes::chain::PREDICATE_REFUSED,
            Self::Named { .. } | Self::Message(_) | Self::Panic(_) | Self::Unknown(_) => codes::chain::REVERTED,
        }
    }
}

impl fmt::Display for Revert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToolNotFound(id) => write!(f, "no tool with id {id} was ever registered"),
            Self::ToolDeregistered(id) => write!(f, "tool {id} was deregistered by its creator"),
            Self::NotToolCreator { id, caller } => write!(f, "{caller} is not the creator of tool {id}"),
            Self::InvalidMetadataUri => f.write_str("the metadata URI is empty or too long"),
            Self::InvalidManifestHash => f.write_str("the manifest hash is zero"),
            Self::InvalidAccessPredicate(address) => write!(f, "{address} declares that it is not an access predicate"),
            Self::PredicateRefused { predicate, data } => {
                write!(f, "the registry refuses the predicate {predicate} ({})", Self::Unknown(data.clone()))
            }
            Self::Named { name, arguments } => write!(f, "{name}({})", arguments.join(", ")),
            Self::Message(text) => write!(f, "\"{}\"", foreign(text)),
            Self::Panic(code) => write!(f, "a Solidity assertion failed (panic {code:#x})"),
            Self::Unknown(data) if data.is_empty() => f.write_str("no reason given"),
            Self::Unknown(data) => {
                /// Number of bytes shown of unknown revert data.
                const SHOWN: usize = 68;
                let shown = Bytes::copy_from_slice(&data[..data.len().min(SHOWN)]);
                write!(f, "unknown error {shown}{}", if data.len() > SHOWN { "…" } else { "" })
            }
        }
    }
}

/// The type of an argument of a predicate's error. Each takes one word.
#[derive(Clone, Copy)]
enum Argument {
    Number,
    Account,
}

/// The errors of the predicates: those of the reference and our own.
const NAMED: &[(&str, &[Argument])] = {
    use Argument::{Account, Number};
    &[
        ("CallerIsNotToolCreator", &[Number, Account]),
        ("CallerIsNotRegistry", &[Account]),
        ("ZeroRegistry", &[]),
        ("TooManyCollections", &[Number, Number]),
        ("CollectionNoCode", &[Account]),
        ("CollectionUnavailable", &[Account]),
        ("TooManyTokenIds", &[Number, Number, Number]),
        ("EmptyTokenIds", &[Number]),
        ("ToolDoesNotUseThisPredicate", &[Number]),
        ("ZeroCollection", &[]),
        ("CollectionNotAContract", &[Account]),
        ("CollectionNotSubscriptionNFT", &[Account]),
        ("ZeroTraitsContract", &[]),
        ("TraitsContractNoCode", &[Account]),
        ("TraitsUnavailable", &[Account]),
        ("EmptyAllowedValues", &[]),
        ("TooManyAllowedValues", &[Number, Number]),
        ("ZeroValueInAllowedValues", &[Number]),
        ("ZeroToken", &[]),
        ("TokenNoCode", &[Account]),
        ("TokenUnavailable", &[Account]),
        ("ZeroMinBalance", &[]),
        ("TooManyTerms", &[Number, Number]),
        ("InvalidTerm", &[Number, Account]),
        ("TermsNeedDifferentData", &[Number, Number]),
        ("TermServesAnotherRegistry", &[Number, Account, Account]),
        ("TermMalfunctioned", &[Number, Account]),
        ("InsufficientGas", &[]),
        ("RequirementsUnreadable", &[]),
        ("ProofTooLong", &[Number, Number]),
        ("AccountOutOfGas", &[Account]),
    ]
};

fn named(data: &[u8]) -> Option<Revert> {
    let (selector, rest) = data.split_first_chunk::<4>()?;
    let (name, arguments) = NAMED.iter().find(|(name, arguments)| {
        let types: Vec<_> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Number => "uint256",
                Argument::Account => "address",
            })
            .collect();
        rest.len() == 32 * arguments.len() && keccak256(format!("{name}({})", types.join(",")))[..4] == *selector
    })?;
    let arguments = arguments
        .iter()
        .zip(rest.chunks_exact(32))
        .map(|(argument, word)| match argument {
            Argument::Number => U256::from_be_slice(word).to_string(),
            Argument::Account => Address::from_slice(&word[12..]).to_string(),
        })
        .collect();
    Some(Revert::Named { name, arguments })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;
    use crate::abi::IToolRegistry;

    #[track_caller]
    fn check(data: impl Into<Bytes>, expected: &Revert, shown: &str) {
        let revert = Revert::decode(&data.into());
        assert_eq!(&revert, expected);
        assert!(revert.to_string().contains(shown), "{revert}");
    }

    // req: REG-020, REG-021, REG-022
    #[test]
    fn errors_of_the_registry_have_their_selectors_and_arguments() {
        let id = U256::from(7);
        let caller = Address::repeat_byte(9);
        let data = IToolRegistry::ToolIsDeregistered { toolId: id }.abi_encode();
        assert_eq!(data[..4], hex!("0bf47976"));
        check(data, &Revert::ToolDeregistered(id), "tool 7");
        let data = IToolRegistry::ToolNotFound { toolId: id }.abi_encode();
        assert_eq!(data[..4], hex!("b73d6f8b"));
        check(data, &Revert::ToolNotFound(id), "no tool with id 7");
        let data = IToolRegistry::NotToolCreator { toolId: id, caller }.abi_encode();
        assert_eq!(data[..4], hex!("d594d2e7"));
        check(data, &Revert::NotToolCreator { id, caller }, "not the creator");
        check(IToolRegistry::InvalidMetadataURI {}.abi_encode(), &Revert::InvalidMetadataUri, "URI");
        check(IToolRegistry::InvalidManifestHash {}.abi_encode(), &Revert::InvalidManifestHash, "hash");
        let data = IToolRegistry::InvalidAccessPredicate { predicate: caller }.abi_encode();
        check(data, &Revert::InvalidAccessPredicate(caller), "predicate");
    }

    #[test]
    fn what_is_not_known_is_kept() {
        check(Vec::new(), &Revert::Unknown(Bytes::new()), "no reason");
        check(vec![1, 2, 3], &Revert::Unknown(vec![1, 2, 3].into()), "0x010203");
        check(vec![0xee; 5_000], &Revert::Unknown(vec![0xee; 5_000].into()), "…");
        // The right selector with the wrong length is not that error.
        let short = hex!("0bf47976").to_vec();
        check(short.clone(), &Revert::Unknown(short.into()), "0x0bf47976");
        let text = alloy_sol_types::Revert::from("no \u{1b}[31mway").abi_encode();
        check(text.clone(), &Revert::Message("no \u{1b}[31mway".to_owned()), "no ");
        assert!(!Revert::decode(&text.into()).to_string().contains('\u{1b}'), "control characters are escaped");
        check(Panic::from(0x11_u64).abi_encode(), &Revert::Panic(U256::from(0x11)), "0x11");
        let many = [&keccak256("TooManyCollections(uint256,uint256)")[..4], &[0; 31], &[11], &[0; 31], &[10]].concat();
        let expected = Revert::Named { name: "TooManyCollections", arguments: vec!["11".to_owned(), "10".to_owned()] };
        check(many, &expected, "TooManyCollections(11, 10)");
    }

    #[test]
    fn no_two_named_errors_share_a_selector() {
        let mut seen = std::collections::HashSet::new();
        for (name, arguments) in NAMED {
            assert!(seen.insert((name, arguments.len())), "{name}");
        }
    }
}
