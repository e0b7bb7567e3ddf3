//! The command line as clap parses it. Help, completions, the man page and `docs/cli` are generated from it.

pub(crate) mod examples;
pub(crate) mod groups;
pub(crate) mod sdk;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use toolcrib_core::finding::Mode;

use crate::commands::agt::AgtCommand;
use crate::commands::calling::{budget, call, mcp, pay, payments};
use crate::commands::dev::Dev;
use crate::commands::dev::chain::ChainArguments;
use crate::commands::discovery::index::IndexCommand;
use crate::commands::discovery::keys::KeysCommand;
use crate::commands::discovery::tools::ToolsCommand;
use crate::commands::hosting::{directory, index};
use crate::commands::init;
use crate::commands::local::LocalCommand;
use crate::commands::local::permit::PermitCommand;
use crate::commands::local::secret::SecretCommand;
use crate::commands::onchain::contracts::ContractsCommand;
use crate::commands::onchain::wallet::WalletCommand;
use crate::commands::onchain::{look, pause, publish, write};
use crate::commands::serving::{dry_run, serve};
use crate::commands::trust::{diff, explain_hash, probe, verify, watch};
use crate::kinds::ManifestKind;

/// Publish, find, verify, gate, pay for and call agent tools.
#[derive(Debug, Parser)]
#[command(name = "toolcrib", version, max_term_width = 100, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print the result as one JSON object
    ///
    /// Its fields are `schema_version`, `success`, `data`, `errors` and `warnings`.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colors [setting: `color`]
    #[arg(long, global = true, value_name = "WHEN", hide_short_help = true)]
    pub(crate) color: Option<Color>,
    /// Print only the result and errors, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more notes on stderr
    #[arg(short, long, global = true, hide_short_help = true)]
    pub(crate) verbose: bool,
}

