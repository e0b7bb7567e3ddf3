//! Deployed predicates with measured defects.
//!
//! A defect is listed if a deployment is known by chain and address and its behaviour was measured. The numbers come from equivalent
//! contracts (solc 0.8.37, all optimisations), for a holder in the last slot, and were not measured again on the deployed bytecode; at the
//! largest configuration they exceed the limit by a factor of five, so the conclusion does not depend on a few percent. The reference's
//! `CompositePredicate` has a worse defect (a failing term counts as a no and is granted when negated), but no deployment that could be
//! listed; [`FaultKind::FailsOpen`] is for those that are found by their code.

use std::fmt;

use alloy_primitives::{Address, B256, address};

use crate::codes::{self, Code};

/// The gas that the reference registry, and ours, give a predicate.
pub const REGISTRY_GAS: u64 = 200_000;

/// The gas that the reference's composite gives each of its terms.
pub(crate) const REFERENCE_TERM_GAS: u64 = 50_000;

/// A defect of a deployed contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownFault {
    /// The contract's name.
    pub name: &'static str,
    /// The kind of defect.
    pub kind: FaultKind,
}

/// The kind of defect of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// It accepts configurations that need more than the registry's gas.
    ExceedsRegistryGas {
        /// The largest configuration that it accepts, in words.
        largest: &'static str,
        /// The gas that it needs.
        needs: u64,
        /// The largest configurations that are safe, in words.
        safe: &'static str,
        /// The gas that the larger of these needs.
        safe_needs: u64,
    },
    /// It works within the registry's gas, but accepts configurations that are too large for a term of a composite.
    ExceedsTermGas {
        /// The largest configuration that it accepts, in words.
        largest: &'static str,
        /// The gas that it needs.
        needs: u64,
        /// The largest configuration that is safe inside a composite, in words.
        safe: &'static str,
        /// The gas that it needs.
        safe_needs: u64,
    },
    /// A failing term counts as a no before it is negated, so that its negation grants access.
    FailsOpen {
        /// The gas of a term, beyond which it counts as failing.
        term_gas: u64,
    },
}

impl KnownFault {
    /// The code for it.
    pub const fn code(&self) -> Code {
        codes::predicate::KNOWN_FAULT
    }
}

impl fmt::Display for KnownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.kind {
            FaultKind::ExceedsRegistryGas { largest, needs, safe, safe_needs } => write!(
                f,
                "{name} accepts {largest}, which needs about {needs} gas where registries give {REGISTRY_GAS}: people who \
                 qualify get no answer; {safe} ({safe_needs} gas) is safe"
            ),
            FaultKind::ExceedsTermGas { largest, needs, safe, safe_needs } => write!(
                f,
                "{name} accepts {largest}, which needs about {needs} gas: inside a composite that gives {REFERENCE_TERM_GAS} to \
                 each term it denies those who qualify or, negated, grants to those who do not; {safe} ({safe_needs} gas) is safe"
            ),
            FaultKind::FailsOpen { term_gas } => write!(
                f,
                "{name} treats a term that fails, or needs more than {term_gas} gas, as `false`, and so grants access when that term is negated"
            ),
        }
    }
}

/// Returns the known defect of the contract at an address. If `code_hash` is given, it must match entries that have a hash, and it also
/// finds contracts at other addresses.
pub fn known_fault(chain_id: u64, address: &Address, code_hash: Option<&B256>) -> Option<KnownFault> {
    look_up(TABLE, chain_id, address, code_hash)
}

fn look_up(table: &[Entry], chain_id: u64, address: &Address, code_hash: Option<&B256>) -> Option<KnownFault> {
    table.iter().find(|entry| entry.is(chain_id, address, code_hash)).map(|entry| entry.fault)
}

/// A row of the table.
struct Entry {
    /// The chains that the reference is deployed on, always at the same address.
    chains: &'static [u64],
    /// The address; `None` for contracts that are found by their code alone.
    address: Option<Address>,
    /// keccak256 of the deployed code, if known.
    code_hash: Option<B256>,
    fault: KnownFault,
}

