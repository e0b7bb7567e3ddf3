//! The protocol's client: for servers that run as programs on the user's computer, and for results of any server.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams,
    ProgressNotificationParam,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::stdio::MAX_MESSAGE_BYTES;

/// Size of the progress queue. Further messages are dropped, so that a server cannot fill the memory.
const WAITING: usize = 64;

/// Maximum number of pages of a tool list. Other SDKs have the same limit.
const MAX_TOOL_PAGES: usize = 64;

/// Maximum size of a tool list over all pages. Lists with hundreds of tools have some hundred kilobytes.
const MAX_TOOLS_BYTES: usize = 2 * MAX_MESSAGE_BYTES;

/// A connection to a server.
pub struct Client {
    running: RunningService<RoleClient, Plain>,
    progress: Slot,
}

/// Progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// The current value. It increases.
    pub progress: f64,
    /// The final value of `progress`, if known.
    pub total: Option<f64>,
    /// What the server is doing. Untrusted text.
    pub message: Option<String>,
}

/// The receiver of the current call's progress.
type Slot = Arc<Mutex<Option<mpsc::Sender<CallProgress>>>>;

/// A client that declares no capabilities, so that a server sends it no requests.
struct Plain {
    progress: Slot,
}

impl ClientHandler for Plain {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let ProgressNotificationParam { progress, total, message, .. } = params;
        if let Some(sender) = &*self.progress.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = sender.try_send(CallProgress { progress, total, message });
        }
    }
}

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server does not support the protocol, or no common version.
    #[error("the MCP server did not answer the handshake: {reason}")]
    Handshake {
        /// The reason. Untrusted text.
        reason: String,
    },
    /// The server returned an error. Untrusted text.
    #[error("{message}")]
    Refused {
        /// The message.
        message: String,
    },
    /// The tool list is invalid, too long, or endless.
    #[error("the list of tools cannot be used: {problem}")]
    List {
        /// What is wrong with it.
        problem: String,
    },
    /// The connection broke, or the response violates the protocol.
    #[error("the MCP server did not answer: {reason}")]
    Broken {
        /// The reason.
        reason: String,
    },
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Its structured content, its text if there is nothing else, or its content blocks.
    pub value: Json,
    /// Whether the tool reports an error.
    pub is_error: bool,
}

impl Called {
    /// Parses the result of `tools/call`. A result that requests more input is an error.
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

/// Collects the pages of a tool list under limits, because a server decides how many there are.
#[derive(Debug, Default)]
pub struct ToolPages {
    tools: Vec<Json>,
    pages: usize,
    bytes: usize,
}

impl ToolPages {
    /// Adds a result of `tools/list`. Returns the cursor of the next page, if there is one.
    pub fn add(&mut self, mut page: Json) -> Result<Option<String>, ClientError> {
        let refused = |problem: String| Err(ClientError::List { problem });
        let Some(Json::Array(tools)) = page.get_mut("tools").map(Json::take) else {
            return refused("it has no `tools`".to_owned());
        };
        self.bytes += tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();
        if self.bytes > MAX_TOOLS_BYTES {
            return refused(format!("it has more than {MAX_TOOLS_BYTES} bytes"));
        }
        self.tools.extend(tools);
        self.pages += 1;
        let next = page.get("nextCursor").and_then(Json::as_str);
        if next.is_some() && self.pages >= MAX_TOOL_PAGES {
            return refused(format!("it has more than {MAX_TOOL_PAGES} pages"));
        }
        Ok(next.map(str::to_owned))
    }

    /// The complete list, as one result of `tools/list`.
    pub fn into_list(self) -> Json {
        json!({ "tools": self.tools })
    }
}

impl Client {
    /// Connects to a server with the lifecycle that servers of both eras support.
    pub async fn connect<R, W>(read: R, write: W) -> Result<Self, ClientError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = AsyncRwTransport::new(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
        let progress = Slot::default();
        let handler = Plain { progress: Arc::clone(&progress) };
        let connected = handler.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
        let running = connected.map_err(|error| ClientError::Handshake { reason: error.to_string() })?;
        Ok(Self { running, progress })
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.running.is_closed()
    }

