//! `contracts`: deploys and lists Toolcrib's contracts on any chain.

use alloy_primitives::utils::format_ether;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcrib_chain::deploy::{self, Contract, Deployed, Plan, with_our_contracts};
use toolcrib_chain::network::{Network, Source};
use toolcrib_chain::rpc::{Chain, NodeUrl};
use toolcrib_chain::wallet::{Scope, Wallet};
use toolcrib_core::codes;

use super::confirm;
use crate::networks::record::{Change, Record, Target};
use crate::onchain::{OnChain, Signing, facts, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// What to do with our contracts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContractsCommand {
    /// Deploy the contracts on a chain and add the network to the settings
    ///
    /// Contracts that are already deployed are left alone.
    Deploy(Deploy),
    /// List the contracts and their addresses, equal on every chain
    List,
}

/// Arguments of `contracts deploy`.
#[derive(Args, Debug)]
pub(crate) struct Deploy {
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Settings file for the network entry
    ///
    /// Default: the file that defines the network, or the user's; none for local.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<Target>,
    /// Name of the network in the settings
    ///
    /// Default: its own name; NAME-toolcrib for a built-in network, chain-ID for a chain id.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Show contracts, addresses and costs, and sign nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Runs a `contracts` command.
pub(crate) async fn run(command: &ContractsCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        ContractsCommand::List => {
            let all = deploy::contracts().unwrap_or_default();
            for contract in &all {
                printer.result(&format!("{}  {}\n", contract.address.to_checksum(None), contract.name))?;
            }
            let list: Vec<_> = all.iter().map(|contract| json!({ "name": contract.name, "address": contract.address })).collect();
            Ok(Done::new(Exit::Yes, json!({ "contracts": list })))
        }
        ContractsCommand::Deploy(arguments) => deploy_contracts(arguments, printer).await,
    }
}

async fn deploy_contracts(arguments: &Deploy, printer: &mut Printer) -> Result<Done, Stop> {
    if arguments.onchain.registry.is_some() {
        let what = "--registry names an existing registry, but this command deploys one";
        return Err(Failure::new(codes::cli::USAGE, what).hint("omit --registry").into());
    }
    let wallet = arguments.signing.open()?;
    let chain = arguments.onchain.chain(printer).await?;
    // Keys that may not sign here are refused before the prompt.
    Scope::of(&chain).await.and_then(|scope| Ok(scope.clear(wallet.as_ref())?)).map_err(failed)?;
    let record = arguments.record(&chain)?;
    let change = record.as_ref().map(Record::change).transpose()?;
    let plan = deploy::plan(&chain, wallet.address()).await.map_err(failed)?;
    show(&chain, wallet.as_ref(), &plan, record.as_ref().zip(change.as_ref()), printer)?;
    let data = |is_dry: bool, is_written: bool| {
        data(&chain, wallet.as_ref(), &plan, record.as_ref().filter(|_| is_dry || is_written), is_dry)
    };
    let writes = change.as_ref().is_some_and(|change| !change.is_empty());
    if arguments.dry_run {
        for (contract, gas) in &plan.contracts {
            let word = if gas.is_some() { "would deploy" } else { "exists" };
            printer.result(&line(word, contract))?;
        }
        printer.note("nothing was signed")?;
        return Ok(Done::new(Exit::Yes, data(true, writes)));
    }
    if plan.gas() > 0 && plan.balance < plan.most_cost() {
        let message = format!("the account has {} wei and may need {}", plan.balance, plan.most_cost());
        return Err(failed(toolcrib_chain::Error::NoFunds { account: wallet.address(), message }).into());
    }
    if plan.gas() > 0 || writes {
        let question = match plan.gas() {
            0 => "write the settings?".to_owned(),
            _ => format!("deploy and pay at most {} {} for gas?", format_ether(plan.most_cost()), chain.network().currency),
        };
        if !arguments.yes && !confirm(&question) {
            return Err(Failure::new(codes::author::DECLINED, "nothing was signed")
                .hint("give --yes to deploy without asking")
                .into());
        }
    }
    let mut told = Ok(());
    let outcome = deploy::deploy(&chain, wallet.as_ref(), |contract, how| {
        let word = match how {
            Deployed::Now => "deployed",
            Deployed::Before => "was there",
        };
        // A closed output must not interrupt the deployment.
        told = std::mem::replace(&mut told, Ok(())).and(printer.result(&line(word, contract)));
    })
    .await;
    outcome.map_err(failed)?;
    told?;
    let is_written = match &record {
        Some(record) => {
            let is_written = record.write()?;
            let path = shown(&record.path().display().to_string());
            let word = if is_written { "wrote" } else { "is in" };
            printer.note(&format!("{word} [networks.{}]: {path}; use it with --network {0}", record.name()))?;
            is_written
        }
        None => false,
    };
    Ok(Done::new(Exit::Yes, data(false, is_written)))
}

