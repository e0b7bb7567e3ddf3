//! The directory on a socket.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use toolcrib_directory::{Directory, serve};
use toolcrib_index::Chains;
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;

use crate::shelf::{Ask, Shelf, Stock, open, path};

async fn start(router: Router) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(async move {
        serve(listener, router, async {
            let _ = stopped.await;
        })
        .await
        .expect("served");
    });
    (address, stop, serving)
}

async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // A server that has heard enough may close before all is sent.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let shelf = Shelf::one(open()).await;
    let (address, _stop, _serving) = start(shelf.router.clone()).await;
    for (version, hosts, status) in [
        ("1.1", "host: a\r\n", "200"),
        ("1.1", "host: a\r\nhost: b\r\n", "400"),
        ("1.1", "host: a\r\nHost: a\r\n", "400"),
        ("1.1", "", "400"),
        ("1.0", "", "200"),
        ("1.0", "host: a\r\nhost: b\r\n", "400"),
    ] {
        let request = format!("GET /api/v2/stats HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        let answer = exchange(address, request.as_bytes()).await;
        assert_eq!(answer.get(9..12), Some(status), "{request}{answer}");
        assert_eq!(answer.contains("directory.host"), status == "400", "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_with_bare_line_ends_is_refused() {
    let shelf = Shelf::one(open()).await;
    let (address, _stop, _serving) = start(shelf.router.clone()).await;
    for head in ["GET /health HTTP/1.1\nhost: x\n\n", "GET /health HTTP/1.1\r\nhost: x\nx: y\r\n\r\n"] {
        let answer = exchange(address, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_served_and_ended() {
    let shelf = Shelf::one(open()).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let slow = Router::new().route(
        "/slow",
        get(|| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            "done"
        }),
    );
    let (address, stop, serving) = start(shelf.router.clone().merge(slow)).await;
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(1));
    let answer = exchange(address, request.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("content-length: ") && answer.contains("Weather"),
        "{answer}"
    );
    // Too much head, too many headers.
    let long = format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(70_000));
    let answer = exchange(address, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = format!("GET /health HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(100));
    let answer = exchange(address, many.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    // A body that is too large is not read to its end.
    let large = format!(
        "POST /api/v2/tools/usage HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\nconnection: close\r\n\r\n{}",
        "x".repeat(100_000)
    );
    let answer = exchange(address, large.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    // What runs when it is time to stop ends; nothing new begins.
    let running = tokio::spawn(async move { exchange(address, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.send(()).expect("listening");
    serving.await.expect("ended");
    assert!(running.await.expect("an answer").ends_with("done"));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_mounted_answers_and_the_feed_is_followed() {
    let shelf = Shelf::one(open()).await;
    shelf.put(&Stock::good(1, "Weather")).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let directory = shelf.directory.clone();
    let running = tokio::spawn(async move {
        directory
            .run(async {
                let _ = stopped.await;
            })
            .await
    });
    let before = shelf.get("/api/v2/tools").await.header("etag").to_owned();
    // Written by another process: nobody tells this one.
    let mut transaction = shelf.index.database().begin().await.expect("a transaction");
    transaction.execute("UPDATE index_tool SET listed = FALSE", &[]).await.expect("changed");
    let change = [(shelf.key(1), toolcrib_index::feed::Kinds::VERIFICATION)];
    toolcrib_index::feed::record(&mut transaction, &change, shelf.now()).await.expect("recorded");
    transaction.commit().await.expect("committed");
    let begun = tokio::time::Instant::now();
    while shelf.get("/api/v2/tools").await.header("etag") == before {
        toolcrib_testkit::assert_not_hung(begun.into_std(), "seeing the change");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.send(()).expect("running");
    running.await.expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_mounted_at_mcp_is_reached() {
    let shelf = Shelf::one(open()).await;
    let search = Search::open(shelf.index.clone(), SearchOptions::default()).await.expect("search");
    let queue = Queue::new(shelf.index.clone());
    let mcp = Router::new().route("/", post(|| async { "mcp" })).route("/more", get(|| async { "more" }));
    let builder = Directory::builder(shelf.index.clone(), search, queue, Chains::default(), shelf.clock.clone());
    let router = builder.mount_mcp(mcp).build().await.expect("a directory").router();
    let reply = Ask::post("/mcp", "{}").of(&router).await;
    assert_eq!((reply.status, reply.text().as_str()), (StatusCode::OK, "mcp"));
    assert!(
        !reply.header("x-request-id").is_empty() && !reply.header("ratelimit").is_empty(),
        "it is counted like everything else"
    );
    assert_eq!(Ask::get("/mcp/more").of(&router).await.text(), "more");
    assert_eq!(shelf.get("/mcp").await.status, StatusCode::NOT_FOUND, "nothing is there unless it is mounted");
}
