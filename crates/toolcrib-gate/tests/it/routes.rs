//! Paths that look like a tool's: none bypasses its gate. And what caches may store.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_gate::{Gate, PaidGate, Rates, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::Version;

use crate::till::{USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{ORIGIN, Runs, authorization, base_domain, counting, fresh, header, holder, post, send, serve, sign};

/// Sends bytes and gives the status, or `None` when the server closes without one.
async fn raw(to: std::net::SocketAddr, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(to).await.expect("the server listens");
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok())
}

// attack: T18
#[tokio::test]
async fn no_other_spelling_of_a_path_reaches_the_tool() {
    let runs = Runs::default();
    let tools = Tools::new(ORIGIN).rates(Rates { per_address: None, ..Rates::default() });
    let at =
        serve(tools.tool(counting("word-count", Gate::identity(), &runs)).tool(counting("got", Gate::identity(), &runs).get()))
            .await;
    let body = br#"{"text":"one two"}"#;
    for target in [
        "//word-count",
        "/word-count/",
        "/word-count//",
        "/WORD-COUNT",
        "/Word-Count",
        "/./word-count",
        "/x/../word-count",
        "/word-count/.",
        "/word-count/x",
        "/%2e/word-count",
        "/word-count%2F",
        "/%2Fword-count",
        "/word%2Dcount",
        "/%77ord-count",
        "/word-count%",
        "/word-count%zz",
        "/word-count%00",
        "/word-count;x=1",
        "/word-count\\",
        "\\word-count",
        "/\\word-count",
        "/word-count.json",
        "/word-count%20",
        "/got/",
        "//got",
        "*",
        "/",
        "",
    ] {
        for method in ["POST", "GET", "HEAD", "OPTIONS", "PUT", "post", "BREW"] {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let status = raw(at, &[request.as_bytes(), body].concat()).await;
            assert!(matches!(status, Some(400 | 404 | 405) | None), "{method} {target}: {status:?}");
        }
    }
    // The tool's own path, however it is asked for, is behind the gate.
    for (method, target, expected) in [
        ("POST", "/word-count", 402),
        ("POST", "/word-count?", 402),
        ("POST", "/word-count?x=%zz&../..", 402),
        ("POST", "http://elsewhere.example/word-count", 402),
        ("GET", "/word-count", 405),
        ("HEAD", "/word-count", 405),
        ("PUT", "/word-count", 405),
        ("BREW", "/word-count", 405),
        ("OPTIONS", "/word-count", 204),
        ("GET", "/got?text=a", 402),
        ("HEAD", "/got?text=a", 405),
        ("OPTIONS", "/got?text=a", 204),
        ("POST", "/got", 402),
    ] {
        for more in ["", "X-HTTP-Method-Override: POST\r\n", "X-Original-URL: /word-count\r\nX-Rewrite-URL: /word-count\r\n"] {
            let content = if matches!(method, "GET" | "HEAD") { &b""[..] } else { body };
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: a\r\n{more}Connection: close\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            assert_eq!(raw(at, &[request.as_bytes(), content].concat()).await, Some(expected), "{method} {target} {more}");
        }
    }
    for (version, hosts, expected) in [("1.1", "Host: a\r\nHost: b\r\n", 400), ("1.1", "", 400), ("1.0", "", 402)] {
        let request =
            format!("POST /word-count HTTP/{version}\r\n{hosts}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        assert_eq!(raw(at, &[request.as_bytes(), body].concat()).await, Some(expected), "{version} {hosts}");
    }
    assert_eq!(runs.count(), 0);
}

// attack: T17
#[tokio::test]
async fn nothing_that_was_asked_or_paid_for_is_kept_by_a_cache() {
    let (runs, till) = (Runs::default(), till());
    let at = serve(
        Tools::new(ORIGIN)
            .store(MemoryReplay::new(Limits::default()))
            .rates(Rates { per_address: None, ..Rates::default() })
            .tool(counting("open", Gate::Open, &runs).get())
            .tool(counting("free", Gate::identity(), &runs).get())
            .tool(priced("paid", USDC_ON_BASE, PaidGate::new(till), &runs).get()),
    )
    .await;
    for method in ["GET", "POST"] {
        for path in ["/open", "/free", "/paid"] {
            let (target, body) = match method {
                "GET" => (format!("{path}?text=one"), String::new()),
                _ => (path.to_owned(), json!({"text": "one"}).to_string()),
            };
            let call = async |headers: &[(&str, &[u8])]| send(at, method, &target, headers, body.as_bytes()).await;
            let first = call(&[]).await;
            assert_eq!(first.header("cache-control"), Some("no-store"), "{method} {path}");
            if path == "/open" {
                assert_eq!(first.status, 200);
                continue;
            }
            assert_eq!(first.status, 402);
            let mut signed = authorization(holder(), fresh());
            if path == "/paid" {
                signed = of_the_price(signed);
            }
            let value = header(&first.challenges(), Version::V2, signed, sign(holder(), &signed, &base_domain()));
            for (status, kept) in [(200, "private, no-store"), (409, "no-store")] {
                let answer = call(&[("PAYMENT-SIGNATURE", value.as_bytes())]).await;
                assert_eq!((answer.status, answer.header("cache-control")), (status, Some(kept)), "{method} {path}");
                assert!(answer.header("etag").is_none() && answer.header("last-modified").is_none());
            }
            let malformed = call(&[("PAYMENT-SIGNATURE", b"{}")]).await;
            assert_eq!((malformed.status, malformed.header("cache-control")), (400, Some("no-store")));
        }
    }
    for (method, path, status) in [("POST", "/nothing", 404), ("PUT", "/paid", 405), ("HEAD", "/paid", 405)] {
        let answer = send(at, method, path, &[], b"").await;
        assert_eq!((answer.status, answer.header("cache-control")), (status, Some("no-store")), "{method} {path}");
    }
    assert_eq!(post(at, "/open", &[], &json!({})).await.header("cache-control"), Some("no-store"));
}
