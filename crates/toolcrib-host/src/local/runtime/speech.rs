//! The protocol with a program: JSON lines, or MCP.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use toolcrib_core::codes;
use toolcrib_mcp::{CallProgress, Called, Client, ClientError};

use super::lines::{LineError, read_line};
use super::{Event, Events, Invocation, MAX_RESULT_BYTES, RunError};

/// Most lines per call that are not the answer. A program that writes more is broken or hostile.
const MAX_OTHER_LINES: usize = 10_000;

/// Most bytes of such lines per call.
const MAX_OTHER_BYTES: usize = 16 << 20;

/// Time limit of the handshake with an MCP server. Package runners download before they start.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// The protocol of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// One line of JSON per call.
    Lines,
    /// The Model Context Protocol.
    Mcp,
}

/// A connection to a program.
pub(super) enum Speech {
    Lines { stdin: ChildStdin, stdout: BufReader<ChildStdout> },
    Mcp(Client),
}

/// Why a program did not answer.
pub(super) enum NoReply {
    /// Its output exceeds the limit of results.
    TooLong,
    /// It closed its stdout. Contains the error of writing to it, if there was one.
    Ended(Option<io::Error>),
}

impl Speech {
    pub(super) async fn begin(protocol: Protocol, stdin: ChildStdin, stdout: ChildStdout) -> Result<Self, ClientError> {
        match protocol {
            Protocol::Lines => Ok(Self::Lines { stdin, stdout: BufReader::new(stdout) }),
            Protocol::Mcp => match tokio::time::timeout(HANDSHAKE, Client::connect(stdout, stdin)).await {
                Ok(connected) => connected.map(Self::Mcp),
                Err(_) => Err(ClientError::Handshake { reason: format!("no answer in {} s", HANDSHAKE.as_secs()) }),
            },
        }
    }

    /// Whether the program still has its stdout open. A program that exited while idle does not.
    pub(super) async fn is_open(&mut self) -> bool {
        match self {
            Self::Lines { stdout, .. } => tokio::select! {
                biased;
                bytes = stdout.fill_buf() => bytes.is_ok_and(|bytes| !bytes.is_empty()),
                () = std::future::ready(()) => true,
            },
            Self::Mcp(client) => !client.is_closed(),
        }
    }

    /// Makes a call.
    pub(super) async fn exchange(
        &mut self,
        id: u64,
        call: &Invocation,
        events: &Events,
    ) -> Result<Result<Json, RunError>, NoReply> {
        let (stdin, stdout) = match self {
            Self::Mcp(client) => return call_tool(client, call, events).await,
            Self::Lines { stdin, stdout } => (stdin, stdout),
        };
        let message = call.message(id);
        // A program may answer before it has read everything; only its answer shows whether it reads at all.
        let (sent, answer) = tokio::join!(stdin.write_all(message.as_bytes()), answer(stdout, id, events));
        answer.map_err(|error| match error {
            LineError::TooLong => NoReply::TooLong,
            LineError::End | LineError::Broken => NoReply::Ended(sent.err()),
        })
    }

    /// The tools of an MCP server, as the result of `tools/list`.
    pub(super) async fn list_tools(&self) -> Result<Result<Json, RunError>, NoReply> {
        let Self::Mcp(client) = self else {
            return Ok(Err(RunError::new(codes::host::RUNTIME_UNSUPPORTED, "only MCP servers list their tools")));
        };
        match client.tools().await {
            Ok(tools) => Ok(Ok(tools)),
            Err(ClientError::Refused { message }) => Ok(Err(RunError::reported(&Json::from(message)))),
            Err(error @ ClientError::List { .. }) => Ok(Err(RunError::new(codes::host::PROTOCOL, error.to_string()))),
            Err(_) => Err(NoReply::Ended(None)),
        }
    }

    /// Asks the program to cancel a call. It is ended afterwards in any case.
    pub(super) async fn cancel(&mut self, id: u64) {
        if let Self::Lines { stdin, .. } = self {
            let message = format!("{}\n", json!({ "cancel": id }));
            let _ = tokio::time::timeout(Duration::from_millis(50), stdin.write_all(message.as_bytes())).await;
        }
    }
}

