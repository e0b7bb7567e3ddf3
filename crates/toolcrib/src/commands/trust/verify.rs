//! `verify`: the four checks of ERC-8257 §7, now or from a file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256, U256};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use toolcrib_chain::registry::{EventFilter, Registry, RegistryEvent};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes;
use toolcrib_core::time::{TimeFault, parse_rfc3339};
use toolcrib_fetch::SystemClock;
use toolcrib_files::AtomicFile;
use toolcrib_judge::attestation::Root;
use toolcrib_judge::evidence::{Evidence, MAX_FILE_BYTES};
use toolcrib_judge::{MAX_WINDOW, Policy, Report, Verdict, judge};
use toolcrib_verify::{Depth, Onchain, Verifier};

use super::{EgressArgs, show, verifier};
use crate::input::Source;
use crate::kinds::parse_address;
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Parallel verifications of `--all`: enough to hide the latency of servers, few enough for a public node.
const AT_ONCE: usize = 8;

/// Arguments of `verify`.
#[derive(Args, Debug)]
#[group(id = "what", required = true, multiple = false, args = ["tool", "evidence", "all"])]
pub(crate) struct Verify {
    /// Tool: a reference, an id with --network, or a manifest URL
    #[arg(value_name = "TOOL|URL")]
    pub(crate) tool: Option<String>,
    /// Evaluate saved evidence; nothing is fetched
    ///
    /// The result does not allow calls or payments.
    #[arg(long, value_name = "FILE")]
    pub(crate) evidence: Option<PathBuf>,
    /// With --evidence: evaluate as of this time (RFC 3339)
    #[arg(long, value_name = "TIME", requires = "evidence", value_parser = parse_time)]
    pub(crate) at: Option<UnixTime>,
    /// Verify every tool that this account registered on --network
    #[arg(long, value_name = "CREATOR")]
    pub(crate) all: Option<String>,
    /// With --all: first block to search for registrations
    #[arg(long, value_name = "BLOCK", default_value_t = 0, requires = "all")]
    pub(crate) from_block: u64,
    /// Save the evidence: everything read and fetched
    #[arg(long, value_name = "FILE", conflicts_with_all = ["evidence", "all"])]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// What is asked for beyond the standard.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArguments {
    /// Fail unless the registered manifest hash is this one
    #[arg(long, value_name = "0x…")]
    pub(crate) pin: Option<B256>,
    /// Fail unless the registry's code has this keccak256 hash
    #[arg(long, value_name = "0x…")]
    pub(crate) registry_code: Option<B256>,
    /// Root for AWS Nitro attestations: PEM file or SHA-256 fingerprint
    ///
    /// Without it, what a tool says about its enclave is an unverified claim.
    #[arg(long, value_name = "FILE|SHA256")]
    pub(crate) nitro_root: Vec<String>,
    /// Seconds that evidence counts as fresh, at most a day
    #[arg(long, value_name = "SECONDS", default_value_t = toolcrib_judge::DEFAULT_WINDOW)]
    pub(crate) window: u64,
}

impl PolicyArguments {
    /// The policy.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        let mut policy = Policy::default().with_window(self.window).ok_or_else(|| {
            Failure::new(codes::cli::USAGE, format!("--window is at most {MAX_WINDOW} seconds")).hint("give a smaller --window")
        })?;
        policy.pinned_manifest = self.pin;
        policy.pinned_registry_code = self.registry_code;
        policy.attestation.nitro_roots = self.nitro_root.iter().map(|setting| root(setting)).collect::<Result<_, _>>()?;
        Ok(policy)
    }
}

/// The policy with the code pin of the network table for its own registry, unless another was given.
pub(crate) fn for_registry(mut policy: Policy, registry: &Registry) -> Policy {
    let network = registry.chain().network();
    if network.registry == Some(registry.address()) {
        policy.pinned_registry_code = policy.pinned_registry_code.or(network.registry_code);
    }
    policy
}

/// A root from a setting: inline, or a file.
fn root(setting: &str) -> Result<Root, Failure> {
    let path = Path::new(setting);
    let text = if path.is_file() {
        let bytes = Source::from_argument(path).read()?;
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        setting.to_owned()
    };
    Root::from_setting(&text).map_err(|fault| Failure::new(fault.code(), format!("`{setting}` is not a root: {fault}")))
}

