//! Parsing and checking of manifests: the steps that the three manifest kinds share.
//!
//! A kind defines its checks by implementing [`Manifest`]; [`parse`] reads the bytes, applies the rules of every kind, runs the checks of
//! this kind, and seals the result. All findings are collected, even after errors.

use std::ops::RangeInclusive;

use crate::canon::{Canonical, Sealed};
use crate::codes::{self, Code};
use crate::finding::{Finding, Findings, Fix, Mode, Severity};
use crate::json::{self, Array, Document, Kind, Limits, Object, PrecisionLoss, Value};
use crate::{secrets, text};

/// A kind of manifest.
pub trait Manifest: Sized {
    /// The parsed fields that the checks produce, without the document itself.
    type View;

    /// The largest document that is read.
    const LIMITS: Limits;

    /// Most values and keys that are read. For kinds that untrusted servers provide and that readers with little memory parse.
    const MAX_VALUES: usize = usize::MAX;

    /// Whether readers only warn about depth and number of values, because the standard limits neither.
    const READS_ON: bool = false;

    /// The severity of a string value that is not in NFC.
    const NFC: Severity;

    /// Checks the root object. The view is used only if no finding is an error, so `None` may mean "not all parts could be parsed" if an
    /// error was reported.
    fn check(root: Object<'_>, context: &mut Context) -> Option<Self::View>;

    /// Combines a document and the view that [`check`](Self::check) returned.
    fn assemble(document: Document, view: Self::View) -> Self;
}

/// JSON of an unknown kind: only the rules for every document apply, including NFC.
#[derive(Clone, Debug)]
pub struct AnyJson(Document);

impl AnyJson {
    /// The parsed document.
    pub const fn document(&self) -> &Document {
        &self.0
    }
}

impl Manifest for AnyJson {
    type View = ();

    const LIMITS: Limits = Limits { max_bytes: json::MAX_BYTES, max_depth: json::MAX_DEPTH };

    const NFC: Severity = Severity::Error;

    fn check(_root: Object<'_>, _context: &mut Context) -> Option<()> {
        Some(())
    }

    fn assemble(document: Document, (): ()) -> Self {
        Self(document)
    }
}

/// The result of checking a document.
#[derive(Clone, Debug)]
pub struct Checked<M> {
    /// All findings, in source order.
    pub findings: Vec<Finding>,
    /// Whether the document is conformant, flawed or unreadable.
    pub outcome: Outcome<M>,
}

/// Whether a document is conformant, flawed or unreadable.
#[derive(Clone, Debug)]
pub enum Outcome<M> {
    /// No finding is an error.
    Conformant(Sealed<M>),
    /// At least one finding is an error, but the document has canonical bytes and a hash.
    Flawed(Sealed<Document>),
    /// The bytes have no canonical form.
    Unreadable,
}

impl<M> Checked<M> {
    /// Returns the manifest if no finding is an error.
    pub const fn conformant(&self) -> Option<&Sealed<M>> {
        match &self.outcome {
            Outcome::Conformant(sealed) => Some(sealed),
            _ => None,
        }
    }

    /// Returns the manifest, or the findings if one of them is an error.
    pub fn into_result(self) -> Result<Sealed<M>, Vec<Finding>> {
        match self.outcome {
            Outcome::Conformant(sealed) => Ok(sealed),
            _ => Err(self.findings),
        }
    }

    /// Canonical bytes and hash, which a flawed document has too.
    pub const fn canonical(&self) -> Option<&Canonical> {
        match &self.outcome {
            Outcome::Conformant(sealed) => Some(sealed.canonical()),
            Outcome::Flawed(sealed) => Some(sealed.canonical()),
            Outcome::Unreadable => None,
        }
    }

    /// Whether a finding with this code is present.
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }
}

