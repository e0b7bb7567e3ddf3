//! `new` and `init`: a valid starting file.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, address};
use serde_json::json;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_fetch::SystemClock;

use crate::cli::Init;
use crate::kinds::{self, ManifestKind, PathHints, parse_address};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Placeholder for the author's address: the one of the ERC's example, which `lint` reports.
const SOMEBODY: Address = address!("abcdefabcdef1234567890abcdefabcdef123456");

/// Longest name of a new file or folder; file systems allow 255 bytes.
const MAX_NAME: usize = 100;

/// Runs the command.
pub(crate) fn run(kind: ManifestKind, arguments: &Init, printer: &mut Printer) -> Result<Done, Stop> {
    let name = arguments.name.as_deref().unwrap_or(match kind {
        ManifestKind::Agent => "my-agent.agt",
        ManifestKind::Tool | ManifestKind::Local => "my-tool",
    });
    check_name(name)?;
    let address = match &arguments.address {
        None => SOMEBODY,
        Some(text) => parse_address(text)?,
    };
    let text = kinds::template(kind, name, address, SystemClock.now())
        .map_err(|why| Failure::new(codes::cli::USAGE, format!("`{name}` does not give a valid manifest: {why}")))?;
    refuse_flawed(kind, &text, name)?;
    if arguments.out.as_deref() == Some(Path::new("-")) {
        printer.document(&text)?;
        return Ok(Done::new(Exit::Yes, json!({ "kind": kind.as_str(), "path": null, "text": text })));
    }
    let path = arguments.out.clone().unwrap_or_else(|| default_path(kind, name));
    write(&path, &text, arguments.force)?;
    let shown_path = shown(&path.display().to_string());
    printer.result(&format!("{shown_path}\n"))?;
    printer.aside(&next_steps(kind, &shown_path, arguments.address.is_none()))?;
    Ok(Done::new(Exit::Yes, json!({ "kind": kind.as_str(), "path": path.display().to_string() })))
}

/// Refuses a name that cannot be in a template or a path.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    if is_plain(name) {
        return Ok(());
    }
    let hint = "use letters, digits, `-`, `_` and `.`, beginning with a letter or digit";
    Err(Failure::new(codes::cli::USAGE, format!("`{name}` is not a valid name")).hint(hint))
}

/// Whether a name can be used unescaped in a template and a path. The rules check the rest.
fn is_plain(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Refuses to write a starting file with errors. What only the author can add later, such as a signature, does not count.
fn refuse_flawed(kind: ManifestKind, text: &str, name: &str) -> Result<(), Failure> {
    let report = kinds::check(kind, text.as_bytes(), Mode::Producer, &PathHints::default());
    let is_due_later = |pointer: &str| kind == ManifestKind::Agent && pointer == "/signature";
    match report.findings.iter().find(|finding| finding.severity == Severity::Error && !is_due_later(&finding.pointer)) {
        None => Ok(()),
        Some(finding) => {
            let what = format!("`{name}` does not give a valid manifest: {} ({})", finding.message, finding.code);
            Err(Failure::new(codes::cli::USAGE, what).hint(finding.code.info().hint))
        }
    }
}

fn default_path(kind: ManifestKind, name: &str) -> PathBuf {
    match kind {
        ManifestKind::Tool | ManifestKind::Agent => PathBuf::from(format!("{name}.json")),
        ManifestKind::Local => Path::new(name).join("manifest.json"),
    }
}

/// Writes a new file. Replaces an existing one only with `force`.
pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failure = |error: &io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(codes::cli::EXISTS, format!("{} already exists", path.display())),
        _ => Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display())),
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| failure(&error))?;
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failure(&error))
}

fn next_steps(kind: ManifestKind, path: &str, without_address: bool) -> String {
    let mut steps = Vec::new();
    match kind {
        ManifestKind::Tool => {
            steps.push("describe the tool, its endpoint, inputs and outputs".to_owned());
            if without_address {
                steps.push("set creatorAddress to your address, in lowercase".to_owned());
            }
        }
        ManifestKind::Agent => {
            steps.push("add protocols and capabilities of the agent".to_owned());
            if without_address {
                steps.push("set owner to the checksummed address that holds the name".to_owned());
            }
            steps.push("sign it last: toolcrib agt sign".to_owned());
        }
        ManifestKind::Local => steps.push("describe the functions and their parameters".to_owned()),
    }
    steps.push(format!("check it: toolcrib lint {path}"));
    let lines: Vec<_> = steps.iter().enumerate().map(|(at, step)| format!("  {}. {step}\n", at + 1)).collect();
    format!("Next:\n{}", lines.concat())
}
