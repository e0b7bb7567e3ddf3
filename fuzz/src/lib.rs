//! Properties that must hold for any bytes, shared by the fuzz targets.

use toolcrib_core::canon::Canonical;
use toolcrib_core::checked::{Checked, Manifest, Outcome, parse};
use toolcrib_core::codes::Code;
use toolcrib_core::finding::{Finding, Fix, GOT_MAX_CHARS, MAX_FINDINGS, Mode, Severity, Span};
use toolcrib_core::json::{Document, Limits, MAX_DEPTH, read};

/// Practically no size limit, for texts that we generated from bounded input.
pub const ROOMY: Limits = Limits { max_bytes: 1 << 28, max_depth: MAX_DEPTH };

/// Checks a manifest of kind `M` in both modes.
pub fn manifest<M: Manifest>(data: &[u8]) {
    let producer = parse::<M>(data, Mode::Producer);
    let consumer = parse::<M>(data, Mode::Consumer);
    assert_eq!(hash(&producer), hash(&consumer), "the hash does not depend on who asks");
    if producer.conformant().is_some() {
        let errors: Vec<_> = consumer.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(consumer.conformant().is_some(), "producers are held to more than consumers: {errors:?}");
    }
    for (mode, checked) in [(Mode::Producer, producer), (Mode::Consumer, consumer)] {
        findings(data, &checked.findings);
        verdict::<M>(mode, &checked);
    }
}

fn hash<M>(checked: &Checked<M>) -> Option<&Canonical> {
    checked.canonical()
}

/// The verdict and the findings agree, and the canonical form of a conformant manifest is conformant.
fn verdict<M: Manifest>(mode: Mode, checked: &Checked<M>) {
    let has_error = checked.findings.iter().any(|finding| finding.severity == Severity::Error);
    match &checked.outcome {
        Outcome::Conformant(sealed) => {
            assert!(!has_error, "conformant beside an error: {:?}", checked.findings);
            let canonical = sealed.canonical();
            // Numbers can be longer in canonical form.
            if canonical.as_bytes().len() <= M::LIMITS.max_bytes {
                let again = parse::<M>(canonical.as_bytes(), mode);
                let same = again.conformant().map(|sealed| sealed.canonical());
                assert_eq!(same, Some(canonical), "the canonical form is the same manifest: {:?}", again.findings);
            }
        }
        Outcome::Flawed(_) | Outcome::Unreadable => assert!(has_error, "refused without an error: {:?}", checked.findings),
    }
}

/// Findings can be displayed: their spans are inside the source, at character boundaries, and their fixes produce JSON.
pub fn findings(data: &[u8], findings: &[Finding]) {
    assert!(findings.len() <= MAX_FINDINGS + 1);
    let source = std::str::from_utf8(data).ok();
    for finding in findings {
        assert_eq!(Code::find(finding.code.id()), Some(finding.code), "every code is in the table");
        assert!(finding.pointer.is_empty() || finding.pointer.starts_with('/'), "{finding:?}");
        assert!(!finding.message.is_empty() && !finding.message.ends_with('.'), "{finding:?}");
        if let Some(got) = &finding.got {
            assert!(got.chars().count() <= GOT_MAX_CHARS + 1, "{finding:?}");
        }
        if let Some(span) = finding.span {
            inside(data, source, span, finding);
        }
        if let (Some(fix), Some(source)) = (&finding.fix, source) {
            for edit in &fix.edits {
                inside(data, Some(source), edit.span, finding);
            }
            fixed(source, fix, finding);
        }
    }
}

#[track_caller]
fn inside(data: &[u8], source: Option<&str>, span: Span, finding: &Finding) {
    assert!(span.start <= span.end && span.end <= data.len(), "{finding:?}");
    if let Some(source) = source {
        assert!(source.is_char_boundary(span.start) && source.is_char_boundary(span.end), "{finding:?}");
    }
}

/// A fix never turns JSON into something else, nor a document with a hash into one without.
fn fixed(source: &str, fix: &Fix, finding: &Finding) {
    let mut edits: Vec<_> = fix.edits.iter().collect();
    edits.sort_by_key(|edit| edit.span.start);
    assert!(!edits.is_empty(), "{finding:?}");
    let mut text = String::with_capacity(source.len());
    let mut from = 0;
    for edit in edits {
        assert!(from <= edit.span.start, "edits overlap: {finding:?}");
        text.push_str(&source[from..edit.span.start]);
        text.push_str(&edit.replacement);
        from = edit.span.end;
    }
    text.push_str(&source[from..]);
    let (before, after) = (read(source.as_bytes(), ROOMY).document, read(text.as_bytes(), ROOMY).document);
    let hashable = |document: Option<&Document>| document.is_some_and(Document::is_canonicalisable);
    assert!(before.is_none() || after.is_some(), "the fix broke the JSON: {finding:?}\n{text}");
    assert!(!hashable(before.as_ref()) || hashable(after.as_ref()), "the fix took the hash away: {finding:?}\n{text}");
}