/// Parses, checks and seals a manifest of kind `M`.
pub fn parse<M: Manifest>(bytes: &[u8], mode: Mode) -> Checked<M> {
    let read = if M::READS_ON && mode == Mode::Consumer { json::read_foreign } else { json::read_up_to };
    let reading = read(bytes, M::LIMITS, M::MAX_VALUES);
    let mut context = Context { mode, findings: reading.findings };
    let Some(document) = reading.document else {
        return Checked { findings: context.findings.into_sorted(), outcome: Outcome::Unreadable };
    };
    context.document_rules(&document, M::NFC);
    if mode == Mode::Producer {
        // A secret that is published is already lost, so only producers are warned.
        secrets::check(document.root(), &mut context);
    }
    let view = match document.root().as_object() {
        Some(root) => M::check(root, &mut context),
        None => {
            context
                .report(Finding::new(codes::manifest::NOT_AN_OBJECT).at(document.root()).got(document.root().kind().described()));
            None
        }
    };
    let outcome = match (Canonical::of(&document), view) {
        (None, _) => Outcome::Unreadable,
        (Some(canonical), Some(view)) if !context.findings.has_errors() => {
            Outcome::Conformant(Sealed::new(M::assemble(document, view), canonical))
        }
        (Some(canonical), _) => Outcome::Flawed(Sealed::new(document, canonical)),
    };
    Checked { findings: context.findings.into_sorted(), outcome }
}

/// Longest text in bytes for which a fix is offered to readers. Descriptions have at most 500 characters.
const MAX_FOREIGN_FIX: usize = 4_096;

/// The state of a check: the mode and the findings.
#[derive(Clone, Debug)]
pub struct Context {
    /// The mode: producer or consumer.
    pub mode: Mode,
    /// The findings so far.
    pub findings: Findings,
}

impl Context {
    /// A fresh context.
    pub const fn new(mode: Mode) -> Self {
        Self { mode, findings: Findings::new() }
    }

    /// Adds a finding.
    pub fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Points `finding` at `value`, unless it will only be counted: computing a pointer walks over siblings and must not be done for every
    /// entry of a long list. Loops over untrusted values use this instead of [`Finding::at`].
    pub fn place(&self, finding: Finding, value: Value<'_>) -> Finding {
        if self.findings.is_full() { finding } else { finding.at(value) }
    }

    /// Like [`place`](Self::place), for the key of a member.
    pub fn place_key(&self, finding: Finding, value: Value<'_>) -> Finding {
        if self.findings.is_full() { finding } else { finding.at_key(value) }
    }

    /// Returns `found`, or reports that `object` lacks `key`.
    pub fn required<'d>(&mut self, object: Object<'d>, key: &str, found: Option<Value<'d>>) -> Option<Value<'d>> {
        if found.is_none() {
            let mut finding = Finding::new(codes::manifest::FIELD_MISSING).message(format!("`{key}` is missing"));
            if !self.findings.is_full() {
                finding = finding.at_missing(object.value(), key);
            }
            self.report(finding);
        }
        found
    }

