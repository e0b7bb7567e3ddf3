//! Networks from the settings, in addition to the built-in table.
//!
//! They are added once, after a program has read its settings. A project's settings come with third-party code: they can add a
//! network, which is then selected by its name only, and never change the meaning of a name or chain id.

use std::fmt;
use std::sync::OnceLock;

use alloy_primitives::{Address, B256};
use toolcrib_x402::{asset, network};

use super::{ALIASES, NO_PREDICATES, Network, Source, number_in};
use crate::Error;
use crate::deploy::with_our_contracts;

/// Maximum length of a network's name, which messages and prompts show as one word.
pub const MAX_NAME_CHARS: usize = 32;

static ADDED: OnceLock<Vec<Network>> = OnceLock::new();

/// Why a name is not allowed for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// Invalid characters or length.
    #[error("a network name has at most 32 lowercase letters, digits and hyphens, and begins with a letter")]
    Grammar,
    /// The built-in table has this name.
    #[error("the name belongs to a built-in network, which cannot be redefined")]
    BuiltIn,
    /// x402 uses this name for another chain.
    #[error("x402 uses the name for chain {0}, so another chain cannot have it")]
    OtherChain(u64),
    /// A network of the user's settings has this name.
    #[error("the name belongs to a network in the user's own file, which a project's file cannot redefine")]
    Taken,
}

/// The networks were already added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddError;

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("networks were already added")
    }
}

impl std::error::Error for AddError {}

impl Network {
    /// Adds networks to the table of this process, once. Their names must have passed [`Self::check_name`].
    pub fn add(networks: Vec<Self>) -> Result<(), AddError> {
        ADDED.set(networks).map_err(|_| AddError)
    }

    /// Networks from the settings: the user's first, then the project's.
    pub fn added() -> &'static [Self] {
        ADDED.get().map_or(&[], Vec::as_slice)
    }

    /// Checks that a network from the settings may use this name for this chain.
    pub fn check_name(name: &str, chain_id: u64) -> Result<(), NameFault> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.len() > MAX_NAME_CHARS || !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(is_plain) {
            return Err(NameFault::Grammar);
        }
        let is_built_in = Self::ALL.iter().any(|network| network.name == name) || ALIASES.iter().any(|(alias, _)| *alias == name);
        if is_built_in || name == Self::unlisted(0).name {
            return Err(NameFault::BuiltIn);
        }
        match network::by_name(name).map(|named| named.chain().and_then(|chain| chain.evm_id())) {
            Some(chain) if chain != Some(chain_id) => Err(NameFault::OtherChain(chain.unwrap_or_default())),
            _ => Ok(()),
        }
    }

    /// [`Self::find`] for commands: a chain id that is in no table gives a network that is configured by arguments only.
    ///
    /// If the user's settings have several networks with this chain id, selects the one with this registry.
    pub fn resolve(text: &str, registry: Option<Address>) -> Result<Self, Error> {
        let Some(number) = number_in(text)?.filter(|number| *number > 0) else { return Self::find(text).cloned() };
        if let Some(network) = registry.and_then(|registry| Self::of_registry(number, registry)) {
            return Ok(network.clone());
        }
        match Self::numbered(number) {
            // None of them has this registry, so the arguments describe the network.
            Err(Error::AmbiguousNetwork { .. }) if registry.is_some() => Ok(Self::unlisted(number)),
            found => Ok(found?.cloned().unwrap_or_else(|| Self::unlisted(number))),
        }
    }

    /// The network of a chain with this registry: from the built-in table or the user's settings.
    pub fn of_registry(chain_id: u64, registry: Address) -> Option<&'static Self> {
        let built_in = Self::ALL.iter().filter(|network| network.chain_id == chain_id);
        built_in.chain(Self::of_user(chain_id)).find(|network| network.registry == Some(registry))
    }

    /// The same network with another registry. Predicates and code hash become those known for that registry, or none.
    #[must_use]
    pub fn with_registry(&self, registry: Address) -> Self {
        if self.registry == Some(registry) {
            return self.clone();
        }
        if let Some(known) = Self::of_registry(self.chain_id, registry) {
            let Self { registry, registry_code, predicates, .. } = known.clone();
            return Self { registry, registry_code, predicates, ..self.clone() };
        }
        // Our contracts have the same address on every chain, so this registry is known without an entry.
        let ours = with_our_contracts(self);
        if ours.registry == Some(registry) {
            return ours;
        }
        Self { registry: Some(registry), registry_code: None, predicates: NO_PREDICATES, ..self.clone() }
    }

    /// The networks of a chain in the user's settings.
    pub(super) fn of_user(chain_id: u64) -> impl Iterator<Item = &'static Self> {
        Self::added().iter().filter(move |network| network.chain_id == chain_id && matches!(network.source, Source::User(_)))
    }

    /// The only network with this chain id.
    pub(super) fn numbered(chain_id: u64) -> Result<Option<&'static Self>, Error> {
        if let Some(built_in) = Self::ALL.iter().find(|network| network.chain_id == chain_id) {
            return Ok(Some(built_in));
        }
        let all: Vec<_> = Self::of_user(chain_id).collect();
        match all[..] {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            _ => Err(Error::AmbiguousNetwork { chain_id, names: all.iter().map(|network| network.name).collect() }),
        }
    }

    /// Returns whether money on this network is test money.
    pub fn is_test(&self) -> bool {
        asset::is_test_chain(self.chain_id)
    }

    /// The network for display: name, chain and kind of money. A network from the settings also names the built-in network of its chain.
    pub fn described(&self) -> String {
        let money = if self.is_test() { "test money" } else { "real money" };
        let built_in = Self::ALL.iter().find(|network| network.chain_id == self.chain_id && network.name != self.name);
        let chain = built_in.map_or_else(String::new, |network| format!(", the chain of {}", network.title));
        format!("{} (eip155:{}{chain}, {money})", self.title, self.chain_id)
    }

    /// The block explorer's URL of a transaction.
    pub fn transaction_url(&self, hash: B256) -> Option<String> {
        self.explorer.map(|explorer| format!("{explorer}/tx/{hash}"))
    }
}

