//! A server behind HTTP: streamable HTTP of both eras, as a router that somebody else listens for.
//!
//! `Host` and `Origin` are held against lists, since a page in a browser can reach a server on the same machine; a token is compared in
//! constant time. What it leaves out: TLS, listening, and limits on connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use toolcrib_core::codes::mcp as code;
use toolcrib_http::MediaType;

use crate::asker::Caller;
use crate::server::{Server, SetupError};
use crate::stdio::MAX_MESSAGE_BYTES;
use crate::toolbox::{Fault, Toolbox};

/// Shortest token. 32 characters of base 16 are 128 bits, which nobody guesses.
pub const MIN_TOKEN_CHARS: usize = 32;

/// Most sessions of clients of the older era at once. A user has a few; each costs some kilobytes.
pub const MAX_SESSIONS: usize = 64;

/// How long a session may be silent: longer than a user takes to answer.
const SESSION_IDLE: Duration = Duration::from_secs(900);

/// A token that a client has to show. Only its hash is kept, and nothing of it is shown.
#[derive(Clone)]
pub struct Bearer([u8; 32]);

impl Bearer {
    /// A token of at least [`MIN_TOKEN_CHARS`] visible ASCII characters.
    pub fn new(token: &str) -> Result<Self, SetupError> {
        if token.len() < MIN_TOKEN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SetupError::Http { what: "a bearer token needs at least 32 visible ASCII characters" });
        }
        Ok(Self(Sha256::digest(token).into()))
    }

    /// Whether a header shows it. Hashes are compared in constant time, so neither contents nor length can be measured.
    fn admits(&self, header: Option<&HeaderValue>) -> bool {
        let Some(value) = header.map(HeaderValue::as_bytes) else { return false };
        let Some((scheme, token)) = value.split_at_checked(7) else { return false };
        let token: [u8; 32] = Sha256::digest(token).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(self.0.ct_eq(&token))
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

/// Who may come, and from where.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// The token that every request has to show; `None` for a public server, which should offer nothing that costs anything.
    pub bearer: Option<Bearer>,
    /// Hosts, with or without port, that may stand in `Host`. This machine's names when empty.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask, with scheme and port (`https://app.example:443`, `http://localhost:*`). None when empty; requests
    /// that no page makes have no origin and pass.
    pub origins: Vec<String>,
    /// Whether clients of the older era get a session, without which they cannot be asked anything. A public server does without, and
    /// keeps nothing in memory for its clients.
    pub sessions: bool,
}

/// A router with the server at its root, for `nest` or `nest_service`-like use under any path such as `/mcp`.
pub fn http_router(toolbox: Arc<dyn Toolbox>, options: HttpOptions) -> Result<Router, SetupError> {
    let server = Server::new(toolbox)?;
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_origins(options.origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
        .with_legacy_session_mode(options.sessions)
        .with_json_response(!options.sessions);
    if !options.hosts.is_empty() {
        config = config.with_allowed_hosts(options.hosts);
    }
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let service = StreamableHttpService::new(move || Ok(server.connection(None)), Arc::new(Sessions(sessions)), config);
    Ok(Router::new()
        .fallback_service(service)
        .layer(middleware::from_fn(explain))
        .layer(middleware::from_fn_with_state(Arc::new(options.bearer), admit)))
}

/// Answers a body that cannot be read as JSON-RPC 2.0 §5.1 says: the transport gives the status of another media type instead.
async fn explain(request: Request, next: Next) -> Response {
    let is_json = MediaType::of(request.headers()).is_some_and(|kind| kind.is("application/json"));
    if request.method() != Method::POST || !is_json {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    // The transport takes the type in lower case alone.
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // One byte more than is taken, so that what is too long is refused as before.
    let Ok(body) = to_bytes(body, MAX_MESSAGE_BYTES + 1).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let response = next.run(Request::from_parts(parts, Body::from(body.clone()))).await;
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return response;
    }
    let is_json = serde_json::from_slice::<IgnoredAny>(&body).is_ok();
    let error =
        if is_json { ErrorData::invalid_request("Invalid Request", None) } else { ErrorData::parse_error("Parse error", None) };
    let body = json!({ "jsonrpc": "2.0", "error": error, "id": null }).to_string();
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::BAD_REQUEST, headers, Body::from(body)).into_response()
}

/// Lets requests with the right token through, or all if there is none, and says who they are from.
async fn admit(State(bearer): State<Arc<Option<Bearer>>>, mut request: Request, next: Next) -> Response {
    if let Some(bearer) = &*bearer {
        if !bearer.admits(request.headers().get(header::AUTHORIZATION)) {
            return refused();
        }
        // What was checked is not needed any more, and what is not there cannot be logged.
        request.headers_mut().remove(header::AUTHORIZATION);
        request.extensions_mut().insert(Caller::of("bearer", &bearer.0));
    } else if request.extensions().get::<Caller>().is_none() {
        request.extensions_mut().insert(Caller::of("public", &[]));
    }
    next.run(request).await
}

fn refused() -> Response {
    let body = json!({ "error": Fault::new(code::UNAUTHORIZED).to_json() }).to_string();
    let headers =
        [(header::WWW_AUTHENTICATE, "Bearer"), (header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::UNAUTHORIZED, headers, Body::from(body)).into_response()
}

/// Sessions of the older era, up to [`MAX_SESSIONS`].
#[derive(Debug)]
struct Sessions(LocalSessionManager);

#[derive(Debug, thiserror::Error)]
enum SessionFault {
    #[error("there are {MAX_SESSIONS} sessions already")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl SessionManager for Sessions {
    type Error = SessionFault;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if self.0.sessions.read().await.len() >= MAX_SESSIONS {
            return Err(SessionFault::Full);
        }
        Ok(self.0.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.0.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.0.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        Ok(self.0.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.0.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.resume(id, last_event_id).await?)
    }
}
