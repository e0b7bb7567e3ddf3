//! The human-readable report, in the style of rustc.

use std::fmt::Write;

use toolcrib_core::finding::{Finding, Severity};

use super::snippet::Snippet;
use crate::check::{File, Tally, plural};
use crate::outcome::Exit;
use crate::position::Lines;
use crate::printer::{Paint, shown};

/// The report about one file: fixes first, then the remaining findings.
pub(crate) fn file(file: &File, paint: Paint) -> String {
    let mut out = fixed(file, paint);
    if !out.is_empty() {
        out.push('\n');
    }
    let name = shown(&file.source.name());
    let lines = Lines::new(&file.bytes);
    for found in &file.findings {
        finding(&mut out, found, &name, &lines, paint);
        out.push('\n');
    }
    out
}

/// The fixes of one file.
pub(crate) fn fixed(file: &File, paint: Paint) -> String {
    let mut out = String::new();
    let name = shown(&file.source.name());
    for applied in &file.applied {
        let what = format!("{name}:{}: {} ({})", applied.line, shown(&applied.title), applied.code);
        line(&mut out, &format!("{} {what}", paint.good("fixed")));
    }
    out
}

/// A finding in one line, for stderr.
pub(crate) fn short(finding: &Finding, name: &str, lines: &Lines<'_>, paint: Paint) -> String {
    let place =
        finding.span.map(|span| lines.position(span.start)).map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
    format!("{}{place}: {}: {}\n", shown(name), label(finding, paint), shown(&finding.message))
}

/// The last line of a report.
pub(crate) fn summary(files: usize, skipped: usize, fixed: usize, tally: Tally, exit: Exit, paint: Paint) -> String {
    let mut out = format!("{} checked", plural(files, "file"));
    if skipped > 0 {
        let _ = write!(out, ", {skipped} skipped");
    }
    if fixed > 0 {
        let _ = write!(out, ", {fixed} fixed");
    }
    let found = tally.described();
    let found = if found.is_empty() { "no findings".to_owned() } else { found };
    let found = match exit {
        Exit::Yes => paint.good(&found),
        _ => paint.error(&found),
    };
    let _ = writeln!(out, ": {found}");
    out
}

fn finding(out: &mut String, finding: &Finding, name: &str, lines: &Lines<'_>, paint: Paint) {
    line(out, &format!("{}: {}", label(finding, paint), paint.strong(&shown(&finding.message))));
    let info = finding.code.info();
    let snippet =
        finding.span.filter(|_| !lines.bytes().is_empty()).map(|span| (Snippet::new(lines, span), lines.position(span.start)));
    let gutter = snippet.as_ref().map_or(1, |(snippet, _)| snippet.line.to_string().len());
    let margin = " ".repeat(gutter);
    let bar = paint.frame("|");
    match &snippet {
        None => line(out, &format!("{margin}{} {name}", paint.frame("-->"))),
        Some((snippet, at)) => {
            line(out, &format!("{margin}{} {name}:{}:{}", paint.frame("-->"), at.line, at.column));
            line(out, &format!("{margin} {bar}"));
            line(out, &format!("{} {bar} {}", paint.frame(&snippet.line.to_string()), snippet.text));
            let mark = by_severity(finding.severity, paint, &"^".repeat(snippet.width));
            line(out, &format!("{margin} {bar} {}{mark}", " ".repeat(snippet.indent)));
        }
    }
    let mut fact = |what: &str, text: &str| {
        line(out, &format!("{margin} {} {}: {}", paint.frame("="), paint.strong(what), shown(text)));
    };
    if !finding.pointer.is_empty() {
        fact("at", &finding.pointer);
    }
    if let Some(expected) = &finding.expected {
        fact("expected", expected);
    }
    if let Some(got) = &finding.got {
        fact("got", got);
    }
    fact("hint", info.hint);
    if let Some(fix) = &finding.fix {
        fact("fix", &format!("{} (--fix does it)", fix.title));
    }
    fact("spec", info.spec);
}

fn label(finding: &Finding, paint: Paint) -> String {
    by_severity(finding.severity, paint, &format!("{}[{}]", finding.severity, finding.code))
}

fn by_severity(severity: Severity, paint: Paint, text: &str) -> String {
    match severity {
        Severity::Error => paint.error(text),
        Severity::Warning => paint.warning(text),
        Severity::Hint => paint.hint(text),
    }
}

/// Adds a line without trailing spaces.
fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}
