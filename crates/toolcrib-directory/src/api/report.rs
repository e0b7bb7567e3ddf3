//! `GET …/report` and `GET …/evidence`: the report and the evidence of the last verification.

use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use axum::http::{StatusCode, Uri};
use serde_json::Value;
use toolcrib_core::codes;

use crate::answer::{Answer, ApiError, body, fresh_for};
use crate::api::tool_at;
use crate::api::tools::FRESH;
use crate::inert;
use crate::reader::Reader;
use crate::surrogate::{depends, of_views};

pub(crate) async fn report(app: Reader, uri: Uri) -> Answer {
    let view = tool_at(&app, &uri).await?;
    let text = app.queue().report(view.row.key).await?.ok_or_else(not_looked_at)?;
    // The report quotes untrusted text, so it is serialized again in the escaped form.
    let report: Value = serde_json::from_str(&text).map_err(|_| corrupt())?;
    let response = fresh_for(body(StatusCode::OK, "application/json", inert::to_vec(&report)), FRESH);
    Ok(depends(response, of_views([&view])))
}

pub(crate) async fn evidence(app: Reader, uri: Uri) -> Answer {
    let view = tool_at(&app, &uri).await?;
    let bytes = app.queue().evidence(view.row.key).await?.ok_or_else(not_looked_at)?;
    // Byte for byte, so that it can be judged again. Browsers must not render it.
    let mut response = fresh_for(body(StatusCode::OK, "application/json", bytes), FRESH);
    let name = HeaderValue::from_static("attachment; filename=\"evidence.json\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(depends(response, of_views([&view])))
}

fn not_looked_at() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, codes::directory::NOT_VERIFIED_YET)
}

fn corrupt() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, codes::store::CORRUPT)
}
