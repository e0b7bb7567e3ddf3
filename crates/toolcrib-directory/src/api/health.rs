//! `/health`, `/ready`, `/metrics` and `/openapi.json`.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;
use toolcrib_core::codes::Code;
use toolcrib_http::metrics_response;
use toolcrib_index::replicas::{ReplicaReport, ReplicaState};
use toolcrib_index::search::SearchStart;

use crate::answer::{Answer, ApiError, body, fresh_for, json};
use crate::directory::App;
use crate::openapi as document;

/// The timeout of the database.
const READY_TIME: Duration = Duration::from_secs(2);

/// Seconds since the feed was last read after which responses count as outdated.
const MAX_SILENCE: i64 = 30;

/// The status while the primary does not respond and replicas do.
const READ_ONLY: &str = "the primary does not answer; read replicas do";

/// The number of changes that search may be behind.
const MAX_LAG: i64 = 10_000;

/// Whether the process lives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alive {
    /// Always `ok`.
    pub(crate) status: &'static str,
}

/// Whether answers are right and new.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ready {
    /// `ok`, or what is wrong.
    pub(crate) status: &'static str,
    /// The number of the last change that answers show.
    pub(crate) shown: i64,
    /// The number of the last change; `null` while the primary does not answer.
    pub(crate) last_change: Option<i64>,
    /// The read replicas, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) replicas: Vec<ReplicaView>,
}

/// A read replica, as this node sees it. Its host is in the log alone, since anyone may ask.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReadReplica")]
pub(crate) struct ReplicaView {
    /// Its place among the replicas of the settings, counted from 1.
    pub(crate) number: usize,
    /// Whether requests are answered from it.
    pub(crate) usable: bool,
    /// Why not, as a code; absent before the first probe too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// The number of the last change that it has.
    pub(crate) watermark: i64,
    /// How old its state is, in milliseconds.
    pub(crate) age_ms: u64,
}

impl From<ReplicaReport> for ReplicaView {
    fn from(report: ReplicaReport) -> Self {
        Self {
            number: report.number,
            usable: report.state == ReplicaState::Usable,
            code: report.state.code().map(Code::id),
            watermark: report.watermark,
            age_ms: u64::try_from(report.age.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

pub(crate) async fn health() -> Answer {
    Ok(json(StatusCode::OK, &Alive { status: "ok" }))
}

pub(crate) async fn ready(State(app): State<Arc<App>>) -> Answer {
    let last = timeout(READY_TIME, app.primary.last_change()).await.ok().and_then(Result::ok);
    let shown = app.cache.last();
    let replicas = app.replicas.reports().into_iter().map(ReplicaView::from).collect();
    let is_silent = app.now().seconds() - app.looked_at.load(Ordering::Acquire) > MAX_SILENCE;
    let status = match last {
        None if app.replicas.newest().is_none() => "the database does not answer",
        _ if shown < 0 || is_silent => "the change feed is not being read",
        _ if !app.search.is_ready() => "the search index is being built",
        // Writes fail, and reads work: requests may still be sent here.
        None => READ_ONLY,
        Some(last) if last - app.search.cursor() > MAX_LAG => "the search index is far behind",
        Some(_) => "ok",
    };
    let code = if matches!(status, "ok" | READ_ONLY) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(fresh_for(json(code, &Ready { status, shown, last_change: last, replicas }), "no-store"))
}

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Answer {
    if !app.options.serves_metrics {
        return Err(ApiError::not_found());
    }
    Ok(metrics_response(metrics_page(&app)))
}

/// Returns the metrics page.
pub(crate) fn metrics_page(app: &App) -> String {
    let number = |value: i64| u64::try_from(value).unwrap_or_default();
    let mut gauges = vec![
        ("shown_change", "Last change visible in responses.", number(app.cache.last())),
        ("search_ready", "1 if search is ready, 0 while its index is being built.", u64::from(app.search.is_ready())),
        ("search_change", "Last change in the search index.", number(app.search.cursor())),
        ("cache_bytes", "Bytes of cached responses.", app.cache.weight()),
        ("image_cache_bytes", "Bytes of cached images.", app.images.weight()),
        ("unreadable_rows", "Rows skipped since the start because they cannot be decoded.", app.primary.unreadable_rows()),
        ("limit_buckets", "Callers with rate limit counters.", app.limiter.len() as u64),
    ];
    gauges.push((
        "search_from_snapshot",
        "1 if the search index was loaded from a snapshot.",
        u64::from(app.search.start() == SearchStart::Snapshot),
    ));
    if let Some(counts) = app.primary.object_counts() {
        gauges.extend([
            ("objects_written", "Objects written to the object store since the start.", counts.written),
            ("objects_read", "Objects read from the object store since the start.", counts.read),
            ("objects_failed", "Requests to the object store that failed since the start.", counts.failed),
            (
                "objects_kept_in_database",
                "Evidence stored in the database since the start because the object store failed.",
                counts.kept_in_database,
            ),
            ("objects_lost", "Objects found missing or damaged since the start.", counts.lost),
        ]);
    }
    gauges.extend(app.metrics.queue_gauges(app.now()));
    app.metrics.page(&gauges, &app.replicas.reports(), app.now())
}

pub(crate) async fn openapi() -> Answer {
    static DOCUMENT: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = DOCUMENT.get_or_init(|| document::document().to_string().into_bytes());
    Ok(fresh_for(body(StatusCode::OK, "application/json", bytes.clone()), "public, max-age=3600"))
}
