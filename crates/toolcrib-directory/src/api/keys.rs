//! `POST /api/v2/auth/keys`: issues an API key.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::codes;

use crate::answer::{Answer, ApiError, json};
use crate::api::read_body;
use crate::directory::App;
use crate::front::Caller;
use crate::limits::{BucketKey, Class};
use crate::view::time;

/// The maximum size of a body, which is read and ignored. The operation takes none.
const MAX_BYTES: usize = 4 * 1024;

/// A key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InstantKey {
    /// The key, for the header `X-API-KEY`. It is shown this once.
    pub(crate) api_key: String,
    /// What it is called, for revoking it.
    pub(crate) name: String,
    /// Until when it is good.
    pub(crate) expires_at: String,
    /// How often it may be used.
    pub(crate) rate_limits: RateLimits,
    /// Where more can be had. Empty: ask the operator.
    pub(crate) upgrade_url: String,
}

/// How often a key may be used.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RateLimits {
    /// Reads, such as `600/h`.
    pub(crate) read: String,
    /// Writes, such as `30/h`.
    pub(crate) write: String,
    /// Fulfillments. A directory has none.
    pub(crate) fulfillment: String,
}

pub(crate) async fn issue(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    read_body(&app, caller, &headers, body, MAX_BYTES).await?;
    if !app.options.issues_keys {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, codes::directory::KEYS_OFF));
    }
    // First the caller's own limit, so that a caller above it does not use up the limit of all.
    let own = app.limiter.count(BucketKey::at(caller.address, Class::Key), app.options.keys_per_address);
    let wait = own.wait.or_else(|| app.limiter.count(BucketKey::Issuance, app.options.keys_in_all).wait);
    if let Some(seconds) = wait {
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, codes::directory::RATE).retry_after(seconds));
    }
    let (reads, writes) = (app.options.key_reads.per_hour, app.options.key_writes.per_hour);
    let issued = app.keys.issue(None, reads, writes, app.options.key_seconds, app.now()).await?;
    app.metrics.keys_issued.fetch_add(1, Ordering::Relaxed);
    let key = InstantKey {
        api_key: issued.key,
        name: issued.record.name,
        expires_at: time(issued.record.expires_at),
        rate_limits: RateLimits { read: format!("{reads}/h"), write: format!("{writes}/h"), fulfillment: "0/h".to_owned() },
        upgrade_url: String::new(),
    };
    Ok(json(StatusCode::CREATED, &key))
}
