//! Heads that two parsers could interpret differently.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolcrib_http::Limits;

use crate::{GET, exchange, read_all, read_until, start};

fn statuses(answer: &str) -> Vec<&str> {
    answer.split("HTTP/1.1 ").skip(1).map(|rest| &rest[..3]).collect()
}

#[tokio::test]
async fn bare_line_ends_in_heads_are_refused() {
    let at = start(Limits::default()).await;
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\nY: c\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
    ] {
        let answer = exchange(at, &format!("{head}{GET}")).await;
        assert_eq!(statuses(&answer), ["400"], "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn line_ends_in_bodies_are_content() {
    let at = start(Limits::default()).await;
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let sized = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\na\nb\r\n\r";
    let chunked =
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\n\r\n\r\n2;x=y\r\n\n\n\r\n0\r\nT: u\r\n\r\n";
    // All at once, and byte by byte.
    let text = format!("{sized}{GET}{chunked}\r\n{sized}{close}");
    let answer = exchange(at, &text).await;
    assert_eq!(statuses(&answer), ["200"; 5], "{answer}");
    assert_eq!(answer.matches("a\nb\r\n\r").count(), 2, "{answer:?}");
    assert!(answer.contains("\n\r\n\n\n"), "{answer:?}");
    let mut stream = TcpStream::connect(at).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    for byte in text.bytes() {
        stream.write_all(&[byte]).await.expect("sent");
        tokio::task::yield_now().await;
    }
    assert_eq!(statuses(&read_all(&mut stream).await), ["200"; 5]);
}

#[tokio::test]
async fn a_bad_head_after_good_requests_ends_the_connection_alone() {
    let at = start(Limits::default()).await;
    let body = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n\n";
    let answer = exchange(at, &format!("{GET}{body}GET / HTTP/1.1\nHost: a\n\n{GET}")).await;
    assert_eq!(statuses(&answer), ["200", "200", "400"], "{answer}");
    // The same on a connection that is kept alive.
    let mut stream = TcpStream::connect(at).await.expect("the server listens");
    stream.write_all(GET.as_bytes()).await.expect("sent");
    read_until(&mut stream, "here").await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\n").await.expect("sent");
    let answer = read_all(&mut stream).await;
    assert_eq!(statuses(&answer), ["400"], "{answer}");
    // A bad chunk breaks the body, and what follows is not a request.
    let bad = format!("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n{GET}");
    let answer = exchange(at, &bad).await;
    assert!(answer.contains("broken") && statuses(&answer).len() == 1, "{answer}");
}

#[tokio::test]
async fn one_host_and_no_tunnel() {
    let at = start(Limits::default()).await;
    for (version, hosts, status) in [
        ("1.1", "Host: a\r\n", "200"),
        ("1.1", "", "400"),
        ("1.1", "Host: a\r\nHost: a\r\n", "400"),
        ("1.1", "Host: a\r\nhost: b\r\n", "400"),
        ("1.0", "", "200"),
        ("1.0", "Host: a\r\nHost: b\r\n", "400"),
    ] {
        let answer = exchange(at, &format!("GET / HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n")).await;
        assert_eq!(answer.get(9..12), Some(status), "{version} {hosts:?}: {answer}");
    }
    let answer = exchange(at, "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!(answer.get(9..12), Some("405"), "{answer}");
}

#[tokio::test]
async fn heads_are_bounded() {
    let at = start(Limits { max_head_bytes: 16 * 1024, max_headers: 20, ..Limits::default() }).await;
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(20));
    for head in [large, many] {
        let answer = exchange(at, &head).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    let enough = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}\r\n", "a: b\r\n".repeat(18));
    assert!(exchange(at, &enough).await.starts_with("HTTP/1.1 200"));
}
