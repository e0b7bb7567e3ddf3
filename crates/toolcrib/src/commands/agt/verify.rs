//! `agt verify`: checks the rules and the signature of a file, or resolves a name.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcrib_agent::{AgentReport, AgentState};
use toolcrib_chain::sign;
use toolcrib_core::agent::{AgentManifest, AgtDomain};
use toolcrib_core::checked;
use toolcrib_core::finding::{Mode, Severity};

use super::resolve::{resolve, show};
use super::resolver::{PolicyArgs, SourceArgs};
use crate::check::finding_to_json;
use crate::input::Source;
use crate::outcome::{Done, Exit, Stop};
use crate::position::Lines;
use crate::printer::Printer;
use crate::report::human;

/// Arguments of `agt verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Manifest, `-` for stdin, or .agt name
    #[arg(value_name = "FILE|NAME")]
    pub(crate) target: PathBuf,
    /// For a file: also check onchain that its owner holds the name
    #[arg(long)]
    pub(crate) onchain: bool,
    /// For a name: save the evidence
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Checks a file, or resolves a name.
pub(crate) async fn run(arguments: &Verify, printer: &mut Printer) -> Result<Done, Stop> {
    let name = arguments.target.to_str().and_then(|text| AgtDomain::from_input(text).ok());
    match name {
        Some(domain) if !arguments.target.exists() => {
            resolve(&domain, arguments.save.as_deref(), &arguments.sources, &arguments.policy, printer).await
        }
        _ if arguments.onchain => {
            let bytes = Source::from_argument(&arguments.target).read()?;
            let judgement = arguments.sources.resolver(&arguments.policy)?.verify_manifest(&bytes, None).await;
            onchain(&judgement.report, printer)
        }
        _ => check_file(&arguments.target, printer),
    }
}

/// The verdict about a file whose owner was read onchain. It is never "verified", because no TXT record points to a file.
fn onchain(report: &AgentReport, printer: &mut Printer) -> Result<Done, Stop> {
    let done = show(report, None, printer)?;
    let exit = match done.exit {
        Exit::No if report.state == AgentState::Manifest && report.holder.is_some() => Exit::Yes,
        other => other,
    };
    Ok(Done::new(exit, done.data))
}

fn check_file(path: &Path, printer: &mut Printer) -> Result<Done, Stop> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let checked = checked::parse::<AgentManifest>(&bytes, Mode::Consumer);
    let lines = Lines::new(&bytes);
    for finding in checked.findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        printer.aside(&human::short(finding, &source.name(), &lines, printer.paint_err()))?;
    }
    let findings: Vec<_> = checked.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
    let Some(manifest) = checked.conformant() else {
        printer.result("not valid: the manifest breaks a rule\n")?;
        return Ok(Done::new(Exit::No, json!({ "conformant": false, "signature": null, "findings": findings })));
    };
    let owner = manifest.owner().to_checksum(None);
    if let Err(error) = sign::check_owner_signature(manifest) {
        printer.result(&format!("not valid: {error}\n"))?;
        return Ok(Done::new(
            Exit::No,
            json!({ "conformant": true, "signature": false, "owner": owner, "code": error.code().id(), "findings": findings }),
        ));
    }
    printer.result(&format!("signed by its owner {owner}\n"))?;
    printer.note("not checked: whether the owner holds the name onchain")?;
    Ok(Done::new(Exit::Yes, json!({ "conformant": true, "signature": true, "owner": owner, "findings": findings })))
}
