//! `secret`: credentials of local tools.

use std::io::{IsTerminal as _, Read as _};

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_host::local::audit::{Event, Record};
use toolcrib_host::local::secrets::{MAX_SECRET_BYTES, Secret, SecretError};

use super::HostArgs;
use super::args::secret_store;
use super::list::unknown;
use crate::clock::SystemClock;
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
    if !tool.manifest().credentials().iter().any(|credential| credential.name() == name) {
        let names: Vec<_> = tool.manifest().credentials().iter().map(|credential| credential.name()).collect();
        let message = format!("{id:?} has no credential {name:?}; its manifest names: {}", names.join(", "));
        return Err(Failure::new(codes::host::TOOL_UNKNOWN, message).into());
    }
    let value = read(name)?;
    host.secrets().set(id, name, &tool.content(), &value, SystemClock.now()).map_err(|error| failed(&error))?;
    record(&host, Record::new(Event::SecretSet).tool(id).content(tool.content()).detail(name))?;
    printer.note(&format!("{name} of {id} is set for {}", tool.content()))?;
    Ok(Done::new(Exit::Yes, json!({ "tool": id, "name": name, "bound_to": tool.content() })))
}

fn unset(named: &Named, printer: &mut Printer) -> Result<Done, Stop> {
    let Named { tool, name } = named;
    let host = HostArgs::default().open()?;
    let was_set = secret_store()?.unset(tool, name).map_err(|error| failed(&error))?;
    if was_set {
        record(&host, Record::new(Event::SecretUnset).tool(tool).detail(name))?;
    }
    printer.note(if was_set { "removed" } else { "it was not set in the encrypted file" })?;
    Ok(Done::new(if was_set { Exit::Yes } else { Exit::No }, json!({ "removed": was_set })))
}

fn list(printer: &mut Printer) -> Result<Done, Stop> {
    let secrets = secret_store()?.list().map_err(|error| failed(&error))?;
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
    let old: Vec<_> = host.secrets().list().map_err(|error| failed(&error))?;
    let old = old.into_iter().filter(|secret| secret.tool == arguments.tool).filter_map(|secret| secret.bound_to);
    let mut contents: Vec<_> = old.filter(|content| *content != tool.content()).collect();
    contents.sort();
    contents.dedup();
    let mut count = 0;
    for content in contents {
        count += host.secrets().rebind(&arguments.tool, &content, &tool.content()).map_err(|error| failed(&error))?;
        let record = Record::new(Event::SecretRebound).tool(&arguments.tool).content(tool.content());
        self::record(&host, record.detail(&format!("was {content}")))?;
    }
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

fn record(host: &toolcrib_host::local::Host, record: Record) -> Result<(), Failure> {
    host.audit().append([record]).map(drop).map_err(|error| Failure::new(error.code(), error.to_string()))
}

fn failed(error: &SecretError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
