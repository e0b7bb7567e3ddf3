//! `local list`, `show`, `dev` and `doctor`.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_core::finding::Severity;
use toolcrib_host::local::secrets::Lookup;
use toolcrib_host::local::{Host, LoadedTool, Problem};
use toolcrib_process::Surface;

use super::args::audit_log;
use super::logs::chain_text;
use super::{ListArgs, ShowArgs, refused};
use crate::clock::SystemClock;
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
        for missing in missing(&host, tool) {
            printer.result(&format!("  hidden from models: the credential {} is not set\n", shown(&missing)))?;
        }
        for (name, function) in tool.functions() {
            let description = manifest.function(name).map_or("", |function| function.description());
            printer.result(&format!("  {}  {}\n", function.exposed(), shown(first_sentence(description))))?;
        }
        printer.result(&format!("  {}\n", host.sandbox_summary(tool)))?;
    }
    let problems = report(tools.problems(), printer)?;
    let rows: Vec<_> = tools.tools().values().map(|tool| row(&host, tool)).collect();
    Ok(Done::new(if problems.is_empty() { Exit::Yes } else { Exit::No }, json!({ "tools": rows, "problems": problems })))
}

/// `local show`.
pub(crate) fn show(arguments: &ShowArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&arguments.tool) else { return refused(&unknown(&arguments.tool), printer) };
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
    loop {
        let tools = host.tools();
        for tool in tools.tools().values() {
            printer.result(&format!("loaded {} {} {}\n", tool.id(), shown(tool.manifest().version()), tool.content()))?;
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
    let host = arguments.host.open()?;
    let tools = host.tools();
    let mut checks: Vec<(String, bool, String)> = Vec::new();
    let containment = toolcrib_process::probe();
    checks.push(("sandbox of this machine".to_owned(), containment.contains(Surface::Files), containment.summary()));
    for problem in tools.problems() {
        checks.push((format!("folder {}", problem.folder.display()), false, problem.error.to_string()));
    }
    for tool in tools.tools().values() {
        let sandbox = host.containment(tool);
        let is_contained = sandbox.as_ref().is_none_or(toolcrib_process::Containment::is_sandboxed);
        checks.push((format!("sandbox of {}", tool.id()), is_contained, host.sandbox_summary(tool)));
        checks.push((format!("runtime of {}", tool.id()), host.check_runtime(tool).is_ok(), runtime_state(&host, tool)));
        let missing = missing(&host, tool);
        let text = if missing.is_empty() { "all set".to_owned() } else { format!("not set: {}", missing.join(", ")) };
        checks.push((format!("credentials of {}", tool.id()), missing.is_empty(), text));
        let warnings = tool.warnings().iter().filter(|finding| finding.severity == Severity::Warning);
        checks.extend(
            warnings
                .map(|finding| (format!("manifest of {}", tool.id()), true, format!("{}: {}", finding.code, finding.message))),
        );
    }
    for source in host.secrets().sources() {
        let state = source
            .problem
            .as_ref()
            .map_or_else(|| format!("{} secrets in {}", source.secrets, source.place), ToString::to_string);
        checks.push((format!("secrets: {}", source.source), source.problem.is_none(), state));
    }
    let rules = host.permissions().list();
    checks.push((
        "permissions".to_owned(),
        rules.is_ok(),
        rules.map_or_else(|error| error.to_string(), |rules| format!("{} rules", rules.len())),
    ));
    let clock: Arc<dyn toolcrib_core::clock::Clock + Send + Sync> = Arc::new(SystemClock);
    let log = audit_log(&clock, false)?;
    if log.path().exists() {
        let verified = toolcrib_host::local::audit::verify(&log.path(), None);
        let text = verified.as_ref().map_or_else(ToString::to_string, chain_text);
        checks.push(("audit log".to_owned(), verified.is_ok(), text));
    }
    for (name, is_good, text) in &checks {
        let word = if *is_good { "ok     " } else { "PROBLEM" };
        printer.result(&format!("{word}  {}: {}\n", shown(name), shown(text)))?;
    }
    let is_well = checks.iter().all(|(_, is_good, _)| *is_good);
    let rows: Vec<_> = checks.into_iter().map(|(name, ok, text)| json!({ "check": name, "ok": ok, "text": text })).collect();
    Ok(Done::new(if is_well { Exit::Yes } else { Exit::No }, json!({ "checks": rows })))
}

/// There is no such tool.
pub(super) fn unknown(tool: &str) -> Failure {
    Failure::new(codes::host::TOOL_UNKNOWN, format!("there is no tool {tool:?}"))
}

fn runtime_state(host: &Host, tool: &LoadedTool) -> String {
    host.check_runtime(tool).unwrap_or_else(|error| error.to_string())
}

/// Required credentials that are not set for the content of a tool.
fn missing(host: &Host, tool: &LoadedTool) -> Vec<String> {
    let required = tool.manifest().credentials().iter().filter(|credential| credential.required());
    let is_set = |name: &str| matches!(host.secrets().get(tool.id(), name, &tool.content()), Ok(Lookup::Value { .. }));
    required.filter(|credential| !is_set(credential.name())).map(|credential| credential.name().to_owned()).collect()
}

fn report(problems: &[Problem], printer: &mut Printer) -> Result<Vec<Value>, Stop> {
    let mut rows = Vec::new();
    for problem in problems {
        let stays = if problem.earlier_version_in_use { "; the version before stays in use" } else { "" };
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
        "ready": host.is_ready(tool),
        "functions": functions,
        "credentials": credentials,
        "warnings": tool.warnings(),
    })
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}
