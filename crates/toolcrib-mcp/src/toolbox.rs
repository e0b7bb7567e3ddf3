//! What a server offers: tools with schemas, and their implementation. Independent of the protocol.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use tokio::sync::watch;
use toolcrib_core::codes::Code;
use toolcrib_core::text::escape_for_display;

use crate::asker::{Asker, Prompt};

/// Maximum length of a tool's name, according to the protocol.
pub const MAX_NAME_CHARS: usize = 128;

/// A set of tools behind one server.
#[async_trait]
pub trait Toolbox: Send + Sync + 'static {
    /// Name, version and instructions of the server.
    fn about(&self) -> About;

    /// The tools, the same for every client. Read once when the server starts, and again after each change.
    fn tools(&self) -> Vec<ToolSpec>;

    /// A number that increases with every change of the list. `None` if the list is fixed.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Why an unlisted tool cannot be called, if there is more to say than that it is unknown.
    fn withheld(&self, _name: &str) -> Option<ToolError> {
        None
    }

    /// Converts arguments that do not fit the tool's schema to an equivalent form that may fit. The result is checked again.
    fn restored(&self, _name: &str, _arguments: &Json) -> Option<Json> {
        None
    }

    /// Calls a tool. The arguments fit its schema. If the call needs the user's answer, [`Asker::ask`] gets it; in the newer
    /// era of the protocol it stops the call, which the client then repeats from the start with the answer in [`Asker::returned`].
    async fn call(&self, name: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop>;
}

/// Name, version and instructions of a server.
#[derive(Clone, Debug)]
pub struct About {
    /// The machine-readable name.
    pub name: &'static str,
    /// The display name.
    pub title: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Instructions for the model that uses the tools.
    pub instructions: Cow<'static, str>,
}

/// A tool's name, descriptions and schemas.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// 1 to [`MAX_NAME_CHARS`] of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// The display name.
    pub title: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub input: Json,
    /// JSON Schema of the structured result.
    pub output: Option<Json>,
    /// The side effects.
    pub effect: Effect,
}

/// The side effects of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads what the server knows.
    Reads,
    /// It makes the server fetch untrusted data, and changes nothing for the user.
    Fetches,
    /// It may spend, send or change something.
    Acts,
    /// Claims of the author of a tool on the user's computer. Never used for third-party tools.
    Claimed {
        /// It changes nothing.
        read_only: bool,
        /// It may delete or overwrite something.
        destructive: bool,
        /// Repeating a call with the same arguments has no further effect.
        idempotent: bool,
        /// It uses systems outside this computer.
        open_world: bool,
    },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text, for clients without structured content.
    pub text: String,
    /// Structured content.
    pub structured: Option<Json>,
}

impl Reply {
    /// A reply with structured content, and the same as compact text.
    pub fn data(value: Json) -> Self {
        Self { text: value.to_string(), structured: Some(value) }
    }

    /// A reply with text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None }
    }
}

/// Why a call has no result: a code and a sentence. The model reads both.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    /// The code.
    pub code: Code,
    /// What happened, in a sentence. It is escaped before it is sent.
    pub message: String,
    /// Structured details.
    pub details: Option<Json>,
}

impl ToolError {
    /// A fault with the title of its code as the message.
    pub fn new(code: Code) -> Self {
        Self { code, message: code.title().to_owned(), details: None }
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets structured details.
    #[must_use]
    pub fn details(mut self, details: Json) -> Self {
        self.details = Some(details);
        self
    }

    /// The fault as JSON, with the hint of the code.
    pub fn to_json(&self) -> Json {
        let mut error = json!({
            "code": self.code.id(),
            "message": escape_for_display(&self.message),
            "hint": self.code.info().hint,
        });
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        error
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, escape_for_display(&self.message))
    }
}

impl std::error::Error for ToolError {}

/// Why a call ends without a result.
#[derive(Debug)]
pub struct Stop(pub(crate) StopReason);

#[derive(Debug)]
pub(crate) enum StopReason {
    /// The call failed.
    Fault(ToolError),
    /// The client must ask its user, and repeat the call with the answer.
    Ask(Box<Prompt>),
    /// The user's answer is required, but the client cannot ask.
    NotAskable(ToolError),
}

impl Stop {
    /// The fault, if the call failed. A question to the user is not a fault.
    pub const fn fault(&self) -> Option<&ToolError> {
        match &self.0 {
            StopReason::Fault(fault) | StopReason::NotAskable(fault) => Some(fault),
            StopReason::Ask(_) => None,
        }
    }
}

impl From<ToolError> for Stop {
    fn from(fault: ToolError) -> Self {
        Self(StopReason::Fault(fault))
    }
}

/// Whether the protocol allows a name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}
