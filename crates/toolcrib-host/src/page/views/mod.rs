//! Views: the layout, and a file for each page.

mod changes;
mod log;
mod rules;
mod tool;
mod tools;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::time::format_rfc3339;
use toolcrib_process::Containment;

use super::Shared;
use super::forms::Form;
use super::refusal::PageRejection;
use crate::local::{ContentHash, Host, LoadedTool};

pub(super) use log::log;
pub(super) use rules::rules;
pub(super) use tool::tool;
pub(super) use tools::{checks, tools};

/// The context of a page: one session.
pub(super) struct View<'v> {
    pub(super) shared: &'v Shared,
    pub(super) csrf: &'v str,
}

/// The pages of the navigation.
const TABS: [(&str, &str); 4] = [("Tools", "/"), ("Rules", "/rules"), ("Calls", "/log"), ("Checks", "/checks")];

/// Messages after a change. The query of the URL selects one of these, and contains no text.
const DONE: [(&str, &str); 8] = [
    ("enabled", "The tool is enabled."),
    ("disabled", "The tool is disabled: models do not see it, and every call is refused."),
    ("denied-by-policy", "The tool stays disabled: a rule of the policy file denies it."),
    ("permission", "The rule is stored. What holds for a function is shown beside it."),
    ("revoked", "The rule is removed."),
    ("credential", "The credential is stored, encrypted. Its value is not shown again."),
    ("removed", "The stored credential is removed."),
    ("rebound", "The stored credentials are given to the tool as it is now."),
];

impl View<'_> {
    fn host(&self) -> &Host {
        &self.shared.host
    }

    fn at(&self, path: &str) -> String {
        self.shared.at(path)
    }

    /// A form that makes a change.
    fn form(&self, action: &str, class: &str, fields: &[(&str, &str)], content: &Markup) -> Markup {
        html! {
            form method="post" action=(self.at(&format!("/change/{action}"))) class=(class) autocomplete="off" {
                input type="hidden" name="csrf" value=(self.csrf);
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                (content)
            }
        }
    }

    /// A page. `refresh` is a URL to load after some seconds.
    fn page(&self, title: &str, tab: &str, refresh: Option<(u32, String)>, query: &Form, content: &Markup) -> Response {
        let done = query.get("done").and_then(|done| DONE.iter().find(|(name, _)| *name == done));
        let frame = html! {
            header {
                div.bar {
                    a.brand href=(self.at("/")) { "Toolcrib" span { "local tools" } }
                    nav aria-label="Pages" {
                        @for (name, path) in TABS {
                            a href=(self.at(path)) aria-current=[(name == tab).then_some("page")] { (name) }
                        }
                    }
                    (self.form("end", "end", &[], &html! { button.plain { "End session" } }))
                }
            }
            main #main {
                @if let Some((_, text)) = done { p.notice.good role="status" { (text) } }
                (content)
            }
            footer { "Names and descriptions are written by the authors of the tools. This page is reachable from this machine only." }
        };
        let refresh = refresh.map(|(seconds, address)| format!("{seconds}; url={address}"));
        respond(StatusCode::OK, title, refresh.as_deref(), &frame)
    }
}

/// The page for a rejected request.
pub(super) fn refused(refusal: &PageRejection) -> Response {
    let PageRejection { status, code, message, back } = refusal;
    let content = html! {
        main.alone {
            h1 { @if *status == StatusCode::NOT_FOUND { "Not found" } @else { "That was refused" } }
            p { (sentence(message)) " " code { (code.id()) } }
            p.quiet { (sentence(code.info().hint)) }
            @if let Some(back) = back { p { a.button href=(back) { "Back" } } }
        }
    };
    respond(*status, "Refused", None, &content)
}

/// The page after the end of the session.
pub(super) fn ended() -> Response {
    let content = html! {
        main.alone {
            h1 { "Closed" }
            p { "The session is over, and the command has ended. Run " code { "toolcrib local settings" } " to open the page again." }
        }
    };
    respond(StatusCode::OK, "Closed", None, &content)
}

fn respond(status: StatusCode, title: &str, refresh: Option<&str>, content: &Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(refresh) = refresh { meta http-equiv="refresh" content=(refresh); }
                title { (shown(title)) " \u{b7} Toolcrib" }
                link rel="stylesheet" href="/style.css";
            }
            body { (content) }
        }
    };
    (status, [(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], markup.into_string()).into_response()
}

/// Untrusted text, without invisible characters.
fn shown(text: &str) -> String {
    escape_for_display(text)
}

/// Formats a message as a sentence.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    shown(&format!("{first}{}{end}", characters.as_str()))
}

/// A time.
fn time(time: UnixTime) -> String {
    format_rfc3339(time).map_or_else(|| time.to_string(), |text| readable(&text))
}

/// Formats an RFC 3339 time in UTC for users.
fn readable(time: &str) -> String {
    match time.strip_suffix('Z').and_then(|time| time.split_once('T')) {
        Some((day, time)) => format!("{day} {time} UTC"),
        None => time.to_owned(),
    }
}

/// The beginning of a content hash, with the full hash as a tooltip.
fn hash(content: &ContentHash) -> Markup {
    let text = content.to_string();
    html! { code title=(text) { (text.get(..19).unwrap_or(&text)) "\u{2026}" } }
}

/// The containment of a tool, displayed prominently.
fn containment(host: &Host, tool: &LoadedTool) -> Markup {
    if host.check_runtime(tool).is_err() {
        return html! { span.badge.bad { "cannot run" } };
    }
    match host.containment(tool) {
        None if tool.local_server().is_some() => html! { span.badge.loud { "UNSANDBOXED" } },
        None => html! { span.badge { "no program of this machine" } },
        Some(containment) if !containment.is_sandboxed() => html! { span.badge.loud { "UNSANDBOXED" } },
        Some(containment) => open(&containment),
    }
}

fn open(containment: &Containment) -> Markup {
    let open: Vec<_> = containment.open().map(|(surface, _)| surface.to_string()).collect();
    html! {
        span.badge.good { "sandboxed" }
        @if !open.is_empty() { " " span.badge.warn { "not contained: " (open.join(", ")) } }
    }
}
