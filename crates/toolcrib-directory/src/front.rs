//! The middleware of every request: a request id, limits, the response cache, and the common headers.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AGE, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use toolcrib_core::codes;
use toolcrib_http::{Level, Network, X_REQUEST_ID, client_address, request_id};
use toolcrib_x402::header;
use tracing::Instrument as _;

use crate::answer::{ApiError, ErrorCode};
use crate::cache::{Coding, Entry, Form, KeyRef};
use crate::directory::App;
use crate::keys;
use crate::limits::{BucketKey, Class, Rate};
use crate::metrics::Route;
use crate::options::Auth;
use crate::routing::{self, Outdated, asked_cursor};
use crate::surrogate::{CACHE_TAG, SURROGATE_KEY, is_shared, label, make_private};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The challenge that makes a browser ask its user for a key. The name does not matter.
const CHALLENGE: &str = "Basic realm=\"a key of this directory, as the password\", charset=\"UTF-8\"";
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The request headers that scripts in browsers may send. Browser credentials are never used, so every origin is allowed.
const ALLOWED_HEADERS: &str = "Content-Type, Accept, X-API-KEY, If-None-Match, Last-Event-ID, X-Feed-Cursor, X-Request-Id, Mcp-Session-Id, MCP-Protocol-Version";
/// The response headers that scripts in browsers may read.
const EXPOSED_HEADERS: &str =
    "ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, X-Feed-Cursor, Location, Age, Cache-Status";
/// How long browsers cache a preflight response, in seconds. Chromium limits it to two hours.
const PREFLIGHT_SECONDS: &str = "7200";

/// The maximum size of a response that is buffered for the cache. Lists of 200 tools are far below.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Lookups of unfamiliar keys, for each address. Clients behind one address that all reconnect after a restart are below it, and 256 bits
/// cannot be guessed.
const UNFAMILIAR_KEYS: Rate = Rate::per_hour(3_600);

/// The caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The start of the hash of a valid key, and its rates.
    pub(crate) key: Option<(u64, Rate, Rate)>,
    /// The address of the caller, if known.
    pub(crate) address: Option<IpAddr>,
}

impl Caller {
    /// Returns the network that per-network limits count.
    pub(crate) fn network(&self) -> Option<Network> {
        self.address.map(Network::of)
    }
}

/// Runs a request through the middleware.
pub(crate) async fn front(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = Route::of(request.uri().path());
    let id = request_id(request.headers());
    let span =
        tracing::info_span!("request", id = id.to_str().unwrap_or_default(), method = %request.method(), route = route.name());
    let mut level = None;
    let mut response = async {
        if request.method() == Method::OPTIONS && route != Route::Mcp {
            // No route handles OPTIONS, so each rejects it with the methods that it allows.
            return preflight(next.run(request).await);
        }
        // Only MCP in this process passes on a request that was admitted before.
        let known = request.extensions().get::<Caller>().copied();
        let given = given_key(request.headers());
        let admitted = match known {
            Some(caller) => count(&app, caller, route),
            None => {
                let header = app.options.address_header.as_ref();
                let address = client_address(header, request.headers(), request.extensions());
                admit(&app, given.as_deref(), address, route).await
            }
        };
        match admitted {
            Ok((caller, counted)) => {
                level = counted;
                request.extensions_mut().insert(caller);
            }
            Err((refusal, counted)) => {
                level = counted;
                let mut response = refusal.into_response();
                // Browsers and monitoring get a challenge that they can answer.
                if response.status() == StatusCode::UNAUTHORIZED && matches!(route, Route::Page | Route::Image | Route::Metrics) {
                    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
                }
                return response;
            }
        }
        // A response to a request with a key must not be shared, nor one to a request that names a change.
        let is_personal = given.is_some() || app.options.auth == Auth::Required || asked_cursor(request.headers()).is_some();
        let mut response = answer(&app, request, next).await;
        let is_success = response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED;
        if let Some(age) = app.replicas.stale_seconds().filter(|_| is_success && route.is_of_database()) {
            app.metrics.stale.fetch_add(1, Ordering::Relaxed);
            mark_stale(response.headers_mut(), age);
        }
        if is_personal {
            make_private(response.headers_mut());
        } else if is_shared(response.headers()) {
            // Rate limit headers belong to one caller, and the response goes to many.
            level = None;
        }
        response
    }
    .instrument(span.clone())
    .await;
    let took = begun.elapsed();
    let status = response.status().as_u16();
    app.metrics.answered(route, status, took);
    if let Some(ErrorCode(code)) = response.extensions().get::<ErrorCode>() {
        app.metrics.refused(code);
    }
    tracing::debug!(parent: &span, status, micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX), "answered");
    finish(response.headers_mut(), id, level);
    response
}

