//! `GET …/history`: the registry events of a tool, and its verdicts here.

use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_index::follow::{EventKind, EventPlace, ToolEvent};
use toolcrib_index::model::ToolKey;
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, fresh_for, json};
use crate::api::tool_at;
use crate::api::tools::FRESH;
use crate::parameters::{Count, Cursor, Query};
use crate::reader::Reader;
use crate::surrogate::{depends, of_views};
use crate::view::time;

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryParameters {
    /// Events of a page.
    #[param(inline)]
    limit: Count<1, 200, 100>,
    /// Where to go on: `next` of the page before.
    #[param(inline)]
    cursor: Cursor,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History {
    /// The events, the oldest first.
    pub(crate) events: Vec<HistoryEvent>,
    /// Where it goes on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Something that the registry said about a tool, or a predicate about its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct HistoryEvent {
    /// What happened: `registered`, `metadata_updated`, `predicate_updated`, `deregistered` or `predicate_upgraded`.
    pub(crate) kind: &'static str,
    /// The number of the block.
    pub(crate) block_number: u64,
    /// The hash of the block.
    pub(crate) block_hash: String,
    /// The place in the block.
    pub(crate) log_index: u64,
    /// The transaction.
    pub(crate) transaction_hash: String,
    /// The time of the block.
    pub(crate) timestamp: String,
    /// Who registered it, where the event says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) creator: Option<String>,
    /// The metadata URI, where the event sets it. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata_uri: Option<String>,
    /// The manifest's hash, where the event sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) manifest_hash: Option<String>,
    /// The predicate, where the event sets it. The zero address for everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate: Option<String>,
    /// The new code of a predicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) implementation: Option<String>,
}

pub(crate) async fn history(app: Reader, Query(asked): Query<HistoryParameters>, uri: Uri) -> Answer {
    let after = asked.cursor.0.map(|text| place(&text).ok_or_else(ApiError::cursor)).transpose()?;
    let view = tool_at(&app, &uri).await?;
    let (events, next) = events(&app, view.row.key, after, usize::try_from(asked.limit.0).unwrap_or(1)).await?;
    let next = next.map(|next| format!("{}.{}", next.block, next.log_index));
    Ok(depends(fresh_for(json(StatusCode::OK, &History { events, next }), FRESH), of_views([&view])))
}

/// Returns events after a position, at most `limit`, and the next position.
pub(crate) async fn events(
    app: &Reader,
    key: ToolKey,
    after: Option<EventPlace>,
    limit: usize,
) -> Result<(Vec<HistoryEvent>, Option<EventPlace>), ApiError> {
    let mut found = app.index.events(key, after, limit + 1).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|last| last.place).filter(|_| has_more);
    Ok((found.into_iter().map(HistoryEvent::of).collect(), next))
}

fn place(text: &str) -> Option<EventPlace> {
    let (block, log_index) = text.split_once('.')?;
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number: &u64| is_plain && i64::try_from(*number).is_ok())
    };
    Some(EventPlace { block: number(block)?, log_index: number(log_index)? })
}

impl HistoryEvent {
    fn of(event: ToolEvent) -> Self {
        let mut shown = Self {
            kind: event.what.name(),
            block_number: event.place.block,
            block_hash: event.block_hash.to_string(),
            log_index: event.place.log_index,
            transaction_hash: event.transaction.to_string(),
            timestamp: time(event.at.time),
            creator: None,
            metadata_uri: None,
            manifest_hash: None,
            predicate: None,
            implementation: None,
        };
        match event.what {
            EventKind::Registered { creator, predicate, metadata_uri, manifest_hash } => {
                shown.creator = Some(format!("{creator:#x}"));
                shown.predicate = Some(format!("{:#x}", predicate.unwrap_or_default()));
                shown.metadata_uri = Some(metadata_uri);
                shown.manifest_hash = Some(manifest_hash.to_string());
            }
            EventKind::MetadataUpdated { metadata_uri, manifest_hash } => {
                shown.metadata_uri = Some(metadata_uri);
                shown.manifest_hash = Some(manifest_hash.to_string());
            }
            EventKind::PredicateUpdated { predicate } => {
                shown.predicate = Some(format!("{:#x}", predicate.unwrap_or_default()));
            }
            EventKind::Upgraded { predicate, implementation } => {
                shown.predicate = Some(format!("{predicate:#x}"));
                shown.implementation = Some(format!("{implementation:#x}"));
            }
            _ => {}
        }
        shown
    }
}
