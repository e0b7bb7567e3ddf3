//! `agt publish`: pins a signed manifest and updates the TXT records of its name.

use std::path::PathBuf;

use alloy_primitives::Bytes;
use clap::Args;
use serde_json::json;
use toolcrib_agent::AgentState;
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::ipfs::Packed;
use toolcrib_agent::ipfs::pin::{Kubo, PinError, Pinned, PinningService, PollLimits};
use toolcrib_agent::txt_writer::{
    CommandSettings, CommandWriter, RecordChange, TsigKey, TxtWriter, UpdateSettings, UpdateWriter, WriteError, describe,
};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;

use super::pack::{pack_bytes, read_signed, write_car};
use super::resolver::{PolicyArgs, SourceArgs, http, url};
use crate::commands::onchain::confirm;
use crate::env;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;

/// Arguments of `agt publish`.
#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// Signed manifest
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// Pin to kubo:URL (node RPC) or service:URL (Pinning Service API)
    ///
    /// The token comes from `TOOLCRIB_PIN_TOKEN`.
    #[arg(long, value_name = "WHERE")]
    pub(crate) pin: Option<String>,
    /// Update the TXT record by: print, update:ADDRESS (RFC 2136) or command
    ///
    /// The key for RFC 2136 comes from `TOOLCRIB_TSIG_KEY`.
    #[arg(long, value_name = "HOW", default_value = "print")]
    pub(crate) txt: String,
    /// DNS zone for update [default: the name itself]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Program for command; it gets the change as JSON on stdin, no shell
    #[arg(long = "txt-command", value_name = "PROGRAM")]
    pub(crate) command: Option<String>,
    /// Argument of that program; repeatable
    #[arg(long = "txt-argument", value_name = "TEXT", allow_hyphen_values = true, requires = "command")]
    pub(crate) arguments: Vec<String>,
    /// Remove legacy records of the name
    #[arg(long)]
    pub(crate) remove_legacy: bool,
    /// Pack as a `UnixFS` file (dag-pb) instead of one raw block
    #[arg(long)]
    pub(crate) dag_pb: bool,
    /// Also write the blocks as a CAR archive
    #[arg(long, value_name = "FILE")]
    pub(crate) car: Option<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Publishes a manifest.
pub(crate) async fn run(arguments: &Publish, printer: &mut Printer) -> Result<Done, Stop> {
    let (manifest, bytes) = read_signed(&arguments.path)?;
    let domain = manifest.domain().clone();
    let pinning = arguments.pin.as_deref().map(pinning).transpose()?;
    let writer = writer(arguments)?;
    check_holder(arguments, &bytes, &domain, printer).await?;
    let packed = pack_bytes(&bytes, arguments.dag_pb)?;
    let cid = CidText::parse(&packed.root().to_string()).map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let existing = existing(arguments, &domain, printer).await?;
    let change = RecordChange::point_at(&domain, &cid, existing.as_deref().unwrap_or_default(), arguments.remove_legacy)
        .map_err(|error| refused(&error).hint("remove them with --remove-legacy"))?;
    let place = pinning.as_ref().map_or_else(|| "no (give --pin to pin)".to_owned(), Pinning::shown);
    let how = writer.as_ref().map_or_else(|| "printed only".to_owned(), |writer| writer.name().to_owned());
    printer.aside(&format!("CID: {cid}\nPinned: {}\nTXT change: {}\n{}\n", shown(&place), shown(&how), describe(&change)))?;
    if let Some(path) = &arguments.car {
        write_car(path, &packed)?;
    }
    let mut data = json!({
        "domain": domain.as_str(),
        "cid": cid.as_str(),
        "remove": change.remove.iter().map(|record| String::from_utf8_lossy(record)).collect::<Vec<_>>(),
        "add": change.add.iter().map(|record| String::from_utf8_lossy(record)).collect::<Vec<_>>(),
        "existing_read": existing.is_some(),
        "pinned": null,
        "written": null,
    });
    if arguments.dry_run {
        return Ok(Done::new(Exit::Yes, data));
    }
    let acts = pinning.is_some() || writer.is_some();
    if acts && !arguments.yes && !confirm(&format!("Publish the manifest of {domain}?")) {
        let failure = Failure::new(codes::cli::USAGE, "nothing was published").hint("answer y, or give --yes");
        return Err(failure.into());
    }
    if let Some(pinning) = &pinning {
        let pinned = pinning.pin(&packed, &domain).await.map_err(|error| Failure::new(error.code(), error.to_string()))?;
        printer.note(&format!("pinned at {}", shown(&pinned.service)))?;
        data["pinned"] = json!({ "service": pinned.service, "cid": pinned.cid.to_string() });
    }
    if let Some(writer) = writer.filter(|_| !change.is_empty()) {
        let written = writer.write(&change).await.map_err(|error| refused(&error))?;
        let seen = if written.read_back.is_some() { "and read back" } else { "not read back" };
        printer.note(&format!("TXT records changed by {}, {seen}", shown(writer.name())))?;
        data["written"] = json!({ "writer": writer.name(), "read_back": written.read_back.is_some() });
    }
    printer.result(&format!("{cid}\n"))?;
    Ok(Done::new(Exit::Yes, data))
}

