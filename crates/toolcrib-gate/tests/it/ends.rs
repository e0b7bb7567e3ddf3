//! Callers that disconnect, bodies that never end, servers that shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, Request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use toolcrib_gate::{Context, Gate, HEAD_TIME, Handler, MAX_RUNNING, Rate, Rates, Tool, Tools};
use tower::Service;

use crate::world::{Input, ORIGIN, Runs, counting, manifest};

/// A tool that takes its time, and what it has done.
fn slow(begun: &Arc<AtomicBool>, ended: &Arc<AtomicBool>) -> Tool<Handler> {
    let (begun, ended) = (begun.clone(), ended.clone());
    Tool::new(manifest("word-count")).handler(move |_: Input, _: Context| {
        let (begun, ended) = (begun.clone(), ended.clone());
        async move {
            begun.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
            ended.store(true, Ordering::SeqCst);
            Ok(json!({"words": 0, "caller": null}))
        }
    })
}

async fn until(flag: &AtomicBool) {
    let waiting = async {
        while !flag.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("in time");
}

#[tokio::test]
async fn a_call_ends_though_its_caller_is_gone_and_the_server_stops() {
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let server = Tools::new(ORIGIN).tool(slow(&begun, &ended)).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async move { stopped.await.unwrap_or_default() }));
    let mut caller = TcpStream::connect(at).await.expect("it listens");
    let request = "POST /word-count HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n{\"text\":\"\"}";
    caller.write_all(request.as_bytes()).await.expect("sent");
    until(&begun).await;
    drop(caller);
    stop.send(()).expect("the server waits for it");
    serving.await.expect("no panic").expect("no error");
    assert!(ended.load(Ordering::SeqCst), "the call ran to its end before the server did");
    assert!(TcpStream::connect(at).await.is_err(), "nobody listens any more");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_given_up() {
    let runs = Runs::default();
    let tools = Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &runs));
    let mut router = tools.build().expect("sound settings").router();
    let bytes = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
    });
    let request = Request::post("/word-count").body(Body::from_stream(bytes)).expect("a request");
    let answer = router.call(request).await.expect("never fails");
    assert_eq!(answer.status(), 408);
    let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.expect("short")).expect("JSON");
    assert_eq!(body["code"], "gate.body_slow");

    let broken = futures_util::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))]);
    let request = Request::post("/word-count").body(Body::from_stream(broken)).expect("a request");
    assert_eq!(router.call(request).await.expect("never fails").status(), 400);

    // What is not announced is counted.
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 65_536])));
    let request = Request::post("/word-count").body(Body::from_stream(endless)).expect("a request");
    assert_eq!(router.call(request).await.expect("never fails").status(), 413);
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_drip_keep_no_one_waiting() {
    let runs = Runs::default();
    let rates = Rates { global: Rate::new(u32::MAX, 1e9), ..Rates::default() };
    let tools = Tools::new(ORIGIN).rates(rates).tool(counting("word-count", Gate::Open, &runs));
    let mut router = tools.build().expect("sound settings").router();
    let slow: Vec<_> = (0..1_100)
        .map(|_| {
            let bytes = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
            });
            let request = Request::post("/word-count").body(Body::from_stream(bytes)).expect("a request");
            let mut router = router.clone();
            tokio::spawn(async move { router.call(request).await.expect("never fails").status() })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let request = Request::post("/word-count").body(Body::from("{\"text\":\"a\"}")).expect("a request");
    assert_eq!(router.call(request).await.expect("never fails").status(), 200);
    for slow in slow {
        assert_eq!(slow.await.expect("no panic"), 408);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn callers_behind_a_proxy_are_told_apart_by_its_header() {
    let runs = Runs::default();
    let rates = Rates { per_address: Some(Rate::new(2, 0.01)), ..Rates::default() };
    let tools = || Tools::new(ORIGIN).rates(rates).tool(counting("word-count", Gate::Open, &runs));
    let header = HeaderName::from_static("x-forwarded-for");
    let proxied = tools().address_header(header).build().expect("sound settings").router();
    let direct = tools().build().expect("sound settings").router();
    let ask = async |router: &axum::Router, from: Option<&'static str>| {
        let mut request = Request::post("/word-count").body(Body::from("{\"text\":\"a\"}")).expect("a request");
        request.extensions_mut().insert(ConnectInfo(std::net::SocketAddr::from(([10, 0, 0, 1], 1))));
        if let Some(from) = from {
            request.headers_mut().insert("x-forwarded-for", from.parse().expect("a value"));
        }
        router.clone().call(request).await.expect("never fails").status()
    };
    for from in ["192.0.2.1", "192.0.2.9, 192.0.2.2", "2001:db8::1"] {
        for status in [200, 200, 429] {
            assert_eq!(ask(&proxied, Some(from)).await, status, "{from}");
        }
    }
    assert_eq!(ask(&proxied, Some("192.0.2.8, 192.0.2.1")).await, 429, "entries before the last are not believed");
    for _ in 0..5 {
        assert_eq!(ask(&proxied, None).await, 200, "a caller without an address is not the proxy");
    }
    // Without the setting the header counts for nothing.
    for (from, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)] {
        assert_eq!(ask(&direct, Some(from)).await, status, "{from}");
    }
}

