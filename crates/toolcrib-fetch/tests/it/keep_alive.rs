//! Keep-alive connections, and servers that abuse them.

use std::time::Duration;

use tokio::time::sleep;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::fetch as f;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, KeepAlive};
use toolcrib_judge::evidence::Exchange;

use toolcrib_testkit::servers::{Authority, NOW, Recorder, Script, Server, Step, answer, ok, quick};

fn client(settings: KeepAlive) -> Configured {
    Configured::builder(FixedClock(NOW)).keep_alive(settings).build().expect("sound settings")
}

fn url(server: &Server) -> ConfiguredUrl {
    ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}/x", server.address.port())).expect("a URL")
}

async fn get(client: &Configured, url: &ConfiguredUrl) -> Exchange {
    client.get(url, &Headers::new(), quick()).await
}

async fn post(client: &Configured, url: &ConfiguredUrl) -> Exchange {
    client.post(url, &Headers::new(), b"{}", quick()).await
}

#[track_caller]
fn body(exchange: &Exchange) -> &[u8] {
    exchange.complete().unwrap_or_else(|| panic!("{exchange:?}")).body.as_bytes()
}

/// Responds to every request on a connection with its path.
fn patient() -> Vec<Step> {
    vec![[Step::ReadRequest, Step::answer(|request| ok(request.path()))]; 8].concat()
}

/// Waits until the other side's bytes or close have arrived.
async fn settle() {
    sleep(Duration::from_millis(80)).await;
}

#[tokio::test]
async fn requests_share_a_connection() {
    let server = Server::start(Script::plain(patient())).await;
    let (client, url) = (client(KeepAlive::default()), url(&server));
    for _ in 0..3 {
        assert_eq!(body(&get(&client, &url).await), b"/x");
        assert_eq!(body(&post(&client, &url).await), b"/x");
    }
    assert_eq!((server.accepted(), server.requests().len()), (1, 6));
    assert!(server.requests().iter().all(|request| request.header("connection").is_none()));
    let again = get(&client, &url).await;
    assert_eq!(again.connected, Some(server.address), "evidence says where the request went: {again:?}");
    // A body that does not fit into one write with the head.
    let large = client.post(&url, &Headers::new(), &vec![b'x'; 100_000], quick()).await;
    assert_eq!(body(&large), b"/x");
    assert_eq!((server.accepted(), server.requests()[7].body.len()), (1, 100_000));
}

#[tokio::test]
async fn without_the_setting_each_request_has_its_own() {
    let server = Server::start(Script::plain(patient())).await;
    let (client, url) = (Configured::builder(FixedClock(NOW)).build().unwrap(), url(&server));
    for _ in 0..2 {
        assert_eq!(body(&get(&client, &url).await), b"/x");
    }
    assert_eq!(server.accepted(), 2);
    assert!(server.requests().iter().all(|request| request.header("connection") == Some("close")));
}

#[tokio::test]
async fn one_handshake_for_many_requests() {
    let (authority, recorder) = (Authority::new("authority of the operator"), Recorder::default());
    let server = Server::start(Script::tls(&authority.leaf(&["pay.internal"]), patient())).await;
    recorder.host("pay.internal", &["10.0.0.5"]);
    recorder.route("10.0.0.5", server.address);
    let builder = Configured::builder(FixedClock(NOW)).resolver(recorder.clone()).connector(recorder.clone());
    let client = builder.authorities(vec![authority.der()]).keep_alive(KeepAlive::default()).build().unwrap();
    let url = ConfiguredUrl::from_setting("https://pay.internal/x").unwrap();
    let first = get(&client, &url).await;
    let second = get(&client, &url).await;
    assert_eq!((body(&first), body(&second)), (&b"/x"[..], &b"/x"[..]));
    assert_eq!((first.tls.is_some(), &first.tls, first.connected), (true, &second.tls, second.connected));
    assert_eq!((server.accepted(), recorder.dialled().len(), recorder.lookups().len()), (1, 1, 1));
}

// A connection belongs to one origin: another name, port or scheme never uses it, even with the same address.
#[tokio::test]
async fn a_connection_belongs_to_one_origin() {
    let (authority, recorder) = (Authority::new("authority of the operator"), Recorder::default());
    let names = ["a.internal", "b.internal"];
    let server = Server::start(Script::tls(&authority.leaf(&names), patient())).await;
    for name in names {
        recorder.host(name, &["10.0.0.5"]);
    }
    recorder.route("10.0.0.5", server.address);
    let builder = Configured::builder(FixedClock(NOW)).resolver(recorder.clone()).connector(recorder.clone());
    let client = builder.authorities(vec![authority.der()]).keep_alive(KeepAlive::default()).build().unwrap();
    for (at, url) in ["https://a.internal/x", "https://b.internal/x", "https://a.internal:8443/x"].iter().enumerate() {
        let url = ConfiguredUrl::from_setting(url).unwrap();
        for _ in 0..2 {
            assert_eq!(body(&get(&client, &url).await), b"/x");
        }
        assert_eq!(server.accepted(), at + 1);
    }
}

