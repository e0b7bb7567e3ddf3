//! `local logs`: the audit log.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use toolcrib_core::clock::Clock;
use toolcrib_fetch::SystemClock;
use toolcrib_host::local::audit::{AuditError, Event, Filter, Options, verify};

use super::args::audit_log;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Default number of lines.
const DEFAULT_LINES: usize = 50;

/// The prefix of the sandbox summary of a tool without a sandbox.
const UNSANDBOXED: &str = "UNSANDBOXED";

/// Arguments of `local logs`.
#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// Only lines about this tool
    pub(crate) tool: Option<String>,
    /// Maximum number of lines, newest last
    #[arg(short = 'n', long, value_name = "N", default_value_t = DEFAULT_LINES)]
    pub(crate) lines: usize,
    /// Include lines about loading tools
    #[arg(long)]
    pub(crate) all: bool,
    /// Verify the hash chain of the log instead
    #[arg(long)]
    pub(crate) verify: bool,
}

/// Shows or checks the log.
pub(crate) fn run(arguments: &Logs, printer: &mut Printer) -> Result<Done, Stop> {
    let clock: Arc<dyn Clock + Send + Sync> = Arc::new(SystemClock);
    let log = audit_log(&clock, Options::default())?;
    let failed = |error: &AuditError| Failure::new(error.code(), error.to_string());
    if !log.path().exists() {
        printer.note("the audit log is empty")?;
        return Ok(Done::new(Exit::Yes, json!({ "lines": [] })));
    }
    if arguments.verify {
        let summary = verify(log.folder(), None).map_err(|error| failed(&error))?;
        printer.result(&format!("the hash chain is intact: {summary}\n"))?;
        printer
            .note("to detect later that lines were removed at the end, note the number and hash of the last line elsewhere")?;
        let head = json!({ "seq": summary.head.seq, "hash": summary.head.hash.to_string() });
        return Ok(Done::new(Exit::Yes, json!({ "lines": summary.lines, "files": summary.files, "head": head })));
    }
    let mut filter = Filter::default();
    filter.tool.clone_from(&arguments.tool);
    if !arguments.all {
        filter.without.push(Event::ToolLoaded);
    }
    let found = log.read(&filter, arguments.lines).map_err(|error| failed(&error))?;
    let mut rows = Vec::new();
    for line in &found.entries {
        let value = serde_json::to_value(line).unwrap_or_default();
        let text = |key: &str| value.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        // The whole summary is in the JSON output. Unsandboxed tools are marked.
        let sandbox = text("sandbox").split(':').next().filter(|word| *word == UNSANDBOXED).unwrap_or_default().to_owned();
        let what = [text("tool"), text("function"), sandbox, text("decision"), text("exit"), text("reason"), text("detail")];
        let what: Vec<_> = what.iter().filter(|text| !text.is_empty()).map(|text| shown(text)).collect();
        printer.result(&format!("{}  {:<18}  {}\n", text("time"), text("event"), what.join("  ")))?;
        rows.push(value);
    }
    Ok(Done::new(Exit::Yes, json!({ "lines": rows })))
}
