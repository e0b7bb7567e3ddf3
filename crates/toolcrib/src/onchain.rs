//! Reaching a chain and a wallet from the command line. Keys never come from arguments.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use clap::Args;
use toolcrib_chain::deploy::with_our_contracts;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::wallet::{Keystore, LocalWallet, Secret, Wallet, WalletError};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;

use crate::env;
use crate::kinds::parse_address;
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;
use crate::secrets;

/// Which chain, which node, which registry.
#[derive(Args, Clone, Debug)]
pub(crate) struct OnChain {
    /// The network: a name such as base, a chain number, or local
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Nodes to ask, separated by commas [env: `RPC_URL`]
    #[arg(long, value_name = "URL")]
    pub(crate) rpc_url: Option<String>,
    /// The registry, instead of the built-in one of the network
    #[arg(long, value_name = "0x…")]
    pub(crate) registry: Option<String>,
}

/// Who signs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Signing {
    /// A wallet of the keystore; its password comes from `TOOLCRIB_PASSWORD`, --password-fd, or is asked for
    #[arg(long, value_name = "NAME")]
    pub(crate) wallet: Option<String>,
    /// Read the wallet's password from this file descriptor
    #[arg(long, value_name = "N")]
    pub(crate) password_fd: Option<u32>,
    /// Read a private key from this file descriptor; without it and --wallet, `TOOLCRIB_PRIVATE_KEY` is used
    #[arg(long, value_name = "N", conflicts_with = "wallet")]
    pub(crate) key_fd: Option<u32>,
    /// Read a recovery phrase from this file descriptor and sign with its first account
    #[arg(long, value_name = "N", conflicts_with_all = ["wallet", "key_fd"])]
    pub(crate) mnemonic_fd: Option<u32>,
    /// Sign with one of the ten public development accounts, counted from 0
    #[arg(long, value_name = "N", conflicts_with_all = ["wallet", "key_fd", "mnemonic_fd"])]
    pub(crate) dev_account: Option<u32>,
}

/// How a write is done.
#[derive(Args, Clone, Debug)]
pub(crate) struct Writing {
    /// Say what would be done, and sign nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the calls as JSON for a multisig, and sign nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) calldata: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only go on with work that was begun; without it, unfinished work is gone on with all the same
    #[arg(long)]
    pub(crate) resume: bool,
    /// Where unfinished work is kept [default: the user's state folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,
}

impl OnChain {
    /// Connects to the registry that was meant.
    pub(crate) async fn connect(&self, printer: &mut Printer) -> Result<Registry, Stop> {
        self.connect_to(self.named()?, None, printer).await
    }

    /// Connects to the chain that was meant, whether it has a registry or not.
    pub(crate) async fn chain(&self, printer: &mut Printer) -> Result<Chain, Stop> {
        self.chain_of(self.named()?, printer).await
    }

    /// Connects to the chain with a number: that of a payment, whatever the arguments name.
    pub(crate) async fn chain_numbered(&self, chain: u64, printer: &mut Printer) -> Result<Chain, Stop> {
        let unlisted = Network::unlisted(chain);
        self.chain_of(Network::by_id(chain).unwrap_or(&unlisted), printer).await
    }

