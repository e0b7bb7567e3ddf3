//! The audit log: newest entries first, reloaded by the browser every few seconds, with the state of its chain.

use std::sync::PoisonError;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use toolcrib_core::local::names::is_name;
use toolcrib_http::percent_encode;

use super::{View, readable, sentence, shown, time};
use crate::local::audit::{self, Entry, Event, Filter};
use crate::page::forms::Form;
use crate::page::guard::AUTOMATIC;
use crate::page::refusal::PageRejection;

/// Entries that are shown.
const MAX_ENTRIES: usize = 200;

/// Seconds between automatic reloads.
const REFRESH_SECONDS: u32 = 5;

/// The filters of the log: a name, a label, and the events (all if empty).
const SHOWN: [(&str, &str, &[Event]); 3] = [
    ("changes", "Calls and changes", &CHANGES),
    ("calls", "Calls", &[Event::Decision, Event::CallStarted, Event::CallFinished]),
    ("all", "Everything", &[]),
];

/// Events that matter to users, without starts of the host and loaded tools.
pub(super) const CHANGES: [Event; 11] = [
    Event::Decision,
    Event::CallStarted,
    Event::CallFinished,
    Event::SecretSet,
    Event::SecretUnset,
    Event::SecretRebound,
    Event::PermissionChanged,
    Event::ToolChanged,
    Event::ToolRefused,
    Event::TornLine,
    Event::ChainRestarted,
];

/// The page of calls.
pub(in crate::page) fn log(view: &View<'_>, query: &Form) -> Result<Response, PageRejection> {
    // Any other text cannot be a tool's id, and is not displayed.
    let tool = query.get("tool").filter(|tool| is_name(tool));
    let is_paused = query.get("paused").is_some();
    let show = SHOWN.iter().find(|(name, ..)| query.get("show") == Some(*name)).unwrap_or(&SHOWN[0]);
    let filter = Filter { tool: tool.map(str::to_owned), events: show.2.to_vec(), ..Filter::default() };
    let found = view.host().audit().read(&filter, MAX_ENTRIES).map_err(|error| {
        PageRejection::new(StatusCode::INTERNAL_SERVER_ERROR, error.code()).message(error.to_string()).back(&view.at("/"))
    })?;
    let tool_part = tool.map(|tool| format!("&tool={}", percent_encode(tool))).unwrap_or_default();
    let with = |more: &str| view.at(&format!("/log?show={}{tool_part}{more}", show.0));
    let refresh = (!is_paused).then(|| (REFRESH_SECONDS, with(&format!("&{AUTOMATIC}"))));
    let is_automatic = query.get("auto").is_some();
    let content = html! {
        h1 { "Calls and changes" }
        (chain(view, is_automatic))
        div.tools {
            (chooser(view, tool, show.0, is_paused))
            @if is_paused { a.button href=(with("")) { "Update live" } }
            @else { span.quiet { "Updated every " (REFRESH_SECONDS) " seconds." } " " a.button href=(with("&paused=1")) { "Pause" } }
        }
        @if found.invalid > 0 { p.notice.bad { (found.invalid) " lines of the log are not valid and are not shown." } }
        (rows(&found.entries, true))
    };
    Ok(view.page("Calls", "Calls", refresh, query, &content))
}

fn chooser(view: &View<'_>, chosen: Option<&str>, show: &str, is_paused: bool) -> Markup {
    let tools = view.host().tools();
    let mut ids: Vec<&str> = tools.tools().keys().map(String::as_str).collect();
    // The log also contains removed tools.
    ids.extend(chosen.filter(|chosen| !tools.tools().contains_key(*chosen)));
    html! {
        form.filter method="get" action=(view.at("/log")) {
            label for="tool" { "Tool" }
            select #tool name="tool" {
                option value="" { "All tools" }
                @for id in ids { option value=(id) selected[chosen == Some(id)] { (shown(id)) } }
            }
            label.hidden for="show" { "Entries" }
            select #show name="show" { @for (name, text, _) in SHOWN { option value=(name) selected[name == show] { (text) } } }
            @if is_paused { input type="hidden" name="paused" value="1"; }
            button.plain { "Show" }
        }
    }
}

