//! The page of one tool: its description, permissions and credentials.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value as Json;
use toolcrib_core::local::{Credential, Effects, Function};
use toolcrib_http::percent_encode;

use super::changes::changes;
use super::log::{CHANGES, rows};
use super::rules::table;
use super::tools::{badges, switch};
use super::{View, containment, hash, sentence, shown, time};
use crate::local::audit::Filter;
use crate::local::permissions::{Decision, Reason, Request, Rule, Verdict};
use crate::local::secrets::{SecretState, Source};
use crate::local::{LoadedTool, access};
use crate::page::forms::Form;
use crate::page::refusal::PageRejection;

/// Number of recent calls on the page.
const RECENT: usize = 12;

/// The page of a tool.
pub(in crate::page) fn tool(view: &View<'_>, query: &Form, id: &str) -> Result<Response, PageRejection> {
    let (tool, host) = (view.shared.tool(id)?, view.host());
    let manifest = tool.manifest();
    let rules = host.permissions().list();
    let is_about = |rule: &&Rule| rule.tool.as_deref().is_none_or(|own| own == tool.id());
    let own: Vec<_> = rules.as_deref().unwrap_or_default().iter().filter(is_about).collect();
    let filter = Filter { tool: Some(tool.id().to_owned()), events: CHANGES.to_vec(), ..Filter::default() };
    let content = html! {
        p.crumb { a href=(view.at("/")) { "Tools" } }
        div.head {
            h1 { (shown(manifest.name())) }
            (switch(view, &tool))
        }
        p.badges { (badges(view, &tool)) (containment(host, &tool)) }
        p { (shown(manifest.description())) }
        @if let Err(error) = &rules { p.notice.bad { (sentence(&error.to_string())) } }
        (changes(view, &tool, &own))
        (facts(view, &tool))
        section aria-labelledby="functions" {
            h2 #functions { "Functions and permissions" }
            p.quiet {
                "Allow holds for the files that the tool has now: after any change it asks again. Deny holds for every version. "
                "Effects are what the author claims; what is not claimed is taken for the worst."
            }
            ul.cards { @for function in manifest.functions() { (function_card(view, &tool, function)) } }
        }
        @if !manifest.credentials().is_empty() {
            section aria-labelledby="credentials" {
                h2 #credentials { "Credentials" }
                ul.cards { @for credential in manifest.credentials() { (credential_card(view, &tool, credential)) } }
            }
        }
        section aria-labelledby="rules" {
            h2 #rules { "Rules" }
            @if own.is_empty() { p.empty { "No rule is about this tool: you are asked before every call." } }
            @else { (table(view, &own, "tool")) }
        }
        section aria-labelledby="calls" {
            h2 #calls { "Latest entries of the log" }
            @match host.audit().read(&filter, RECENT) {
                Ok(found) => {
                    (rows(&found.entries, false))
                    p { a href=(view.at(&format!("/log?tool={}", percent_encode(tool.id())))) { "Watch calls of this tool" } }
                }
                Err(error) => p.notice.bad { (sentence(&error.to_string())) }
            }
        }
        @if !tool.warnings().is_empty() {
            section aria-labelledby="warnings" {
                h2 #warnings { "Remarks on the manifest" }
                ul.findings {
                    @for finding in tool.warnings() {
                        li { code { (finding.code.id()) } " " code { (shown(&finding.pointer)) } " " (shown(&finding.message)) }
                    }
                }
            }
        }
    };
    Ok(view.page(manifest.name(), "Tools", None, query, &content))
}

fn facts(view: &View<'_>, tool: &LoadedTool) -> Markup {
    let host = view.host();
    html! {
        dl.facts {
            dt { "Id" } dd { code { (tool.id()) } }
            dt { "Version" } dd { (shown(tool.manifest().version())) }
            dt { "Sandbox" } dd { (shown(&host.sandbox_summary(tool))) }
            @if host.containment(tool).is_some_and(|containment| !containment.is_sandboxed()) {
                dt { "Asks for" } dd { (sentence(&access(tool))) " " strong.bad { "Without a sandbox nothing limits it to that." } }
            } @else {
                dt { "May reach" } dd { (sentence(&access(tool))) }
            }
            dt { "Runs" }
            dd {
                @match host.check_runtime(tool) {
                    Ok(program) => code { (shown(&program)) }
                    Err(error) => span.bad { (sentence(&error.to_string())) " " code { (error.code.id()) } }
                }
            }
            dt { "Content" } dd { code.long { (tool.content()) } }
            dt { "Folder" } dd { code.long { (shown(&tool.source().display().to_string())) } }
        }
    }
}

