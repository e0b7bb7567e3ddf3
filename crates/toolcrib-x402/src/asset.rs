//! Tokens with EIP-3009 authorizations, and their EIP-712 domains.
//!
//! The table is pinned: what a user signs is never decided by what a server or a token claims about itself. The names differ between
//! chains, and published tables have been wrong about them; a client with an RPC node compares the domain separator with that of the
//! contract.
//!
//! A program may [`extend`] the table once with entries of its user's settings, before it reads any message. There is one table for the
//! process, because an amount must be displayed with the same decimals as it is signed; pinned entries cannot be changed.

use std::fmt;
use std::sync::OnceLock;

use alloy_primitives::{Address, address};

/// A token on a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// The EVM chain id.
    pub chain: u64,
    /// The contract.
    pub address: Address,
    /// The name in its EIP-712 domain.
    pub name: &'static str,
    /// The version in its EIP-712 domain.
    pub version: &'static str,
    /// The ticker symbol.
    pub symbol: &'static str,
    /// The number of decimals.
    pub decimals: u8,
    /// Whether it is test money: on a testnet or on the development chain.
    pub is_test: bool,
}

impl Token {
    /// A token outside the pinned table, for [`extend`], which decides whether it is test money.
    pub const fn added(
        chain: u64,
        address: Address,
        name: &'static str,
        version: &'static str,
        symbol: &'static str,
        decimals: u8,
    ) -> Self {
        Self { chain, address, name, version, symbol, decimals, is_test: false }
    }
}

/// All pinned tokens: USDC, one on each chain. On the development chain it is the test token, which anyone can mint; its address is derived
/// from its code.
pub const ALL: &[Token] = &[
    usdc_token(1, address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"), "USD Coin"),
    usdc_token(8453, address!("833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"), "USD Coin"),
    usdc_token(137, address!("3c499c542cEF5E3811e1192ce70d8cC03d5c3359"), "USD Coin"),
    usdc_token(42_161, address!("af88d065e77c8cC2239327C5EDb3A432268e5831"), "USD Coin"),
    usdc_token(10, address!("0b2C639c533813f4Aa9D7837CAf62653d097Ff85"), "USD Coin"),
    usdc_token(43_114, address!("B97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"), "USD Coin"),
    test_usdc(84_532, address!("036CbD53842c5426634e7929541eC2318f3dCF7e"), "USDC"),
    test_usdc(11_155_111, address!("1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"), "USDC"),
    test_usdc(11_155_420, address!("5fd84259d66Cd46123540766Be93DFE6D43130D7"), "USDC"),
    test_usdc(421_614, address!("75faf114eafb1BDbe2F0316DF893fd58CE46AA4d"), "USD Coin"),
    test_usdc(80_002, address!("41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582"), "USDC"),
    test_usdc(43_113, address!("5425890298aed601595a70AB815c96711a31Bc65"), "USD Coin"),
    usdc_token(42_220, address!("cebA9300f2b948710d2653dD7B07f33A8B32118C"), "USDC"),
    usdc_token(1329, address!("e15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392"), "USDC"),
    usdc_token(143, address!("754704Bc059F8C67012fEd69BC8A327a5aafb603"), "USDC"),
    usdc_token(50, address!("fA2958CB79b0491CC627c1557F441eF849Ca8eb1"), "USDC"),
    usdc_token(2741, address!("84A71ccD554Cc1b02749b35d22F684CC8ec987e1"), "Bridged USDC"),
    test_usdc(31_337, address!("e13f0dd2C6752c4A0708d086cf8eaA5cc401216D"), "USD Coin"),
];

/// Additions to the table.
#[derive(Clone, Debug, Default)]
pub struct Extension {
    /// Tokens, in order of preference for each chain.
    pub tokens: Vec<Token>,
    /// Chains outside the pinned table on which money is test money.
    pub test_chains: Vec<u64>,
}

/// Why the table was not extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The entry is in the pinned table, or contradicts it.
    Pinned {
        /// The chain.
        chain: u64,
    },
    /// The table was already extended.
    Twice,
}

impl fmt::Display for ExtendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned { chain } => write!(f, "chain {chain} is in the built-in table, which cannot be changed"),
            Self::Twice => f.write_str("the token table was already extended"),
        }
    }
}

impl std::error::Error for ExtendError {}

static EXTENSION: OnceLock<Extension> = OnceLock::new();

/// Extends the table of this process, once. It is an error to change what is pinned: a token of the table, or which chains have test money.
pub fn extend(mut extension: Extension) -> Result<(), ExtendError> {
    for token in &mut extension.tokens {
        if ALL.iter().any(|pinned| pinned.chain == token.chain && pinned.address == token.address) {
            return Err(ExtendError::Pinned { chain: token.chain });
        }
        token.is_test = match usdc(token.chain) {
            Some(pinned) => pinned.is_test,
            None => extension.test_chains.contains(&token.chain),
        };
    }
    if let Some(chain) = extension.test_chains.iter().copied().find(|chain| usdc(*chain).is_some_and(|pinned| !pinned.is_test)) {
        return Err(ExtendError::Pinned { chain });
    }
    EXTENSION.set(extension).map_err(|_| ExtendError::Twice)
}

