//! `validate`: the same checks as `lint`, one line for each file.

use std::collections::BTreeSet;
use std::fmt::Write;

use toolcrib_core::finding::Severity;

use super::lint::{Run, question};
use crate::check::File;
use crate::cli::Validate;
use crate::kinds::ManifestKind;
use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Paint, Printer, shown};
use crate::settings::Settings;

/// Runs the command.
pub(crate) fn run(arguments: &Validate, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let question = question(&arguments.what, settings);
    let run = Run::start(&arguments.what, question, printer, |_, _| ())?;
    let paint = printer.paint();
    for file in &run.files {
        let ok = question.verdict(file.tally()) == Exit::Yes;
        printer.result(&line(file, ok, paint))?;
    }
    run.report_failures(printer)?;
    if run.exit(question) == Exit::No {
        printer.note("run `toolcrib lint` to see where and why")?;
    }
    Ok(Done::new(run.exit(question), run.data(question, false)))
}

/// "valid", the file, its kind and hash; or "invalid", the file, and the codes of what decides.
fn line(file: &File, ok: bool, paint: Paint) -> String {
    let name = shown(&file.source.name());
    let kind = file.kind.map_or("unknown", ManifestKind::as_str);
    let mut out = if ok { paint.good("valid") } else { paint.error("invalid") };
    let _ = write!(out, "  {name}  {kind}");
    if ok && let Some(canonical) = &file.canonical {
        let _ = write!(out, "  {}", canonical.hash());
    }
    let tally = file.tally().described();
    if !tally.is_empty() {
        let _ = write!(out, "  {tally}");
    }
    if !ok {
        let codes: BTreeSet<_> =
            file.findings.iter().filter(|f| f.severity != Severity::Hint).map(|finding| finding.code.id()).collect();
        let _ = write!(out, ": {}", codes.into_iter().collect::<Vec<_>>().join(", "));
    }
    out.push('\n');
    out
}
