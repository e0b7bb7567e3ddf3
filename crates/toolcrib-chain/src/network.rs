//! Networks by name: the addresses of registry, predicates and payment token, and the token's EIP-712 domain.
//!
//! The table is pinned here. The token is never asked for its name or version, because a value that the token can change must not
//! determine what is signed; [`crate::sign::check_domain`] compares the two instead. Users can override everything with arguments, or
//! with networks in the settings (`added.rs`).

mod added;

pub use added::{AddError, MAX_NAME_CHARS, NameFault};

use alloy_primitives::{Address, B256, U256, address};
use toolcrib_core::caip::ChainId;
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_x402::asset;

use crate::rpc::NodeUrl;
use crate::{Error, sign::Domain};

/// A network's chain id, contracts, nodes and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Network {
    /// The chain id in transactions and typed data.
    pub chain_id: u64,
    /// The short name for commands.
    pub name: &'static str,
    /// The display name.
    pub title: &'static str,
    /// The native currency, which pays for gas.
    pub currency: &'static str,
    /// The tool registry.
    pub registry: Option<Address>,
    /// keccak256 of the registry's code, if known: verification reports about tools of a registry with other code are refused. The
    /// code of the public registries was not available for hashing, so they have none yet.
    pub registry_code: Option<B256>,
    /// The deployed predicates.
    pub predicates: Predicates,
    /// The stablecoin that callers pay with.
    pub usdc: Option<Token>,
    /// A free public node with rate limits.
    pub public_rpc: Option<&'static str>,
    /// Nodes from the settings. They are preferred to the public one.
    pub nodes: &'static [NodeUrl],
    /// The block explorer: an https URL without a slash at its end.
    pub explorer: Option<&'static str>,
    /// Where the values come from.
    pub source: Source,
    /// Whether the chain is a local development chain.
    pub is_local: bool,
    /// Gas of a call before the contract's first instruction, with a margin.
    ///
    /// 21,000 plus at most 40 for each byte of short calldata on Ethereum and equivalent chains. Abstract runs another virtual
    /// machine that charges more; its value is an estimate that has not been measured.
    pub call_overhead: u64,
    /// Gas for cold access to an account or storage slot. Abstract does not charge by access, so its value means nothing.
    pub cold_access: ColdAccess,
}

/// Where the values of a network come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The table of this crate.
    BuiltIn,
    /// The user's settings, in this file.
    User(&'static str),
    /// A project's settings, in this file. They come with third-party code, so such a network is selected by its name only.
    Project(&'static str),
    /// Arguments only: a chain id that is not in any table.
    Unlisted,
}

/// Addresses of the predicates that serve the network's registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Predicates {
    /// Owners of ERC-721 tokens.
    pub erc721: Option<Address>,
    /// Owners of ERC-1155 tokens.
    pub erc1155: Option<Address>,
    /// Subscribers.
    pub subscription: Option<Address>,
    /// Owners of a token with a certain trait.
    pub traits: Option<Address>,
    /// Holders of an amount of an ERC-20 token.
    pub erc20: Option<Address>,
    /// Accounts on a list.
    pub merkle: Option<Address>,
    /// Accounts that sign a challenge.
    pub access_proof: Option<Address>,
    /// Several predicates joined.
    pub composite: Option<Address>,
    /// Denies every account, to pause a tool.
    pub deny_all: Option<Address>,
}

