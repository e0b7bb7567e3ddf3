//! `directory keys`: API keys of a directory, for its operator.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_core::codes;
use toolcrib_directory::keys::{KeyRecord, KeyTerms, Keys};
use toolcrib_fetch::SystemClock;

use super::StoreArgs;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Default number of listed keys.
const USUAL_LIMIT: u32 = 100;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Issue an API key and print it; it is shown only once
    Issue(Issue),
    /// List keys by name; the keys themselves are not stored
    List(ListKeys),
    /// Revoke a key by its name
    Revoke(Revoke),
}

/// Arguments of `directory keys issue`.
#[derive(Args, Debug)]
pub(crate) struct Issue {
    /// Name of the key
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Read requests per hour
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reads: u32,
    /// Write requests per hour
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) writes: u32,
    /// Validity in days
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
    /// Allow moderation: block, hide, read abuse reports
    #[arg(long)]
    pub(crate) admin: bool,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `directory keys list`.
#[derive(Args, Debug)]
pub(crate) struct ListKeys {
    /// Maximum number of keys, newest first
    #[arg(long, value_name = "N", default_value_t = USUAL_LIMIT)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `directory keys revoke`.
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// Name of the key, from `directory keys list`
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Runs the command.
pub(crate) async fn run(command: &KeysCommand, printer: &mut Printer) -> Result<Done, Stop> {
    let now = SystemClock.now();
    match command {
        KeysCommand::Issue(arguments) => {
            let keys = open(&arguments.kept, true).await?;
            let seconds = i64::from(arguments.days) * 86_400;
            let Issue { reads, writes, admin, .. } = *arguments;
            let issued = keys.issue_with(arguments.name.as_deref(), KeyTerms { reads, writes, seconds, admin }, now).await;
            let issued = issued.map_err(|error| failure(&error))?;
            printer.note(&format!("{} is valid until {}", shown(&issued.record.name), issued.record.expires_at))?;
            printer.result(&format!("{}\n", issued.key))?;
            let mut data = data(&issued.record, now);
            data["key"] = json!(issued.key);
            Ok(Done::new(Exit::Yes, data))
        }
        KeysCommand::List(arguments) => {
            let keys = open(&arguments.kept, false).await?.list(arguments.limit).await.map_err(|error| failure(&error))?;
            for record in &keys {
                let state = state(record, now);
                let name = shown(&record.name);
                printer.result(&format!(
                    "{name:<28}{state:<9}{:>7} reads/h {:>6} writes/h  until {}\n",
                    record.reads, record.writes, record.expires_at
                ))?;
            }
            if keys.is_empty() {
                printer.note("no keys")?;
            }
            Ok(Done::new(Exit::Yes, json!({ "keys": keys.iter().map(|record| data(record, now)).collect::<Vec<_>>() })))
        }
        KeysCommand::Revoke(arguments) => {
            let keys = open(&arguments.kept, false).await?;
            if keys.revoke(&arguments.name, now).await.map_err(|error| failure(&error))? {
                printer.result(&format!("{} is revoked\n", shown(&arguments.name)))?;
                return Ok(Done::new(Exit::Yes, json!({ "revoked": arguments.name })));
            }
            printer.complaint(&format!("there is no valid key named {}", shown(&arguments.name)))?;
            Ok(Done::new(Exit::No, json!({ "revoked": null })))
        }
    }
}

async fn open(kept: &StoreArgs, may_be_made: bool) -> Result<Keys, Failure> {
    Keys::open(kept.database(may_be_made).await?).await.map_err(|error| failure(&error))
}

fn failure(error: &toolcrib_store::Error) -> Failure {
    let failure = Failure::new(error.code(), error.to_string());
    // The only constraint that can fail is a name that is taken.
    if error.code() == codes::store::DATABASE { failure.hint("the name was used before; choose another") } else { failure }
}

fn state(record: &KeyRecord, now: UnixTime) -> &'static str {
    match record {
        KeyRecord { revoked_at: Some(_), .. } => "revoked",
        record if record.is_good(now) => "good",
        _ => "expired",
    }
}

fn data(record: &KeyRecord, now: UnixTime) -> Value {
    json!({
        "name": record.name,
        "state": state(record, now),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "reads": record.reads,
        "writes": record.writes,
        "admin": record.admin,
    })
}
