//! `register`, `update`, `set-predicate`, `pause`, `resume` and `deregister`: what changes a registry.
//!
//! Each says what it will do and asks; `--dry-run` and `--calldata` sign nothing. Work of several steps is journalled and
//! goes on where it stopped when the same command is given again.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use alloy_primitives::{Address, B256, U256, utils::format_ether};
use clap::Args;
use serde_json::{Value, json};
use toolcrib_author::journal::{Entry, Journal};
use toolcrib_author::plan::{self, Gate, Step, journal_id};
use toolcrib_author::preflight::{Ready, preflight};
use toolcrib_author::run::{Event, run};
use toolcrib_chain::predicate::MerklePredicate;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::registry::known::known_fault;

use super::look::Tool;
use crate::input::Source;
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing, Writing, failed, state_dir};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Arguments of `register`.
#[derive(Args, Debug)]
pub(crate) struct Register {
    /// The URL under which the manifest is served
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: String,
    /// The manifest file
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: PathBuf,
    #[command(flatten)]
    pub(crate) gate: GateArguments,
    /// Register behind a predicate that has no code yet: nobody gets in until it is deployed
    #[arg(long, requires = "access_predicate")]
    pub(crate) allow_undeployed: bool,
    /// What a registry with a fee or a bond is paid, in wei
    #[arg(long, value_name = "WEI")]
    pub(crate) fee: Option<String>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Who may use a tool. Nothing given means everybody.
#[derive(Args, Clone, Debug)]
#[group(multiple = true)]
pub(crate) struct GateArguments {
    /// Let in owners of a token of this ERC-721 collection; may be given again
    #[arg(long, value_name = "0x…", conflicts_with_all = ["erc20_gate", "erc1155_gate", "subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) nft_gate: Vec<String>,
    /// Let in owners of these tokens of an ERC-1155 collection; may be given again
    #[arg(long, value_name = "0x…:ID,ID", conflicts_with_all = ["erc20_gate", "subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) erc1155_gate: Vec<String>,
    /// Let in holders of this ERC-20 token
    #[arg(long, value_name = "0x…", requires = "min", conflicts_with_all = ["subscription_gate", "allowlist", "access_predicate"])]
    pub(crate) erc20_gate: Option<String>,
    /// The least balance for --erc20-gate, in the token's smallest unit
    #[arg(long, value_name = "N", requires = "erc20_gate")]
    pub(crate) min: Option<String>,
    /// Let in subscribers of this subscription NFT
    #[arg(long, value_name = "0x…", conflicts_with_all = ["allowlist", "access_predicate"])]
    pub(crate) subscription_gate: Option<String>,
    /// The least tier for --subscription-gate
    #[arg(long, value_name = "N", requires = "subscription_gate", default_value_t = 0)]
    pub(crate) min_tier: u8,
    /// Let in owners of a token of this ERC-7496 collection whose trait has a certain value
    #[arg(long, value_name = "0x…", requires = "trait_key", conflicts_with_all = ["all_of", "any_of", "allowlist", "access_predicate"])]
    pub(crate) trait_gate: Option<String>,
    /// The trait for --trait-gate: 32 bytes in hex
    #[arg(long, value_name = "0x…", requires = "trait_value")]
    pub(crate) trait_key: Option<String>,
    /// A value that counts for --trait-gate: 32 bytes in hex; may be given again
    #[arg(long, value_name = "0x…")]
    pub(crate) trait_value: Vec<String>,
    /// Let in whoever all these predicates let in; `!` before one turns its answer round
    #[arg(long, value_name = "[!]0x…", conflicts_with_all = ["any_of", "allowlist", "access_predicate"])]
    pub(crate) all_of: Vec<String>,
    /// Let in whoever one of these predicates lets in; `!` before one turns its answer round
    #[arg(long, value_name = "[!]0x…", conflicts_with_all = ["allowlist", "access_predicate"])]
    pub(crate) any_of: Vec<String>,
    /// Let in the accounts that this file lists, one on each line
    #[arg(long, value_name = "FILE", conflicts_with = "access_predicate")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Let this predicate decide; it is configured elsewhere
    #[arg(long, value_name = "0x…")]
    pub(crate) access_predicate: Option<String>,
}

/// Arguments of `update`.
#[derive(Args, Debug)]
pub(crate) struct Update {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The URL under which the manifest is served; the registered one if none is given
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: Option<String>,
    /// The manifest file
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: PathBuf,
}

/// Arguments of `set-predicate`.
#[derive(Args, Debug)]
pub(crate) struct SetPredicate {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The predicate, or `open` for everybody
    #[arg(value_name = "ADDRESS")]
    pub(crate) predicate: String,
}

/// Arguments of commands that change a registered tool.
#[derive(Args, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) tool: Tool,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Arguments of `pause`.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The predicate that lets nobody in, instead of the built-in one of the network
    #[arg(long, value_name = "0x…")]
    pub(crate) deny_predicate: Option<String>,
}

