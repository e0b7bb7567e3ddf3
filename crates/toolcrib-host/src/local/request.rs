//! What a call is made from and what it gives: request, approval, prompt, result and error.

use std::time::Duration;

use alloy_primitives::B256;
use serde_json::Value as Json;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

use super::content::ContentHash;
use super::permissions::Lifetime;
use super::result::ModelResult;
use super::runtime::{Events, RunError};

/// Most characters of the arguments that are shown in a prompt. The rest is bound by its hash.
const SHOWN_CHARS: usize = 1_500;

/// A call of a function.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// The id of the tool.
    pub tool: &'a str,
    /// The name of the function.
    pub function: &'a str,
    /// The arguments.
    pub arguments: Json,
    /// What the call comes from, for the audit log: `cli`, `mcp`, `page` or `gate`.
    pub caller: &'static str,
    /// Whether a person can be asked. Without one, only what is allowed by a rule runs.
    pub interactive: bool,
    /// What a person answered when an earlier try gave [`CallError::NeedsApproval`].
    pub approval: Option<Approval>,
    /// The time limit of the caller.
    pub limit: Option<Duration>,
    /// Where progress and log lines go.
    pub events: Events,
}

/// The answer of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// For how long it holds.
    pub lifetime: Lifetime,
    /// What it is for.
    pub bound: Bound,
}

/// What an approval is for, to the last byte of tool and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The id of the tool.
    pub tool: String,
    /// The name of the function.
    pub function: String,
    /// The content of the tool.
    pub content: ContentHash,
    /// The hash of the arguments.
    pub arguments: B256,
}

/// What a person has to know to allow or refuse a call.
#[derive(Clone, Debug)]
pub struct ApprovalPrompt {
    /// What the answer is for.
    pub bound: Bound,
    /// The version that the manifest states.
    pub version: String,
    /// Why a person is asked.
    pub reason: String,
    /// What changed since the function was approved, if it was.
    pub changed: Option<String>,
    /// The arguments as JSON.
    pub arguments: String,
    /// The names of credentials that the program gets.
    pub credentials: Vec<String>,
    /// What the program may reach.
    pub access: String,
    /// How the program is contained.
    pub sandbox: String,
}

impl ApprovalPrompt {
    /// The prompt as text, all of it escaped. Of the author's prose it has only descriptions that changed, in quotation marks.
    pub fn text(&self) -> String {
        let shown = match self.arguments.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{} … (cut; {} bytes in all)", &self.arguments[..end], self.arguments.len()),
            None => self.arguments.clone(),
        };
        let credentials = match self.credentials.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        format!(
            "Run this local tool?\n\nTool: {} {}\nFunction: {}\nArguments: {}\nCredentials given to it: {}\nMay reach: {}\nSandbox: {}\n\
             Content: {}\nAsked because: {}{}",
            self.bound.tool,
            escape_for_display(&self.version),
            self.bound.function,
            escape_for_display(&shown),
            credentials,
            escape_for_display(&self.access),
            self.sandbox,
            self.bound.content,
            self.reason,
            self.changed.as_ref().map_or_else(String::new, |changed| format!("\nChanged: {}", escape_for_display(changed))),
        )
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// What the tool returned, without secrets.
    pub result: ModelResult,
    /// The whole value, without secrets.
    pub value: Json,
    /// How long it took.
    pub duration: Duration,
    /// How the program was contained.
    pub sandbox: String,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such function.
    #[error("there is no function {function:?} of a tool {tool:?}")]
    Unknown {
        /// The id that was asked for.
        tool: String,
        /// The name that was asked for.
        function: String,
    },
    /// The arguments do not fit.
    #[error("the arguments do not fit the parameters: {}", .violations.join("; "))]
    Arguments {
        /// What is wrong, a line each.
        violations: Vec<String>,
    },
    /// A person has to allow it.
    #[error("a person has to allow this call")]
    NeedsApproval(Box<ApprovalPrompt>),
    /// It is not allowed.
    #[error("the call is not allowed: {reason}")]
    Denied {
        /// Why.
        reason: String,
    },
    /// A required credential is not set, or not for this version of the tool.
    #[error("the credential {name:?} of {tool:?} is not set{}", if *.is_bound_to_other { " for this version of the tool" } else { "" })]
    CredentialMissing {
        /// The tool.
        tool: String,
        /// The credential.
        name: String,
        /// Whether there is one for another version of the tool.
        is_bound_to_other: bool,
    },
    /// The program failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Permissions, secrets, audit log or result folder cannot be used.
    #[error("{message}")]
    State {
        /// The code.
        code: Code,
        /// What happened.
        message: String,
    },
}

impl CallError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => codes::host::TOOL_UNKNOWN,
            Self::Arguments { .. } => codes::host::ARGUMENTS_INVALID,
            Self::NeedsApproval(_) | Self::Denied { .. } => codes::host::DECLINED,
            Self::CredentialMissing { .. } => codes::host::CREDENTIAL_MISSING,
            Self::Run(error) => error.code,
            Self::State { code, .. } => *code,
        }
    }
}