/// Calls a tool of an MCP server. Credentials are in its environment.
async fn call_tool(client: &Client, call: &Invocation, events: &Events) -> Result<Result<Json, RunError>, NoReply> {
    let arguments = match &call.arguments {
        Json::Object(arguments) => arguments.clone(),
        _ => Map::new(),
    };
    let listen = |CallProgress { progress, total, message }| events.send(Event::Progress { progress, total, message });
    Ok(match client.call(&call.mcp_name, arguments, listen).await {
        Ok(called) => match tool_result(called) {
            Err(error) if error.code == codes::host::RESULT_TOO_LARGE => return Err(NoReply::TooLong),
            result => result,
        },
        Err(ClientError::Refused { message }) => Err(RunError::reported(&Json::from(message))),
        Err(_) => return Err(NoReply::Ended(None)),
    })
}

/// Converts the result of an MCP tool to the result of a function, for every transport.
pub(super) fn tool_result(called: Called) -> Result<Json, RunError> {
    if called.is_error {
        return Err(RunError::reported(&called.value));
    }
    if called.value.to_string().len() > MAX_RESULT_BYTES {
        return Err(RunError::new(codes::host::RESULT_TOO_LARGE, format!("the result has more than {MAX_RESULT_BYTES} bytes")));
    }
    Ok(called.value)
}

/// Reads lines until the answer to the call `id`.
async fn answer(stdout: &mut BufReader<ChildStdout>, id: u64, events: &Events) -> Result<Result<Json, RunError>, LineError> {
    let mut reader = LineReader::new(id);
    let mut line = Vec::new();
    loop {
        line.clear();
        read_line(stdout, &mut line, MAX_RESULT_BYTES).await?;
        if let Some(answer) = reader.take(&line, events) {
            return Ok(answer);
        }
    }
}

/// Reads the lines of a program for one call.
pub(super) struct LineReader {
    id: u64,
    lines: usize,
    bytes: usize,
}

impl LineReader {
    /// Waits for the answer to the call `id`.
    pub(super) const fn new(id: u64) -> Self {
        Self { id, lines: 0, bytes: 0 }
    }

    /// Handles a line: forwards progress and log lines, and returns the answer to the call. Other lines are limited.
    pub(super) fn take(&mut self, line: &[u8], events: &Events) -> Option<Result<Json, RunError>> {
        if let Some(answer) = self.read(line, events) {
            return Some(answer);
        }
        self.lines += 1;
        self.bytes += line.len();
        let exceeded = match (self.lines > MAX_OTHER_LINES, self.bytes > MAX_OTHER_BYTES) {
            (true, _) => format!("{MAX_OTHER_LINES} lines"),
            (_, true) => format!("{MAX_OTHER_BYTES} bytes"),
            _ => return None,
        };
        Some(Err(RunError::new(codes::host::PROTOCOL, format!("more than {exceeded} without an answer"))))
    }

    fn read(&self, line: &[u8], events: &Events) -> Option<Result<Json, RunError>> {
        let Ok(Json::Object(mut message)) = serde_json::from_slice::<Json>(line) else {
            // Many programs print to stdout; that is logged.
            events.send(Event::Log(String::from_utf8_lossy(line).into_owned()));
            return None;
        };
        if message.get("id").and_then(Json::as_u64) != Some(self.id) {
            return None;
        }
        if let Some(result) = message.remove("result") {
            return Some(Ok(result));
        }
        if let Some(error) = message.get("error") {
            return Some(Err(RunError::reported(error)));
        }
        if let Some(progress) = message.get("progress").and_then(Json::as_f64) {
            let text = message.get("message").and_then(Json::as_str).map(str::to_owned);
            events.send(Event::Progress { progress, total: message.get("total").and_then(Json::as_f64), message: text });
        } else if let Some(log) = message.get("log") {
            events.send(Event::Log(log.as_str().map_or_else(|| log.to_string(), str::to_owned)));
        }
        None
    }
}
