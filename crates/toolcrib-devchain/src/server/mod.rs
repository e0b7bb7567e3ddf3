//! The server: HTTP and WebSocket on the same port.
//!
//! Requests run on tokio's blocking pool, because a call may burn millions of gas; requests of one connection run in sequence.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use toolcrib_http::{BodyBudget, BodyError, Limits, Server};

use crate::limits::{MAX_CONNECTIONS, MAX_REQUEST_BYTES};
use crate::node::Node;
use crate::rpc::{self, NoExtra, RpcError};

mod miner;
mod saver;
mod subscriptions;
mod visitors;
mod websocket;

pub(crate) use miner::mine_at_intervals;
pub(crate) use saver::{keep_saved, write_atomically};
pub(crate) use visitors::Visitors;

/// Time limit of reading a request body. Programs on the same computer send it at once.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Maximum total size of request bodies in memory.
const BODY_BYTES: usize = 256 * 1024 * 1024;

/// How long pending requests may take when the chain stops. Calls that burn all their gas take a few seconds.
const STOP_TIME: Duration = Duration::from_secs(5);

/// A signal to stop. It is also given when the sender is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Stop(pub(crate) watch::Receiver<bool>);

impl Stop {
    /// Waits for the signal.
    pub(crate) async fn wait(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Shared state of all request handlers.
#[derive(Clone, Debug)]
struct Shared {
    node: Arc<Node>,
    sockets: Arc<Semaphore>,
    visitors: Visitors,
    bodies: BodyBudget,
    stop: Stop,
}

/// Serves until `stop` is signalled.
pub(crate) async fn serve(listener: TcpListener, node: Arc<Node>, visitors: Visitors, stop: Stop) {
    let mut stopped = stop.clone();
    let sockets = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let bodies = BodyBudget::shared(BODY_BYTES, MAX_REQUEST_BYTES);
    let shared = Shared { node, sockets, visitors, bodies, stop };
    let router = Router::new().route("/", any(handle)).fallback(any(handle)).with_state(shared);
    // All clients are the developer's programs, mostly on the same computer and with one address.
    let limits = Limits { per_network: None, stop_time: STOP_TIME, ..Limits::default() };
    Server::new(limits).serve(listener, router, async move { stopped.wait().await }).await;
}

async fn handle(
    State(shared): State<Shared>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    if !shared.visitors.admits(request.headers()) {
        return (StatusCode::FORBIDDEN, "this page or host may not ask; see --allow-origin\n").into_response();
    }
    if let Ok(upgrade) = upgrade {
        let Ok(permit) = shared.sockets.clone().try_acquire_owned() else {
            return (StatusCode::SERVICE_UNAVAILABLE, "too many connections").into_response();
        };
        return upgrade.max_message_size(MAX_REQUEST_BYTES).max_frame_size(MAX_REQUEST_BYTES).on_upgrade(async move |socket| {
            websocket::converse(socket, shared.node, shared.stop).await;
            drop(permit);
        });
    }
    let page = shared.visitors.page(request.headers()).cloned();
    let mut response = match *request.method() {
        Method::POST => post(shared, request).await,
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Method::GET => (StatusCode::OK, "toolcrib chain dev: send JSON-RPC by POST or WebSocket\n").into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    // Pages in development use the chain from another origin.
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, OPTIONS"));
    }
    response
}

async fn post(shared: Shared, request: Request) -> Response {
    let Shared { node, bodies, .. } = shared;
    let (head, body) = request.into_parts();
    let body = match bodies.read(body, &head.headers, None, MAX_REQUEST_BYTES, BODY_TIME).await {
        Ok(body) => body,
        Err(error) => {
            let (status, what) = match error {
                BodyError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once".to_owned()),
                BodyError::Slow => (StatusCode::REQUEST_TIMEOUT, "request body too slow".to_owned()),
                _ => {
                    let what = format!("request body too large or incomplete: at most {MAX_REQUEST_BYTES} bytes");
                    (StatusCode::PAYLOAD_TOO_LARGE, what)
                }
            };
            return (status, json(rpc::error_body(RpcError::invalid_request(what)))).into_response();
        }
    };
    let answered = tokio::task::spawn_blocking(move || rpc::answer(&node, &body, &mut NoExtra)).await;
    match answered {
        Ok(Some(answer)) => json(answer).into_response(),
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(_) => {
            let error = RpcError::internal("the request could not be completed");
            (StatusCode::INTERNAL_SERVER_ERROR, json(rpc::error_body(error))).into_response()
        }
    }
}

fn json(body: Vec<u8>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body)
}
