//! `devchain`, `dev` and `contracts deploy`: a world of one's own, and our contracts on any chain.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_chain::deploy::{self, Deployed, with_our_contracts};
use toolcrib_chain::network::{LOCAL_CHAIN_ID, Network};
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet};
use toolcrib_core::codes;
use toolcrib_devchain::{Devchain, Mining};

use crate::clock::SystemClock;
use crate::onchain::{OnChain, Signing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `devchain` and `dev`.
#[derive(Args, Debug)]
pub(crate) struct Dev {
    /// The port on this machine; 0 takes a free one
    #[arg(long, default_value_t = 8545)]
    pub(crate) port: u16,
    /// The chain's number. With that of a public chain only the ten development accounts may sign
    #[arg(long, default_value_t = LOCAL_CHAIN_ID)]
    pub(crate) chain_id: u64,
    /// Make a block every so many seconds, instead of one for each transaction
    #[arg(long, value_name = "SECONDS")]
    pub(crate) block_time: Option<u64>,
    /// Keep the chain in this file between runs
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Start without registry, predicates and test assets, as on a chain that nobody has deployed them on
    #[arg(long)]
    pub(crate) bare: bool,
    /// Stop after so many seconds, instead of waiting for Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub(crate) exit_after: Option<u64>,
}

/// What to do with our contracts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContractsCommand {
    /// Put registry and predicates where they belong; what is there already is left alone
    Deploy(Deploy),
    /// List our contracts and their addresses, which are the same on every chain
    List,
}

/// Arguments of `contracts deploy`.
#[derive(Args, Debug)]
pub(crate) struct Deploy {
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Starts a chain with our contracts on it, and says how to use it.
pub(crate) async fn run(arguments: &Dev, with_advice: bool, printer: &mut Printer) -> Result<Done, Stop> {
    let mut builder = Devchain::builder(SystemClock)
        .chain_id(arguments.chain_id)
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)));
    if let Some(path) = &arguments.state {
        builder = builder.state_file(path);
    }
    let devchain = builder.spawn().await.map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let network = world(arguments.chain_id);
    let url = devchain.http_url();
    let chain = Chain::connect(ChainConfig::from_setting(&network, Some(&url)).map_err(failed)?).await.map_err(failed)?;
    let wallet = LocalWallet::development(0).map_err(|error| failed(error.into()))?;
    if !arguments.bare {
        deploy::deploy(&chain, &wallet, |_, _| {}).await.map_err(failed)?;
        deploy::deploy_test_assets(&chain, &wallet).await.map_err(failed)?;
    }
    // Blocks come slowly only from here on: the contracts are there at once.
    if let Some(seconds) = arguments.block_time {
        devchain.set_mining(Mining::Interval(Duration::from_secs(seconds.max(1))));
    }

    let registry = network.registry.filter(|_| !arguments.bare).map(|address| address.to_checksum(None));
    printer.result(&format!("chain {} at {url} and {}\n", arguments.chain_id, devchain.ws_url()))?;
    if let Some(registry) = &registry {
        printer.result(&format!("registry {registry}\n"))?;
    }
    for (index, account) in DEV_ACCOUNTS.iter().enumerate() {
        printer.result(&format!("account {index} {}\n", account.to_checksum(None)))?;
    }
    for asset in deploy::test_assets().unwrap_or_default().iter().filter(|_| !arguments.bare) {
        printer.result(&format!("{} {}\n", asset.name, asset.address.to_checksum(None)))?;
    }
    printer.flush()?;
    if with_advice {
        printer.note(&advice(&url))?;
    }
    wait(arguments.exit_after).await;
    devchain.shutdown().map_err(|error| Failure::new(error.code(), error.to_string()))?;
    Ok(Done::new(Exit::Yes, json!({ "chain_id": arguments.chain_id, "url": url, "registry": registry })))
}

/// Runs a command about our contracts.
pub(crate) async fn contracts(command: &ContractsCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        ContractsCommand::List => {
            let all = deploy::contracts().unwrap_or_default();
            for contract in &all {
                printer.result(&format!("{}  {}\n", contract.address.to_checksum(None), contract.name))?;
            }
            let list: Vec<_> = all.iter().map(|contract| json!({ "name": contract.name, "address": contract.address })).collect();
            Ok(Done::new(Exit::Yes, json!({ "contracts": list })))
        }
        ContractsCommand::Deploy(arguments) => {
            let wallet = arguments.signing.open()?;
            let chain = arguments.onchain.chain(printer).await?;
            printer.note(&format!("on {}, as {}", chain.network().title, wallet.address().to_checksum(None)))?;
            if !arguments.yes && !chain.network().is_local {
                return Err(Failure::new(codes::author::DECLINED, "deploying costs gas").hint("give --yes").into());
            }
            let mut lines = Vec::new();
            let outcome = deploy::deploy(&chain, wallet.as_ref(), |contract, how| {
                let word = match how {
                    Deployed::Now => "deployed",
                    Deployed::Before => "was there",
                };
                lines.push(format!("{word:9}  {}  {}\n", contract.address.to_checksum(None), contract.name));
            })
            .await;
            for line in &lines {
                printer.result(line)?;
            }
            outcome.map_err(failed)?;
            Ok(Done::new(Exit::Yes, json!({ "deployed": lines.len() })))
        }
    }
}

/// The network that a development chain with this number plays.
fn world(chain_id: u64) -> Network {
    let mut network = Network::by_id(LOCAL_CHAIN_ID).cloned().unwrap_or_else(|| Network::unlisted(chain_id));
    (network.chain_id, network.is_local) = (chain_id, true);
    with_our_contracts(&network)
}

fn advice(url: &str) -> String {
    let url = shown(url);
    format!(
        "\nTry, in another terminal:\n  \
         toolcrib new tool tide-table --address 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n  \
         toolcrib register --network local --rpc-url {url} --dev-account 0 --manifest tide-table.json --skip-fetch \\\n      \
         --metadata https://tools.example.com/.well-known/ai-tool/tide-table.json --yes\n  \
         toolcrib inspect 1 --network local --rpc-url {url}\n\nCtrl-C ends it."
    )
}

async fn wait(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        // Without a way to hear Ctrl-C the process ends by it anyway.
        None => drop(tokio::signal::ctrl_c().await),
    }
}
