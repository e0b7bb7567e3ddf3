//! MCP servers over streamable HTTP.
//!
//! - `address`: the server's address, and the client for it.
//! - `session`: protocol versions, headers and sessions of both eras.
//! - `answer`, `events`: parsing a response as it arrives.
//! - `failure`: error codes for failures of servers.
//!
//! Each call is one POST, whose response is JSON or an event stream. No stream is kept open between calls, so a server cannot contact the
//! host on its own. Requests of a server within a response are not answered: the client declares no capabilities.

mod address;
mod answer;
mod events;
pub(super) mod failure;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_core::local::NetworkRequest;
use toolcrib_fetch::{Configured, Limits, Untrusted};
use toolcrib_judge::evidence::{Exchange, Response};
use toolcrib_mcp::{Called, ToolPages};
use toolcrib_process::Containment;

use self::address::Address;
use self::answer::{AnswerReader, Message};
use self::session::{LEGACY, MODERN, Session};
use super::speech::tool_result;
use super::{Events, Invocation, MAX_RESULT_BYTES, RunError, Runtime};
use crate::local::secrets::Secret;

/// Most bytes of a response. It may contain a result twice, as text and as data, and progress and log lines.
const MAX_ANSWER_BYTES: usize = 4 * MAX_RESULT_BYTES;

/// Time limit of a cancellation notice. The call does not wait for it.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// Time limit for closing a session. The program waits for it when it exits.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// Errors with which servers of the newer era refuse a request. Any other error to the first request means the older era.
const MODERN_REFUSALS: [i64; 2] = [-32_020, -32_021];

/// Settings of a [`McpHttpRuntime`].
pub(crate) struct McpHttpSettings<'a> {
    /// The URL in the manifest.
    pub(crate) url: &'a str,
    /// The network grant of the tool's sandbox.
    pub(crate) network: &'a NetworkRequest,
    /// The client for local servers.
    pub(crate) local: Configured,
    /// The client for remote servers.
    pub(crate) remote: Untrusted,
    /// Most concurrent calls.
    pub(crate) concurrent: usize,
}

/// Calls tools of an MCP server by streamable HTTP.
pub(crate) struct McpHttpRuntime {
    server: Arc<Server>,
    places: Semaphore,
    /// Allows one handshake at a time.
    session: Mutex<Option<Arc<Session>>>,
}

/// A server, and the last request id.
struct Server {
    address: Address,
    last_id: AtomicU64,
}

/// The response to one request.
struct Reply {
    status: u16,
    /// The session id in it.
    session: Option<String>,
    message: Option<Message>,
    /// The exchange, for errors.
    exchange: Exchange,
}

impl McpHttpRuntime {
    /// Checks the URL. Sends nothing before the first call.
    pub(crate) fn new(settings: McpHttpSettings<'_>) -> Result<Self, RunError> {
        let McpHttpSettings { url, network, local, remote, concurrent } = settings;
        let address = Address::new(url, network, local, remote)?;
        Ok(Self {
            server: Arc::new(Server { address, last_id: AtomicU64::new(0) }),
            places: Semaphore::new(concurrent.max(1)),
            session: Mutex::default(),
        })
    }