#[tokio::test]
async fn a_closed_connection_is_noticed_before_anything_is_sent() {
    // Closes properly, or with a reset, after each response that promised to keep the connection open.
    for end in [None, Some(Step::Reset)] {
        let steps = [vec![Step::ReadRequest, Step::send(ok("{}"))], end.into_iter().collect()].concat();
        let server = Server::start(Script::plain(steps)).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        for request in 1..=3 {
            assert_eq!(body(&post(&client, &url).await), b"{}");
            assert_eq!((server.accepted(), server.requests().len()), (request, request));
            settle().await;
        }
    }
}

#[tokio::test]
async fn a_request_that_meets_the_end_is_repeated_only_if_that_is_safe() {
    // The second request on a connection is read, but gets no response.
    for end in [Step::Cut, Step::Reset] {
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::send(ok("{}")), Step::ReadRequest, end])).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        assert_eq!(body(&post(&client, &url).await), b"{}");
        let lost = post(&client, &url).await;
        assert_eq!(lost.failure.as_ref().map(|failure| failure.code), Some(f::CLOSED_EARLY), "{lost:?}");
        assert!(lost.connected.is_some(), "it must not look as if nothing was sent");
        assert_eq!((server.accepted(), server.requests().len()), (1, 2), "a request that may have been acted on came twice");
        // A GET, or a request that its caller declares repeatable, is sent once more.
        assert_eq!(body(&get(&client, &url).await), b"{}");
        assert_eq!(body(&get(&client, &url).await), b"{}");
        assert_eq!((server.accepted(), server.requests().len()), (3, 5));
        let repeated = client.post_repeatable(&url, &Headers::new(), b"{}", quick()).await;
        assert_eq!(body(&repeated), b"{}");
        assert_eq!((server.accepted(), server.requests().len()), (4, 7));
    }
}

#[tokio::test]
async fn half_an_answer_is_never_repeated() {
    for half in ["H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let steps = vec![Step::ReadRequest, Step::send(ok("{}")), Step::ReadRequest, Step::send(half)];
        let server = Server::start(Script::plain(steps)).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        assert_eq!(body(&get(&client, &url).await), b"{}");
        assert!(get(&client, &url).await.failure.is_some(), "{half}");
        assert_eq!((server.accepted(), server.requests().len()), (1, 2), "{half}");
    }
}

// A server that sends a response in advance could forge the response to the next caller's request.
#[tokio::test]
async fn bytes_that_nobody_asked_for_end_a_connection() {
    let evil = ok(r#"{"isValid":true}"#);
    for bytes in [evil.clone(), b"x".to_vec()] {
        let steps = vec![Step::ReadRequest, Step::send(ok("{}")), Step::Sleep(Duration::from_millis(20)), Step::Send(bytes)];
        let server = Server::start(Script::plain([steps, vec![Step::Hold]].concat())).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        for request in 1..=3 {
            assert_eq!(body(&get(&client, &url).await), b"{}");
            assert_eq!(server.accepted(), request);
            settle().await;
        }
    }
    // Also over TLS, where the bytes are inside a record.
    let (authority, recorder) = (Authority::new("authority of the operator"), Recorder::default());
    let steps = vec![Step::ReadRequest, Step::send(ok("{}")), Step::Sleep(Duration::from_millis(20)), Step::Send(evil)];
    let script = Script::tls(&authority.leaf(&["pay.internal"]), [steps, vec![Step::Hold]].concat());
    let server = Server::start(script).await;
    recorder.host("pay.internal", &["10.0.0.5"]);
    recorder.route("10.0.0.5", server.address);
    let builder = Configured::builder(FixedClock(NOW)).resolver(recorder.clone()).connector(recorder.clone());
    let client = builder.authorities(vec![authority.der()]).keep_alive(KeepAlive::default()).build().unwrap();
    let url = ConfiguredUrl::from_setting("https://pay.internal/x").unwrap();
    for request in 1..=2 {
        assert_eq!(body(&get(&client, &url).await), b"{}");
        assert_eq!(server.accepted(), request);
        settle().await;
    }
}

#[tokio::test]
async fn answers_that_do_not_end_where_they_say_end_the_connection() {
    let smuggled = [ok("{}"), ok("evil")].concat();
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".to_vec();
    let long = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}".to_vec();
    let double = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_vec();
    for (bytes, code) in [
        (smuggled, f::LENGTH_MISMATCH),
        (short, f::LENGTH_MISMATCH),
        (chunked, f::LENGTH_MISMATCH),
        (long, f::READ_TIMEOUT),
        (double, f::BAD_FRAMING),
    ] {
        let server =
            Server::start(Script::plain(vec![Step::ReadRequest, Step::Send(bytes), Step::ReadRequest, Step::Hold])).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        for request in 1..=2 {
            let failure = get(&client, &url).await.failure;
            assert_eq!(failure.map(|failure| failure.code), Some(code));
            assert_eq!((server.accepted(), server.requests().len()), (request, request), "{code}");
        }
    }
}

