//! What stands behind the gate: a server, a program, or a function of a local tool.
//!
//! Both get an input that fits the manifest, and both are believed nothing: what they give is capped while it is read, must be JSON,
//! and must fit the manifest. How many calls reach them at once is bounded here.

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

/// Calls that reach a tool at once, unless told otherwise. A program is a process for each call; thirty-two small ones are no burden.
pub(crate) const DEFAULT_AT_ONCE: u16 = 32;

/// Calls that reach a tool at once, at most: the gate has [`MAX_RUNNING`](toolcrib_gate::MAX_RUNNING) places for all tools together.
pub(crate) const MAX_AT_ONCE: u16 = 1_000;

/// How long a call waits for its turn. Whoever waits longer is better told to come again.
const WAIT: Duration = Duration::from_secs(5);

/// A tool, wherever it runs.
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
    /// Nobody: only the manifest is served.
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

    /// Nobody; callers are told to come later.
    pub(crate) fn nobody() -> Self {
        Self::new(Kind::Nobody, 1)
    }

    fn new(kind: Kind, at_once: u16) -> Self {
        Self { kind, places: Arc::new(Semaphore::new(at_once.clamp(1, MAX_AT_ONCE).into())) }
    }

    /// What it is, without anything that may be secret.
    pub(crate) fn described(&self) -> String {
        match &self.kind {
            Kind::Upstream(upstream) => format!("upstream {upstream}"),
            Kind::Program(program) => format!("command {program}"),
            Kind::Function(function) => format!("local tool {function}"),
            Kind::Nobody => "nothing".to_owned(),
        }
    }

    /// One call. Dropping the future ends the call, the program included.
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

/// Reads an output. What it says is not repeated: it may be anything.
fn output(bytes: &[u8]) -> Result<Value, ToolError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ToolError::internal(format!("the output of {} bytes is not one JSON value: {place}", bytes.len()))
    })
}