fn function_card(view: &View<'_>, tool: &LoadedTool, function: &Function) -> Markup {
    let name = function.name();
    let request = Request {
        tool: tool.id(),
        function: name,
        content: tool.content(),
        // No argument pattern matches null, so this is the verdict for calls without a matching pattern.
        arguments: &Json::Null,
        interactive: true,
    };
    let verdict = view.host().permissions().preview(&request);
    let current = verdict.as_ref().map(|verdict| verdict.decision);
    let content = tool.content().to_string();
    let fields = [("tool", tool.id()), ("content", content.as_str()), ("function", name)];
    let buttons = html! {
        fieldset.choice {
            legend.hidden { "Permission for " (name) }
            @for (decision, word) in [(Decision::Allow, "Allow"), (Decision::Ask, "Ask"), (Decision::Deny, "Deny")] {
                @let is_current = current.as_ref().is_ok_and(|current| *current == decision);
                button class=(decision) name="decision" value=(decision) aria-pressed=(is_current) { (word) }
            }
        }
    };
    html! {
        li.card.function {
            div {
                h3 { code { (name) } }
                p.description { (shown(function.description())) }
                p.badges {
                    @for (is_bad, text) in effects(function.effects()) { span.badge.warn[is_bad] { (text) } " " }
                    @if let Some(loaded) = tool.functions().get(name) { span.quiet { "for models: " code { (loaded.exposed()) } } }
                }
            }
            div.permission {
                (view.form("permission", "", &fields, &buttons))
                @match &verdict {
                    Ok(verdict) => p.quiet { (why(verdict, view.host().is_enabled(tool))) }
                    Err(error) => p.bad { (sentence(&error.to_string())) }
                }
            }
        }
    }
}

/// Why a function has its permission.
fn why(verdict: &Verdict, is_enabled: bool) -> String {
    let rule = verdict.rule.map(|rule| format!(" (rule {rule})")).unwrap_or_default();
    let text = match &verdict.reason {
        Reason::AllowRule => "Runs without asking",
        Reason::DenyRule if !is_enabled => "Never runs while the tool is disabled",
        Reason::DenyRule => "Never runs",
        Reason::AskRule => "You are asked before each call",
        Reason::ContentChanged { .. } => "You are asked: the tool changed since you allowed it",
        Reason::NotCovered => "You are asked, unless a rule allows the arguments",
        Reason::Expired { .. } => "You are asked: the rule that allowed it has expired",
        Reason::NoRule => "You are asked: no rule is about it",
    };
    format!("{text}{rule}.")
}

/// The effects of a function, each with whether it needs caution.
fn effects(effects: Effects) -> Vec<(bool, &'static str)> {
    let read_only = effects.read_only.unwrap_or(false);
    let mut all = vec![match (read_only, effects.destructive) {
        (true, _) => (false, "read-only"),
        (false, Some(false)) => (false, "changes things"),
        (false, Some(true)) => (true, "may destroy"),
        (false, None) => (true, "may destroy (nothing claimed)"),
    }];
    all.push(match effects.open_world {
        Some(false) => (false, "this machine only"),
        Some(true) => (true, "reaches other systems"),
        None => (true, "may reach other systems (nothing claimed)"),
    });
    if effects.idempotent == Some(true) {
        all.push((false, "repeatable"));
    }
    all
}

fn credential_card(view: &View<'_>, tool: &LoadedTool, credential: &Credential) -> Markup {
    let (name, content) = (credential.name(), tool.content().to_string());
    let state = view.host().secrets().state(tool.id(), name);
    let is_stored = matches!(&state, Ok(Some(state)) if state.source == Source::Encrypted);
    let fields = [("tool", tool.id()), ("content", content.as_str()), ("name", name)];
    let id = format!("credential-{name}");
    let kind = if credential.secret() { "password" } else { "text" };
    let input = html! {
        label for=(id) { (shown(credential.label())) }
        div.field {
            input id=(id) type=(kind) name="value" required autocomplete="new-password" spellcheck="false" aria-describedby=(format!("{id}-about"));
            button { @if is_stored { "Replace" } @else { "Store" } }
        }
    };
    html! {
        li.card.credential {
            (view.form("credential", "", &fields, &input))
            div id=(format!("{id}-about")) {
                @if let Some(description) = credential.description() { p { (shown(description)) } }
                p.badges {
                    @match &state {
                        Ok(state) => (credential_state(tool, credential, state.as_ref()))
                        Err(error) => span.badge.bad { (sentence(&error.to_string())) }
                    }
                    span.quiet {
                        "given to the tool as " code { (name) }
                        @if let Some(variable) = credential.env() { ", in the variable " code { (variable) } }
                    }
                }
            }
            @if is_stored {
                (view.form("remove-credential", "", &[("tool", tool.id()), ("name", name)],
                    &html! { button.plain aria-label=(format!("Remove {name}")) { "Remove" } }))
            }
        }
    }
}

fn credential_state(tool: &LoadedTool, credential: &Credential, state: Option<&SecretState>) -> Markup {
    let required = html! { @if credential.required() { " " span.badge { "required" } } " " };
    let Some(state) = state else {
        return html! { span.badge.bad[credential.required()] { "not set" } (required) };
    };
    if let Some(content) = state.bound_to.filter(|content| *content != tool.content()) {
        return html! { span.badge.bad { "set for an earlier version" } (required) span.quiet { (hash(&content)) " " } };
    }
    html! {
        span.badge.good { "set" } (required)
        span.quiet {
            @if state.source == Source::Encrypted {
                @if let Some(at) = state.set_at { "stored " (time(at)) ", " }
            } @else {
                "from " (state.source) ", which comes before a stored value; "
            }
        }
    }
}