    /// The network that the arguments name.
    pub(crate) fn named(&self) -> Result<&'static Network, Failure> {
        let name = self.network.as_deref().ok_or_else(|| {
            Failure::new(codes::cli::USAGE, "no network was named").hint("give --network, such as base, base-sepolia or local")
        })?;
        Network::find(name).map_err(failed)
    }

    /// Connects to the registry that a reference names, or that the arguments name.
    pub(crate) async fn connect_for(&self, tool: &str, printer: &mut Printer) -> Result<(Registry, U256), Stop> {
        if let Ok(id) = U256::from_str_radix(tool, 10) {
            return Ok((self.connect(printer).await?, id));
        }
        let reference = ToolRef::parse(tool).map_err(|fault| {
            Failure::new(codes::cli::USAGE, format!("`{tool}` names no tool: {fault}"))
                .hint("write eip155:<chain>/erc8257:<registry>/<id>, or an id together with --network")
        })?;
        let unlisted = Network::unlisted(reference.chain);
        let network = Network::by_id(reference.chain).unwrap_or(&unlisted);
        Ok((self.connect_to(network, Some(reference.registry), printer).await?, reference.id))
    }

    /// Connects to a chain by its number, whatever `--network` says.
    pub(crate) async fn chain_by_id(&self, chain: u64, printer: &mut Printer) -> Result<Chain, Stop> {
        let unlisted = Network::unlisted(chain);
        self.chain_of(Network::by_id(chain).unwrap_or(&unlisted), printer).await
    }

    /// Whether somebody named a node to ask.
    pub(crate) fn names_a_node(&self) -> bool {
        self.rpc_url.is_some() || secrets::var(env::RPC_URL).is_some()
    }

    async fn chain_of(&self, network: &Network, printer: &mut Printer) -> Result<Chain, Stop> {
        let from_environment = secrets::var(env::RPC_URL);
        let setting = self.rpc_url.as_deref().or(from_environment.as_deref());
        // A local chain has our contracts on it, at the addresses that they have everywhere.
        let network = if network.is_local { &with_our_contracts(network) } else { network };
        let config = ChainConfig::from_setting(network, setting).map_err(failed)?;
        if config.is_public_default {
            printer.note("warning: using a public node; --rpc-url or RPC_URL names one that you trust")?;
        }
        Ok(Chain::connect(config).await.map_err(failed)?)
    }

    async fn connect_to(&self, network: &Network, at: Option<Address>, printer: &mut Printer) -> Result<Registry, Stop> {
        let chain = self.chain_of(network, printer).await?;
        let address = match (&self.registry, at) {
            (Some(text), _) => Some(parse_address(text)?),
            (None, at) => at,
        };
        Ok(match address {
            Some(address) => Registry::new(chain, address),
            None => Registry::of(chain).map_err(failed)?,
        })
    }
}

impl Signing {
    /// Opens the wallet that was meant.
    pub(crate) fn open(&self) -> Result<Box<dyn Wallet>, Failure> {
        let wallet = if let Some(index) = self.dev_account {
            LocalWallet::development(index)
        } else if let Some(number) = self.key_fd {
            LocalWallet::from_fd(number)
        } else if let Some(number) = self.mnemonic_fd {
            Secret::from_fd(number).and_then(|phrase| LocalWallet::from_mnemonic(&phrase, None))
        } else if let Some(name) = &self.wallet {
            let store = keystore()?;
            // Before anybody types a password.
            store.address_of(name).map_err(|error| failed(error.into()))?;
            let password = self.password(&format!("password of {name}"))?;
            if std::io::stderr().is_terminal() {
                // A closed stderr is no reason to stop.
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
            let what = "no password was given, and there is no terminal to ask at";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --password-fd or set TOOLCRIB_PASSWORD"));
        }
        rpassword::prompt_password(format!("{prompt}: "))
            .map(Secret::new)
            .map_err(|error| Failure::new(codes::cli::USAGE, format!("the password could not be read: {error}")))
    }
}

/// The key in the environment.
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

/// Where things are kept that are neither settings nor copies: `$XDG_STATE_HOME/toolcrib`.
pub(crate) fn state_dir() -> Result<PathBuf, Failure> {
    // A relative folder would be another one in every working folder (XDG Base Directory Specification).
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable(env::XDG_STATE_HOME)
        .or_else(|| Some(variable(env::HOME)?.join(".local/state")))
        .or_else(|| variable(env::APPDATA))
        .map(|folder| folder.join("toolcrib"))
        .ok_or_else(|| Failure::new(codes::cli::USAGE, "there is no home folder").hint("set HOME or XDG_STATE_HOME"))
}

/// Where the authority of the development world is: `dev` in the user's state folder.
pub(crate) fn dev_folder() -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("dev"))
}

/// A failure of the chain in the words of the command line.
pub(crate) fn failed(error: toolcrib_chain::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}