impl Entry {
    fn is(&self, chain_id: u64, address: &Address, code_hash: Option<&B256>) -> bool {
        match (self.address, self.code_hash) {
            // The code decides what a contract does. If both hashes are known, the address is irrelevant.
            (_, Some(expected)) if code_hash.is_some() => code_hash == Some(&expected),
            (Some(expected), _) => expected == *address && self.chains.contains(&chain_id),
            (None, _) => false,
        }
    }
}

/// The chains on which the reference is deployed.
const REFERENCE_CHAINS: &[u64] = &[1, 8453, 360, 2741, 143, 4663];

const TABLE: &[Entry] = &[
    Entry {
        chains: REFERENCE_CHAINS,
        address: Some(address!("77373Dc3c1AE9A1e937eF3e5E08F4807D47c7c11")),
        code_hash: None,
        fault: KnownFault {
            name: "ERC1155OwnerPredicate",
            kind: FaultKind::ExceedsRegistryGas {
                largest: "10 collections of 16 token ids",
                needs: 992_000,
                safe: "one collection of 16 ids, or two of 12",
                safe_needs: 156_000,
            },
        },
    },
    Entry {
        chains: REFERENCE_CHAINS,
        address: Some(address!("c8721c9A776958FfFfEb602DA1b708bf1D318379")),
        code_hash: None,
        fault: KnownFault {
            name: "ERC721OwnerPredicate",
            kind: FaultKind::ExceedsTermGas {
                largest: "10 collections",
                needs: 85_000,
                safe: "up to 5 collections",
                safe_needs: 44_000,
            },
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const ERC1155: Address = address!("77373Dc3c1AE9A1e937eF3e5E08F4807D47c7c11");
    const ERC721: Address = address!("c8721c9A776958FfFfEb602DA1b708bf1D318379");

    #[test]
    fn faults_are_known_where_the_reference_is_deployed_and_nowhere_else() {
        for chain in [1, 8453, 360, 2741, 143, 4663] {
            let fault = known_fault(chain, &ERC1155, None).expect("listed");
            assert_eq!(fault.code().id(), "predicate.known_fault");
            let text = fault.to_string();
            assert!(text.contains("992000") && text.contains("200000") && text.contains("156000"), "{text}");
            let text = known_fault(chain, &ERC721, Some(&B256::repeat_byte(1))).expect("listed").to_string();
            assert!(text.contains("85000") && text.contains("50000"), "{text}");
        }
        assert_eq!(known_fault(84_532, &ERC1155, None), None, "not deployed there");
        assert_eq!(known_fault(8453, &Address::repeat_byte(1), None), None);
    }

    #[test]
    fn every_number_is_on_the_side_of_the_limit_that_its_text_says() {
        for entry in TABLE {
            match entry.fault.kind {
                FaultKind::ExceedsRegistryGas { needs, safe_needs, .. } => {
                    assert!(needs > REGISTRY_GAS && safe_needs < REGISTRY_GAS);
                }
                FaultKind::ExceedsTermGas { needs, safe_needs, .. } => {
                    assert!(needs > REFERENCE_TERM_GAS && needs < REGISTRY_GAS && safe_needs < REFERENCE_TERM_GAS);
                }
                FaultKind::FailsOpen { .. } => {}
            }
        }
    }

    #[test]
    fn a_known_hash_outweighs_the_address() {
        let (here, hash, other) = (Address::repeat_byte(2), B256::repeat_byte(3), B256::repeat_byte(4));
        let fault = KnownFault { name: "CompositePredicate", kind: FaultKind::FailsOpen { term_gas: REFERENCE_TERM_GAS } };
        assert!(fault.to_string().contains("negated"));
        let by_code = [Entry { chains: &[], address: None, code_hash: Some(hash), fault }];
        assert_eq!(look_up(&by_code, 1, &here, Some(&hash)), Some(fault), "wherever it is");
        assert_eq!(look_up(&by_code, 1, &here, Some(&other)), None);
        assert_eq!(look_up(&by_code, 1, &here, None), None);
        let both = [Entry { chains: &[1], address: Some(here), code_hash: Some(hash), fault }];
        assert_eq!(look_up(&both, 1, &here, Some(&other)), None, "other code took its place");
        assert_eq!(look_up(&both, 1, &here, None), Some(fault));
        assert_eq!(look_up(&both, 2, &here, None), None);
        assert_eq!(look_up(&both, 2, &Address::ZERO, Some(&hash)), Some(fault), "the same code elsewhere");
    }
}
