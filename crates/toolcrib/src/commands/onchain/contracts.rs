//! `contracts`: our contracts on any chain.

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_chain::deploy::{self, Deployed};
use toolcrib_core::codes;

use crate::onchain::{OnChain, Signing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

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

/// Runs a command about our contracts.
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