#[tokio::test]
async fn a_head_with_bare_line_ends_is_refused() {
    let runs = Runs::default();
    let server = Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &runs)).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(server.serve(listener, std::future::pending()));
    for head in [
        "POST /word-count HTTP/1.1\nHost: a\nContent-Length: 12\n\n",
        "POST /word-count HTTP/1.1\r\nHost: a\nContent-Length: 12\r\n\r\n",
    ] {
        let mut caller = TcpStream::connect(at).await.expect("it listens");
        caller.write_all(head.as_bytes()).await.expect("sent");
        let _ = caller.write_all(b"{\"text\":\"a\"}").await;
        let mut answer = Vec::new();
        let _ = caller.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{head:?}: {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn places_come_back_whatever_becomes_of_a_call() {
    let runs = Runs::default();
    let rates = Rates { global: Rate::new(u32::MAX, 1e9), ..Rates::default() };
    let tools = Tools::new(ORIGIN).rates(rates).tool(counting("word-count", Gate::Open, &runs));
    let mut router = tools.build().expect("sound settings").router();
    let calls = MAX_RUNNING + 1;
    for (body, status) in [("{", 400), ("{\"text\":\"a\"}", 200)] {
        for _ in 0..calls {
            let request = Request::post("/word-count").body(Body::from(body)).expect("a request");
            assert_eq!(router.call(request).await.expect("never fails").status(), status);
        }
    }
    assert_eq!(runs.count(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_is_given_up_and_nobody_waits_for_it() {
    let server = Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &Runs::default())).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(server.serve(listener, std::future::pending()));
    for begun in ["", "POST /word-count HTTP/1.1\r\nHost: a\r\nX-A"] {
        let mut caller = TcpStream::connect(at).await.expect("it listens");
        caller.write_all(begun.as_bytes()).await.expect("sent");
        let began = tokio::time::Instant::now();
        let mut answer = Vec::new();
        let _ = caller.read_to_end(&mut answer).await;
        let waited = began.elapsed();
        assert!(waited >= HEAD_TIME && waited < HEAD_TIME * 2, "{begun:?}: closed after {waited:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn a_kept_connection_without_a_call_does_not_hold_the_server() {
    let server = Tools::new(ORIGIN).tool(counting("word-count", Gate::Open, &Runs::default())).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async move { stopped.await.unwrap_or_default() }));
    let mut kept = TcpStream::connect(at).await.expect("it listens");
    let request = "POST /word-count HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n{\"text\":\"\"}";
    kept.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    stop.send(()).expect("the server waits for it");
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("at once").expect("no panic").expect("no error");
}
