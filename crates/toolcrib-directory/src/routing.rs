//! Chooses the database for a request.
//!
//! A replica answers a request if it has every change that the response must include: those that lists show already, or, for one tool, its
//! last change that this node knows of. If no replica has it, the primary answers. A replica that fails is abandoned at once, also by
//! requests in progress, and the next one is tried: reads can be repeated. If the primary is unavailable as well, the newest replica
//! answers, and the response is marked as stale.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::sleep;
use toolcrib_core::codes;

use crate::answer::Cause;
use crate::directory::App;
use crate::metrics::Route;
use crate::reader::Chosen;

/// The number of a change: in a response, that of the write; in a request, one that the response must include.
pub(crate) const X_FEED_CURSOR: HeaderName = HeaderName::from_static("x-feed-cursor");

/// The timeout of a replica: longer than its statement timeout. Probes abort a read long before.
const REPLICA_TIME: Duration = Duration::from_secs(16);

/// Marks a response from a replica that does not have every required change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outdated;

/// Returns the change that a request asks to see.
pub(crate) fn asked_cursor(headers: &HeaderMap) -> Option<i64> {
    headers.get(X_FEED_CURSOR)?.to_str().ok()?.parse().ok().filter(|cursor| *cursor >= 0)
}

/// Sets the change after which reads include a write.
pub(crate) fn shows(mut response: Response, cursor: Option<i64>) -> Response {
    if let Some(cursor) = cursor {
        response.headers_mut().insert(X_FEED_CURSOR, HeaderValue::from(cursor));
    }
    response
}

/// Returns the change that a response must include at least.
fn least(app: &App, request: &Request) -> i64 {
    let known = app.cache.tool_version(request.uri().path()).unwrap_or_else(|| app.cache.last());
    known.max(asked_cursor(request.headers()).unwrap_or_default())
}

/// Answers a request from a suitable database.
pub(crate) async fn run(app: &Arc<App>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if app.replicas.is_empty() || !is_read || Route::of(request.uri().path()) == Route::Mcp {
        return next.run(request).await;
    }
    let least = least(app, &request);
    // The body of a read is not used, so the request can be sent again.
    let (parts, _) = request.into_parts();
    let again = || Request::from_parts(parts.clone(), Body::empty());
    for replica in app.replicas.candidates(least) {
        let mut asked = again();
        asked.extensions_mut().insert(Chosen(replica.index().clone()));
        let answered = tokio::select! {
            response = next.clone().run(asked) => Some(response),
            () = replica.broken() => None,
            () = sleep(REPLICA_TIME) => None,
        };
        match answered {
            Some(response) if !is_failed(&response) => {
                app.metrics.read_from(replica.number());
                return response;
            }
            Some(response) if is_lost(&response) => replica.failed(),
            _ => {}
        }
        app.metrics.replica_failures.fetch_add(1, Ordering::Relaxed);
    }
    let newest = app.replicas.newest();
    if app.replicas.has_primary() || newest.is_none() {
        let response = next.clone().run(again()).await;
        if !is_failed(&response) {
            app.metrics.read_from(0);
            return response;
        }
        if newest.is_none() {
            return response;
        }
    }
    let mut asked = again();
    if let Some(replica) = newest {
        asked.extensions_mut().insert(Chosen(replica.index().clone()));
    }
    let mut response = next.run(asked).await;
    response.extensions_mut().insert(Outdated);
    response
}

/// Whether the database failed, instead of the request or a chain.
fn is_failed(response: &Response) -> bool {
    response.status().is_server_error()
        && response.extensions().get::<Cause>().is_some_and(|cause| cause.0.id().starts_with("store."))
}

fn is_lost(response: &Response) -> bool {
    response.extensions().get::<Cause>().is_some_and(|cause| cause.0 == codes::store::LOST)
}