impl Predicates {
    /// The predicates' names in settings files, in the order of the fields.
    pub const NAMES: [&'static str; 9] =
        ["erc721", "erc1155", "subscription", "traits", "erc20", "merkle", "access_proof", "composite", "deny_all"];

    /// Returns the predicate with a name from [`Self::NAMES`].
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Option<Address>> {
        Some(match name {
            "erc721" => &mut self.erc721,
            "erc1155" => &mut self.erc1155,
            "subscription" => &mut self.subscription,
            "traits" => &mut self.traits,
            "erc20" => &mut self.erc20,
            "merkle" => &mut self.merkle,
            "access_proof" => &mut self.access_proof,
            "composite" => &mut self.composite,
            "deny_all" => &mut self.deny_all,
            _ => return None,
        })
    }

    /// The configured predicates, by name.
    pub fn iter(mut self) -> impl Iterator<Item = (&'static str, Address)> {
        Self::NAMES.into_iter().filter_map(move |name| Some((name, (*self.get_mut(name)?)?)))
    }
}

/// A payment token with EIP-3009 authorizations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// The contract.
    pub address: Address,
    /// The name in its EIP-712 domain. It differs between chains.
    pub name: &'static str,
    /// The EIP-712 version.
    pub version: &'static str,
    /// The ticker symbol.
    pub symbol: &'static str,
    /// Decimals.
    pub decimals: u8,
}

impl Token {
    /// The EIP-712 domain of this token on a chain, with its separator computed.
    pub fn domain(&self, chain_id: u64) -> Domain {
        Domain::new(self.name, self.version, U256::from(chain_id), self.address)
    }
}

impl Network {
    /// Every network of the table.
    pub const ALL: &'static [Self] = &[ETHEREUM, BASE, BASE_SEPOLIA, SHAPE, ABSTRACT, MONAD, ROBINHOOD, POLYGON, LOCAL];

    /// Finds a network by short name (`base`), common alias (`mainnet`), chain id (`8453`) or CAIP-2 id (`eip155:8453`).
    ///
    /// A chain id finds networks of the built-in table and the user's settings, never those of a project.
    ///
    /// ```
    /// use toolcrib_chain::network::Network;
    ///
    /// assert_eq!(Network::find("eip155:8453").unwrap(), Network::find("base").unwrap());
    /// ```
    pub fn find(text: &str) -> Result<&'static Self, Error> {
        let unknown = || Error::UnknownNetwork { text: text.to_owned() };
        if let Some(number) = number_in(text)? {
            return Self::numbered(number)?.ok_or_else(unknown);
        }
        let lower = text.to_ascii_lowercase();
        let name = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(lower.as_str(), |(_, name)| name);
        Self::ALL.iter().chain(Self::added()).find(|network| network.name == name).ok_or_else(unknown)
    }

    /// The network with this chain id: from the built-in table, or else the first in the user's settings.
    pub fn by_id(chain_id: u64) -> Option<&'static Self> {
        Self::ALL.iter().find(|network| network.chain_id == chain_id).or_else(|| Self::of_user(chain_id).next())
    }

    /// A network that is not in the table: only its chain id is known.
    pub fn unlisted(chain_id: u64) -> Self {
        let source = Source::Unlisted;
        let (usdc, cold_access) = (usdc(chain_id), cold_access(chain_id));
        Self { chain_id, name: "unlisted", title: "Unlisted network", usdc, cold_access, source, ..BLANK }
    }

    /// The CAIP-2 id.
    pub fn caip2(&self) -> String {
        format!("eip155:{}", self.chain_id)
    }
}

/// Parses digits or a CAIP-2 id as a chain id; `None` for a name.
fn number_in(text: &str) -> Result<Option<u64>, Error> {
    let unknown = || Error::UnknownNetwork { text: text.to_owned() };
    match text.strip_prefix("eip155:") {
        Some(_) => ChainId::parse(text).ok().and_then(|chain| chain.evm_id()).map(Some).ok_or_else(unknown),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().map(Some).map_err(|_| unknown()),
        None => Ok(None),
    }
}

/// The chain id of local development chains.
pub const LOCAL_CHAIN_ID: u64 = LOCAL.chain_id;

/// The factory for deterministic deployment: the same contract has the same address on every chain.
pub const CREATE2_FACTORY: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");

/// The delegation registry of delegate.xyz, version 2.
pub const DELEGATE_REGISTRY: Address = address!("00000000000000447e69651d841bD8D104Bed493");

