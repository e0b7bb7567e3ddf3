//! `agt migrate`: the legacy records of a name as a draft to sign.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcrib_agent::evidence::{OwnerOutcome, TxtLookup};
use toolcrib_agent::source::OwnerSource as _;
use toolcrib_chain::fns::Fns;
use toolcrib_core::agent::txt::{self, LegacyAgent, TxtOutcome, parse_records};
use toolcrib_core::agent::{AgtDomain, Migration, TxtChange, migrate};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;

use super::parse_name;
use super::resolver::SourceArgs;
use crate::check::finding_to_json;
use crate::input;
use crate::kinds::parse_address;
use crate::onchain::failed;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Arguments of `agt migrate`.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// .agt name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Read TXT records from this file, one per line, or `-` for stdin; works offline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["offline", "sources"])]
    pub(crate) records: Option<PathBuf>,
    /// Owner of the draft [default: the owner that the records declare]
    #[arg(long, value_name = "0x…", requires = "records")]
    pub(crate) owner: Option<String>,
    /// Skip reading the holder onchain and use the owner that the records declare
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

/// Drafts a manifest from the records of a name.
pub(crate) async fn run(arguments: &Migrate, printer: &mut Printer) -> Result<Done, Stop> {
    let domain = parse_name(&arguments.name)?;
    if let Some(path) = &arguments.records {
        return of_file(path, arguments.owner.as_deref(), &domain, printer);
    }
    let chain = arguments.sources.chain()?;
    let mut records = None;
    for source in arguments.sources.txt(&chain)? {
        match source.lookup(&domain).await.outcome {
            TxtLookup::Records(found) => records = Some(found),
            TxtLookup::NoRecords | TxtLookup::NotFound => records = Some(Vec::new()),
            TxtLookup::Failed { code, message } => {
                printer.note(&format!("warning: {}: {} ({code})", shown(source.name()), shown(&message)))?;
                continue;
            }
        }
        break;
    }
    let records =
        records.ok_or_else(|| Failure::new(codes::fetch::UNREACHABLE, "no TXT source answered").hint("give another --source"))?;
    let reading = parse_records(&records);
    let legacy = match legacy(reading.outcome, printer)? {
        Ok(legacy) => legacy,
        Err(why) => return Ok(Done::new(Exit::No, json!({ "draft": null, "why": why }))),
    };
    let mut holder = None;
    if !arguments.offline {
        match Fns::new(chain).map_err(failed)?.holder(&domain, None).await.outcome {
            OwnerOutcome::Holder(account) => holder = Some(account),
            OwnerOutcome::NotMinted => printer.note("warning: the name has no holder onchain")?,
            _ => printer.note("warning: the holder of the name could not be read; the draft has the declared owner")?,
        }
    }
    let migration = migrate(&legacy, &domain, holder, SystemClock.now());
    let changes = print(&migration, printer)?;
    Ok(Done::new(Exit::Yes, json!({ "draft": migration.draft, "changes": changes, "holder": holder })))
}

/// Drafts a manifest from records in a file. Nothing is sent anywhere.
fn of_file(path: &Path, owner: Option<&str>, domain: &AgtDomain, printer: &mut Printer) -> Result<Done, Stop> {
    let owner = owner.map(parse_address).transpose()?;
    let Some(source) = input::documents(&[path.to_owned()], printer)?.into_iter().next() else {
        return Err(Failure::new(codes::cli::NOTHING_TO_CHECK, format!("{} has no records", path.display())).into());
    };
    let bytes = source.read()?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::new(codes::cli::UNREADABLE, format!("{} is not UTF-8 text", source.name())))?;
    let reading = txt::parse_text(text);
    let (lines, paint) = (Lines::new(&bytes), printer.paint_err());
    for finding in reading.findings.iter().filter(|finding| finding.code != codes::agent::LEGACY) {
        printer.aside(&human::short(finding, &source.name(), &lines, paint))?;
    }
    let findings: Vec<_> = reading.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
    let legacy = match legacy(reading.outcome, printer)? {
        Ok(legacy) => legacy,
        Err(why) => return Ok(Done::new(Exit::No, json!({ "draft": null, "why": why, "findings": findings }))),
    };
    let migration = migrate(&legacy, domain, owner, SystemClock.now());
    let changes = print(&migration, printer)?;
    Ok(Done::new(Exit::Yes, json!({ "draft": migration.draft, "changes": changes, "findings": findings })))
}

/// The legacy records, or why there are none, which is printed.
fn legacy(outcome: TxtOutcome, printer: &mut Printer) -> Result<Result<LegacyAgent, &'static str>, Stop> {
    let why = match outcome {
        TxtOutcome::Legacy(legacy) => return Ok(Ok(legacy)),
        TxtOutcome::Pointer(_) | TxtOutcome::Refused => "the name already has a manifest pointer",
        _ => "there are no legacy records: agt-version=1 is missing",
    };
    printer.complaint(&format!("{why}\n"))?;
    Ok(Err(why))
}

/// Prints a draft and the next steps, and returns the changes of TXT records, one line each.
fn print(migration: &Migration, printer: &mut Printer) -> Result<Vec<String>, Stop> {
    printer.document(&migration.draft)?;
    let changes: Vec<_> = migration
        .changes
        .iter()
        .map(|change| match change {
            TxtChange::Remove(record) => format!("remove  {}", shown(record)),
            TxtChange::AddPointer => "add     agt-manifest=ipfs://<CID of the signed manifest>".to_owned(),
        })
        .collect();
    let steps = changes.iter().map(|change| format!("  {change}\n")).collect::<String>();
    printer.aside(&format!(
        "Next: complete the draft, sign it with `toolcrib agt sign`, publish it with `toolcrib agt publish --remove-legacy`, which changes the \
         TXT records:\n{steps}"
    ))?;
    Ok(changes)
}
