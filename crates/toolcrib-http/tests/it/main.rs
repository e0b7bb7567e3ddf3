//! The server over real sockets, with clients that are slow, silent, greedy or faulty.

mod connections;
mod heads;
mod slow;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::{any, get, post};
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use toolcrib_http::{Limits, Server};

/// Longer than any step here, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A request without a body.
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "here" }))
        .route("/echo", post(|body: Body| async { to_bytes(body, 1 << 20).await.unwrap_or_else(|_| "broken".into()) }))
        .route("/large", get(|| async { Body::from(vec![b'x'; 32 << 20]) }))
        .route(
            "/idle",
            get(|| async { Body::from_stream(stream::iter([Ok::<_, std::io::Error>("begun")]).chain(stream::pending())) }),
        )
        .fallback(any(|| async { "elsewhere" }))
}

/// Starts a server on a free port of all loopback addresses.
async fn start(limits: Limits) -> SocketAddr {
    start_with(limits, router(), std::future::pending()).await.0
}

async fn start_with(
    limits: Limits,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let serving = tokio::spawn(Server::new(limits).serve(listener, router, stop));
    (SocketAddr::from(([127, 0, 0, 1], port)), serving)
}

/// Connects from another loopback address.
async fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0)).expect("an address of this machine");
    socket.connect(to).await.expect("the server listens")
}

/// Sends text and reads until the server closes.
async fn exchange(to: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(to).await.expect("the server listens");
    stream.write_all(text.as_bytes()).await.expect("sent");
    read_all(&mut stream).await
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the server closes");
    String::from_utf8(answer).expect("text")
}

/// Reads until the text has arrived.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut answer = String::new();
    let mut buffer = [0; 1024];
    while !answer.contains(text) {
        let read = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.expect("in time").expect("readable");
        assert_ne!(read, 0, "closed after {answer:?}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    answer
}

/// Whether the server closes the connection soon, without a response.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut [0; 16])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}
