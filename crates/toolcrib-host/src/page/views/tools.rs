//! The list of tools, and the checks of `local doctor`.

use axum::response::Response;
use maud::{Markup, html};

use super::{View, containment, sentence, shown};
use crate::local::{LoadedTool, Problem};
use crate::page::forms::Form;

/// Most functions of a tool in the list.
const MAX_NAMED: usize = 8;

/// All tools, and folders that cannot be loaded.
pub(in crate::page) fn tools(view: &View<'_>, query: &Form) -> Response {
    let tools = view.host().tools();
    let count = tools.tools().len();
    let content = html! {
        h1 { "Tools" }
        @if !tools.problems().is_empty() {
            section.problems aria-labelledby="problems" {
                h2 #problems { "Folders with problems" }
                ul.cards { @for folder in tools.problems() { (problem(folder)) } }
            }
        }
        @if count == 0 {
            p.empty {
                "No tools are loaded. Install one with " code { "toolcrib local add FOLDER" } ", or name their folder with " code { "--tools" } "."
            }
        } @else {
            p.quiet { (count) @if count == 1 { " tool" } @else { " tools" } " on this machine." }
            ul.cards { @for tool in tools.tools().values() { (card(view, tool)) } }
        }
    };
    view.page("Tools", "Tools", None, query, &content)
}

fn card(view: &View<'_>, tool: &LoadedTool) -> Markup {
    let (host, manifest) = (view.host(), tool.manifest());
    let names: Vec<_> = manifest.functions().iter().map(|function| function.name()).collect();
    html! {
        li.card {
            div.head {
                h2 { a href=(view.shared.page_of(tool.id())) { (shown(manifest.name())) } }
                span.quiet { code { (tool.id()) } " " (shown(manifest.version())) }
                (switch(view, tool))
            }
            p.description { (shown(manifest.description())) }
            p.badges { (badges(view, tool)) (containment(host, tool)) }
            p.quiet {
                @for name in names.iter().take(MAX_NAMED) { code { (name) } " " }
                @if names.len() > MAX_NAMED { "and " (names.len() - MAX_NAMED) " more" }
            }
        }
    }
}

/// The button that enables or disables a tool.
pub(super) fn switch(view: &View<'_>, tool: &LoadedTool) -> Markup {
    let is_enabled = view.host().is_enabled(tool);
    let (action, word) = if is_enabled { ("disable", "Disable") } else { ("enable", "Enable") };
    let label = format!("{word} {}", tool.id());
    view.form(action, "switch", &[("tool", tool.id())], &html! { button.plain[is_enabled] aria-label=(label) { (word) } })
}

/// Reasons why a tool cannot be used.
pub(super) fn badges(view: &View<'_>, tool: &LoadedTool) -> Markup {
    let host = view.host();
    let missing = host.missing_credentials(tool);
    html! {
        @if host.is_enabled(tool) { span.badge.good { "enabled" } } @else { span.badge.bad { "disabled" } }
        " "
        @if !missing.is_empty() {
            span.badge.bad { (missing.len()) @if missing.len() == 1 { " credential missing" } @else { " credentials missing" } }
            " "
        }
    }
}

fn problem(problem: &Problem) -> Markup {
    html! {
        li.card.bad {
            h3 { code { (shown(&problem.folder.display().to_string())) } }
            p { (sentence(&problem.error.to_string())) " " code { (problem.error.code().id()) } }
            @if problem.earlier_version_in_use { p { "The version before stays in use." } }
            @if !problem.error.findings().is_empty() {
                ul.findings {
                    @for finding in problem.error.findings() {
                        li { code { (finding.code.id()) } " " code { (shown(&finding.pointer)) } " " (shown(&finding.message)) }
                    }
                }
            }
        }
    }
}

/// The checks of `local doctor`.
pub(in crate::page) fn checks(view: &View<'_>) -> Response {
    let mut checks = view.host().doctor();
    checks.sort_by_key(|check| check.ok);
    let problems = checks.iter().filter(|check| !check.ok).count();
    let content = html! {
        h1 { "Checks" }
        p.quiet {
            @match problems { 0 => "Everything is as it should be.", 1 => "One problem.", count => { (count) " problems." } }
        }
        ul.checks {
            @for check in &checks {
                li.bad[!check.ok] {
                    span.badge.good[check.ok].bad[!check.ok] { @if check.ok { "ok" } @else { "problem" } }
                    div { strong { (shown(&check.name)) } p { (shown(&check.text)) } }
                }
            }
        }
    };
    view.page("Checks", "Checks", None, &Form::default(), &content)
}
