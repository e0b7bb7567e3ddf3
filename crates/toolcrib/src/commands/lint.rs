//! `lint`: checks manifests, reports problems, fixes some.

use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_core::fix::{Mended, mend as mend_text};
use toolcrib_core::kind::ManifestKind;

use crate::check::{CheckOptions, File, Tally};
use crate::cli::{Checking, Format, Lint};
use crate::fix;
use crate::input::{self, Source};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::report::{github, human, sarif};
use crate::settings::Settings;

/// Runs the command.
pub(crate) fn run(arguments: &Lint, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let question = question(&arguments.what, settings);
    let format = settings.format.value;
    let mut run = Run::start(&arguments.what, question, printer, |file, failures| {
        if arguments.fix {
            mend(file, question, failures);
        }
    })?;
    // The fixed text is the result; the report goes to stderr.
    let prints_text = arguments.fix && run.files.iter().any(|file| file.source == Source::Stdin);
    let exit = run.exit(question);
    if matches!(format, Format::Github | Format::Sarif) && !printer.json() {
        // These formats cannot express fixes.
        let paint = printer.paint_err();
        printer.aside(&run.files.iter().map(|file| human::fixed(file, paint)).collect::<String>())?;
    }
    match format {
        Format::Human => {
            let paint = if prints_text { printer.paint_err() } else { printer.paint() };
            let mut text: String = run.files.iter().map(|file| human::file(file, paint)).collect();
            if !run.files.is_empty() {
                let fixed = run.files.iter().map(|file| file.applied.len()).sum();
                text += &human::summary(run.files.len(), run.skipped, fixed, run.tally, exit, paint);
            }
            if prints_text { printer.aside(&text)? } else { printer.result(&text)? }
        }
        // GitHub reads workflow commands from both streams.
        Format::Github => {
            let text: String = run.files.iter().map(github::file).collect();
            if prints_text { printer.aside(&text)? } else { printer.result(&text)? }
        }
        Format::Sarif if !prints_text => printer.json_document(&sarif::run(&run.files, &run.failures))?,
        Format::Sarif | Format::Json => {}
    }
    for file in run.files.iter().filter(|file| prints_text && file.source == Source::Stdin) {
        match std::str::from_utf8(&file.bytes) {
            Ok(text) => printer.document(text)?,
            Err(_) => run.failures.push(Failure::new(codes::cli::UNREADABLE, "stdin is not UTF-8 text")),
        }
    }
    run.report_failures(printer)?;
    Ok(Done::new(run.exit(question), run.data(question, prints_text)))
}

/// Combines arguments and settings.
pub(crate) fn question<'a>(what: &'a Checking, settings: &Settings) -> CheckOptions<'a> {
    CheckOptions {
        kind: what.kind.map(Into::into),
        mode: settings.role.value.into(),
        deny_warnings: settings.deny_warnings.value,
        metadata_uri: what.metadata_uri.as_deref(),
    }
}

/// Files that were checked together.
#[derive(Debug)]
pub(crate) struct Run {
    /// The files, in order.
    pub(crate) files: Vec<File>,
    /// How many files in folders are not manifests.
    pub(crate) skipped: usize,
    /// What could not be read or written.
    pub(crate) failures: Vec<Failure>,
    /// The counts of all findings.
    pub(crate) tally: Tally,
}

impl Run {
    /// Reads and checks all inputs; `then` may change each file before it is counted.
    pub(crate) fn start(
        what: &Checking,
        question: CheckOptions<'_>,
        printer: &mut Printer,
        then: impl Fn(&mut File, &mut Vec<Failure>),
    ) -> Result<Self, Stop> {
        let gathered = input::gather(&what.paths);
        let mut run = Self { files: Vec::new(), skipped: 0, failures: gathered.failures, tally: Tally::default() };
        for input in &gathered.inputs {
            let name = shown(&input.source.name());
            match question.answer(input) {
                Err(failure) => run.failures.push(failure),
                Ok(None) => {
                    run.skipped += 1;
                    printer.detail(&format!("{name}: skipped, not a manifest"))?;
                }
                Ok(Some(mut file)) => {
                    printer.detail(&format!("{name}: checked as {}", file.kind.map_or("JSON", ManifestKind::as_str)))?;
                    then(&mut file, &mut run.failures);
                    run.tally.add(file.tally());
                    run.files.push(file);
                }
            }
        }
        if run.files.is_empty() && run.failures.is_empty() {
            run.failures.push(Failure::new(codes::cli::NOTHING_TO_CHECK, "no manifest found"));
        }
        Ok(run)
    }

    /// The exit code for all files together.
    pub(crate) const fn exit(&self, question: CheckOptions<'_>) -> Exit {
        if self.failures.is_empty() { question.verdict(self.tally) } else { Exit::CouldNotTell }
    }

    /// Reports what could not be read or written.
    pub(crate) fn report_failures(&self, printer: &mut Printer) -> Result<(), Stop> {
        for failure in &self.failures {
            printer.failure(failure)?;
        }
        Ok(())
    }

    /// `data` of the envelope.
    pub(crate) fn data(&self, question: CheckOptions<'_>, with_text: bool) -> Value {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|file| {
                let mut value = file.to_json(question);
                if with_text && file.source == Source::Stdin {
                    value["text"] = json!(String::from_utf8_lossy(&file.bytes));
                }
                value
            })
            .collect();
        json!({
            "files": files,
            "summary": {
                "files": self.files.len(),
                "skipped": self.skipped,
                "errors": self.tally.errors,
                "warnings": self.tally.warnings,
                "hints": self.tally.hints,
                "fixed": self.files.iter().map(|file| file.applied.len()).sum::<usize>(),
            },
        })
    }
}

/// Fixes a file and checks it again. If it cannot be written, it stays unchanged, in the report too.
fn mend(file: &mut File, question: CheckOptions<'_>, failures: &mut Vec<Failure>) {
    let check = |bytes: &[u8]| question.check(&file.source, bytes).1.findings;
    let Some(Mended { bytes, applied }) = mend_text(&file.bytes, &file.findings, check) else { return };
    if let Source::File(path) = &file.source
        && let Err(failure) = fix::replace(path, &file.bytes, &bytes)
    {
        failures.push(failure);
        return;
    }
    let (kind, report) = question.check(&file.source, &bytes);
    *file = File { source: file.source.clone(), bytes, kind, findings: report.findings, canonical: report.canonical, applied };
}
