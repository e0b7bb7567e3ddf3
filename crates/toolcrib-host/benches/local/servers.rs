//! The other processes of the benchmark: the program behind the calls, and MCP servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::io::stdio;
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::{Map, Value as Json, json};
use toolcrib_host::bridge::{Bridge, LocalTools};
use toolcrib_host::local::audit::SyncPolicy;

use crate::{Containing, host_settings};
use toolcrib_testkit::local_tools::open;

/// Answers each call with its arguments, over stdio.
pub(crate) fn echo() {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let call: Json = serde_json::from_str(&line).expect("JSON");
        let Some(id) = call.get("id") else { continue };
        let answer = json!({ "id": id, "result": call["args"] });
        writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).expect("a reader");
    }
}

/// Runs our bridge over the tools in `place`, on stdio.
pub(crate) fn bridge(place: &Path, sync: SyncPolicy) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let host = open(host_settings(place, sync, Containing::Sandbox));
        Bridge::local_only(LocalTools::new(host)).serve_stdio().await.expect("a client");
    });
}

/// A plain rmcp server, whose tool returns its arguments.
struct Plain;

impl ServerHandler for Plain {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("plain", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: Map<String, Json> = Map::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo_run", "Runs.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let value = Json::Object(request.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
        result.structured_content = Some(value);
        Ok(result.into())
    }
}

/// Serves [`Plain`] on stdio, on a runtime with several threads or with one.
pub(crate) fn plain(mut builder: tokio::runtime::Builder) {
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let running = Plain.serve(stdio()).await.expect("a client");
        running.waiting().await.expect("it serves");
    });
}

/// A process that reads and writes lines.
pub(crate) struct Peer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), BufReader::new(child.stdout.take().expect("a pipe")));
        Self { child, stdin, stdout, last: 0 }
    }

    /// The process of an MCP server, after the handshake.
    pub(crate) fn server(command: &mut Command) -> Self {
        let mut peer = Self::start(command);
        let info = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        peer.ask("initialize", &info);
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        peer
    }

    fn send(&mut self, message: &Json) {
        // One write per message, as clients do.
        self.stdin.write_all(format!("{message}\n").as_bytes()).expect("it reads");
    }

    fn read(&mut self) -> Json {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).expect("readable"), 0, "it has ended");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(&mut self, method: &str, params: &Json) -> Json {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// The time of one call of the tool over MCP.
    pub(crate) fn call(&mut self, arguments: &Json) -> Duration {
        let params = json!({ "name": "echo_run", "arguments": arguments });
        let began = Instant::now();
        let answer = self.ask("tools/call", &params);
        let elapsed = began.elapsed();
        assert_eq!(answer["result"]["structuredContent"], *arguments, "{answer}");
        elapsed
    }

    /// Returns the time of one message to a program and its answer.
    pub(crate) fn exchange(&mut self, arguments: &Json) -> Duration {
        self.last += 1;
        let message = json!({
            "v": 1, "id": self.last, "function": "run", "args": arguments, "credentials": {}, "settings": {},
            "context": {"dataDir": "/tmp", "callId": "00112233445566778899aabbccddeeff", "deadlineMs": 30000},
        });
        let message = format!("{message}\n");
        let began = Instant::now();
        self.stdin.write_all(message.as_bytes()).expect("it reads");
        let answer = self.read();
        let elapsed = began.elapsed();
        assert_eq!(answer["result"], *arguments, "{answer}");
        elapsed
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
