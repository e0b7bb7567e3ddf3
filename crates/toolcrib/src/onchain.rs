//! Connects to a chain and opens a wallet for the command line. Keys never come from arguments.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use clap::Args;
use toolcrib_chain::deploy::with_our_contracts;
use toolcrib_chain::network::{Network, Source};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::wallet::{Keystore, LocalWallet, Secret, Wallet, WalletError};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;

use crate::env;
use crate::kinds::parse_address;
use crate::outcome::{Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// Which chain, which node, which registry.
#[derive(Args, Clone, Debug)]
pub(crate) struct OnChain {
    /// Network name or chain id, such as base [see `help networks`]
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// RPC nodes, comma-separated [env: `RPC_URL`, `RPC_URL_<chain id>`]
    #[arg(long, value_name = "URL")]
    pub(crate) rpc_url: Option<String>,
    /// Registry address [default: the network's]
    #[arg(long, value_name = "0x…")]
    pub(crate) registry: Option<String>,
}

/// Who signs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Signing {
    /// Encrypted wallet that signs [see `help wallets`]
    ///
    /// Its password comes from --password-fd, `TOOLCRIB_PASSWORD` or a prompt.
    #[arg(long, value_name = "NAME")]
    pub(crate) wallet: Option<String>,
    /// Read the wallet's password from this file descriptor
    #[arg(long, value_name = "N")]
    pub(crate) password_fd: Option<u32>,
    /// Read the private key from this file descriptor
    ///
    /// Without it and --wallet, `TOOLCRIB_PRIVATE_KEY` is used.
    #[arg(long, value_name = "N", conflicts_with = "wallet")]
    pub(crate) key_fd: Option<u32>,
    /// Read a recovery phrase from this file descriptor; its first account signs
    #[arg(long, value_name = "N", conflicts_with_all = ["wallet", "key_fd"])]
    pub(crate) mnemonic_fd: Option<u32>,
    /// Sign with a public development account, 0 to 9
    #[arg(long, value_name = "N", conflicts_with_all = ["wallet", "key_fd", "mnemonic_fd"])]
    pub(crate) dev_account: Option<u32>,
}

/// How a write is done.
#[derive(Args, Clone, Debug)]
pub(crate) struct Writing {
    /// Show what would be done, and sign nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the calls as JSON for a multisig, and sign nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) calldata: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only continue unfinished work
    ///
    /// Without it, unfinished work is continued, or new work is started.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Folder for unfinished work [default: the state folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,
}

impl OnChain {
    /// Connects to the registry of the arguments.
    pub(crate) async fn connect(&self, printer: &mut Printer) -> Result<Registry, Stop> {
        self.connect_to(self.named()?, None, printer).await
    }

    /// Connects to the chain of the arguments, with or without a registry.
    pub(crate) async fn chain(&self, printer: &mut Printer) -> Result<Chain, Stop> {
        self.chain_of(self.named()?, printer).await
    }

    /// The network of the arguments.
    pub(crate) fn named(&self) -> Result<Network, Failure> {
        let name = self.network.as_deref().ok_or_else(|| {
            Failure::new(codes::cli::USAGE, "no network was given").hint("give --network, such as base, base-sepolia or local")
        })?;
        Network::resolve(name, self.registry()?).map_err(failed)
    }

    /// Connects to the registry of a tool reference, or of the arguments.
    pub(crate) async fn connect_for(&self, tool: &str, printer: &mut Printer) -> Result<(Registry, U256), Stop> {
        if let Ok(id) = U256::from_str_radix(tool, 10) {
            return Ok((self.connect(printer).await?, id));
        }
        let reference = ToolRef::parse(tool).map_err(|fault| {
            Failure::new(codes::cli::USAGE, format!("`{tool}` is not a tool: {fault}"))
                .hint("write eip155:<chain>/erc8257:<registry>/<id>, or an id with --network")
        })?;
        let network = self.network_of(reference.chain, Some(reference.registry))?;
        Ok((self.connect_to(network, Some(reference.registry), printer).await?, reference.id))
    }

