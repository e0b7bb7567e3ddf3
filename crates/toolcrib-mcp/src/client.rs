//! The client's side of the protocol: servers that run as programs of the user's machine, and results of servers anywhere.

use std::fmt;

use rmcp::model::{CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::stdio::MAX_MESSAGE_BYTES;

/// A connection to a server.
pub struct Client(RunningService<RoleClient, Plain>);

/// A client that declares no capabilities, so that a server asks it nothing.
struct Plain;

impl ClientHandler for Plain {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")))
    }
}

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server does not speak the protocol, or not in a version that both know.
    #[error("the MCP server did not answer the handshake: {reason}")]
    Handshake {
        /// What happened. Untrusted text.
        reason: String,
    },
    /// The server refused the request. Untrusted text.
    #[error("{message}")]
    Refused {
        /// What it says.
        message: String,
    },
    /// The connection broke, or the answer is not of the protocol.
    #[error("the MCP server did not answer: {reason}")]
    Broken {
        /// What happened.
        reason: String,
    },
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Its structured content, its text if that is all there is, or its content blocks.
    pub value: Json,
    /// Whether the tool calls it an error.
    pub is_error: bool,
}

impl Called {
    /// Reads the result of `tools/call` as it is on the wire. A result that asks for more input is refused.
    pub fn from_result(result: Json) -> Result<Self, ClientError> {
        serde_json::from_value(result).map_err(broken).and_then(Self::of)
    }

    fn of(result: CallToolResult) -> Result<Self, ClientError> {
        let text = match result.content.as_slice() {
            [only] => only.as_text().map(|text| Json::from(text.text.as_str())),
            _ => None,
        };
        let value = match (result.structured_content, text) {
            (Some(structured), _) => structured,
            (None, Some(text)) => text,
            (None, None) => serde_json::to_value(&result.content).map_err(broken)?,
        };
        Ok(Self { value, is_error: result.is_error == Some(true) })
    }
}

impl Client {
    /// Connects to a server by the lifecycle that servers of both eras know.
    pub async fn connect<R, W>(read: R, write: W) -> Result<Self, ClientError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = AsyncRwTransport::new(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
        let connected = Plain.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
        connected.map(Self).map_err(|error| ClientError::Handshake { reason: error.to_string() })
    }

    /// Whether the server has gone.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The tools of the server, as the result of `tools/list`.
    pub async fn tools(&self) -> Result<Json, ClientError> {
        let tools = self.0.list_all_tools().await.map_err(failed)?;
        serde_json::to_value(tools).map(|tools| json!({ "tools": tools })).map_err(broken)
    }

    /// Calls a tool. Dropping the future cancels the request.
    pub async fn call(&self, name: &str, arguments: Map<String, Json>) -> Result<Called, ClientError> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let result = self.0.call_tool(request).await.map_err(failed)?;
        Called::of(result)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

fn failed(error: ServiceError) -> ClientError {
    match error {
        ServiceError::McpError(error) => ClientError::Refused { message: error.message.into_owned() },
        other => ClientError::Broken { reason: other.to_string() },
    }
}

fn broken(error: serde_json::Error) -> ClientError {
    ClientError::Broken { reason: error.to_string() }
}
