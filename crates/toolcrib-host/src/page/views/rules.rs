//! All rules, and stored credentials of tools that are not loaded.

use axum::response::Response;
use maud::{Markup, html};

use super::{View, hash, sentence, shown, time};
use crate::local::ChangeError;
use crate::local::permissions::{Decision, Rule, RuleId};
use crate::local::secrets::{SecretState, Source};
use crate::page::forms::Form;
use crate::page::refusal::PageRejection;

/// The page of all rules.
pub(in crate::page) fn rules(view: &View<'_>, query: &Form) -> Result<Response, PageRejection> {
    let rules = view.host().permissions().list().map_err(ChangeError::from)?;
    let tools = view.host().tools();
    let is_abandoned = |secret: &SecretState| secret.source == Source::Encrypted && !tools.tools().contains_key(&secret.tool);
    let secrets = view.host().secrets().list();
    let abandoned: Vec<_> = secrets.iter().flatten().filter(|secret| is_abandoned(secret)).collect();
    let content = html! {
        h1 #rules { "Rules" }
        p.quiet {
            "A rule that denies wins over all others. A rule that allows counts for the files that the tool had when you made it. "
            "Without a rule you are asked."
        }
        @if rules.is_empty() { p.empty { "There are no rules: you are asked before every call." } }
        @else { (table(view, &rules.iter().collect::<Vec<_>>(), "rules")) }
        @if let Err(error) = &secrets { p.notice.bad { (sentence(&error.to_string())) } }
        @if !abandoned.is_empty() {
            section aria-labelledby="credentials" {
                h2 #credentials { "Stored credentials of tools that are not loaded" }
                ul.cards {
                    @for secret in abandoned {
                        li.card.line {
                            span { code { (shown(&secret.tool)) } " " code { (shown(&secret.name)) } }
                            (view.form("remove-credential", "", &[("tool", secret.tool.as_str()), ("name", secret.name.as_str())],
                                &html! { button.plain { "Remove" } }))
                        }
                    }
                }
            }
        }
    };
    Ok(view.page("Rules", "Rules", None, query, &content))
}

/// A table of rules. `from` is the page to return to.
pub(super) fn table(view: &View<'_>, rules: &[&Rule], from: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Rules" {
            table {
                thead {
                    tr {
                        th scope="col" { "Rule" } th scope="col" { "Decision" } th scope="col" { "Tool" } th scope="col" { "Function" }
                        th scope="col" { "Holds for" } th scope="col" { span.hidden { "Remove" } }
                    }
                }
                tbody { @for rule in rules { (row(view, rule, from)) } }
            }
        }
    }
}

fn row(view: &View<'_>, rule: &Rule, from: &str) -> Markup {
    let id = rule.id.to_string();
    let current = rule.tool.as_deref().and_then(|tool| view.host().tools().tools().get(tool).map(|tool| tool.content()));
    html! {
        tr {
            td { (id) }
            td { span.badge.good[rule.decision == Decision::Allow].bad[rule.decision == Decision::Deny] { (rule.decision) } }
            td { @match &rule.tool { Some(tool) => code { (shown(tool)) }, None => "every tool" } }
            td { @match &rule.function { Some(function) => code { (shown(function)) }, None => "every function" } }
            td {
                @for pattern in &rule.arguments {
                    div { "arguments " code { (shown(&serde_json::to_string(pattern).unwrap_or_default())) } }
                }
                @match (&rule.content, current) {
                    (None, _) => "every version",
                    (Some(content), Some(current)) if *content == current => "this version",
                    (Some(content), _) => { "an earlier version " (hash(content)) }
                }
                @if let Some(expires) = rule.expires { ", until " (time(expires)) }
            }
            td {
                @if matches!(rule.id, RuleId::Policy(_)) { span.quiet { "policy file" } }
                @else {
                    (view.form("revoke", "", &[("rule", id.as_str()), ("from", from)],
                        &html! { button.plain aria-label=(format!("Remove rule {id}")) { "Remove" } }))
                }
            }
        }
    }
}