/// Common aliases.
const ALIASES: &[(&str, &str)] = &[
    ("mainnet", "ethereum"),
    ("eth", "ethereum"),
    ("basesepolia", "base-sepolia"),
    ("matic", "polygon"),
    ("anvil", "local"),
    ("devchain", "local"),
    ("dev", "local"),
];

/// The registry of the reference deployment. It has the same address on every chain.
const REGISTRY: Option<Address> = Some(address!("265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1"));

/// The predicates of the reference deployment. They have the same addresses on every chain.
const PREDICATES: Predicates = Predicates {
    erc721: Some(address!("c8721c9A776958FfFfEb602DA1b708bf1D318379")),
    erc1155: Some(address!("77373Dc3c1AE9A1e937eF3e5E08F4807D47c7c11")),
    subscription: Some(address!("CBe0cd9B1d99d95Baa9c58f2767246C52e461f25")),
    traits: Some(address!("10abF07CfA34Bf22372C57f27e8bd9C2DCF93fA1")),
    erc20: Some(address!("1a834FC48B5f6e119c62C12a98b32137bCFA77cD")),
    ..NO_PREDICATES
};

const NO_PREDICATES: Predicates = Predicates {
    erc721: None,
    erc1155: None,
    subscription: None,
    traits: None,
    erc20: None,
    merkle: None,
    access_proof: None,
    composite: None,
    deny_all: None,
};

const BLANK: Network = Network {
    chain_id: 0,
    name: "",
    title: "",
    currency: "ETH",
    registry: None,
    registry_code: None,
    predicates: NO_PREDICATES,
    usdc: None,
    public_rpc: None,
    nodes: &[],
    explorer: None,
    source: Source::BuiltIn,
    is_local: false,
    call_overhead: 24_000,
    cold_access: ColdAccess::ETHEREUM,
};

/// USDC on a chain, from the table that is also used to check payment challenges.
const fn usdc(chain_id: u64) -> Option<Token> {
    match asset::usdc(chain_id) {
        Some(asset::Token { address, name, version, symbol, decimals, .. }) => {
            Some(Token { address, name, version, symbol, decimals })
        }
        None => None,
    }
}

/// A chain's gas costs for cold access, whatever its registry and settings.
const fn cold_access(chain_id: u64) -> ColdAccess {
    match chain_id {
        // Monad and its testnet.
        143 | 10_143 => ColdAccess::MONAD,
        _ => ColdAccess::ETHEREUM,
    }
}

const ETHEREUM: Network = Network {
    chain_id: 1,
    name: "ethereum",
    title: "Ethereum",
    registry: REGISTRY,
    predicates: PREDICATES,
    usdc: usdc(1),
    public_rpc: Some("https://ethereum-rpc.publicnode.com"),
    ..BLANK
};

const BASE: Network = Network {
    chain_id: 8453,
    name: "base",
    title: "Base",
    registry: REGISTRY,
    predicates: PREDICATES,
    usdc: usdc(8453),
    public_rpc: Some("https://mainnet.base.org"),
    ..BLANK
};

// The reference registry is not deployed here.
const BASE_SEPOLIA: Network = Network {
    chain_id: 84_532,
    name: "base-sepolia",
    title: "Base Sepolia",
    usdc: usdc(84_532),
    public_rpc: Some("https://sepolia.base.org"),
    ..BLANK
};

// No USDC with EIP-3009 authorizations is known here.
const SHAPE: Network = Network {
    chain_id: 360,
    name: "shape",
    title: "Shape",
    registry: REGISTRY,
    predicates: PREDICATES,
    public_rpc: Some("https://mainnet.shape.network"),
    ..BLANK
};

const ABSTRACT: Network = Network {
    chain_id: 2741,
    name: "abstract",
    title: "Abstract",
    registry: REGISTRY,
    predicates: PREDICATES,
    usdc: usdc(2741),
    public_rpc: Some("https://api.mainnet.abs.xyz"),
    call_overhead: 5_000_000,
    ..BLANK
};