/// All tokens, the pinned ones first.
fn all() -> impl Iterator<Item = &'static Token> {
    ALL.iter().chain(EXTENSION.get().into_iter().flat_map(|extension| &extension.tokens))
}

/// The token at this address of a chain.
pub fn find(chain: u64, address: Address) -> Option<&'static Token> {
    all().find(|token| token.chain == chain && token.address == address)
}

/// The token for payments and proofs of identity on a chain: the pinned USDC, or the first added token.
pub fn preferred(chain: u64) -> Option<Token> {
    all().find(|token| token.chain == chain).copied()
}

/// The pinned USDC of a chain. Usable in constants.
pub const fn usdc(chain: u64) -> Option<Token> {
    let mut at = 0;
    while at < ALL.len() {
        if ALL[at].chain == chain {
            return Some(ALL[at]);
        }
        at += 1;
    }
    None
}

/// Returns whether money on a chain is test money. Chains outside the table count as real.
pub fn is_test_chain(chain: u64) -> bool {
    match usdc(chain) {
        Some(token) => token.is_test,
        None => EXTENSION.get().is_some_and(|extension| extension.test_chains.contains(&chain)),
    }
}

/// All chains with test money, in ascending order.
pub fn test_chains() -> Vec<u64> {
    let pinned = ALL.iter().filter(|token| token.is_test).map(|token| token.chain);
    let added = EXTENSION.get().into_iter().flat_map(|extension| extension.test_chains.iter().copied());
    let mut chains: Vec<_> = pinned.chain(added).collect();
    chains.sort_unstable();
    chains.dedup();
    chains
}

const fn usdc_token(chain: u64, address: Address, name: &'static str) -> Token {
    Token { chain, address, name, version: "2", symbol: "USDC", decimals: 6, is_test: false }
}

const fn test_usdc(chain: u64, address: Address, name: &'static str) -> Token {
    Token { is_test: true, ..usdc_token(chain, address, name) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn there_is_one_usdc_on_each_chain() {
        let mut chains = HashSet::new();
        let mut addresses = HashSet::new();
        for token in ALL {
            assert!(chains.insert(token.chain) && addresses.insert(token.address), "{token:?}");
            assert_eq!(find(token.chain, token.address), Some(token));
            assert_eq!(usdc(token.chain), Some(*token));
        }
        assert_eq!(usdc(360), None);
        assert_eq!(find(1, usdc(8453).expect("listed").address), None, "an address means nothing on another chain");
    }

    /// The only test of this process that extends the table; no other test uses a chain that it adds.
    #[test]
    fn the_table_is_extended_once_and_what_is_pinned_stays() {
        let (chain, test_chain) = (900_001, 900_002);
        let token = |chain| Token { symbol: "EURX", decimals: 8, ..usdc_token(chain, Address::repeat_byte(7), "Euro X") };
        let pinned = *usdc(8453).as_ref().expect("listed");
        let forged = Extension { tokens: vec![Token { name: "Other", ..pinned }], test_chains: Vec::new() };
        assert_eq!(extend(forged), Err(ExtendError::Pinned { chain: 8453 }));
        let forged = Extension { tokens: Vec::new(), test_chains: vec![1] };
        assert_eq!(extend(forged), Err(ExtendError::Pinned { chain: 1 }), "real money stays real");
        assert!(find(chain, token(chain).address).is_none() && !is_test_chain(test_chain));

        let tokens = vec![token(chain), Token { is_test: true, ..token(8453) }, token(test_chain), token(84_532)];
        extend(Extension { tokens, test_chains: vec![test_chain, 84_532] }).expect("nothing is pinned there");
        assert_eq!(extend(Extension::default()), Err(ExtendError::Twice));
        assert_eq!(find(chain, Address::repeat_byte(7)).map(|token| (token.symbol, token.is_test)), Some(("EURX", false)));
        assert_eq!(find(8453, Address::repeat_byte(7)).map(|token| token.is_test), Some(false), "as the chain is pinned");
        assert_eq!(find(84_532, Address::repeat_byte(7)).map(|token| token.is_test), Some(true));
        assert_eq!(preferred(8453), usdc(8453), "pinned ones first");
        assert_eq!(preferred(test_chain).map(|token| token.is_test), Some(true));
        assert!(is_test_chain(test_chain) && !is_test_chain(chain) && test_chains().contains(&test_chain));
    }

    #[test]
    fn addresses_were_copied_right() {
        // The source of this file has the addresses with their checksums, which a mistyped digit breaks.
        let source = include_str!("asset.rs");
        for token in ALL {
            let spelt = &token.address.to_checksum(None)[2..];
            assert!(source.contains(&format!("address!(\"{spelt}\")")), "{spelt}");
        }
    }

    #[test]
    fn names_are_not_the_same_everywhere() {
        let name = |chain| usdc(chain).map(|token| token.name);
        assert_eq!((name(8453), name(84_532), name(2741)), (Some("USD Coin"), Some("USDC"), Some("Bridged USDC")));
    }
}
