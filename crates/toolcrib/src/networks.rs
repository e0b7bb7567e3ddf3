//! `[networks.NAME]` of the settings files: read, checked, and added to the network table of this process.
//!
//! The user's file may add networks and tokens. A project's file may come from an untrusted repository: it may add networks under new
//! names, which are used only by those names. Its tokens and its `testnet` have no effect, because both decide what a signature is worth.

pub(crate) mod record;

use std::collections::BTreeMap;
use std::path::Path;

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use toolcrib_chain::network::{LOCAL_CHAIN_ID, NameFault, Network, Predicates, Source};
use toolcrib_chain::rpc::{MAX_NODES, NodeUrl};
use toolcrib_core::codes;
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::asset::{self, Extension, Token};

use crate::kinds::parse_address;
use crate::outcome::Failure;

/// Most networks of one file. Their names live as long as the process.
const MAX_NETWORKS: usize = 64;

/// Most tokens of one network.
const MAX_TOKENS: usize = 32;

/// Longest name, version or symbol of a token, and longest currency. Approval prompts show them, and a longer one would hide the rest.
const MAX_WORD_CHARS: usize = 40;

/// Most decimals of a token: 10^77 is the largest power of ten in 256 bits.
const MAX_DECIMALS: u8 = 77;

/// The tables `[networks.NAME]` of one file.
pub(crate) type Entries = BTreeMap<String, Entry>;

/// One table `[networks.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    chain_id: u64,
    /// May contain a key, so only [`NodeUrl`] prints it.
    #[serde(default)]
    rpc_url: RpcUrls,
    registry: Option<String>,
    registry_code: Option<String>,
    currency: Option<String>,
    testnet: Option<bool>,
    explorer: Option<String>,
    #[serde(default)]
    predicates: BTreeMap<String, String>,
    #[serde(default)]
    tokens: Vec<TokenEntry>,
}

/// One URL, or several.
#[derive(Clone, Default, Deserialize)]
#[serde(untagged)]
enum RpcUrls {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

/// Omits the URLs, which may contain keys.
impl std::fmt::Debug for RpcUrls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RpcUrls(…)")
    }
}

/// One table `[[networks.NAME.tokens]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    address: String,
    name: String,
    version: String,
    symbol: String,
    decimals: u8,
}

/// A network of a settings file, checked.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    /// The network as commands use it.
    pub(crate) network: Network,
    /// Whether the file says that money on it is worthless.
    pub(crate) testnet: Option<bool>,
    /// Tokens that the file adds.
    pub(crate) tokens: Vec<Token>,
}

impl Custom {
    /// Whether the entry is from the user's file, so that its tokens and its `testnet` apply.
    pub(crate) const fn is_users(&self) -> bool {
        matches!(self.network.source, Source::User(_))
    }
}

/// Checks the networks of one file.
pub(crate) fn read(entries: Entries, path: &Path, of_project: bool) -> Result<Vec<Custom>, Failure> {
    if entries.len() > MAX_NETWORKS {
        let what = format!("{}: at most {MAX_NETWORKS} networks, not {}", path.display(), entries.len());
        return Err(Failure::new(codes::cli::SETTINGS, what));
    }
    let file = leak(path.display().to_string());
    let source = if of_project { Source::Project(file) } else { Source::User(file) };
    entries
        .into_iter()
        .map(|(name, entry)| {
            let place = format!("{file}: networks.{}", toolcrib_core::text::escape_for_display(&name));
            Network::check_name(&name, entry.chain_id).map_err(|fault| redefined(&place, fault))?;
            entry.check(name, source).map_err(|what| Failure::new(codes::cli::SETTINGS, format!("{place}: {what}")))
        })
        .collect()
}

/// Refuses networks of a project whose names the user's file defines already.
pub(crate) fn check_project(project: &[Custom], user: &[Custom]) -> Result<(), Failure> {
    match project.iter().find(|theirs| user.iter().any(|own| own.network.name == theirs.network.name)) {
        Some(Custom { network, .. }) => {
            let file = if let Source::Project(file) = network.source { file } else { "" };
            Err(redefined(&format!("{file}: networks.{}", network.name), NameFault::Taken))
        }
        None => Ok(()),
    }
}

/// Adds the networks to the table of this process. Called once, at the start of the program.
pub(crate) fn install(all: &[Custom]) -> Result<(), Failure> {
    let own = || all.iter().filter(|custom| custom.is_users());
    let mut extension = Extension::default();
    for custom in own() {
        extension.tokens.extend(&custom.tokens);
        if custom.testnet == Some(true) {
            extension.test_chains.push(custom.network.chain_id);
        }
    }
    let unusable = |what: String| Failure::new(codes::cli::SETTINGS, what);
    let is_real = |chain: &u64| own().any(|custom| custom.network.chain_id == *chain && custom.testnet == Some(false));
    if let Some(chain) = extension.test_chains.iter().find(|chain| is_real(chain)) {
        return Err(unusable(format!("two networks of chain {chain} disagree about testnet")));
    }
    asset::extend(extension).map_err(|error| unusable(error.to_string()))?;
    Network::add(all.iter().map(|custom| custom.network.clone()).collect()).map_err(|error| unusable(error.to_string()))
}

fn redefined(place: &str, fault: NameFault) -> Failure {
    let code = match fault {
        NameFault::Grammar => codes::cli::SETTINGS,
        _ => codes::cli::NETWORK_REDEFINED,
    };
    Failure::new(code, format!("{place}: {fault}"))
}

