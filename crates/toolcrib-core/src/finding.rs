//! Findings: statements about a manifest.
//!
//! A finding is not an error. An error means that the question could not be answered; a finding says what is wrong, where, what was
//! expected, and how to fix it. Checks collect every finding instead of stopping at the first one.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::codes::{self, Code};
use crate::json::Value;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Useful to know; nothing breaks.
    Hint,
    /// Legal, but likely to cause problems: listings reject it, agents fail on it, or it hides a mistake.
    Warning,
    /// Breaks a rule. A manifest with an error is not conformant.
    Error,
}

impl Severity {
    /// The lowercase word used in all output formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A half-open range of bytes in the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// A span from its two ends.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

/// One replacement of source bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Edit {
    /// The bytes to replace; an empty span inserts.
    pub span: Span,
    /// The new text, already escaped for its position in the JSON source.
    pub replacement: String,
}

/// A change that software may apply without asking, because it cannot alter what the author meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Fix {
    /// What the fix does, as an imperative: "lowercase the address".
    pub title: String,
    /// The replacements. They never overlap.
    pub edits: Vec<Edit>,
}

impl Fix {
    /// Returns a fix that replaces `value` by the JSON string `text`.
    pub(crate) fn replace_string(value: Value<'_>, title: &str, text: &str) -> Self {
        let mut replacement = String::with_capacity(text.len() + 2);
        crate::canon::write_string(text, &mut replacement);
        Self { title: title.to_owned(), edits: vec![Edit { span: value.span(), replacement }] }
    }
}

/// One statement about a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the finding.
    #[serde(serialize_with = "code_as_id")]
    pub code: Code,
    /// The severity in this case. Usually that of the code; some rules are milder for consumers than for producers.
    pub severity: Severity,
    /// RFC 6901 pointer to the affected value; empty for the whole document.
    pub pointer: String,
    /// The position in the source, if the source is known.
    pub span: Option<Span>,
    /// One sentence about this case: lowercase start, no full stop.
    pub message: String,
    /// What the rule requires.
    pub expected: Option<String>,
    /// The actual value. Untrusted text: escape it before it is written to a terminal or a page.
    pub got: Option<String>,
    /// A machine-applicable fix, if there is a safe one.
    pub fix: Option<Fix>,
}

impl Finding {
    /// A finding with the title and severity of the code, about the whole document.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            severity: code.severity(),
            pointer: String::new(),
            span: None,
            message: code.title().to_owned(),
            expected: None,
            got: None,
            fix: None,
        }
    }

    /// Points the finding at `value`.
    #[must_use]
    pub fn at(mut self, value: Value<'_>) -> Self {
        self.pointer = value.pointer();
        self.span = Some(value.span());
        self
    }

    /// Points the finding at the key of `value`, if `value` is a member of an object.
    #[must_use]
    pub fn at_key(mut self, value: Value<'_>) -> Self {
        self.pointer = value.pointer();
        self.span = Some(value.key_span().unwrap_or_else(|| value.span()));
        self
    }

    /// Points the finding at a missing member of `object`: the pointer names it, the span is the opening brace.
    #[must_use]
    pub fn at_missing(mut self, object: Value<'_>, key: &str) -> Self {
        self.pointer = object.pointer();
        self.pointer.push('/');
        crate::json::push_pointer_token(&mut self.pointer, key);
        let start = object.span().start;
        self.span = Some(Span::new(start, start + 1));
        self
    }

    /// Points the finding at source bytes that do not belong to a value.
    #[must_use]
    pub fn at_span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets what the rule requires.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Sets the actual value, shortened to [`GOT_MAX_CHARS`].
    #[must_use]
    pub fn got(mut self, got: impl AsRef<str>) -> Self {
        self.got = Some(shorten(got.as_ref()));
        self
    }

    /// Adds a fix.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Overrides the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

/// Longest excerpt of untrusted text in a finding. Enough to recognise a value, short enough for one line.
pub const GOT_MAX_CHARS: usize = 120;

/// Most findings kept for one document. More would not help the author, and a hostile file must not fill memory.
pub const MAX_FINDINGS: usize = 256;

/// Collects findings.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    suppressed: usize,
    errors: usize,
}

impl Findings {
    /// An empty list.
    pub const fn new() -> Self {
        Self { list: Vec::new(), suppressed: 0, errors: 0 }
    }

    /// Adds a finding. Beyond [`MAX_FINDINGS`] it is only counted.
    pub fn push(&mut self, finding: Finding) {
        self.errors += usize::from(finding.severity == Severity::Error);
        if self.list.len() < MAX_FINDINGS {
            self.list.push(finding);
        } else {
            self.suppressed += 1;
        }
    }

    /// Adds all of `findings`.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.push(finding);
        }
    }

    /// Removes every fix so far for which `may_stay` returns false: parts of a document may be signed.
    pub(crate) fn retain_fixes(&mut self, may_stay: impl Fn(&Fix) -> bool) {
        for finding in &mut self.list {
            finding.fix.take_if(|fix| !may_stay(fix));
        }
    }

    /// Whether any finding, kept or only counted, is an error.
    pub const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether further findings are only counted. Creating one requires a walk to its pointer, so loops over untrusted values check this
    /// first; otherwise many bad values in one long list take quadratic time.
    pub const fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    /// Whether there is no finding.
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The findings kept so far.
    pub fn as_slice(&self) -> &[Finding] {
        &self.list
    }

    /// The findings in source order, followed by [`codes::core::TOO_MANY_FINDINGS`] if some were dropped.
    pub fn into_sorted(mut self) -> Vec<Finding> {
        self.list.sort_by_key(|finding| finding.span.map_or(0, |span| span.start));
        if self.suppressed > 0 {
            let more = self.suppressed;
            self.list.push(
                Finding::new(codes::core::TOO_MANY_FINDINGS)
                    .message(format!("{more} further findings are not shown"))
                    .severity(if self.errors > 0 { Severity::Error } else { Severity::Hint }),
            );
        }
        self.list
    }
}

/// The role of the user. Some rules are stricter for authors of manifests than for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The author, before publishing: everything that a stricter reader could reject is an error.
    Producer,
    /// A reader of a third party's manifest: only what the specification requires readers to reject is an error.
    Consumer,
}

impl Mode {
    /// [`Severity::Error`] for producers, `otherwise` for consumers.
    pub const fn strict(self, otherwise: Severity) -> Severity {
        match self {
            Self::Producer => Severity::Error,
            Self::Consumer => otherwise,
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(GOT_MAX_CHARS) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn code_as_id<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_past_the_cap_are_counted_and_still_decide() {
        let mut findings = Findings::new();
        for _ in 0..MAX_FINDINGS {
            findings.push(Finding::new(codes::core::TOO_MANY_FINDINGS).severity(Severity::Hint));
        }
        assert!(!findings.has_errors());
        findings.push(Finding::new(codes::json::BOM));
        assert!(findings.has_errors(), "an error past the cap still counts");
        let list = findings.into_sorted();
        assert_eq!(list.len(), MAX_FINDINGS + 1);
        assert_eq!(list[MAX_FINDINGS].severity, Severity::Error);
        assert_eq!(list[MAX_FINDINGS].message, "1 further findings are not shown");
    }

    #[test]
    fn long_foreign_text_is_cut_at_a_character() {
        let finding = Finding::new(codes::json::BOM).got("é".repeat(500));
        assert_eq!(finding.got.expect("set above").chars().count(), GOT_MAX_CHARS + 1);
    }
}