/// Sets the common headers.
fn finish(headers: &mut HeaderMap, id: HeaderValue, level: Option<(Class, Rate, Level)>) {
    headers.insert(X_REQUEST_ID, id);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some((class, rate, level)) = level {
        let name = class.as_str();
        let limit = format!("\"{name}\";r={};t={}", level.remaining, level.reset);
        let (most, seconds) = rate.window();
        let policy = format!("\"{name}\";q={most};w={seconds}");
        if let (Ok(limit), Ok(policy)) = (HeaderValue::try_from(limit), HeaderValue::try_from(policy)) {
            headers.insert(RATE_LIMIT, limit);
            headers.insert(RATE_LIMIT_POLICY, policy);
        }
    }
}

type Counted = Option<(Class, Rate, Level)>;

/// Returns the key in a request: in its own header, or as the password or token of `Authorization`, which browsers and monitoring send.
pub(crate) fn given_key(headers: &HeaderMap) -> Option<String> {
    if let Some(key) = headers.get(X_API_KEY).filter(|key| !key.is_empty()) {
        // A value that is not text is not a key.
        return Some(key.to_str().unwrap_or("?").to_owned());
    }
    let (scheme, rest) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = if scheme.eq_ignore_ascii_case("bearer") {
        rest.trim().to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(header::decode(rest.trim()).ok()?).ok()?;
        pair.split_once(':')?.1.to_owned()
    } else {
        return None;
    };
    // Other credentials are for a proxy in front.
    key.starts_with(keys::PREFIX).then_some(key)
}

/// Authenticates the caller, and counts the request.
async fn admit(
    app: &App,
    given: Option<&str>,
    address: Option<IpAddr>,
    route: Route,
) -> Result<(Caller, Counted), (ApiError, Counted)> {
    let mut caller = Caller { key: None, address };
    // Health checks and static assets do not count.
    let is_closed = app.options.auth == Auth::Required;
    if route == Route::Other || (matches!(route, Route::Metrics | Route::Image) && !is_closed) {
        return Ok((caller, None));
    }
    // A caller that asks for a key may send one that has expired.
    if let Some(key) = given.filter(|_| route != Route::Keys) {
        // Guessing is pointless, but a flood of guesses must not reach the database.
        if !app.keys.is_familiar(key) {
            let level = app.limiter.count(BucketKey::at(address, Class::Lookup), UNFAMILIAR_KEYS);
            if level.wait.is_some() {
                return Err(too_often(Class::Lookup, UNFAMILIAR_KEYS, level));
            }
        }
        let found = app.keys.find(key, app.now()).await.map_err(|error| (error.into(), None))?;
        let Some((number, record)) = found else {
            return Err((ApiError::new(StatusCode::UNAUTHORIZED, codes::directory::KEY_UNKNOWN), None));
        };
        caller.key = Some((number, Rate::per_hour(record.reads), Rate::per_hour(record.writes)));
    }
    if is_closed && route != Route::Keys && caller.key.is_none() {
        let level = app.limiter.count(BucketKey::at(address, Class::Read), app.options.key_reads);
        if level.wait.is_none() {
            return Err((ApiError::new(StatusCode::UNAUTHORIZED, codes::directory::KEY_MISSING), None));
        }
        return Err(too_often(Class::Read, app.options.key_reads, level));
    }
    // Keys are limited where they are issued, images where they are fetched.
    if matches!(route, Route::Keys | Route::Image) { Ok((caller, None)) } else { count(app, caller, route) }
}