    /// The tools of the server, as a result of `tools/list`.
    pub async fn tools(&self) -> Result<Json, ClientError> {
        let (mut pages, mut cursor) = (ToolPages::default(), None);
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.running.list_tools(Some(params)).await.map_err(|error| match error {
                ServiceError::UnexpectedResponse => {
                    ClientError::List { problem: "the server answered with something else".to_owned() }
                }
                error => failed(error),
            })?;
            cursor = pages.add(serde_json::to_value(page).map_err(broken)?)?;
            if cursor.is_none() {
                return Ok(pages.into_list());
            }
        }
    }

    /// Calls a tool and forwards its progress. Make one call at a time: progress goes to the last one. Dropping the future
    /// cancels the request.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Json>,
        mut listen: impl FnMut(CallProgress) + Send,
    ) -> Result<Called, ClientError> {
        let (sender, mut progress) = mpsc::channel(WAITING);
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let mut calling = pin!(self.running.call_tool(request));
        let result = loop {
            tokio::select! {
                biased;
                Some(told) = progress.recv() => listen(told),
                result = &mut calling => break result,
            }
        };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Called::of(result.map_err(failed)?)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;

    /// A server that reports progress, sends a log message, which is not forwarded, and responds.
    async fn serve(stream: tokio::io::DuplexStream) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Json = serde_json::from_str(&line).expect("JSON");
            let answers = match message["method"].as_str() {
                Some("initialize") => {
                    let info = json!({ "name": "test", "version": "1" });
                    vec![json!({ "id": message["id"], "result": {
                        "protocolVersion": message["params"]["protocolVersion"], "capabilities": { "tools": {} }, "serverInfo": info,
                    } })]
                }
                Some("tools/call") => {
                    let token = &message["params"]["_meta"]["progressToken"];
                    vec![
                        json!({ "method": "notifications/progress",
                            "params": { "progressToken": token, "progress": 1, "total": 2, "message": "half" } }),
                        json!({ "method": "notifications/message", "params": { "level": "info", "data": "a line" } }),
                        json!({ "id": message["id"], "result": { "content": [{ "type": "text", "text": "done" }] } }),
                    ]
                }
                _ => Vec::new(),
            };
            for mut answer in answers {
                answer["jsonrpc"] = json!("2.0");
                write.write_all(format!("{answer}\n").as_bytes()).await.expect("written");
            }
        }
    }

    #[test]
    fn a_list_of_tools_has_an_end() {
        let tool = |bytes: usize| json!({ "name": "t", "description": "x".repeat(bytes) });
        let mut pages = ToolPages::default();
        for page in 1..MAX_TOOL_PAGES {
            let next = pages.add(json!({ "tools": [tool(page)], "nextCursor": "more" })).expect("a page");
            assert_eq!(next.as_deref(), Some("more"));
        }
        let error = pages.add(json!({ "tools": [], "nextCursor": "more" })).expect_err("one more");
        assert!(error.to_string().contains("64 pages"), "{error}");
        assert_eq!(pages.into_list()["tools"].as_array().map(Vec::len), Some(MAX_TOOL_PAGES - 1));

        let mut pages = ToolPages::default();
        assert_eq!(pages.add(json!({ "tools": [tool(MAX_TOOLS_BYTES / 2)] })).expect("a page"), None);
        let error = pages.add(json!({ "tools": [tool(MAX_TOOLS_BYTES / 2)] })).expect_err("too many bytes");
        assert!(error.to_string().contains("bytes"), "{error}");
        for none in [json!({}), json!(null), json!({ "tools": {} }), json!([])] {
            assert!(matches!(ToolPages::default().add(none), Err(ClientError::List { .. })));
        }
    }

    #[tokio::test]
    async fn a_caller_hears_of_progress() {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(serve(theirs));
        let (read, write) = tokio::io::split(ours);
        let client = Client::connect(read, write).await.expect("a server");
        for _ in 0..2 {
            let mut heard = Vec::new();
            let called = client.call("work", Map::new(), |told| heard.push(told)).await.expect("a result");
            assert_eq!(called, Called { value: json!("done"), is_error: false });
            assert_eq!(heard, [CallProgress { progress: 1.0, total: Some(2.0), message: Some("half".to_owned()) }]);
        }
    }
}
