//! Workflow commands: lines that GitHub Actions shows as annotations beside the code.

use std::fmt::Write;

use toolcrib_core::finding::{Finding, Severity};

use crate::check::File;
use crate::position::Lines;
use crate::printer::shown;

/// One line for each finding.
pub(crate) fn file(file: &File) -> String {
    let mut out = String::new();
    let lines = Lines::new(&file.bytes);
    let name = file.source.name();
    for finding in &file.findings {
        command(&mut out, finding, name.strip_prefix("./").unwrap_or(&name), &lines);
    }
    out
}

fn command(out: &mut String, finding: &Finding, name: &str, lines: &Lines<'_>) {
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "notice",
    };
    let _ = write!(out, "::{word} file={}", property(&shown(name)));
    if let Some(span) = finding.span.map(|span| lines.clamp(span)) {
        let (start, end) = (lines.position(span.start), lines.position(span.end));
        let _ = write!(out, ",line={},col={}", start.line, start.column);
        // The end is omitted for a span over several lines: a column of another line would mislead the reader.
        if end.line == start.line && end.column > start.column {
            let _ = write!(out, ",endLine={},endColumn={}", end.line, end.column);
        }
    }
    let mut message = shown(&finding.message);
    for (what, text) in [("expected", &finding.expected), ("got", &finding.got)] {
        if let Some(text) = text {
            let _ = write!(message, "\n{what}: {}", shown(text));
        }
    }
    let _ = write!(message, "\nhint: {}", finding.code.info().hint);
    let _ = writeln!(out, ",title={}::{}", property(finding.code.id()), data(&message));
}

/// Escapes the text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property, which must not hold the separators either.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use toolcrib_core::codes;
    use toolcrib_core::finding::Span;

    use super::*;

    #[test]
    fn separators_and_line_breaks_are_escaped() {
        let mut out = String::new();
        let finding =
            Finding::new(codes::json::SYNTAX).at_span(Span::new(0, 2)).message("50% of a\r\nb, c: d").got("::set-env x");
        command(&mut out, &finding, "a,b:c%\n.json", &Lines::new(b"[1]"));
        assert_eq!(
            out,
            "::error file=a%2Cb%3Ac%25\\u{a}.json,line=1,col=1,endLine=1,endColumn=3,title=json.syntax\
             ::50%25 of a\\u{d}\\u{a}b, c: d%0Agot: ::set-env x%0Ahint: correct the text at the marked position\n"
        );
    }
}