/// Registers a tool, and configures its gate.
pub(crate) async fn register(arguments: &Register, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let ready = check_manifest(&arguments.manifest, &arguments.metadata, wallet.address(), printer)?;
    let Some(ready) = ready else { return Ok(Done::new(Exit::No, json!({ "tool": null }))) };
    let registry = arguments.onchain.connect(printer).await?;
    let gate = arguments.gate.resolve(&registry)?;
    check_gate(&registry, &gate, printer).await?;
    if let Some(predicate) = gate.predicate()
        && registry.chain().code(predicate).await.map_err(failed)?.is_empty()
    {
        let what = format!("there is no code at the predicate {predicate}, so the tool would let nobody in");
        if !arguments.allow_undeployed {
            return Err(Failure::new(codes::predicate::NO_CODE, what)
                .hint("deploy it first; --allow-undeployed registers all the same")
                .into());
        }
        printer.note(&format!("warning[{}]: {what}; make sure of the salt and the init code", codes::predicate::NO_CODE))?;
    }
    if gate.predicate().is_some() && registry.chain().code(wallet.address()).await.map_err(failed)?.is_empty() {
        printer.note("note: the creator can never be changed; a contract wallet can recover from a lost or stolen key, this account cannot")?;
    }
    let hash = ready.manifest.hash();
    let fee = arguments.fee.as_deref().map(parse_number).transpose()?.unwrap_or_default();
    let steps = plan::register_for(&ready.metadata_uri, hash, &gate, fee);
    let subject = [ready.metadata_uri.as_bytes(), hash.as_slice()].concat();
    let id = journal_id("register", registry.chain().chain_id(), registry.address(), wallet.address(), &subject);
    let work = Work { id, tool: None, steps };
    execute(&registry, wallet.as_ref(), work, &arguments.writing, printer).await
}

/// Changes URI and hash of a tool.
pub(crate) async fn update(arguments: &Update, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let config = registry.config(tool).await.map_err(failed)?;
    let uri = arguments.metadata.as_deref().unwrap_or(&config.metadata_uri);
    let ready = check_manifest(&arguments.manifest, uri, wallet.address(), printer)?;
    let Some(ready) = ready else { return Ok(Done::new(Exit::No, json!({ "tool": null }))) };
    let step = Step::Update { uri: ready.metadata_uri, hash: ready.manifest.hash() };
    change_tool("update", &registry, wallet.as_ref(), tool, vec![step], &change.writing, printer).await
}

/// Changes who decides about access.
pub(crate) async fn set_predicate(arguments: &SetPredicate, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let predicate = if arguments.predicate == "open" { None } else { Some(parse_address(&arguments.predicate)?) };
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    change_tool("predicate", &registry, wallet.as_ref(), tool, vec![Step::SetPredicate(predicate)], &change.writing, printer)
        .await
}

