//! Local tools behind a URL on this machine: the requests, and an error code for each failure of the server.

use std::time::Duration;

use serde_json::{Value as Json, json};
use toolcrib_core::codes::local::CREDENTIAL_HEADER_UNUSED;
use toolcrib_host::local::{CallError, CallRequest, Events, MAX_RESULT_BYTES};

use crate::one_tool::{OneTool, TOOL, manifest};
use toolcrib_testkit::servers::{Request, Script, Server, Step, answer, ok};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn http_manifest(port: u16, more: Json) -> Json {
    let mut manifest = manifest(json!({
        "runtime": {"kind": "http", "url": format!("http://127.0.0.1:{port}/run?x=1")},
        "credentials": [{"name": "token", "label": "Token", "required": true}],
        "settings": [{"name": "size", "label": "Size", "type": "string", "default": "large"}],
    }));
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

fn tool_at(port: u16) -> OneTool {
    OneTool::new(&http_manifest(port, json!({})), &[], &[("token", TOKEN)], None)
}

fn answering(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Script {
    Script::plain(vec![Step::ReadRequest, Step::answer(reply), Step::Hold])
}

async fn server(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(answering(reply)).await
}

fn sent(request: &Request) -> Json {
    serde_json::from_slice(&request.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_post_with_the_message_of_a_program() {
    let echo = |request: &Request| {
        let sent = sent(request);
        ok(json!({"result": {"args": sent["args"], "token": sent["credentials"]["token"]}}).to_string())
    };
    let server = server(echo).await;
    let tool = tool_at(server.address.port());
    let result = tool.call(json!({"number": 1})).await.unwrap();
    assert_eq!(result.value, json!({"args": {"number": 1}, "token": "[redacted]"}), "what comes back has no secrets");

    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("one request: {requests:?}") };
    assert_eq!((request.method(), request.path()), ("POST", "/run?x=1"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("accept"), Some("application/json"));
    let sent = sent(request);
    assert_eq!((&sent["v"], &sent["function"], &sent["args"]), (&json!(1), &json!("run"), &json!({"number": 1})));
    assert_eq!((&sent["credentials"], &sent["settings"]), (&json!({"token": TOKEN}), &json!({"size": "large"})));
    assert!(sent["context"]["deadlineMs"].as_u64().unwrap() <= 20_000, "{sent}");
    assert!(!request.head.contains(TOKEN), "the credential is in the body only: {}", request.head);
    assert!(!tool.written().contains(TOKEN));
}

/// Headers are for MCP servers. A manifest of another kind with a header causes a finding, and the credential stays in the body.
#[tokio::test(flavor = "multi_thread")]
async fn a_declared_header_is_not_sent_and_reported() {
    let server = server(|_| ok("{\"result\": 1}")).await;
    let credentials = json!([{"name": "token", "label": "Token", "required": true, "header": "X-Api-Key", "env": "TOKEN"}]);
    let manifest = http_manifest(server.address.port(), json!({ "credentials": credentials }));
    let tool = OneTool::new(&manifest, &[], &[("token", TOKEN)], None);
    assert!(
        tool.tool().warnings().iter().any(|finding| finding.code == CREDENTIAL_HEADER_UNUSED),
        "{:?}",
        tool.tool().warnings()
    );
    tool.call(json!({})).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.header("x-api-key"), None);
    assert_eq!(sent(request)["credentials"], json!({"token": TOKEN}));
}

type Answering = Box<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

fn always(bytes: impl Into<Vec<u8>>) -> Answering {
    let bytes = bytes.into();
    Box::new(move |_| bytes.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_server_has_a_code() {
    let json_type = "Content-Type: application/json\r\n";
    let said = |status: &str, body: &str| always(answer(status, json_type, body.as_bytes()));
    let huge = format!("{{\"result\": \"{}\"}}", "x".repeat(MAX_RESULT_BYTES));
    let error = "{\"error\": {\"message\": \"no such place\"}}";
    let cases: Vec<(&str, Answering, &str, bool)> = vec![
        ("an error", said("200 OK", error), "host.tool_failed", false),
        ("a text as error", said("200 OK", "{\"error\": \"no such place\"}"), "host.tool_failed", false),
        ("an error with its status", said("422 No", error), "host.tool_failed", false),
        (
            "an error that may pass",
            said("200 OK", "{\"error\": {\"message\": \"m\", \"retryable\": true}}"),
            "host.tool_failed",
            true,
        ),
        ("a status", said("404 Not Found", "{}"), "host.server_error", false),
        ("a status with a result", said("500 Oops", "{\"result\": 1}"), "host.server_error", true),
        ("busy", always(answer("503 Busy", "", b"later")), "host.server_error", true),
        ("refused", always(answer("401 Unauthorized", "", b"")), "host.credential_rejected", false),
        ("nothing", said("204 No Content", ""), "host.protocol", false),
        ("a page", always(answer("200 OK", "Content-Type: text/html\r\n", b"<html>")), "host.protocol", false),
        ("half of JSON", said("200 OK", "{\"result\": "), "host.protocol", false),
        ("JSON of another kind", said("200 OK", "{\"answer\": 1}"), "host.protocol", false),
        ("a list", said("200 OK", "[1]"), "host.protocol", false),
        ("no HTTP", always("220 mail.example ESMTP\r\n"), "host.protocol", false),
        ("silence", always(""), "host.timeout", false),
        ("half an answer", always("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), "host.timeout", false),
        ("a huge result", said("200 OK", &huge), "host.result_too_large", false),
        ("a huge announcement", always("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"), "host.result_too_large", false),
        ("a redirect", always(answer("307 Temporary", "Location: /elsewhere\r\n", b"")), "host.server_error", false),
        (
            "a redirect with an error",
            always(answer("302 Found", "Location: https://evil.example/\r\n", error.as_bytes())),
            "host.server_error",
            false,
        ),
    ];
    for (what, reply, wanted, may_pass) in cases {
        let server = server(reply).await;
        let tool = tool_at(server.address.port()).limit(Duration::from_millis(1_500));
        let result = tool.call(json!({})).await;
        assert_eq!(OneTool::code(&result), wanted, "{what}: {result:?}");
        assert_eq!(server.requests().len(), 1, "{what}: nothing is repeated and no redirect followed");
        let Err(CallError::Run(error)) = result else { panic!("{what}: {result:?}") };
        assert_eq!(error.retryable, may_pass, "{what}: {error}");
        if wanted == "host.timeout" {
            assert_eq!(error.message, "the call took longer than 1500 ms");
        }
    }
    let no_error = server(|_| ok("{\"error\": null, \"result\": 5}")).await;
    assert_eq!(tool_at(no_error.address.port()).call(json!({})).await.unwrap().value, json!(5));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let result = tool_at(closed).call(json!({})).await;
    assert_eq!(OneTool::code(&result), "host.server_unreachable");
    assert!(matches!(result, Err(CallError::Run(error)) if error.retryable));
}

/// The server may have acted on the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_in_the_middle_is_not_asked_again() {
    for bytes in ["HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", ""] {
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::send(bytes)])).await;
        let result = tool_at(server.address.port()).call(json!({})).await;
        assert_eq!(OneTool::code(&result), "host.process_ended", "{result:?}");
        assert!(matches!(result, Err(CallError::Run(error)) if !error.retryable));
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_server_have_no_secrets() {
    let server = server(|request| {
        ok(json!({"error": {"message": format!("wrong token {}", sent(request)["credentials"]["token"])}}).to_string())
    })
    .await;
    let Err(error) = tool_at(server.address.port()).call(json!({})).await else { panic!("an error") };
    assert!(error.to_string().contains("wrong token") && !error.to_string().contains(TOKEN), "{error}");
}

#[tokio::test]
async fn a_person_is_told_that_the_server_is_not_contained() {
    let server = server(|_| Vec::new()).await;
    let port = server.address.port();
    let tool = tool_at(port);
    let unsandboxed = format!("UNSANDBOXED: the server http://127.0.0.1:{port}/run?x=1 runs on this machine by itself");
    assert_eq!(tool.host.sandbox_summary(&tool.tool()), unsandboxed);
    assert_eq!(tool.host.check_runtime(&tool.tool()).unwrap(), format!("the server http://127.0.0.1:{port}"));
    tool.host.permissions().forget_tool(TOOL).unwrap();
    let request = CallRequest {
        tool: TOOL,
        function: "run",
        arguments: json!({}),
        caller: "cli",
        interactive: true,
        approval: None,
        limit: None,
        events: Events::default(),
    };
    let Err(CallError::NeedsApproval(prompt)) = tool.host.call(request).await else { panic!("an approval is needed") };
    let text = prompt.text();
    assert!(text.contains(&unsandboxed) && text.contains("Credentials given to it: token"), "{text}");
    assert_eq!(server.accepted(), 0, "nothing was sent");
}

/// The message contains credentials, so no manifest can send it to another machine.
#[tokio::test]
async fn servers_of_other_machines_are_refused() {
    for url in ["http://192.168.1.1/", "https://example.com/", "http://127.0.0.1.example.com/", "http://[::2]/"] {
        let tool = OneTool::new(&manifest(json!({"runtime": {"kind": "http", "url": url}})), &[], &[], None);
        let result = tool.call(json!({})).await;
        assert_eq!(OneTool::code(&result), "host.runtime_unsupported", "{url}: {result:?}");
    }
}
