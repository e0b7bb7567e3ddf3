//! `local add`, `remove` and `update`.

use std::io::IsTerminal as _;

use clap::Args;
use serde_json::json;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;
use toolcrib_host::local::ContentHash;
use toolcrib_host::local::install::{AddOptions, GitOptions, InstallError, Installed, Installer, Source, UpdateOptions};

use super::pinned::{self, Pinning};
use super::{installed, refused, state};
use crate::commands::onchain::confirm;
use crate::commands::trust::EgressArgs;
use crate::onchain::OnChain;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `local add`.
#[derive(Args, Debug)]
pub(crate) struct Add {
    /// Folder, zip file, git URL (https or ssh), or onchain tool reference
    pub(crate) source: String,
    /// Branch, tag or commit of the repository
    #[arg(long, value_name = "NAME")]
    pub(crate) revision: Option<String>,
    /// Folder of the tool within the source
    #[arg(long, value_name = "DIR")]
    pub(crate) subfolder: Option<String>,
    /// Required content hash, `sha256:…`
    #[arg(long, value_name = "HASH")]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) pinning: Pinning,
}

/// Arguments of `local remove`.
#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// Tool id, or name or reference of a pinned onchain tool
    pub(crate) tool: String,
    /// Remove the folder even if it has manual changes
    #[arg(long)]
    pub(crate) discard_changes: bool,
}

/// Arguments of `local update`.
#[derive(Args, Debug)]
pub(crate) struct Update {
    /// Tool id, or name or reference of a pinned onchain tool
    pub(crate) tool: String,
    /// Apply without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
    /// Replace the folder even if it has manual changes
    #[arg(long)]
    pub(crate) discard_changes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(super) fn installer() -> Result<Installer<SystemClock>, Failure> {
    Ok(Installer::new(installed()?, state()?.join("lock.json"), SystemClock))
}

/// Installs a tool, or pins an onchain one.
pub(crate) async fn add(arguments: &Add, printer: &mut Printer) -> Result<Done, Stop> {
    if arguments.source.starts_with("eip155:") {
        return pinned::add(&arguments.source, &arguments.pinning, printer).await;
    }
    let source = Source::parse(&arguments.source, arguments.revision.as_deref(), arguments.subfolder.as_deref())
        .map_err(|error| Failure::new(codes::cli::USAGE, error.to_string()))?;
    let digest = arguments.digest.as_deref().map(parse_digest).transpose()?;
    let options = AddOptions { digest, git: git() };
    let added = installer()?.add(&source, &options).map_err(|error| match error {
        InstallError::NeedsListing => failed(&error).hint(format!("run `toolcrib local import {}`", shown(&arguments.source))),
        error => failed(&error),
    })?;
    tell(&added, printer)
}

/// Removes a tool.
pub(crate) fn remove(arguments: &Remove, printer: &mut Printer) -> Result<Done, Stop> {
    if let Some(pin) = pinned::find(&arguments.tool)? {
        return pinned::remove(&pin, printer);
    }
    let entry = installer()?.remove(&arguments.tool, arguments.discard_changes).map_err(|error| failed(&error))?;
    printer.note(&format!("removed {} {}", arguments.tool, shown(&entry.version)))?;
    Ok(Done::new(Exit::Yes, json!({ "removed": arguments.tool, "content": entry.content })))
}

/// Updates a tool.
pub(crate) async fn update(arguments: &Update, printer: &mut Printer) -> Result<Done, Stop> {
    if let Some(pin) = pinned::find(&arguments.tool)? {
        return pinned::update(&pin, arguments, printer).await;
    }
    let installer = installer()?;
    let options = UpdateOptions { discard_changes: arguments.discard_changes, git: git(), ..UpdateOptions::default() };
    let update = installer.update(&arguments.tool, &options).map_err(|error| match error {
        InstallError::NeedsListing => {
            let id = &arguments.tool;
            failed(&error).hint(format!("run `toolcrib local remove {id}`, and then `toolcrib local import FILE`"))
        }
        error => failed(&error),
    })?;
    let diff = update.diff();
    if diff.is_empty() {
        printer.note("nothing changed")?;
        return Ok(Done::new(Exit::Yes, json!({ "changed": false })));
    }
    printer.result(&format!("{} {} is now {}\n", arguments.tool, shown(&diff.old_version), shown(&diff.new_version)))?;
    for file in &diff.files {
        printer.result(&format!("  {:?} {}\n", file.change, shown(&file.path)))?;
    }
    for function in &diff.functions {
        printer.result(&format!(
            "  function {:?} {} {}\n",
            function.change,
            shown(&function.name),
            shown(&function.members.join(", "))
        ))?;
    }
    for name in &diff.permissions_asked_again {
        printer.result(&format!("  you will be asked again about {}\n", shown(name)))?;
    }
    let data = json!({ "changed": true, "diff": diff });
    if arguments.dry_run {
        return Ok(Done::new(Exit::Yes, data));
    }
    printer.flush()?;
    if let Err(failure) = agreed(arguments.yes, "update it?", "you refused the update") {
        return refused(&failure, printer);
    }
    let installed = update.apply().map_err(|error| failed(&error))?;
    tell(&installed, printer)?;
    Ok(Done::new(Exit::Yes, data))
}

/// Asks for approval, unless `--yes` was given. Fails if there is no terminal or the user declines.
pub(super) fn agreed(yes: bool, question: &str, declined: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(codes::host::DECLINED, "there is no terminal to ask on").hint("give --yes"));
    }
    if confirm(question) { Ok(()) } else { Err(Failure::new(codes::host::DECLINED, declined)) }
}

fn tell(installed: &Installed, printer: &mut Printer) -> Result<Done, Stop> {
    for finding in &installed.findings {
        printer.note(&format!("{} {}: {}", finding.code, shown(&finding.pointer), shown(&finding.message)))?;
    }
    printer.result(&format!(
        "{} {} in {}\n",
        installed.id,
        installed.entry.content,
        shown(&installed.folder.to_string_lossy())
    ))?;
    Ok(Done::new(Exit::Yes, json!({ "id": installed.id, "folder": installed.folder, "entry": installed.entry })))
}

fn git() -> GitOptions {
    GitOptions::default()
}

fn parse_digest(text: &str) -> Result<ContentHash, Failure> {
    text.parse().map_err(|error: toolcrib_host::local::ContentHashError| Failure::new(codes::cli::USAGE, error.to_string()))
}

pub(super) fn failed(error: &InstallError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
