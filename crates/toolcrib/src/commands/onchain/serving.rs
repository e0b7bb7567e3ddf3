//! The manifest to commit: from a file, from its URL, or from both, which must then agree.
//!
//! Everything known that would make verification fail is reported before gas is spent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use clap::Args;
use serde_json::json;
use toolcrib_author::preflight::{Ready, preflight};
use toolcrib_author::served::{ServedError, served, wait_until_served};
use toolcrib_chain::registry::Registry;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_judge::explain::Diff;
use toolcrib_verify::Verifier;

use crate::commands::trust::{EgressArgs, show, verifier};
use crate::input::Source;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Most differences that are listed here; `diff` lists all.
const MAX_LISTED: usize = 10;

/// Which manifest, and how it is looked at.
#[derive(Args, Clone, Debug)]
pub(crate) struct Manifest {
    /// Manifest file to compare with what the URL serves
    ///
    /// Without it, the served manifest is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Do not fetch the URL
    ///
    /// For machines without a network. A tool whose URL serves something else never verifies.
    #[arg(long, requires = "manifest")]
    pub(crate) skip_fetch: bool,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// A commitment to a manifest.
pub(crate) struct Commitment<'a> {
    /// The registry to write to.
    pub(crate) registry: &'a Registry,
    /// The metadata URI.
    pub(crate) uri: &'a str,
    /// The account that signs.
    pub(crate) signer: Address,
    /// The current commitment.
    pub(crate) committed: Option<B256>,
}

impl Manifest {
    /// Checks the file, if there is one, before any request to a chain.
    pub(crate) fn check_file(&self, uri: &str, signer: Address, printer: &mut Printer) -> Result<Option<Ready>, Stop> {
        self.manifest.as_ref().map(|path| check_file(path, uri, signer, printer)).transpose()
    }

    /// Returns the manifest to commit, after fetching what is served.
    pub(crate) async fn resolve(
        &self,
        file: Option<Ready>,
        about: &Commitment<'_>,
        printer: &mut Printer,
    ) -> Result<Ready, Stop> {
        match file {
            Some(ready) if self.skip_fetch => {
                printer.note("warning: the served manifest was not checked")?;
                Ok(ready)
            }
            Some(ready) => {
                compare_served(&verifier(&self.reach)?, &ready, about, Duration::ZERO, printer).await?;
                Ok(ready)
            }
            None => take_served(&verifier(&self.reach)?, about, printer).await,
        }
    }
}

/// Checks a manifest file, its future metadata URI, and the signer.
pub(crate) fn check_file(path: &Path, uri: &str, signer: Address, printer: &mut Printer) -> Result<Ready, Stop> {
    let source = Source::from_argument(path);
    check_bytes(&source.read()?, &source.name(), uri, signer, printer)
}

/// Compares what the URL serves with the manifest, repeatedly for at most `wait`.
pub(crate) async fn compare_served(
    verifier: &Verifier,
    ready: &Ready,
    about: &Commitment<'_>,
    wait: Duration,
    printer: &mut Printer,
) -> Result<(), Stop> {
    let Ok(place) = WellKnown::parse(&ready.metadata_uri) else {
        return Err(Failure::new(codes::cli::USAGE, format!("`{}` is not a metadata URL", ready.metadata_uri)).into());
    };
    let fetch = async || verifier.fetch_manifest(&place, about.registry.chain().chain_id()).await;
    let mut told = Ok(());
    let waits = |refusal: &ServedError| {
        let reason = refusal.findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
        told = printer.note(&format!("waiting up to {} seconds: {}", wait.as_secs(), shown(&reason)));
    };
    let served = wait_until_served(ready, about.committed, wait, fetch, waits).await;
    told?;
    served.map_err(|refusal| refuse(&refusal, &ready.metadata_uri, printer))
}

/// Fetches the manifest from its URL.
async fn take_served(verifier: &Verifier, about: &Commitment<'_>, printer: &mut Printer) -> Result<Ready, Stop> {
    let place = WellKnown::parse(about.uri).map_err(|faults| {
        let findings: Vec<_> = faults.iter().map(|fault| fault.finding(about.uri)).collect();
        refuse(&ServedError { findings, is_unclear: false, diff: None }, about.uri, printer)
    })?;
    let exchange = verifier.fetch_manifest(&place, about.registry.chain().chain_id()).await;
    let bytes = served(&exchange).map_err(|refusal| refuse(&refusal, about.uri, printer))?;
    let ready = check_bytes(bytes, about.uri, about.uri, about.signer, printer)?;
    printer.note(&format!("served: \"{}\", hash {}", shown(ready.manifest.name()), ready.manifest.hash()))?;
    Ok(ready)
}

fn check_bytes(bytes: &[u8], name: &str, uri: &str, signer: Address, printer: &mut Printer) -> Result<Ready, Stop> {
    let lines = Lines::new(bytes);
    let checked = preflight(bytes, uri, signer);
    let findings = checked.as_ref().map_or_else(|findings| findings, |ready| &ready.remarks);
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        printer.complaint(&human::short(finding, name, &lines, printer.paint_err()))?;
    }
    checked.map_err(|findings| nothing_signed(&findings, printer))
}

/// Explains why the served manifest is not committed. If the user's network may be the cause, the answer is "could not tell".
fn refuse(refusal: &ServedError, uri: &str, printer: &mut Printer) -> Stop {
    if refusal.is_unclear {
        let reason = refusal.findings.last().or(refusal.findings.first());
        let message = reason.map_or_else(String::new, |finding| format!(": {}", finding.message));
        let what = format!("{uri} could not be fetched, and nothing was signed{message}");
        return Failure::new(codes::author::NOT_SERVED, what).hint("try again when the server and your network are up").into();
    }
    let mut text = String::new();
    for finding in &refusal.findings {
        show::finding(&mut text, finding, printer.paint_err());
    }
    if let Some(diff) = &refusal.diff {
        list(&mut text, diff);
    }
    match printer.complaint(&text) {
        Ok(()) => nothing_signed(&refusal.findings, printer),
        Err(error) => error.into(),
    }
}

fn list(text: &mut String, diff: &Diff) {
    text.push_str("differences from the file to the served manifest:\n");
    for change in diff.changes.iter().take(MAX_LISTED) {
        let side = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), shown);
        let place = if change.pointer.is_empty() { "everything" } else { &change.pointer };
        let (before, after) = (side(&change.before), side(&change.after));
        text.push_str(&format!("  {} {}: {before} -> {after}\n", change.kind.as_str(), shown(place)));
    }
    let more = diff.total.saturating_sub(MAX_LISTED);
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
}

fn nothing_signed(findings: &[Finding], printer: &mut Printer) -> Stop {
    match printer.note("nothing was signed") {
        Ok(()) => Done::new(Exit::No, json!({ "tool": null, "findings": findings })).into(),
        Err(error) => error.into(),
    }
}
