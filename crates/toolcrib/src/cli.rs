//! The command line as clap sees it. Help, completions, the man page and `docs/cli.md` all come from here.

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
#[command(
    name = "toolcrib",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 yes, 1 no (a rule is broken, nothing has that name), 2 could not tell (usage, files),\n\
                  3 rate limited by a directory: ask again later.\n\
                  The result goes to stdout, everything else to stderr."
)]
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
    /// Print one JSON object: `schema_version`, `success`, `data`, `errors`, `warnings`
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to colour [setting: `color`]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<Color>,
    /// Print no notes on stderr; the result and errors stay
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more notes on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check manifests against every rule and show what to mend
    #[command(after_help = "Examples:\n  \
        toolcrib lint                       every manifest below this folder\n  \
        toolcrib lint my-tool.json --fix    mend what can be mended safely\n  \
        curl -s https://tools.example.com/.well-known/ai-tool/x.json | toolcrib lint - --as consumer\n  \
        toolcrib lint --format github       annotations for a pull request")]
    Lint(Lint),
    /// Check manifests and print one line for each
    Validate(Validate),
    /// Print the keccak256 of the canonical form (RFC 8785) of a document
    #[command(after_help = "A document with findings has a hash as well, as long as it is I-JSON; \
        what would keep it from verifying is listed on stderr.")]
    Hash(Documents),
    /// Print the canonical form (RFC 8785) of a document, without a newline at the end
    #[command(after_help = "An agent manifest is signed over its canonical form without the signature: \
        `canon --for-signing` prints what to give to personal_sign, `hash --for-signing` the EIP-191 digest.")]
    Canon(Document),
    /// Say what a code means, why the rule exists and what to do
    Explain(Explain),
    /// Print the JSON Schema of a kind of manifest, for editors
    Schema(Schema),
    /// Write a starting file
    #[command(after_help = "Examples:\n  \
        toolcrib new tool rain-radar --address 0x52908400098527886e0f7030069857d2e4169ee7\n  \
        toolcrib new agent rain.agt --out rain.agt.json\n  \
        toolcrib new local weather          writes weather/manifest.json")]
    New(New),
    /// Start a tool: a manifest, as `new tool` writes it, or a whole project that serves it
    #[command(after_help = "Examples:\n  \
        toolcrib init rain-radar                          writes rain-radar.json\n  \
        toolcrib init weather --price 0.01                a project in weather/, paid in the test USDC of the local chain\n  \
        toolcrib init weather --gate nft:0x… --network base --address 0x… --origin https://tools.example.com")]
    Init(Box<init::InitTool>),
    /// Draft a signed agent manifest from the legacy TXT records of a name
    #[command(after_help = "The draft goes to stdout; the changes to make to the TXT records afterwards go to stderr.\n\
        Nothing is sent anywhere.")]
    Migrate(Migrate),
    /// Check a manifest, register it or commit what changed, and verify the tool
    #[command(after_help = "One command for every version. The file is linted, and what the URL serves must be the same;\n\
        then the tool is registered, or updated if it is registered, or left alone if nothing changed;\n\
        at last it is verified as a stranger would. The exit code is 0 only for a tool that verifies.\n\
        Interrupted at any point, the same command goes on: there is never a second registration.\n\
        The gate of a tool that is registered is left as it is.\n\n\
        Examples:\n  \
        toolcrib publish tide-table.json --network base --wallet main \\\n      \
        --metadata https://tools.example.com/.well-known/ai-tool/tide-table.json --wait 120")]
    Publish(Box<publish::Publish>),
    /// Register a tool, and configure who may use it
    #[command(after_help = "The URL must serve the manifest already: what it serves is looked at before gas is spent.\n\
        A gated tool lets nobody in until its gate is configured; the same command goes on where it stopped.")]
    Register(Box<write::Register>),
    /// Commit a changed manifest of a registered tool
    #[command(after_help = "The URL must serve the changed manifest already: what it serves is looked at before gas is spent.")]
    Update(write::Update),
    /// Change who decides about access to a tool
    SetPredicate(write::SetPredicate),
    /// Put a tool behind a gate, or show how its gate is set
    #[command(subcommand)]
    Predicate(PredicateCommand),
    /// Close a tool to everybody for a while
    Pause(pause::Pause),
    /// Give a paused tool its former predicate back
    Resume(write::Change),
    /// Remove a tool for good
    Deregister(write::Change),
    /// Show what a registry has about a tool
    Inspect(look::Tool),
    /// Ask whether an account may use a tool
    Access(look::AccessOf),
    /// List what a tool's predicate asks for
    Requirements(look::Tool),
    /// Check that a tool is what its creator committed to
    #[command(
        after_help = "Four checks, as ERC-8257 asks: the manifest is served; URL and endpoint share their origin; the hash is\n\
        the committed one; its creator registered it. The exit code is 0 for yes, 1 for no, 2 when it could not be told.\n\
        A URL alone names no registration, so nothing is verified then; what can be checked without a chain is.\n\n\
        Examples:\n  \
        toolcrib verify eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7\n  \
        toolcrib verify 7 --network base --save evidence.json\n  \
        toolcrib verify --evidence evidence.json\n  \
        toolcrib verify --all 0x52908400098527886e0f7030069857d2e4169ee7 --network base"
    )]
    Verify(Box<verify::Verify>),
    /// Say why what is served does not have the committed hash, and how to mend it
    #[command(
        after_help = "Tries every known mistake, and the versions at hand. A cause is named only if it gives exactly the committed hash.\n\
        The exit code is 0 when the cause is named or the hashes agree, 1 when nothing fits, 2 when it could not be told.\n\n\
        Examples:\n  \
        toolcrib explain-hash 7 --network base --git tools/tide-table.json\n  \
        toolcrib explain-hash --evidence now.json --earlier before.json\n  \
        toolcrib explain-hash --served page.json --expected 0x6e7e1ae7d914c7ab283dfb2bc0bc8df7944d8b4a9919ee8eb3ca4e7bec17c988"
    )]
    ExplainHash(Box<explain_hash::ExplainHash>),
    /// Compare what is committed, what is served and what is on this machine
    #[command(after_help = "The exit code is 0 when all are the same, 1 when they differ, 2 when it could not be told.\n\n\
        Examples:\n  \
        toolcrib diff 7 --network base\n  \
        toolcrib diff 7 --network base --manifest tools/tide-table.json")]
    Diff(diff::Compare),
    /// Tell when a tool changes
    #[command(
        after_help = "Looks at every tool each interval, and at once when the chain announces a change of it or an upgrade of its gate.\n\
        Hints, such as a renewed certificate, are told but are no drift. An outage of our own network is none either.\n\
        With --once the exit code is 0 when every tool is verified and as it was, 1 when one changed or is not verified,\n\
        2 when it could not be told. Without it, Ctrl-C ends the watch; the exit code is then 1 if there was drift.\n\
        With --json each event is a line of JSON, and the last line is the envelope; with --once there is only the envelope.\n\n\
        Examples:\n  \
        toolcrib watch 7 8 --network base\n  \
        toolcrib watch 7 --network base --once --state tools.watch.json      in CI, with the state in the repository\n  \
        toolcrib watch 7 --network base --once --pin 0x6e7e1ae7d914c7ab283dfb2bc0bc8df7944d8b4a9919ee8eb3ca4e7bec17c988\n  \
        toolcrib watch 7 --network base --webhook https://alerts.example.com/toolcrib"
    )]
    Watch(Box<watch::Watch>),
    /// Call a tool's endpoint without paying, and compare what it asks for with its manifest
    #[command(
        after_help = "Sends an empty object by POST, and a GET if there is nothing for POST. Nothing is paid or signed, redirects are not\n\
        followed, and only the endpoint of a tool that verifies is called, unless you give a URL.\n\
        The exit code is 0 when all is well, 1 when not, 2 when it could not be told.\n\n\
        Examples:\n  \
        toolcrib probe 7 --network base\n  \
        toolcrib probe https://tools.example.com/tide-table"
    )]
    Probe(probe::ProbeEndpoint),
    /// Put a gate before a tool written in any language: manifests, and a server or a program that does the work
    #[command(
        after_help = "The manifest is served where verifiers look for it. A call is checked (payment, predicate, input) and only then handed on:\n\
        by POST to the upstream, or to the stdin of a program that is started for it without a shell. A status of success with JSON\n\
        is the output; 4xx with a message refuses the call; everything else is a fault, which callers are not told about.\n\
        The upstream learns who calls from X-Tool-Caller, X-Tool-Slug and X-Tool-Reference.\n\n\
        Examples:\n  \
        toolcrib serve tide-table.json --upstream http://127.0.0.1:3000/tides\n  \
        toolcrib serve tide-table.json --command python3 --arg tides.py --tool 7 --network base\n  \
        toolcrib serve tide-table.json --upstream http://127.0.0.1:3000/ --facilitator https://x402.org/facilitator\n    \
        --rpc-url https://mainnet.base.org"
    )]
    Serve(Box<serve::Serve>),
    /// Say what a gate would answer, without serving anything
    #[command(
        after_help = "Shows the challenge in both versions of x402 and, for an account, what the tool's predicate says about it.\n\
        The exit code is 0 when the account would be let in, 1 when not, 2 when it could not be told.\n\n\
        Example:\n  \
        toolcrib dry-run-gate tide-table.json --tool 7 --network base --account 0x52908400098527886e0f7030069857d2e4169ee7"
    )]
    DryRunGate(Box<dry_run::DryRun>),
    /// Verify a tool, pay what its manifest states, and print what it says
    #[command(
        after_help = "The tool is verified now, the input is checked against its schema, and only what its manifest states is paid: anything\n\
        else, also less, needs --agree with exactly the terms. Limits are in the user's settings, section [spend]; `budget` shows them.\n\
        The exit code is 0 for a result, 1 for a refusal, 2 when it could not be told, as after a payment whose answer was lost.\n\n\
        Examples:\n  \
        toolcrib call 7 --network base --wallet main --input '{\"text\": \"how many words\"}'\n  \
        toolcrib call 7 --network base --wallet main --input @input.json --max-price 0.05\n  \
        toolcrib call 7 --network base --input @input.json --dry-run"
    )]
    Call(Box<call::Call>),
    /// Call any x402 endpoint, and pay what you allow
    #[command(
        after_help = "Nothing vouches for a URL, so nothing is paid unless amount and recipient are named, or exact terms.\n\n\
        Examples:\n  \
        toolcrib pay https://api.example.com/report --max-price 0.05 --to 0x52908400098527886e0f7030069857d2e4169ee7 --wallet main"
    )]
    Pay(Box<pay::Pay>),
    /// Call an x402 endpoint that asks for nothing but who calls
    Auth(Box<pay::Auth>),
    /// Run an MCP server that finds, verifies, calls and pays for tools, and runs local ones, with your approval
    #[command(
        after_help = "Your MCP client starts this command and speaks to it over stdin and stdout. The model may search for tools and verify them;\n\
        every call is put to you first, with price, recipient and arguments, unless --unattended allows it. A client that cannot ask you\n\
        gets no call. Limits on spending are in the user's settings, section [spend].\n\
        With --tools, functions of local tools are listed as well; with --local-only, nothing else is.\n\n\
        Examples:\n  \
        toolcrib mcp --local-only --tools examples/tools\n  \
        toolcrib mcp --directory https://tools.example.com --wallet main\n  \
        toolcrib mcp --directory http://127.0.0.1:8257 --network local --dev-account 1"
    )]
    Mcp(Box<mcp::Mcp>),
    /// List payments, and find out what came of those whose answer was lost
    Payments(payments::Payments),
    /// Show what may be spent, and what is
    Budget(budget::Budget),
    /// Find tools in a directory, or in an index of one's own
    #[command(subcommand)]
    #[command(
        after_help = "The exit code is 0 for an answer, 1 when there is no such tool, 2 when it could not be told, 3 when the directory wants\n\
        no more questions for now.\n\n\
        Examples:\n  \
        toolcrib tools search --query 'tides at a harbour' --directory https://tools.example.com\n  \
        toolcrib tools get 8453 0x265BB2DBFC0A8165C9A1941Eb1372F349baD2cf1 7 --format json\n  \
        toolcrib tools list --type open --store index.db"
    )]
    Tools(ToolsCommand),
    /// Follow registries, verify what is registered on them, and keep an index of it
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Any number of processes on any number of machines may work on one index in PostgreSQL: one of them leads each chain, and\n\
        all of them verify. Killing any of them loses nothing. `directory --with-index` does the same and serves, in one process.\n\n\
        Examples:\n  \
        toolcrib index\n  \
        toolcrib index --network base --rpc-url https://base.example.com\n  \
        toolcrib index --network base --bazaar https://x402.example.com/facilitator\n  \
        TOOLCRIB_INDEX=postgres://toolcrib@db/toolcrib toolcrib index --no-follow --looks 64"
    )]
    Index(Box<Index>),
    /// Issue, list and revoke the keys of a directory
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Serve an index: REST, pages, and MCP for models
    #[command(
        after_help = "One machine: `toolcrib directory --with-index` follows, verifies and serves, with everything in one file. Many machines:\n\
        one PostgreSQL, any number of `directory` behind a load balancer, and any number of `index`. It holds no key of anybody.\n\n\
        Examples:\n  \
        toolcrib directory --with-index\n  \
        toolcrib directory --with-index --network base --listen 0.0.0.0:8257 --host tools.example.com\n  \
        TOOLCRIB_INDEX=postgres://toolcrib@db/toolcrib toolcrib directory --search /var/lib/toolcrib/words"
    )]
    Directory(Box<directory::Serve>),
    /// Start a world of one's own: a chain with our contracts, three tools, a directory of them, and what to try
    #[command(
        after_help = "The tools are open, for holders of an NFT, and paid. They are registered, served with certificates of a local\n\
        authority below localhost, and verify as public ones do. Nothing of this is reachable from outside this machine.\n\
        With --json a line of JSON tells where everything is, and the last line is the envelope."
    )]
    Dev(Dev),
    /// Start a development chain with our contracts on it
    #[command(after_help = "With --json a line of JSON tells where everything is, and the last line is the envelope.")]
    Devchain(ChainArguments),
    /// Our contracts
    #[command(subcommand)]
    Contracts(ContractsCommand),
    /// Keep keys encrypted
    #[command(subcommand)]
    Wallet(WalletCommand),
    /// Write, sign, publish, resolve and verify .agt agent manifests
    #[command(subcommand)]
    Agt(AgtCommand),
    /// List, call, install, export and check tools in folders on this machine
    #[command(subcommand)]
    Local(LocalCommand),
    /// Store credentials of local tools, encrypted
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Allow or deny functions of local tools
    #[command(subcommand)]
    Permit(PermitCommand),
    /// Serve the example tool `http-fetch`
    #[command(hide = true)]
    ToolHttpFetch,
    /// Show every setting, its value and where it comes from
    Config,
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

