//! Directories that follow the catalogue of a facilitator, as processes: one of them reads it, all of them show it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::Sandbox;
use crate::machines::stage::get;

/// A directory that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A facilitator with one resource, and the number of requested pages.
fn facilitator() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, asked) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    let item = json!({
        "resource": "https://nowhere.invalid/wind", "type": "http", "x402Version": 2, "lastUpdated": "2026-09-01T12:00:00Z",
        "serviceName": "Wind", "accepts": [{"scheme": "exact", "network": "eip155:8453", "amount": "20000", "maxTimeoutSeconds": 60,
            "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"}],
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4_096];
            let length = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            if !head.starts_with("GET /x402/discovery/resources?key=s3cret&") {
                continue;
            }
            count.fetch_add(1, Ordering::SeqCst);
            let items = if head.contains("offset=0 ") { vec![item.clone()] } else { Vec::new() };
            let page =
                json!({"x402Version": 2, "items": items, "pagination": {"limit": 100, "offset": 0, "total": 1}}).to_string();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}", page.len());
        }
    });
    (format!("http://{address}/x402?key=s3cret"), asked)
}

fn start(mut command: Command) -> (Running, SocketAddr) {
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let running = Running(child);
    assert!(!line.contains("s3cret"), "{line}");
    let told: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let url = told["data"]["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL").to_owned();
    (running, url.parse().expect("an address"))
}

#[test]
fn directories_that_share_a_database_walk_through_a_catalogue_once() {
    let sandbox = Sandbox::new();
    let (url, asked) = facilitator();
    let base =
        ["directory", "--with-index", "--no-follow", "--workers", "0", "--network", "local", "--rpc-url", "http://127.0.0.1:1"];
    let rest = ["--listen", "127.0.0.1:0", "--store", "index.db", "--json"];
    // One by a flag, and one by the variable.
    let (_first, one) = start(sandbox.command(&[&base[..], &["--bazaar", &url], &rest].concat()));
    let mut by_variable = sandbox.command(&[&base[..], &rest].concat());
    by_variable.env("TOOLCRIB_BAZAAR", &url);
    let (_second, two) = start(by_variable);
    let begun = Instant::now();
    for at in [one, two] {
        loop {
            let (_, body) = get(at, "", "/api/v2/tools?source=x402_bazaar").expect("an answer");
            let answer: Json = serde_json::from_str(&body).unwrap_or_default();
            if answer["tools"][0]["id"] == "x402_bazaar/1" {
                assert_eq!(
                    (answer["tools"][0]["name"].as_str(), answer["tools"][0]["verified"].as_bool()),
                    (Some("Wind"), Some(false))
                );
                assert!(!body.contains("s3cret"), "{body}");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{answer:#}");
            thread::sleep(Duration::from_millis(200));
        }
        let (_, body) = get(at, "", "/api/v2/tools").expect("an answer");
        assert_eq!(serde_json::from_str::<Json>(&body).expect("JSON")["tools"], json!([]), "only callers who ask see it");
    }
    // Long enough for the other process to read the catalogue as well.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(asked.load(Ordering::SeqCst), 2, "a page and an empty one");
}

#[test]
fn an_operator_blocks_a_resource_by_command_beside_a_directory() {
    let sandbox = Sandbox::new();
    let (url, _) = facilitator();
    let (_running, at) = start(sandbox.command(&[
        "directory",
        "--with-index",
        "--no-follow",
        "--workers",
        "0",
        "--network",
        "local",
        "--rpc-url",
        "http://127.0.0.1:1",
        "--bazaar",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--store",
        "index.db",
        "--json",
    ]));
    let begun = Instant::now();
    let until = |path: &str, is_there: &dyn Fn(&Json) -> bool| loop {
        let (_, body) = get(at, "", path).expect("an answer");
        let answer: Json = serde_json::from_str(&body).unwrap_or_default();
        if is_there(&answer) {
            return body;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{path}: {answer:#}");
        thread::sleep(Duration::from_millis(200));
    };
    let (list, whole) = ("/api/v2/tools?source=x402_bazaar", "/api/v2/tools/0/x402_bazaar/1");
    until(list, &|answer| answer["tools"][0]["name"] == "Wind");
    let run = |arguments: &[&str]| sandbox.run_json(&[&["index"], arguments, &["--store", "index.db"]].concat());
    assert_eq!(run(&["moderate", "block", "x402_bazaar/1"]).0, 2, "a reason is needed");
    let (code, done) = run(&["moderate", "block", "x402_bazaar/1", "--reason", "phishing", "--notice", "It asks for keys."]);
    assert_eq!((code, &done["data"]["changed"]), (0, &json!(true)), "{done}");
    // The directory is another process, which reads the change from the feed.
    until(list, &|answer| answer["tools"] == json!([]));
    let body = until(whole, &|answer| answer["moderation"]["notice"] == "It asks for keys.");
    assert!(body.contains("blocked") && !body.contains("nowhere.invalid") && !body.contains("Wind"), "{body}");
    let (_, rules) = run(&["moderation"]);
    assert_eq!(rules["data"]["rules"][0]["subject"], "x402_bazaar/1", "{rules}");
    assert_eq!(run(&["moderate", "unblock", "x402_bazaar/1"]).0, 0);
    assert_eq!(run(&["moderate", "unblock", "x402_bazaar/1"]).0, 1, "it was so already");
    until(list, &|answer| answer["tools"][0]["name"] == "Wind");
}

#[test]
fn a_facilitator_must_be_one() {
    let sandbox = Sandbox::new();
    for url in ["ftp://pay.example", "http://pay.example/?key=s3cret", "https://user:s3cret@pay.example", "nonsense"] {
        let ran = sandbox
            .run(&["index", "--no-follow", "--workers", "0", "--bazaar", url, "--network", "local", "--store", "memory"])
            .code(2);
        assert!(!ran.stderr.contains("s3cret") && ran.stderr.contains("--bazaar"), "{}", ran.stderr);
    }
    for setting in ["ftp://x.example", "http://x.example"] {
        sandbox.run(&["index", "--no-follow", "--collections", setting, "--network", "local", "--store", "memory"]).code(2);
    }
}
