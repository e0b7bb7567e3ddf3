//! `local`, `secret` and `permit`: tools in folders on this machine, their credentials and permissions.

mod args;
mod call;
mod export;
mod fetch;
mod import;
mod install;
mod list;
mod logs;
pub(crate) mod permit;
mod pinned;
mod publish;
pub(crate) mod secret;
mod settings;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

pub(crate) use args::{HostArgs, LAUNCHER};
pub(crate) use fetch::run as serve_http_fetch;
pub(crate) use pinned::store as pin_store;

use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with local tools.
#[derive(Debug, Subcommand)]
pub(crate) enum LocalCommand {
    /// List tools, functions and folders that cannot be loaded
    List(ListArgs),
    /// Show functions, credentials, permissions and sandbox of a tool
    Show(ShowArgs),
    /// Call a function
    #[command(
        after_long_help = "Asks before the call unless a rule allows it (`toolcrib permit`). Without a terminal, only rules count."
    )]
    Call(call::Call),
    /// Watch tool folders and report changes and problems
    Dev(ListArgs),
    /// Check folders, programs, sandbox, credentials and audit log
    Doctor(ListArgs),
    /// Show the audit log
    Logs(logs::Logs),
    /// Open a local settings page in the browser
    #[command(after_long_help = "The printed URL works once, for one browser.")]
    Settings(settings::Settings),
    /// Install a tool from a folder, git or zip, or pin an onchain tool
    #[command(
        after_long_help = "An onchain tool is verified, shown with its price and recipient, and pinned in this version after you confirm.\n\
        `toolcrib mcp` lists it beside local tools and refuses to call it after a change, until you accept the change with\n\
        `toolcrib local update`."
    )]
    Add(Box<install::Add>),
    /// Remove an installed or pinned tool
    Remove(install::Remove),
    /// Show the changes of a tool and update it
    Update(Box<install::Update>),
    /// Export tools for a model API, a client or a registry
    Export(export::Export),
    /// Serve a function as an ERC-8257 tool behind a gate
    #[command(
        after_long_help = "Writes the manifest and serves it with the function, until Ctrl-C. Calls are checked against the manifest, charged or\n\
        identified as with `serve`, and run in the sandbox under your permissions. You confirm each version of the tool once;\n\
        after a change callers get 503 until you publish again. Use `register` to register the tool onchain."
    )]
    Publish(Box<publish::Publish>),
    /// Import MCP servers from a client configuration or bundle
    #[command(
        after_long_help = "Shows what each server can access and, after you confirm, starts it once in the sandbox to list its tools. Values of\n\
        `env` and `headers` go into the encrypted store, never into the tool's folder. Calls need permission like those of any\n\
        other tool. Allow network access or files outside its folder with --network, --read and --write; the manifest keeps it."
    )]
    Import(Box<import::Import>),
}

/// Arguments of commands about all tools.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Arguments of `local show`.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Tool id, or name or reference of a pinned onchain tool
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Runs a command.
pub(crate) async fn run(command: &LocalCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        LocalCommand::List(arguments) => list::list(arguments, printer),
        LocalCommand::Show(arguments) => list::show(arguments, printer),
        LocalCommand::Call(arguments) => call::run(arguments, printer).await,
        LocalCommand::Dev(arguments) => list::dev(arguments, printer).await,
        LocalCommand::Doctor(arguments) => list::doctor(arguments, printer),
        LocalCommand::Logs(arguments) => logs::run(arguments, printer),
        LocalCommand::Settings(arguments) => settings::run(arguments, printer).await,
        LocalCommand::Add(arguments) => install::add(arguments, printer).await,
        LocalCommand::Remove(arguments) => install::remove(arguments, printer),
        LocalCommand::Update(arguments) => install::update(arguments, printer).await,
        LocalCommand::Export(arguments) => export::run(arguments, printer),
        LocalCommand::Publish(arguments) => publish::run(arguments, printer).await,
        LocalCommand::Import(arguments) => import::run(arguments, printer).await,
    }
}

/// Ends a command with the answer "no", which is not an error in the envelope.
fn refused(failure: &Failure, printer: &mut Printer) -> Result<Done, Stop> {
    if !printer.json() {
        printer.failure(failure)?;
    }
    let data = json!({ "code": failure.code.id(), "message": failure.message, "hint": failure.what_next() });
    Ok(Done::new(Exit::No, data))
}

/// The default folder of installed tools.
fn installed() -> Result<PathBuf, Failure> {
    Ok(crate::onchain::state_dir()?.join("tools"))
}

/// The folder with the state of local tools.
fn state() -> Result<PathBuf, Failure> {
    Ok(crate::onchain::state_dir()?.join("local"))
}
