//! A function of a local tool as backend: it runs in the host's sandbox, under its permissions, and is recorded in its audit log.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use toolcrib_core::codes;
use toolcrib_gate::ToolError;
use toolcrib_host::local::{CallError, Published, PublishedError};

/// A published function.
#[derive(Debug)]
pub(crate) struct Function {
    published: Published,
    limit: Duration,
}

impl Function {
    /// A function with a time limit for calls.
    pub(crate) const fn new(published: Published, limit: Duration) -> Self {
        Self { published, limit }
    }

    /// Calls the function. Callers learn if their input is invalid, or if the function is not served now. Details of an error go only to
    /// the operator, since they may name files and programs of this machine.
    pub(super) async fn call(&self, input: Value) -> Result<Value, ToolError> {
        self.published.call(input, self.limit).await.map_err(|error| answer(&error))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.published.fmt(f)
    }
}

fn answer(error: &PublishedError) -> ToolError {
    use codes::host as code;
    let detail = format!("{}: {error}", error.code());
    match error {
        PublishedError::Changed { .. } => ToolError::unavailable("the tool is not served in this version"),
        PublishedError::Call(CallError::Arguments { violations }) => ToolError::refused(violations.join("; ")),
        PublishedError::Call(CallError::Denied { .. } | CallError::NeedsApproval(_) | CallError::CredentialMissing { .. }) => {
            ToolError::unavailable("the operator does not allow this call now")
        }
        PublishedError::Call(CallError::Run(error)) if [code::BUSY, code::BACKING_OFF, code::TIMEOUT].contains(&error.code) => {
            ToolError::unavailable("the tool has no time for this call now")
        }
        _ => ToolError::internal(detail),
    }
}