    /// The current session, or a new one for other credentials.
    async fn session(&self, credentials: &BTreeMap<String, Arc<Secret>>, deadline: Instant) -> Result<Arc<Session>, RunError> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_of(credentials)) {
            return Ok(Arc::clone(session));
        }
        *current = None;
        let session = Arc::new(self.server.open(credentials, deadline).await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Drops a session that the server does not know any more.
    async fn forget(&self, session: &Arc<Session>) {
        let mut current = self.session.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    /// All pages of `tools/list`.
    async fn list(&self, call: &Invocation, deadline: Instant) -> Result<Json, RunError> {
        let session = self.session(&call.headers, deadline).await?;
        let (mut pages, mut params) = (ToolPages::default(), Map::new());
        loop {
            let request = Request { id: self.server.next_id(), method: "tools/list", params, name: None, wants_progress: false };
            let reply = self.server.request(&session, request, &Events::default(), deadline).await?;
            let page = match reply.message {
                Some(Message::Result(page)) => page,
                Some(Message::Error { text, .. }) => return Err(RunError::reported(&Json::from(text))),
                None => return Err(reply.error()),
            };
            let next = pages.add(page).map_err(|error| RunError::new(codes::host::PROTOCOL, error.to_string()))?;
            let Some(cursor) = next else { return Ok(pages.into_list()) };
            params = Map::from_iter([("cursor".to_owned(), Json::from(cursor))]);
        }
    }

    async fn call_tool(&self, call: &Invocation, events: &Events, deadline: Instant) -> Result<Json, RunError> {
        let mut may_reopen = true;
        loop {
            let session = self.session(&call.headers, deadline).await?;
            let mut cancel = CancelOnDrop { server: &self.server, session: &session, id: self.server.next_id(), is_armed: true };
            let arguments = match &call.arguments {
                arguments @ Json::Object(_) => arguments.clone(),
                _ => json!({}),
            };
            let params =
                Map::from_iter([("name".to_owned(), Json::from(call.mcp_name.as_str())), ("arguments".to_owned(), arguments)]);
            let request =
                Request { id: cancel.id, method: "tools/call", params, name: Some(&call.mcp_name), wants_progress: true };
            let reply = self.server.request(&session, request, events, deadline).await;
            cancel.is_armed = reply.as_ref().is_err_and(|error| error.code == codes::host::TIMEOUT);
            let reply = reply?;
            // The server did not act on the request: it dropped the session, and requires a new one.
            if reply.status == 404 && session.has_id() && std::mem::take(&mut may_reopen) {
                self.forget(&session).await;
                continue;
            }
            return reply.result();
        }
    }
}

#[async_trait]
impl Runtime for McpHttpRuntime {
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let deadline = Instant::now() + call.limit;
        // The semaphore is never closed.
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(RunError::new(codes::host::BUSY, "the tool has too many calls at the same time").retryable());
        };
        let called = timeout_at(deadline, self.call_tool(&call, events, deadline)).await;
        called.unwrap_or_else(|_| Err(failure::timeout())).map_err(|error| error.within(call.limit))
    }

    async fn list_tools(&self, call: Invocation, _: &Events) -> Result<Json, RunError> {
        let deadline = Instant::now() + call.limit;
        let listed = timeout_at(deadline, self.list(&call, deadline)).await;
        listed.unwrap_or_else(|_| Err(failure::timeout())).map_err(|error| error.within(call.limit))
    }

    fn containment(&self) -> Option<Containment> {
        None
    }

    fn place(&self) -> Option<String> {
        Some(format!("the server {}", self.server.address.origin()))
    }

    /// Closes the session, which a server would keep for minutes otherwise.
    async fn shutdown(&self) {
        let Some(session) = self.session.lock().await.take().filter(|session| session.has_id()) else { return };
        if let Ok(headers) = session.headers("DELETE", None) {
            let _ = self.server.address.delete(&headers, limits(Instant::now() + SHUTDOWN_LIMIT)).await;
        }
    }
}

/// One request.
struct Request<'a> {
    id: u64,
    method: &'static str,
    params: Map<String, Json>,
    /// The tool that is called.
    name: Option<&'a str>,
    wants_progress: bool,
}

impl Server {
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Negotiates the protocol version: first of the newer era, then of the older one.
    async fn open(&self, credentials: &BTreeMap<String, Arc<Secret>>, deadline: Instant) -> Result<Session, RunError> {
        let session = Session::new(MODERN, credentials.clone());
        let reply = self.first(&session, "server/discover", Map::new(), deadline).await?;
        let is_modern = match &reply.message {
            Some(Message::Result(result)) => {
                let versions = result.get("supportedVersions").and_then(Json::as_array);
                versions.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
            }
            Some(Message::Error { code, .. }) if MODERN_REFUSALS.contains(code) => return Err(reply.refused_handshake()),
            Some(Message::Error { .. }) => false,
            None if (400..500).contains(&reply.status) && !matches!(reply.status, 401 | 403) => false,
            None => return Err(reply.error()),
        };
        if is_modern {
            return Ok(session);
        }
        let session = Session::new(LEGACY[0], credentials.clone());
        let info = json!({"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": session::client_info()});
        let params = info.as_object().cloned().unwrap_or_default();
        let reply = self.first(&session, "initialize", params, deadline).await?;
        let version = match &reply.message {
            Some(Message::Result(result)) => result.get("protocolVersion").and_then(Json::as_str),
            Some(Message::Error { .. }) => return Err(reply.refused_handshake()),
            None => return Err(reply.error()),
        };
        let Some(version) = LEGACY.into_iter().find(|known| version == Some(*known)) else {
            return Err(RunError::new(
                codes::host::PROTOCOL,
                "the MCP server speaks no version of the protocol that is known here",
            ));
        };
        let session = session.opened(version, reply.session);
        let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.notify(&session, "notifications/initialized", &message, deadline).await?;
        Ok(session)
    }