fn refused(error: &WriteError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// Refuses to publish for a name that the owner does not hold. If no node answers, it only warns: the manifest may be valid.
async fn check_holder(arguments: &Publish, bytes: &[u8], domain: &AgtDomain, printer: &mut Printer) -> Result<(), Stop> {
    if arguments.policy.preview {
        return Ok(());
    }
    let report = arguments.sources.resolver(&arguments.policy)?.verify_manifest(bytes, Some(domain)).await.report;
    match report.state {
        AgentState::InvalidOwner => {
            let code = report.failed.map_or(codes::agent::OWNER_MALFORMED, |failed| failed.code);
            let what = format!("the owner of the manifest does not hold {domain}");
            Err(Failure::new(code, what).hint("sign with the wallet that holds the name; --preview skips this check").into())
        }
        AgentState::Unreachable => Ok(printer.note("warning: whether the owner holds the name could not be read")?),
        _ => Ok(()),
    }
}

/// The current records of the name; `None` if no source answers. Without them, old pointers and legacy records could remain beside the new
/// one.
async fn existing(arguments: &Publish, domain: &AgtDomain, printer: &mut Printer) -> Result<Option<Vec<Bytes>>, Stop> {
    let mut why = String::new();
    for source in arguments.sources.txt(&arguments.sources.chain()?)? {
        match source.lookup(domain).await.outcome {
            TxtLookup::Records(records) => return Ok(Some(records)),
            TxtLookup::NoRecords | TxtLookup::NotFound => return Ok(Some(Vec::new())),
            TxtLookup::Failed { message, .. } => why = format!("{}: {message}", source.name()),
        }
    }
    if arguments.txt == "print" {
        printer.note(&format!(
            "warning: the records of the name could not be read ({}); remove other pointers yourself",
            shown(&why)
        ))?;
        return Ok(None);
    }
    let failure = Failure::new(codes::agent::TXT_WRITE_PLAN, format!("the records of the name could not be read: {why}"));
    Err(failure.hint("give a --source that answers").into())
}

/// Where a manifest is pinned.
enum Pinning {
    Kubo(Kubo, String),
    Service(PinningService, String),
}

impl Pinning {
    fn shown(&self) -> String {
        match self {
            Self::Kubo(_, origin) => format!("by the node at {origin}"),
            Self::Service(_, origin) => format!("by the service at {origin}"),
        }
    }

    async fn pin(&self, packed: &Packed, domain: &AgtDomain) -> Result<Pinned, PinError> {
        match self {
            Self::Kubo(node, _) => node.import(packed).await,
            Self::Service(service, _) => service.pin(packed.root(), domain.as_str()).await,
        }
    }
}

fn pinning(setting: &str) -> Result<Pinning, Failure> {
    let token = secrets::var(env::TOOLCRIB_PIN_TOKEN);
    let unusable = |error: PinError| Failure::new(error.code(), error.to_string());
    match setting.split_once(':') {
        Some(("kubo", place)) => {
            let place = url(place)?;
            let origin = place.origin();
            Ok(Pinning::Kubo(Kubo::new(http()?, place, token.as_deref()).map_err(unusable)?, origin))
        }
        Some(("service", place)) => {
            let place = url(place)?;
            let origin = place.origin();
            let token = token.ok_or_else(|| {
                Failure::new(codes::cli::USAGE, "a pinning service needs a token").hint("set TOOLCRIB_PIN_TOKEN")
            })?;
            let service = PinningService::new(http()?, place, &token, PollLimits::default()).map_err(unusable)?;
            Ok(Pinning::Service(service, origin))
        }
        _ => Err(Failure::new(codes::cli::USAGE, "--pin names no node or service").hint("write kubo:URL or service:URL")),
    }
}

/// The writer of TXT records; `None` if the change is only printed.
fn writer(arguments: &Publish) -> Result<Option<Box<dyn TxtWriter>>, Failure> {
    let usage = |what: &str, hint: &str| Failure::new(codes::cli::USAGE, what.to_owned()).hint(hint);
    match arguments.txt.split_once(':') {
        None if arguments.txt == "print" => Ok(None),
        None if arguments.txt == "command" => {
            let program = arguments.command.clone().ok_or_else(|| usage("no program is named", "give --txt-command"))?;
            let settings = CommandSettings::from_arguments(std::iter::once(program).chain(arguments.arguments.iter().cloned()))
                .ok_or_else(|| usage("no program is named", "give --txt-command"))?;
            Ok(Some(Box::new(CommandWriter::new(settings, None))))
        }
        Some(("update", server)) => {
            let server = server.parse().map_err(|_| usage("the server is not an address", "write update:192.0.2.1:53"))?;
            let key = secrets::var(env::TOOLCRIB_TSIG_KEY)
                .ok_or_else(|| usage("an update needs a TSIG key", "set TOOLCRIB_TSIG_KEY to hmac-sha256:<name>:<base64>"))?;
            let key: TsigKey =
                key.parse().map_err(|error: toolcrib_agent::txt::SettingError| Failure::new(error.code(), error.to_string()))?;
            let mut settings = UpdateSettings::new(server, key);
            settings.zone.clone_from(&arguments.zone);
            Ok(Some(Box::new(UpdateWriter::new(settings, SystemClock))))
        }
        _ => Err(usage("--txt names no way to change records", "write print, update:ADDRESS or command")),
    }
}