/// Arguments of `predicate set`.
#[derive(Args, Debug)]
pub(crate) struct SetGate {
    #[command(flatten)]
    pub(crate) change: Change,
    #[command(flatten)]
    pub(crate) gate: GateArguments,
}

/// Puts a tool behind another gate: the predicate is told first, and the former one stays until the new one works.
pub(crate) async fn set_gate(arguments: &SetGate, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let gate = arguments.gate.resolve(&registry)?;
    check_gate(&registry, &gate, printer).await?;
    let steps = plan::change_gate(&gate);
    change_tool("gate", &registry, wallet.as_ref(), tool, steps, &change.writing, printer).await
}

/// Refuses a gate that its predicate would refuse after the registration, and says what is known to be wrong with it.
async fn check_gate(registry: &Registry, gate: &Gate, printer: &mut Printer) -> Result<(), Stop> {
    let Some(predicate) = gate.predicate() else { return Ok(()) };
    if let Some(fault) = known_fault(registry.chain().chain_id(), &predicate, None) {
        printer.note(&format!("warning[{}]: {fault}", fault.code()))?;
    }
    Ok(gate.check_on(registry).await.map_err(|error| Failure::new(error.code(), error.to_string()))?)
}

/// Closes a tool to everybody, and remembers who decided before.
pub(crate) async fn pause(arguments: &Pause, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let deny = match &arguments.deny_predicate {
        Some(text) => parse_address(text)?,
        None => registry.chain().network().predicates.deny_all.ok_or_else(|| {
            Failure::new(codes::cli::USAGE, "no predicate that lets nobody in is known on this network")
                .hint("name one with --deny-predicate")
        })?,
    };
    let former = registry.config(tool).await.map_err(failed)?.access_predicate;
    if former == Some(deny) {
        printer.result("already paused\n")?;
        return Ok(Done::new(Exit::Yes, json!({ "tool": registry.reference(tool).to_string(), "paused": true })));
    }
    if !change.writing.dry_run && !change.writing.calldata {
        remember(&change.writing, &registry, tool, former)?;
    }
    change_tool("pause", &registry, wallet.as_ref(), tool, vec![Step::SetPredicate(Some(deny))], &change.writing, printer).await
}

/// Gives a paused tool its former predicate back.
pub(crate) async fn resume(arguments: &Change, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let (registry, tool) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    let Some(former) = recall(&arguments.writing, &registry, tool)? else {
        return Err(Failure::new(
            codes::author::NO_TOOL,
            "this tool was not paused from here, so its former predicate is not known",
        )
        .hint("name it with set-predicate")
        .into());
    };
    change_tool("resume", &registry, wallet.as_ref(), tool, vec![Step::SetPredicate(former)], &arguments.writing, printer).await
}

/// Removes a tool for good.
pub(crate) async fn deregister(arguments: &Change, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let (registry, tool) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    printer.note("a removed tool never comes back, and its id is never used again; `pause` can be undone")?;
    printer.note("this is right for good-byes and for stolen keys; whoever lost the key cannot do it, and registers anew")?;
    change_tool("deregister", &registry, wallet.as_ref(), tool, vec![Step::Deregister], &arguments.writing, printer).await
}

/// What is to be done, and the name that it has in the journal.
struct Work {
    id: String,
    tool: Option<U256>,
    steps: Vec<Step>,
}

async fn change_tool(
    verb: &str,
    registry: &Registry,
    wallet: &dyn Wallet,
    tool: U256,
    steps: Vec<Step>,
    writing: &Writing,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    let config = registry.config(tool).await.map_err(failed)?;
    if config.creator != wallet.address() {
        let what = format!("{} may not change this tool; its creator is {}", wallet.address(), config.creator);
        return Err(Failure::new(codes::author::CREATOR_NOT_SIGNER, what).hint("sign with the creator's wallet").into());
    }
    let subject = [tool.to_be_bytes::<32>().as_slice(), &serde_json::to_vec(&steps).unwrap_or_default()].concat();
    let id = journal_id(verb, registry.chain().chain_id(), registry.address(), wallet.address(), &subject);
    execute(registry, wallet, Work { id, tool: Some(tool), steps }, writing, printer).await
}