/// Counts an admitted request. Most MCP requests are reads.
///
/// A key only adds: when its own limit is reached, the limit of its address without a key still applies.
fn count(app: &App, caller: Caller, route: Route) -> Result<(Caller, Counted), (ApiError, Counted)> {
    let class = match route {
        Route::Usage | Route::Verify | Route::Abuse => Class::Write,
        _ => Class::Read,
    };
    let anonymous = match (app.options.auth, class) {
        // A key is required.
        (Auth::Required, _) => None,
        (Auth::Open, Class::Read) => match app.options.anonymous_reads {
            Some(rate) => Some(rate),
            None => return Ok((caller, None)),
        },
        (Auth::Open, _) => Some(app.options.anonymous_writes),
    };
    let mut refused = None;
    if let Some((number, reads, writes)) = caller.key {
        let rate = if class == Class::Read { reads } else { writes };
        let mut level = app.limiter.count(BucketKey::Key(number, class), rate);
        if let (Some(address), None) = (caller.address, level.wait) {
            let all = app.limiter.count(BucketKey::keys_at(address, class), rate);
            if all.wait.is_some() || all.remaining < level.remaining {
                level = all;
            }
        }
        if level.wait.is_none() {
            return Ok((caller, Some((class, rate, level))));
        }
        refused = Some((rate, level));
    }
    if let Some(rate) = anonymous {
        let level = app.limiter.count(BucketKey::at(caller.address, class), rate);
        if level.wait.is_none() {
            return Ok((caller, Some((class, rate, level))));
        }
        // The one that has room sooner.
        if refused.is_none_or(|(_, other)| level.wait < other.wait) {
            refused = Some((rate, level));
        }
    }
    match refused {
        Some((rate, level)) => Err(too_often(class, rate, level)),
        // Only a caller of this process that was admitted without a key has neither.
        None => Ok((caller, None)),
    }
}

fn too_often(class: Class, rate: Rate, level: Level) -> (ApiError, Counted) {
    let refusal = ApiError::new(StatusCode::TOO_MANY_REQUESTS, codes::directory::RATE).retry_after(level.wait.unwrap_or(1));
    (refusal, Some((class, rate, level)))
}

/// Returns a cached response, or a new one.
async fn answer(app: &Arc<App>, mut request: Request, next: Next) -> Response {
    let is_head = request.method() == Method::HEAD;
    let scope = if is_head || request.method() == Method::GET {
        app.cache.scope(request.uri().path(), request.uri().query())
    } else {
        None
    };
    // A request for a change that is not included yet gets a response that is not shared.
    let is_ahead = asked_cursor(request.headers()).is_some_and(|cursor| cursor > app.cache.last());
    let Some(scope) = scope.filter(|_| !is_ahead) else {
        return label(routing::run(app, request, next).await, app.options.shared_max_age);
    };
    let form = Form { is_markdown: wants_markdown(request.headers()), coding: coding(request.headers()) };
    let uri = request.uri().clone();
    let address = uri.path_and_query().map_or("/", |address| address.as_str());
    // Read before the data, so that the cached response is at least as new.
    let key = KeyRef { address, form, version: app.cache.version(scope) };
    let entry = match app.cache.get(&key) {
        Some(entry) => {
            app.metrics.hits.fetch_add(1, Ordering::Relaxed);
            entry
        }
        None => {
            app.metrics.misses.fetch_add(1, Ordering::Relaxed);
            let known = request.headers_mut().remove(IF_NONE_MATCH);
            *request.method_mut() = Method::GET;
            let headers = request.headers_mut();
            headers.insert(ACCEPT, HeaderValue::from_static(if form.is_markdown { "text/markdown" } else { "*/*" }));
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(form.coding.accepted()));
            let last_known = app.cache.last_known(&key, scope);
            let render = async {
                let response = label(routing::run(app, request, next).await, app.options.shared_max_age);
                let is_outdated = response.extensions().get::<Outdated>().is_some();
                let mut made = entry(response, form).await;
                made.is_stale = is_outdated && made.etag.is_some();
                match last_known {
                    Some(last) if made.is_outage => {
                        app.metrics.stale.fetch_add(1, Ordering::Relaxed);
                        Entry { is_stale: true, ..Entry::clone(&last) }
                    }
                    _ => made,
                }
            };
            let entry = app.cache.get_or(&key, render).await;
            return respond(&entry, is_head, known.as_ref());
        }
    };
    respond(&entry, is_head, request.headers().get(IF_NONE_MATCH))
}

/// Buffers a response.
async fn entry(response: Response, form: Form) -> Entry {
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MAX_ANSWER_BYTES).await else {
        let refusal = ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, codes::directory::INTERNAL).into_response();
        let (parts, _) = refusal.into_parts();
        return Entry {
            status: parts.status,
            headers: parts.headers,
            body: axum::body::Bytes::new(),
            etag: None,
            made: Instant::now(),
            is_outage: false,
            is_stale: false,
        };
    };
    let is_outage = parts.extensions.get::<ErrorCode>().is_some_and(|code| code.0 == codes::directory::UNAVAILABLE.id());
    let mut headers = parts.headers;
    headers.remove(CONTENT_LENGTH);
    let etag = parts.status.is_success().then(|| etag(&body, form)).flatten();
    if let Some(etag) = &etag {
        headers.insert(ETAG, etag.clone());
    }
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    Entry { status: parts.status, headers, body, etag, made: Instant::now(), is_outage, is_stale: false }
}