/// The commands. [`groups`] says where `toolcrib --help` lists each of them, [`examples`] how each is used.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a tool manifest or a project that serves it
    #[command(after_long_help = "Without project options, `init` writes a manifest like `new tool`.")]
    Init(Box<init::InitTool>),
    /// Create a tool, agent or local tool manifest
    New(New),
    /// Check manifests and report problems
    Lint(Lint),
    /// Check manifests and print one line per file
    Validate(Validate),
    /// Print the keccak256 hash of the canonical form (RFC 8785)
    #[command(after_long_help = "A document with problems is hashed too, as long as it is I-JSON.\n\
        Problems that would fail verification are listed on stderr.")]
    Hash(Documents),
    /// Print the canonical form (RFC 8785), without a final newline
    #[command(after_long_help = "An agent manifest is signed over its canonical form without `signature`:\n\
        `canon --for-signing` prints the text for personal_sign, `hash --for-signing` its EIP-191 digest.")]
    Canon(Document),
    /// Print the JSON Schema of a manifest kind
    Schema(Schema),
    /// Explain a finding or error code, or a hash mismatch
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Explain(Explain),
    /// Lint, register or update, and verify a tool
    #[command(
        after_long_help = "Use the same command for every version of a tool. It lints the file, compares it with what the URL serves,\n\
        registers the tool (or updates it, or leaves it alone if nothing changed), and verifies it as a client would.\n\
        The exit code is 0 only if the tool verifies.\n\
        After an interruption, run the same command again: it continues and never registers twice.\n\
        The predicate of a registered tool does not change; use `predicate set` for that."
    )]
    Publish(Box<publish::Publish>),
    /// Register a tool and configure its predicate
    #[command(after_long_help = "The URL must already serve the manifest: it is fetched and checked before you spend gas.\n\
        A gated tool denies every call until its predicate is configured; run the same command again to continue.")]
    Register(Box<write::Register>),
    /// Commit a changed manifest of a registered tool
    #[command(
        alias = "update-metadata",
        after_long_help = "The URL must already serve the changed manifest: it is fetched and checked before you spend gas."
    )]
    Update(write::Update),
    /// Show the registry entry of a tool
    Inspect(look::Tool),
    /// Set, show and check the access predicate of a tool
    #[command(subcommand)]
    Predicate(PredicateCommand),
    /// Deny all access to a tool until `resume`
    Pause(pause::Pause),
    /// Restore the predicate of a paused tool
    Resume(write::Change),
    /// Remove a tool from the registry permanently
    #[command(after_long_help = "Use this to retire a tool, or after its key was stolen. `pause` can be undone, this cannot.")]
    Deregister(write::Change),
    /// Deploy or list the registry and predicate contracts
    #[command(subcommand)]
    Contracts(ContractsCommand),
    /// Verify that a tool serves what its creator registered
    #[command(
        after_long_help = "Runs the four checks of ERC-8257: the manifest is served; its URL and the endpoint share an origin;\n\
        its hash is the registered one; the registrant is its creator.\n\
        Exit codes: 0 verified, 1 not verified, 2 could not tell.\n\
        A URL alone does not name a registration: only the checks that need no chain run, and the tool is not verified."
    )]
    Verify(Box<verify::Verify>),
    /// Compare the registered, the served and the local manifest
    #[command(after_long_help = "Exit codes: 0 all are equal, 1 they differ, 2 could not tell.")]
    Diff(diff::Compare),
    /// Watch tools and report changes
    #[command(
        after_long_help = "Verifies every tool at each interval, and at once when the chain announces a change of the tool or an upgrade\n\
        of its predicate. Notices such as a renewed certificate are printed but do not count as drift, and neither does\n\
        an outage of your own network.\n\
        Exit codes with --once: 0 all verified and unchanged, 1 changed or not verified, 2 could not tell.\n\
        Without --once, stop with Ctrl-C; the exit code is 1 if there was drift.\n\
        With --json, each event is one line and the last line is the envelope; with --once there is only the envelope."
    )]
    Watch(Box<watch::Watch>),
    /// Send an unpaid call and compare the answer with the manifest
    #[command(
        after_long_help = "Sends an empty object by POST, and a GET if POST is not supported. Nothing is paid or signed, and redirects are\n\
        not followed. Unless you give a URL, only the endpoint of a verified tool is called.\n\
        Exit codes: 0 the endpoint matches, 1 it does not, 2 could not tell."
    )]
    Probe(probe::ProbeEndpoint),
    /// Verify a tool, pay its price and print the result
    #[command(
        after_long_help = "Verifies the tool, checks the input against its schema, and pays only what the manifest states. Any other terms,\n\
        even cheaper ones, need --agree with exactly those terms. Spending limits are in section [spend] of your\n\
        settings file; `toolcrib budget` shows them, `toolcrib help spend-policy` explains them.\n\
        Exit codes: 0 result, 1 refused, 2 could not tell, such as a payment whose answer was lost."
    )]
    Call(Box<call::Call>),
    /// Call any x402 endpoint and pay up to a limit
    #[command(
        after_long_help = "A URL has no manifest to compare with, so you must name the recipient and the highest price, or exact terms."
    )]
    Pay(Box<pay::Pay>),
    /// Call an x402 endpoint that asks only for your identity
    Auth(Box<pay::Auth>),
    /// List payments and recover lost results
    Payments(payments::Payments),
    /// Show spending limits and current usage
    Budget(budget::Budget),
    /// Run an MCP server: find, verify, call and pay for tools
    #[command(
        after_long_help = "Your MCP client starts this command and talks to it over stdin and stdout. The model can search and verify tools;\n\
        every call asks you first, with price, recipient and arguments, unless --unattended allows it. If the client\n\
        cannot ask you, calls are refused. Spending limits are in section [spend] of your settings file.\n\
        With --tools, functions of local tools are listed too; with --local-only, nothing else is."
    )]
    Mcp(Box<mcp::Mcp>),
    /// Put a payment and access gate in front of any HTTP server or program
    #[command(
        after_long_help = "Serves the manifests at their well-known paths. Each call is checked (payment, predicate, input) before it is\n\
        forwarded: by POST to the upstream server, or to the stdin of a program that is started without a shell.\n\
        A success status with JSON is the output, a 4xx with a message refuses the call, and anything else is an error\n\
        whose details callers do not see. The upstream gets X-Tool-Caller, X-Tool-Slug and X-Tool-Reference."
    )]
    Serve(Box<serve::Serve>),
    /// Show what the gate answers, without serving
    #[command(
        alias = "dry-run-predicate-gate",
        after_long_help = "Shows the challenge in both x402 versions and, for an account, what the predicate decides.\n\
        Exit codes: 0 the account has access, 1 it does not, 2 could not tell."
    )]
    DryRunGate(Box<dry_run::DryRun>),
    /// Search and list tools in a directory or a local index
    #[command(subcommand)]
    #[command(after_long_help = "Exit codes: 0 found, 1 no such tool, 2 could not tell, 3 rate limited by the directory.")]
    Tools(ToolsCommand),
    /// Serve an index: REST API, web pages and MCP
    #[command(
        args_conflicts_with_subcommands = true,
        after_long_help = "On one machine, `toolcrib directory --with-index` follows, verifies and serves, with everything in one file.\n\
        On many machines, use one PostgreSQL, several `directory` processes behind a load balancer, and several `index`\n\
        processes. A directory holds no wallet keys."
    )]
    Directory(Box<Directory>),
    /// Follow registries and keep an index of verified tools
    #[command(
        args_conflicts_with_subcommands = true,
        after_long_help = "Several processes on several machines can share one PostgreSQL index: one leader follows each chain, and all of\n\
        them verify. Killing any process loses nothing. `directory --with-index` does the same and serves, in one process."
    )]
    Index(Box<Index>),
    /// Write, sign, publish, resolve and verify .agt agent manifests
    #[command(subcommand)]
    Agt(AgtCommand),
    /// Run, install, export and check tools on this machine
    #[command(subcommand)]
    Local(LocalCommand),
    /// Allow or deny functions of local tools
    #[command(subcommand)]
    Permit(PermitCommand),
    /// Store encrypted credentials of local tools
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Start a local development environment: chain, tools, directory
    #[command(
        after_long_help = "Starts three registered tools: one open, one gated by an NFT, one paid. Their certificates come from a local\n\
        authority for names below localhost, and they verify like public tools. Nothing is reachable from other machines.\n\
        With --json, one line says where everything is, and the last line is the envelope."
    )]
    Dev(Dev),
    /// Run a development chain
    #[command(subcommand)]
    Chain(ChainCommand),
    /// Create, import and list encrypted wallets
    #[command(subcommand)]
    Wallet(WalletCommand),
    /// Show every setting, its value and where it comes from
    Config,
    /// Print a shell completion script
    Completions(Completions),
    /// Print the manual page
    Man(Man),
    /// Show help for a command or a topic
    Help(Help),
    /// Say how to deploy: the reference SDK has a command of this name
    #[command(hide = true)]
    Deploy(Deploy),
    /// Serve the example tool `http-fetch`
    #[command(hide = true)]
    ToolHttpFetch,
}