const MONAD: Network = Network {
    chain_id: 143,
    name: "monad",
    title: "Monad",
    currency: "MON",
    registry: REGISTRY,
    predicates: PREDICATES,
    usdc: usdc(143),
    public_rpc: Some("https://rpc.monad.xyz"),
    cold_access: cold_access(143),
    ..BLANK
};

// No USDC with EIP-3009 authorizations is known here.
const ROBINHOOD: Network = Network {
    chain_id: 4663,
    name: "robinhood",
    title: "Robinhood Chain",
    registry: REGISTRY,
    predicates: PREDICATES,
    public_rpc: Some("https://rpc.mainnet.chain.robinhood.com"),
    ..BLANK
};

// The chain of agents' names; the reference registry is not deployed here.
const POLYGON: Network = Network {
    chain_id: 137,
    name: "polygon",
    title: "Polygon PoS",
    currency: "POL",
    usdc: usdc(137),
    public_rpc: Some("https://polygon-bor-rpc.publicnode.com"),
    ..BLANK
};

// Addresses come from the running development chain. Only the test token's address is fixed, by CREATE2.
const LOCAL: Network = Network {
    chain_id: 31_337,
    name: "local",
    title: "Local development chain",
    usdc: usdc(31_337),
    public_rpc: Some("http://127.0.0.1:8545"),
    is_local: true,
    ..BLANK
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_numbers_are_unique() {
        let mut seen = HashSet::new();
        for network in Network::ALL {
            assert!(seen.insert(network.name.to_owned()));
            assert!(seen.insert(network.chain_id.to_string()));
            assert!(seen.insert(network.caip2()));
            assert_eq!(Network::by_id(network.chain_id), Some(network));
            assert!(network.public_rpc.is_some_and(|url| url.starts_with("https://") || network.is_local));
        }
        for (alias, name) in ALIASES {
            assert!(seen.insert((*alias).to_owned()), "{alias} is taken");
            assert!(Network::ALL.iter().any(|network| network.name == *name));
        }
    }

    #[test]
    fn a_network_is_found_by_name_number_or_caip2() {
        #[track_caller]
        fn check(text: &str, expected: Option<u64>) {
            assert_eq!(Network::find(text).ok().map(|network| network.chain_id), expected, "{text}");
        }
        for (text, id) in [("base", 8453), ("Base", 8453), ("mainnet", 1), ("ethereum", 1), ("1", 1), ("eip155:1", 1)] {
            check(text, Some(id));
        }
        for (text, id) in [("4663", 4663), ("robinhood", 4663), ("anvil", 31_337), ("eip155:143", 143), ("polygon", 137)] {
            check(text, Some(id));
        }
        for text in
            ["", "0", "8454", "bas", "eip155:", "eip155:08453", "eip155:0x1", "solana:1", "99999999999999999999999", "base "]
        {
            check(text, None);
        }
    }

    #[test]
    fn a_chain_has_its_prices_in_every_network() {
        for (chain_id, prices) in [(143, ColdAccess::MONAD), (10_143, ColdAccess::MONAD), (8453, ColdAccess::ETHEREUM)] {
            assert_eq!(Network::unlisted(chain_id).cold_access, prices);
            assert_eq!(Network::by_id(chain_id).map_or(prices, |network| network.cold_access), prices);
        }
    }

    // req: REG-043
    #[test]
    fn the_registry_is_pinned_where_it_is_deployed() {
        let with: Vec<_> =
            Network::ALL.iter().filter(|network| network.registry.is_some()).map(|network| network.chain_id).collect();
        assert_eq!(with, [1, 8453, 360, 2741, 143, 4663]);
        for network in Network::ALL.iter().filter(|network| network.registry.is_some()) {
            assert_eq!(network.registry, REGISTRY);
            assert_eq!(network.predicates, PREDICATES);
        }
    }
}
