//! The page of a Bazaar resource: its price, the claims of catalogues, and its own response.

use maud::{Markup, html};

use crate::pages::tool::{moderated, names, price, schemas};
use crate::pages::{icon, link, shown};
use crate::view::{Resource, Tool};

pub(super) fn content(tool: &Tool) -> Markup {
    let standing = &tool.item.standing;
    html! {
        section.head {
            (icon(None, &tool.display_name))
            div {
                h1 { (shown(&tool.display_name)) }
                p.badges { span.badge.bad { (standing.verdict) } span.badge { "x402 Bazaar" } span.badge { (tool.health_status) } }
                (moderated(standing))
                p.notice { "A facilitator lists this resource. It is not in a registry and has no manifest, so nothing about it is verified." }
                @if let Some(description) = &tool.description { p { (shown(description)) } }
                @for tag in tool.tags.iter().flatten() { span.tag { (shown(tag)) } " " }
            }
        }
        (price(tool))
        @if let Some(resource) = &tool.bazaar { (claims(resource)) }
        section {
            h2 { "Facts" }
            dl {
                @if let Some(url) = &tool.item.registration.endpoint_url { dt { "URL" } dd { (link(url)) } }
                @if let Some(resource) = &tool.bazaar {
                    @if let Some(name) = &resource.mcp_tool { dt { "MCP tool" } dd { code { (shown(name)) } } }
                    @if let Some(onchain) = &resource.onchain { dt { "Registered tool" } dd { (names(std::slice::from_ref(onchain))) } }
                }
                dt { "First seen" } dd { (tool.item.registration.created_at) }
                dt { "Changed" } dd { (tool.item.registration.updated_at) }
            }
        }
        (schemas(tool))
    }
}

/// The claims of facilitators, next to the resource's own response.
pub(super) fn claims(resource: &Resource) -> Markup {
    html! {
        section {
            h2 { "In the x402 Bazaar" }
            p.quiet {
                @match &resource.probe {
                    None => { "The resource was not probed for its price yet." }
                    Some(probe) => {
                        "Asked " (probe.at) ": " (shown(&probe.state.replace('_', " ")))
                        @if let Some(status) = probe.status { ", status " (status) }
                        @if let Some(title) = &probe.title { ", " (title) }
                        "."
                    }
                }
            }
            ul {
                @for claim in &resource.claims {
                    li {
                        strong { (shown(&claim.facilitator)) } " claims "
                        @for (at, price) in claim.prices.iter().enumerate() {
                            @if at > 0 { ", " }
                            (shown(&price.spoken())) " on chain " (shown(&price.payment_chain))
                        }
                        @match claim.agrees_with_probe {
                            Some(true) => { ": the resource itself asks for the same" }
                            Some(false) => { ": " strong { "the resource itself asks for other terms" } }
                            None => { ": not confirmed" }
                        }
                        span.quiet { " (seen " (claim.seen_at) ")" }
                    }
                }
            }
        }
    }
}
