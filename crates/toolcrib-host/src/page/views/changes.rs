//! Changes since permissions or credentials were granted to an earlier content of a tool.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{View, hash, shown};
use crate::local::install::{Change, Diff};
use crate::local::permissions::{Decision, Rule};
use crate::local::{ContentHash, LoadedTool, definition};

/// Most lines of each part of a diff.
const MAX_LINES: usize = 100;

/// Most characters of a value of the manifest.
const MAX_VALUE_CHARS: usize = 300;

/// What was granted to an earlier content.
#[derive(Default)]
struct EarlierGrants {
    rules: Vec<String>,
    credentials: Vec<String>,
}

/// The section about changes. Empty if nothing was granted to an earlier content.
pub(super) fn changes(view: &View<'_>, tool: &LoadedTool, rules: &[&Rule]) -> Markup {
    let mut earlier: BTreeMap<ContentHash, EarlierGrants> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.decision == Decision::Allow) {
        if let Some(content) = rule.content.filter(|content| *content != tool.content()) {
            earlier.entry(content).or_default().rules.push(rule.id.to_string());
        }
    }
    for secret in view.host().secrets().list().unwrap_or_default().into_iter().filter(|secret| secret.tool == tool.id()) {
        if let Some(content) = secret.bound_to.filter(|content| *content != tool.content()) {
            earlier.entry(content).or_default().credentials.push(secret.name);
        }
    }
    if earlier.is_empty() {
        return html! {};
    }
    let content = tool.content().to_string();
    let has_credentials = earlier.values().any(|given| !given.credentials.is_empty());
    html! {
        section.notice.warn aria-labelledby="changes" {
            h2 #changes { "The tool changed" }
            p { "What you gave to an earlier version does not count for this one until you say so." }
            @for (content, given) in &earlier { (since(view, tool, content, given)) }
            @if has_credentials {
                (view.form("rebind", "", &[("tool", tool.id()), ("content", content.as_str())],
                    &html! { button { "Give the stored credentials to this version" } }))
            }
        }
    }
}

fn since(view: &View<'_>, tool: &LoadedTool, content: &ContentHash, given: &EarlierGrants) -> Markup {
    html! {
        h3 { "Since " (hash(content)) }
        p.quiet {
            @if !given.rules.is_empty() { "Allowed by rule " (given.rules.join(", ")) ". " }
            @if !given.credentials.is_empty() { "Credentials: " (given.credentials.join(", ")) "." }
        }
        @match view.host().diff_since(tool, content) {
            Some(diff) => (lines(&diff))
            None => (remembered(view, tool))
        }
    }
}

fn lines(diff: &Diff) -> Markup {
    let word = |change: Change| match change {
        Change::Added => "new",
        Change::Removed => "gone",
        Change::Changed => "changed",
    };
    let value = |value: &Option<serde_json::Value>| {
        let text = value.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        shown(&text.chars().take(MAX_VALUE_CHARS).collect::<String>())
    };
    html! {
        ul.diff {
            @if diff.old_version != diff.new_version {
                li { "Version " (shown(&diff.old_version)) " is now " (shown(&diff.new_version)) }
            }
            @for file in diff.files.iter().take(MAX_LINES) { li { "File " code { (shown(&file.path)) } ": " (word(file.change)) } }
            @if diff.files.len() > MAX_LINES { li { (diff.files.len() - MAX_LINES) " more files" } }
            @for function in diff.functions.iter().take(MAX_LINES) {
                li {
                    "Function " code { (shown(&function.name)) } ": " (word(function.change))
                    @if !function.members.is_empty() { " (" (shown(&function.members.join(", "))) ")" }
                }
            }
            @for field in diff.fields.iter().take(MAX_LINES) {
                li { "Manifest " code { (shown(&field.field)) } ": " code { (value(&field.old)) } " is now " code { (value(&field.new)) } }
            }
        }
    }
}

/// The definitions stored in rules, for when no copy of the earlier files exists.
fn remembered(view: &View<'_>, tool: &LoadedTool) -> Markup {
    let changed: Vec<_> = tool
        .functions()
        .keys()
        .filter_map(|name| {
            let today = definition(tool, name);
            let changed = view.host().permissions().changed(tool.id(), name, &tool.content(), &today).ok()??;
            Some((name, changed.to_string()))
        })
        .collect();
    html! {
        p { "The earlier files are no longer kept, so they cannot be compared." }
        @if !changed.is_empty() {
            ul.diff { @for (name, text) in &changed { li { "Function " code { (name) } ": " (shown(text)) } } }
        }
    }
}
