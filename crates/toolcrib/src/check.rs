//! Checks one document: what `lint`, `validate` and `hash` share.

use serde_json::{Value, json};
use toolcrib_core::canon::Canonical;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::fix::Applied;
use toolcrib_core::json::{self, Limits, MAX_BYTES};

use crate::input::{Input, Source};
use crate::kinds::{self, ManifestKind, PathHints, Report};
use crate::outcome::{Exit, Failure};
use crate::position::Lines;

/// How a command checks its documents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions<'a> {
    /// The kind, when it was given.
    pub(crate) kind: Option<ManifestKind>,
    /// Producer rules or consumer rules.
    pub(crate) mode: Mode,
    /// Whether warnings count as errors.
    pub(crate) deny_warnings: bool,
    /// The URL under which tools will be registered, when it was given.
    pub(crate) metadata_uri: Option<&'a str>,
}

/// A document and what was found in it.
#[derive(Debug)]
pub(crate) struct File {
    /// Where it came from.
    pub(crate) source: Source,
    /// Its bytes, after fixes if there were any.
    pub(crate) bytes: Vec<u8>,
    /// Its kind, if that is known.
    pub(crate) kind: Option<ManifestKind>,
    /// What was found.
    pub(crate) findings: Vec<Finding>,
    /// Canonical bytes and hash, unless there are none.
    pub(crate) canonical: Option<Canonical>,
    /// Fixes that were applied.
    pub(crate) applied: Vec<Applied>,
}

/// How many findings there are of each severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Errors.
    pub(crate) errors: usize,
    /// Warnings.
    pub(crate) warnings: usize,
    /// Hints.
    pub(crate) hints: usize,
}

impl CheckOptions<'_> {
    /// Reads and checks one input. Returns `None` for a file that was found in a folder and is not a manifest.
    pub(crate) fn answer(self, input: &Input) -> Result<Option<File>, Failure> {
        let bytes = input.source.read()?;
        let (kind, report) = self.check(&input.source, &bytes);
        if kind.is_none() && !input.named && !is_candidate(&input.source, &bytes, &report) {
            return Ok(None);
        }
        let Report { findings, canonical } = report;
        Ok(Some(File { source: input.source.clone(), bytes, kind, findings, canonical, applied: Vec::new() }))
    }

    /// Checks bytes that came from `source`.
    pub(crate) fn check(self, source: &Source, bytes: &[u8]) -> (Option<ManifestKind>, Report) {
        let (kind, mut report) = match self.kind {
            Some(kind) => (Some(kind), self.check_as(kind, source, bytes)),
            None => {
                let reading = json::read(bytes, Limits::default());
                match reading.document {
                    None => match kinds::check_records(bytes) {
                        Some(report) => (Some(ManifestKind::Agent), report),
                        None => (None, Report { findings: reading.findings.into_sorted(), canonical: None }),
                    },
                    Some(document) => match ManifestKind::detect(document.root()) {
                        Some(kind) => (Some(kind), self.check_as(kind, source, bytes)),
                        None => {
                            let mut report = kinds::check_json(bytes, self.mode);
                            report.findings.insert(0, Finding::new(codes::core::UNKNOWN_KIND));
                            (None, report)
                        }
                    },
                }
            }
        };
        if bytes.len() > MAX_BYTES {
            // Reading stopped one byte after the limit, so the reader cannot know the size.
            for finding in report.findings.iter_mut().filter(|finding| finding.code == codes::json::TOO_LARGE) {
                finding.got = Some("more than that".to_owned());
            }
        }
        (kind, report)
    }

    /// Returns the exit code for a tally.
    pub(crate) const fn verdict(self, tally: Tally) -> Exit {
        if tally.errors > 0 || (self.deny_warnings && tally.warnings > 0) { Exit::No } else { Exit::Yes }
    }

    fn check_as(self, kind: ManifestKind, source: &Source, bytes: &[u8]) -> Report {
        let place = PathHints { metadata_uri: self.metadata_uri.map(str::to_owned), ..source.place() };
        kinds::check(kind, bytes, self.mode, &place)
    }
}

