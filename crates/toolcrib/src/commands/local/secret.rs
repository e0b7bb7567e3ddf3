//! `secret`: credentials of local tools.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_host::local::ChangeError;
use toolcrib_host::local::secrets::{MAX_SECRET_BYTES, Protection, Secret, SecretError, SecretStore, system_keychain};

use super::HostArgs;
use super::args::{passphrase, secret_key, secret_store};
use super::list::unknown;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// What to do with credentials.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a credential of a tool, from stdin or a hidden prompt
    #[command(
        after_long_help = "The value is bound to the content of the tool: after a change the tool does not get it until `secret rebind`."
    )]
    Set(SetArgs),
    /// Remove a credential
    Unset(Named),
    /// List credentials and their sources, never their values
    List,
    /// Bind stored credentials to the new content of a changed tool
    Rebind(Rebind),
    /// Show or move the key that encrypts credentials
    #[command(
        after_long_help = "The key is in a file in the state folder, or that file says that it is in the operating system's keychain. A locked or\n\
        missing keychain is an error; no second key is made. Move the key back with `--to file`."
    )]
    Key(KeyArgs),
}

/// Arguments of `secret key`.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// Move the key to this place
    #[arg(long, value_name = "PLACE")]
    pub(crate) to: Option<KeyPlace>,
}

/// Where the key can be.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KeyPlace {
    /// Keychain of the operating system (builds with feature `keychain`)
    Keychain,
    /// Private file in the state folder
    File,
}

/// Arguments of `secret set`.
#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Private file with the value, read at every call
    #[arg(long, value_name = "PATH")]
    pub(crate) from_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// A credential.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Tool id
    pub(crate) tool: String,
    /// Credential name in the manifest
    pub(crate) name: String,
}

/// Arguments of `secret rebind`.
#[derive(Args, Debug)]
pub(crate) struct Rebind {
    /// Tool id
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
        SecretCommand::Key(arguments) => key(arguments, printer),
    }
}

fn set(arguments: &SetArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let Named { tool: id, name } = &arguments.named;
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(id) else { return Err(unknown(id).into()) };
    // Checked before asking for a value.
    tool.credential(name).map_err(|error| failed(&error))?;
    let stored = match &arguments.from_file {
        // The reference must work from other folders too. Symbolic links are not resolved: if the last part is one, reading refuses it.
        Some(path) => std::path::absolute(path)
            .map_err(|_| SecretError::Value { why: "the path of the file is empty" }.into())
            .and_then(|path| host.set_secret_reference(tool, name, &path, "cli")),
        None => host.set_secret(tool, name, &read(name)?, "cli"),
    };
    stored.map_err(|error| failed(&error))?;
    printer.note(&format!("{name} of {id} is set for {}", tool.content()))?;
    Ok(Done::new(Exit::Yes, json!({ "tool": id, "name": name, "bound_to": tool.content() })))
}

fn unset(named: &Named, printer: &mut Printer) -> Result<Done, Stop> {
    let Named { tool, name } = named;
    let host = HostArgs::default().open()?;
    let was_set = host.unset_secret(tool, name, "cli").map_err(|error| failed(&error))?;
    printer.note(if was_set { "removed" } else { "the encrypted file does not have it" })?;
    Ok(Done::new(if was_set { Exit::Yes } else { Exit::No }, json!({ "removed": was_set })))
}

fn list(printer: &mut Printer) -> Result<Done, Stop> {
    let store = secret_store()?;
    let mut rows = Vec::new();
    for secret in store.list().map_err(|error| failed(&error.into()))? {
        let bound = secret.bound_to.map_or_else(String::new, |content| format!("  {content}"));
        let file = secret.file.as_ref().map_or_else(String::new, |file| format!("  {}", shown(&file.display().to_string())));
        printer.result(&format!("{} {}  {}{file}{bound}\n", secret.tool, secret.name, secret.source))?;
        rows.push(json!({
            "tool": secret.tool,
            "name": secret.name,
            "source": secret.source.to_string(),
            "bound_to": secret.bound_to,
            "set_at": secret.set_at,
            "file": secret.file,
        }));
    }
    let key = key_state(&store)?;
    if let (Some(kind), Some(place)) = (key["kind"].as_str(), key["place"].as_str()) {
        printer.note(&format!("encrypted with the key in the {kind}: {}", shown(place)))?;
    }
    Ok(Done::new(Exit::Yes, json!({ "secrets": rows, "key": key })))
}

/// `secret key`.
fn key(arguments: &KeyArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let moved = arguments.to.map(move_key).transpose()?.flatten();
    if let Some(note) = moved {
        let place = secret_key()?.protection().map_err(|error| failed(&error.into()))?;
        let place = place.map_or_else(String::new, |place| place.to_string());
        HostArgs::default().open()?.secret_key_moved(&place, "cli").map_err(|error| failed(&error))?;
        printer.note(note)?;
    }
    let state = key_state(&secret_store()?)?;
    let text = |member: &str| state[member].as_str().unwrap_or("not created yet").to_owned();
    printer.result(&format!("{}: {}\n", text("kind"), shown(&text("place"))))?;
    Ok(Done::new(Exit::Yes, state))
}

/// Moves the key. Returns a note for the user if it was moved.
fn move_key(to: KeyPlace) -> Result<Option<&'static str>, Failure> {
    let stored = secret_store()?.file().key_id().map_err(|error| failed(&error.into()))?;
    let key = secret_key()?;
    let moved = match to {
        KeyPlace::Keychain => key
            .move_to_keychain(passphrase().as_ref(), stored.as_deref())
            .map(|()| Some("the key is in the keychain now; copies of the key file still decrypt the secrets")),
        KeyPlace::File => key.move_to_file().map(|moved| {
            moved.map(|is_removed| match is_removed {
                true => "the key is in the key file now, and removed from the keychain",
                false => "the key is in the key file now; the keychain did not remove its copy",
            })
        }),
    };
    moved.map_err(|error| failed(&error.into()))
}

/// Where the key is, and where a new one would be stored.
fn key_state(store: &SecretStore) -> Result<Value, Failure> {
    let kind = secret_key()?.protection().map_err(|error| failed(&error.into()))?;
    let kinds =
        [(Protection::Keychain, system_keychain().is_some()), (Protection::Passphrase, true), (Protection::FileMode, true)];
    let available: Vec<_> = kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind.to_string()).collect();
    Ok(json!({ "kind": kind.map(|kind| kind.to_string()), "place": store.file().provider().place(), "available": available }))
}

fn rebind(arguments: &Rebind, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&arguments.tool) else { return Err(unknown(&arguments.tool).into()) };
    let count = host.rebind_secrets(tool, "cli").map_err(|error| failed(&error))?;
    printer.note(&format!("bound {count} credentials of {} to {}", arguments.tool, tool.content()))?;
    Ok(Done::new(if count > 0 { Exit::Yes } else { Exit::No }, json!({ "rebound": count, "bound_to": tool.content() })))
}

/// Reads a value: without echo at a terminal, otherwise all of stdin without the last line feed.
fn read(name: &str) -> Result<Secret, Failure> {
    let unreadable = |error: std::io::Error| Failure::new(codes::cli::USAGE, format!("cannot read the value: {error}"));
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
