//! `POST …/abuse`: a report about a tool or a Bazaar resource, for the operator.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_index::moderation::MAX_DETAILS_CHARS;

use crate::answer::{Answer, ApiError, json};
use crate::api::{TOOL_PREFIX, read_json, tool_shown_at};
use crate::directory::App;
use crate::front::Caller;
use crate::parameters;
use crate::reader::Reader;

/// The maximum size of the body: the longest description, escaped.
const MAX_BYTES: usize = 32 * 1024;

/// Kinds of abuse.
pub(crate) const REASONS: [&str; 6] = ["malware", "phishing", "impersonation", "spam", "illegal", "other"];

/// What a reporter says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    reason: String,
    #[serde(default)]
    details: String,
}

/// That a report was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AbuseReceipt {
    /// `received`, or `known` when there are many open reports about this tool already.
    pub(crate) status: &'static str,
    /// The number of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<i64>,
}

pub(crate) async fn abuse(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let Report { reason, details } = read_json(&app, caller, &headers, body, MAX_BYTES).await?;
    if !REASONS.contains(&reason.as_str()) {
        return Err(ApiError::parameter("reason", format!("expected one of {}", REASONS.join(", "))));
    }
    if details.chars().count() > MAX_DETAILS_CHARS {
        return Err(ApiError::parameter("details", format!("it is longer than {MAX_DETAILS_CHARS} characters")));
    }
    let report = match parameters::resource_part(&uri, TOOL_PREFIX, "abuse") {
        Some(id) => {
            let view = app.primary.resource(id).await?.ok_or_else(ApiError::not_found)?;
            app.primary.report_resource_abuse(&view, &reason, &details, app.now()).await?
        }
        None => {
            let view = tool_shown_at(&Reader::of_primary(&app), &uri).await?;
            app.primary.report_abuse(view.row.key, &reason, &details, app.now()).await?
        }
    };
    let status = if report.is_some() { "received" } else { "known" };
    Ok(json(StatusCode::ACCEPTED, &AbuseReceipt { status, report }))
}
