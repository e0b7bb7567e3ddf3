//! Runtimes: they run the functions of a tool.
//!
//! - `process`: programs, each with one call at a time, kept warm if the tool requests it.
//! - `speech`: the protocol with a program: JSON lines, or MCP.
//! - `node`: the program for JavaScript and TypeScript handlers.
//! - `http`: a local server.
//! - `mcp_http`: an MCP server over streamable HTTP.
//! - `wasm`: WebAssembly components, with the feature `wasm`.

mod backoff;
mod http;
mod lines;
mod mcp_http;
mod node;
mod process;
mod speech;
#[cfg(feature = "wasm")]
mod wasm;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use tokio::sync::mpsc;
use toolcrib_core::codes::{self, Code};
use toolcrib_process::Containment;

use super::secrets::{Redactor, Secret};

pub(crate) use http::HttpRuntime;
pub(crate) use mcp_http::{McpHttpRuntime, McpHttpSettings};
pub(crate) use node::node_command;
pub(crate) use process::{ProcessRuntime, ProcessSettings};
pub(crate) use speech::Protocol;
#[cfg(feature = "wasm")]
pub(crate) use wasm::{VisibleFolder, WasmRuntime, WasmSettings};

/// Most bytes of a result, and of any line of a program.
pub const MAX_RESULT_BYTES: usize = 1 << 20;

/// Longest error message of a tool, in characters. Models need the cause, not a page.
const MAX_ERROR_CHARS: usize = 4_000;

/// Longest forwarded progress message or log line, in characters.
const MAX_EVENT_CHARS: usize = 2_000;

/// The version of the messages between host and program.
const PROTOCOL_VERSION: u32 = 1;

/// Runs functions of one tool.
#[async_trait]
pub(crate) trait Runtime: Send + Sync {
    /// Makes a call. Dropping the future cancels it, and kills every process that it started.
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError>;

    /// The tools of an MCP server, as the result of `tools/list`. Of `call`, only credentials and the time limit are used.
    async fn list_tools(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let _ = (call, events);
        Err(RunError::new(codes::host::RUNTIME_UNSUPPORTED, "only MCP servers list their tools"))
    }

    /// How programs of the tool are contained. `None` if no program runs on this machine.
    fn containment(&self) -> Option<Containment>;

    /// A description of the server that handles the calls. `None` if a program does.
    fn place(&self) -> Option<String> {
        None
    }

    /// Ends idle processes. Running calls continue.
    async fn shutdown(&self);
}

/// A call for a runtime.
pub(crate) struct Invocation {
    pub(crate) function: String,
    /// The name of the function at the MCP server that the tool wraps.
    pub(crate) mcp_name: String,
    pub(crate) arguments: Json,
    pub(crate) credentials: BTreeMap<String, Arc<Secret>>,
    /// Credentials for environment variables, by variable.
    pub(crate) variables: BTreeMap<String, Arc<Secret>>,
    /// Credentials for HTTP headers, by header.
    pub(crate) headers: BTreeMap<String, Arc<Secret>>,
    pub(crate) settings: Map<String, Json>,
    pub(crate) call_id: String,
    pub(crate) data: PathBuf,
    pub(crate) limit: Duration,
}

impl Invocation {
    /// The message for a program. It contains credentials, so it is never logged.
    pub(crate) fn message(&self, id: u64) -> zeroize::Zeroizing<String> {
        let credentials: Map<_, _> =
            self.credentials.iter().map(|(name, secret)| (name.clone(), Json::from(secret.expose()))).collect();
        let message = json!({
            "v": PROTOCOL_VERSION,
            "id": id,
            "function": self.function,
            "args": self.arguments,
            "credentials": credentials,
            "settings": self.settings,
            "context": {
                "dataDir": self.data,
                "callId": self.call_id,
                "deadlineMs": u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX),
            },
        });
        zeroize::Zeroizing::new(format!("{message}\n"))
    }
}

/// An event of a running call.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Progress.
    Progress {
        /// Increases with each event.
        progress: f64,
        /// The final value of `progress`, if known.
        total: Option<f64>,
        /// Untrusted input.
        message: Option<String>,
    },
    /// A log line. Untrusted input.
    Log(String),
}

/// Receives the events of one call. Events that are not read in time are dropped, so that a program cannot block the host.
#[derive(Clone, Debug, Default)]
pub struct Events {
    sender: Option<mpsc::Sender<Event>>,
    redactor: Option<Arc<Redactor>>,
}

impl Events {
    /// Sends events to a receiver.
    pub const fn new(sender: mpsc::Sender<Event>) -> Self {
        Self { sender: Some(sender), redactor: None }
    }

    /// Drops all events.
    pub const fn none() -> Self {
        Self { sender: None, redactor: None }
    }

    /// Removes secrets from all texts.
    pub(crate) fn redacted(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = Some(redactor);
        self
    }

    pub(crate) fn send(&self, mut event: Event) {
        let Some(sender) = &self.sender else { return };
        if let Event::Progress { message: Some(text), .. } | Event::Log(text) = &mut event {
            *text = cut(&self.redact(text), MAX_EVENT_CHARS);
        }
        let _ = sender.try_send(event);
    }

    /// Redacts secrets in a text. Truncate it afterwards, never before: a partial secret is not found.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.as_ref().map_or(Cow::Borrowed(text), |redactor| redactor.text(text))
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// The code of the vocabulary.
    pub code: Code,
    /// The message. It is text of the tool's author if the code is [`TOOL_FAILED`](codes::host::TOOL_FAILED).
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

impl RunError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false }
    }

    /// Marks the error as retryable.
    pub(crate) const fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds the time limit of the call to the message if it was exceeded.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        if self.code == codes::host::TIMEOUT {
            self.message = format!("the call took longer than {} ms", limit.as_millis());
        }
        self
    }

    /// Whether the program reported the error itself, and so still works.
    pub(crate) fn is_answer(&self) -> bool {
        self.code == codes::host::TOOL_FAILED || self.code == codes::host::EXPORT_MISSING
    }

    /// Redacts the secrets that `events` knows, and truncates the message to what a model needs.
    pub(crate) fn redacted(mut self, events: &Events) -> Self {
        self.message = cut(&events.redact(&self.message), MAX_ERROR_CHARS);
        self
    }

    /// Converts an error that a tool reported: a text, or an object with `message` and `retryable`.
    pub(crate) fn reported(error: &Json) -> Self {
        let text = error.get("message").and_then(Json::as_str).or_else(|| error.as_str());
        let message = text.map_or_else(|| error.to_string(), str::to_owned);
        let retryable = error.get("retryable").and_then(Json::as_bool).unwrap_or(false);
        let code = match error.get("code").and_then(Json::as_str) {
            Some("export_missing") => codes::host::EXPORT_MISSING,
            _ => codes::host::TOOL_FAILED,
        };
        Self { code, message, retryable }
    }
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
