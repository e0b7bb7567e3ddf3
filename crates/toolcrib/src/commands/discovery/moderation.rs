//! `index moderate`, `index moderation` and `index reports`: blocks and hides tools, and lists abuse reports.

use alloy_primitives::Address;
use clap::{Args, ValueEnum};
use serde_json::json;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_core::codes;
use toolcrib_core::time::format_rfc3339;
use toolcrib_fetch::SystemClock;
use toolcrib_index::Index;
use toolcrib_index::moderation::{Decision, MAX_PAGE, MAX_TEXT_CHARS, ResourceRef, Step, Subject};

use super::{StoreArgs, index_failure};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// The actor in the moderation log.
const ACTOR: &str = "command line";

/// What to do.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Action {
    /// Show a notice instead of the content
    Block,
    /// Undo a block
    Unblock,
    /// Remove from lists and search
    Hide,
    /// Undo hiding
    Unhide,
}

/// Arguments of `index moderate`.
#[derive(Args, Debug)]
pub(crate) struct Moderate {
    /// Action
    #[arg(value_enum)]
    pub(crate) action: Action,
    /// Tool reference, Bazaar resource (`x402_bazaar/7`), or creator address
    #[arg(value_name = "TOOL|RESOURCE|CREATOR")]
    pub(crate) subject: String,
    /// Public reason; required to block or hide
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// Notice to show instead of the content
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) notice: String,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index moderation`.
#[derive(Args, Debug)]
pub(crate) struct Moderation {
    /// Show the moderation log instead of current rules
    #[arg(long)]
    pub(crate) log: bool,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index reports`.
#[derive(Args, Debug)]
pub(crate) struct Reports {
    /// Close the report with this number
    #[arg(long, value_name = "N")]
    pub(crate) close: Option<i64>,
    /// Show closed reports instead of open ones
    #[arg(long, conflicts_with = "close")]
    pub(crate) closed: bool,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Runs `index moderate`.
pub(crate) async fn moderate(arguments: &Moderate, printer: &mut Printer) -> Result<Done, Stop> {
    let step = match arguments.action {
        Action::Block => Step::Block,
        Action::Unblock => Step::Unblock,
        Action::Hide => Step::Hide,
        Action::Unhide => Step::Unhide,
    };
    let usage = |what: String| Failure::new(codes::cli::USAGE, what);
    for (name, text) in [("reason", &arguments.reason), ("notice", &arguments.notice)] {
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(usage(format!("--{name} is longer than {MAX_TEXT_CHARS} characters")).into());
        }
    }
    if matches!(step, Step::Block | Step::Hide) && arguments.reason.trim().is_empty() {
        return Err(usage(format!("{} needs a reason", step.as_str())).hint("give --reason, which is public").into());
    }
    let index = arguments.kept.open_existing().await?;
    let subject = subject(&index, &arguments.subject).await?;
    let decision = Decision { subject, step, reason: &arguments.reason, notice: &arguments.notice, actor: ACTOR };
    let changed = index.moderate(&decision, SystemClock.now()).await.map_err(|error| index_failure(&error))?;
    let subject = shown(&arguments.subject);
    let data = json!({ "changed": changed, "action": step.as_str(), "subject": arguments.subject });
    if changed {
        printer.result(&format!("{}: {subject}\n", step.as_str()))?;
        return Ok(Done::new(Exit::Yes, data));
    }
    printer.complaint(&format!("{subject} has no such rule"))?;
    Ok(Done::new(Exit::No, data))
}

async fn subject(index: &Index, text: &str) -> Result<Subject, Failure> {
    if let Ok(creator) = text.parse::<Address>() {
        return Ok(Subject::Creator(creator));
    }
    if let Some(resource) = ResourceRef::parse(text) {
        let found = index.resource_subject(resource).await.map_err(|error| index_failure(&error))?;
        return found.ok_or_else(|| Failure::new(codes::cli::NOT_FOUND, format!("{} is not in the index", shown(text))));
    }
    let tool = ToolRef::parse(text).map_err(|_| {
        let what = format!("{} is neither a tool, a resource nor an account", shown(text));
        Failure::new(codes::cli::USAGE, what)
            .hint("name a tool as eip155:8453/erc8257:0x…/7, a resource as x402_bazaar/7, or an account as 0x…")
    })?;
    let view = index.tool(&tool).await.map_err(|error| index_failure(&error))?;
    let view = view.ok_or_else(|| Failure::new(codes::cli::NOT_FOUND, format!("{tool} is not in the index")))?;
    Ok(Subject::Tool(view.row.key))
}

/// Runs `index moderation`.
pub(crate) async fn moderation(arguments: &Moderation, printer: &mut Printer) -> Result<Done, Stop> {
    let index = arguments.kept.open_existing().await?;
    let failed = |error: toolcrib_index::Error| index_failure(&error);
    if arguments.log {
        let log = index.moderation_log(None, MAX_PAGE).await.map_err(failed)?;
        for entry in &log {
            let (at, reason) = (time(entry.at), shown(&entry.reason));
            printer.result(&format!("{at}  {:<12}  {}  {}  {reason}\n", entry.action, entry.subject, shown(&entry.actor)))?;
        }
        return Ok(Done::new(Exit::Yes, json!({ "log": log })));
    }
    let rules = index.moderation_rules(MAX_PAGE).await.map_err(failed)?;
    for rule in &rules {
        let (action, reason) = (rule.moderation.action.as_str(), shown(&rule.moderation.reason));
        printer.result(&format!("{}  {action:<5}  {}  {reason}\n", time(rule.moderation.at), rule.subject))?;
    }
    if rules.is_empty() {
        printer.note("nothing is blocked or hidden")?;
    }
    Ok(Done::new(Exit::Yes, json!({ "rules": rules })))
}

/// Runs `index reports`.
pub(crate) async fn reports(arguments: &Reports, printer: &mut Printer) -> Result<Done, Stop> {
    let index = arguments.kept.open_existing().await?;
    let failed = |error: toolcrib_index::Error| index_failure(&error);
    if let Some(number) = arguments.close {
        let changed = index.close_report(number, ACTOR, SystemClock.now()).await.map_err(failed)?;
        let data = json!({ "closed": changed.then_some(number) });
        if changed {
            printer.result(&format!("report {number} is closed\n"))?;
            return Ok(Done::new(Exit::Yes, data));
        }
        printer.complaint(&format!("report {number} does not exist or is closed"))?;
        return Ok(Done::new(Exit::No, data));
    }
    let reports = index.abuse_reports(arguments.closed, None, MAX_PAGE).await.map_err(failed)?;
    for report in &reports {
        let (reason, details) = (shown(&report.reason), shown(&report.details));
        printer.result(&format!("{:>5}  {}  {}  {reason}  {details}\n", report.number, time(report.at), report.tool))?;
    }
    if reports.is_empty() {
        printer.note("no reports")?;
    }
    Ok(Done::new(Exit::Yes, json!({ "reports": reports })))
}

fn time(at: UnixTime) -> String {
    format_rfc3339(at).unwrap_or_default()
}