/// Arguments of `index`.
#[derive(Args, Debug)]
pub(crate) struct Index {
    /// Instead of running: exports, imports and backups
    #[command(subcommand)]
    pub(crate) command: Option<IndexCommand>,
    #[command(flatten)]
    pub(crate) run: index::Run,
}

/// What to do with the gate of a tool.
#[derive(Debug, Subcommand)]
pub(crate) enum PredicateCommand {
    /// Configure a predicate for a tool, then let it decide
    Set(Box<write::SetGate>),
    /// Show how the predicate of a tool is configured
    Show(look::Tool),
}

/// Arguments of `lint`.
#[derive(Args, Debug)]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) what: Checking,
    /// Mend what can be mended without changing the meaning; with `-`, print the mended text
    #[arg(long)]
    pub(crate) fix: bool,
    /// How to print the report [setting: `format`]
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
    /// Files, folders, or `-` for stdin; this folder if none is given
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The kind of manifest, instead of finding it out
    #[arg(long)]
    pub(crate) kind: Option<KindName>,
    /// Check a tool against the URL it will be served and registered under, without fetching anything
    #[arg(long, value_name = "URL")]
    pub(crate) metadata_uri: Option<String>,
    /// Whose rules apply: those of who writes a manifest, or the milder ones of who reads it [setting: `as`]
    #[arg(long = "as", value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// Answer no when there are warnings [setting: `deny_warnings`]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) deny_warnings: Option<bool>,
}

