//! `publish`: from a file to a verified tool, in one command that can be repeated at any time.

use std::path::PathBuf;
use std::time::Duration;

use alloy_primitives::U256;
use clap::Args;
use serde_json::json;
use toolcrib_author::journal::Journal;
use toolcrib_author::publish::{Decision, Found, Subject, regate};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;
use toolcrib_judge::Policy;
use toolcrib_verify::{Depth, Onchain, Verifier};

use super::gate::{self, GateArguments};
use super::serving::{Commitment, check_file, compare_served};
use super::work::{NOTHING_BEFORE, journal, nothing_to_resume, perform, say_where, show as show_work, stopped};
use crate::commands::trust::verify::{data, exit_of};
use crate::commands::trust::{EgressArgs, show, verifier};
use crate::onchain::{OnChain, Signing, Writing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `publish`.
#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// Manifest file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// URL that serves the manifest
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: String,
    /// Tool, if it is registered with another URL or more than once
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// First block to search for an earlier registration
    ///
    /// Without it, every tool of the registry is checked.
    #[arg(long, value_name = "BLOCK", conflicts_with = "tool")]
    pub(crate) from_block: Option<u64>,
    /// Seconds to wait for the URL to serve the file
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
    #[command(flatten)]
    pub(crate) gate: GateArguments,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Runs the command.
pub(crate) async fn run(arguments: &Publish, printer: &mut Printer) -> Result<Done, Stop> {
    let writing = &arguments.writing;
    let wallet = arguments.signing.open()?;
    let (wallet, signer) = (wallet.as_ref(), wallet.address());
    let ready = check_file(&arguments.file, &arguments.metadata, signer, printer)?;
    let (registry, named) = match &arguments.tool {
        None => (arguments.onchain.connect(printer).await?, None),
        Some(tool) => {
            let (registry, id) = arguments.onchain.connect_for(tool, printer).await?;
            (registry, Some(id))
        }
    };
    let gate = arguments.gate.resolve(&registry)?;
    gate.check_on(&registry).await.map_err(stopped)?;
    let verifier = verifier(&arguments.reach)?;
    let subject = Subject { registry: &registry, signer, uri: &ready.metadata_uri };
    let journal = journal(writing)?;
    let signs = !writing.dry_run && !writing.calldata;
    // Held to the end: a second process would otherwise read a registry without these changes.
    let _lock = if signs { Some(journal.lock(&subject.journal_id()).map_err(stopped)?) } else { None };

    let mut found = subject.find(&journal, named, arguments.from_block).await.map_err(stopped)?;
    let committed = found.as_ref().map(|found| found.config.manifest_hash);
    let about = Commitment { registry: &registry, uri: &ready.metadata_uri, signer, committed };
    compare_served(&verifier, &ready, &about, Duration::from_secs(arguments.wait), printer).await?;

    let begun = subject.begun(&journal).map_err(stopped)?;
    if writing.resume && begun.is_empty() {
        return Err(nothing_to_resume().into());
    }
    let finishes = !begun.is_empty();
    if finishes && !signs {
        printer.note("there is unfinished work for this URL; it would be finished first")?;
    } else {
        for mut entry in begun {
            printer.note("continuing unfinished work")?;
            say_where(&registry, wallet, printer)?;
            // An entry that another command started has its own lock.
            let _lock = if entry.id == subject.journal_id() { None } else { Some(journal.lock(&entry.id).map_err(stopped)?) };
            regate(&mut entry, &gate);
            let id = perform(&registry, wallet, &journal, &mut entry, NOTHING_BEFORE, writing, printer).await?;
            let config = registry.config(id).await.map_err(failed)?;
            if named.is_none_or(|named| named == id) {
                found = Some(Found { id, config });
            }
        }
    }

    let decision = subject.decide(found.as_ref(), &ready, &gate).await.map_err(stopped)?;
    let (word, tool) = match decision {
        Decision::Nothing(id) if finishes && signs => ("finished", id),
        Decision::Nothing(id) => {
            printer.note("the manifest is already committed")?;
            if !signs {
                let reference = registry.reference(id).to_string();
                printer.result("nothing to do\n")?;
                return Ok(Done::new(Exit::Yes, json!({ "tool": reference, "id": id.to_string(), "done": "nothing" })));
            }
            ("nothing", id)
        }
        decision => {
            let word = if matches!(decision, Decision::Register(_)) { "registered" } else { "updated" };
            if word == "registered" {
                gate::check(&gate, &registry, wallet, false, printer).await?;
            }
            (word, commit(&subject, decision, wallet, &journal, writing, printer).await?)
        }
    };
    conclude(&verifier, &registry, tool, word, printer).await
}

/// Registers or updates the tool, or prints the plan and stops.
async fn commit(
    subject: &Subject<'_>,
    decision: Decision,
    wallet: &dyn Wallet,
    journal: &Journal,
    writing: &Writing,
    printer: &mut Printer,
) -> Result<U256, Stop> {
    let Some(mut entry) = subject.entry(decision) else {
        return Err(Failure::new(codes::author::NO_TOOL, "nothing to do").into());
    };
    let steps: Vec<_> = entry.steps.iter().map(|progress| progress.step.clone()).collect();
    show_work(subject.registry, wallet, entry.tool, &steps, writing, printer).await?;
    perform(subject.registry, wallet, journal, &mut entry, NOTHING_BEFORE, writing, printer).await
}

/// Verifies the tool as any consumer would. The verdict is the result; the evidence is discarded.
async fn conclude(verifier: &Verifier, registry: &Registry, tool: U256, word: &str, printer: &mut Printer) -> Result<Done, Stop> {
    let reference = registry.reference(tool).to_string();
    let live = verifier.live(&Onchain::new(registry.clone(), tool), &Policy::default(), Depth::Full).await;
    let report = live.map_err(|error| unverified(&reference, failed(error)))?.report;
    let text = show::report(&report, printer.paint(), printer.is_verbose());
    printer.result(&text)?;
    let exit = exit_of(&report);
    if exit == Exit::CouldNotTell {
        let code = report.failed.map_or(codes::verify::NO_MANIFEST, |failed| failed.code);
        printer.failure(&unverified(&reference, Failure::new(code, code.title())))?;
    }
    let data = json!({ "tool": reference, "id": tool.to_string(), "done": word, "report": data(&report) });
    Ok(Done::new(exit, data))
}

fn unverified(reference: &str, failure: Failure) -> Failure {
    let what = format!("{} is committed, but could not be verified: {}", shown(reference), failure.message);
    Failure::new(failure.code, what).hint("run the same command again; it does not commit twice")
}
