//! `agt verify FILE`: the rules and the signature of a file, without a network.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcrib_chain::sign;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::checked;
use toolcrib_core::finding::{Mode, Severity};

use crate::check::finding_to_json;
use crate::input::Source;
use crate::outcome::{Done, Exit, Stop};
use crate::position::Lines;
use crate::printer::Printer;
use crate::report::human;

/// Arguments of `agt verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The manifest, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
}

/// Checks a file.
pub(crate) fn run(arguments: &Verify, printer: &mut Printer) -> Result<Done, Stop> {
    let source = Source::from_argument(&arguments.path);
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
    printer.note("whether that owner holds the name onchain was not checked")?;
    Ok(Done::new(Exit::Yes, json!({ "conformant": true, "signature": true, "owner": owner, "findings": findings })))
}