/// Arguments of commands that take documents.
#[derive(Args, Debug)]
pub(crate) struct Documents {
    /// Files, or `-` for stdin; stdin if none is given
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Leave out the top-level `signature` and give the EIP-191 digest that a wallet signs
    #[arg(long)]
    pub(crate) for_signing: bool,
}

/// Arguments of commands that take one document.
#[derive(Args, Debug)]
pub(crate) struct Document {
    /// A file, or `-` for stdin; stdin if none is given
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Leave out the top-level `signature`: the text that a wallet signs
    #[arg(long)]
    pub(crate) for_signing: bool,
}

/// Arguments of `migrate`.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// A file with one TXT record on each line, or `-` for stdin; stdin if none is given
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// The .agt name that the records belong to
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: String,
    /// The wallet that holds the name; the declared owner if none is given
    #[arg(long, value_name = "0x…")]
    pub(crate) owner: Option<String>,
}

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A code, such as json.bom
    #[arg(required_unless_present = "list")]
    pub(crate) code: Option<String>,
    /// List every code
    #[arg(long, conflicts_with = "code")]
    pub(crate) list: bool,
}

/// Arguments of `schema`.
#[derive(Args, Debug)]
pub(crate) struct Schema {
    /// The kind of manifest
    pub(crate) kind: KindName,
}