async fn execute(
    registry: &Registry,
    wallet: &dyn Wallet,
    work: Work,
    writing: &Writing,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    let network = registry.chain().network().title;
    if writing.calldata {
        let calls = work.steps.iter().map(|step| call_json(step, registry, work.tool)).collect::<Result<Vec<_>, _>>()?;
        let data = json!({ "chain_id": registry.chain().chain_id(), "from": wallet.address(), "calls": calls });
        printer.json_document(&data)?;
        return Ok(Done::new(Exit::Yes, data));
    }
    printer.note(&format!("on {network}, as {}:", wallet.address().to_checksum(None)))?;
    for (index, step) in work.steps.iter().enumerate() {
        printer.note(&format!("  {}. {}", index + 1, shown(&step.described())))?;
    }
    if writing.dry_run {
        let first = work.steps.first().ok_or_else(|| Failure::new(codes::author::NO_TOOL, "nothing to do"))?;
        let call = first.call(registry, work.tool).map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let prepared = registry.chain().prepare(wallet.address(), &call).await;
        let prepared = prepared.map_err(|error| failed(registry.explain_refusal(&call, error)))?;
        let cost = format_ether(prepared.most_cost());
        printer.result(&format!("the first transaction would cost at most {cost}; nothing was signed\n"))?;
        return Ok(Done::new(Exit::Yes, json!({ "dry_run": true, "most_cost_wei": prepared.most_cost().to_string() })));
    }
    let journal = Journal::new(journal_folder(writing)?);
    let loaded = journal.load(&work.id).map_err(|error| Failure::new(codes::author::JOURNAL, error.to_string()))?;
    let mut entry = match loaded {
        Some(entry) if !entry.is_done() => {
            printer.note("going on where this stopped before")?;
            entry
        }
        _ if writing.resume => {
            return Err(Failure::new(codes::author::NOTHING_TO_RESUME, "no such work was begun and left unfinished").into());
        }
        _ => Entry::new(work.id, registry.chain().chain_id(), registry.address(), wallet.address(), work.tool, work.steps),
    };
    let mut asked = writing.yes;
    let mut is_waiting = false;
    let outcome = run(registry, wallet, &journal, &mut entry, |event| {
        // Notes that cannot be written must not stop what has begun.
        let mut say = |text: String| drop(printer.note(&text));
        match event {
            Event::AboutToSign { prepared, .. } => {
                if !asked {
                    asked = confirm(&format!("sign and pay at most {} for gas?", format_ether(prepared.most_cost())));
                }
                return asked;
            }
            Event::Sent { index, signed } => say(format!("sent {}: {}", index + 1, signed.hash)),
            Event::Waiting { block } if !is_waiting => {
                is_waiting = true;
                say(format!("waiting for a block after {block}; interrupted, the same command goes on here"));
            }
            Event::Waiting { .. } => {}
            Event::Done { index, block } => {
                is_waiting = false;
                say(format!("done {}: in block {block}", index + 1));
            }
        }
        true
    })
    .await;
    match outcome {
        Ok(tool) => {
            let reference = registry.reference(tool).to_string();
            printer.result(&format!("{reference}\n"))?;
            Ok(Done::new(Exit::Yes, json!({ "tool": reference, "id": tool.to_string() })))
        }
        Err(error) => {
            let failure = Failure::new(error.code(), error.to_string());
            Err(
                match entry.tool.is_some()
                    || entry.steps.iter().any(|step| step.state != toolcrib_author::journal::State::Waiting)
                {
                    true => {
                        failure.hint(format!("{}; the same command goes on where this stopped", error.code().info().hint)).into()
                    }
                    false => failure.into(),
                },
            )
        }
    }
}

