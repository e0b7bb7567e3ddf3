//! Checks of every request, and headers of every response.
//!
//! The browser also runs pages of other sites, which can send requests to this machine. A request is served only under a loopback host
//! name (DNS rebinding), makes changes only from the same origin with the token of its form, and reads only with the session cookie.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use toolcrib_core::codes;

use super::Shared;
use super::refusal::PageRejection;

/// No scripts, no frames, no external resources, and no forms to other sites.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The query of an automatic reload.
pub(super) const AUTOMATIC: &str = "auto=1";

/// Serves or rejects a request.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let mut response = match admit(&shared, &mut request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    secure(response.headers_mut());
    response
}

fn admit(shared: &Shared, request: &mut Request) -> Result<(), PageRejection> {
    let host = host(shared, request)?.to_owned();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read {
        check_origin(request.headers(), &host)?;
    }
    if !shared.is_inside(request.uri().path()) {
        return Ok(());
    }
    check_site(request.headers(), is_read)?;
    let is_use = !request.uri().query().unwrap_or_default().split('&').any(|pair| pair == AUTOMATIC);
    let signed = shared.session.check(request.headers(), shared.host.clock().now(), is_use);
    let signed = signed.ok_or_else(|| PageRejection::new(StatusCode::FORBIDDEN, codes::host::PAGE_SESSION))?;
    request.extensions_mut().insert(signed);
    Ok(())
}

/// The host name of the request, which must be one of this machine. With DNS rebinding, a page sends its own name.
fn host<'r>(shared: &Shared, request: &'r Request) -> Result<&'r str, PageRejection> {
    let named = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_ours = |name: &str| shared.hosts.iter().any(|host| host == name);
    if !is_ours(named) || request.uri().authority().is_some_and(|authority| !is_ours(authority.as_str())) {
        return Err(forged("it names another host"));
    }
    Ok(named)
}

/// Browsers send the origin with every request that is not a read.
fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), PageRejection> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return Err(forged("it does not name its origin")) };
    match origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) {
        Some(own) if own == host => Ok(()),
        _ => Err(forged("it comes from another origin")),
    }
}

/// Browsers send the relation of the requesting page to this one. `none` means that the user typed the address, which is not possible for
/// forms.
fn check_site(headers: &HeaderMap, is_read: bool) -> Result<(), PageRejection> {
    let Some(site) = headers.get(SEC_FETCH_SITE) else { return Ok(()) };
    match site.as_bytes() {
        b"same-origin" => Ok(()),
        b"none" if is_read => Ok(()),
        _ => Err(forged("it comes from another site")),
    }
}

pub(super) fn forged(why: &str) -> PageRejection {
    let message = format!("{}: {why}", codes::host::PAGE_FORGERY.title());
    PageRejection::new(StatusCode::FORBIDDEN, codes::host::PAGE_FORGERY).message(message)
}

fn secure(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send `Origin: null` with forms, and the origin could not be checked.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
