//! The list of agents, and the page of one: the verification steps with reasons, its owner, protocols and pricing.

use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use toolcrib_core::agent::PricingModel;
use toolcrib_http::percent_encode;

use crate::answer::ApiError;
use crate::api::agents::{AgentList, AgentsParameters, agent_keys, agent_under, find, shown as everything};
use crate::pages::{class, icon, link, page as whole, refused, shown, with_at};
use crate::parameters::Pairs;
use crate::reader::Reader;
use crate::surrogate::{AGENTS, depends};
use crate::view::{Agent, AgentItem, AgentToolView};

/// The path of the list.
const LIST: &str = "/agents";

const STEPS: [(&str, &str); 8] = [
    ("Content retrieved", "The TXT record points to a manifest, and a gateway served it."),
    ("CID matches", "The bytes match the hash in the record."),
    ("Content canonical", "The manifest is JSON with a canonical form to sign (RFC 8785)."),
    ("Signer recovered", "The signature is well-formed, and a signer can be recovered from it (EIP-191)."),
    ("Signer is the owner", "The signer is the owner in the manifest."),
    ("Token known", "The token id is derived from the name."),
    ("Holder read", "The holder of the token was read from the registry on Polygon."),
    ("Holder is the owner", "The holder is the owner in the manifest."),
];

pub(super) async fn list(app: Reader, uri: Uri) -> Response {
    match list_content(&app, &uri).await {
        Ok(content) => {
            depends(whole(&app.options, &format!("Agents \u{b7} {}", app.options.title), &content), [AGENTS.to_owned()])
        }
        Err(refusal) => refused(&app.options, refusal),
    }
}

pub(super) async fn page(app: Reader, uri: Uri) -> Response {
    match agent_content(&app, &uri).await {
        Ok((title, content, keys)) => {
            depends(whole(&app.options, &format!("{title} \u{b7} {}", app.options.title), &content), keys)
        }
        Err(refusal) => refused(&app.options, refusal),
    }
}

async fn list_content(app: &Reader, uri: &Uri) -> Result<Markup, ApiError> {
    let pairs = Pairs::of(uri)?;
    let query = pairs.read::<AgentsParameters>()?.query()?;
    let found = find(app, &query).await?;
    let (listed, good) = app.index.agent_counts(app.now()).await?;
    let words = pairs.text("q").unwrap_or_default();
    let hidden = ["capability", "protocol", "pricing", "max_price", "currency", "verified"];
    Ok(html! {
        section.hero {
            h1 { "Find an agent" }
            p.quiet { (good) " verified agents of " (listed) " .agt names" }
            form action=(LIST) method="get" role="search" {
                input type="search" name="q" value=(shown(words)) maxlength="300" placeholder="A name, or what it does" aria-label="Search";
                @for name in hidden {
                    @if let Some(value) = pairs.text(name) { input type="hidden" name=(name) value=(shown(value)); }
                }
                button type="submit" { "Search" }
            }
        }
        @if query.include_unverified {
            p.notice { "Names that are not verified are shown too. Nothing about them is verified." }
        }
        div.columns {
            aside aria-label="Filters" {
                (group("Protocol", "protocol", toolcrib_core::agent::vocabulary::PROTOCOLS.iter().map(|protocol| protocol.id), &pairs, uri))
                (group("Pricing", "pricing", PricingModel::ALL.iter().map(|model| model.as_str()), &pairs, uri))
            }
            section.results { (results(&found, uri)) }
        }
    })
}

fn group(title: &str, name: &str, values: impl Iterator<Item = &'static str>, pairs: &Pairs, uri: &Uri) -> Markup {
    let chosen = pairs.text(name);
    html! {
        h2 { (title) }
        ul.facets {
            @if chosen.is_some() { li { a href=(with_at(LIST, uri, name, None)) { "any" } } }
            @for value in values {
                li {
                    @if chosen == Some(value) { strong { (value) } }
                    @else { a href=(with_at(LIST, uri, name, Some(value))) { (value) } }
                }
            }
        }
    }
}

