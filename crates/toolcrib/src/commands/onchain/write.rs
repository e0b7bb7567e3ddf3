//! `register`, `update`, `predicate use` and `deregister`: commands that write to a registry. [`pause`](super::pause) has its own file.
//!
//! Each shows its plan and asks for approval; `--dry-run` and `--calldata` sign nothing. Work of several steps is journalled, and
//! continues where it stopped when the same command is given again.

use alloy_primitives::U256;
use clap::Args;
use toolcrib_author::plan::{self, Step, journal_id};
use toolcrib_chain::predicate::check_registry;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;

use super::gate::{self, GateArguments};
use super::look::Tool;
use super::serving::{Commitment, Manifest};
use super::work::{BeforeSigning, NOTHING_BEFORE, Work, execute};
use crate::kinds::parse_address;
use crate::onchain::{OnChain, Signing, Writing, failed};
use crate::outcome::{Done, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `register`.
#[derive(Args, Debug)]
pub(crate) struct Register {
    /// URL that serves the manifest
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: String,
    #[command(flatten)]
    pub(crate) manifest: Manifest,
    #[command(flatten)]
    pub(crate) gate: GateArguments,
    /// Allow a predicate without code; access is denied until it is deployed
    #[arg(long, requires = "access_predicate")]
    pub(crate) allow_undeployed: bool,
    /// Fee or bond of the registry, in wei
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
    /// URL that serves the manifest [default: the registered one]
    #[arg(long, value_name = "URL")]
    pub(crate) metadata: Option<String>,
    #[command(flatten)]
    pub(crate) manifest: Manifest,
}

/// Arguments of `predicate use`.
#[derive(Args, Debug)]
pub(crate) struct SetPredicate {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Predicate address, or `open` for no predicate
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

/// Registers a tool, and configures its gate.
pub(crate) async fn register(arguments: &Register, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let signer = wallet.address();
    let file = arguments.manifest.check_file(&arguments.metadata, signer, printer)?;
    let registry = arguments.onchain.connect(printer).await?;
    let about = Commitment { registry: &registry, uri: &arguments.metadata, signer, committed: None };
    let ready = arguments.manifest.resolve(file, &about, printer).await?;
    let gate = arguments.gate.resolve(&registry)?;
    gate::check(&gate, &registry, wallet.as_ref(), arguments.allow_undeployed, printer).await?;
    let hash = ready.manifest.hash();
    let fee = arguments.fee.as_deref().map(gate::parse_number).transpose()?.unwrap_or_default();
    let steps = plan::register_for(&ready.metadata_uri, hash, &gate, fee);
    let subject = [ready.metadata_uri.as_bytes(), hash.as_slice()].concat();
    let id = journal_id("register", registry.chain().chain_id(), registry.address(), wallet.address(), &subject);
    let work = Work { id, tool: None, steps, before_signing: NOTHING_BEFORE };
    execute(&registry, wallet.as_ref(), work, &arguments.writing, printer).await
}

/// Changes the URI and the hash of a tool.
pub(crate) async fn update(arguments: &Update, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let config = registry.config(tool).await.map_err(failed)?;
    let uri = arguments.metadata.as_deref().unwrap_or(&config.metadata_uri);
    let signer = wallet.address();
    let file = arguments.manifest.check_file(uri, signer, printer)?;
    let about = Commitment { registry: &registry, uri, signer, committed: Some(config.manifest_hash) };
    let ready = arguments.manifest.resolve(file, &about, printer).await?;
    let step = Step::Update { uri: ready.metadata_uri, hash: ready.manifest.hash() };
    change_tool("update", &registry, wallet.as_ref(), tool, vec![step], &change.writing, printer).await
}

/// Changes the access predicate of a tool.
pub(crate) async fn set_predicate(arguments: &SetPredicate, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let predicate = if arguments.predicate == "open" { None } else { Some(parse_address(&arguments.predicate)?) };
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    if let Some(predicate) = predicate {
        check_registry(&registry, predicate).await.map_err(failed)?;
    }
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

/// Changes the gate of a tool: the new predicate is configured first, and the former one stays until the new one works.
pub(crate) async fn set_gate(arguments: &SetGate, printer: &mut Printer) -> Result<Done, Stop> {
    let change = &arguments.change;
    let wallet = change.signing.open()?;
    let (registry, tool) = change.tool.onchain.connect_for(&change.tool.tool, printer).await?;
    let gate = arguments.gate.resolve(&registry)?;
    gate::fits(&gate, &registry, printer).await?;
    let steps = plan::change_gate(&gate);
    change_tool("gate", &registry, wallet.as_ref(), tool, steps, &change.writing, printer).await
}

/// Removes a tool permanently.
pub(crate) async fn deregister(arguments: &Change, printer: &mut Printer) -> Result<Done, Stop> {
    let wallet = arguments.signing.open()?;
    let (registry, tool) = arguments.tool.onchain.connect_for(&arguments.tool.tool, printer).await?;
    printer.note("a removed tool cannot be restored, and its id is never reused; `pause` can be undone")?;
    printer.note("use this to retire a tool or after its key was stolen; without the key, register a new tool instead")?;
    change_tool("deregister", &registry, wallet.as_ref(), tool, vec![Step::Deregister], &arguments.writing, printer).await
}

/// A change of a tool by the account that signs.
pub(super) struct ToolChange<'c> {
    /// The verb of the change in the journal.
    pub(super) verb: &'c str,
    pub(super) tool: U256,
    pub(super) steps: Vec<Step>,
    pub(super) before_signing: BeforeSigning<'c>,
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
    let change = ToolChange { verb, tool, steps, before_signing: NOTHING_BEFORE };
    change.execute(registry, wallet, writing, printer).await
}

impl ToolChange<'_> {
    pub(super) async fn execute(
        self,
        registry: &Registry,
        wallet: &dyn Wallet,
        writing: &Writing,
        printer: &mut Printer,
    ) -> Result<Done, Stop> {
        let Self { verb, tool, steps, before_signing } = self;
        let config = registry.config(tool).await.map_err(failed)?;
        if config.creator != wallet.address() {
            let what = format!("{} may not change this tool; its creator is {}", wallet.address(), config.creator);
            return Err(Failure::new(codes::author::CREATOR_NOT_SIGNER, what).hint("sign with the creator's wallet").into());
        }
        let subject = [tool.to_be_bytes::<32>().as_slice(), &serde_json::to_vec(&steps).unwrap_or_default()].concat();
        let id = journal_id(verb, registry.chain().chain_id(), registry.address(), wallet.address(), &subject);
        execute(registry, wallet, Work { id, tool: Some(tool), steps, before_signing }, writing, printer).await
    }
}
