//! What runs the functions of a tool.
//!
//! - `process`: programs, one call at a time each, kept warm if the tool wants it.
//! - `speech`: how a program is spoken to: JSON lines, or MCP.
//! - `node`: the program for JavaScript and TypeScript handlers.
//! - `http`: a server on this machine.
//! - `mcp_http`: an MCP server that is reached by streamable HTTP.
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

/// Longest message of an error that a tool reports, in characters. Models need the cause, not a page.
const MAX_ERROR_CHARS: usize = 4_000;

/// Longest progress message or log line that is passed on, in characters.
const MAX_EVENT_CHARS: usize = 2_000;

/// The version of the messages between host and program.
const PROTOCOL_VERSION: u32 = 1;

/// Runs functions of one tool.
#[async_trait]
pub(crate) trait Runtime: Send + Sync {
    /// One call. Dropping the future ends it, and every process that it started.
    async fn call(&self, call: Invocation, events: &Events) -> Result<Json, RunError>;

    /// The tools of an MCP server, as the result of `tools/list`. Of `call`, only credentials and the time limit are used.
    async fn list_tools(&self, call: Invocation, events: &Events) -> Result<Json, RunError> {
        let _ = (call, events);
        Err(RunError::new(codes::host::RUNTIME_UNSUPPORTED, "only MCP servers list their tools"))
    }

    /// How programs of the tool are contained. `None` when no program runs on this machine.
    fn containment(&self) -> Option<Containment>;

    /// What takes the calls in the place of a program, in words. `None` when a program does.
    fn place(&self) -> Option<String> {
        None
    }

    /// Ends idle processes. Calls under way go on.
    async fn shutdown(&self);
}

/// One call, as a runtime sees it.
pub(crate) struct Invocation {
    pub(crate) function: String,
    /// The name of the function at the MCP server that the tool wraps.
    pub(crate) mcp_name: String,
    pub(crate) arguments: Json,
    pub(crate) credentials: BTreeMap<String, Arc<Secret>>,
    /// Credentials that the program expects in environment variables, by the names of the variables.
    pub(crate) variables: BTreeMap<String, Arc<Secret>>,
    /// Credentials that a server expects in headers, by the names of the headers.
    pub(crate) headers: BTreeMap<String, Arc<Secret>>,
    pub(crate) settings: Map<String, Json>,
    pub(crate) call_id: String,
    pub(crate) data: PathBuf,
    pub(crate) limit: Duration,
}

impl Invocation {
    /// The message that a program gets. It holds the credentials, so it is never logged.
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

/// What a program tells while it works on a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// How far it is.
    Progress {
        /// Grows.
        progress: f64,
        /// What `progress` ends at, if known.
        total: Option<f64>,
        /// Untrusted text.
        message: Option<String>,
    },
    /// A line of its log. Untrusted text.
    Log(String),
}

/// Where events of one call go. Those that are not read in time are dropped: a program cannot hold up the host by talking.
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

    /// A text without secrets. Cut it afterwards, never before: half of a secret is not found.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.as_ref().map_or(Cow::Borrowed(text), |redactor| redactor.text(text))
    }
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// The code of the vocabulary.
    pub code: Code,
    /// What happened. Text of the tool's author where the code is [`TOOL_FAILED`](codes::host::TOOL_FAILED).
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

impl RunError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false }
    }

    /// The same call may succeed later.
    pub(crate) const fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// The same error, with the time limit of the call in its message if that was exceeded.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        if self.code == codes::host::TIMEOUT {
            self.message = format!("the call took longer than {} ms", limit.as_millis());
        }
        self
    }

    /// Whether a program said this itself, and so still works.
    pub(crate) fn is_answer(&self) -> bool {
        self.code == codes::host::TOOL_FAILED || self.code == codes::host::EXPORT_MISSING
    }

    /// The same error without the secrets that `events` knows, cut to what a model needs.
    pub(crate) fn redacted(mut self, events: &Events) -> Self {
        self.message = cut(&events.redact(&self.message), MAX_ERROR_CHARS);
        self
    }

    /// An error as a tool reports it: a text, or an object with `message` and `retryable`.
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
