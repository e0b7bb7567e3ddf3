//! `GET /api/v2/changes`: the change feed, page by page or as a stream of events.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::http::header::{ACCEPT, CACHE_CONTROL, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_http::Hold;
use toolcrib_index::Error;
use toolcrib_index::feed::{Change, MAX_PAGE};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, body, json};
use crate::front::Caller;
use crate::inert;
use crate::parameters::{Count, Number, Param, Query};
use crate::reader::Reader;
use crate::view::{BAZAAR, time};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Changes per page: up to the maximum of the index, 100 by default.
type Limit = Count<1, MAX_LIMIT, 100>;

const MAX_LIMIT: i64 = MAX_PAGE as i64;

/// The number of a change, or the one before the first.
type Seen = Number<0, { i64::MAX }>;

/// The number of changes in one step of a stream: what is buffered for a slow reader.
const STREAM_PAGE: usize = 100;

/// Time between two heartbeats of a stream. Proxies close connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The subject of a change.
const TOOL: &str = "tool";
const AGENT: &str = "agent";
const RESOURCE: &str = "resource";

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ChangesParameters {
    /// The number of the last change that was seen.
    #[param(inline)]
    cursor: Option<Seen>,
    /// Changes of a page.
    #[param(inline)]
    limit: Limit,
}

/// A page of changes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changes {
    /// The changes, in the order in which they were committed.
    pub(crate) changes: Vec<ChangeView>,
    /// The cursor of the next page: always there, since the feed has no end.
    pub(crate) next: String,
    /// Whether there are more already.
    pub(crate) has_more: bool,
}

/// A change of a tool or of an agent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub(crate) struct ChangeView {
    /// Its number. Tools, agents and resources of the Bazaar share the numbers.
    pub(crate) seq: i64,
    /// When it was recorded.
    pub(crate) at: String,
    /// `tool`, `agent`, or `resource` for a resource of the Bazaar.
    pub(crate) subject: &'static str,
    /// The tool, as `eip155:<chain>/erc8257:<registry>/<id>`, the name of the agent, or `x402_bazaar/<number>`.
    pub(crate) id: String,
    /// The number of the registry's chain, for a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) registry_chain: Option<String>,
    /// The registry, for a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) registry_addr: Option<String>,
    /// The tool's id there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_id: Option<String>,
    /// What changed. Of agents: `listed` and `delisted` when a name comes onto the list or leaves it, `verification` when the verdict differs.
    pub(crate) kinds: Vec<&'static str>,
}

pub(crate) async fn changes(
    app: Reader,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<ChangesParameters>,
    headers: HeaderMap,
) -> Answer {
    let cursor = asked.cursor.map(Param::value);
    if wants_stream(&headers) {
        return stream_from(app, caller, cursor, &headers).await;
    }
    let limit = usize::try_from(asked.limit.0).unwrap_or(1);
    let cursor = cursor.unwrap_or_default();
    let (last, changes) = after(&app, cursor, limit).await?;
    let mut views = Vec::new();
    for change in changes {
        views.push(shown(&app, change).await?);
    }
    let next = views.last().map_or(cursor, |view| view.seq);
    let page = Changes { has_more: next < last, next: next.to_string(), changes: views };
    Ok(json(StatusCode::OK, &page))
}

/// Returns the number of the last change, and changes after a cursor. An invalid cursor is rejected with a valid one.
async fn after(app: &Reader, cursor: i64, limit: usize) -> Result<(i64, Vec<Change>), ApiError> {
    let last = app.index.last_change().await?;
    // Another node may have shown the reader changes that this replica does not have yet. Only the primary knows whether they exist.
    if cursor > last && !app.replicas.is_empty() && cursor <= app.primary.last_change().await? {
        return Ok((last, Vec::new()));
    }
    if cursor > last {
        return Err(ApiError::reset(codes::index::CURSOR_AHEAD, last));
    }
    match app.index.changes(cursor, limit).await {
        Ok(changes) => Ok((last, changes)),
        Err(error @ Error::Forgotten { .. }) => {
            Err(ApiError::reset(codes::index::CURSOR_EXPIRED, last).message(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn shown(app: &Reader, change: Change) -> Result<ChangeView, Error> {
    let (seq, at, kinds) = (change.seq, time(change.at), change.kinds.names().collect());
    if let Some(domain) = app.index.agent_of(change.key).await? {
        let id = domain.as_str().to_owned();
        return Ok(ChangeView { seq, at, subject: AGENT, id, registry_chain: None, registry_addr: None, tool_id: None, kinds });
    }
    if let Some(number) = change.key.resource() {
        let id = format!("{BAZAAR}/{number}");
        let (registry_addr, tool_id) = (Some(BAZAAR.to_owned()), Some(number.to_string()));
        return Ok(ChangeView { seq, at, subject: RESOURCE, id, registry_chain: None, registry_addr, tool_id, kinds });
    }
    let tool = app.index.reference(change.key).await?;
    Ok(ChangeView {
        seq,
        at,
        subject: TOOL,
        id: tool.to_string(),
        registry_chain: Some(tool.chain.to_string()),
        registry_addr: Some(format!("{:#x}", tool.registry)),
        tool_id: Some(tool.id.to_string()),
        kinds,
    })
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Returns a stream that continues after the event that the caller saw last, from a cursor, or from now.
async fn stream_from(app: Reader, caller: Caller, cursor: Option<i64>, headers: &HeaderMap) -> Answer {
    let seen = match headers.get(LAST_EVENT_ID) {
        Some(id) => {
            let id = id.to_str().ok().and_then(|id| id.parse().ok()).filter(|id: &i64| *id >= 0);
            Some(id.ok_or_else(|| ApiError::parameter("Last-Event-ID", "expected a change number"))?)
        }
        None => cursor,
    };
    let cursor = match seen {
        Some(cursor) => cursor,
        None => app.index.last_change().await?,
    };
    // Reported before the stream begins, as a response that a client understands.
    after(&app, cursor, 1).await?;
    let hold = app.streams.take(caller.network(), 1).ok_or_else(ApiError::busy)?;
    app.metrics.streams.fetch_add(1, Ordering::Relaxed);
    let open = Open { app, cursor, is_first: true, _hold: hold };
    let events = stream::unfold(open, |mut open| async move {
        let bytes = open.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), open))
    });
    let mut response: Response = body(StatusCode::OK, "text/event-stream", Body::from_stream(events.fuse()));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Otherwise nginx would buffer events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// An open stream.
struct Open {
    app: Reader,
    cursor: i64,
    is_first: bool,
    _hold: Hold,
}

impl Open {
    /// Returns the next events, or a heartbeat. `None` ends the stream: the reader reconnects with the last number.
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.is_first) {
            return Some(Bytes::from_static(b"retry: 2000\n: toolcrib changes\n\n"));
        }
        let mut news = self.app.news.subscribe();
        loop {
            self.app = self.app.refreshed();
            let changes = self.app.index.changes(self.cursor, STREAM_PAGE).await.ok()?;
            if let Some(last) = changes.last() {
                let last = last.seq;
                let mut events = String::new();
                for change in changes {
                    let change = shown(&self.app, change).await.ok()?;
                    // Clients that only know tools listen for `change`.
                    let event = if change.subject == TOOL { "change" } else { change.subject };
                    events.push_str(&format!("id: {}\nevent: {event}\ndata: {}\n\n", change.seq, inert::to_string(&change)));
                }
                self.cursor = last;
                return Some(Bytes::from(events));
            }
            match timeout(HEARTBEAT, news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.app.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
