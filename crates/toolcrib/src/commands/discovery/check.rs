//! `index rescan` and `index check`: compares an index with its registries and reads missing logs.

use clap::Args;
use serde_json::{Value as Json, json};
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::{Registry, ToolState};
use toolcrib_core::codes;
use toolcrib_index::RegistryRow;
use toolcrib_index::follow::{CheckReport, Difference};

use super::{StoreArgs, index_failure};
use crate::commands::hosting::followed::Followed;
use crate::onchain::failed;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Differences that are printed. `--json` has up to a thousand.
const MAX_PRINTED: usize = 20;

/// Arguments of `index rescan`.
#[derive(Args, Debug)]
pub(crate) struct Rescan {
    /// First block to read [default: the first block of the registry]
    #[arg(long, value_name = "BLOCK")]
    pub(crate) from: Option<u64>,
    /// Network to rescan; repeatable [default: all registries of the index]
    #[arg(long = "network", value_name = "NAME")]
    pub(crate) networks: Vec<String>,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index check`.
#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) followed: Followed,
    /// Request a rescan that finds missing logs
    #[arg(long)]
    pub(crate) fix: bool,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Makes the followers of registries read logs again.
pub(crate) async fn rescan(arguments: &Rescan, printer: &mut Printer) -> Result<Done, Stop> {
    let index = arguments.kept.open_existing().await?;
    let mut chains = Vec::new();
    for name in &arguments.networks {
        chains.push(Network::resolve(name, None).map_err(failed)?.chain_id);
    }
    let rows = index.registries().await.map_err(|error| index_failure(&error))?;
    let rows: Vec<RegistryRow> = rows.into_iter().filter(|row| chains.is_empty() || chains.contains(&row.chain)).collect();
    if rows.is_empty() {
        let what = "the index has no such registry";
        return Err(Failure::new(codes::cli::NOT_FOUND, what).hint("omit --network, or follow the network first").into());
    }
    let mut asked = Vec::new();
    for row in rows {
        let from = arguments.from.unwrap_or_default().max(row.first_block);
        index.request_rescan(row.id, from).await.map_err(|error| index_failure(&error))?;
        printer.result(&format!("chain {} registry {}: rescan from block {from}\n", row.chain, row.address))?;
        asked.push(json!({ "chain": row.chain, "registry": row.address, "from": from }));
    }
    index.database().close().await;
    Ok(Done::new(Exit::Yes, json!({ "rescans": asked })))
}

/// Compares every tool with its registry.
pub(crate) async fn check(arguments: &Check, printer: &mut Printer) -> Result<Done, Stop> {
    let index = arguments.kept.open_existing().await?;
    let followings = arguments.followed.resolve(printer)?;
    let (mut reports, mut is_right) = (Vec::new(), true);
    for following in &followings {
        let (chain, address) = (following.chain.chain_id(), following.registry);
        let Some(row) = index.find_registry(chain, address).await.map_err(|error| index_failure(&error))? else {
            let what = format!("the index has no registry {address} of chain {chain}");
            return Err(Failure::new(codes::cli::NOT_FOUND, what).hint("name followed networks with --network").into());
        };
        let registry = Registry::new(following.chain.clone(), address);
        let report = index.check(&registry).await.map_err(|error| index_failure(&error))?;
        is_right &= report.wrong == 0;
        let rescan = report.rescan_from.filter(|_| arguments.fix);
        if let Some(from) = rescan {
            index.request_rescan(row.id, from).await.map_err(|error| index_failure(&error))?;
        }
        print(chain, &report, rescan, printer)?;
        reports.push(json!({
            "chain": chain, "registry": address, "block": report.block, "final": report.is_final,
            "counted": report.counted.to_string(), "compared": report.compared, "newer": report.newer,
            "unreadable": report.unreadable, "wrong": report.wrong, "rescan_from": rescan,
            "differences": report.differences.iter().map(difference).collect::<Vec<_>>(),
        }));
    }
    index.database().close().await;
    let exit = if is_right { Exit::Yes } else { Exit::No };
    Ok(Done::new(exit, json!({ "registries": reports })))
}

fn print(chain: u64, report: &CheckReport, rescan: Option<u64>, printer: &mut Printer) -> Result<(), Stop> {
    let kind = if report.is_final { "final block" } else { "newest block" };
    let mut text = format!(
        "chain {chain}: {} tools compared at {kind} {}, {} wrong, {} changed later\n",
        report.compared, report.block, report.wrong, report.newer
    );
    if report.unreadable > 0 {
        text.push_str(&format!("  {} tools could not be read from the registry\n", report.unreadable));
    }
    for found in report.differences.iter().take(MAX_PRINTED) {
        let fields = found.fields().join(", ");
        text.push_str(&format!(
            "  tool {}: {fields}: index {}, registry {}\n",
            found.id,
            name(&found.index),
            name(&found.registry)
        ));
    }
    if report.wrong > MAX_PRINTED as u64 {
        text.push_str(&format!("  and {} more\n", report.wrong - MAX_PRINTED as u64));
    }
    match rescan {
        Some(from) => text.push_str(&format!("  rescan from block {from}\n")),
        None if report.wrong > 0 => text.push_str("  request a rescan with `index check --fix`\n"),
        None => {}
    }
    printer.result(&text)?;
    Ok(())
}

const fn name(state: &ToolState) -> &'static str {
    match state {
        ToolState::NotFound => "has no such tool",
        ToolState::Deregistered => "says removed",
        ToolState::Present(_) => "says registered",
    }
}

fn difference(found: &Difference) -> Json {
    let state = |state: &ToolState| match state {
        ToolState::NotFound => json!({ "state": "not_found" }),
        ToolState::Deregistered => json!({ "state": "deregistered" }),
        ToolState::Present(config) => json!({
            "state": "registered", "creator": config.creator, "metadata_uri": config.metadata_uri,
            "manifest_hash": config.manifest_hash, "access_predicate": config.access_predicate,
        }),
    };
    json!({ "tool": found.id.to_string(), "fields": found.fields(), "index": state(&found.index), "registry": state(&found.registry) })
}
