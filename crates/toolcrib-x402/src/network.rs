//! Names of networks: version 1 uses names, version 2 CAIP-2 identifiers.
//!
//! The table is pinned. Unknown names are an error and never guessed.

use toolcrib_core::caip::ChainId;

/// A network that version 1 has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedNetwork {
    /// The name.
    pub name: &'static str,
    /// The CAIP-2 identifier.
    pub caip2: &'static str,
    /// Whether the last release of the first client library (`x402` 1.2) knows it. Libraries of version 2 that also support version 1 know
    /// a few more.
    pub is_stock: bool,
}

impl NamedNetwork {
    /// The chain.
    pub fn chain(&self) -> Option<ChainId> {
        ChainId::parse(self.caip2).ok()
    }
}

/// All networks with a name.
pub const ALL: &[NamedNetwork] = &[
    stock("base", "eip155:8453"),
    stock("base-sepolia", "eip155:84532"),
    stock("polygon", "eip155:137"),
    stock("polygon-amoy", "eip155:80002"),
    stock("avalanche", "eip155:43114"),
    stock("avalanche-fuji", "eip155:43113"),
    stock("sei", "eip155:1329"),
    stock("sei-testnet", "eip155:1328"),
    stock("iotex", "eip155:4689"),
    stock("peaq", "eip155:3338"),
    stock("story", "eip155:1514"),
    stock("educhain", "eip155:41923"),
    stock("abstract", "eip155:2741"),
    stock("abstract-testnet", "eip155:11124"),
    stock("skale-base-sepolia", "eip155:324705682"),
    stock("solana", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"),
    stock("solana-devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"),
    later("ethereum", "eip155:1"),
    later("sepolia", "eip155:11155111"),
    later("megaeth", "eip155:4326"),
    later("monad", "eip155:143"),
    later("stable", "eip155:988"),
    later("stable-testnet", "eip155:2201"),
    later("celo", "eip155:42220"),
    later("flare", "eip155:14"),
];

/// The network with this name.
pub fn by_name(name: &str) -> Option<&'static NamedNetwork> {
    ALL.iter().find(|network| network.name == name)
}

/// The network with this identifier.
pub fn by_chain(chain: &ChainId) -> Option<&'static NamedNetwork> {
    ALL.iter().find(|network| network.caip2 == chain.as_str())
}

const fn stock(name: &'static str, caip2: &'static str) -> NamedNetwork {
    NamedNetwork { name, caip2, is_stock: true }
}

const fn later(name: &'static str, caip2: &'static str) -> NamedNetwork {
    NamedNetwork { name, caip2, is_stock: false }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_chains_are_one_to_one() {
        let mut seen = HashSet::new();
        for network in ALL {
            assert!(seen.insert(network.name) && seen.insert(network.caip2), "{network:?}");
            let chain = network.chain().expect("a CAIP-2 identifier");
            assert_eq!(by_name(network.name), Some(network));
            assert_eq!(by_chain(&chain), Some(network));
        }
        assert_eq!(ALL.iter().filter(|network| network.is_stock).count(), 17);
    }

    #[test]
    fn names_are_taken_to_the_letter() {
        for unknown in ["", "Base", "base ", "eip155:8453", "8453", "optimism", "arbitrum"] {
            assert_eq!(by_name(unknown), None, "{unknown}");
        }
    }
}
