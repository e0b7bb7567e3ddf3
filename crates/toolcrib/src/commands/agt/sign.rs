//! `agt sign`: signs an agent manifest.
//!
//! The payload, its digest and the account are printed before signing. Stdout gets only the signed document.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcrib_chain::sign;
use toolcrib_chain::wallet::Scope;
use toolcrib_core::agent::{AgentManifest, AgentSignature, SigningPayload, signing};
use toolcrib_core::checked;
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::json::{self, Document, Limits};

use crate::check::finding_to_json;
use crate::input::Source;
use crate::onchain::{Signing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Most characters of the payload on stderr. Most manifests have less than 2,000 and are shown whole; one of 64 KiB would scroll a terminal.
/// The JSON output has the whole payload.
const MAX_SHOWN_PAYLOAD: usize = 8_192;

/// Arguments of `agt sign`.
#[derive(Args, Debug)]
pub(crate) struct Sign {
    /// Manifest, or `-` for stdin
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
    let account = wallet.address().to_checksum(None);
    printer.aside(&summary(&payload, &account, domain(&document)))?;
    let signature = wallet.sign_message(payload.as_bytes(), cleared).await.map_err(|error| failed(error.into()))?;
    let signature = AgentSignature::from_bytes(signature.canonical())
        .map_err(|fault| Failure::new(codes::agent::SIGNATURE_RANGE, fault.to_string()))?;
    let signed = signing::with_signature(&document, &signature).ok_or_else(unreadable)?;
    // The signed manifest is checked like a consumer would: the rules, and the signer.
    let checked = checked::parse::<AgentManifest>(signed.as_bytes(), Mode::Producer);
    let lines = Lines::new(signed.as_bytes());
    for finding in checked.findings.iter().filter(|finding| finding.severity != Severity::Hint) {
        printer.aside(&human::short(finding, &source.name(), &lines, printer.paint_err()))?;
    }
    let findings: Vec<_> = checked.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
    let Some(manifest) = checked.conformant() else {
        let data = json!({ "signed": null, "payload": payload.as_str(), "digest": payload.digest(), "findings": findings });
        return Ok(Done::new(Exit::No, data));
    };
    sign::check_owner_signature(manifest).map_err(|error| {
        Failure::new(error.code(), format!("{error}; the wallet is {}, the owner {}", wallet.address(), manifest.owner()))
            .hint("sign with the wallet that the manifest names as its owner")
    })?;
    printer.document(&signed)?;
    printer.note(&format!("signed by {account}"))?;
    Ok(Done::new(
        Exit::Yes,
        json!({
            "signed": signed,
            "signer": wallet.address(),
            "payload": payload.as_str(),
            "digest": payload.digest(),
            "findings": findings,
        }),
    ))
}

/// The name in the manifest, as written. Whether it is valid is checked with the other rules.
fn domain(document: &Document) -> Option<&str> {
    document.root().as_object()?.get("domain")?.as_str()
}

/// What will be signed, escaped for a terminal. The digest is below the payload, where a long payload does not scroll it away.
fn summary(payload: &SigningPayload, account: &str, domain: Option<&str>) -> String {
    let (text, bytes) = (payload.as_str(), payload.as_bytes().len());
    let (start, left) = match text.char_indices().nth(MAX_SHOWN_PAYLOAD) {
        Some((at, _)) => (&text[..at], format!("… and {} more bytes; --json shows all of them", bytes - at)),
        None => (text, String::new()),
    };
    format!(
        "Domain: {}\nAccount: {account}\nPayload ({bytes} bytes): {}{left}\nDigest (EIP-191): {}\n",
        domain.map_or_else(|| "none".to_owned(), shown),
        shown(start),
        payload.digest(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> SigningPayload {
        let document = json::read(text.as_bytes(), Limits::default()).document.expect("JSON");
        SigningPayload::of(&document).expect("an object")
    }

    #[test]
    fn a_summary_is_bounded_and_says_what_is_missing() {
        let empty = r#"{"x":""}"#.len();
        let whole = payload(&format!(r#"{{"x":"{}"}}"#, "é".repeat(MAX_SHOWN_PAYLOAD - empty)));
        let text = summary(&whole, "0x1", Some("rain.agt"));
        assert!(text.contains(whole.as_str()) && !text.contains("more bytes"), "{text}");
        let longer = payload(&format!(r#"{{"x":"{}"}}"#, "é".repeat(MAX_SHOWN_PAYLOAD)));
        let text = summary(&longer, "0x1", Some("rain.agt"));
        let left = longer.as_bytes().len() - r#"{"x":""#.len() - 2 * (MAX_SHOWN_PAYLOAD - r#"{"x":""#.len());
        assert!(text.contains(&format!("… and {left} more bytes; --json shows all of them\nDigest")), "{text}");
        assert!(text.contains(&longer.digest().to_string()), "{text}");
    }

    #[test]
    fn a_summary_does_not_control_the_terminal() {
        let text = summary(&payload("{\"domain\":\"\u{202e}\u{9b}2J\"}"), "0x1", Some("\u{202e}\n"));
        assert!(!text.contains(['\u{202e}', '\u{9b}']) && text.lines().count() == 4, "{text:?}");
        assert!(summary(&payload("{}"), "0x1", None).starts_with("Domain: none\n"));
    }
}
