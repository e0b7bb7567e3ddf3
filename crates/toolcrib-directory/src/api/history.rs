//! `GET …/history`: what the registry said about a tool, from the beginning.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{Answer, Refusal, fresh_for, json};
use crate::api::tool_at;
use crate::api::tools::FRESH;
use crate::directory::App;
use crate::parameters::Parameters;
use crate::rooms::HistoryEvent;

/// Events of a page, unless another number is asked for.
const DEFAULT_LIMIT: i64 = 100;
/// Most events of a page.
const MAX_LIMIT: i64 = 200;
/// Farthest place in the list. No tool has changed so often.
const MAX_OFFSET: i64 = 1_000_000;

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History {
    /// The events, the oldest first.
    pub(crate) events: Vec<HistoryEvent>,
    /// The offset of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

pub(crate) async fn history(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let parameters = Parameters::of(&uri)?;
    let limit = parameters.number("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let offset = parameters.number("offset", 0, MAX_OFFSET)?.unwrap_or_default();
    let view = tool_at(&app, &uri).await?;
    let historian = app.historian.as_ref().ok_or_else(Refusal::unavailable)?;
    let (most, from) = (usize::try_from(limit).unwrap_or(1), usize::try_from(offset).unwrap_or_default());
    let (events, has_more) = historian.history(view.row.key, most, from).await?;
    let history = History { events, next: has_more.then(|| (offset + limit).to_string()) };
    Ok(fresh_for(json(StatusCode::OK, &history), FRESH))
}
