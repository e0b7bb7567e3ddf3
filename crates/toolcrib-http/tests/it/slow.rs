//! Slow clients. If a test only waits, the clock is paused and jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use toolcrib_http::Limits;

use crate::{GET, read_until, start, start_with};

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let limits = Limits::default();
    let at = start(limits).await;
    for begun in ["", "GET / HTTP/1.1\r\nHost: a\r\nX-A", "\r\n"] {
        let mut stream = TcpStream::connect(at).await.expect("it listens");
        stream.write_all(begun.as_bytes()).await.expect("sent");
        let since = Instant::now();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        let waited = since.elapsed();
        assert!(waited >= limits.head_time && waited < limits.head_time * 2, "{begun:?}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_breaks_off() {
    let limits = Limits::default();
    let at = start(limits).await;
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx").await.expect("sent");
    let since = Instant::now();
    let answer = read_until(&mut stream, "broken").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(since.elapsed() < limits.body_grace * 2, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_peer_that_never_reads_is_disconnected() {
    let limits = Limits { write_stall: Duration::from_millis(500), ..Limits::default() };
    let at = start(limits).await;
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    // The server times out while nothing is read; what the kernel has buffered can still be read, and is not everything.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut read = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match timeout(crate::SOON, stream.read(&mut buffer)).await.expect("closed") {
            Ok(0) | Err(_) => break,
            Ok(count) => read += count,
        }
    }
    assert!(read < 32 << 20, "{read}");
}

#[tokio::test]
async fn a_peer_that_reads_slowly_gets_everything_and_an_idle_stream_stays() {
    let limits = Limits { write_stall: Duration::from_millis(700), head_time: Duration::from_millis(700), ..Limits::default() };
    let at = start(limits).await;
    let mut idle = TcpStream::connect(at).await.expect("it listens");
    idle.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    read_until(&mut idle, "begun").await;
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    let mut pauses = 0;
    loop {
        match timeout(crate::SOON, stream.read(&mut buffer)).await.expect("in time").expect("not cut off") {
            0 => break,
            count => read += count,
        }
        // Longer than the limit in total, but each pause is shorter.
        if pauses < 20 && read > (pauses + 1) << 20 {
            pauses += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(read > 32 << 20, "{read}");
    assert!(timeout(Duration::from_millis(300), idle.read(&mut [0; 16])).await.is_err(), "the idle stream is open");
}

#[tokio::test]
async fn requests_of_a_peer_that_does_not_read_are_not_all_answered() {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let large = get(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { vec![0_u8; 100_000] }
    });
    let router = Router::new().route("/", large);
    let (at, _) = start_with(Limits::default(), router, std::future::pending()).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a socket");
    let mut stream = socket.connect(at).await.expect("it listens");
    stream.write_all(GET.repeat(200).as_bytes()).await.expect("sent");
    let mut before = usize::MAX;
    while before != answered.load(Ordering::SeqCst) {
        before = answered.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!((1..20).contains(&before), "{before} answers were made for a peer that reads none");
}
