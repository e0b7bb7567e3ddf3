//! A server behind the gate with all kinds of behaviour.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Gate, manifest};
use crate::Sandbox;

/// A loopback server that responds as the path says, and records requests. It ends with the test process.
pub(super) struct Behind {
    pub(super) address: SocketAddr,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

impl Behind {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take(1_000) {
                let seen = seen.clone();
                thread::spawn(move || answer(stream, &seen));
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

fn answer(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let request = loop {
        let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break text;
        }
    };
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = request.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    seen.lock().expect("unpoisoned").push(request);
    let mut reply = |status: &str, kind: &str, body: &[u8]| {
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    };
    match path.as_str() {
        "/echo" => reply(
            "200 OK",
            "application/json",
            json!({ "got": serde_json::from_str::<Value>(&body).expect("JSON") }).to_string().as_bytes(),
        ),
        "/created" => reply("201 Created", "text/plain", b"[1]"),
        "/slow" => {
            thread::sleep(Duration::from_secs(60));
            reply("200 OK", "application/json", b"1");
        }
        "/huge" => reply("200 OK", "application/json", format!("\"{}\"", "x".repeat(5 << 20)).as_bytes()),
        "/page" => reply("200 OK", "text/html", b"<html>secret page</html>"),
        "/empty" => reply("200 OK", "application/json", b""),
        "/refuses" => reply("400 Bad Request", "application/json", br#"{"message":"no such \u001b[31mharbour"}"#),
        "/missing" => reply("404 Not Found", "text/html", b"<html>nginx</html>"),
        "/lengthy" => reply("422 Unprocessable Entity", "text/plain", "y".repeat(100_000).as_bytes()),
        "/fails" => reply("500 Internal Server Error", "application/json", br#"{"message":"secret stack trace"}"#),
        "/moved" => reply("302 Found", "text/plain", b"elsewhere"),
        "/drips" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n");
            for _ in 0..400 {
                if stream.write_all(b" ").is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        // Closes without a response.
        _ => {}
    }
}

/// A server that keeps connections open, responds to the first call on each, and ignores the second.
fn forgetful() -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(100) {
            let seen = seen.clone();
            seen.lock().expect("unpoisoned").push(0);
            let at = seen.lock().expect("unpoisoned").len() - 1;
            thread::spawn(move || {
                let mut buffer = [0; 16_384];
                for call in 1..=2 {
                    // A call arrives in one piece.
                    let Ok(1..) = stream.read(&mut buffer) else { return };
                    seen.lock().expect("unpoisoned")[at] = call;
                    if call == 1 {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
                    }
                }
            });
        }
    });
    (address, calls)
}

#[test]
fn a_call_that_may_have_been_acted_on_is_not_repeated() {
    let (sandbox, (address, calls)) = (Sandbox::new(), forgetful());
    sandbox.write("tool.json", manifest("tool").to_string());
    let gate = Gate::start(&sandbox, &["tool.json", "--upstream", &format!("http://{address}/x"), "--store", "memory"]);
    assert_eq!(gate.call("tool", &json!({})).status, 200);
    // Over the same connection, if the machine is not so slow that it is too old: then over a new one, which answers.
    let second = gate.call("tool", &json!({}));
    let seen = calls.lock().expect("unpoisoned").clone();
    match second.status {
        500 => assert_eq!(seen, [2], "{}", gate.log()),
        status => assert_eq!((status, seen), (200, vec![1, 1])),
    }
}

#[track_caller]
fn check(path: &str, status: u16, code: &str, message: &str) {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tool.json", manifest("tool").to_string());
    let gate = Gate::start(&sandbox, &["tool.json", "--upstream", &behind.url(path), "--time", "2", "--store", "memory"]);
    let began = Instant::now();
    let answer = gate.call("tool", &json!({ "harbour": "NLRTM" }));
    toolcrib_testkit::assert_not_hung(began, path);
    if code.is_empty() {
        assert_eq!((answer.status, String::from_utf8_lossy(&answer.body).as_ref()), (status, message), "{path}");
        return;
    }
    assert_eq!(answer.verdict(), (status, code.to_owned()), "{path}: {}", gate.log());
    let told = answer.json()["message"].as_str().expect("a message").to_owned();
    assert!(told.contains(message), "{path}: {told}");
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{path}");
    let is_fault = status >= 500;
    let log = gate.log();
    assert_eq!(log.lines().filter(|line| line.starts_with("fault tool gate.")).count(), usize::from(is_fault), "{path}: {log}");
    assert!(!log.contains("secret"), "{path}: {log}");
    assert!(!log.contains(path) || path.is_empty(), "the upstream's path is not logged: {log}");
}

// req: GATE-001
#[test]
fn what_an_upstream_answers_becomes() {
    thread::scope(|scope| {
        for (path, status, code, message) in [
            ("echo", 200, "", r#"{"got":{"harbour":"NLRTM"}}"#),
            ("created", 200, "", "[1]"),
            ("slow", 504, "gate.timed_out", ""),
            ("drips", 504, "gate.timed_out", ""),
            ("huge", 500, "gate.failed", ""),
            ("page", 500, "gate.failed", ""),
            ("empty", 500, "gate.failed", ""),
            ("refuses", 422, "gate.refused", "no such \\u{1b}[31mharbour"),
            ("missing", 500, "gate.failed", ""),
            ("lengthy", 422, "gate.refused", "yyyy"),
            ("fails", 500, "gate.failed", ""),
            ("moved", 500, "gate.failed", ""),
            ("closes", 500, "gate.failed", ""),
        ] {
            scope.spawn(move || check(path, status, code, message));
        }
    });
}

#[test]
fn nothing_of_a_callers_request_but_the_input_reaches_the_upstream() {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tool.json", manifest("tool").to_string());
    let gate = Gate::start(&sandbox, &["tool.json", "--upstream", &behind.url("echo"), "--store", "memory"]);
    let forged = [
        ("X-Tool-Caller", "0x1111111111111111111111111111111111111111"),
        ("X-Tool-Slug", "other"),
        ("X-Tool-Reference", "eip155:1/erc8257:0x1111111111111111111111111111111111111111/1"),
        ("X-PAYMENT", "eyJwYXltZW50IjoxfQ=="),
        ("PAYMENT-SIGNATURE", "eyJwYXltZW50IjoxfQ=="),
        ("Authorization", "Bearer forged"),
        ("Cookie", "session=forged"),
        ("X-Forwarded-For", "10.0.0.1"),
    ];
    assert_eq!(gate.call_with("tool", &forged, &json!({ "a": 1 })).status, 200);
    let requests = behind.requests.lock().expect("unpoisoned");
    let head = requests[0].split_once("\r\n\r\n").expect("a head").0.to_ascii_lowercase();
    assert!(head.contains("x-tool-slug: tool\r\n"), "{head}");
    for lost in ["x-tool-caller", "x-tool-reference", "payment", "forged", "cookie", "10.0.0.1", "0x1111", "other"] {
        assert!(!head.contains(lost), "{lost}: {head}");
    }
}

#[test]
fn several_tools_of_one_origin_have_an_upstream_each() {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tides.json", manifest("tides").to_string());
    sandbox.write("winds.json", manifest("winds").to_string());
    let (all, winds) = (behind.url("echo"), format!("winds={}", behind.url("created")));
    let gate =
        Gate::start(&sandbox, &["tides.json", "winds.json", "--upstream", &all, "--upstream", &winds, "--store", "memory"]);
    assert_eq!(gate.call("tides", &json!(7)).json(), json!({ "got": 7 }));
    assert_eq!(gate.call("winds", &json!(7)).json(), json!([1]));
    assert_eq!(gate.get("/.well-known/ai-tool/winds.json").body, sandbox.read("winds.json").into_bytes());
}
