//! Functions that are published to remote callers: checked before publishing, and pinned to that version.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

use super::audit::{Event as AuditEvent, Record};
use super::call::definition;
use super::content::ContentHash;
use super::folder::LoadedTool;
use super::host::Host;
use super::permissions::{Decision, Grant, Lifetime, Request as PermissionRequest, Verdict};
use super::request::{CallError, CallRequest};
use super::runtime::{Events, RunError};
use super::shown::access;

/// The caller in the audit log.
const CALLER: &str = "gate";

/// Risks that the user accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// Callers use the credentials of the tool.
    pub allow_credentials: bool,
    /// The program runs without a sandbox.
    pub allow_unsandboxed: bool,
}

/// Why a function is not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// There is no such function.
    #[error("there is no function {function:?} of a tool {tool:?}")]
    Unknown {
        /// The id that was asked for.
        tool: String,
        /// The name that was asked for.
        function: String,
    },
    /// The tool uses credentials.
    #[error("callers would use the credentials of {tool}: {}", .names.join(", "))]
    Credentials {
        /// The tool.
        tool: String,
        /// The names of its credentials.
        names: Vec<String>,
    },
    /// The tool has no sandbox.
    #[error("{tool} would run without a sandbox: {reason}")]
    Unsandboxed {
        /// The tool.
        tool: String,
        /// How it would run.
        reason: String,
    },
    /// The program of the tool cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A rule denies it.
    #[error("the function may not be published: {reason}")]
    Denied {
        /// Why.
        reason: String,
    },
    /// Permissions or the audit log cannot be used.
    #[error("{message}")]
    State {
        /// The code.
        code: Code,
        /// What happened.
        message: String,
    },
}

impl PublishError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => codes::host::TOOL_UNKNOWN,
            Self::Credentials { .. } => codes::host::PUBLISH_CREDENTIALS,
            Self::Unsandboxed { .. } => codes::host::PUBLISH_UNSANDBOXED,
            Self::Run(error) => error.code,
            Self::Denied { .. } => codes::host::DECLINED,
            Self::State { code, .. } => *code,
        }
    }
}

/// Why a call of a published function failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishedError {
    /// The tool changed, or was removed.
    #[error("{tool} changed after it was published")]
    Changed {
        /// The tool.
        tool: String,
    },
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl PublishedError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Changed { .. } => codes::host::PUBLISH_CHANGED,
            Self::Call(error) => error.code(),
        }
    }
}

/// A published function: one version of one tool.
pub struct Published {
    host: Arc<Host>,
    tool: String,
    function: String,
    content: ContentHash,
    /// The last logged change, so that callers cannot flood the log.
    reported: Mutex<String>,
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Published({} {} {})", self.tool, self.function, self.content)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tool, self.function)
    }
}

impl Published {
    /// Checks that the current version of a function may be published. Grants nothing yet.
    pub fn new(host: Arc<Host>, tool: &str, function: &str, options: PublishOptions) -> Result<Self, PublishError> {
        let tools = host.tools();
        let unknown = || PublishError::Unknown { tool: tool.to_owned(), function: function.to_owned() };
        let (loaded, _) = tools.function(tool, function).ok_or_else(unknown)?;
        let names: Vec<_> = loaded.manifest().credentials().iter().map(|credential| credential.name().to_owned()).collect();
        if !names.is_empty() && !options.allow_credentials {
            return Err(PublishError::Credentials { tool: tool.to_owned(), names });
        }
        host.check_runtime(loaded)?;
        let is_contained = host.containment(loaded).is_some_and(|containment| containment.is_sandboxed());
        if !is_contained && !options.allow_unsandboxed {
            let reason = host.sandbox_summary(loaded);
            return Err(PublishError::Unsandboxed { tool: tool.to_owned(), reason });
        }
        let content = loaded.content();
        Ok(Self { host, tool: tool.to_owned(), function: function.to_owned(), content, reported: Mutex::default() })
    }

    /// The published content.
    pub const fn content(&self) -> ContentHash {
        self.content
    }

