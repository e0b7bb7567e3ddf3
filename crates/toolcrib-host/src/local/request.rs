//! Requests, approvals, prompts, results and errors of calls.

use std::time::Duration;

use alloy_primitives::B256;
use serde_json::Value as Json;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

use super::content::ContentHash;
use super::permissions::Lifetime;
use super::result::ModelResult;
use super::runtime::{Events, RunError};

/// Most characters of the arguments that a prompt shows. The hash binds the rest.
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
    /// The origin of the call, for the audit log: `cli`, `mcp`, `page` or `gate`.
    pub caller: &'static str,
    /// Whether a user can be asked. If not, only calls that a rule allows run.
    pub interactive: bool,
    /// The user's answer to an earlier [`CallError::NeedsApproval`].
    pub approval: Option<Approval>,
    /// The time limit of the caller.
    pub limit: Option<Duration>,
    /// Receives progress and log lines.
    pub events: Events,
}

/// A user's approval.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// What it is bound to.
    pub bound: Bound,
}

/// What an approval is bound to, to the last byte of tool and arguments.
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

/// What a user must know to approve or refuse a call.
#[derive(Clone, Debug)]
pub struct ApprovalPrompt {
    /// What the approval is bound to.
    pub bound: Bound,
    /// The version in the manifest.
    pub version: String,
    /// Why approval is needed.
    pub reason: String,
    /// What changed since the last approval, if there was one.
    pub changed: Option<String>,
    /// The arguments as JSON.
    pub arguments: String,
    /// The names of the program's credentials.
    pub credentials: Vec<String>,
    /// What the program can access.
    pub access: String,
    /// How the program is contained.
    pub sandbox: String,
}

impl ApprovalPrompt {
    /// The prompt as escaped text. Of the author's prose it contains only changed descriptions, in quotation marks.
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

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such function.
    #[error("there is no function {function:?} of a tool {tool:?}")]
    Unknown {
        /// The given id.
        tool: String,
        /// The given name.
        function: String,
    },
    /// The arguments are invalid.
    #[error("the arguments do not fit the parameters: {}", .violations.join("; "))]
    Arguments {
        /// The violations, one per line.
        violations: Vec<String>,
    },
    /// A user must approve it.
    #[error("a person has to allow this call")]
    NeedsApproval(Box<ApprovalPrompt>),
    /// It is denied.
    #[error("the call is not allowed: {reason}")]
    Denied {
        /// Why.
        reason: String,
    },
    /// A required credential is not set for this version of the tool.
    #[error("the credential {name:?} of {tool:?} is not set{}", if *.is_bound_to_other { " for this version of the tool" } else { "" })]
    CredentialMissing {
        /// The tool.
        tool: String,
        /// The credential.
        name: String,
        /// Whether it is set for another version of the tool.
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