    /// Connects to a chain by its id, such as that of a payment or a price, whatever `--network` says.
    pub(crate) async fn chain_by_id(&self, chain: u64, printer: &mut Printer) -> Result<Chain, Stop> {
        self.chain_of(self.network_of(chain, None)?, printer).await
    }

    /// Whether the user configured a node.
    pub(crate) fn names_a_node(&self) -> bool {
        let in_settings = || {
            let is_known = |network: Network| !network.nodes.is_empty() || node_variable(network.chain_id).is_some();
            self.named().is_ok_and(is_known)
        };
        self.rpc_url.is_some() || secrets::var(env::RPC_URL).is_some() || in_settings()
    }

    /// The network of a chain: the one that `--network` gives if it has this chain id, otherwise that of the built-in table or of the
    /// user's settings, or else an unlisted network.
    fn network_of(&self, chain: u64, registry: Option<Address>) -> Result<Network, Failure> {
        if let Some(named) = self.network.as_ref().map(|_| self.named()).transpose()?.filter(|named| named.chain_id == chain) {
            return Ok(named);
        }
        let known = registry.and_then(|registry| Network::of_registry(chain, registry)).or_else(|| Network::by_id(chain));
        Ok(known.cloned().unwrap_or_else(|| Network::unlisted(chain)))
    }

    fn registry(&self) -> Result<Option<Address>, Failure> {
        self.registry.as_deref().map(parse_address).transpose()
    }

    async fn chain_of(&self, network: Network, printer: &mut Printer) -> Result<Chain, Stop> {
        connect(network, self.rpc_url.as_deref(), printer).await
    }

    async fn connect_to(&self, network: Network, at: Option<Address>, printer: &mut Printer) -> Result<Registry, Stop> {
        let network = with_contracts(network);
        let network = match self.registry()?.or(at) {
            Some(address) => network.with_registry(address),
            None => network,
        };
        let chain = self.chain_of(network, printer).await?;
        Ok(Registry::of(chain).map_err(failed)?)
    }
}

/// Adds Toolcrib's contracts to a local network, at their deterministic addresses. A network of the settings lists its own contracts.
pub(crate) fn with_contracts(network: Network) -> Network {
    let is_built_in = network.is_local && network.source == Source::BuiltIn;
    if is_built_in && network.registry.is_none() { with_our_contracts(&network) } else { network }
}

/// Connects to a chain. Every command connects here or through [`Followed`], so that a network of a project's file is always announced
/// before use.
///
/// [`Followed`]: crate::commands::hosting::followed::Followed
async fn connect(network: Network, rpc_url: Option<&str>, printer: &mut Printer) -> Result<Chain, Stop> {
    let network = with_contracts(network);
    let from_environment = node_variable(network.chain_id).or_else(|| secrets::var(env::RPC_URL));
    let setting = rpc_url.or(from_environment.as_deref());
    let config = config_of(&network, setting)?;
    if config.is_public_default {
        printer.note("warning: using a public RPC node; name one that you trust with --rpc-url or RPC_URL")?;
    }
    let chain = Chain::lazy(config).map_err(failed)?;
    announce(&chain, printer)?;
    // The first request fails if the node is on another chain.
    chain.block_number().await.map_err(failed)?;
    Ok(chain)
}

/// The connection settings of a network.
pub(crate) fn config_of(network: &Network, setting: Option<&str>) -> Result<ChainConfig, Failure> {
    ChainConfig::from_setting(network, setting).map_err(|error| {
        let named = Network::added().iter().find(|added| added.chain_id == network.chain_id).filter(|_| is_unreached(&error));
        match named {
            Some(added) => failed(error).hint(format!("the settings define `{0}` for this chain: use --network {0}", added.name)),
            None => failed(error),
        }
    })
}

const fn is_unreached(error: &toolcrib_chain::Error) -> bool {
    matches!(error, toolcrib_chain::Error::NoRpc { .. })
}

/// The node of one chain in the environment.
pub(crate) fn node_variable(chain: u64) -> Option<String> {
    secrets::var(&format!("{}_{chain}", env::RPC_URL))
}

/// Announces a network that comes from a project's file, before it is used.
pub(crate) fn announce(chain: &Chain, printer: &mut Printer) -> Result<(), Stop> {
    let network = chain.network();
    if let Source::Project(_) = network.source {
        printer.note(&format!("warning: the network {} is defined by a project file:", network.name))?;
        facts(chain, network.registry, printer)?;
    }
    Ok(())
}

