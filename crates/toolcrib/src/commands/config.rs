//! `config`: every setting, its value and where it comes from.

use serde_json::{Value, json};

use crate::cli::word;
use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Origin, Settings};

/// Runs the command.
pub(crate) fn run(settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let Settings { color, format, deny_warnings, role, spend, directory, files } = settings;
    let mut rows: Vec<(String, Value, &Origin)> = vec![
        ("color".to_owned(), json!(word(&color.value)), &color.origin),
        ("format".to_owned(), json!(word(&format.value)), &format.origin),
        ("deny_warnings".to_owned(), json!(deny_warnings.value), &deny_warnings.origin),
        ("as".to_owned(), json!(word(&role.value)), &role.origin),
    ];
    if let Some(url) = &directory.value {
        rows.push(("directory".to_owned(), json!(url), &directory.origin));
    }
    // Amounts always, lists where there is something on them.
    if let Value::Object(limits) = json!(spend.value) {
        let is_said = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
        let limits = limits.into_iter().filter(|(_, value)| is_said(value));
        rows.extend(limits.map(|(name, value)| (format!("spend.{name}"), value, &spend.origin)));
    }
    for (name, value, origin) in &rows {
        printer.result(&format!("{:<26}  # {}\n", format!("{name} = {value}"), shown(&origin.to_string())))?;
    }
    for (path, present) in files {
        let state = if *present { "read" } else { "not there" };
        printer.detail(&format!("{}: {state}", shown(&path.display().to_string())))?;
    }
    let entries: Vec<_> = rows
        .iter()
        .map(|(name, value, origin)| json!({ "name": name, "value": value, "origin": origin.word(), "from": origin.detail() }))
        .collect();
    let files: Vec<_> =
        files.iter().map(|(path, present)| json!({ "path": path.display().to_string(), "present": present })).collect();
    Ok(Done::new(Exit::Yes, json!({ "settings": entries, "files": files })))
}
