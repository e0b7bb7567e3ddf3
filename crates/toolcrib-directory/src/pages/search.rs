//! The search page.

use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use toolcrib_index::search::{Facet, Facets, Source};

use crate::answer::ApiError;
use crate::api::search::{SearchResults, read, run};
use crate::api::stats;
use crate::pages::{address, icon, page as whole, refused, shown, with};
use crate::parameters::Pairs;
use crate::reader::Reader;
use crate::surrogate::depends;
use crate::view::{BAZAAR, Found};

/// The number of shown values of one facet.
const MAX_VALUES: usize = 12;

pub(super) async fn page(app: Reader, uri: Uri) -> Response {
    match content(&app, &uri).await {
        Ok((content, keys)) => depends(whole(&app.options, &format!("{}: tools for agents", app.options.title), &content), keys),
        Err(refusal) => refused(&app.options, refusal),
    }
}

async fn content(app: &Reader, uri: &Uri) -> Result<(Markup, Vec<String>), ApiError> {
    let pairs = Pairs::of(uri)?;
    let mut asked = read(app, pairs.read()?).await?;
    asked.query.facets = true;
    let results = run(app, &asked).await?;
    let stats = stats::counted(app).await?;
    let words = pairs.text("query").unwrap_or_default();
    let includes_unverified = asked.query.include_unverified;
    let source = asked.query.filters.source.map(Source::as_str);
    let content = html! {
        section.hero {
            h1 { "Find a tool" }
            p.quiet { (stats.listed) " verified tools of " (stats.tools) " registrations on " (stats.chains.len()) @if stats.chains.len() == 1 { " chain" } @else { " chains" } }
            form action="/" method="get" role="search" {
                input type="search" name="query" value=(shown(words)) maxlength="1000" placeholder="What should it do?" aria-label="Search";
                @if includes_unverified { input type="hidden" name="include_unverified" value="true"; }
                @if let Some(source) = source { input type="hidden" name="source" value=(source); }
                button type="submit" { "Search" }
            }
        }
        @if source == Some(BAZAAR) {
            p.notice { "Facilitators list these resources. They are not in a registry, and nothing about them is verified." }
        } @else if includes_unverified {
            p.notice { "Registrations that failed verification are shown too. Nothing about them is verified." }
        }
        div.columns {
            @if let Some(facets) = &results.facets { (sidebar(facets, &pairs, uri)) }
            section.results { (found(&results, uri)) }
        }
    };
    Ok((content, results.keys))
}

fn found(results: &SearchResults, uri: &Uri) -> Markup {
    html! {
        @if results.results.is_empty() { p { "No results." } }
        @if let Some(total) = results.total { @if total > 0 { p.quiet { (total) " in all" } } }
        @if results.partial { p.notice { "Not every candidate was checked." } }
        ol.tools { @for found in &results.results { li { (card(found)) } } }
        @if let Some(next) = &results.next { p { a.more href=(with(uri, "cursor", Some(next))) { "More" } } }
    }
}

fn card(found: &Found) -> Markup {
    let is_listed = found.standing.verified && found.standing.conformant;
    html! {
        article.card {
            (icon(found.image_url.as_deref(), &found.display_name))
            div {
                h2 { a href=(address(&found.registry_chain, &found.registry_addr, &found.tool_id)) { (shown(&found.display_name)) } }
                p.badges {
                    @if is_listed { span.badge.good { "verified" } } @else { span.badge.bad { (found.standing.verdict) } }
                    span.badge { (found.standing.access_type.replace('_', " ")) }
                    @if let Some(price) = found.pricing_recipients.as_ref().and_then(|prices| prices.first()) {
                        span.badge { @match &price.amount_per_call_usd { Some(usd) => { "$" (usd) } None => { "paid" } } }
                    }
                    @if found.usage.paid_calls > 0 { span.badge { (found.usage.paid_calls) " paid calls" } }
                    @if found.standing.dev { span.badge.bad { "development" } }
                }
                @if !found.description.is_empty() { p.description { (shown(&found.description)) } }
                @if let Some(failed) = &found.standing.failed { p.description { "Failed: " (shown(&failed.title)) } }
                p.quiet {
                    @if !found.endpoint_domain.is_empty() { (shown(&found.endpoint_domain)) " \u{b7} " }
                    @if found.standing.source == BAZAAR { "x402 Bazaar" } @else { "chain " (found.registry_chain) } " \u{b7} #" (found.tool_id)
                    @if found.standing.also_in_bazaar.is_some() { " \u{b7} also in the x402 Bazaar" }
                }
            }
        }
    }
}

fn sidebar(facets: &Facets, pairs: &Pairs, uri: &Uri) -> Markup {
    html! {
        aside aria-label="Filters" {
            (group("Category", "tags", &facets.categories, pairs, uri))
            (group("Access", "access_type", &facets.access, pairs, uri))
            (group("Chain", "registry_chain", &facets.chains, pairs, uri))
            (group("Tag", "tags", &facets.tags, pairs, uri))
            (group("Trust", "tier", &facets.tiers, pairs, uri))
            (group("Payment", "protocol", &facets.protocols, pairs, uri))
        }
    }
}

fn group(title: &str, name: &str, values: &[Facet], pairs: &Pairs, uri: &Uri) -> Markup {
    let chosen = pairs.text(name);
    html! {
        @if !values.is_empty() {
            h2 { (title) }
            ul.facets {
                @if chosen.is_some() { li { a href=(with(uri, name, None)) { "any" } } }
                @for facet in values.iter().take(MAX_VALUES) {
                    li {
                        @if chosen == Some(&facet.value) { strong { (shown(&facet.value)) } }
                        @else { a href=(with(uri, name, Some(&facet.value))) { (shown(&facet.value)) } }
                        span.count { (facet.count) }
                    }
                }
            }
        }
    }
}
