//! `explain`: describes a code.

use serde_json::{Value, json};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::near;

use crate::cli::Explain;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Largest edit distance between a typed code and the suggested one.
const MAX_DISTANCE: usize = 4;

/// Longest word that is compared with the codes. Every code is less than half as long, and the cost grows with the length.
const MAX_TYPED: usize = 80;

/// Runs the command.
pub(crate) fn run(arguments: &Explain, printer: &mut Printer) -> Result<Done, Stop> {
    let Some(typed) = &arguments.code else { return list(printer) };
    let Some(code) = Code::find(typed) else {
        let mut failure = Failure::new(codes::cli::UNKNOWN_CODE, format!("unknown code `{typed}`"));
        if let Some(near) = nearest(typed) {
            failure = failure.hint(format!("did you mean {near}?"));
        }
        printer.failure(&failure)?;
        return Ok(Done::new(Exit::No, json!(null)));
    };
    let info = code.info();
    let paint = printer.paint();
    let mut text = format!("{}: {}\n\n", paint.strong(info.id), info.title);
    for paragraph in [info.explanation.to_owned(), format!("What to do: {}.", info.hint)] {
        text += &wrapped(&paragraph);
        text.push('\n');
    }
    text += &format!("Severity: {}\nSource: {}\n", info.severity, info.spec);
    if let Some(check) = info.check {
        text += &format!("Fails: check {check} of ERC-8257 §7, so readers treat the tool as unverified\n");
    }
    printer.result(&text)?;
    Ok(Done::new(Exit::Yes, to_json(code)))
}

fn list(printer: &mut Printer) -> Result<Done, Stop> {
    let width = codes::all().map(|code| code.id().len()).max().unwrap_or_default();
    for code in codes::all() {
        printer.result(&format!("{:width$}  {:7}  {}\n", code.id(), code.severity().as_str(), code.title()))?;
    }
    Ok(Done::new(Exit::Yes, json!({ "codes": codes::all().map(to_json).collect::<Vec<_>>() })))
}

fn to_json(code: Code) -> Value {
    let info = code.info();
    json!({
        "code": info.id,
        "severity": info.severity,
        "title": info.title,
        "explanation": info.explanation,
        "hint": info.hint,
        "spec": info.spec,
        "check": info.check,
    })
}

/// Breaks a paragraph into lines of at most 80 columns.
fn wrapped(paragraph: &str) -> String {
    let mut out = String::new();
    let mut columns = 0;
    for word in paragraph.split_whitespace() {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > 80 {
            out.push('\n');
            columns = 0;
        } else if columns > 0 {
            out.push(' ');
            columns += 1;
        }
        out.push_str(word);
        columns += width;
    }
    out.push('\n');
    out
}

/// The suggested code: equal except for letter case, equal without its group, or the nearest one.
fn nearest(typed: &str) -> Option<&'static str> {
    if typed.len() > MAX_TYPED {
        return None;
    }
    let typed = typed.to_lowercase().replace('-', "_");
    let name_of = |id: &'static str| id.split_once('.').map_or(id, |(_, name)| name);
    if let Some(code) = codes::all().find(|code| code.id() == typed || name_of(code.id()) == typed) {
        return Some(code.id());
    }
    let distance = |id: &str| near::slips(typed.as_bytes(), id.as_bytes());
    codes::all()
        .map(|code| (distance(code.id()).min(distance(name_of(code.id()))), code.id()))
        .filter(|(distance, _)| *distance <= MAX_DISTANCE.min(typed.len() / 2))
        .min()
        .map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_understood() {
        assert_eq!(nearest("json.duplicat_key"), Some("json.duplicate_key"));
        assert_eq!(nearest("JSON.BOM"), Some("json.bom"));
        assert_eq!(nearest("duplicate-key"), Some("json.duplicate_key"));
        assert_eq!(nearest("xyzzy"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest(&"a".repeat(1_000_000)), None);
    }
}
