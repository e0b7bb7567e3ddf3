//! `register`, `update`, `set-predicate`, `pause`, `resume` and `deregister`: what changes a registry.
//!
//! Each says what it will do and asks; `--dry-run` and `--calldata` sign nothing. Work of several steps is journalled and
//! goes on where it stopped when the same command is given again.

use std::io;
use std::path::PathBuf;

use alloy_primitives::{Address, U256};
use clap::Args;
use serde_json::{Value, json};
use toolcrib_author::plan::{self, Step, journal_id};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;

use super::gate::{self, GateArguments};
use super::look::Tool;
use super::serving::{Commitment, Manifest};
use super::work::{Work, execute, journal_folder};
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing, Writing, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `register`.
#[derive(Args, Debug)]
pub(crate) struct Register {
    /// The URL under which the manifest is served
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: String,
    #[command(flatten)]
    pub(crate) manifest: Manifest,
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

/// Arguments of `update`.
#[derive(Args, Debug)]
pub(crate) struct Update {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The URL under which the manifest is served; the registered one if none is given
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: Option<String>,
    #[command(flatten)]
    pub(crate) manifest: Manifest,
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
    let signer = wallet.address();
    let file = match arguments.manifest.check_file(&arguments.metadata, signer, printer)? {
        Ok(file) => file,
        Err(done) => return Ok(done),
    };
    let registry = arguments.onchain.connect(printer).await?;
    let about = Commitment { registry: &registry, uri: &arguments.metadata, signer, committed: None };
    let ready = match arguments.manifest.resolve(file, &about, printer).await? {
        Ok(ready) => ready,
        Err(done) => return Ok(done),
    };
    let gate = arguments.gate.resolve(&registry)?;
    gate::check(&gate, &registry, wallet.as_ref(), arguments.allow_undeployed, printer).await?;
    let hash = ready.manifest.hash();
    let fee = arguments.fee.as_deref().map(gate::parse_number).transpose()?.unwrap_or_default();
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
    let signer = wallet.address();
    let file = match arguments.manifest.check_file(uri, signer, printer)? {
        Ok(file) => file,
        Err(done) => return Ok(done),
    };
    let about = Commitment { registry: &registry, uri, signer, committed: Some(config.manifest_hash) };
    let ready = match arguments.manifest.resolve(file, &about, printer).await? {
        Ok(ready) => ready,
        Err(done) => return Ok(done),
    };
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
    gate::fits(&gate, &registry, printer).await?;
    let steps = plan::change_gate(&gate);
    change_tool("gate", &registry, wallet.as_ref(), tool, steps, &change.writing, printer).await
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