impl File {
    /// Counts the findings.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for finding in &self.findings {
            match finding.severity {
                Severity::Error => tally.errors += 1,
                Severity::Warning => tally.warnings += 1,
                Severity::Hint => tally.hints += 1,
            }
        }
        tally
    }

    /// The file as an entry of `data.files` in the JSON envelope.
    pub(crate) fn to_json(&self, question: CheckOptions<'_>) -> Value {
        let lines = Lines::new(&self.bytes);
        json!({
            "path": self.source.name(),
            "kind": self.kind.map(ManifestKind::as_str),
            "as": question.mode,
            "ok": question.verdict(self.tally()) == Exit::Yes,
            "hash": self.canonical.as_ref().map(|canonical| canonical.hash().to_string()),
            "findings": self.findings.iter().map(|finding| finding_to_json(finding, &lines)).collect::<Vec<_>>(),
            "fixed": self.applied.iter().map(applied_to_json).collect::<Vec<_>>(),
        })
    }
}

impl Tally {
    /// Adds the counts of another tally.
    pub(crate) const fn add(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.hints += other.hints;
    }

    /// Returns the counts in words, such as "2 errors, 1 warning". Severities without findings are left out; the text is empty without
    /// findings.
    pub(crate) fn described(self) -> String {
        let parts = [(self.errors, "error"), (self.warnings, "warning"), (self.hints, "hint")];
        let parts: Vec<_> = parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| plural(count, what)).collect();
        parts.join(", ")
    }
}

/// Whether a file of unknown kind, found in a folder, is reported: it has the path of a manifest, or it is invalid JSON that was meant to
/// be a manifest. Other JSON files of a project are skipped, and so are settings with comments and large lock files.
fn is_candidate(source: &Source, bytes: &[u8], report: &Report) -> bool {
    let is_other = report.findings.iter().any(|finding| finding.code == codes::core::UNKNOWN_KIND);
    is_manifest_by_name(source) || (!is_other && mentions_a_manifest(bytes))
}

/// Whether the path is that of a manifest: in `.well-known/ai-tool`, or named `*.agt.json`.
fn is_manifest_by_name(source: &Source) -> bool {
    let Source::File(path) = source else { return false };
    path.parent().is_some_and(|folder| folder.ends_with(".well-known/ai-tool"))
        || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".agt.json"))
}

/// Whether a text contains a field by which manifest kinds are detected.
fn mentions_a_manifest(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    ["\"creatorAddress\"", "\"endpoint\"", "\"agt\"", "\"functions\""].iter().any(|key| text.contains(key))
}

/// "1 file", "2 files".
pub(crate) fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A fix as an entry of `fixed`.
fn applied_to_json(applied: &Applied) -> Value {
    json!({ "code": applied.code.id(), "title": applied.title, "pointer": applied.pointer, "line": applied.line })
}

/// A finding as JSON, with the title and hint of its code and its position in the text.
pub(crate) fn finding_to_json(finding: &Finding, lines: &Lines<'_>) -> Value {
    let mut value = json!(finding);
    if let Some(object) = value.as_object_mut() {
        let position = finding.span.map(|span| lines.position(span.start));
        object.insert("line".to_owned(), json!(position.map(|position| position.line)));
        object.insert("column".to_owned(), json!(position.map(|position| position.column)));
        let info = finding.code.info();
        object.insert("hint".to_owned(), json!(info.hint));
        object.insert("spec".to_owned(), json!(info.spec));
        object.insert("check".to_owned(), json!(info.check));
    }
    value
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn some_places_hold_only_manifests() {
        let check = |path: &str| is_manifest_by_name(&Source::from_argument(Path::new(path)));
        assert!(check("site/.well-known/ai-tool/x.json") && check(".well-known/ai-tool/x.json") && check("rain.agt.json"));
        assert!(!check("ai-tool/x.json") && !check("weather/manifest.json") && !check("-"));
    }
}
