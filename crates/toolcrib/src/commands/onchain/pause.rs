//! `pause` and `resume`: replaces the predicate of a tool with one that denies every call, and restores the former one.

use alloy_primitives::U256;
use clap::Args;
use serde_json::json;
use toolcrib_author::Error;
use toolcrib_author::pause::{NEVER_MINED, PauseFile, Paused};
use toolcrib_author::plan::Step;
use toolcrib_chain::predicate::check_registry;
use toolcrib_chain::registry::Registry;
use toolcrib_core::codes;

use super::work::{NOTHING_BEFORE, journal_folder, stopped};
use super::write::{Change, ToolChange};
use crate::kinds::parse_address;
use crate::onchain::{Writing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `pause`.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Deny-all predicate to use instead of the network's
    #[arg(long, value_name = "0x…")]
    pub(crate) deny_predicate: Option<String>,
}

/// Denies all access to a tool, and records its former predicate.
pub(crate) async fn pause(arguments: &Pause, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let deny = match &arguments.deny_predicate {
        Some(text) => parse_address(text)?,
        None => registry.chain().network().predicates.deny_all.ok_or_else(|| {
            let what = format!("the registry {} has no known deny-all predicate", registry.address());
            Failure::new(codes::cli::USAGE, what).hint("give one with --deny-predicate")
        })?,
    };
    check_registry(&registry, deny).await.map_err(failed)?;
    let former = registry.config(tool).await.map_err(failed)?.access_predicate;
    let file = file_of(&change.writing, &registry, tool)?;
    if former == Some(deny) {
        // An earlier run was stopped after its transaction was mined and before that was recorded.
        file.confirm(deny).map_err(unusable)?;
        printer.result("already paused\n")?;
        return Ok(Done::new(Exit::Yes, json!({ "tool": registry.reference(tool).to_string(), "paused": true })));
    }
    let begin = || file.begin(Paused { former, deny }).map_err(unusable);
    let steps = vec![Step::SetPredicate(Some(deny))];
    let work = ToolChange { verb: "pause", tool, steps, before_signing: &begin };
    let done = work.execute(&registry, wallet.as_ref(), &change.writing, printer).await;
    match &done {
        Ok(_) => file.confirm(deny).map_err(unusable)?,
        Err(Stop::Failure(failure)) if NEVER_MINED.contains(&failure.code) => file.forget().map_err(unusable)?,
        // Either nothing was signed, or the transaction may still be mined.
        Err(_) => {}
    }
    done
}

/// Restores the former predicate of a paused tool.
pub(crate) async fn resume(arguments: &Change, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let (registry, tool) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    let current = registry.config(tool).await.map_err(failed)?.access_predicate;
    let file = file_of(&arguments.writing, &registry, tool)?;
    let Some(paused) = file.recall().map_err(unusable)? else {
        let what = "this tool was not paused on this machine, so its former predicate is unknown";
        return Err(Failure::new(codes::author::NOT_PAUSED, what).hint("name it with `toolcrib predicate use`").into());
    };
    if current != Some(paused.deny) {
        let now = current.map_or_else(|| "open to everybody".to_owned(), |address| format!("behind {address}"));
        return Err(Failure::new(codes::author::NOT_PAUSED, format!("the tool is not paused: it is {now}")).into());
    }
    let steps = vec![Step::SetPredicate(paused.former)];
    let work = ToolChange { verb: "resume", tool, steps, before_signing: NOTHING_BEFORE };
    let done = work.execute(&registry, wallet.as_ref(), &arguments.writing, printer).await?;
    file.forget().map_err(unusable)?;
    Ok(done)
}

fn file_of(writing: &Writing, registry: &Registry, tool: U256) -> Result<PauseFile, Failure> {
    Ok(PauseFile::new(&journal_folder(writing)?.with_file_name("paused"), registry, tool))
}

fn unusable(error: Error) -> Failure {
    let is_damaged = matches!(error, Error::PauseFileDamaged { .. });
    let failure = stopped(error);
    if is_damaged { failure.hint("name the former predicate with `toolcrib predicate use`") } else { failure }
}
