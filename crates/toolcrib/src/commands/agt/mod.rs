//! `agt`: agent manifests under .agt names, from the first draft to the verdict of a resolver.

mod draft;
mod sign;
mod verify_file;
mod vocab;

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;

use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with an agent or its manifest.
#[derive(Debug, Subcommand)]
pub(crate) enum AgtCommand {
    /// Write the draft of a manifest, from options or from answers to questions
    #[command(
        after_help = "Without options that describe the agent, a terminal is asked; otherwise the draft has what the options say.\n\n\
        Examples:\n  \
        toolcrib agt new rain.agt --owner 0x… --protocol mcp=https://rain.example.org/mcp --capability forecasting\n  \
        toolcrib agt new rain.agt --owner 0x… --price 0.01:USDC:per_request:polygon --out -"
    )]
    New(draft::New),
    /// Sign a manifest and print it with its signature
    #[command(
        after_help = "What is signed is the canonical form (RFC 8785) without the signature, by personal_sign (EIP-191).\n\n\
        Examples:\n  \
        toolcrib agt sign rain.agt.json --wallet main > signed.json"
    )]
    Sign(sign::Sign),
    /// Check the rules and the signature of a file
    Verify(verify_file::Verify),
    /// Print the id of a name in the FNS registry
    #[command(after_help = "Examples:\n  toolcrib agt token-id exampleagent.agt")]
    TokenId(TokenId),
    /// List known capabilities, protocols, units and authentication hints
    #[command(after_help = "Examples:\n  toolcrib agt vocab\n  toolcrib agt vocab translate")]
    Vocab(vocab::Vocab),
}

/// Arguments of `agt token-id`.
#[derive(Args, Debug)]
pub(crate) struct TokenId {
    /// The .agt name; Unicode names are written in their ASCII form
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Runs the command.
pub(crate) async fn run(command: &AgtCommand, printer: &mut Printer) -> Result<Done, Stop> {
    match command {
        AgtCommand::New(arguments) => draft::run(arguments, printer),
        AgtCommand::Sign(arguments) => sign::run(arguments, printer).await,
        AgtCommand::Verify(arguments) => verify_file::run(arguments, printer),
        AgtCommand::TokenId(arguments) => token_id(arguments, printer),
        AgtCommand::Vocab(arguments) => vocab::run(arguments, printer),
    }
}

/// The name that a person typed.
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
