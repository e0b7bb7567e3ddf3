//! Pinned onchain tools: `local add`, `update`, `remove`, `list`, `show` and `doctor` with a tool reference.

use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::slug::Slug;
use toolcrib_core::time::format_rfc3339;
use toolcrib_fetch::SystemClock;
use toolcrib_host::local::Check;
use toolcrib_host::onchain::{Changes, NAME_PREFIX, Observation, Pin, PinError, PinStore, Pins, observe};
use toolcrib_judge::Policy;
use toolcrib_verify::{Depth, Live, Onchain};

use super::install::{Update, agreed};
use super::{HostArgs, refused, state};
use crate::commands::calling::call::Method;
use crate::commands::trust::verify::{data, exit_of, for_registry, unclear};
use crate::commands::trust::{EgressArgs, show as reports, verifier};
use crate::onchain::{OnChain, failed as chain_failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// How an onchain tool is found and pinned.
#[derive(Args, Debug)]
pub(crate) struct Pinning {
    /// Name of an onchain tool for models; prefixed with `onchain_`
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// HTTP method of an onchain tool
    #[arg(long, value_enum, default_value_t = Method::Post)]
    pub(crate) method: Method,
    /// Pin an onchain tool without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// The file of pins.
pub(crate) fn store() -> Result<PinStore, Failure> {
    Ok(PinStore::new(state()?))
}

fn pins() -> Result<Pins, Failure> {
    store()?.read().map_err(|error| failed(&error))
}

/// Finds a pinned tool by its reference or by the name that models see. Ids of installed tools are left to the installer.
pub(super) fn find(text: &str) -> Result<Option<Pin>, Failure> {
    let is_meant = text.starts_with("eip155:") || text.starts_with(NAME_PREFIX);
    Ok(if is_meant { pins()?.find(text).cloned() } else { None })
}

/// Pins an onchain tool.
pub(super) async fn add(reference: &str, arguments: &Pinning, printer: &mut Printer) -> Result<Done, Stop> {
    let name = arguments.name.as_deref().map(Slug::parse).transpose();
    let name = name.map_err(|fault| Failure::new(codes::cli::USAGE, format!("--name: {fault}")))?;
    let live = verify(reference, &arguments.onchain, &arguments.reach, printer).await?;
    let pin = match Pin::new(&live, name, arguments.method.into(), SystemClock.now()) {
        Ok(pin) => pin,
        Err(error @ PinError::Unverified { .. }) => return unverified(&error, &live, printer),
        Err(error) => return refused(&failed(&error), printer),
    };
    let pins = pins()?;
    if pins.get(pin.tool()).is_some() {
        return refused(&failed(&PinError::Exists { tool: pin.tool() }), printer);
    }
    // Checked before the prompt, so that the user does not read about a tool that is refused anyway.
    let exposed = pin.exposed();
    let local = HostArgs::default().open()?;
    let other = match (pins.exposed(&exposed), local.tools().exposed(&exposed)) {
        (Some(other), _) => Some(other.tool().to_string()),
        (None, Some((tool, _))) => Some(format!("a function of the local tool {}", tool.id())),
        (None, None) => None,
    };
    if let Some(other) = other {
        return refused(&failed(&PinError::NameTaken { name: exposed, other }), printer);
    }
    for line in lines(&pin) {
        printer.result(&format!("{line}\n"))?;
    }
    printer.flush()?;
    if let Err(failure) = agreed(arguments.yes, "pin this version of the tool?", "you refused the tool") {
        return refused(&failure, printer);
    }
    store()?.add(pin.clone()).map_err(|error| failed(&error))?;
    printer.note(&format!("pinned as {exposed}"))?;
    Ok(Done::new(Exit::Yes, json!({ "pin": row(&pin) })))
}

/// Accepts the current version of a pinned tool.
pub(super) async fn update(pin: &Pin, arguments: &Update, printer: &mut Printer) -> Result<Done, Stop> {
    let live = verify(&pin.tool().to_string(), &arguments.onchain, &arguments.reach, printer).await?;
    let next = match Pin::new(&live, None, pin.method(), SystemClock.now()) {
        Ok(next) => next.named_like(pin),
        Err(error @ PinError::Unverified { .. }) => return unverified(&error, &live, printer),
        Err(error) => return refused(&failed(&error), printer),
    };
    let changes = match observe(pin, &live, SystemClock.now()) {
        Observation::Changed(found) => found.changes.unwrap_or_default(),
        // The served version is the pinned one again, so the record of an earlier change is removed.
        Observation::Same | Observation::Unknown => {
            if !arguments.dry_run {
                store()?.quarantine(pin.tool(), pin.hash(), None).map_err(|error| failed(&error))?;
            }
            printer.note("nothing changed")?;
            return Ok(Done::new(Exit::Yes, json!({ "changed": false, "pin": row(&next) })));
        }
    };
    printer.result(&format!("{} {} is now {}\n", pin.exposed(), pin.hash(), next.hash()))?;
    for line in change_lines(&changes).into_iter().chain(lines(&next)) {
        printer.result(&format!("  {line}\n"))?;
    }
    let report = json!({ "changed": true, "diff": changes, "pin": row(&next) });
    if arguments.dry_run {
        return Ok(Done::new(Exit::Yes, report));
    }
    printer.flush()?;
    if let Err(failure) = agreed(arguments.yes, "accept this version of the tool?", "you refused the change") {
        return refused(&failure, printer);
    }
    store()?.accept(pin.hash(), next).map_err(|error| failed(&error))?;
    Ok(Done::new(Exit::Yes, report))
}

/// Removes a pin.
pub(super) fn remove(pin: &Pin, printer: &mut Printer) -> Result<Done, Stop> {
    store()?.remove(pin.tool()).map_err(|error| failed(&error))?;
    printer.note(&format!("removed {}", pin.exposed()))?;
    Ok(Done::new(Exit::Yes, json!({ "removed": pin.tool().to_string(), "manifest_hash": pin.hash() })))
}

/// Prints all pins for `local list`.
pub(super) fn list(printer: &mut Printer) -> Result<Vec<Value>, Stop> {
    let pins = pins()?;
    for pin in pins.iter() {
        printer.result(&format!("{}  {}\n", pin.exposed(), pin.tool()))?;
        printer.result(&format!("  {}; price: {}\n", pin.manifest().endpoint().origin(), pin.price()))?;
        if let Some(quarantine) = pin.quarantine() {
            printer.result(&format!("  QUARANTINED since {}: {}\n", shown(&quarantine.time), shown(&quarantine.text())))?;
            for line in quarantine.changes.iter().flat_map(change_lines) {
                printer.result(&format!("    {line}\n"))?;
            }
        }
    }
    Ok(pins.iter().map(row).collect())
}

/// `local show` of a pin.
pub(super) fn show(pin: &Pin, printer: &mut Printer) -> Result<Done, Stop> {
    let data = row(pin);
    printer.json_document(&data)?;
    Ok(Done::new(Exit::Yes, data))
}

/// Checks of `local doctor`: one line per pin, or one that says why pins cannot be read.
pub(super) fn checks() -> Vec<Check> {
    let pins = match pins() {
        Ok(pins) => pins,
        Err(failure) => return vec![Check { name: "pinned onchain tools".to_owned(), ok: false, text: failure.message }],
    };
    let check = |pin: &Pin| {
        let text = match pin.quarantine() {
            None => format!("pinned at {}", pin.hash()),
            Some(quarantine) => {
                let lines: Vec<_> = quarantine.changes.iter().flat_map(change_lines).collect();
                let lines = if lines.is_empty() { String::new() } else { format!(" ({})", lines.join("; ")) };
                format!("quarantined: {}{lines}; `toolcrib local update {}` accepts it", quarantine.text(), pin.tool())
            }
        };
        Check { name: format!("pinned tool {}", pin.exposed()), ok: pin.quarantine().is_none(), text }
    };
    pins.iter().map(check).collect()
}

async fn verify(reference: &str, onchain: &OnChain, reach: &EgressArgs, printer: &mut Printer) -> Result<Live, Stop> {
    let (registry, id) = onchain.connect_for(reference, printer).await?;
    let policy = for_registry(Policy::pay(), &registry);
    let live = verifier(reach)?.live(&Onchain::new(registry, id), &policy, Depth::Checks).await;
    Ok(live.map_err(chain_failed)?)
}

/// Ends with the report: no if the tool fails a check, could not tell if a server or node did not respond.
fn unverified(error: &PinError, live: &Live, printer: &mut Printer) -> Result<Done, Stop> {
    let text = reports::report(&live.report, printer.paint(), printer.is_verbose());
    printer.result(&text)?;
    if exit_of(&live.report) == Exit::CouldNotTell {
        return Err(unclear(&live.report).into());
    }
    let mut done = refused(&failed(error), printer)?;
    done.data["report"] = data(&live.report);
    Ok(done)
}

/// What the user must see before accepting a version.
fn lines(pin: &Pin) -> Vec<String> {
    let manifest = pin.manifest();
    let mut lines = vec![
        format!("tool         {}", pin.tool()),
        format!("name         {} (models see {})", shown(manifest.name()), pin.exposed()),
        format!("description  {}", shown(manifest.description())),
        format!("endpoint     {}", shown(manifest.endpoint().normalized())),
        format!("origin       {}", manifest.endpoint().origin()),
        format!("price        {}", pin.price()),
    ];
    let recipients: std::collections::BTreeSet<_> = manifest.pricing().iter().map(|price| price.recipient.as_str()).collect();
    lines.extend(recipients.into_iter().map(|recipient| format!("recipient    {}", shown(recipient))));
    lines.push(format!("manifest     {}", pin.hash()));
    lines
}

fn change_lines(changes: &Changes) -> Vec<String> {
    let mut lines: Vec<_> = changes.list.iter().map(|change| shown(&change.text())).collect();
    if changes.left_out > 0 {
        lines.push(format!("and {} more changes", changes.left_out));
    }
    lines
}

fn row(pin: &Pin) -> Value {
    let manifest = pin.manifest();
    let prices: Vec<_> = manifest
        .pricing()
        .iter()
        .map(|price| {
            json!({
                "amount": price.amount.to_string(),
                "asset": price.asset.as_str(),
                "recipient": price.recipient.as_str(),
                "protocol": price.protocol,
            })
        })
        .collect();
    json!({
        "tool": pin.tool().to_string(),
        "exposed": pin.exposed(),
        "name": manifest.name(),
        "description": manifest.description(),
        "endpoint": manifest.endpoint().normalized(),
        "origin": manifest.endpoint().origin().to_string(),
        "price": pin.price(),
        "pricing": prices,
        "inputs": manifest.inputs().map(toolcrib_core::schema::to_serde),
        "manifest_hash": pin.hash(),
        "method": pin.method().as_str(),
        "pinned_at": format_rfc3339(pin.time()),
        "quarantine": pin.quarantine(),
    })
}

fn failed(error: &PinError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
