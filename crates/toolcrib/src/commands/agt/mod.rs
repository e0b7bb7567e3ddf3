//! `agt`: agent manifests under .agt names, from the first draft to the verdict of a resolver.

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
    /// Write the draft of a manifest, from options or from answers to questions
    #[command(
        after_help = "Without options that describe the agent, a terminal is asked; otherwise the draft has what the options say.\n\n\
        Examples:\n  \
        toolcrib agt new rain.agt --owner 0x… --protocol mcp=https://rain.example.org/mcp --capability forecasting\n  \
        toolcrib agt new rain.agt --owner 0x… --price 0.01:USDC:per_request:polygon --out -"
    )]
    New(draft::New),
    /// Check manifests and TXT records against every rule, as `toolcrib lint` does
    #[command(after_help = "Examples:\n  toolcrib agt lint rain.agt.json\n  toolcrib agt lint records.txt")]
    Lint(Lint),
    /// Sign a manifest and print it with its signature
    #[command(
        after_help = "What is signed is the canonical form (RFC 8785) without the signature, by personal_sign (EIP-191).\n\
        It is shown on stderr first, with its digest and the account.\n\n\
        Examples:\n  \
        toolcrib agt sign rain.agt.json --wallet main > signed.json"
    )]
    Sign(sign::Sign),
    /// Print the CID of a signed manifest and its TXT record, and write an archive
    #[command(after_help = "Examples:\n  toolcrib agt pack signed.json --car signed.car")]
    Pack(pack::Pack),
    /// Pin a signed manifest and point the name at it
    #[command(after_help = "What will be done is shown first, and asked unless --yes. The owner must hold the name onchain.\n\n\
        Examples:\n  \
        toolcrib agt publish signed.json --dry-run\n  \
        toolcrib agt publish signed.json --pin kubo:http://127.0.0.1:5001\n  \
        toolcrib agt publish signed.json --pin service:https://pins.example.com/psa --txt update:192.0.2.1:53 --zone rain.agt")]
    Publish(Box<publish::Publish>),
    /// Resolve a name: TXT records, the manifest, its signature and the holder onchain
    #[command(after_help = "The exit code is 0 for a verified manifest, 1 for everything else, 2 when it could not be told.\n\
        Answers of sources, gateways and nodes are checked; what did not answer is no verdict.\n\n\
        Examples:\n  \
        toolcrib agt resolve rain.agt\n  \
        toolcrib agt resolve rain.agt --source dns:udp://192.0.2.1 --source fns --gateway https://ipfs.example.com --save evidence.json\n  \
        toolcrib agt resolve --evidence evidence.json")]
    Resolve(Box<resolve::Resolve>),
    /// Check the rules and the signature of a file, or resolve and verify a name
    #[command(after_help = "Examples:\n  \
        toolcrib agt verify signed.json\n  \
        toolcrib agt verify signed.json --onchain\n  \
        toolcrib agt verify rain.agt")]
    Verify(Box<verify::Verify>),
    /// Draft a manifest from the legacy TXT records of a name
    #[command(after_help = "Examples:\n  \
        toolcrib agt migrate rain.agt > draft.json\n  \
        toolcrib agt migrate rain.agt --source file:records.txt --offline")]
    Migrate(Box<migrate::Migrate>),
    /// Write a manifest in the format of another system
    #[command(after_help = "Examples:\n  \
        toolcrib agt export signed.json --to a2a --a2a-endpoint rpc\n  \
        toolcrib agt export signed.json --to mcp-registry --namespace io.github.you --version 1.0.0")]
    Export(Box<bridge::Export>),
    /// Draft a manifest from an A2A Agent Card or an ERC-8004 registration file
    #[command(after_help = "Examples:\n  toolcrib agt import agent-card.json --domain rain.agt --owner 0x… > draft.json")]
    Import(bridge::Import),
    /// Compare an agent with the ERC-8257 tools at its endpoints: both verdicts, and whether one account owns both
    #[command(
        after_help = "The exit code is 0 if there are such tools, and the owner of the agent registered all of them, and everything is verified.\n\n\
        Examples:\n  \
        toolcrib agt resolve rain.agt --save evidence.json && toolcrib agt tools evidence.json --network base\n  \
        toolcrib agt tools signed.json --tool eip155:8453/erc8257:0x…/42"
    )]
    Tools(Box<tools::Tools>),
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
