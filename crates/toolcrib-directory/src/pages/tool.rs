//! The page of a tool: the four checks with reasons, its price, access, warnings, and history.

use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};

use crate::answer::ApiError;
use crate::api::history::{HistoryEvent, events};
use crate::api::tool::{resource, shown as everything};
use crate::api::tool_under;
use crate::pages::{address, class, icon, link, page as whole, refused, shown};
use crate::parameters;
use crate::reader::Reader;
use crate::surrogate::{depends, resource_key, tool_key};
use crate::view::{Standing, Tool};

/// The prefix of page paths.
const PREFIX: &str = "/tools/";

/// The number of shown events. The API has the rest.
const MAX_EVENTS: usize = 50;

const CHECKS: [(&str, &str); 4] = [
    ("The manifest is available", "It was fetched completely from the registered URI, with status 200 and without a redirect."),
    ("The origin is bound", "The endpoint and the manifest have the same origin."),
    ("The hash matches", "The hash of the manifest is the one in the registry."),
    ("The creator matches", "The manifest names the account that registered it."),
];

pub(super) async fn page(app: Reader, uri: Uri) -> Response {
    match content(&app, &uri).await {
        Ok((title, content, key)) => {
            depends(whole(&app.options, &format!("{title} \u{b7} {}", app.options.title), &content), [key])
        }
        Err(refusal) => refused(&app.options, refusal),
    }
}

async fn content(app: &Reader, uri: &Uri) -> Result<(String, Markup, String), ApiError> {
    if let Some(id) = parameters::resource(uri, PREFIX) {
        let tool = resource(app, id).await?;
        return Ok((tool.display_name.clone(), super::resource::content(&tool), resource_key(id)));
    }
    let view = tool_under(app, uri, PREFIX).await?;
    let tool = everything(app, &view).await?;
    let (history, _) = events(app, view.row.key, None, MAX_EVENTS).await?;
    let content = html! {
        (head(&tool))
        (checks(&tool))
        @if !tool.item.standing.warnings.is_empty() {
            section.warnings {
                h2 { "What to know" }
                ul { @for warning in &tool.item.standing.warnings { li { (shown(&warning.title)) " " code { (warning.code) } } } }
            }
        }
        (price(&tool))
        @if let Some(resource) = &tool.bazaar { (super::resource::claims(resource)) }
        (access(&tool))
        (facts(&tool))
        (schemas(&tool))
        @if !view.is_blocked() { (past(&history)) }
    };
    Ok((tool.display_name.clone(), content, tool_key(&view.tool)))
}

fn head(tool: &Tool) -> Markup {
    let standing = &tool.item.standing;
    let is_listed = standing.verified && standing.conformant;
    html! {
        section.head {
            (icon(tool.image_url.as_deref(), &tool.display_name))
            div {
                h1 { (shown(&tool.display_name)) }
                p.badges {
                    @if is_listed { span.badge.good { "verified" } }
                    @else if standing.verified { span.badge.bad { "verified, not conformant" } }
                    @else { span.badge.bad { (standing.verdict) } }
                    span.badge { (standing.access_type.replace('_', " ")) }
                    span.badge { (tool.health_status) }
                    @if !tool.item.registration.is_active { span.badge.bad { "deregistered" } }
                    @else if standing.life != "active" { span.badge { (standing.life.replace('_', " ")) } }
                    @if standing.dev { span.badge.bad { "development" } }
                }
                (moderated(standing))
                @if let Some(description) = &tool.description { p { (shown(description)) } }
                @for tag in tool.tags.iter().flatten() { span.tag { (shown(tag)) } " " }
                @if let Some(claims) = &tool.claims {
                    p.notice {
                        "Nothing about this registration is verified."
                        @if let Some(name) = &claims.name { " It calls itself \u{201c}" (shown(name)) "\u{201d}." }
                    }
                }
            }
        }
    }
}

/// The operator's restriction, if any.
pub(super) fn moderated(standing: &Standing) -> Markup {
    html! {
        @if let Some(moderation) = &standing.moderation {
            p.notice {
                @if moderation.action == "block" { "Blocked by the operator of this directory: " } @else { "Hidden by the operator of this directory: " }
                (shown(&moderation.reason)) @if !moderation.notice.is_empty() { " " (shown(&moderation.notice)) }
            }
        }
    }
}

fn checks(tool: &Tool) -> Markup {
    let standing = &tool.item.standing;
    html! {
        section {
            h2 { "The four checks" }
            ol.checks {
                @for (check, (title, about)) in standing.checks.iter().zip(CHECKS) {
                    li class=(class(&check.status)) {
                        strong { (title) } " " span.status { (shown(&check.status.replace('_', " "))) }
                        p.quiet { (about) }
                        @if let Some(failed) = standing.failed.as_ref().filter(|failed| failed.check == Some(check.number)) {
                            p.reason { (shown(&failed.title)) " " code { (shown(&failed.code)) } }
                        }
                    }
                }
            }
            @if let Some(failed) = standing.failed.as_ref().filter(|failed| failed.check.is_none()) {
                p.reason { (shown(&failed.title)) " " code { (shown(&failed.code)) } }
            }
            @if standing.verdict == "pending" { p.notice { "Not verified since the last change." } }
            @if let Some(at) = &standing.checked_at { p.quiet { "Verified at " (at) } }
        }
    }
}