    /// Whether a rule allows the function without approval. A deny rule is an error: publishing does not override it.
    pub fn is_allowed(&self) -> Result<bool, PublishError> {
        let verdict = self.verdict()?;
        match verdict.decision {
            Decision::Allow => Ok(true),
            Decision::Ask => Ok(false),
            Decision::Deny => Err(PublishError::Denied { reason: verdict.reason.text() }),
        }
    }

    fn verdict(&self) -> Result<Verdict, PublishError> {
        let request = PermissionRequest {
            tool: &self.tool,
            function: &self.function,
            content: self.content,
            arguments: &json!({}),
            interactive: true,
        };
        let failed =
            |error: super::permissions::PermissionError| PublishError::State { code: error.code(), message: error.to_string() };
        self.host.permissions().preview(&request).map_err(failed)
    }

    /// Records the user's approval: from now on, this version of the function runs without a prompt.
    pub fn allow(&self) -> Result<(), PublishError> {
        let tools = self.host.tools();
        let loaded =
            self.loaded(&tools).ok_or_else(|| PublishError::Denied { reason: "the tool changed meanwhile".to_owned() })?;
        let grant = Grant::allow(&self.tool, self.content)
            .function(&self.function)
            .lifetime(Lifetime::Always)
            .definition(&self.function, definition(loaded, &self.function));
        let failed = |code: Code, error: &dyn fmt::Display| PublishError::State { code, message: error.to_string() };
        let rule = self.host.permissions().grant(grant).map_err(|error| failed(error.code(), &error))?;
        let record = Record::new(AuditEvent::PermissionChanged)
            .client(CALLER)
            .tool(&self.tool)
            .function(&self.function)
            .content(self.content)
            .sandbox(&self.host.sandbox_summary(loaded))
            .decision("allow", "the user published the function")
            .detail(&format!("rule {rule}"));
        self.host.audit().append([record]).map(drop).map_err(|error| failed(error.code(), &error))
    }

    /// What the user must know before a function is published, escaped.
    pub fn prompt(&self, endpoint: &str) -> String {
        let tools = self.host.tools();
        let Some(loaded) = self.loaded(&tools) else { return String::new() };
        let names: Vec<_> = loaded.manifest().credentials().iter().map(|credential| credential.name()).collect();
        format!(
            "Publish this function?\n\nTool: {} {}\nFunction: {}\nEndpoint: {}\nCredentials that callers use: {}\nMay reach: {}\n\
             Sandbox: {}\nContent: {}\nThis version of the function runs without asking from now on: for callers of the endpoint, and \
             for models.",
            self.tool,
            escape_for_display(loaded.manifest().version()),
            self.function,
            escape_for_display(endpoint),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
            escape_for_display(&access(loaded)),
            self.host.sandbox_summary(loaded),
            self.content,
        )
    }

    /// The tool, while it has the published version.
    fn loaded<'s>(&self, tools: &'s super::ToolSet) -> Option<&'s Arc<LoadedTool>> {
        tools.tools().get(&self.tool).filter(|tool| tool.content() == self.content)
    }

    /// Calls the function for a caller of the gate. There is no prompt: only rules decide.
    pub async fn call(&self, arguments: Json, limit: Duration) -> Result<Json, PublishedError> {
        let tools = self.host.tools();
        if self.loaded(&tools).is_none() {
            self.report(tools.tools().get(&self.tool).map(|tool| tool.content()));
            return Err(PublishedError::Changed { tool: self.tool.clone() });
        }
        let request = CallRequest {
            tool: &self.tool,
            function: &self.function,
            arguments,
            caller: CALLER,
            interactive: false,
            approval: None,
            limit: Some(limit),
            events: Events::none(),
        };
        Ok(self.host.call(request).await?.value)
    }

    /// Writes one log line for each new content.
    fn report(&self, found: Option<ContentHash>) {
        let found = found.map_or_else(|| "none".to_owned(), |content| content.to_string());
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != found {
            tracing::warn!(
                tool = self.tool,
                function = self.function,
                published = %self.content,
                found,
                code = codes::host::PUBLISH_CHANGED.id(),
                "published tool changed, not served"
            );
            *reported = found;
        }
    }
}