    async fn first(
        &self,
        session: &Session,
        method: &'static str,
        params: Map<String, Json>,
        deadline: Instant,
    ) -> Result<Reply, RunError> {
        let request = Request { id: self.next_id(), method, params, name: None, wants_progress: false };
        self.request(session, request, &Events::default(), deadline).await
    }

    /// Sends a request and reads its answer.
    async fn request(
        &self,
        session: &Session,
        request: Request<'_>,
        events: &Events,
        deadline: Instant,
    ) -> Result<Reply, RunError> {
        let Request { id, method, params, name, wants_progress } = request;
        let params = session.params(params, wants_progress.then_some(id));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let reader = AnswerReader::new(id, events);
        let headers = session.headers(method, name)?;
        let exchange = self.address.post(&headers, message.as_bytes(), limits(deadline), &reader).await;
        let message = reader.finish(&exchange);
        // A complete response counts, even if the connection failed after it.
        match (&exchange.response, &exchange.failure) {
            (Some(response), failure) if failure.is_none() || message.is_some() => {
                Ok(Reply { status: response.status, session: session_id(response), message, exchange })
            }
            (_, failure) => Err(failure::of_exchange(failure.as_ref())),
        }
    }

    /// Sends a notification, which has no response.
    async fn notify(&self, session: &Session, method: &str, message: &Json, deadline: Instant) -> Result<(), RunError> {
        let events = Events::default();
        let reader = AnswerReader::new(0, &events);
        let headers = session.headers(method, None)?;
        let exchange = self.address.post(&headers, message.to_string().as_bytes(), limits(deadline), &reader).await;
        match &exchange.response {
            Some(response) if (200..300).contains(&response.status) => Ok(()),
            Some(response) if exchange.failure.is_none() => Err(failure::of_status(response)),
            _ => Err(failure::of_exchange(exchange.failure.as_ref())),
        }
    }
}

impl Reply {
    /// The result of a call.
    fn result(self) -> Result<Json, RunError> {
        match self.message {
            Some(Message::Result(result)) => match Called::from_result(result) {
                Ok(called) => tool_result(called),
                Err(_) => Err(RunError::new(
                    codes::host::PROTOCOL,
                    "the MCP server answered with something else than a result of a tool",
                )),
            },
            Some(Message::Error { text, .. }) if !matches!(self.status, 401 | 403) => Err(RunError::reported(&Json::from(text))),
            _ => Err(self.error()),
        }
    }

    fn refused_handshake(&self) -> RunError {
        match &self.message {
            Some(Message::Error { text, .. }) if !matches!(self.status, 401 | 403) => {
                let text: String = text.chars().take(super::MAX_ERROR_CHARS).collect();
                RunError::new(codes::host::PROTOCOL, format!("the MCP server refused the handshake: {text}"))
            }
            _ => self.error(),
        }
    }

    /// The error of a response that does not answer the request.
    fn error(&self) -> RunError {
        self.exchange.response.as_ref().map_or_else(|| failure::of_exchange(None), failure::of_status)
    }
}

/// Tells a server of the older era that a call was cancelled. In the newer era, closing the connection does.
struct CancelOnDrop<'a> {
    server: &'a Arc<Server>,
    session: &'a Arc<Session>,
    id: u64,
    is_armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_armed || self.session.is_modern() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (server, session, id) = (Arc::clone(self.server), Arc::clone(self.session), self.id);
        runtime.spawn(async move {
            let method = "notifications/cancelled";
            let message =
                json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": id, "reason": "the caller gave up"}});
            // A server that cannot be notified finds out when it responds.
            let _ = server.notify(&session, method, &message, Instant::now() + CANCEL_LIMIT).await;
        });
    }
}

/// The limits of a request with a deadline. A server may be silent while it computes.
fn limits(deadline: Instant) -> Limits {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut limits = Limits::MANIFEST;
    (limits.idle, limits.total, limits.body) = (left, left, MAX_ANSWER_BYTES);
    limits
}

/// The session id in a response.
fn session_id(response: &Response) -> Option<String> {
    response.header("mcp-session-id").next().map(str::to_owned)
}