fn results(found: &AgentList, uri: &Uri) -> Markup {
    html! {
        @if found.agents.is_empty() { p { "No results." } }
        ol.tools { @for agent in &found.agents { li { (card(agent)) } } }
        @if let Some(next) = &found.next { p { a.more href=(with_at(LIST, uri, "cursor", Some(next))) { "More" } } }
    }
}

fn card(agent: &AgentItem) -> Markup {
    html! {
        article.card {
            (icon(None, agent.display_name()))
            div {
                h2 { a href=(format!("{LIST}/{}", percent_encode(&agent.domain))) { (shown(agent.display_name())) } }
                (badges(agent))
                @if let Some(description) = &agent.description { p.description { (shown(description)) } }
                @if let Some(failed) = &agent.failed { p.description { "Failed: " (shown(&failed.title)) } }
                p.quiet { (shown(&agent.domain)) @if let Some(display) = &agent.display_domain { " (" (shown(display)) ")" } }
            }
        }
    }
}

fn badges(agent: &AgentItem) -> Markup {
    html! {
        p.badges {
            @if agent.is_good() { span.badge.good { "verified" } }
            @else if agent.verified { span.badge.bad { "verified, not conformant" } }
            @else { span.badge.bad { (shown(&agent.state)) } }
            @if agent.expired { span.badge.bad { "too old" } }
            @if agent.legacy { span.badge.bad { "unsigned" } }
            @for protocol in &agent.protocols { span.badge { (shown(&protocol.id)) } }
            @if let Some(pricing) = &agent.pricing { span.badge { (shown(&pricing.model)) } }
        }
    }
}

async fn agent_content(app: &Reader, uri: &Uri) -> Result<(String, Markup, [String; 2]), ApiError> {
    let view = agent_under(app, uri, "/agents/", "").await?;
    let agent = everything(app, &view).await?;
    let content = html! {
        (head(&agent))
        (steps(&agent))
        @if !agent.findings.is_empty() {
            section.warnings {
                h2 { "What to know" }
                ul { @for finding in &agent.findings { li { (shown(&finding.title)) " " code { (shown(&finding.code)) } } } }
            }
        }
        (offers(&agent))
        (tools(&agent))
        (facts(&agent))
        (past(&agent))
    };
    Ok((agent.item.display_name().to_owned(), content, agent_keys(&view)))
}

fn head(agent: &Agent) -> Markup {
    let item = &agent.item;
    html! {
        section.head {
            (icon(None, item.display_name()))
            div {
                h1 { (shown(item.display_name())) }
                (badges(item))
                p { code { (shown(&item.domain)) } @if let Some(display) = &item.display_domain { " displays as \u{201c}" (shown(display)) "\u{201d}" } }
                @if let Some(description) = &item.description { p { (shown(description)) } }
                @if let Some(claims) = &agent.claims {
                    p.notice {
                        "Nothing about this agent is verified."
                        @if let Some(name) = &claims.name { " It calls itself \u{201c}" (shown(name)) "\u{201d}." }
                        @if let Some(description) = &claims.description { " It says: \u{201c}" (shown(description)) "\u{201d}." }
                    }
                }
            }
        }
    }
}

fn steps(agent: &Agent) -> Markup {
    let item = &agent.item;
    html! {
        section {
            h2 { "The eight steps" }
            ol.checks {
                @for (step, (title, about)) in agent.steps.iter().zip(STEPS) {
                    li class=(class(step.status)) {
                        strong { (title) } " " span.status { (step.status.replace('_', " ")) }
                        p.quiet { (about) }
                        @if let Some(code) = &step.code { p.reason { (shown(step.title.as_deref().unwrap_or_default())) " " code { (shown(code)) } } }
                    }
                }
            }
            @if let Some(failed) = &item.failed { p.reason { (shown(&failed.title)) " " code { (shown(&failed.code)) } } }
            @if item.checked_at.is_none() { p.notice { "This name has no verdict yet." } }
            @if let Some(at) = &item.checked_at { p.quiet { "Verified or refused " (at) @if item.expired { ", which is too long ago to count" } } }
            @if let Some(unreachable) = &item.unreachable {
                p.notice { "The last attempt, " (unreachable.at) ", failed: " (shown(&unreachable.title)) " " code { (shown(&unreachable.code)) } }
            }
        }
    }
}