/// Arguments of `index`.
#[derive(Args, Debug)]
pub(crate) struct Index {
    /// A task on the index, instead of following chains
    #[command(subcommand)]
    pub(crate) command: Option<IndexCommand>,
    #[command(flatten)]
    pub(crate) run: index::Run,
}

/// Arguments of `directory`.
#[derive(Args, Debug)]
pub(crate) struct Directory {
    /// A task on the directory, instead of serving
    #[command(subcommand)]
    pub(crate) command: Option<DirectoryCommand>,
    #[command(flatten)]
    pub(crate) serve: directory::Serve,
}

/// Tasks on a directory.
#[derive(Debug, Subcommand)]
pub(crate) enum DirectoryCommand {
    /// Issue, list and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
}

/// Commands about the access predicate of a tool.
#[derive(Debug, Subcommand)]
pub(crate) enum PredicateCommand {
    /// Configure a predicate and attach it to a tool
    Set(Box<write::SetGate>),
    /// Attach an already configured predicate, or open the tool
    Use(write::SetPredicate),
    /// Show which predicate a tool has and how it is configured
    Show(look::Tool),
    /// Check whether an account has access to a tool
    #[command(after_long_help = "Exit codes: 0 granted, 1 denied or the predicate malfunctions, 2 could not tell.")]
    Check(look::AccessOf),
    /// List the requirements that the predicate declares
    Requirements(look::Tool),
}

/// Development chains.
#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    /// Start a development chain with the registry and predicates deployed
    #[command(after_long_help = "With --json, one line says where everything is, and the last line is the envelope.")]
    Dev(ChainArguments),
}

/// Arguments of `lint`.
#[derive(Args, Debug)]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) what: Checking,
    /// Fix what can be fixed without changing the meaning
    ///
    /// With `-`, the fixed text is printed.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Report format [setting: `format`]
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Format>,
}

/// Arguments of `validate`.
#[derive(Args, Debug)]
pub(crate) struct Validate {
    #[command(flatten)]
    pub(crate) what: Checking,
}

