//! `agt sign`: the signature of an agent manifest.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcrib_chain::sign;
use toolcrib_chain::wallet::Scope;
use toolcrib_core::agent::{AgentManifest, AgentSignature, SigningPayload, signing};
use toolcrib_core::checked;
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::json::{self, Limits};

use crate::check::finding_to_json;
use crate::input::Source;
use crate::onchain::{Signing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::Printer;
use crate::report::human;

/// Arguments of `agt sign`.
#[derive(Args, Debug)]
pub(crate) struct Sign {
    /// The manifest, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) signing: Signing,
}

/// Signs a manifest and prints it.
pub(crate) async fn run(arguments: &Sign, printer: &mut Printer) -> Result<Done, Stop> {
    let source = Source::from_argument(&arguments.path);
    let bytes = source.read()?;
    let unreadable = || Failure::new(codes::cli::UNREADABLE, format!("{} has no canonical form", source.name()));
    let document = json::read(&bytes, Limits::default()).document.ok_or_else(unreadable)?;
    let payload = SigningPayload::of(&document).ok_or_else(unreadable)?;
    let wallet = arguments.signing.open()?;
    let cleared = Scope::DOCUMENT.clear(wallet.as_ref()).map_err(|error| failed(error.into()))?;
    let signature = wallet.sign_message(payload.as_bytes(), cleared).await.map_err(|error| failed(error.into()))?;
    let signature = AgentSignature::from_bytes(signature.canonical())
        .map_err(|fault| Failure::new(codes::agent::SIGNATURE_RANGE, fault.to_string()))?;
    let signed = signing::with_signature(&document, &signature).ok_or_else(unreadable)?;
    // The signed manifest is checked as a reader would check it: the rules, and whose signature it is.
    let checked = checked::parse::<AgentManifest>(signed.as_bytes(), Mode::Producer);
    let lines = Lines::new(signed.as_bytes());
    for finding in checked.findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        printer.aside(&human::short(finding, &source.name(), &lines, printer.paint_err()))?;
    }
    let findings: Vec<_> = checked.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
    let Some(manifest) = checked.conformant() else {
        return Ok(Done::new(Exit::No, json!({ "signed": null, "findings": findings })));
    };
    sign::check_owner_signature(manifest).map_err(|error| {
        Failure::new(error.code(), format!("{error}; the wallet is {}, the owner {}", wallet.address(), manifest.owner()))
            .hint("sign with the wallet that the manifest names as its owner")
    })?;
    printer.document(&signed)?;
    printer.note(&format!("signed by {}", wallet.address().to_checksum(None)))?;
    Ok(Done::new(Exit::Yes, json!({ "signed": signed, "signer": wallet.address(), "findings": findings })))
}