#[tokio::test]
async fn answers_that_do_not_promise_to_stay_end_the_connection() {
    for bytes in [
        answer("200 OK", "Connection: close\r\n", b"{}"),
        answer("200 OK", "Connection: Upgrade\r\nUpgrade: h2c\r\n", b"{}"),
        answer("200 OK", "Keep-Alive: timeout=1\r\n", b"{}"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}".to_vec(),
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n".to_vec(),
    ] {
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::Send(bytes.clone()), Step::Hold])).await;
        let (client, url) = (client(KeepAlive::default()), url(&server));
        for request in 1..=2 {
            assert!(get(&client, &url).await.complete().is_some());
            assert_eq!(server.accepted(), request, "{}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[tokio::test]
async fn connections_do_not_stay_for_ever() {
    let mut settings = KeepAlive::default();
    settings.idle = Duration::from_millis(200);
    let server = Server::start(Script::plain(patient())).await;
    let (idle, url) = (client(settings), url(&server));
    get(&idle, &url).await;
    get(&idle, &url).await;
    assert_eq!(server.accepted(), 1);
    sleep(Duration::from_millis(500)).await;
    assert!(format!("{idle:?}").contains("idle: 0"), "nobody asks, and it is closed all the same: {idle:?}");
    get(&idle, &url).await;
    assert_eq!(server.accepted(), 2);
    // Even if it is busy.
    let mut settings = KeepAlive::default();
    settings.lifetime = Duration::from_millis(200);
    let old = client(settings);
    get(&old, &url).await;
    sleep(Duration::from_millis(250)).await;
    get(&old, &url).await;
    assert_eq!(server.accepted(), 4);
}

#[tokio::test]
async fn a_request_that_is_not_repeated_takes_a_connection_that_was_just_busy() {
    let server = Server::start(Script::plain(patient())).await;
    let (client, url) = (client(KeepAlive::default()), url(&server));
    post(&client, &url).await;
    post(&client, &url).await;
    assert_eq!(server.accepted(), 1);
    sleep(Duration::from_millis(1_100)).await;
    // The server may be about to close it: a GET may find out, a POST may not.
    post(&client, &url).await;
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn connections_are_counted() {
    let mut settings = KeepAlive::default();
    (settings.per_host, settings.total) = (2, 3);
    let (first, second) = (Server::start(Script::plain(patient())).await, Server::start(Script::plain(patient())).await);
    let client = client(settings);
    for (server, idle) in [(&first, "idle: 2"), (&second, "idle: 3")] {
        let url = url(server);
        let requests: Vec<_> = (0..5)
            .map(|_| {
                let (client, url) = (client.clone(), url.clone());
                tokio::spawn(async move { body(&get(&client, &url).await).to_vec() })
            })
            .collect();
        for request in requests {
            assert_eq!(request.await.unwrap(), b"/x");
        }
        assert!(format!("{client:?}").contains(idle), "{client:?}");
    }
}

#[tokio::test]
async fn a_burst_leaves_its_connections_to_the_next_one() {
    let server = Server::start(Script::plain(patient())).await;
    let concurrency = Concurrency { total: 48, host: 48 };
    let client = Configured::builder(FixedClock(NOW)).concurrency(concurrency).keep_alive(KeepAlive::matching(concurrency));
    let (client, url) = (client.build().expect("sound settings"), url(&server));
    for _ in 0..3 {
        let requests: Vec<_> = (0..48)
            .map(|_| {
                let (client, url) = (client.clone(), url.clone());
                tokio::spawn(async move { body(&get(&client, &url).await).to_vec() })
            })
            .collect();
        for request in requests {
            assert_eq!(request.await.unwrap(), b"/x");
        }
    }
    // With the default limit of 32 idle connections, each further burst would open 16.
    assert!(server.accepted() <= 48, "{} connections for 3 bursts of 48", server.accepted());
}

#[tokio::test]
async fn a_pool_full_of_older_connections_takes_newer_ones() {
    let server = Server::start(Script::plain(patient())).await;
    let settings = Concurrency { total: 2, host: 2 };
    let client = Configured::builder(FixedClock(NOW)).concurrency(settings).keep_alive(KeepAlive::matching(settings));
    let (client, url) = (client.build().expect("sound settings"), url(&server));
    let burst = tokio::join!(post(&client, &url), post(&client, &url));
    assert_eq!((body(&burst.0), body(&burst.1)), (&b"/x"[..], &b"/x"[..]));
    // Too long for a request that is never repeated, but shorter than the pool's idle limit.
    sleep(Duration::from_millis(1_100)).await;
    for _ in 0..4 {
        assert_eq!(body(&post(&client, &url).await), b"/x");
    }
    assert_eq!(server.accepted(), 3, "one new connection serves all requests after the pause");
}
