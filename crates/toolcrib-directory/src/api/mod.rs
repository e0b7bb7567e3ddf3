//! The operations, one file each.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use serde::de::DeserializeOwned;
use toolcrib_core::codes;
use toolcrib_http::{BodyError, ReadBody};
use toolcrib_index::model::ToolView;

use crate::answer::{ApiError, echo};
use crate::directory::App;
use crate::front::Caller;
use crate::parameters;
use crate::reader::Reader;

pub(crate) mod abuse;
pub(crate) mod activity;
pub(crate) mod admin;
pub(crate) mod agents;
pub(crate) mod can_call;
pub(crate) mod changes;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod registries;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod usage;
pub(crate) mod verify;

/// The timeout of a body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The prefix of every path of a tool.
const TOOL_PREFIX: &str = "/api/v2/tools/";

pub(crate) fn routes() -> Router<Arc<App>> {
    let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
    let part = |name: &str| format!("{tool}/{name}");
    Router::new()
        .route("/api/v2/tools", reads(get(tools::list)))
        .route("/api/v2/tools/search", reads(get(search::search)))
        .route("/api/v2/tools/usage", writes(post(usage::report)))
        .route(tool, reads(get(tool::get)))
        .route(&part("activity"), reads(get(activity::activity)))
        .route(&part("report"), reads(get(report::report)))
        .route(&part("evidence"), reads(get(report::evidence)))
        .route(&part("history"), reads(get(history::history)))
        .route(&part("can_call"), reads(get(can_call::can_call)))
        .route(&part("verify"), writes(post(verify::verify)))
        .route(&part("abuse"), writes(post(abuse::abuse)))
        .route("/api/v2/admin/moderation", both(get(admin::rules).post(admin::moderate)))
        .route("/api/v2/admin/log", reads(get(admin::log)))
        .route("/api/v2/admin/reports", reads(get(admin::reports)))
        .route("/api/v2/admin/reports/{report}/close", writes(post(admin::close)))
        .route("/api/v2/agents", reads(get(agents::list)))
        .route("/api/v2/agents/{domain}", reads(get(agents::get)))
        .route("/api/v2/agents/{domain}/report", reads(get(agents::report)))
        .route("/api/v2/auth/keys", writes(post(keys::issue)))
        .route("/api/v2/changes", reads(get(changes::changes)))
        .route("/api/v2/stats", reads(get(stats::stats)))
        .route("/api/v2/registries", reads(get(registries::registries)))
        .route("/api/v2/export", reads(get(export::export)))
        .route("/openapi.json", reads(get(health::openapi)))
        .route("/health", reads(get(health::health)))
        .route("/ready", reads(get(health::ready)))
        .route("/metrics", reads(get(health::metrics)))
}

/// Rejects other methods with a JSON body.
pub(crate) fn reads(router: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    router.fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
}

fn writes(router: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    router.fallback(|| async { not_allowed("POST, OPTIONS") })
}

fn both(router: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    router.fallback(|| async { not_allowed("GET, HEAD, POST, OPTIONS") })
}

fn not_allowed(allow: &'static str) -> Response {
    let mut response = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, codes::directory::METHOD).into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Reads a body up to a maximum size, in time.
async fn read_body(app: &App, caller: Caller, headers: &HeaderMap, body: Body, most: usize) -> Result<ReadBody, ApiError> {
    let refused = |status| ApiError::new(status, codes::directory::BODY);
    let read = app.bodies.read(body, headers, caller.network(), most, BODY_TIME).await;
    read.map_err(|error| match error {
        BodyError::Busy => ApiError::busy(),
        BodyError::Slow => refused(StatusCode::REQUEST_TIMEOUT),
        BodyError::Broken => refused(StatusCode::BAD_REQUEST),
        _ => refused(StatusCode::PAYLOAD_TOO_LARGE),
    })
}

/// Reads a body that is a JSON document.
async fn read_json<T: DeserializeOwned>(
    app: &App,
    caller: Caller,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<T, ApiError> {
    let bytes = read_body(app, caller, headers, body, most).await?;
    serde_json::from_slice(&bytes).map_err(|error| ApiError::parameter("body", echo(&error.to_string())))
}

/// Returns the tool in a path. A tool that the operator blocked is rejected with the notice.
async fn tool_at(app: &Reader, uri: &Uri) -> Result<ToolView, ApiError> {
    let view = tool_shown_at(app, uri).await?;
    if !view.is_blocked() {
        return Ok(view);
    }
    let refusal = ApiError::new(StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, codes::directory::BLOCKED);
    match view.moderation.map(|moderation| moderation.notice).filter(|notice| !notice.is_empty()) {
        Some(notice) => Err(refusal.message(notice)),
        None => Err(refusal),
    }
}

/// Returns the tool in a path. A tool that the operator blocked is returned without its content.
async fn tool_shown_at(app: &Reader, uri: &Uri) -> Result<ToolView, ApiError> {
    tool_under(app, uri, TOOL_PREFIX).await
}

/// Returns the tool in a path with this prefix.
pub(crate) async fn tool_under(app: &Reader, uri: &Uri, prefix: &str) -> Result<ToolView, ApiError> {
    let tool = parameters::tool(uri, prefix)?.ok_or_else(ApiError::not_found)?;
    let mut view = app.index.tool(&tool).await?.ok_or_else(ApiError::not_found)?;
    if view.is_blocked() {
        view.listing = None;
        view.row.metadata_uri.clear();
    }
    Ok(view)
}
