//! `agt`: agent manifests under .agt names, from draft to verification.

mod bridge;
mod draft;
mod migrate;
mod pack;
mod publish;
mod resolve;
pub(crate) mod resolver;
mod sign;
mod tools;
mod verify;
mod vocab;

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;

use crate::cli::Lint;
use crate::commands::lint;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;
use crate::settings::Settings;

/// What to do with an agent or its manifest.
#[derive(Debug, Subcommand)]
pub(crate) enum AgtCommand {
    /// Draft an agent manifest from options or a questionnaire
    #[command(
        after_long_help = "Without options that describe the agent, you are asked on a terminal; otherwise the draft has only what you gave."
    )]
    New(draft::New),
    /// Check manifests and TXT records, like `toolcrib lint`
    Lint(Lint),
    /// Sign a manifest and print it with its signature
    #[command(after_long_help = "Signs the canonical form (RFC 8785) without `signature`, by personal_sign (EIP-191).\n\
        Text, digest and account are shown on stderr first.")]
    Sign(sign::Sign),
    /// Print the CID and TXT record of a signed manifest
    Pack(pack::Pack),
    /// Pin a signed manifest to IPFS and update the TXT record
    #[command(
        after_long_help = "Shows what it will do and asks for confirmation, unless --yes. The owner must hold the name onchain."
    )]
    Publish(Box<publish::Publish>),
    /// Resolve and verify a name: TXT records, manifest, signature, holder
    #[command(after_long_help = "Exit codes: 0 verified, 1 not verified, 2 could not tell.\n\
        Answers of sources, gateways and nodes are checked; a source that does not answer is not evidence against a name.")]
    Resolve(Box<resolve::Resolve>),
    /// Verify the rules and signature of a file, or resolve a name
    Verify(Box<verify::Verify>),
    /// Draft a manifest from legacy TXT records
    Migrate(Box<migrate::Migrate>),
    /// Convert a manifest to another format
    Export(Box<bridge::Export>),
    /// Draft a manifest from an A2A Agent Card or ERC-8004 registration
    Import(bridge::Import),
    /// Compare an agent with the ERC-8257 tools at its endpoints
    #[command(
        after_long_help = "Exit code 0: there are tools, all are verified, and the verified owner of the agent registered all of them."
    )]
    Tools(Box<tools::Tools>),
    /// Print the FNS token id of a name
    TokenId(TokenId),
    /// List known capabilities, protocols, units and authentication hints
    Vocab(vocab::Vocab),
}

/// Arguments of `agt token-id`.
#[derive(Args, Debug)]
pub(crate) struct TokenId {
    /// .agt name; Unicode names are converted to ASCII (IDNA)
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Runs the command.
pub(crate) async fn run(command: &AgtCommand, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        AgtCommand::Lint(arguments) => lint::run(arguments, settings, printer),
        AgtCommand::New(arguments) => draft::run(arguments, printer),
        AgtCommand::Sign(arguments) => sign::run(arguments, printer).await,
        AgtCommand::Pack(arguments) => pack::run(arguments, printer),
        AgtCommand::Publish(arguments) => publish::run(arguments, printer).await,
        AgtCommand::Resolve(arguments) => resolve::run(arguments, printer).await,
        AgtCommand::Verify(arguments) => verify::run(arguments, printer).await,
        AgtCommand::Migrate(arguments) => migrate::run(arguments, printer).await,
        AgtCommand::Export(arguments) => bridge::run_export(arguments, printer),
        AgtCommand::Import(arguments) => bridge::run_import(arguments, printer),
        AgtCommand::Tools(arguments) => tools::run(arguments, printer).await,
        AgtCommand::TokenId(arguments) => token_id(arguments, printer),
        AgtCommand::Vocab(arguments) => vocab::run(arguments, printer),
    }
}

/// Parses a name that the user typed.
fn parse_name(text: &str) -> Result<AgtDomain, Failure> {
    AgtDomain::from_input(text).map_err(|error| Failure::new(codes::cli::USAGE, format!("`{text}` is not an .agt name: {error}")))
}

fn token_id(arguments: &TokenId, printer: &mut Printer) -> Result<Done, Stop> {
    let domain = parse_name(&arguments.name)?;
    let id = domain.token_id();
    printer.result(&format!("{id}\n"))?;
    printer.note(&format!("{domain} is {id:#066x} in hexadecimal"))?;
    Ok(Done::new(Exit::Yes, json!({ "domain": domain.as_str(), "token_id": id.to_string(), "hex": format!("{id:#066x}") })))
}