/// Arguments of `new`.
#[derive(Args, Debug)]
pub(crate) struct New {
    /// The kind of manifest
    pub(crate) kind: KindName,
    #[command(flatten)]
    pub(crate) file: Init,
}

/// Arguments of `new` after the kind, and of `init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// A name: of the tool, of the agent (its .agt domain), or of the local tool (its folder)
    pub(crate) name: Option<String>,
    /// Where to write; `-` prints the file instead
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Your address: the creator of the tool or the owner of the agent
    #[arg(long, value_name = "0x…")]
    pub(crate) address: Option<String>,
    /// Replace a file that is already there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The command to describe; the whole program if none is given
    pub(crate) command: Option<String>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Also in pipes and files
    Always,
    /// Nowhere
    Never,
}

/// How to print a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people: the place in the text, and what to do
    Human,
    /// The same as --json
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands that GitHub shows beside the code
    Github,
}

/// Whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Who writes a manifest
    Producer,
    /// Who reads somebody else's
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
    /// An onchain tool (ERC-8257)
    Tool,
    /// An agent (.agt 1.0)
    Agent,
    /// A local tool: a folder with manifest.json
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

/// The word by which a value is named on the command line and in settings files.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Whether `--json` stands among arguments that could not be parsed.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_seen_before_a_double_dash_only() {
        let seen = |arguments: &[&str]| wants_json(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(seen(&["toolcrib", "lnt", "--json"]));
        assert!(!seen(&["toolcrib", "lint", "--", "--json"]));
        assert!(!seen(&["--json"]), "the program's own name");
    }
}