fn offers(agent: &Agent) -> Markup {
    let item = &agent.item;
    html! {
        @if !item.protocols.is_empty() {
            section {
                h2 { "Protocols" }
                ul { @for protocol in &item.protocols { li { strong { (shown(&protocol.id)) } " " (link(&protocol.endpoint)) } } }
            }
        }
        @if !item.capabilities.is_empty() {
            section {
                h2 { "Capabilities" }
                p { @for id in &item.capabilities { span.tag { (shown(id)) } " " } }
                @if agent.partial { p.quiet { "Not all entries of the manifest are shown." } }
            }
        }
        @if let Some(pricing) = &item.pricing {
            section {
                h2 { "Price" }
                p { (shown(&pricing.spoken())) @if let Some(chain) = &pricing.chain { " on " (shown(chain)) } }
            }
        }
    }
}

/// Registered tools at the endpoints, with both verdicts.
fn tools(agent: &Agent) -> Markup {
    let at = |tool: &AgentToolView| format!("/tools/{}/{}/{}", tool.registry_chain, tool.registry_addr, tool.tool_id);
    html! {
        @if !agent.tools.is_empty() {
            section {
                h2 { "Registered tools" }
                p.quiet { "Tools in onchain registries (ERC-8257) at these endpoints. The agent is verified; each tool has its own verdict." }
                ul.checks {
                    @for tool in &agent.tools {
                        li {
                            a href=(at(tool)) { code { (tool.id) } } " "
                            @if tool.confirmed { span.badge.good { "verified, same owner" } }
                            @else {
                                span.badge.bad { (tool.verdict) }
                                @if tool.same_owner { span.badge { "registered by the owner" } }
                                @else { span.badge.bad { "registered by another account" } }
                            }
                            div { (shown(&tool.protocol)) " " (link(&tool.endpoint)) " " span.quiet { (tool.place.replace('_', " ")) } }
                            div { "registered by " code { (tool.creator) } }
                        }
                    }
                }
            }
        }
    }
}

fn facts(agent: &Agent) -> Markup {
    let item = &agent.item;
    html! {
        section {
            h2 { "Facts" }
            dl {
                @if let Some(owner) = &item.owner { dt { "Holder onchain" } dd { code { (owner) } } }
                @if let Some(block) = item.block { dt { "Block" } dd { (block) } }
                @if let Some(cid) = &item.cid { dt { "CID" } dd { code { (shown(cid)) } } }
                @if let Some(digest) = &item.content_digest { dt { "Content digest" } dd { code { (digest) } } }
                @if let Some(signed) = &agent.signed_by { dt { "Signature" } dd { (shown(signed)) } }
                @if let Some(created_at) = &item.created_at { dt { "Created, as stated in the manifest" } dd { (created_at) } }
                @if let Some(expires_at) = &item.expires_at { dt { "Verdict valid until" } dd { (expires_at) } }
                @if let Some(website) = &agent.website { dt { "Website" } dd { (link(website)) } }
                dt { "Listed since" } dd { (agent.added_at) }
            }
        }
    }
}

fn past(agent: &Agent) -> Markup {
    html! {
        @if !agent.history.is_empty() {
            section {
                h2 { "History" }
                ol.history {
                    @for change in &agent.history {
                        li {
                            strong { @if change.verified { "verified" } @else { (shown(&change.state)) } } " " span.quiet { (change.at) }
                            @if let Some(code) = &change.code { " " code { (shown(code)) } }
                            @if let Some(cid) = &change.cid { div { code { (shown(cid)) } } }
                            @if let Some(owner) = &change.owner { div { "held by " code { (owner) } } }
                        }
                    }
                }
            }
        }
    }
}