impl Deploy {
    /// The settings entry to write after the deployment.
    fn record(&self, chain: &Chain) -> Result<Option<Record>, Failure> {
        let network = chain.network();
        let (target, name) = match network.source {
            Source::User(_) => (Target::User, network.name.to_owned()),
            Source::Project(_) => (Target::Project, network.name.to_owned()),
            // The built-in local network has these contracts already.
            Source::BuiltIn if network.is_local && self.name.is_none() => (Target::None, String::new()),
            Source::BuiltIn => (Target::User, format!("{}-toolcrib", network.name)),
            _ => (Target::User, format!("chain-{}", network.chain_id)),
        };
        let name = self.name.clone().unwrap_or(name);
        // Only the URL of the argument is written; one of a variable stays there.
        let nodes: Vec<_> =
            self.onchain.rpc_url.iter().flat_map(|urls| urls.split(',')).filter_map(|url| NodeUrl::parse(url).ok()).collect();
        Record::new(&name, self.save.unwrap_or(target), with_our_contracts(network), &nodes)
    }
}

/// Shows the plan: contracts, network, account and cost.
fn show(
    chain: &Chain,
    wallet: &dyn Wallet,
    plan: &Plan,
    record: Option<(&Record, &Change)>,
    printer: &mut Printer,
) -> Result<(), Stop> {
    let currency = chain.network().currency;
    let (missing, all) = (plan.missing().count(), plan.contracts.len());
    printer.note(&match missing {
        0 => format!("all {all} contracts are already deployed:"),
        _ => format!("deploys {missing} of {all} contracts:"),
    })?;
    facts(chain, None, printer)?;
    let account = wallet.address().to_checksum(None);
    printer.note(&format!("  account   {account}, has {} {currency}", format_ether(plan.balance)))?;
    for (contract, gas) in plan.missing() {
        printer.note(&format!("  contract  {}  {}, {gas} gas", contract.address.to_checksum(None), contract.name))?;
    }
    if missing > 0 {
        let fee = format_ether(plan.max_fee_per_gas);
        printer.note(&format!(
            "  cost      at most {} {currency}: {} gas for {fee} each",
            format_ether(plan.most_cost()),
            plan.gas()
        ))?;
    }
    if let Some((record, change)) = record {
        let path = shown(&record.path().display().to_string());
        let word = if change.is_empty() { "has" } else { "writes" };
        printer.note(&format!("  {word:9} [networks.{}] in {path}", record.name()))?;
        if let Some(old) = &change.replaces {
            printer.note(&format!("  replaces  the registry {} of that entry", shown(old)))?;
        }
        if record.leaves_out_urls {
            let chain = chain.chain_id();
            printer.note(&format!("  not saved the node's URL, which may contain a key; set RPC_URL_{chain} instead"))?;
        }
        let is_known = Network::ALL.iter().any(|network| network.chain_id == chain.chain_id()) || chain.network().is_test();
        if !is_known {
            printer.note("  money     real; set `testnet = true` in your settings file if it is not")?;
        }
    }
    Ok(())
}

fn line(word: &str, contract: &Contract) -> String {
    format!("{word:9}  {}  {}\n", contract.address.to_checksum(None), contract.name)
}

fn data(chain: &Chain, wallet: &dyn Wallet, plan: &Plan, record: Option<&Record>, is_dry: bool) -> Value {
    let contracts: Vec<_> = plan
        .contracts
        .iter()
        .map(|(contract, gas)| json!({ "name": contract.name, "address": contract.address, "was_there": gas.is_none(), "gas": gas }))
        .collect();
    json!({
        "dry_run": is_dry,
        "network": chain.network().name,
        "chain_id": chain.chain_id(),
        "account": wallet.address(),
        "registry": with_our_contracts(chain.network()).registry,
        "contracts": contracts,
        "deployed": plan.missing().count(),
        "gas": plan.gas(),
        "most_cost_wei": plan.most_cost().to_string(),
        "entry": record.map(|record| json!({ "name": record.name(), "file": record.path().display().to_string() })),
    })
}
