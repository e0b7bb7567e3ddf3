//! `POST …/verify`: verifies a tool again, now.
//!
//! Only registered tools are verified, at the URI in the registry, so a caller cannot choose what the directory fetches. Each key or
//! address and each origin has a limit, and a request during a verification waits for that one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{HeaderMap, StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use toolcrib_core::codes;
use toolcrib_core::url::HttpsUrl;
use toolcrib_index::model::ToolView;
use toolcrib_index::text_key;

use crate::answer::{Answer, ApiError, json};
use crate::api::{read_body, tool_at};
use crate::directory::App;
use crate::front::Caller;
use crate::limits::BucketKey;
use crate::reader::Reader;
use crate::routing::shows;
use crate::view::{Standing, current};

/// How long to wait for the result.
const WAIT: Duration = Duration::from_secs(5);

/// The interval of polling for the result.
const EVERY: Duration = Duration::from_millis(200);

/// A verification that is newer is not repeated, in seconds: a manifest does not change twice a minute.
const RECENT_SECONDS: i64 = 60;

/// The maximum size of a body, which is read and ignored. The operation takes none.
const MAX_BYTES: usize = 4 * 1024;

/// How a look went, or that it is under way.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Verification {
    /// `done`, `recent` (it was looked at a moment ago) or `queued`.
    pub(crate) status: &'static str,
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    read_body(&app, caller, &headers, body, MAX_BYTES).await?;
    let view = tool_at(&Reader::of_primary(&app), &uri).await?;
    if !view.row.is_active() {
        let refusal = ApiError::new(StatusCode::CONFLICT, codes::directory::NOT_FOUND);
        return Err(refusal.message("the tool is deregistered, so there is nothing to verify"));
    }
    let now = app.now();
    if current(&view).is_some_and(|listing| now.since(listing.checked_at) < RECENT_SECONDS) {
        return Ok(answer(&view, "recent", StatusCode::OK));
    }
    // A URI that is not a URL is judged without fetching anything.
    let origin = HttpsUrl::parse(&view.row.metadata_uri).map(|url| url.origin().to_string()).unwrap_or_default();
    let who = BucketKey::Origin(text_key(&origin).cast_unsigned());
    if let Some(seconds) = app.limiter.count(who, app.options.looks_per_origin).wait {
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, codes::directory::RATE).retry_after(seconds));
    }
    app.queue.request(view.row.key, now).await?;
    app.metrics.looks_asked.fetch_add(1, Ordering::Relaxed);
    let before = view.listing.as_ref().map(|listing| listing.checked_at);
    // Too many requests wait: this one is told to come back.
    let Ok(_place) = app.waiting.try_acquire() else { return Ok(queued(&view, &uri)) };
    let begun = Instant::now();
    while begun.elapsed() < WAIT {
        sleep(EVERY).await;
        let seen = app.primary.tools(&[view.row.key]).await?.pop().ok_or_else(ApiError::not_found)?;
        if seen.listing.as_ref().map(|listing| listing.checked_at) != before && current(&seen).is_some() {
            let cursor = app.wrote(&seen.tool).await?;
            return Ok(shows(answer(&seen, "done", StatusCode::OK), Some(cursor)));
        }
    }
    Ok(queued(&view, &uri))
}

fn answer(view: &ToolView, status: &'static str, code: StatusCode) -> axum::response::Response {
    json(code, &Verification { status, standing: Standing::of(view) })
}

fn queued(view: &ToolView, uri: &Uri) -> axum::response::Response {
    let mut response = answer(view, "queued", StatusCode::ACCEPTED);
    let report = uri.path().strip_suffix("/verify").map(|tool| format!("{tool}/report"));
    if let Some(Ok(report)) = report.map(HeaderValue::try_from) {
        response.headers_mut().insert(LOCATION, report);
    }
    response
}