fn check_manifest(path: &std::path::Path, uri: &str, signer: Address, printer: &mut Printer) -> Result<Option<Ready>, Stop> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let lines = Lines::new(&bytes);
    let say = |findings: &[Finding], printer: &mut Printer| -> Result<(), Stop> {
        for finding in findings.iter().filter(|finding| finding.severity != Severity::Hint) {
            printer.complaint(&human::short(finding, &source.name(), &lines, printer.paint_err()))?;
        }
        Ok(())
    };
    match preflight(&bytes, uri, signer) {
        Ok(ready) => {
            say(&ready.remarks, printer)?;
            Ok(Some(ready))
        }
        Err(findings) => {
            say(&findings, printer)?;
            printer.note("nothing was signed")?;
            Ok(None)
        }
    }
}

impl GateArguments {
    /// The gate that was meant, with the predicates of the network.
    fn resolve(&self, registry: &Registry) -> Result<Gate, Failure> {
        let predicates = &registry.chain().network().predicates;
        let known = |predicate: Option<Address>, what: &str| {
            predicate.ok_or_else(|| {
                Failure::new(codes::cli::USAGE, format!("no {what} predicate is known on this network"))
                    .hint("deploy one and name it with --access-predicate")
            })
        };
        if !self.nft_gate.is_empty() {
            let collections = self.nft_gate.iter().map(|text| parse_address(text)).collect::<Result<_, _>>()?;
            return Ok(Gate::Erc721 { predicate: known(predicates.erc721, "ERC-721")?, collections });
        }
        if !self.erc1155_gate.is_empty() {
            let tokens = self.erc1155_gate.iter().map(|text| parse_tokens(text)).collect::<Result<_, _>>()?;
            return Ok(Gate::Erc1155 { predicate: known(predicates.erc1155, "ERC-1155")?, tokens });
        }
        if let (Some(token), Some(min)) = (&self.erc20_gate, &self.min) {
            let min_balance = parse_number(min)?;
            return Ok(Gate::Erc20 { predicate: known(predicates.erc20, "ERC-20")?, token: parse_address(token)?, min_balance });
        }
        if let Some(collection) = &self.subscription_gate {
            return Ok(Gate::Subscription {
                predicate: known(predicates.subscription, "subscription")?,
                collection: parse_address(collection)?,
                min_tier: self.min_tier,
            });
        }
        if let (Some(collection), Some(key)) = (&self.trait_gate, &self.trait_key) {
            let collection = parse_address(collection)?;
            return Ok(Gate::Trait {
                predicate: known(predicates.traits, "trait")?,
                collection,
                traits: collection,
                key: parse_word(key)?,
                values: self.trait_value.iter().map(|value| parse_word(value)).collect::<Result<_, _>>()?,
            });
        }
        let terms = if self.all_of.is_empty() { &self.any_of } else { &self.all_of };
        if !terms.is_empty() {
            let term = |text: &String| match text.strip_prefix('!') {
                Some(negated) => Ok((parse_address(negated)?, true)),
                None => Ok((parse_address(text)?, false)),
            };
            return Ok(Gate::Composite {
                predicate: known(predicates.composite, "composite")?,
                all: !self.all_of.is_empty(),
                terms: terms.iter().map(term).collect::<Result<_, Failure>>()?,
            });
        }
        if let Some(path) = &self.allowlist {
            let root = MerklePredicate::root_of(&read_accounts(path)?)
                .ok_or_else(|| Failure::new(codes::cli::USAGE, "the list names no account"))?;
            return Ok(Gate::Merkle { predicate: known(predicates.merkle, "allowlist")?, root });
        }
        Ok(match &self.access_predicate {
            Some(text) => Gate::Predicate(parse_address(text)?),
            None => Gate::Open,
        })
    }
}

