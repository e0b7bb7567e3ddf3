//! `migrate`: from legacy TXT records to a manifest that can be signed.

use serde_json::json;
use toolcrib_core::agent::txt::{self, TxtOutcome};
use toolcrib_core::agent::{AgtDomain, Migration, TxtChange, migrate};
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;

use crate::check::finding_to_json;
use crate::cli::Migrate;
use crate::input;
use crate::kinds::parse_address;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::position::Lines;
use crate::printer::{Printer, shown};
use crate::report::human;

/// Runs the command.
pub(crate) fn run(arguments: &Migrate, printer: &mut Printer) -> Result<Done, Stop> {
    let domain = AgtDomain::from_input(&arguments.domain)
        .map_err(|fault| Failure::new(codes::cli::USAGE, format!("`{}` is no .agt name: {fault}", arguments.domain)))?;
    let owner = arguments.owner.as_deref().map(parse_address).transpose()?;
    let paths: Vec<_> = arguments.path.iter().cloned().collect();
    let Some(source) = input::documents(&paths, printer)?.into_iter().next() else {
        return Err(Failure::new(codes::cli::NOTHING_TO_CHECK, "no records were given").into());
    };
    let bytes = source.read()?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::new(codes::cli::UNREADABLE, format!("{} is no UTF-8 text", source.name())))?;
    let reading = txt::parse_text(text);
    let (lines, paint) = (Lines::new(&bytes), printer.paint_err());
    for finding in reading.findings.iter().filter(|finding| finding.code != codes::agent::LEGACY) {
        printer.aside(&human::short(finding, &source.name(), &lines, paint))?;
    }
    let findings: Vec<_> = reading.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect();
    let TxtOutcome::Legacy(legacy) = reading.outcome else {
        let what = match reading.outcome {
            TxtOutcome::Pointer(_) | TxtOutcome::Refused => "the name has a manifest pointer already",
            _ => "these are no legacy records: agt-version=1 is missing",
        };
        printer.complaint(&format!("{what}\n"))?;
        return Ok(Done::new(Exit::No, json!({ "draft": null, "why": what, "findings": findings })));
    };
    let migration = migrate(&legacy, &domain, owner, SystemClock.now());
    let changes = print(&migration, printer)?;
    Ok(Done::new(Exit::Yes, json!({ "draft": migration.draft, "changes": changes, "findings": findings })))
}

/// Prints a draft and what to do with it, and gives the changes of TXT records a line each.
pub(crate) fn print(migration: &Migration, printer: &mut Printer) -> Result<Vec<String>, Stop> {
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
