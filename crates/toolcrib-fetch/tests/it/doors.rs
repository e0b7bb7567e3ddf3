//! What the client for untrusted servers sends, and what it records.

use std::time::Duration;

use toolcrib_core::codes::fetch as f;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Concurrency, Headers, Target};
use toolcrib_judge::evidence::{Exchange, Method};

use toolcrib_testkit::servers::{NOW, Script, Step, World, answer, ok, quick};

const HOST: &str = "tools.example.com";

fn url() -> HttpsUrl {
    HttpsUrl::parse(&format!("https://{HOST}/a.json")).expect("a URL")
}

// req: VERIFY-002
#[tokio::test]
async fn an_honest_server() {
    let world = World::new();
    let leaf = world.authority.leaf(&[HOST]);
    let page = |request: &toolcrib_testkit::servers::Request| ok(request.path());
    let server = world.serve(HOST, Script::tls(&leaf, vec![Step::ReadRequest, Step::answer(page)])).await;
    let url = HttpsUrl::parse("https://Tools.example.com:443/.well-known/ai-tool/a.json?b=c#d").unwrap();
    let exchange = world.fetch().get(&Target::file(&url, Some(1))).await;
    assert_eq!(exchange.failure, None);
    let response = exchange.complete().unwrap();
    assert_eq!((response.status, response.body.as_bytes()), (200, &b"/.well-known/ai-tool/a.json?b=c"[..]));
    assert_eq!(response.header("content-type").collect::<Vec<_>>(), ["application/json"]);

    // The complete request.
    let request = &server.requests()[0];
    let mut lines: Vec<_> = request.head.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "Accept-Encoding: identity",
            "Accept: application/json, */*;q=0.5",
            "Connection: close",
            "GET /.well-known/ai-tool/a.json?b=c HTTP/1.1",
            "Host: tools.example.com",
            concat!("User-Agent: toolcrib/", env!("CARGO_PKG_VERSION")),
        ]
    );

    // The recorded exchange.
    assert_eq!((exchange.method, exchange.at, exchange.dev), (Method::Get, NOW, false));
    assert_eq!(exchange.url, "https://tools.example.com/.well-known/ai-tool/a.json?b=c#d");
    assert_eq!(exchange.addresses, ["5.5.5.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(exchange.connected, Some("5.5.5.1:443".parse().unwrap()));
    let tls = exchange.tls.as_ref().unwrap();
    assert_eq!((tls.version.as_str(), tls.sni.as_deref(), tls.chain_length), ("TLSv1.3", Some(HOST), 2));
    assert_eq!(tls.certificate.as_bytes(), leaf.chain[0].as_ref());
    assert!(tls.cipher.starts_with("TLS13_"), "{}", tls.cipher);
    let timing = exchange.timing;
    let steps = [timing.resolved, timing.connected, timing.secured, timing.answered, Some(timing.total)];
    assert!(steps.iter().all(Option::is_some) && steps.is_sorted(), "{timing:?}");
}

#[tokio::test]
async fn a_port_of_its_own_and_no_path() {
    let world = World::new();
    let server = world.honest(HOST, |_| ok("{}")).await;
    let url = HttpsUrl::parse(&format!("https://{HOST}:8443")).unwrap();
    let exchange = world.fetch().get(&Target::file(&url, None)).await;
    assert_eq!(exchange.failure, None);
    assert_eq!(exchange.connected.unwrap().port(), 8443);
    assert_eq!(server.requests()[0].path(), "/");
    assert_eq!(server.requests()[0].header("host"), Some("tools.example.com:8443"));
}

// req: SSRF-004
#[tokio::test]
async fn an_endpoint_answers_with_any_status() {
    let world = World::new();
    for (status, location) in
        [("402 Payment Required", ""), ("307 Elsewhere", "Location: https://evil.example/\r\n"), ("500 Oops", "")]
    {
        let server = world.honest(HOST, move |request| answer(status, location, &request.body)).await;
        let headers = Headers::new().with("Content-Type", "application/json").unwrap().with("X-Payment", "s3cret").unwrap();
        let body = vec![b'x'; 200_000];
        let exchange = world.fetch().post(&Target::endpoint(&url(), Some(1)), &headers, &body).await;
        assert_eq!(exchange.failure, None, "{status}");
        let response = exchange.complete().unwrap();
        assert!(status.starts_with(&response.status.to_string()));
        assert_eq!(response.body.as_bytes(), body);
        let request = &server.requests()[0];
        assert_eq!((request.method(), request.header("x-payment")), ("POST", Some("s3cret")));
        assert_eq!(request.header("content-length"), Some("200000"));
        assert!(!format!("{exchange:?}").contains("s3cret"));
        assert_eq!(world.recorder.lookups().iter().filter(|name| *name != HOST).count(), 0, "no redirect is followed");
    }
}

#[tokio::test]
async fn an_endpoint_that_answers_before_it_has_read_everything() {
    let world = World::new();
    let leaf = world.authority.leaf(&[HOST]);
    let steps = vec![Step::ReadSome, Step::send(answer("413 Content Too Large", "", b"no")), Step::Hold];
    let _server = world.serve(HOST, Script::tls(&leaf, steps)).await;
    let exchange = world.fetch().post(&Target::endpoint(&url(), None), &Headers::new(), &[b'x'; 100_000]).await;
    assert_eq!(exchange.complete().map(|response| response.status), Some(413), "{:?}", exchange.failure);
}

// req: VERIFY-009
#[tokio::test]
async fn a_redirect_is_shown_and_not_followed() {
    let world = World::new();
    let far = "https://evil.example/\u{1b}[2J".to_owned() + &"x".repeat(500);
    let server = world
        .honest(HOST, move |_| answer("301 Moved", &format!("Location: {}\r\n", far.replace('\u{1b}', "\u{202e}")), b""))
        .await;
    let exchange = world.fetch().get(&Target::file(&url(), None)).await;
    let failure = exchange.failure.clone().unwrap();
    assert_eq!(failure.code, f::REDIRECT);
    assert!(
        failure.detail.contains("https://evil.example/\\u{202e}") && failure.detail.chars().count() < 260,
        "{}",
        failure.detail
    );
    assert_eq!(exchange.response.as_ref().unwrap().status, 301);
    assert_eq!((server.requests().len(), world.recorder.lookups().len()), (1, 1));
}

#[tokio::test]
async fn a_failed_exchange_survives_a_file() {
    let world = World::new();
    let _server = world.honest(HOST, |_| answer("404 Not Found", "X-A: \u{e9}\r\n", b"page")).await;
    let exchange = world.fetch().get(&Target::file(&url(), None)).await;
    let file = serde_json::to_string(&exchange).unwrap();
    assert_eq!(serde_json::from_str::<Exchange>(&file).unwrap(), exchange, "{file}");
}

#[tokio::test]
async fn a_literal_address_has_no_name_to_send() {
    let world = World::new();
    let leaf = world.authority.leaf(&["5.5.5.5"]);
    let server =
        toolcrib_testkit::servers::Server::start(Script::tls(&leaf, vec![Step::ReadRequest, Step::send(ok("{}"))])).await;
    world.recorder.route("5.5.5.5", server.address);
    let url = HttpsUrl::parse("https://5.5.5.5/a").unwrap();
    let exchange = world.fetch().get(&Target::file(&url, None)).await;
    assert_eq!(exchange.failure, None);
    assert_eq!(exchange.tls.unwrap().sni, None);
    assert!(world.recorder.lookups().is_empty());
    assert_eq!(server.requests()[0].header("host"), Some("5.5.5.5"));
}

#[tokio::test]
async fn too_many_at_once_wait_and_then_give_up() {
    let world = World::new();
    let leaf = world.authority.leaf(&[HOST]);
    let steps = vec![Step::ReadRequest, Step::Sleep(Duration::from_millis(150)), Step::send(ok("{}"))];
    let server = world.serve(HOST, Script::tls(&leaf, steps)).await;
    let fetch = world.builder().concurrency(Concurrency { total: 8, host: 1 }).build().unwrap();
    let mut limits = quick();
    limits.wait = Duration::from_millis(400);
    let url = url();
    let target = Target::file(&url, None).limits(limits);
    let (a, b, c, d, e, f, g) = tokio::join!(
        fetch.get(&target),
        fetch.get(&target),
        fetch.get(&target),
        fetch.get(&target),
        fetch.get(&target),
        fetch.get(&target),
        fetch.get(&target)
    );
    let all = [a, b, c, d, e, f, g];
    let busy = all.iter().filter(|exchange| exchange.failure.as_ref().is_some_and(|failure| failure.code == f::BUSY)).count();
    let good = all.iter().filter(|exchange| exchange.complete().is_some()).count();
    assert_eq!(busy + good, 7, "{all:?}");
    assert!((1..=4).contains(&good) && busy >= 3, "{good} good, {busy} busy");
    assert_eq!(server.accepted(), good, "who gives up waiting has sent nothing");
    // The permits are released.
    assert!(fetch.get(&target).await.complete().is_some());
}

#[tokio::test]
async fn a_dropped_request_gives_its_place_back() {
    let world = World::new();
    let leaf = world.authority.leaf(&[HOST]);
    let _server = world.serve(HOST, Script::tls(&leaf, vec![Step::ReadRequest, Step::Hold])).await;
    let fetch = world.builder().concurrency(Concurrency { total: 1, host: 1 }).build().unwrap();
    let url = url();
    let target = Target::file(&url, None).limits(quick());
    assert!(tokio::time::timeout(Duration::from_millis(100), fetch.get(&target)).await.is_err());
    world.recorder.fail("5.5.5.1", std::io::ErrorKind::ConnectionRefused);
    assert_eq!(fetch.get(&target).await.failure.unwrap().code, f::CONNECT_REFUSED, "it did not have to wait");
}
