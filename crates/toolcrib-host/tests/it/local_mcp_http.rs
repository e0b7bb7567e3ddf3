//! MCP servers over streamable HTTP as local tools: a real one in both eras, and scripted ones that fail in every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request as HttpRequest;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use tokio::task::JoinHandle;
use toolcrib_host::local::{CallError, CallRequest, Event, Events};
use toolcrib_mcp::{About, Asker, Bearer, Effect, HttpOptions, Reply, Stop, ToolSpec, Toolbox, http_router};

use crate::one_tool::{OneTool, TOOL, manifest};
use toolcrib_testkit::servers::{Request, Script, Server, Step, World, answer, ok};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Doubles a number, and reports progress.
struct Doubler;

#[async_trait]
impl Toolbox for Doubler {
    fn about(&self) -> About {
        About { name: "doubler", title: "Doubler", version: "1.0.0", instructions: "Doubles.".into() }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let input = json!({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]});
        vec![ToolSpec {
            name: "numbers.double".into(),
            title: "Double".into(),
            description: "Doubles.".into(),
            input,
            output: None,
            effect: Effect::Reads,
        }]
    }

    async fn call(&self, _: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop> {
        if let Some(progress) = asker.progress() {
            progress.report(0.5, Some(1.0), Some(format!("half, with Bearer {TOKEN}"))).await;
        }
        Ok(Reply::data(json!({"doubled": arguments["number"].as_i64().unwrap_or_default() * 2})))
    }
}

