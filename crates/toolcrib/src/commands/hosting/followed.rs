//! The chains to follow, and their nodes.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use clap::Args;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::codes;

use crate::env;
use crate::kinds::parse_address;
use crate::onchain::{announce, config_of, failed, node_variable, with_contracts};
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;
use crate::secrets;

/// Which chains, and how to reach them.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Followed {
    /// Network to follow: a name or a chain id; repeatable
    ///
    /// Default: every built-in public network with a registry. See `toolcrib help networks`.
    #[arg(long = "network", value_name = "NAME")]
    pub(crate) networks: Vec<String>,
    /// RPC nodes of a network, comma-separated
    ///
    /// With one network, its name can be omitted. Give a URL that has a key in a variable: `RPC_URL_8453`, or `RPC_URL` with one
    /// network.
    #[arg(long = "rpc-url", value_name = "[NAME=]URL")]
    pub(crate) rpc_urls: Vec<String>,
    /// Registry address of a network
    #[arg(long = "registry", value_name = "[NAME=]0x…")]
    pub(crate) registries: Vec<String>,
    /// First block with events of a network's registry [default: 0]
    #[arg(long = "from-block", value_name = "[NAME=]NUMBER")]
    pub(crate) from_blocks: Vec<String>,
}

/// A registry to follow.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    pub(crate) chain: Chain,
    pub(crate) registry: Address,
    pub(crate) first_block: u64,
}

impl Followed {
    /// Returns the registries to follow. Nodes are only asked for their chain id.
    pub(crate) fn resolve(&self, printer: &mut Printer) -> Result<Vec<Following>, Stop> {
        let networks = self.networks()?;
        let urls = named("--rpc-url", &self.rpc_urls, &networks)?;
        let registries = named("--registry", &self.registries, &networks)?;
        let blocks = named("--from-block", &self.from_blocks, &networks)?;
        let mut all = Vec::with_capacity(networks.len());
        for network in &networks {
            let common = if networks.len() == 1 { secrets::var(env::RPC_URL) } else { None };
            let setting = urls.get(&network.chain_id).cloned().or_else(|| node_variable(network.chain_id)).or(common);
            let registry = match registries.get(&network.chain_id) {
                Some(text) => parse_address(text)?,
                None => {
                    network.registry.ok_or_else(|| failed(toolcrib_chain::Error::NoRegistry { network: network.described() }))?
                }
            };
            let config = config_of(&network.with_registry(registry), setting.as_deref())?;
            if config.is_public_default {
                printer.note(&format!(
                    "warning: using a public RPC node for {}; name one that you trust with --rpc-url {}=URL",
                    network.title, network.name
                ))?;
            }
            let first_block = match blocks.get(&network.chain_id) {
                Some(text) => text.parse().map_err(|_| {
                    Failure::new(codes::cli::USAGE, format!("`{text}` is not a block number")).hint("write digits alone")
                })?,
                None => 0,
            };
            let chain = Chain::lazy(config).map_err(failed)?;
            announce(&chain, printer)?;
            all.push(Following { chain, registry, first_block });
        }
        Ok(all)
    }

    fn networks(&self) -> Result<Vec<Network>, Failure> {
        let mut networks: Vec<Network> = Vec::new();
        for name in &self.networks {
            let network = with_contracts(Network::resolve(name, None).map_err(failed)?);
            match networks.iter().find(|other| other.chain_id == network.chain_id) {
                None => networks.push(network),
                Some(other) if *other == network => {}
                // Nodes, registries and leases are per chain.
                Some(other) => {
                    let what = format!(
                        "{} and {} are on the same chain, and only one registry per chain is followed",
                        other.name, network.name
                    );
                    return Err(Failure::new(codes::cli::USAGE, what).hint("name one of them"));
                }
            }
        }
        if networks.is_empty() {
            networks.extend(Network::ALL.iter().filter(|network| !network.is_local && network.registry.is_some()).cloned());
        }
        Ok(networks)
    }
}

/// Parses values for networks: `NAME=VALUE`, or the value alone if there is only one network.
fn named(flag: &str, values: &[String], networks: &[Network]) -> Result<BTreeMap<u64, String>, Failure> {
    let mut found = BTreeMap::new();
    for value in values {
        // Names of followed networks come first, because the user gave them. A URL may contain `=`.
        let chain_of = |name: &str| {
            let followed = networks.iter().find(|network| network.name == name).cloned();
            followed.or_else(|| Network::resolve(name, None).ok()).map(|network| network.chain_id)
        };
        let named = value.split_once('=').and_then(|(name, rest)| Some((chain_of(name)?, rest)));
        let (chain, text) = match (named, networks) {
            (Some((chain, rest)), _) => (chain, rest),
            (None, [only]) => (only.chain_id, value.as_str()),
            (None, _) => {
                let what = format!("{flag} does not name its network");
                return Err(Failure::new(codes::cli::USAGE, what).hint(format!("write {flag} NAME=…, such as {flag} base=…")));
            }
        };
        if !networks.iter().any(|network| network.chain_id == chain) {
            let what = format!("{flag} names a network that is not followed");
            return Err(Failure::new(codes::cli::USAGE, what).hint("name the network with --network too"));
        }
        if found.insert(chain, text.to_owned()).is_some() {
            return Err(Failure::new(codes::cli::USAGE, format!("{flag} was given twice for one network")));
        }
    }
    Ok(found)
}