/// Verifies one tool, all tools of an account, or saved evidence.
pub(crate) async fn run(arguments: &Verify, printer: &mut Printer) -> Result<Done, Stop> {
    let mut policy = arguments.policy.policy()?;
    if let Some(path) = &arguments.evidence {
        let evidence = load(path)?;
        return one(&judge(&evidence, &policy, arguments.at.unwrap_or_else(|| SystemClock.now())), printer);
    }
    let verifier = verifier(&arguments.reach)?;
    if let Some(creator) = &arguments.all {
        let registry = arguments.onchain.connect(printer).await?;
        let policy = for_registry(policy, &registry);
        return every(&verifier, &registry, parse_address(creator)?, arguments.from_block, &policy, printer).await;
    }
    let named = arguments.tool.as_deref().unwrap_or_default();
    let evidence = if named.contains("://") {
        verifier.gather_url(named).await
    } else {
        let (registry, id) = arguments.onchain.connect_for(named, printer).await?;
        policy = for_registry(policy, &registry);
        verifier.gather(&Onchain::new(registry, id), Depth::Full).await.map_err(failed)?
    };
    if let Some(path) = &arguments.save {
        save(path, &evidence)?;
        printer.note(&format!("evidence saved to {}", shown(&path.display().to_string())))?;
    }
    one(&judge(&evidence, &policy, evidence.gathered_at), printer)
}

fn parse_time(text: &str) -> Result<UnixTime, &'static str> {
    parse_rfc3339(text).map_err(TimeFault::described)
}

/// Reads an evidence file.
pub(crate) fn load(path: &Path) -> Result<Evidence, Failure> {
    let name = path.display();
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(codes::cli::UNREADABLE, format!("cannot read {name}: {error}")))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Failure::new(codes::cli::UNREADABLE, format!("{name} is too large for an evidence file")));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(codes::cli::UNREADABLE, format!("{name} is not an evidence file: {error}")))
}

/// Writes an evidence file, whole or not at all.
pub(crate) fn save(path: &Path, evidence: &Evidence) -> Result<(), Failure> {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::new(codes::cli::OUTPUT, format!("cannot write {}: {error}", path.display()));
    let text = serde_json::to_string_pretty(evidence).map_err(|error| unwritable(&error))?;
    AtomicFile::new(path).shared().replace(text.as_bytes()).map_err(|error| unwritable(&error))
}

/// The exit code of a report.
pub(crate) const fn exit_of(report: &Report) -> Exit {
    match report.verdict {
        Verdict::Verified if report.conformant && !matches!(report.pinned, Some(false)) => Exit::Yes,
        Verdict::Partial if report.conformant => Exit::Yes,
        Verdict::Verified | Verdict::Refused | Verdict::Partial => Exit::No,
        Verdict::Unknown => Exit::CouldNotTell,
    }
}

fn one(report: &Report, printer: &mut Printer) -> Result<Done, Stop> {
    let text = show::report(report, printer.paint(), printer.is_verbose());
    printer.result(&text)?;
    let exit = exit_of(report);
    if exit == Exit::CouldNotTell {
        printer.failure(&unclear(report))?;
    }
    Ok(Done::new(exit, data(report)))
}

/// The error for a report without an answer.
pub(crate) fn unclear(report: &Report) -> Failure {
    let code = report.failed.map_or(codes::verify::NO_MANIFEST, |failed| failed.code);
    let finding = report.findings.iter().find(|finding| finding.code == code);
    let reason = finding.map_or_else(|| code.title().to_owned(), |finding| finding.message.clone());
    Failure::new(code, format!("could not verify the tool: {reason}"))
}

async fn every(
    verifier: &Verifier,
    registry: &Registry,
    creator: Address,
    from: u64,
    policy: &Policy,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    let ids = registered(registry, creator, from).await?;
    if ids.is_empty() {
        printer.note("this account registered nothing on this network")?;
        return Ok(Done::new(Exit::No, json!([])));
    }
    let mut reports = stream::iter(ids)
        .map(|id| async move {
            let live = verifier.live(&Onchain::new(registry.clone(), id), policy, Depth::Full).await?;
            Ok::<_, toolcrib_chain::Error>(live.report)
        })
        .buffered(AT_ONCE);
    let (mut exit, mut list) = (Exit::Yes, Vec::new());
    while let Some(report) = reports.next().await {
        let report = report.map_err(failed)?;
        let line = show::verdict(&report, printer.paint());
        printer.result(&format!("{}  {line}\n", report.tool.as_deref().unwrap_or_default()))?;
        printer.flush()?;
        exit = exit.max(exit_of(&report));
        if exit_of(&report) == Exit::CouldNotTell {
            printer.failure(&unclear(&report))?;
        }
        list.push(data(&report));
    }
    Ok(Done::new(exit, Value::Array(list)))
}

/// The ids that an account registered, in order.
pub(crate) async fn registered(registry: &Registry, creator: Address, from: u64) -> Result<Vec<U256>, Failure> {
    let head = registry.chain().block_number().await.map_err(failed)?;
    let filter = EventFilter { creator: Some(creator), ..EventFilter::default() };
    let pages = registry.events(from, head, filter).try_collect::<Vec<_>>().await.map_err(failed)?;
    let ids = pages.into_iter().flat_map(|page| page.events).filter_map(|logged| match logged.event {
        RegistryEvent::Registered { id, .. } => Some(id),
        _ => None,
    });
    Ok(ids.collect())
}

/// A report as JSON.
pub(crate) fn data(report: &Report) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}
