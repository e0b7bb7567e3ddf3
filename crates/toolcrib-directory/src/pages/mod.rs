//! Pages for people: a search page and a page for each tool. They work without scripts and contain none.
//!
//! All untrusted text goes through maud, which escapes it, and through `escape_for_display`, which escapes invisible characters. Links
//! only go to `https` and send no referrer. Images come from `images.rs`, or a placeholder is shown.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, RETRY_AFTER, X_FRAME_OPTIONS};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use toolcrib_core::text::escape_for_display;
use toolcrib_core::url::image::LinkKind;
use toolcrib_core::url::{HttpsUrl, display_host};
use toolcrib_http::percent_encode;

use crate::answer::{Answer, ApiError, Cause, ErrorCode, body, fresh_for};
use crate::api::reads;
use crate::api::tools::FRESH;
use crate::directory::App;
use crate::images;
use crate::options::Options;

mod agents;
mod resource;
mod search;
mod tool;

const STYLE: &str = include_str!("style.css");

/// No scripts, no framing, and everything that loads comes from this origin: no author learns who reads a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", reads(get(search::page)))
        .route("/tools/{registry_chain}/{registry_addr}/{tool_id}", reads(get(tool::page)))
        .route("/agents", reads(get(agents::list)))
        .route("/agents/{domain}", reads(get(agents::page)))
        .route("/images/{registry_chain}/{registry_addr}/{tool_id}/{which}", reads(get(images::image)))
        .route("/style.css", reads(get(style)))
}

async fn style() -> Answer {
    Ok(fresh_for(body(StatusCode::OK, "text/css; charset=utf-8", STYLE), "public, max-age=3600"))
}

/// A page with its head.
fn page(options: &Options, title: &str, content: &Markup) -> Response {
    respond(StatusCode::OK, options, title, content)
}

fn respond(status: StatusCode, options: &Options, title: &str, content: &Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) }
                link rel="stylesheet" href="/style.css";
            }
            body {
                header {
                    a.brand href="/" { (shown(&options.title)) }
                    nav { a href="/?include_unverified=true" { "All registrations" } a href="/?source=x402_bazaar" { "x402 Bazaar" } a href="/agents" { "Agents" } a href="/openapi.json" { "API" } }
                }
                main { (content) }
                footer {
                    "Names, descriptions and links are written by the authors of tools and agents. A tool is listed when all four checks of "
                    "ERC-8257 pass and its manifest keeps every rule; an agent when all eight steps of .agt 1.0 do."
                }
            }
        }
    };
    let mut response = fresh_for(body(status, "text/html; charset=utf-8", markup.into_string()), FRESH);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// An error response as a page.
fn refused(options: &Options, refusal: ApiError) -> Response {
    let status = refusal.status;
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::SERVICE_UNAVAILABLE => "Not available right now",
        _ => "That did not work",
    };
    let content = html! {
        h1 { (title) }
        @for detail in &refusal.details { p { (shown(&detail.message)) } p.quiet { (detail.hint) } }
        p { a href="/" { "Search" } }
    };
    let mut response = respond(status, options, title, &content);
    let plain = refusal.into_response();
    if let Some(code) = plain.extensions().get::<ErrorCode>() {
        response.extensions_mut().insert(*code);
    }
    if let Some(cause) = plain.extensions().get::<Cause>() {
        response.extensions_mut().insert(*cause);
    }
    for name in [CACHE_CONTROL, RETRY_AFTER] {
        match plain.headers().get(&name) {
            Some(value) => response.headers_mut().insert(name, value.clone()),
            None => response.headers_mut().remove(name),
        };
    }
    response
}

/// Untrusted text, with invisible characters escaped.
fn shown(text: &str) -> String {
    escape_for_display(text)
}

/// An untrusted URL: a link if it is allowed, with its host in the form for people.
fn link(url: &str) -> Markup {
    let host = HttpsUrl::parse(url).ok().map(|url| display_host(url.host()));
    match (LinkKind::classify(url), host) {
        (LinkKind::Link, Some(host)) => html! {
            a.foreign rel="noopener noreferrer" href=(url) { (shown(url)) }
            @if !host.findings.is_empty() || !url.contains(&host.text) { span.host { " (" (host.text) ")" } }
        },
        _ => html! { span.foreign { (shown(url)) } },
    }
}

/// The icon of a tool, as the directory serves it, or the first letter of its name.
fn icon(source: Option<&str>, name: &str) -> Markup {
    let letter =
        name.chars().find(|c| c.is_alphanumeric()).map(|c| c.to_uppercase().to_string()).unwrap_or_else(|| "?".to_owned());
    match source {
        Some(source) => html! { img.icon src=(source) alt="" loading="lazy" width="48" height="48"; },
        None => html! { span.icon aria-hidden="true" { (letter) } },
    }
}

/// The path of a tool's page.
fn address(chain: &str, registry: &str, id: &str) -> String {
    format!("/tools/{chain}/{registry}/{id}")
}

/// A CSS class of our own, whatever the status is.
fn class(status: &str) -> &'static str {
    match status {
        "passed" => "passed",
        "failed" => "failed",
        _ => "open",
    }
}

/// The query of the search page with one parameter set to another value, and without the cursor.
fn with(uri: &Uri, name: &str, value: Option<&str>) -> String {
    with_at("/", uri, name, value)
}

/// The same for the page at a path.
fn with_at(path: &str, uri: &Uri, name: &str, value: Option<&str>) -> String {
    let kept = uri.query().unwrap_or_default().split('&').filter(|pair| {
        let key = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && key != name && (key != "cursor" || name == "cursor")
    });
    let mut pairs: Vec<String> = kept.map(str::to_owned).collect();
    if let Some(value) = value {
        pairs.push(format!("{name}={}", percent_encode(value)));
    }
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}
