//! Streamable HTTP of both eras, as a router for the caller's listener.
//!
//! `Host` and `Origin` are compared with lists, because a page in a browser can reach a server on the same computer; tokens are compared in
//! constant time. Not included: TLS, listening, and limits on connections.

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
use crate::toolbox::{ToolError, Toolbox};

/// Minimum length of a token. 32 hexadecimal characters are 128 bits, which cannot be guessed.
pub const MIN_TOKEN_CHARS: usize = 32;

/// Maximum number of concurrent sessions of the older era. A user has a few; each takes some kilobytes.
pub const MAX_SESSIONS: usize = 64;

/// Idle timeout of a session: longer than a user takes to answer.
const SESSION_IDLE: Duration = Duration::from_secs(900);

/// A bearer token that clients must send. Only its hash is stored, and nothing of it is printed.
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

    /// Whether a header has the token. Hashes are compared in constant time, so neither contents nor length can be measured.
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

/// Access rules for HTTP.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// The token that every request must have; `None` for a public server, which should offer only free tools.
    pub bearer: Option<Bearer>,
    /// Allowed values of `Host`, with or without port. If empty, the names of this computer are allowed.
    pub hosts: Vec<String>,
    /// Origins of allowed pages, with scheme and port (`https://app.example:443`, `http://localhost:*`). If empty, no page is allowed;
    /// requests that do not come from a page have no origin and pass.
    pub origins: Vec<String>,
    /// Whether clients of the older era get a session, which is required for elicitation. A public server disables it, and
    /// stores nothing for its clients.
    pub sessions: bool,
}

/// Returns a router with the server at its root, to nest under any path such as `/mcp`.
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

/// Responds to an unparsable body as JSON-RPC 2.0 §5.1 requires; the transport would respond with status 415 (unsupported media type).
async fn explain(request: Request, next: Next) -> Response {
    let is_json = MediaType::of(request.headers()).is_some_and(|kind| kind.is("application/json"));
    if request.method() != Method::POST || !is_json {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    // The transport accepts the type in lower case only.
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // One byte more than the limit, so that larger bodies are still rejected.
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

/// Accepts requests with the right token, or all if none is set, and sets the caller's identity.
async fn admit(State(bearer): State<Arc<Option<Bearer>>>, mut request: Request, next: Next) -> Response {
    if let Some(bearer) = &*bearer {
        if !bearer.admits(request.headers().get(header::AUTHORIZATION)) {
            return refused();
        }
        // The token is not needed after the check, and cannot be logged once it is removed.
        request.headers_mut().remove(header::AUTHORIZATION);
        request.extensions_mut().insert(Caller::of("bearer", &bearer.0));
    } else if request.extensions().get::<Caller>().is_none() {
        request.extensions_mut().insert(Caller::of("public", &[]));
    }
    next.run(request).await
}

fn refused() -> Response {
    let body = json!({ "error": ToolError::new(code::UNAUTHORIZED).to_json() }).to_string();
    let headers =
        [(header::WWW_AUTHENTICATE, "Bearer"), (header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::UNAUTHORIZED, headers, Body::from(body)).into_response()
}

/// Sessions of the older era, at most [`MAX_SESSIONS`].
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
