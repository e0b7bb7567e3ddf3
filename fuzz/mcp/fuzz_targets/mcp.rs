//! MCP: messages of clients, arguments of tools, and responses of a directory. Any input gives a response in our own words.
//!
//! The input has two parts, separated by a zero byte: the directory's responses, and lines of the client.
#![no_main]

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value as Json};
use tokio::io::AsyncReadExt as _;
use tokio::runtime::{Builder, Runtime};
use toolcrib_mcp::discovery::{Discovery, DiscoveryTools, NAMES, RestRequest, read_tool};
use toolcrib_mcp::{About, Asker, Caller, ToolError, Reply, Server, Stop, ToolSpec, Toolbox, serve};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// A directory with the fuzzer's responses.
struct Says(Json);

#[async_trait]
impl Discovery for Says {
    async fn ask(&self, request: &RestRequest, _: &Asker) -> Result<Json, ToolError> {
        let target = request.target();
        let is_plain = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let path = target.split('?').next().unwrap_or_default();
        // Two dots in a query value have no effect on the path.
        assert!(is_plain && !path.split('/').any(|part| part == "..") && target.matches('?').count() <= 1, "{target}");
        Ok(self.0.clone())
    }
}

struct Finds(DiscoveryTools);

#[async_trait]
impl Toolbox for Finds {
    fn about(&self) -> About {
        About { name: "fuzz", title: "Fuzz", version: "0", instructions: "".into() }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        DiscoveryTools::specs()
    }

    async fn call(&self, name: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop> {
        Ok(self.0.call(name, &arguments, asker).await?)
    }
}

/// Checks that no text contains control characters for terminals or for the writing direction.
fn check_inert(value: &Json) {
    match value {
        Json::String(text) => {
            let acts = |c: char| (c.is_control() && !['\n', '\t', '\r'].contains(&c)) || ['\u{202e}', '\u{200b}', '\u{feff}'].contains(&c);
            assert!(!text.contains(acts), "{text:?}");
        }
        Json::Array(items) => items.iter().for_each(check_inert),
        Json::Object(members) => {
            for (name, member) in members {
                check_inert(&Json::String(name.clone()));
                check_inert(member);
            }
        }
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let (answer, lines) = data.split_at(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
    let lines = lines.get(1..).unwrap_or_default();
    let answer: Json = serde_json::from_slice(answer).unwrap_or_default();
    // The tools themselves.
    let tools = DiscoveryTools::new(Arc::new(Says(answer.clone())));
    let asker = Asker::nobody(Caller::of("fuzz", b"1"));
    let registered = serde_json::json!({"reference": "eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7"});
    let wallet = serde_json::json!({"wallet": "0x0707070707070707070707070707070707070707"});
    let sent = serde_json::from_slice::<Json>(lines).ok().filter(Json::is_object);
    for arguments in [Some(registered), Some(wallet), sent].into_iter().flatten() {
        let Json::Object(arguments) = arguments else { continue };
        if let Ok(tool) = read_tool(&arguments) {
            assert!(tool.chain > 0 && !tool.id.is_zero());
        }
        for name in NAMES {
            match RUNTIME.block_on(tools.call(name, &arguments, &asker)) {
                Ok(reply) => reply.structured.iter().for_each(check_inert),
                Err(fault) => check_inert(&fault.to_json()),
            }
        }
    }
    // The protocol: every written line is a message.
    RUNTIME.block_on(async {
        let Ok(server) = Server::new(Arc::new(Finds(DiscoveryTools::new(Arc::new(Says(answer)))))) else { return };
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let input = std::io::Cursor::new([BEGIN, lines, b"\n"].concat());
        // A client that violates the protocol causes an error; it must not cause a panic.
        let _ = serve(&server, input, ours).await;
        let mut written = String::new();
        theirs.read_to_string(&mut written).await.expect("UTF-8");
        for line in written.lines() {
            let message: Json = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
        }
    });
});

/// The first messages of clients of the older era.
const BEGIN: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"f","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
