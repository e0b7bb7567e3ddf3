//! `local`, `secret` and `permit`: tools in folders on this machine, their credentials, and what they may do.

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
    /// List tools and functions with their sandbox, and folders that cannot be loaded
    List(ListArgs),
    /// Show a tool: functions, parameters, credentials, permissions, sandbox, content hash
    Show(ShowArgs),
    /// Call a function
    #[command(
        after_help = "You are asked before the call unless a rule allows it (`toolcrib permit`). Without a terminal only rules count.\n\n\
        Example:\n  \
        toolcrib local call shell execute --args '{\"command\": \"ls\"}'"
    )]
    Call(call::Call),
    /// Watch tool folders and report every change and problem until Ctrl-C
    Dev(ListArgs),
    /// Check folders, programs, sandbox, credentials, permissions, lock file and audit log
    Doctor(ListArgs),
    /// Show the audit log
    Logs(logs::Logs),
    /// Open a settings page on this machine: tools, credentials, permissions, calls
    #[command(after_help = "The address that is printed works once, for one browser.\n\n\
        Example:\n  \
        toolcrib local settings --tools ~/tools")]
    Settings(settings::Settings),
    /// Install a tool from a folder, a git repository or a zip file, or pin an onchain tool
    #[command(
        after_help = "An onchain tool is verified now, shown with its price and recipient, and pinned in this version with your approval:\n\
        `toolcrib mcp` lists it beside local tools, and refuses to call it when it changes, until you accept the change with\n\
        `toolcrib local update`.\n\n\
        Examples:\n  \
        toolcrib local add ./weather\n  \
        toolcrib local add eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7"
    )]
    Add(Box<install::Add>),
    /// Remove an installed tool or a pinned onchain tool
    Remove(install::Remove),
    /// Update an installed or pinned tool, after showing what changes
    Update(Box<install::Update>),
    /// Write tools in the format of a model API, a client or a registry
    Export(export::Export),
    /// Serve a function as an ERC-8257 tool behind the gate
    #[command(
        after_help = "Writes the manifest and serves it with the function, until Ctrl-C. Requests are checked against the manifest, asked\n\
        for money or a proof of identity as with `serve`, and run in the sandbox under your permissions. You are asked once for each\n\
        version of the tool; after a change callers get 503 until you publish again. `register` puts the tool onchain.\n\n\
        Example:\n  \
        toolcrib local publish datetime now --origin https://tools.example.com --creator 0x52908400098527886e0f7030069857d2e4169ee7"
    )]
    Publish(Box<publish::Publish>),
    /// Import MCP servers of a client's configuration or a bundle, or a folder of another host
    #[command(
        after_help = "Servers are shown with what they may reach, and started once in the sandbox, with your approval, for the list of their\n\
        tools. Values of `env` and `headers` go into the encrypted store, never into the folder of the tool. Calls need your approval\n\
        as those of any other tool. A server that needs the network, or files outside its folder, is told so by --network, --read and\n\
        --write, which its manifest keeps.\n\n\
        Examples:\n  \
        toolcrib local import ~/.config/client/mcp.json --dry-run\n  \
        toolcrib local import mcp.json --server github --network 443\n  \
        toolcrib local import notes.mcpb --setting folder=/home/me/notes --read /home/me/notes"
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
    /// Id of the tool, or reference or name of a pinned onchain tool
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

/// Ends a command with no for an answer: a refusal is not an error in the envelope.
fn refused(failure: &Failure, printer: &mut Printer) -> Result<Done, Stop> {
    if !printer.json() {
        printer.failure(failure)?;
    }
    let data = json!({ "code": failure.code.id(), "message": failure.message, "hint": failure.what_next() });
    Ok(Done::new(Exit::No, data))
}

/// Where installed tools are, unless told otherwise.
fn installed() -> Result<PathBuf, Failure> {
    Ok(crate::onchain::state_dir()?.join("tools"))
}

/// Where the state of local tools is.
fn state() -> Result<PathBuf, Failure> {
    Ok(crate::onchain::state_dir()?.join("local"))
}
