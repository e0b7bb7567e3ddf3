//! The backend of a gate: a server, a program, or a function of a local tool.
//!
//! Each gets an input that is valid under the manifest. Its output is untrusted: limited in size while it is read, it must be JSON and
//! valid under the manifest. The number of concurrent calls is limited here.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use toolcrib_gate::{Context, ToolError};

mod function;
mod program;
mod upstream;

pub(crate) use function::Function;
pub(crate) use program::{Program, ProgramSettings};
pub(crate) use upstream::Upstream;

/// Default limit of concurrent calls to a tool. A program is one process per call; thirty-two small ones are not a burden.
pub(crate) const DEFAULT_AT_ONCE: u16 = 32;

/// Largest limit of concurrent calls to a tool: the gate allows [`MAX_RUNNING`](toolcrib_gate::MAX_RUNNING) for all tools together.
pub(crate) const MAX_AT_ONCE: u16 = 1_000;

/// How long a call waits for a free slot. After that, the caller is told to retry.
const WAIT: Duration = Duration::from_secs(5);

/// The backend of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    kind: Kind,
    places: Arc<Semaphore>,
}

#[derive(Clone, Debug)]
enum Kind {
    Upstream(Arc<Upstream>),
    Program(Arc<Program>),
    Function(Arc<Function>),
    /// No backend: only the manifest is served.
    Nobody,
}

impl Behind {
    /// A server.
    pub(crate) fn upstream(upstream: Upstream, at_once: u16) -> Self {
        Self::new(Kind::Upstream(Arc::new(upstream)), at_once)
    }

    /// A program.
    pub(crate) fn program(program: Program, at_once: u16) -> Self {
        Self::new(Kind::Program(Arc::new(program)), at_once)
    }

    /// A function of a local tool.
    pub(crate) fn function(function: Function, at_once: u16) -> Self {
        Self::new(Kind::Function(Arc::new(function)), at_once)
    }

    /// No backend; callers are told to retry later.
    pub(crate) fn nobody() -> Self {
        Self::new(Kind::Nobody, 1)
    }

    fn new(kind: Kind, at_once: u16) -> Self {
        Self { kind, places: Arc::new(Semaphore::new(at_once.clamp(1, MAX_AT_ONCE).into())) }
    }

    /// A description without secrets.
    pub(crate) fn described(&self) -> String {
        match &self.kind {
            Kind::Upstream(upstream) => format!("upstream {upstream}"),
            Kind::Program(program) => format!("command {program}"),
            Kind::Function(function) => format!("local tool {function}"),
            Kind::Nobody => "nothing".to_owned(),
        }
    }

    /// Calls the backend. Dropping the future cancels the call and kills the program.
    pub(crate) async fn call(self, input: Value, context: Context) -> Result<Value, ToolError> {
        if matches!(self.kind, Kind::Nobody) {
            return Err(ToolError::unavailable("the tool takes no calls yet"));
        }
        // The semaphore is never closed.
        let Ok(Ok(_place)) = timeout(WAIT, self.places.acquire()).await else {
            return Err(ToolError::unavailable("the tool has too much to do"));
        };
        match &self.kind {
            Kind::Upstream(upstream) => upstream.call(&input, &context).await,
            Kind::Program(program) => program.call(input, &context).await,
            Kind::Function(function) => function.call(input).await,
            Kind::Nobody => Err(ToolError::unavailable("the tool takes no calls yet")),
        }
    }
}

/// Parses an output. The error does not contain it, because it may be anything.
fn output(bytes: &[u8]) -> Result<Value, ToolError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ToolError::internal(format!("the output of {} bytes is not one JSON value: {place}", bytes.len()))
    })
}
