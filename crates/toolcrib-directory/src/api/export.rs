//! `GET /api/v2/export`: all tools as JSON lines, from a cursor on.
//!
//! Every line has its cursor, so that a reader that was cut off continues after the last line received. The header `X-Feed-Cursor` is the
//! change from which the feed has everything that happened since the export began.

use std::sync::atomic::Ordering;

use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::http::StatusCode;
use axum::http::header::HeaderValue;
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_http::Hold;
use toolcrib_index::{List, ListPosition, Order};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, body};
use crate::api::tools::{cursor, place};
use crate::front::Caller;
use crate::inert;
use crate::parameters::{Cursor, Flag, Query};
use crate::reader::Reader;
use crate::routing::X_FEED_CURSOR;
use crate::view::ToolItem;

/// Tools read at once: what is buffered for a slow reader.
const PAGE: usize = 100;

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParameters {
    /// Where to go on: `cursor` of the last line that was read.
    #[param(inline)]
    cursor: Cursor,
    /// Also tools that are not verified and conformant: for people, not for agents.
    #[param(inline)]
    include_unverified: Flag<false>,
}

/// One line of an export.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportLine {
    #[serde(flatten)]
    pub(crate) tool: ToolItem,
    /// Where the export goes on after this line.
    pub(crate) cursor: String,
}

pub(crate) async fn export(app: Reader, Extension(caller): Extension<Caller>, Query(asked): Query<ExportParameters>) -> Answer {
    let include_unverified = asked.include_unverified.0;
    let after = asked.cursor.0.map(|text| place(&text, Order::Oldest).ok_or_else(ApiError::cursor)).transpose()?;
    // Everything that is read from here on, from any database, includes this change and those before it.
    let last = if app.replicas.is_empty() { app.index.last_change().await? } else { app.cache.last().max(0) };
    let hold = app.exports.take(caller.network(), 1).ok_or_else(ApiError::busy)?;
    app.metrics.streams.fetch_add(1, Ordering::Relaxed);
    let open = Open { app, after, include_unverified, is_done: false, _hold: hold };
    let lines = stream::unfold(open, |mut open| async move {
        let lines = open.next().await?;
        Some((lines, open))
    });
    // The compression layer polls once more after the end.
    let mut response = body(StatusCode::OK, "application/x-ndjson", Body::from_stream(lines.fuse()));
    response.headers_mut().insert(X_FEED_CURSOR, HeaderValue::from(last));
    Ok(response)
}

/// An export in progress.
struct Open {
    app: Reader,
    after: Option<ListPosition>,
    include_unverified: bool,
    is_done: bool,
    _hold: Hold,
}

impl Open {
    /// Returns the next lines. An error aborts the response, so that a part is not mistaken for the whole.
    async fn next(&mut self) -> Option<Result<Bytes, toolcrib_index::Error>> {
        if self.is_done {
            return None;
        }
        let list = List {
            order: Order::Oldest,
            include_unverified: self.include_unverified,
            after: self.after,
            limit: PAGE,
            ..List::default()
        };
        let page = match self.app.index.list(&list).await {
            Ok(page) => page,
            Err(error) => {
                self.is_done = true;
                return Some(Err(error));
            }
        };
        let mut lines = Vec::new();
        for view in &page.tools {
            let here = ListPosition { registered_at: view.row.registered.time, key: view.row.key };
            let line = ExportLine { tool: ToolItem::of(view), cursor: cursor(here, Order::Oldest) };
            lines.extend(inert::to_vec(&line));
            lines.push(b'\n');
        }
        self.after = page.next;
        self.is_done = page.next.is_none();
        Some(Ok(Bytes::from(lines)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.app.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