/// Returns a strong `ETag`: equal for equal bytes, on every machine.
fn etag(body: &[u8], form: Form) -> Option<HeaderValue> {
    let digest = Sha256::digest(body);
    let form = match (form.is_markdown, form.coding) {
        (false, Coding::Identity) => "j",
        (false, Coding::Gzip) => "jg",
        (false, Coding::Brotli) => "jb",
        (true, Coding::Identity) => "m",
        (true, Coding::Gzip) => "mg",
        (true, Coding::Brotli) => "mb",
    };
    HeaderValue::try_from(format!("\"{}-{form}\"", alloy_primitives::hex::encode(&digest[..12]))).ok()
}

fn respond(entry: &Entry, is_head: bool, known: Option<&HeaderValue>) -> Response {
    let is_known = entry.etag.as_ref().zip(known).is_some_and(|(etag, known)| matches(known, etag));
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = entry.headers.clone();
    if entry.is_stale {
        mark_stale(response.headers_mut(), entry.made.elapsed().as_secs());
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    *response.status_mut() = entry.status;
    if is_head {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(entry.body.len()));
    } else {
        *response.body_mut() = Body::from(entry.body.clone());
    }
    response
}

/// Marks a response as outdated by this number of seconds.
fn mark_stale(headers: &mut HeaderMap, age: u64) {
    headers.insert(AGE, HeaderValue::from(age));
    // RFC 9211: a negative `ttl` means that the response is stale.
    let status = format!("toolcrib; hit; ttl=-{}; detail=database-unavailable", age.max(1));
    headers.extend(HeaderValue::try_from(status).ok().map(|status| (CACHE_STATUS, status)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.remove(SURROGATE_KEY);
    headers.remove(CACHE_TAG);
}

/// Whether a list of entity tags includes this one. Weak tags are compared by their text (RFC 9110 §13.1.2).
pub(crate) fn matches(known: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(known), Ok(etag)) = (known.to_str(), etag.to_str()) else { return false };
    known.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Whether a caller asks for the compact form.
pub(crate) fn wants_markdown(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let weight = |kind: &str| {
        let found = accepted.split(',').filter_map(|part| {
            let mut parts = part.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(kind));
            let q = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0);
            is_it.then_some(q)
        });
        found.fold(0.0, f32::max)
    };
    let markdown = weight("text/markdown");
    markdown > 0.0 && markdown >= weight("application/json") && markdown >= weight("text/html")
}

impl Coding {
    const fn accepted(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }
}

/// Returns the best content encoding that a caller accepts.
fn coding(headers: &HeaderMap) -> Coding {
    let Some(accepted) = headers.get(ACCEPT_ENCODING).and_then(|accept| accept.to_str().ok()) else { return Coding::Identity };
    let takes = |name: &str| {
        accepted.split(',').any(|part| {
            let mut parts = part.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case(name));
            let refuses = parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q == 0.0)));
            is_it && !refuses
        })
    };
    if takes("br") {
        Coding::Brotli
    } else if takes("gzip") {
        Coding::Gzip
    } else {
        Coding::Identity
    }
}

/// Returns the response to OPTIONS, derived from the route's own response: for a CORS preflight, or for a client that asks for methods.
fn preflight(refused: Response) -> Response {
    let Some(allow) = refused.headers().get(ALLOW).cloned() else { return refused };
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ALLOW, allow.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    response
}

/// Returns the response for unknown paths.
pub(crate) async fn no_such_path() -> ApiError {
    ApiError::not_found()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn forms_are_chosen_by_what_a_caller_takes() {
        for (accept, expected) in [
            ("*/*", false),
            ("text/markdown", true),
            ("text/markdown;q=0.5, application/json", false),
            ("application/json;q=0.5, text/markdown", true),
            ("text/html, text/markdown;q=0.1", false),
            ("text/markdown;q=0", false),
        ] {
            assert_eq!(wants_markdown(&headers(ACCEPT, accept)), expected, "{accept}");
        }
        assert_eq!(coding(&headers(ACCEPT_ENCODING, "gzip, deflate, br")), Coding::Brotli);
        assert_eq!(coding(&headers(ACCEPT_ENCODING, "gzip, br;q=0")), Coding::Gzip);
        assert_eq!(coding(&headers(ACCEPT_ENCODING, "deflate")), Coding::Identity);
        assert_eq!(coding(&HeaderMap::new()), Coding::Identity);
    }
}
