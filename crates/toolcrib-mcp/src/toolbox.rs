//! What a server offers: tools with schemas, and whoever does the work. Nothing here knows the protocol.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use tokio::sync::watch;
use toolcrib_core::codes::Code;
use toolcrib_core::text::escape_for_display;

use crate::asker::{Asker, Question};

/// Longest name of a tool, as the protocol has it.
pub const MAX_NAME_CHARS: usize = 128;

/// A set of tools behind one server.
#[async_trait]
pub trait Toolbox: Send + Sync + 'static {
    /// How the server calls itself.
    fn about(&self) -> About;

    /// The tools, the same for every client. Read once, when the server starts, and again after each change.
    fn tools(&self) -> Vec<ToolSpec>;

    /// A number that grows with every change of the list, for a list that can change.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Why a tool that is not listed now cannot be called, where there is more to say than that it is unknown.
    fn withheld(&self, _name: &str) -> Option<Fault> {
        None
    }

    /// Arguments that mean the same as these, which do not fit the tool's schema, in another form that may. They are checked then.
    fn restored(&self, _name: &str, _arguments: &Json) -> Option<Json> {
        None
    }

    /// Does the work. The arguments fit the tool's schema. When the answer to a question is needed, [`Asker::ask`] gets it; in the newer
    /// era of the protocol it stops the call, which is then made again from its start with the answer in [`Asker::returned`].
    async fn call(&self, name: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop>;
}

/// How a server calls itself.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name for machines.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What a model should know before it uses the tools.
    pub instructions: Cow<'static, str>,
}

/// A tool as a client sees it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// 1 to [`MAX_NAME_CHARS`] of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub input: Json,
    /// JSON Schema of the structured result.
    pub output: Option<Json>,
    /// What it does to the world.
    pub effect: Effect,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It looks at what the server knows.
    Reads,
    /// It makes the server look at something of a stranger's, and changes nothing for the user.
    Fetches,
    /// It may spend, send or change something.
    Acts,
    /// What the author of a tool on the user's machine claims. Never for tools of others.
    Claimed {
        /// It changes nothing.
        read_only: bool,
        /// It may remove or overwrite something.
        destructive: bool,
        /// A second call with the same arguments changes nothing more.
        idempotent: bool,
        /// It talks to systems outside this machine.
        open_world: bool,
    },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// For clients that show text.
    pub text: String,
    /// For those that read data.
    pub structured: Option<Json>,
}

impl Reply {
    /// Data, and the same as compact text.
    pub fn data(value: Json) -> Self {
        Self { text: value.to_string(), structured: Some(value) }
    }

    /// Text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None }
    }
}

/// Why a call gives no result: a code of the vocabulary, and a sentence. Both are for the model to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// What happened, in a sentence. Escaped when it is sent.
    pub message: String,
    /// More of it, as data.
    pub details: Option<Json>,
}

impl Fault {
    /// A fault in the words of its code.
    pub fn new(code: Code) -> Self {
        Self { code, message: code.title().to_owned(), details: None }
    }

    /// In other words.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// With data.
    #[must_use]
    pub fn details(mut self, details: Json) -> Self {
        self.details = Some(details);
        self
    }

    /// As data, with the hint of the code.
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, escape_for_display(&self.message))
    }
}

impl std::error::Error for Fault {}

/// Why a call ends without a result.
#[derive(Debug)]
pub struct Stop(pub(crate) Why);

#[derive(Debug)]
pub(crate) enum Why {
    /// It failed.
    Fault(Fault),
    /// The client has to ask its user, and to call again with the answer.
    Ask(Box<Question>),
    /// The user would have to be asked, and cannot be.
    NotAskable(Fault),
}

impl Stop {
    /// The fault, if it is one. Being sent back with a question is none.
    pub const fn fault(&self) -> Option<&Fault> {
        match &self.0 {
            Why::Fault(fault) | Why::NotAskable(fault) => Some(fault),
            Why::Ask(_) => None,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self(Why::Fault(fault))
    }
}

/// Whether the protocol allows a name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}
