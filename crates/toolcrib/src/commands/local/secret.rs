//! `secret`: credentials of local tools.

use std::io::{IsTerminal as _, Read as _};

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_core::codes;
use toolcrib_host::local::ChangeError;
use toolcrib_host::local::secrets::{MAX_SECRET_BYTES, Secret};

use super::HostArgs;
use super::args::secret_store;
use super::list::unknown;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with credentials.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a credential of a tool, read from stdin or typed unseen
    #[command(
        after_help = "The value is bound to the content of the tool: a changed tool does not get it until you bind it again.\n\n\
        Examples:\n  \
        toolcrib secret set weather api_key\n  \
        pass show weather | toolcrib secret set weather api_key"
    )]
    Set(SetArgs),
    /// Remove a credential
    Unset(Named),
    /// List credentials and where they come from, never their values
    List,
    /// Give the stored credentials of a changed tool to its new content
    Rebind(Rebind),
}

/// Arguments of `secret set`.
#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) named: Named,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// A credential.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Id of the tool
    pub(crate) tool: String,
    /// Name of the credential in the manifest
    pub(crate) name: String,
}

/// Arguments of `secret rebind`.
#[derive(Args, Debug)]
pub(crate) struct Rebind {
    /// Id of the tool
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Runs a command.
pub(crate) fn run(command: &SecretCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        SecretCommand::Set(arguments) => set(arguments, printer),
        SecretCommand::Unset(named) => unset(named, printer),
        SecretCommand::List => list(printer),
        SecretCommand::Rebind(arguments) => rebind(arguments, printer),
    }
}

fn set(arguments: &SetArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let Named { tool: id, name } = &arguments.named;
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(id) else { return Err(unknown(id).into()) };
    // Before a value is asked for.
    tool.credential(name).map_err(|error| failed(&error))?;
    let value = read(name)?;
    host.set_secret(tool, name, &value, "cli").map_err(|error| failed(&error))?;
    printer.note(&format!("{name} of {id} is set for {}", tool.content()))?;
    Ok(Done::new(Exit::Yes, json!({ "tool": id, "name": name, "bound_to": tool.content() })))
}

fn unset(named: &Named, printer: &mut Printer) -> Result<Done, Stop> {
    let Named { tool, name } = named;
    let host = HostArgs::default().open()?;
    let was_set = host.unset_secret(tool, name, "cli").map_err(|error| failed(&error))?;
    printer.note(if was_set { "removed" } else { "it was not set in the encrypted file" })?;
    Ok(Done::new(if was_set { Exit::Yes } else { Exit::No }, json!({ "removed": was_set })))
}

fn list(printer: &mut Printer) -> Result<Done, Stop> {
    let secrets = secret_store()?.list().map_err(|error| failed(&error.into()))?;
    let mut rows = Vec::new();
    for secret in secrets {
        let bound = secret.bound_to.map_or_else(String::new, |content| format!("  {content}"));
        printer.result(&format!("{} {}  {}{bound}\n", secret.tool, secret.name, secret.source))?;
        rows.push(json!({
            "tool": secret.tool,
            "name": secret.name,
            "source": secret.source.to_string(),
            "bound_to": secret.bound_to,
            "set_at": secret.set_at,
        }));
    }
    Ok(Done::new(Exit::Yes, json!({ "secrets": rows })))
}

fn rebind(arguments: &Rebind, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&arguments.tool) else { return Err(unknown(&arguments.tool).into()) };
    let count = host.rebind_secrets(tool, "cli").map_err(|error| failed(&error))?;
    printer.note(&format!("{count} credentials of {} are bound to {}", arguments.tool, tool.content()))?;
    Ok(Done::new(if count > 0 { Exit::Yes } else { Exit::No }, json!({ "rebound": count, "bound_to": tool.content() })))
}

/// Reads a value: typed unseen at a terminal, otherwise the whole of stdin without its last line feed.
fn read(name: &str) -> Result<Secret, Failure> {
    let unreadable = |error: std::io::Error| Failure::new(codes::cli::USAGE, format!("the value could not be read: {error}"));
    if std::io::stdin().is_terminal() {
        return rpassword::prompt_password(format!("{name}: ")).map(Secret::new).map_err(unreadable);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_SECRET_BYTES as u64 + 3).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    Secret::from_utf8(bytes).ok_or_else(|| Failure::new(codes::cli::USAGE, "the value is not UTF-8"))
}

fn failed(error: &ChangeError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
