//! Gas of access checks: what a predicate reads, and the cost on a chain.
//!
//! A registry gives its predicate 200,000 gas. The first accesses to accounts and storage slots are most of the cost of a check, and chains
//! price them differently, so a configuration that succeeds on Ethereum may run out of gas elsewhere. The counts and the remaining costs
//! were measured on our contracts (`contracts/snapshots`, and `tests/it/gas.rs` of the chain crate, which compares each estimate with a run
//! at both prices) and on equivalents of the reference's contracts.

use std::ops::Add;

use super::known::REGISTRY_GAS;

/// Gas for the first access to an account or a storage slot in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColdAccess {
    /// An account.
    pub account: u64,
    /// A storage slot.
    pub slot: u64,
}

impl ColdAccess {
    /// Ethereum, and most chains that run its virtual machine (EIP-2929).
    pub const ETHEREUM: Self = Self { account: 2_600, slot: 2_100 };

    /// Monad. Since revision `MONAD_TEN` adjacent slots share a price, so this is the upper bound; entries of mappings, such as balances,
    /// are never adjacent.
    pub const MONAD: Self = Self { account: 10_100, slot: 8_100 };
}

/// How the code of a token contract is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenCode {
    /// The code is at its address.
    Plain,
    /// ERC-1967: a slot holds the implementation.
    Proxy,
    /// ERC-1967: a slot holds a beacon, and a slot of the beacon holds the implementation.
    Beacon,
}

impl TokenCode {
    /// The call to the token, without what its function reads.
    const fn call(self) -> GasUse {
        match self {
            Self::Plain => GasUse { accounts: 1, slots: 0, other: 0 },
            Self::Proxy => GasUse { accounts: 2, slots: 1, other: 300 },
            Self::Beacon => GasUse { accounts: 3, slots: 2, other: 800 },
        }
    }
}

/// The gas that a check uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GasUse {
    /// Accounts that are accessed for the first time, without the predicate itself, which the registry pays for.
    pub accounts: u64,
    /// Storage slots that are read for the first time.
    pub slots: u64,
    /// All other gas, including what calls must retain (EIP-150).
    pub other: u64,
}

impl GasUse {
    /// The gas at these prices.
    pub const fn at(&self, prices: ColdAccess) -> u64 {
        self.other + self.accounts * prices.account + self.slots * prices.slot
    }

    /// Whether the registry's gas suffices at these prices.
    pub const fn fits_registry(&self, prices: ColdAccess) -> bool {
        self.at(prices) <= REGISTRY_GAS
    }

    const fn times(self, count: u64) -> Self {
        Self { accounts: self.accounts * count, slots: self.slots * count, other: self.other * count }
    }
}

impl Add for GasUse {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { accounts: self.accounts + more.accounts, slots: self.slots + more.slots, other: self.other + more.other }
    }
}

/// The author of the predicate: Toolcrib's predicates store lists as code, those of the reference store each entry in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Implementation {
    /// Toolcrib's predicate.
    Toolcrib,
    /// The reference's predicate, or an unknown contract that is assumed to be like it.
    Reference,
}

/// Estimates a check of an ERC-721 gate, for a holder of the last collection.
pub fn erc721(whose: Implementation, collections: impl IntoIterator<Item = TokenCode>) -> GasUse {
    let (fixed, each) = match whose {
        Implementation::Toolcrib => (OUR_LIST, GasUse { accounts: 0, slots: 1, other: 1_400 }),
        // The length of the array; its element and the balance.
        Implementation::Reference => {
            (GasUse { accounts: 0, slots: 1, other: 700 }, GasUse { accounts: 0, slots: 2, other: 1_400 })
        }
    };
    collections.into_iter().fold(fixed, |sum, code| sum + code.call() + each)
}

/// Estimates a check of an ERC-1155 gate, for a holder of the last token: collections, and the number of ids of each.
pub fn erc1155(whose: Implementation, collections: impl IntoIterator<Item = (TokenCode, usize)>) -> GasUse {
    let (fixed, each, each_id) = match whose {
        Implementation::Toolcrib => {
            (OUR_LIST, GasUse { accounts: 0, slots: 0, other: 3_400 }, GasUse { accounts: 0, slots: 1, other: 850 })
        }
        // The collection and the length of its ids; each id and its balance.
        Implementation::Reference => (
            GasUse { accounts: 0, slots: 1, other: 1_000 },
            GasUse { accounts: 0, slots: 2, other: 2_100 },
            GasUse { accounts: 0, slots: 2, other: 1_430 },
        ),
    };
    collections.into_iter().fold(fixed, |sum, (code, ids)| sum + code.call() + each + each_id.times(ids as u64))
}

/// Estimates a check of an ERC-20 gate: token and amount are in two slots, the balance in a third.
pub fn erc20(token: TokenCode) -> GasUse {
    token.call() + GasUse { accounts: 0, slots: 3, other: 3_300 }
}

/// The cost of reading one of our lists: a slot that holds the address of the contract with the list, and that contract.
const OUR_LIST: GasUse = GasUse { accounts: 1, slots: 1, other: 2_500 };

#[cfg(test)]
mod tests {
    use super::*;

    // Measured on equivalents of the reference's contracts, in gas of Ethereum.
    #[test]
    fn estimates_of_the_reference_are_near_what_was_measured() {
        #[track_caller]
        fn check(estimate: GasUse, measured: u64) {
            let estimate = estimate.at(ColdAccess::ETHEREUM);
            assert!(estimate.abs_diff(measured) * 100 <= measured * 5, "{estimate} where {measured} was measured");
        }
        let plain = |count: usize| std::iter::repeat_n(TokenCode::Plain, count);
        for (count, measured) in [(1, 11_000), (5, 44_000), (10, 85_000)] {
            check(erc721(Implementation::Reference, plain(count)), measured);
        }
        for (count, ids, measured) in [
            (1, 8, 57_000),
            (1, 16, 102_000),
            (2, 12, 156_000),
            (2, 16, 201_000),
            (3, 10, 199_000),
            (10, 2, 211_000),
            (10, 16, 992_000),
        ] {
            check(erc1155(Implementation::Reference, plain(count).map(|code| (code, ids))), measured);
        }
    }

    #[test]
    fn a_chain_with_higher_prices_takes_less() {
        let ten = erc721(Implementation::Reference, std::iter::repeat_n(TokenCode::Plain, 10));
        assert!(ten.fits_registry(ColdAccess::ETHEREUM));
        // 10 accounts at 7,500 more and 21 slots at 6,000 more.
        assert_eq!(ten.at(ColdAccess::MONAD) - ten.at(ColdAccess::ETHEREUM), 10 * 7_500 + 21 * 6_000);
        assert!(!ten.fits_registry(ColdAccess::MONAD));
        // The limit of our predicate: behind beacon proxies a fourth collection fits on Ethereum only. 13 accounts, 13 slots.
        let ours = |count| erc721(Implementation::Toolcrib, std::iter::repeat_n(TokenCode::Beacon, count));
        assert!(ours(3).fits_registry(ColdAccess::MONAD));
        assert!(ours(4).fits_registry(ColdAccess::ETHEREUM) && !ours(4).fits_registry(ColdAccess::MONAD));
        assert_eq!(ours(4).at(ColdAccess::MONAD) - ours(4).at(ColdAccess::ETHEREUM), 13 * 7_500 + 13 * 6_000);
    }
}