/// Writes "project file PATH", or nothing for networks that do not come from a file.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in table"),
            Self::User(path) => write!(f, "user file {path}"),
            Self::Project(path) => write!(f, "project file {path}"),
            Self::Unlisted => f.write_str("arguments"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_already_are_refused() {
        for name in ["", "Sepolia", "1st", "-a", "a b", "a_b", "eip155:1", "8453", "caf\u{e9}", &"a".repeat(33)] {
            assert_eq!(Network::check_name(name, 7), Err(NameFault::Grammar), "{name}");
        }
        for name in ["base", "mainnet", "eth", "local", "anvil", "dev", "polygon", "unlisted"] {
            assert_eq!(Network::check_name(name, 8453), Err(NameFault::BuiltIn), "{name}");
        }
        assert_eq!(Network::check_name("sepolia", 1), Err(NameFault::OtherChain(11_155_111)));
        assert_eq!(Network::check_name("solana", 1), Err(NameFault::OtherChain(0)));
        for (name, chain) in [("sepolia", 11_155_111), ("my-base", 8453), ("a", 1), (&"a".repeat(32), 5)] {
            assert_eq!(Network::check_name(name, chain), Ok(()), "{name}");
        }
    }

    /// The only test of this process that adds networks; no other test uses their names.
    #[test]
    fn numbers_mean_built_in_networks_then_those_of_the_user_and_never_those_of_a_project() {
        let of = |name, chain_id, source, registry: u8| Network {
            name,
            title: name,
            source,
            registry: Some(Address::repeat_byte(registry)),
            ..Network::unlisted(chain_id)
        };
        let (user, project) = (Source::User("user.toml"), Source::Project("toolcrib.toml"));
        let networks = vec![
            of("own", 700_001, user, 1),
            of("own-two", 700_001, user, 2),
            of("single", 700_002, user, 3),
            of("my-base", 8453, user, 4),
            of("staging", 8453, project, 5),
            of("theirs", 700_003, project, 6),
            of("theirs-too", 700_002, project, 7),
        ];
        Network::add(networks).expect("once");
        assert_eq!(Network::add(Vec::new()), Err(AddError));
        let name = |text: &str, registry: Option<u8>| {
            Network::resolve(text, registry.map(Address::repeat_byte))
                .map(|network| network.name)
                .map_err(|error| error.code().id())
        };
        assert_eq!(name("8453", None), Ok("base"));
        assert_eq!(name("8453", Some(4)), Ok("my-base"), "the user's network has this registry");
        assert_eq!(name("8453", Some(5)), Ok("base"), "a project's registry does not choose the network");
        assert_eq!(name("staging", None), Ok("staging"), "by its name alone");
        assert_eq!(name("700001", None), Err("chain.ambiguous_network"));
        assert_eq!(name("700001", Some(2)), Ok("own-two"));
        assert_eq!(name("700001", Some(9)), Ok("unlisted"), "of none of them");
        assert_eq!(name("eip155:700002", None), Ok("single"));
        assert_eq!(name("700003", None), Ok("unlisted"), "a project's network is not found by its number");
        assert_eq!(name("theirs", None), Ok("theirs"));
        assert_eq!(name("0", None), Err("chain.unknown_network"));
        assert_eq!(name("nowhere", None), Err("chain.unknown_network"));
        assert_eq!(Network::by_id(700_003), None);
        assert_eq!(Network::by_id(700_002).map(|network| network.name), Some("single"));

        let staging = Network::find("staging").expect("added");
        assert_eq!(staging.described(), "staging (eip155:8453, the chain of Base, real money)");
        assert_eq!(Network::find("base").expect("built in").described(), "Base (eip155:8453, real money)");
        assert_eq!(Network::unlisted(11_155_111).described(), "Unlisted network (eip155:11155111, test money)");
        assert_eq!(staging.source.to_string(), "project file toolcrib.toml");
    }

    #[test]
    fn predicates_follow_the_registry() {
        let base = Network::find("base").expect("built in");
        let built_in = base.registry.expect("deployed");
        assert_eq!(base.with_registry(built_in), *base);
        let ours = with_our_contracts(base);
        assert_eq!(base.with_registry(ours.registry.expect("ours")), ours, "one address on every chain");
        assert_eq!(Network::unlisted(11_155_111).with_registry(ours.registry.expect("ours")).predicates, ours.predicates);
        let foreign = base.with_registry(Address::repeat_byte(9));
        assert_eq!((foreign.registry, foreign.predicates), (Some(Address::repeat_byte(9)), NO_PREDICATES));
        assert_eq!(ours.with_registry(built_in).predicates, base.predicates, "back again");
    }
}