/// A real server. Ends when dropped.
struct RealServer {
    port: u16,
    task: JoinHandle<()>,
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn only_legacy(request: HttpRequest, next: Next) -> Response {
    if request.headers().get("mcp-protocol-version").is_some_and(|version| version == "2026-07-28") {
        return (StatusCode::BAD_REQUEST, "unsupported protocol version").into_response();
    }
    next.run(request).await
}

async fn real_server(is_legacy: bool, sessions: bool) -> RealServer {
    let options = HttpOptions { bearer: Some(Bearer::new(TOKEN).unwrap()), sessions, ..HttpOptions::default() };
    let mut router = http_router(Arc::new(Doubler), options).unwrap();
    if is_legacy {
        router = router.layer(middleware::from_fn(only_legacy));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    RealServer { port, task }
}

fn server_manifest(url: &str, more: Json) -> Json {
    let mut manifest = manifest(json!({
        "runtime": {"kind": "mcp", "url": url},
        "credentials": [{"name": "token", "label": "Token", "required": true, "header": "Authorization"}],
    }));
    manifest["functions"][0]["mcpName"] = json!("numbers.double");
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

fn tool_at(port: u16) -> OneTool {
    let bearer = format!("Bearer {TOKEN}");
    OneTool::new(&server_manifest(&format!("http://127.0.0.1:{port}/mcp"), json!({})), &[], &[("token", &bearer)], None)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_is_called_in_both_eras_with_and_without_sessions() {
    for is_legacy in [false, true] {
        for sessions in [false, true] {
            let server = real_server(is_legacy, sessions).await;
            let tool = tool_at(server.port);
            for number in 1..4 {
                let (result, events) = tool.call_and_listen(json!({"number": number})).await;
                assert_eq!(result.unwrap().value, json!({"doubled": number * 2}), "legacy {is_legacy}, sessions {sessions}");
                if sessions {
                    let message = Some("half, with [redacted]".to_owned());
                    assert_eq!(events, [Event::Progress { progress: 0.5, total: Some(1.0), message }]);
                }
            }
            let wrong = tool.call(json!({"number": "x"})).await;
            assert_eq!(OneTool::code(&wrong), "host.tool_failed");
            assert!(!tool.written().contains(TOKEN), "credentials are in headers only");
        }
    }
    let server = real_server(false, false).await;
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    for value in ["Bearer wrong", TOKEN] {
        let tool = OneTool::new(&server_manifest(&url, json!({})), &[], &[("token", value)], None);
        assert_eq!(OneTool::code(&tool.call(json!({"number": 1})).await), "host.credential_rejected");
    }
    let tool = OneTool::new(&server_manifest(&url, json!({})), &[], &[("token", "one\r\ntwo: three")], None);
    assert_eq!(OneTool::code(&tool.call(json!({"number": 1})).await), "host.credential_invalid");
}

/// A message of the server.
fn message(request: &Request, body: Json) -> Json {
    let sent: Json = serde_json::from_slice(&request.body).unwrap();
    let mut message = json!({"jsonrpc": "2.0", "id": sent["id"]});
    for (key, value) in body.as_object().unwrap() {
        message[key] = value.clone();
    }
    message
}

fn method(request: &Request) -> String {
    // A DELETE request has no body.
    let sent: Json = serde_json::from_slice(&request.body).unwrap_or_default();
    sent["method"].as_str().unwrap_or_default().to_owned()
}

/// A server of the newer era that responds to calls with `call`, and then sends nothing more.
fn modern(call: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Vec<Step> {
    let answered = Step::answer(move |request| match method(request).as_str() {
        "server/discover" => {
            let result = json!({"supportedVersions": ["2026-07-28"], "resultType": "complete", "capabilities": {}});
            ok(message(request, json!({ "result": result })).to_string())
        }
        _ => call(request),
    });
    vec![Step::ReadRequest, answered, Step::Hold]
}

/// A server of the older era that opens sessions with the ids `s1`, `s2` and so on.
fn legacy(call: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Vec<Step> {
    let sessions = AtomicUsize::new(0);
    let answered = Step::answer(move |request| match method(request).as_str() {
        "" => answer("204 No Content", "", b""),
        "server/discover" => answer("400 Bad Request", "", b"no session"),
        "initialize" => {
            let id = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            let result =
                json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            let headers = format!("Content-Type: application/json\r\nMcp-Session-Id: s{id}\r\n");
            answer("200 OK", &headers, message(request, json!({ "result": result })).to_string().as_bytes())
        }
        "tools/call" => call(request),
        _ => answer("202 Accepted", "", b""),
    });
    vec![Step::ReadRequest, answered, Step::Hold]
}

fn text_result(text: &str) -> Json {
    json!({"result": {"content": [{"type": "text", "text": text}]}})
}

/// An event stream that does not end.
fn stream(text: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n",
        text.len()
    )
    .into_bytes()
}

type Answering = Box<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

fn always(bytes: impl Into<Vec<u8>>) -> Answering {
    let bytes = bytes.into();
    Box::new(move |_| bytes.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_server_has_a_code() {
    let html = || answer("200 OK", "Content-Type: text/html\r\n", b"<html>sign in</html>");
    let json_answer = |body: Json| -> Answering { Box::new(move |request| ok(message(request, body.clone()).to_string())) };
    let cases: Vec<(&str, Answering, &str)> = vec![
        ("a page", always(html()), "host.protocol"),
        ("an error page", always(answer("500 Oops", "Content-Type: text/html\r\n", b"oops")), "host.server_error"),
        (
            "an error in JSON of another kind",
            always(answer("503 Busy", "Content-Type: application/json\r\n", b"{\"error\": 1}")),
            "host.server_error",
        ),
        ("not found", always(answer("404 Not Found", "", b"")), "host.server_error"),
        ("credentials", always(answer("401 Unauthorized", "", b"")), "host.credential_rejected"),
        ("forbidden", always(answer("403 Forbidden", "", b"")), "host.credential_rejected"),
        ("a redirect", always(answer("307 Temporary", "Location: /elsewhere\r\n", b"")), "host.server_error"),
        ("silence", always(""), "host.timeout"),
        ("a stream that never says anything", always(stream(": wait\n\n")), "host.timeout"),
        ("an endless stream", always(stream(&"data: {}\n\n".repeat(500_000))), "host.result_too_large"),
        ("a huge announcement", always("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"), "host.result_too_large"),
        ("a huge result", json_answer(text_result(&"x".repeat(1_100_000))), "host.result_too_large"),
        ("half an answer", always("HTTP/1.1 200 OK\r\nContent-Length: 50\r\nConnection: close\r\n\r\n{"), "host.timeout"),
        ("no JSON", always(ok("{\"jsonrpc\": ")), "host.protocol"),
        ("another answer", always(ok("{\"jsonrpc\": \"2.0\", \"id\": 99, \"result\": {\"content\": []}}")), "host.protocol"),
        ("nothing", always(answer("202 Accepted", "", b"")), "host.protocol"),
        ("no HTTP", always("220 mail.example ESMTP\r\n"), "host.protocol"),
        ("compression", always(answer("200 OK", "Content-Encoding: gzip\r\n", b"x")), "host.protocol"),
        ("an error", json_answer(json!({"error": {"code": -32000, "message": "no such thing"}})), "host.tool_failed"),
        ("an error of the tool", json_answer(json!({"result": {"content": [], "isError": true}})), "host.tool_failed"),
        ("a question", json_answer(json!({"result": {"resultType": "input_required", "inputRequests": {}}})), "host.protocol"),
        ("no result of a tool", json_answer(json!({"result": [1]})), "host.protocol"),
    ];
    for (what, call, wanted) in cases {
        let server = Server::start(Script::plain(modern(call))).await;
        let tool = tool_at(server.address.port()).limit(Duration::from_millis(1_500));
        let result = tool.call(json!({"number": 1})).await;
        assert_eq!(OneTool::code(&result), wanted, "{what}: {result:?}");
        assert_eq!(server.requests().len(), 2, "{what}: nothing is repeated and no redirect followed");
    }
    // The same for the first request.
    for (what, bytes, wanted) in [
        ("a page", html(), "host.protocol"),
        ("an error", answer("500 Oops", "", b""), "host.server_error"),
        ("credentials", answer("401 Unauthorized", "", b""), "host.credential_rejected"),
        ("a redirect", answer("301 Moved", "Location: https://evil.example/\r\n", b""), "host.server_error"),
        ("silence", Vec::new(), "host.timeout"),
        ("not found", answer("404 Not Found", "", b""), "host.server_error"),
    ] {
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::send(bytes), Step::Hold])).await;
        let tool = tool_at(server.address.port()).limit(Duration::from_millis(600));
        assert_eq!(OneTool::code(&tool.call(json!({"number": 1})).await), wanted, "{what}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let result = tool_at(closed).call(json!({"number": 1})).await;
    assert_eq!(OneTool::code(&result), "host.server_unreachable");
    assert!(matches!(result, Err(CallError::Run(error)) if error.retryable));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_off_may_have_had_an_effect() {
    for bytes in [b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{".to_vec(), stream(": wait\n\n"), Vec::new()] {
        let mut steps = modern(move |_| bytes.clone());
        steps.pop();
        let server = Server::start(Script::plain(steps)).await;
        let result = tool_at(server.address.port()).call(json!({"number": 1})).await;
        assert_eq!(OneTool::code(&result), "host.process_ended", "{result:?}");
        assert!(matches!(result, Err(CallError::Run(error)) if !error.retryable));
    }
    // A stream that ends properly without a response.
    let mut steps = modern(|_| [stream(": wait\n\n"), b"0\r\n\r\n".to_vec()].concat());
    steps.pop();
    let server = Server::start(Script::plain(steps)).await;
    assert_eq!(OneTool::code(&tool_at(server.address.port()).call(json!({"number": 1})).await), "host.process_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_before_the_answer_and_the_stream_need_not_end() {
    let server = Server::start(Script::plain(modern(|request| {
        let sent: Json = serde_json::from_slice(&request.body).unwrap();
        let token = &sent["params"]["_meta"]["progressToken"];
        let notification = |method: &str, params: Json| json!({"jsonrpc": "2.0", "method": method, "params": params});
        let events = [
            notification("notifications/progress", json!({"progressToken": token, "progress": 1, "total": 2, "message": "one"})),
            notification("notifications/progress", json!({"progressToken": 999, "progress": 1})),
            notification("notifications/message", json!({"level": "info", "data": format!("a line with Bearer {TOKEN}")})),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
            message(request, text_result("done")),
        ];
        stream(&events.map(|event| format!("event: message\ndata: {event}\n\n")).concat())
    })))
    .await;
    let tool = tool_at(server.address.port());
    let (result, events) = tool.call_and_listen(json!({"number": 1})).await;
    assert_eq!(result.unwrap().value, json!("done"));
    let [Event::Progress { progress: 1.0, total: Some(2.0), message: Some(message) }, Event::Log(line)] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert!(message == "one" && line.starts_with("a line with ") && !line.contains(TOKEN), "{message} {line}");

    let requests = server.requests();
    let [discover, call] = requests.as_slice() else { panic!("two requests: {requests:?}") };
    for (request, method) in [(discover, "server/discover"), (call, "tools/call")] {
        assert_eq!(request.header("mcp-method"), Some(method));
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
        assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
        assert!(!String::from_utf8_lossy(&request.body).contains(TOKEN), "the credential is in the header only");
    }
    assert_eq!(call.header("mcp-name"), Some("numbers.double"));
    let sent: Json = serde_json::from_slice(&call.body).unwrap();
    assert_eq!((&sent["params"]["name"], &sent["params"]["arguments"]), (&json!("numbers.double"), &json!({"number": 1})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_kept_and_opened_again_when_the_server_forgot_it() {
    let server = Server::start(Script::plain(legacy(|request| match request.header("mcp-session-id") {
        // The first session is dropped after one call.
        Some("s1") if serde_json::from_slice::<Json>(&request.body).unwrap()["params"]["arguments"]["number"] == 2 => {
            answer("404 Not Found", "", b"no such session")
        }
        Some(id) => ok(message(request, text_result(id)).to_string()),
        None => answer("400 Bad Request", "", b""),
    })))
    .await;
    let tool = tool_at(server.address.port());
    for (number, session) in [(1, "s1"), (2, "s2"), (3, "s2")] {
        assert_eq!(tool.call(json!({"number": number})).await.unwrap().value, json!(session));
    }
    let methods: Vec<_> = server.requests().iter().map(method).collect();
    let opened = ["server/discover", "initialize", "notifications/initialized"];
    assert_eq!(methods, [&opened[..], &["tools/call", "tools/call"], &opened[..], &["tools/call", "tools/call"]].concat());
    let after = &server.requests()[2];
    assert_eq!((after.header("mcp-session-id"), after.header("mcp-protocol-version")), (Some("s1"), Some("2025-06-18")));
    assert_eq!(server.requests()[1].header("mcp-protocol-version"), None);
    // The session is closed with the host, once.
    tool.host.shutdown().await;
    tool.host.shutdown().await;
    let requests = server.requests();
    let last = requests.last().unwrap();
    assert_eq!((requests.len(), last.method(), last.header("mcp-session-id")), (methods.len() + 1, "DELETE", Some("s2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_when_the_caller_gives_up() {
    let server = Server::start(Script::plain(legacy(|_| Vec::new()))).await;
    let tool = tool_at(server.address.port()).limit(Duration::from_millis(700));
    assert_eq!(OneTool::code(&tool.call(json!({"number": 1})).await), "host.timeout");
    let cancelled = || server.requests().iter().filter(|request| method(request) == "notifications/cancelled").count();
    let calls = || server.requests().iter().filter(|request| method(request) == "tools/call").count();
    let until = async |done: &dyn Fn() -> bool| {
        for _ in 0..200 {
            if done() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it did not happen");
    };
    let told_once = || cancelled() == 1;
    until(&told_once).await;
    // Dropping the future cancels the call.
    {
        let is_called = || calls() == 2;
        tokio::select! {
            result = tool.call(json!({"number": 2})) => panic!("{result:?}"),
            () = until(&is_called) => {}
        }
    }
    let told_twice = || cancelled() == 2;
    until(&told_twice).await;
    let requests = server.requests();
    let ids: Vec<_> = requests.iter().map(|request| serde_json::from_slice::<Json>(&request.body).unwrap()).collect();
    let asked: Vec<_> = ids.iter().filter(|sent| sent["method"] == "tools/call").map(|sent| sent["id"].clone()).collect();
    let mut ended: Vec<_> = ids
        .iter()
        .filter(|sent| sent["method"] == "notifications/cancelled")
        .map(|sent| sent["params"]["requestId"].clone())
        .collect();
    ended.sort_by_key(Json::as_u64);
    assert_eq!(asked, ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_elsewhere_is_reached_by_tls_at_public_addresses_only() {
    let world = World::new();
    let script = |host: &str| {
        Script::tls(&world.authority.leaf(&[host]), modern(|request| ok(message(request, text_result("far")).to_string())))
    };
    let server = world.serve("mcp.example", script("mcp.example")).await;
    let tool = |url: &str| {
        let manifest = server_manifest(url, json!({"sandbox": {"network": [443]}}));
        OneTool::new(&manifest, &[], &[("token", TOKEN)], Some(world.fetch()))
    };
    let far = tool("https://mcp.example/mcp?x=1");
    assert_eq!(far.call(json!({"number": 1})).await.unwrap().value, json!("far"));
    assert_eq!(server.requests()[0].path(), "/mcp?x=1");
    assert_eq!(far.host.check_runtime(&far.tool()).unwrap(), "the server https://mcp.example");
    assert_eq!(far.host.sandbox_summary(&far.tool()), "no program of this machine");

    // A name that resolves to a private address.
    let inside = Server::start(script("inside.example")).await;
    world.recorder.host("inside.example", &["192.168.1.1"]);
    world.recorder.route("192.168.1.1", inside.address);
    let result = tool("https://inside.example/mcp").call(json!({"number": 1})).await;
    assert_eq!(OneTool::code(&result), "host.server_unreachable");
    assert!(matches!(result, Err(CallError::Run(error)) if !error.retryable && error.message.contains("fetch.private_address")));
    assert_eq!(inside.accepted(), 0);
}

#[tokio::test]
async fn a_person_is_asked_with_the_server_before_anything_is_sent() {
    let server = Server::start(Script::plain(modern(|_| Vec::new()))).await;
    let tool = tool_at(server.address.port());
    tool.host.permissions().forget_tool(TOOL).unwrap();
    let request = CallRequest {
        tool: TOOL,
        function: "run",
        arguments: json!({"number": 1}),
        caller: "cli",
        interactive: true,
        approval: None,
        limit: None,
        events: Events::default(),
    };
    let Err(CallError::NeedsApproval(prompt)) = tool.host.call(request).await else { panic!("an approval is needed") };
    let text = prompt.text();
    assert!(text.contains(&format!("http://127.0.0.1:{}/mcp", server.address.port())) && text.contains("token"), "{text}");
    assert_eq!(server.accepted(), 0);
}