/// Whether the hash chain is valid. An automatic reload shows the previous result, because verification reads the whole log.
fn chain(view: &View<'_>, is_automatic: bool) -> Markup {
    let audit = view.host().audit();
    if !audit.path().exists() {
        return html! { p.empty { "The log is empty." } };
    }
    let mut kept = view.shared.verified.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_automatic || kept.is_none() {
        let verified = audit::verify(audit.folder(), None);
        *kept = Some((view.host().clock().now(), verified.map(|log| log.to_string()).map_err(|error| error.to_string())));
    }
    match kept.as_ref() {
        Some((at, Ok(text))) => html! {
            p.chain { span.badge.good { "hash chain holds" } " " span.quiet { (shown(text)) ". Checked " (time(*at)) "." } }
        },
        Some((at, Err(text))) => html! {
            p.notice.bad role="alert" { strong { "The hash chain is broken: the log was edited or damaged. " } (sentence(text)) " Checked " (time(*at)) "." }
        },
        None => html! {},
    }
}

/// Entries as a table, newest first.
pub(super) fn rows(entries: &[Entry], names_tool: bool) -> Markup {
    if entries.is_empty() {
        return html! { p.empty { "There are no entries." } };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Log" {
            table.log {
                thead {
                    tr {
                        th scope="col" { "Time" } th scope="col" { "Event" }
                        @if names_tool { th scope="col" { "Tool" } }
                        th scope="col" { "Function" } th scope="col" { "Result" } th scope="col" { "Details" }
                    }
                }
                tbody { @for entry in entries.iter().rev() { (row(entry, names_tool)) } }
            }
        }
    }
}

fn row(entry: &Entry, names_tool: bool) -> Markup {
    let details = &entry.details;
    let code = |text: &Option<String>| html! { @if let Some(text) = text { code { (shown(text)) } } };
    html! {
        tr {
            td.time { (shown(&readable(&entry.time))) }
            td.event { (event(entry.event)) }
            @if names_tool { td { (code(&details.tool)) } }
            td { (code(&details.function)) }
            td {
                @if let Some(decision) = &details.decision {
                    span.badge.good[decision == "allow"].bad[decision == "deny"] { (shown(decision)) }
                }
                @if let Some(exit) = &details.exit { span.badge.good[exit == "ok"].bad[exit != "ok"] { (shown(exit)) } }
            }
            td.details {
                @if let Some(sandbox) = &details.sandbox {
                    @if sandbox.starts_with("UNSANDBOXED") { span.badge.loud { "UNSANDBOXED" } " " }
                }
                @let duration = details.duration_us.map(|micros| format!("{} ms", micros / 1_000));
                @let reason = details.reason.as_ref().map(|reason| reason.replace('_', " "));
                @let parts = [details.client.as_ref().map(|client| format!("by {client}")), duration, reason, details.detail.clone()];
                (shown(&parts.into_iter().flatten().collect::<Vec<_>>().join(" \u{b7} ")))
                @if let Some(arguments) = &details.arguments { div { code { (shown(&arguments.to_string())) } } }
            }
        }
    }
}

/// An event in words.
const fn event(event: Event) -> &'static str {
    match event {
        Event::HostStarted => "host started",
        Event::HostStopped => "host stopped",
        Event::Decision => "decision",
        Event::CallStarted => "call started",
        Event::CallFinished => "call finished",
        Event::ServerStarted => "server started for its list of tools",
        Event::SecretSet => "credential stored",
        Event::SecretUnset => "credential removed",
        Event::SecretRebound => "credentials rebound",
        Event::SecretKeyMoved => "key of credentials moved",
        Event::PermissionChanged => "permission changed",
        Event::ToolLoaded => "tool loaded",
        Event::ToolChanged => "tool changed",
        Event::ToolRemoved => "tool removed",
        Event::ToolRefused => "tool refused",
        Event::Rotated => "new file",
        Event::TornLine => "incomplete line",
        Event::ChainRestarted => "new chain",
        Event::Other => "other",
    }
}
