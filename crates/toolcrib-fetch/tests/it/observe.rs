//! Streaming access to bodies.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::fetch as f;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, KeepAlive, Observer, Target};
use toolcrib_judge::evidence::Response;

use toolcrib_testkit::servers::{NOW, Script, Server, Step, World, quick};

/// Records the bytes that it gets, and stops after this many.
#[derive(Debug)]
struct BodyRecorder {
    enough: usize,
    pieces: Mutex<Vec<(u16, Vec<u8>)>>,
}

impl BodyRecorder {
    fn until(enough: usize) -> Self {
        Self { enough, pieces: Mutex::default() }
    }

    fn text(&self) -> String {
        self.pieces.lock().expect("unpoisoned").iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
    }
}

impl Observer for BodyRecorder {
    fn observe(&self, head: &Response, bytes: &[u8]) -> ControlFlow<()> {
        assert!(head.body.as_bytes().is_empty() && !bytes.is_empty());
        let mut pieces = self.pieces.lock().expect("unpoisoned");
        pieces.push((head.status, bytes.to_vec()));
        let count: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        if count >= self.enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn pieces_are_seen_before_the_end_and_an_observer_may_end_the_reading() {
    let pause = Duration::from_millis(50);
    let steps = |framing: &str, first: &str, second: &str| {
        vec![Step::ReadRequest, Step::send(framing), Step::send(first), Step::Sleep(pause), Step::send(second), Step::Hold]
    };
    for script in [
        steps(CHUNKED, "3\r\none\r\n", "3\r\ntwo\r\n"),
        steps("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "one", "two"),
        steps("HTTP/1.1 200 OK\r\n\r\n", "one", "two"),
    ] {
        let server = Server::start(Script::plain(script)).await;
        let url = ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}/", server.address.port())).unwrap();
        let door = Configured::builder(FixedClock(NOW)).keep_alive(KeepAlive::default()).build().unwrap();
        // The server never ends its response, which is not a failure.
        let seen = BodyRecorder::until(6);
        let exchange = door.post_observed(&url, &Headers::new(), b"{}", quick(), &seen).await;
        assert_eq!(exchange.complete().map(|response| response.body.as_bytes()), Some(&b"onetwo"[..]), "{exchange:?}");
        assert_eq!(seen.text(), "onetwo");
        assert!(seen.pieces.lock().unwrap().len() >= 2, "the first piece came before the second");
        // Without a stop the usual limits apply, and the connection of the first request was not reused.
        let seen = BodyRecorder::until(usize::MAX);
        let exchange = door.post_observed(&url, &Headers::new(), b"{}", quick(), &seen).await;
        assert_eq!(exchange.failure.map(|failure| failure.code), Some(f::READ_TIMEOUT));
        assert_eq!((seen.text().as_str(), server.accepted()), ("onetwo", 2));
    }
}

#[tokio::test]
async fn an_endless_body_ends_at_its_limit() {
    let world = World::new();
    let piece = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let steps = vec![Step::ReadRequest, Step::send(CHUNKED), Step::Endless(piece.into_bytes())];
    let script = Script::tls(&world.authority.leaf(&["a.example"]), steps);
    let _server = world.serve("a.example", script).await;
    let url = HttpsUrl::parse("https://a.example/mcp").unwrap();
    let mut limits = quick();
    limits.body = 100_000;
    let seen = BodyRecorder::until(usize::MAX);
    let target = Target::endpoint(&url, None).limits(limits);
    let exchange = world.fetch().post_observed(&target, &Headers::new(), b"{}", &seen).await;
    assert_eq!(exchange.failure.map(|failure| failure.code), Some(f::BODY_TOO_LARGE));
    assert!(seen.text().len() <= 100_000);
}