impl Entry {
    fn check(self, name: String, source: Source) -> Result<Custom, String> {
        let chain_id = self.chain_id;
        // The ledger and the index keep chain ids in signed 64-bit columns.
        if chain_id == 0 || i64::try_from(chain_id).is_err() {
            return Err(format!("chain_id is {chain_id}, expected 1 to {}", i64::MAX));
        }
        // Tools of the development chain may be on this machine, so an untrusted project file must not choose the node that lists them.
        if chain_id == LOCAL_CHAIN_ID && matches!(source, Source::Project(_)) {
            return Err(format!("chain {chain_id} is the network local; give its node with --rpc-url"));
        }
        let built_in = Network::ALL.iter().find(|network| network.chain_id == chain_id);
        if let (Some(said), Some(pinned)) = (self.testnet, asset::usdc(chain_id))
            && said != pinned.is_test
        {
            return Err(format!("testnet is {said}, and chain {chain_id} is built in with {}", pinned.is_test));
        }
        let urls = match self.rpc_url {
            RpcUrls::None => Vec::new(),
            RpcUrls::One(url) => vec![url],
            RpcUrls::Several(urls) => urls,
        };
        if urls.len() > MAX_NODES {
            return Err(format!("rpc_url has {} URLs, at most {MAX_NODES} are allowed", urls.len()));
        }
        // The error of an unusable URL does not contain the URL.
        let nodes = urls.iter().map(|url| NodeUrl::parse(url)).collect::<Result<Vec<_>, _>>();
        let nodes = nodes.map_err(|error| format!("rpc_url: {error}"))?;
        let currency = match self.currency {
            Some(text) => word("currency", text)?,
            None => built_in.map_or("ETH", |network| network.currency),
        };
        let tokens = self.tokens;
        if tokens.len() > MAX_TOKENS {
            return Err(format!("{} tokens, at most {MAX_TOKENS} are allowed", tokens.len()));
        }
        let tokens = tokens.into_iter().map(|entry| entry.check(chain_id)).collect::<Result<Vec<_>, _>>()?;
        let mut network = built_in.cloned().unwrap_or_else(|| Network::unlisted(chain_id));
        network.name = leak(name);
        network.title = network.name;
        network.currency = currency;
        network.registry = self.registry.as_deref().map(|text| address("registry", text)).transpose()?;
        network.registry_code = self.registry_code.as_deref().map(code_hash).transpose()?;
        network.predicates = predicates(&self.predicates)?;
        // Predicates are known for a registry of the built-in table and for Toolcrib's contracts.
        if let (true, Some(registry)) = (self.predicates.is_empty(), network.registry) {
            network.predicates = Network::unlisted(chain_id).with_registry(registry).predicates;
        }
        network.nodes = Vec::leak(nodes);
        network.explorer = self.explorer.as_deref().map(explorer).transpose()?;
        network.source = source;
        Ok(Custom { network, testnet: self.testnet, tokens })
    }
}

impl TokenEntry {
    fn check(self, chain: u64) -> Result<Token, String> {
        let at = address("tokens.address", &self.address)?;
        if self.decimals > MAX_DECIMALS {
            return Err(format!("tokens.decimals is {}, at most {MAX_DECIMALS} are allowed", self.decimals));
        }
        if asset::ALL.iter().any(|pinned| pinned.chain == chain && pinned.address == at) {
            return Err(format!("tokens.address {at} is a built-in token, which cannot be redefined"));
        }
        let [name, version, symbol] =
            [("tokens.name", self.name), ("tokens.version", self.version), ("tokens.symbol", self.symbol)]
                .map(|(key, text)| word(key, text));
        Ok(Token::added(chain, at, name?, version?, symbol?, self.decimals))
    }
}

/// The predicates of an entry, by the names of gates on the command line.
fn predicates(entries: &BTreeMap<String, String>) -> Result<Predicates, String> {
    let mut predicates = Predicates::default();
    for (name, text) in entries {
        let Some(slot) = predicates.get_mut(name) else {
            let known = Predicates::NAMES.join(", ");
            let name = toolcrib_core::text::escape_for_display(name);
            return Err(format!("predicates.{name} is unknown; known are {known}"));
        };
        *slot = Some(address(&format!("predicates.{name}"), text)?);
    }
    Ok(predicates)
}

/// Parses an address. The error does not contain the text: a URL with a key may be on the wrong line.
fn address(key: &str, text: &str) -> Result<Address, String> {
    parse_address(text)
        .map_err(|_| format!("{key} is not an address: 0x and 40 hex digits, lower case or with the right checksum"))
}

fn code_hash(text: &str) -> Result<B256, String> {
    text.parse().map_err(|_| "registry_code is not 32 bytes in hexadecimal digits".to_owned())
}

/// Parses an https URL of a host and a path; removes the slash at its end.
fn explorer(text: &str) -> Result<&'static str, String> {
    let text = text.trim_end_matches('/');
    match HttpsUrl::parse(&format!("{text}/")) {
        Ok(_) if !text.contains(['?', '#']) => Ok(leak(text.to_owned())),
        _ => Err("explorer is not an https URL without a query".to_owned()),
    }
}

/// Checks a word that approval prompts show: short, and without characters that change how the rest is displayed.
fn word(key: &str, text: String) -> Result<&'static str, String> {
    let is_plain = !text.is_empty()
        && text.trim() == text
        && text.chars().count() <= MAX_WORD_CHARS
        && toolcrib_core::text::escape_for_display(&text) == text;
    if is_plain {
        Ok(leak(text))
    } else {
        Err(format!("{key} is empty, longer than {MAX_WORD_CHARS} characters, or has control characters"))
    }
}

/// Leaks a text. Settings are read once and live as long as the process; the size limit of the file bounds the memory.
fn leak(text: String) -> &'static str {
    String::leak(text)
}
