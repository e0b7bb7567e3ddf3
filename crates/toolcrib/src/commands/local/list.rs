//! `local list`, `show`, `dev` and `doctor`.

use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_host::local::{Host, LoadedTool, Problem};

use super::{ListArgs, ShowArgs, pinned, refused};
use crate::commands::serving::stopped;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// `local list`.
pub(crate) fn list(arguments: &ListArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    for tool in tools.tools().values() {
        let manifest = tool.manifest();
        printer.result(&format!("{} {}  {}\n", tool.id(), shown(manifest.version()), shown(manifest.description())))?;
        if !host.is_enabled(tool) {
            printer.result("  hidden from models: a rule denies every call of it\n")?;
        }
        for missing in host.missing_credentials(tool) {
            printer.result(&format!("  hidden from models: the credential {} is not set\n", shown(&missing)))?;
        }
        for (name, function) in tool.functions() {
            let description = manifest.function(name).map_or("", |function| function.description());
            printer.result(&format!("  {}  {}\n", function.exposed(), shown(first_sentence(description))))?;
        }
        printer.result(&format!("  {}\n", host.sandbox_summary(tool)))?;
    }
    let onchain = pinned::list(printer)?;
    let problems = report(tools.problems(), printer)?;
    let rows: Vec<_> = tools.tools().values().map(|tool| row(&host, tool)).collect();
    if rows.is_empty() && onchain.is_empty() && problems.is_empty() {
        printer.note("no tools; install one with `toolcrib local add FOLDER`")?;
    }
    let exit = if problems.is_empty() { Exit::Yes } else { Exit::No };
    Ok(Done::new(exit, json!({ "tools": rows, "onchain": onchain, "problems": problems })))
}

/// `local show`.
pub(crate) fn show(arguments: &ShowArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&arguments.tool) else {
        return match pinned::find(&arguments.tool)? {
            Some(pin) => pinned::show(&pin, printer),
            None => refused(&unknown(&arguments.tool), printer),
        };
    };
    let data = row(&host, tool);
    printer.json_document(&data)?;
    Ok(Done::new(Exit::Yes, data))
}

/// `local dev`.
pub(crate) async fn dev(arguments: &ListArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let mut changes = host.changes();
    let watching = host.watch();
    let stop = stopped();
    tokio::pin!(stop);
    // Signals are caught from the first poll on, because a reader of the first lines may stop the command at once.
    tokio::select! {
        biased;
        () = &mut stop => return Ok(Done::new(Exit::Yes, json!({}))),
        () = std::future::ready(()) => {}
    }
    loop {
        let tools = host.tools();
        for tool in tools.tools().values() {
            printer.result(&format!("loaded {} {} {}\n", tool.id(), shown(tool.manifest().version()), tool.content()))?;
            printer.result(&format!("  {}\n", host.sandbox_summary(tool)))?;
            for finding in tool.warnings() {
                printer.note(&format!(
                    "{}: {} {}: {}",
                    tool.id(),
                    finding.code,
                    shown(&finding.pointer),
                    shown(&finding.message)
                ))?;
            }
        }
        report(tools.problems(), printer)?;
        printer.flush()?;
        printer.event(
            &json!({ "event": "loaded", "data": tools.tools().values().map(|tool| row(&host, tool)).collect::<Vec<_>>() }),
        )?;
        tokio::select! {
            () = &mut stop => break,
            changed = changes.changed() => if changed.is_err() { break },
        }
    }
    watching.abort();
    host.shutdown().await;
    Ok(Done::new(Exit::Yes, json!({})))
}

/// `local doctor`.
pub(crate) fn doctor(arguments: &ListArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let mut checks = arguments.host.open()?.doctor();
    checks.extend(pinned::checks());
    for check in &checks {
        let word = if check.ok { "ok     " } else { "PROBLEM" };
        printer.result(&format!("{word}  {}: {}\n", shown(&check.name), shown(&check.text)))?;
    }
    let is_well = checks.iter().all(|check| check.ok);
    let rows: Vec<_> =
        checks.into_iter().map(|check| json!({ "check": check.name, "ok": check.ok, "text": check.text })).collect();
    Ok(Done::new(if is_well { Exit::Yes } else { Exit::No }, json!({ "checks": rows })))
}

/// The error for an unknown tool.
pub(super) fn unknown(tool: &str) -> Failure {
    Failure::new(codes::host::TOOL_UNKNOWN, format!("no tool {tool:?}"))
        .hint("run `toolcrib local list`; for a tool that is not installed, give `--tools FOLDER`, or install it with `toolcrib local add FOLDER`")
}

fn report(problems: &[Problem], printer: &mut Printer) -> Result<Vec<Value>, Stop> {
    let mut rows = Vec::new();
    for problem in problems {
        let stays = if problem.earlier_version_in_use { "; the previous version stays in use" } else { "" };
        printer.failure_as_text(&Failure::new(problem.error.code(), format!("{}{stays}", problem.error)))?;
        for finding in problem.error.findings() {
            printer.note(&format!("{} {}: {}", finding.code, shown(&finding.pointer), shown(&finding.message)))?;
        }
        rows.push(json!({
            "folder": problem.folder,
            "code": problem.error.code().id(),
            "message": problem.error.to_string(),
            "earlier_version_in_use": problem.earlier_version_in_use,
            "findings": problem.error.findings(),
        }));
    }
    Ok(rows)
}

fn row(host: &Host, tool: &LoadedTool) -> Value {
    let manifest = tool.manifest();
    let functions: Vec<_> = manifest
        .functions()
        .iter()
        .filter_map(|function| {
            let loaded = tool.functions().get(function.name())?;
            Some(json!({
                "name": function.name(),
                "exposed": loaded.exposed(),
                "description": function.description(),
                "parameters": loaded.parameters(),
                "outputs": loaded.outputs(),
            }))
        })
        .collect();
    let credentials: Vec<_> = manifest
        .credentials()
        .iter()
        .map(|credential| {
            let state = host.secrets().state(tool.id(), credential.name()).ok().flatten();
            json!({
                "name": credential.name(),
                "label": credential.label(),
                "required": credential.required(),
                "set": state.is_some(),
                "source": state.as_ref().map(|state| state.source.to_string()),
                "bound_to": state.and_then(|state| state.bound_to),
            })
        })
        .collect();
    json!({
        "id": tool.id(),
        "name": manifest.name(),
        "version": manifest.version(),
        "description": manifest.description(),
        "folder": tool.source(),
        "content": tool.content(),
        "sandbox": host.sandbox_summary(tool),
        "enabled": host.is_enabled(tool),
        "ready": host.is_ready(tool),
        "functions": functions,
        "credentials": credentials,
        "warnings": tool.warnings(),
    })
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}