pub(super) fn price(tool: &Tool) -> Markup {
    html! {
        section {
            h2 { "Price" }
            @if tool.pricing_recipients.is_empty() { p { @if tool.item.standing.verified { "The manifest has no price." } @else { "Unknown." } } }
            @else {
                ul {
                    @for price in &tool.pricing_recipients {
                        li {
                            @match &price.amount_per_call_usd { Some(usd) => { strong { "$" (usd) } " a call, " } None => {} }
                            (shown(&price.spoken()))
                            " by " (shown(&price.protocol)) " on chain " (shown(&price.payment_chain)) " to " code { (shown(&price.recipient)) }
                        }
                    }
                }
            }
        }
    }
}

fn access(tool: &Tool) -> Markup {
    html! {
        section {
            h2 { "Access" }
            @match &tool.predicate {
                None => { p { "Open to everyone." } }
                Some(predicate) => {
                    p {
                        "Accounts that the predicate " code { (predicate) } " admits"
                        @if let Some(name) = &tool.predicate_name { ", which calls itself \u{201c}" (shown(name)) "\u{201d}" } "."
                        @if tool.predicate_is_proxy == Some(true) { " Its code can be replaced." }
                    }
                    @if let Some(access) = &tool.access {
                        ul {
                            @for requirement in &access.requirements {
                                li {
                                    (shown(&requirement.meaning)) " " (shown(&requirement.label))
                                    @if let Some(collection) = &requirement.collection {
                                        " \u{201c}" (shown(&collection.name)) "\u{201d}"
                                        @if let Some(price) = &collection.floor_price { ", floor price " (shown(price)) }
                                        @if let Some(image) = &collection.image_url { ", image " (link(image)) }
                                    }
                                    @if let Some(contract) = requirement.collection_address.as_ref().or(requirement.token_address.as_ref()) { " " code { (contract) } }
                                }
                            }
                        }
                        @if access.requirements.len() > 1 { p.quiet { @if access.logic == "OR" { "One is enough." } @else { "All are needed." } } }
                    }
                }
            }
        }
    }
}

fn facts(tool: &Tool) -> Markup {
    let registration = &tool.item.registration;
    let usage = &tool.usage;
    html! {
        section {
            h2 { "Facts" }
            dl {
                @if let Some(endpoint) = &tool.endpoint { dt { "Endpoint" } dd { (link(endpoint)) } }
                dt { "Manifest" } dd { (link(&registration.metadata_uri)) }
                dt { "Hash" } dd { code { (registration.manifest_hash) } }
                dt { "Creator" } dd { code { (registration.creator) } }
                dt { "Registry" } dd { code { (registration.registry_addr) } " on chain " (registration.registry_chain) ", tool " (registration.tool_id) }
                dt { "Registered" } dd { (registration.created_at) }
                dt { "Changed" } dd { (registration.updated_at) }
                @if let Some(at) = &tool.deregistered_at { dt { "Deregistered" } dd { (at) } }
                dt { "Trust tier" } dd { (shown(&tool.item.standing.tier)) }
                dt { "Proven use" } dd { (usage.paid_calls) " paid calls by " (usage.payers) " accounts, $" (usage.volume_usd) "; " (usage.signed_calls) " signed calls" }
                dt { "Health" } dd {
                    (tool.health.answered) " of " (tool.health.looks) " verifications with an answer"
                    @if let Some(latency) = tool.health.latency_ms { ", " (latency) " ms" }
                }
                @if !tool.duplicates.same_uri.is_empty() { dt { "Same manifest" } dd { (names(&tool.duplicates.same_uri)) } }
                @if !tool.duplicates.same_endpoint.is_empty() { dt { "Same endpoint" } dd { (names(&tool.duplicates.same_endpoint)) } }
            }
        }
    }
}

/// Links to other tools here.
pub(super) fn names(ids: &[String]) -> Markup {
    html! {
        @for id in ids {
            @match toolcrib_core::caip::ToolRef::parse(id) {
                Ok(tool) => { a href=(address(&tool.chain.to_string(), &format!("{:#x}", tool.registry), &tool.id.to_string())) { "chain " (tool.chain) " #" (tool.id) } " " }
                Err(_) => { (id) " " }
            }
        }
    }
}

pub(super) fn schemas(tool: &Tool) -> Markup {
    html! {
        @for (title, schema) in [("Input", &tool.inputs), ("Output", &tool.outputs)] {
            @if let Some(schema) = schema {
                details {
                    summary { (title) }
                    pre { (serde_json::to_string_pretty(schema).map(|text| text.lines().map(shown).collect::<Vec<_>>().join("\n")).unwrap_or_default()) }
                }
            }
        }
    }
}

/// The address that means no predicate.
const NOBODY: &str = "0x0000000000000000000000000000000000000000";

fn past(history: &[HistoryEvent]) -> Markup {
    html! {
        @if !history.is_empty() {
            section {
                h2 { "History" }
                ol.history {
                    @for event in history {
                        li {
                            strong { (event.kind.replace('_', " ")) } " " span.quiet { (event.timestamp) ", block " (event.block_number) }
                            @if let Some(uri) = &event.metadata_uri { div { (link(uri)) } }
                            @if let Some(hash) = &event.manifest_hash { div { code { (shown(hash)) } } }
                            @match event.predicate.as_deref() {
                                None => {}
                                Some(NOBODY) => { div { "open to everyone" } }
                                Some(predicate) => { div { "predicate " code { (shown(predicate)) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