    /// Returns the text of a string, or reports that the value is not a string.
    pub fn string<'d>(&mut self, value: Value<'d>) -> Option<&'d str> {
        self.typed(value, Kind::String, value.as_str())
    }

    /// Returns the members of an object, or reports that the value is not an object.
    pub fn object<'d>(&mut self, value: Value<'d>) -> Option<Object<'d>> {
        self.typed(value, Kind::Object, value.as_object())
    }

    /// Returns the elements of an array, or reports that the value is not an array.
    pub fn array<'d>(&mut self, value: Value<'d>) -> Option<Array<'d>> {
        self.typed(value, Kind::Array, value.as_array())
    }

    /// Returns a boolean, or reports that the value is not a boolean.
    pub fn boolean(&mut self, value: Value<'_>) -> Option<bool> {
        self.typed(value, Kind::Bool, value.as_bool())
    }

    fn typed<T>(&mut self, value: Value<'_>, wanted: Kind, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let finding = Finding::new(codes::manifest::WRONG_TYPE)
                .message(format!("this must be {}", wanted.described()))
                .expected(wanted.described())
                .got(value.kind().described());
            self.report(self.place(finding, value));
        }
        found
    }

    /// Reports `code` unless the text has a number of code points within `allowed`.
    pub fn code_points(&mut self, value: Value<'_>, text: &str, allowed: RangeInclusive<usize>, code: Code) {
        // The number of bytes is an upper bound of the code points, and most texts are far below every limit.
        if !text.is_empty() && text.len() <= *allowed.end() && *allowed.start() <= 1 {
            return;
        }
        let count = text::code_points(text);
        if !allowed.contains(&count) {
            self.report(
                Finding::new(code)
                    .at(value)
                    .expected(format!("{} to {} characters (Unicode code points)", allowed.start(), allowed.end()))
                    .got(format!("{count}")),
            );
        }
    }

    /// Rules about strings and numbers anywhere in the document.
    ///
    /// A hostile file violates them a hundred thousand times, and computing the pointer of a value takes a walk over its siblings. So
    /// findings that are only counted get no pointer.
    fn document_rules(&mut self, document: &Document, nfc: Severity) {
        for (value, loss) in document.lossy_numbers() {
            let finding = match loss {
                PrecisionLoss::Digits => Finding::new(codes::json::NUMBER_IMPRECISE)
                    .severity(self.mode.strict(Severity::Warning))
                    .expected("an integer within plus or minus 9007199254740991")
                    .got(value.source()),
                PrecisionLoss::Everything => Finding::new(codes::json::NUMBER_UNDERFLOW).got(value.source()),
            };
            self.report(if self.findings.is_full() { finding } else { finding.at(value) });
        }
        for string in document.non_ascii_strings() {
            if !text::is_normalized(string.as_str()) {
                let (code, severity) = if string.is_key() {
                    (codes::json::KEY_NOT_NFC, self.mode.strict(Severity::Warning))
                } else {
                    (codes::json::NOT_NFC, nfc)
                };
                let mut finding = Finding::new(code).severity(severity).got(string.as_str());
                // A key is a name that other places refer to, and its normal form may already be in use, so it gets no fix. Long texts of
                // third parties get none either: their readers do not need a fix of a megabyte.
                if !string.is_key() && (self.mode == Mode::Producer || string.as_str().len() <= MAX_FOREIGN_FIX) {
                    let mut replacement = String::new();
                    crate::canon::write_string(&text::normalize(string.as_str()), &mut replacement);
                    let edit = crate::finding::Edit { span: string.span(), replacement };
                    finding = finding.fix(Fix { title: "normalise the text to NFC".to_owned(), edits: vec![edit] });
                }
                self.report_text(string, finding);
            }
            if let Some(c) = string.as_str().chars().find(|&c| text::is_unassigned(c)) {
                self.report_text(string, Finding::new(codes::json::UNASSIGNED).got(format!("U+{:04X}", u32::from(c))));
            }
        }
    }

    fn report_text(&mut self, string: json::Text<'_>, mut finding: Finding) {
        if !self.findings.is_full() {
            finding = finding.at_span(string.span());
            finding.pointer = string.pointer();
        }
        self.report(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_are_only_counted_are_counted_right() {
        let bad = ["\"e\u{301}\"", "12345678901234567890", "1e-999", "\"\u{378}\""];
        for (at, (value, severity)) in
            bad.into_iter().zip([Severity::Error, Severity::Error, Severity::Warning, Severity::Warning]).enumerate()
        {
            let text = format!("{{\"list\": [{}]}}", vec![value; 40_000].join(","));
            let checked = parse::<AnyJson>(text.as_bytes(), Mode::Producer);
            let last = checked.findings.last().expect("many findings");
            assert_eq!(last.message, "39744 further findings are not shown", "case {at}");
            assert_eq!(checked.conformant().is_none(), severity == Severity::Error, "case {at}");
        }
    }
}
