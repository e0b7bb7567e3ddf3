//! `chain dev`: a development chain with Toolcrib's contracts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib_chain::deploy::{self, with_our_contracts};
use toolcrib_chain::network::{LOCAL_CHAIN_ID, Network};
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet};
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_core::registry::known::REGISTRY_GAS;
use toolcrib_devchain::{Devchain, Mining};
use toolcrib_fetch::SystemClock;

use crate::commands::serving::stopped;
use crate::onchain::failed;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `chain dev`, and of `dev` about its chain.
#[derive(Args, Debug)]
pub(crate) struct ChainArguments {
    /// Port of the chain; 0 picks a free one
    #[arg(long, default_value_t = 8545)]
    pub(crate) port: u16,
    /// Chain id
    ///
    /// With the id of a public chain, only the ten development accounts can sign.
    #[arg(long, default_value_t = LOCAL_CHAIN_ID)]
    pub(crate) chain_id: u64,
    /// Mine a block every N seconds instead of one per transaction
    #[arg(long, value_name = "SECONDS")]
    pub(crate) block_time: Option<u64>,
    /// Gas for the first access to an account and a slot
    ///
    /// Monad's are 10100,8100, Ethereum's 2600,2100.
    #[arg(long, value_name = "ACCOUNT,SLOT", value_parser = parse_cold_access)]
    pub(crate) cold_access: Option<ColdAccess>,
    /// File to keep the chain's state in between runs
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Web origin that may use the chain's RPC; repeatable
    ///
    /// For example `https://app.example`. Pages on this machine always may.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Start without registry, predicates and test assets
    #[arg(long)]
    pub(crate) bare: bool,
    /// Stop after this many seconds instead of on Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub(crate) exit_after: Option<u64>,
}

/// Parses the gas price of cold accesses and checks that the EVM can charge it: a warm access costs 100, and a price above the registry's
/// whole gas budget would not test anything.
fn parse_cold_access(text: &str) -> Result<ColdAccess, String> {
    let read = |part: &str| part.trim().parse().ok().filter(|price| (100..=REGISTRY_GAS).contains(price));
    match text.split_once(',').map(|(account, slot)| (read(account), read(slot))) {
        Some((Some(account), Some(slot))) => Ok(ColdAccess { account, slot }),
        _ => Err(format!("expected two numbers from 100 to {REGISTRY_GAS}, such as 10100,8100")),
    }
}

/// A running chain, and the account that deployed the contracts.
#[derive(Debug)]
pub(super) struct World {
    pub(super) devchain: Devchain,
    pub(super) chain: Chain,
    pub(super) wallet: LocalWallet,
    bare: bool,
    block_time: Option<u64>,
}

/// Starts a chain and prints how to connect to it.
pub(crate) async fn run(arguments: &ChainArguments, printer: &mut Printer) -> Result<Done, Stop> {
    let interrupts = Interrupts::listen();
    let world = World::start(arguments).await?;
    world.settle_down();
    printer.result(&world.lines())?;
    printer.flush()?;
    let data = Value::Object(world.data());
    printer.event(&ready(&data))?;
    wait(arguments.exit_after, interrupts).await;
    world.end()?;
    Ok(Done::new(Exit::Yes, data))
}

