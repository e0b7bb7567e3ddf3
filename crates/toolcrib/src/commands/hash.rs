//! `hash`: keccak256 of the canonical form.

use serde_json::json;
use toolcrib_core::agent::SigningPayload;
use toolcrib_core::canon::Canonical;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json::{self, Limits};

use crate::check::CheckOptions;
use crate::cli::Documents;
use crate::input::{self, Source};
use crate::kinds::ManifestKind;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Runs the command.
pub(crate) fn run(arguments: &Documents, printer: &mut Printer) -> Result<Done, Stop> {
    let sources = input::documents(&arguments.paths, printer)?;
    let several = sources.len() > 1;
    let mut exit = Exit::Yes;
    let mut documents = Vec::new();
    for source in sources {
        let document = match Document::read(source) {
            Ok(document) => document,
            Err(failure) => {
                printer.failure(&failure)?;
                exit = exit.max(Exit::CouldNotTell);
                continue;
            }
        };
        document.print_obstacles(printer)?;
        let hash = if arguments.for_signing {
            document.signing_payload().map(|payload| payload.digest())
        } else {
            document.canonical.as_ref().map(Canonical::hash)
        };
        match hash {
            None => exit = exit.max(Exit::No),
            Some(hash) if several => printer.result(&format!("{hash}  {}\n", shown(&document.source.name())))?,
            Some(hash) => printer.result(&format!("{hash}\n"))?,
        }
        documents.push(json!({
            "path": document.source.name(),
            "kind": document.kind.map(ManifestKind::as_str),
            "hash": hash.map(|hash| hash.to_string()),
            "obstacles": document.obstacles,
        }));
    }
    Ok(Done::new(exit, json!({ "documents": documents })))
}

/// Any document, and what would make its verification fail.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where it came from.
    pub(crate) source: Source,
    /// Its kind, if it is a manifest.
    pub(crate) kind: Option<ManifestKind>,
    /// Its canonical form, if it has one.
    pub(crate) canonical: Option<Canonical>,
    /// The findings that are errors under consumer rules.
    obstacles: Vec<Finding>,
    bytes: Vec<u8>,
}

impl Document {
    /// Reads and checks a document.
    pub(crate) fn read(source: Source) -> Result<Self, Failure> {
        let bytes = source.read()?;
        let (kind, report) =
            CheckOptions { kind: None, mode: Mode::Consumer, deny_warnings: false, metadata_uri: None }.check(&source, &bytes);
        // A document need not be a manifest to have a hash.
        let of_manifests = [codes::core::UNKNOWN_KIND, codes::manifest::NOT_AN_OBJECT];
        let obstacles = report
            .findings
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error && !of_manifests.contains(&finding.code))
            .collect();
        Ok(Self { source, kind, canonical: report.canonical, obstacles, bytes })
    }

    /// The payload that a wallet signs: the canonical form without the top-level signature. Only objects have one.
    pub(crate) fn signing_payload(&self) -> Option<SigningPayload> {
        SigningPayload::of(&json::read(&self.bytes, Limits::default()).document?)
    }

    /// Lists what would make verification fail: on stderr, or as warnings of the envelope.
    pub(crate) fn print_obstacles(&self, printer: &mut Printer) -> Result<(), Stop> {
        let lines = Lines::new(&self.bytes);
        let paint = printer.paint_err();
        let name = self.source.name();
        if printer.json() {
            for finding in &self.obstacles {
                printer.warn_in_envelope(&Failure::new(finding.code, format!("{name}: {}", finding.message)));
            }
            return Ok(());
        }
        let text: String = self.obstacles.iter().map(|finding| human::short(finding, &name, &lines, paint)).collect();
        // Without a hash, these findings are the result, so `--quiet` prints them as well.
        if self.canonical.is_none() {
            printer.complaint(&text)?;
        } else {
            printer.aside(&text)?;
        }
        Ok(())
    }
}
