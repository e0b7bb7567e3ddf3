//! Limits of connections, and how connections end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use toolcrib_http::{Delivered, Limits};

use crate::{GET, SOON, connect_from, is_closed, read_until, router, start, start_with};

#[tokio::test]
async fn a_network_above_its_share_loses_idle_connections_and_others_are_served() {
    let at = start(Limits { per_network: Some(4), ..Limits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..10 {
        let mut stream = connect_from(2, at).await;
        // Each is accepted before the next connects.
        stream.write_all(GET.as_bytes()).await.expect("sent");
        read_until(&mut stream, "here").await;
        idle.push(stream);
    }
    let mut open = Vec::new();
    for (number, stream) in idle.iter_mut().enumerate() {
        if tokio::time::timeout(Duration::from_millis(100), stream.read(&mut [0; 1])).await.is_err() {
            open.push(number);
        }
    }
    assert_eq!(open, [6, 7, 8, 9], "the oldest went first");
    // A connection with half a head is idle too; one with an open stream is not.
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = connect_from(2, at).await;
        stream.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
        read_until(&mut stream, "begun").await;
        streams.push(stream);
    }
    let mut refused = connect_from(2, at).await;
    assert!(is_closed(&mut refused).await, "none is idle, so the new one is closed");
    for stream in &mut streams {
        assert!(tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0; 1])).await.is_err(), "still open");
    }
    let mut other = connect_from(3, at).await;
    other.write_all(GET.as_bytes()).await.expect("sent");
    read_until(&mut other, "here").await;
}

#[tokio::test]
async fn at_the_total_an_honest_network_still_gets_in() {
    let at = start(Limits { connections: 20, per_network: Some(10), ..Limits::default() }).await;
    let mut hostile = Vec::new();
    for network in [2, 3, 4] {
        for _ in 0..10 {
            let mut stream = connect_from(network, at).await;
            stream.write_all(b"GET / HTTP/1.1\r\nHo").await.expect("sent");
            hostile.push(stream);
        }
    }
    for _ in 0..10 {
        let mut honest = connect_from(5, at).await;
        honest.write_all(GET.as_bytes()).await.expect("sent");
        read_until(&mut honest, "here").await;
    }
}

#[tokio::test]
async fn the_address_of_the_peer_is_known() {
    let shown = |ConnectInfo(peer): ConnectInfo<std::net::SocketAddr>| async move { peer.ip().to_string() };
    let router = Router::new().route("/", get(shown));
    let (at, _) = start_with(Limits::default(), router, std::future::pending()).await;
    let mut stream = connect_from(9, at).await;
    stream.write_all(GET.as_bytes()).await.expect("sent");
    read_until(&mut stream, "127.0.0.9").await;
}

#[tokio::test]
async fn a_stop_lets_requests_end_and_nothing_else() {
    let slow = get(|| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "done"
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let limits = Limits { stop_time: SOON, ..Limits::default() };
    let (at, serving) = start_with(limits, router().route("/slow", slow), async move { stopped.await.unwrap_or_default() }).await;
    let mut kept = TcpStream::connect(at).await.expect("it listens");
    kept.write_all(GET.as_bytes()).await.expect("sent");
    read_until(&mut kept, "here").await;
    let mut half = TcpStream::connect(at).await.expect("it listens");
    half.write_all(b"GET / HT").await.expect("sent");
    let mut running = TcpStream::connect(at).await.expect("it listens");
    running.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = std::time::Instant::now();
    stop.send(()).expect("it waits for it");
    read_until(&mut running, "done").await;
    drop(running);
    serving.await.expect("no panic");
    assert!(begun.elapsed() < SOON, "what is idle is not waited for");
    assert!(is_closed(&mut kept).await && is_closed(&mut half).await);
    assert!(TcpStream::connect(at).await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn a_stop_cuts_off_what_does_not_end() {
    let (stop, stopped) = oneshot::channel::<()>();
    let limits = Limits { stop_time: Duration::from_millis(200), ..Limits::default() };
    let (at, serving) = start_with(limits, router(), async move { stopped.await.unwrap_or_default() }).await;
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    read_until(&mut stream, "begun").await;
    stop.send(()).expect("it waits for it");
    tokio::time::timeout(SOON, serving).await.expect("in time").expect("no panic");
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn an_answer_is_delivered_when_the_next_request_comes_or_the_connection_is_closed_in_order() {
    let read = Arc::new(AtomicUsize::new(0));
    let count = read.clone();
    let answer = move || {
        let count = count.clone();
        async move {
            let mut response = "here".into_response();
            let add = move || _ = count.fetch_add(1, Ordering::SeqCst);
            response.extensions_mut().insert(Delivered::new(add));
            response
        }
    };
    let (at, _) = start_with(Limits::default(), Router::new().route("/", get(answer)), std::future::pending()).await;
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    for known in 0..3 {
        stream.write_all(GET.as_bytes()).await.expect("sent");
        read_until(&mut stream, "here").await;
        assert_eq!(read.load(Ordering::SeqCst), known);
    }
    drop(stream);
    let until = async |count| {
        let begun = std::time::Instant::now();
        while read.load(Ordering::SeqCst) != count {
            toolcrib_testkit::assert_not_hung(begun, "knowing of a delivery");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until(3).await;
    // A connection that breaks proves nothing.
    let mut broken = TcpStream::connect(at).await.expect("it listens");
    broken.write_all(GET.as_bytes()).await.expect("sent");
    broken.read_exact(&mut [0; 12]).await.expect("an answer");
    broken.set_zero_linger().expect("a socket");
    drop(broken);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(read.load(Ordering::SeqCst), 3);
    let mut last = TcpStream::connect(at).await.expect("it listens");
    last.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.expect("sent");
    read_until(&mut last, "here").await;
    drop(last);
    until(4).await;
}
