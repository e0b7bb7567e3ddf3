//! `POST /api/v2/tools/usage`: a tool's report about a call. The index verifies it; this module parses it and limits who may send it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Severity;
use toolcrib_index::usage::submit;
use toolcrib_x402::usage::{MAX_BYTES, read_submission};

use crate::answer::{Answer, ApiError, json};
use crate::api::read_body;
use crate::directory::App;
use crate::front::Caller;
use crate::routing::shows;

/// What became of a report.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageReceipt {
    /// Its id: the same for the same call, however often it is reported.
    pub(crate) id: String,
    /// Whether it proves a call, and so was counted.
    pub(crate) verified: bool,
    /// The kind of proof.
    pub(crate) verification_type: String,
    /// Why it was not counted, or not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// What the code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

pub(crate) async fn report(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let bytes = read_body(&app, caller, &headers, body, MAX_BYTES).await?;
    let (submission, findings) = read_submission(&bytes);
    let Some(submission) = submission else {
        let errors: Vec<_> = findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        return Err(ApiError::findings(&errors));
    };
    let receipt = submit(&app.primary, &app.chains, &submission, app.now()).await?;
    app.metrics.reports[usize::from(receipt.verified)].fetch_add(1, Ordering::Relaxed);
    // A report that names no tool, or two, is an invalid request; everything else is a result about the call.
    if let Some(code) = receipt.code.filter(|code| is_request_fault(*code)) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, code));
    }
    let cursor = match &receipt.tool {
        Some(tool) => Some(app.wrote(tool).await?),
        None => None,
    };
    let receipt = UsageReceipt {
        id: receipt.id,
        verified: receipt.verified,
        verification_type: receipt.verification_type.to_owned(),
        code: receipt.code.map(Code::id),
        reason: receipt.code.map(Code::title),
    };
    Ok(shows(json(StatusCode::OK, &receipt), cursor))
}

fn is_request_fault(code: Code) -> bool {
    [codes::usage::TOOL_UNKNOWN, codes::usage::TOOL_AMBIGUOUS].contains(&code)
}
