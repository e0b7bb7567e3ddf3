//! `agt resolve` and `agt verify`: the verdict about a name, a file or saved evidence.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcrib_agent::content_hash::CidHash;
use toolcrib_agent::evidence::{AgentEvidence, GatewayOutcome, TxtLookup};
use toolcrib_agent::judge::{ContentTrust, judge_whole};
use toolcrib_agent::memory::AgentMemory as _;
use toolcrib_agent::{AgentReport, AgentState};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;
use toolcrib_core::finding::Severity;
use toolcrib_files::AtomicFile;
use toolcrib_judge::Check;
use toolcrib_judge::evidence::MAX_FILE_BYTES;

use super::parse_name;
use super::resolver::{PolicyArgs, SourceArgs};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt resolve`.
#[derive(Args, Debug)]
pub(crate) struct Resolve {
    /// .agt name
    #[arg(value_name = "NAME", required_unless_present = "evidence")]
    pub(crate) name: Option<String>,
    /// Evaluate saved evidence; nothing is fetched
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub(crate) evidence: Option<PathBuf>,
    /// Save the evidence: everything read and fetched
    #[arg(long, value_name = "FILE", conflicts_with = "evidence")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Resolves a name, or verifies saved evidence.
pub(crate) async fn run(arguments: &Resolve, printer: &mut Printer) -> Result<Done, Stop> {
    if let Some(path) = &arguments.evidence {
        return judge_saved(path, arguments, printer);
    }
    let domain = parse_name(arguments.name.as_deref().unwrap_or_default())?;
    resolve(&domain, arguments.save.as_deref(), &arguments.sources, &arguments.policy, printer).await
}

/// Resolves a name and prints the verdict.
pub(crate) async fn resolve(
    domain: &AgtDomain,
    save: Option<&Path>,
    sources: &SourceArgs,
    policy: &PolicyArgs,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    let resolution = sources.resolver(policy)?.resolve(domain).await;
    if let Some(path) = save {
        let unwritable =
            |error: &dyn std::fmt::Display| Failure::new(codes::cli::OUTPUT, format!("cannot write {}: {error}", path.display()));
        let text = serde_json::to_string_pretty(&resolution.evidence).map_err(|error| unwritable(&error))?;
        AtomicFile::new(path).shared().replace(text.as_bytes()).map_err(|error| unwritable(&error))?;
        printer.note(&format!("evidence saved to {}", shown(&path.display().to_string())))?;
    }
    if let Some(error) = &resolution.not_remembered {
        printer.note(&format!("warning: the verified manifest was not remembered: {}", shown(&error.to_string())))?;
    }
    show(&resolution.report, Some(&resolution.evidence), printer)
}

fn judge_saved(path: &Path, arguments: &Resolve, printer: &mut Printer) -> Result<Done, Stop> {
    let evidence = load(path)?;
    let policy = arguments.policy.policy(arguments.sources.dnssec);
    let remembered = match (arguments.policy.memory()?, AgtDomain::parse(&evidence.domain)) {
        (Some(memory), Ok(domain)) => memory.recall(&domain),
        _ => None,
    };
    let judgement = judge_whole(&evidence, &policy, remembered.as_ref(), evidence.gathered_at, ContentTrust::Recheck(&CidHash));
    show(&judgement.report, Some(&evidence), printer)
}

/// Reads an evidence file.
pub(crate) fn load(path: &Path) -> Result<AgentEvidence, Failure> {
    let unreadable = |what: String| Failure::new(codes::cli::UNREADABLE, format!("{}: {what}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(unreadable("too large for an evidence file".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error| unreadable(format!("not an evidence file: {error}")))
}

/// Prints a report and returns its exit code.
pub(crate) fn show(report: &AgentReport, evidence: Option<&AgentEvidence>, printer: &mut Printer) -> Result<Done, Stop> {
    printer.result(&summary(report))?;
    for finding in report.findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        let word = finding.severity.as_str();
        printer.aside(&format!("{word}[{}]: {}\n", finding.code.id(), shown(&finding.message)))?;
    }
    if let Some(evidence) = evidence {
        for line in asked(evidence) {
            printer.detail(&line)?;
        }
    }
    let exit = match report.state {
        AgentState::Unreachable => Exit::CouldNotTell,
        _ if report.is_usable() => Exit::Yes,
        _ => Exit::No,
    };
    if exit == Exit::CouldNotTell {
        let code = report.failed.as_ref().map_or(codes::fetch::UNREACHABLE, |failed| failed.code);
        let finding = report.findings.iter().find(|finding| finding.code == code);
        let why = finding.map_or_else(|| code.title().to_owned(), |finding| finding.message.clone());
        printer.failure(&Failure::new(code, format!("{} could not be resolved: {why}", report.domain)))?;
    }
    let attempts = evidence.and_then(|evidence| evidence.content.as_ref()).map(|content| &content.attempts);
    let txt = evidence.map(|evidence| &evidence.txt);
    Ok(Done::new(exit, json!({ "report": report, "txt": txt, "gateways": attempts })))
}

/// The human-readable report, escaped.
fn summary(report: &AgentReport) -> String {
    let mut text = String::new();
    let verdict = match (report.verified, report.conformant) {
        (true, true) => "verified",
        (true, false) => "verified, but not conformant",
        (false, _) => "not verified",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}: {verdict} ({})", shown(&report.domain), report.state);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name:<13} {}", shown(&value));
        }
    };
    let about = report.about.as_ref();
    let claims = report.claims.as_ref();
    line("name", about.and_then(|about| about.name.clone()));
    line("description", about.and_then(|about| about.description.clone()));
    line("claimed name", claims.and_then(|claims| claims.name.as_ref().map(ToString::to_string)));
    for protocol in about.map(|about| about.protocols.as_slice()).unwrap_or_default() {
        line("protocol", Some(format!("{} {}", protocol.id, protocol.endpoint)));
    }
    let capabilities: Vec<_> =
        about.map(|about| about.capabilities.as_slice()).unwrap_or_default().iter().map(|one| one.id.as_str()).collect();
    line("capabilities", Some(capabilities.join(", ")).filter(|list| !list.is_empty()));
    line("owner", report.owner.map(|owner| owner.to_checksum(None)));
    line("holder", report.holder.map(|holder| holder.to_checksum(None)));
    line("cid", report.content.as_ref().and_then(|content| content.cid.clone()));
    line("block", report.block.map(|block| format!("{block} of chain {}", report.chain_id.unwrap_or_default())));
    line("failed", report.failed.as_ref().map(|failed| failed.code.id().to_owned()));
    let steps: Vec<_> = report
        .steps
        .iter()
        .map(|step| {
            let word = match step.check {
                Check::Passed => "passed",
                Check::Failed => "failed",
                Check::NotReached => "-",
            };
            format!("{} {word}", step.number)
        })
        .collect();
    line("steps", Some(steps.join(", ")));
    text
}

/// What each source and gateway did, a line each.
fn asked(evidence: &AgentEvidence) -> Vec<String> {
    let mut lines = Vec::new();
    for answer in &evidence.txt {
        let what = match &answer.outcome {
            TxtLookup::Records(records) => format!("{} records", records.len()),
            TxtLookup::NoRecords => "no records".to_owned(),
            TxtLookup::NotFound => "no such name".to_owned(),
            TxtLookup::Failed { code, message } => format!("failed: {message} ({code})"),
        };
        lines.push(format!("{} ({} ms): {}", shown(&answer.source), answer.millis, shown(&what)));
    }
    for attempt in evidence.content.iter().flat_map(|content| &content.attempts) {
        let what = match &attempt.outcome {
            GatewayOutcome::Served => "served the content".to_owned(),
            GatewayOutcome::NotFound => "does not have the content".to_owned(),
            GatewayOutcome::Tampered { block } => format!("served other bytes for {block}"),
            GatewayOutcome::Unverifiable { reason } => format!("served something that cannot be checked: {reason}"),
            GatewayOutcome::Refused { code, reason } => format!("content refused: {reason} ({code})"),
            GatewayOutcome::Unreachable { code, message } => format!("unreachable: {message} ({code})"),
            GatewayOutcome::Cancelled => "not waited for".to_owned(),
        };
        lines.push(format!("{} ({} ms, {} bytes): {}", shown(&attempt.gateway), attempt.millis, attempt.bytes, shown(&what)));
    }
    lines
}