/// Returns what the user must know before signing: network, node, registry, and the file that defines the network.
pub(crate) fn facts(chain: &Chain, registry: Option<Address>, printer: &mut Printer) -> Result<(), Stop> {
    for line in fact_lines(chain, registry) {
        printer.note(&line)?;
    }
    Ok(())
}

/// [`facts`] as lines.
pub(crate) fn fact_lines(chain: &Chain, registry: Option<Address>) -> Vec<String> {
    let mut facts = chain.facts();
    facts.extend(registry.map(|address| ("registry", address.to_checksum(None))));
    facts.iter().map(|(label, value)| format!("  {label:9} {}", shown(value))).collect()
}

impl Signing {
    /// Opens the wallet of the arguments.
    pub(crate) fn open(&self) -> Result<Box<dyn Wallet>, Failure> {
        let wallet = if let Some(index) = self.dev_account {
            LocalWallet::development(index)
        } else if let Some(number) = self.key_fd {
            LocalWallet::from_fd(number)
        } else if let Some(number) = self.mnemonic_fd {
            Secret::from_fd(number).and_then(|phrase| LocalWallet::from_mnemonic(&phrase, None))
        } else if let Some(name) = &self.wallet {
            let store = keystore()?;
            // Check that the wallet exists before asking for its password.
            store.address_of(name).map_err(|error| failed(error.into()))?;
            let password = self.password(&format!("password of {name}"))?;
            if std::io::stderr().is_terminal() {
                // If stderr is closed, continue without the note.
                let _ = writeln!(std::io::stderr(), "opening the wallet; this takes a moment");
            }
            store.open(name, &password)
        } else {
            from_environment()
        };
        match wallet {
            Ok(wallet) => Ok(Box::new(wallet)),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The password of a key file.
    pub(crate) fn password(&self, prompt: &str) -> Result<Secret, Failure> {
        if let Some(number) = self.password_fd {
            return Secret::from_fd(number).map_err(|error| failed(error.into()));
        }
        if let Some(password) = secrets::var(env::TOOLCRIB_PASSWORD) {
            return Ok(Secret::new(password));
        }
        if !std::io::stdin().is_terminal() {
            let what = "no password was given, and there is no terminal to ask on";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --password-fd or set TOOLCRIB_PASSWORD"));
        }
        rpassword::prompt_password(format!("{prompt}: "))
            .map(Secret::new)
            .map_err(|error| Failure::new(codes::cli::USAGE, format!("cannot read the password: {error}")))
    }
}

/// The wallet of the private key in the environment.
pub(crate) fn from_environment() -> Result<LocalWallet, WalletError> {
    let name = env::TOOLCRIB_PRIVATE_KEY;
    let missing = || WalletError::NoKey { place: format!("the environment variable {name} is not set") };
    let key = secrets::var(name).map(Secret::new).ok_or_else(missing)?;
    LocalWallet::from_key(&key, &format!("environment variable {name}"))
}

/// The folder of key files: `wallets` in the user's state folder.
pub(crate) fn keystore() -> Result<Keystore, Failure> {
    Ok(Keystore::new(state_dir()?.join("wallets")))
}

/// The folder of state that is neither settings nor cache: `$XDG_STATE_HOME/toolcrib`.
pub(crate) fn state_dir() -> Result<PathBuf, Failure> {
    // A relative folder would differ in every working folder (XDG Base Directory Specification).
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable(env::XDG_STATE_HOME)
        .or_else(|| Some(variable(env::HOME)?.join(".local/state")))
        .or_else(|| variable(env::APPDATA))
        .map(|folder| folder.join("toolcrib"))
        .ok_or_else(|| Failure::new(codes::cli::USAGE, "no home folder was found").hint("set HOME or XDG_STATE_HOME"))
}

/// The folder of the development environment's certificate authority: `dev` in the user's state folder.
pub(crate) fn dev_folder() -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("dev"))
}

/// Converts an error of `toolcrib-chain`.
pub(crate) fn failed(error: toolcrib_chain::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}