fn parse_tokens(text: &str) -> Result<(Address, Vec<U256>), Failure> {
    let (collection, ids) = text.split_once(':').ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{text}` names no tokens"))
            .hint("write the collection, a colon, and ids with commas")
    })?;
    Ok((parse_address(collection)?, ids.split(',').map(parse_number).collect::<Result<_, _>>()?))
}

fn parse_word(text: &str) -> Result<B256, Failure> {
    text.parse().map_err(|_| Failure::new(codes::cli::USAGE, format!("`{text}` is not 32 bytes in hex")))
}

fn parse_number(text: &str) -> Result<U256, Failure> {
    U256::from_str_radix(text, 10).map_err(|_| Failure::new(codes::cli::USAGE, format!("`{text}` is no whole number")))
}

/// Accounts from a file, one on each line; empty lines and those with a # are passed over.
fn read_accounts(path: &std::path::Path) -> Result<Vec<Address>, Failure> {
    let source = Source::from_argument(path);
    let bytes = source.read()?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::new(codes::cli::UNREADABLE, format!("{} is no UTF-8 text", source.name())))?;
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse_address).collect()
}

fn call_json(step: &Step, registry: &Registry, tool: Option<U256>) -> Result<Value, Failure> {
    match step.call(registry, tool) {
        Ok(call) => Ok(json!({ "what": step.described(), "to": call.to, "value": call.value.to_string(), "data": call.data })),
        // What configures a tool that has no id yet can be encoded only afterwards.
        Err(toolcrib_author::Error::NoTool) => Ok(json!({ "what": step.described(), "after": "the tool has its id" })),
        Err(error) => Err(Failure::new(error.code(), error.to_string())),
    }
}

/// Asks at the terminal. No terminal is a no.
fn confirm(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stderr().flush());
    asked.is_ok() && io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn journal_folder(writing: &Writing) -> Result<PathBuf, Failure> {
    Ok(match &writing.state_dir {
        Some(folder) => folder.join("journal"),
        None => state_dir()?.join("journal"),
    })
}

/// The file that remembers the former predicate of a paused tool.
fn paused_file(writing: &Writing, registry: &Registry, tool: U256) -> Result<PathBuf, Failure> {
    let folder = journal_folder(writing)?.with_file_name("paused");
    Ok(folder.join(format!("{}-{:x}-{tool}.json", registry.chain().chain_id(), registry.address())))
}

fn remember(writing: &Writing, registry: &Registry, tool: U256, former: Option<Address>) -> Result<(), Failure> {
    let path = paused_file(writing, registry, tool)?;
    let failure = |error: io::Error| Failure::new(codes::author::JOURNAL, format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failure)?;
    }
    // Whole or not at all: half of it would be taken for another predicate.
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, json!({ "former": former }).to_string()).map_err(failure)?;
    std::fs::rename(&temporary, &path).map_err(failure)
}

fn recall(writing: &Writing, registry: &Registry, tool: U256) -> Result<Option<Option<Address>>, Failure> {
    let path = paused_file(writing, registry, tool)?;
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(codes::author::JOURNAL, format!("cannot read {}: {error}", path.display()))),
        Ok(bytes) => match former(&bytes) {
            Some(former) => Ok(Some(former)),
            None => Err(Failure::new(codes::author::JOURNAL, format!("{} is damaged", path.display()))
                .hint("name the former predicate with set-predicate")),
        },
    }
}

/// What a remembering file says. Anything but a clear answer is none: a damaged file must not open a tool to everybody.
fn former(bytes: &[u8]) -> Option<Option<Address>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    match value.get("former")? {
        Value::Null => Some(None),
        Value::String(text) => text.parse().ok().map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_memory_opens_nothing() {
        let address = Address::repeat_byte(7);
        assert_eq!(former(json!({ "former": address }).to_string().as_bytes()), Some(Some(address)));
        assert_eq!(former(br#"{"former":null}"#), Some(None), "the tool was open before");
        for damaged in [&b""[..], b"{", b"{}", br#"{"former":"0x12"}"#, br#"{"former":7}"#, b"null"] {
            assert_eq!(former(damaged), None, "{}", String::from_utf8_lossy(damaged));
        }
    }
}