impl World {
    /// Starts a chain with Toolcrib's contracts. Mines a block per transaction until it [settles down](Self::settle_down).
    pub(super) async fn start(arguments: &ChainArguments) -> Result<Self, Stop> {
        let mut builder = Devchain::builder(SystemClock)
            .chain_id(arguments.chain_id)
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)));
        if let Some(prices) = arguments.cold_access {
            builder = builder.cold_access(prices);
        }
        if let Some(path) = &arguments.state {
            builder = builder.state_file(path);
        }
        for origin in &arguments.allow_origin {
            builder = builder.allow_origin(origin);
        }
        let devchain = builder.spawn().await.map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let network = played(arguments.chain_id);
        let url = devchain.http_url();
        let chain = Chain::connect(ChainConfig::from_setting(&network, Some(&url)).map_err(failed)?).await.map_err(failed)?;
        let wallet = LocalWallet::development(0).map_err(|error| failed(error.into()))?;
        if !arguments.bare {
            deploy::deploy(&chain, &wallet, |_, _| {}).await.map_err(failed)?;
            deploy::deploy_test_assets(&chain, &wallet).await.map_err(failed)?;
        }
        Ok(Self { devchain, chain, wallet, bare: arguments.bare, block_time: arguments.block_time })
    }

    /// Starts the configured block interval. Before this call, the setup transactions are mined at once.
    pub(super) fn settle_down(&self) {
        if let Some(seconds) = self.block_time {
            self.devchain.set_mining(Mining::Interval(Duration::from_secs(seconds.max(1))));
        }
    }

    /// The summary, one line per item.
    pub(super) fn lines(&self) -> String {
        let (devchain, network) = (&self.devchain, self.chain.network());
        let mut lines = format!("chain {} at {} and {}\n", devchain.chain_id(), devchain.http_url(), devchain.ws_url());
        if let Some(registry) = network.registry.filter(|_| !self.bare) {
            lines += &format!("registry {}\n", registry.to_checksum(None));
        }
        for (index, account) in DEV_ACCOUNTS.iter().enumerate() {
            lines += &format!("account {index} {}\n", account.to_checksum(None));
        }
        for asset in self.assets() {
            lines += &format!("{} {}\n", asset.name, asset.address.to_checksum(None));
        }
        lines
    }

    /// The summary as JSON.
    pub(super) fn data(&self) -> Map<String, Value> {
        let checksummed = |address: &alloy_primitives::Address| address.to_checksum(None);
        let assets: Map<_, _> =
            self.assets().iter().map(|asset| (asset.name.to_owned(), checksummed(&asset.address).into())).collect();
        let registry = self.chain.network().registry.filter(|_| !self.bare);
        let data = json!({
            "chain_id": self.devchain.chain_id(),
            "url": self.devchain.http_url(),
            "ws_url": self.devchain.ws_url(),
            "registry": registry.as_ref().map(checksummed),
            "accounts": DEV_ACCOUNTS.iter().map(checksummed).collect::<Vec<_>>(),
            "assets": assets,
        });
        match data {
            Value::Object(data) => data,
            _ => Map::new(),
        }
    }

    /// Stops the chain, and saves it if requested.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.devchain.shutdown().map_err(|error| Failure::new(error.code(), error.to_string()))
    }

    fn assets(&self) -> Vec<deploy::Contract> {
        if self.bare { Vec::new() } else { deploy::test_assets().unwrap_or_default() }
    }
}

/// The event with all addresses for programs, printed before the final envelope.
pub(super) fn ready(data: &Value) -> Value {
    json!({ "event": "ready", "data": data })
}

/// The network that a development chain with this chain id simulates.
fn played(chain_id: u64) -> Network {
    let mut network = Network::by_id(LOCAL_CHAIN_ID).cloned().unwrap_or_else(|| Network::unlisted(chain_id));
    (network.chain_id, network.is_local) = (chain_id, true);
    with_our_contracts(&network)
}

/// Listens for Ctrl-C and SIGTERM, from its creation until the end of the process.
#[derive(Clone, Debug)]
pub(super) struct Interrupts(watch::Receiver<()>);

impl Interrupts {
    pub(super) fn listen() -> Self {
        let (tell, told) = watch::channel(());
        tokio::spawn(async move {
            loop {
                stopped().await;
                tell.send_replace(());
            }
        });
        Self(told)
    }

    /// Returns at the next signal, or at once if one arrived since the last call.
    pub(super) async fn heard(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Discards the signals so far.
    pub(super) fn forget(&mut self) {
        self.0.mark_unchanged();
    }
}

/// Returns after the given number of seconds, or at Ctrl-C or SIGTERM.
pub(super) async fn wait(seconds: Option<u64>, mut interrupts: Interrupts) {
    let over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        () = interrupts.heard() => {}
    }
}