/// What to check and how strictly.
#[derive(Args, Debug)]
pub(crate) struct Checking {
    /// Files, folders, or `-` for stdin [default: this folder]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Manifest kind [default: detect]
    #[arg(long)]
    pub(crate) kind: Option<KindName>,
    /// URL to check the manifest against, without fetching it
    #[arg(long, value_name = "URL")]
    pub(crate) metadata_uri: Option<String>,
    /// Apply producer rules (strict) or consumer rules [setting: `as`]
    #[arg(long = "as", value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// Exit with 1 if there are warnings [setting: `deny_warnings`]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) deny_warnings: Option<bool>,
}

/// Arguments of commands that take documents.
#[derive(Args, Debug)]
pub(crate) struct Documents {
    /// Files, or `-` for stdin [default: stdin]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Omit the top-level `signature` and print the EIP-191 digest to sign
    #[arg(long)]
    pub(crate) for_signing: bool,
}

/// Arguments of commands that take one document.
#[derive(Args, Debug)]
pub(crate) struct Document {
    /// File, or `-` for stdin [default: stdin]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Omit the top-level `signature`: the text that a wallet signs
    #[arg(long)]
    pub(crate) for_signing: bool,
}

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Something else than a code
    #[command(subcommand)]
    pub(crate) command: Option<ExplainCommand>,
    /// Code, such as json.bom
    #[arg(required_unless_present = "list")]
    pub(crate) code: Option<String>,
    /// List all codes
    #[arg(long, conflicts_with = "code")]
    pub(crate) list: bool,
}

/// What `explain` explains besides codes.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Find out why the served manifest does not have the registered hash
    #[command(
        after_long_help = "Tries known mistakes and the versions that you name. A cause is reported only if it reproduces the registered hash.\n\
        Exit codes: 0 cause found or hashes equal, 1 no cause found, 2 could not tell."
    )]
    Hash(Box<explain_hash::ExplainHash>),
}

/// Arguments of `schema`.
#[derive(Args, Debug)]
pub(crate) struct Schema {
    /// Manifest kind
    pub(crate) kind: KindName,
}

/// Arguments of `new`.
#[derive(Args, Debug)]
pub(crate) struct New {
    /// Manifest kind
    pub(crate) kind: KindName,
    #[command(flatten)]
    pub(crate) file: Init,
}

/// Arguments of `new` after the kind, and of `init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Name of the tool or local tool, or .agt name of the agent
    pub(crate) name: Option<String>,
    /// Output path; `-` for stdout
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Your address: creator of the tool, or owner of the agent
    #[arg(long, value_name = "0x…")]
    pub(crate) address: Option<String>,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Command, with its subcommands [default: the whole program]
    pub(crate) command: Vec<String>,
}

/// Arguments of `help`.
#[derive(Args, Debug)]
pub(crate) struct Help {
    /// Command, topic, or `topics` for the list of topics
    #[arg(value_name = "COMMAND|TOPIC")]
    pub(crate) words: Vec<String>,
}

/// Arguments of `deploy`, which are not used.
#[derive(Args, Debug)]
pub(crate) struct Deploy {
    /// Anything
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// In pipes and files too
    Always,
    /// Never
    Never,
}

/// How to print a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Text with source snippets and hints
    Human,
    /// Same as --json
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// GitHub workflow commands: annotations in a pull request
    Github,
}

/// Whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Strict rules, for manifests that you publish
    Producer,
    /// The rules that the standard sets for readers
    Consumer,
}

impl From<Role> for Mode {
    fn from(role: Role) -> Self {
        match role {
            Role::Producer => Self::Producer,
            Role::Consumer => Self::Consumer,
        }
    }
}

/// The kinds of manifest, by the names used on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    /// Onchain tool (ERC-8257)
    Tool,
    /// Agent (.agt 1.0)
    Agent,
    /// Local tool: a folder with manifest.json
    Local,
}

impl From<KindName> for ManifestKind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Tool => Self::Tool,
            KindName::Agent => Self::Agent,
            KindName::Local => Self::Local,
        }
    }
}

/// The name of a value on the command line and in settings files.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Whether `--json` is among arguments that could not be parsed.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_seen_before_a_double_dash_only() {
        let seen = |arguments: &[&str]| wants_json(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(seen(&["toolcrib", "lnt", "--json"]));
        assert!(!seen(&["toolcrib", "lint", "--", "--json"]));
        assert!(!seen(&["--json"]), "the program's own name");
    }
}
