//! Prints responses of a directory, which are untrusted input.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::source::{Form, Reply, Source};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// The widest column of a table.
const MAX_COLUMN: usize = 48;

/// How to print.
#[derive(Args, Clone, Debug)]
pub(crate) struct Printing {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    pub(crate) format: Shape,
    /// Fields to print, comma-separated
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Maximum number of lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_lines: Option<u64>,
}

/// A way to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Columns for lists, otherwise one field per line
    Table,
    /// The JSON response, indented
    Json,
    /// Compact text for agents
    Toon,
}

/// A request, and how its rows are shown.
pub(crate) struct ListRequest<'q> {
    pub(crate) path: String,
    pub(crate) query: Vec<(&'q str, String)>,
    /// The member of the response that contains the rows, if it is a list.
    pub(crate) rows: Option<&'static str>,
    /// The columns of a table. A dot separates nested members.
    pub(crate) columns: &'static [&'static str],
}

/// Sends the request and prints the response.
pub(crate) async fn ask(
    source: &Source,
    question: &ListRequest<'_>,
    printing: &Printing,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    // The compact text form has no fields to select.
    let is_text = printing.format == Shape::Toon && printing.fields.is_empty() && !printer.json();
    let form = if is_text { Form::Markdown } else { Form::Json };
    let reply = source.get(&question.path, &question.query, form).await?;
    reply.expect_success(printer)?;
    if is_text {
        let text = String::from_utf8_lossy(&reply.body);
        let text: String = text.lines().map(|line| shown(line) + "\n").collect();
        printer.result(&cut(&text, printing.max_lines))?;
        return Ok(Done::new(Exit::Yes, Value::Null));
    }
    let mut answer = read(&reply)?;
    if !printing.fields.is_empty() {
        answer = picked(answer, question.rows, &printing.fields);
    }
    let text = match printing.format {
        Shape::Json | Shape::Toon => inert(&answer),
        Shape::Table => match question.rows.and_then(|rows| answer[rows].as_array()) {
            Some(rows) => table(rows, question.columns, &printing.fields),
            None => lines(&answer),
        },
    };
    printer.result(&cut(&text, printing.max_lines))?;
    if let (Shape::Table, Some(rows)) = (printing.format, question.rows) {
        if answer[rows].as_array().is_none_or(Vec::is_empty) {
            printer.note("nothing found")?;
        }
        if let Some(next) = answer["next"].as_str() {
            printer.note(&format!("more results: --next {}", shown(next)))?;
        }
    }
    Ok(Done::new(Exit::Yes, answer))
}

fn read(reply: &Reply) -> Result<Value, Failure> {
    let what = "the directory's answer is not JSON";
    let answer: Value =
        serde_json::from_slice(&reply.body).map_err(|_| Failure::new(toolcrib_core::codes::cli::DIRECTORY, what))?;
    if answer.is_object() { Ok(answer) } else { Err(Failure::new(toolcrib_core::codes::cli::DIRECTORY, what)) }
}

/// Selects some fields of the response, or of each row.
fn picked(answer: Value, rows: Option<&str>, fields: &[String]) -> Value {
    let pick = |value: &Value| {
        let object: Map<_, _> = fields.iter().filter_map(|field| Some((field.clone(), value.get(field)?.clone()))).collect();
        Value::Object(object)
    };
    match rows.and_then(|rows| Some((rows, answer[rows].as_array()?))) {
        Some((rows, list)) => {
            let list: Vec<_> = list.iter().map(pick).collect();
            match answer.get("next") {
                Some(next) => json!({ rows: list, "next": next }),
                None => json!({ rows: list }),
            }
        }
        None => pick(&answer),
    }
}

/// Indented JSON in which characters that could control a terminal are escaped.
fn inert(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(|line| shown(line) + "\n").collect()
}

fn table(rows: &[Value], columns: &[&str], fields: &[String]) -> String {
    let columns: Vec<&str> = if fields.is_empty() { columns.to_vec() } else { fields.iter().map(String::as_str).collect() };
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| cell(member(row, column))).collect()).collect();
    let head: Vec<String> =
        columns.iter().map(|column| shown(&column.rsplit('.').next().unwrap_or_default().to_uppercase())).collect();
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(n, name)| cells.iter().map(|row| row[n].width()).chain([name.width()]).max().unwrap_or_default())
        .collect();
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    for row in std::iter::once(&head).chain(&cells) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(cell.width()) + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A member, or a nested member.
fn member<'v>(row: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(row, |value, name| &value[name])
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    };
    let text = shown(&text);
    if text.width() <= MAX_COLUMN {
        return text;
    }
    let mut short: String = text.chars().take(MAX_COLUMN - 1).collect();
    short.push('…');
    short
}

/// One field per line.
fn lines(answer: &Value) -> String {
    let Some(object) = answer.as_object() else { return String::new() };
    let width = object.keys().map(|key| key.width()).max().unwrap_or_default() + 2;
    let value = |value: &Value| match value {
        Value::String(text) => shown(text),
        other => shown(&other.to_string()),
    };
    object
        .iter()
        .filter(|(_, member)| !member.is_null())
        .map(|(key, member)| format!("{:<width$}{}\n", shown(key), value(member)))
        .collect()
}

fn cut(text: &str, most: Option<u64>) -> String {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    text.split_inclusive('\n').take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_inert() {
        let rows = [json!({ "name": "tides\u{1b}[31m", "tool_id": "7" }), json!({ "name": "潮", "tool_id": 12 })];
        let text = table(&rows, &["name", "tool_id", "tags"], &[]);
        assert!(!text.contains('\u{1b}'), "{text}");
        let places: Vec<_> = text.lines().map(|line| line.split_whitespace().count()).collect();
        assert_eq!(places, [3, 2, 2]);
        assert_eq!(table(&rows, &["name"], &["tool_id".to_owned()]).lines().next(), Some("TOOL_ID"));
        assert_eq!(table(&[], &["name"], &[]), "");
        let deep = [json!({ "parts": { "text": 1.23456, "more": null } }), json!({ "parts": "none" })];
        assert_eq!(table(&deep, &["parts.text", "parts.more", "gone.too"], &[]), "TEXT   MORE  TOO\n1.235\n\n");
    }

    #[test]
    fn fields_are_picked_of_rows() {
        let answer = json!({ "tools": [{ "a": 1, "b": 2 }], "next": "x", "c": 3 });
        assert_eq!(picked(answer.clone(), Some("tools"), &["b".to_owned()]), json!({ "tools": [{ "b": 2 }], "next": "x" }));
        assert_eq!(picked(answer, None, &["c".to_owned(), "d".to_owned()]), json!({ "c": 3 }));
        assert_eq!(cut("a\nb\nc\n", Some(2)), "a\nb\n");
    }
}
