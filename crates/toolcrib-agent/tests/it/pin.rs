//! Publishing to services that are honest, busy, broken, or lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use toolcrib_agent::ipfs::pin::{Kubo, PinError, Pinned, PinningService, PollLimits};
use toolcrib_agent::ipfs::{HashFunction, Layout, Packed, pack};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::{agent as a, fetch as f};
use toolcrib_fetch::{Configured, ConfiguredUrl};

use toolcrib_testkit::servers::{NOW, Request, Script, Server, Step, answer, ok};

const TOKEN: &str = "s3cret-token";

fn packed() -> Packed {
    pack(b"a manifest", Layout::NodeOverLeaf, HashFunction::Sha2_256).expect("it fits")
}

fn other() -> String {
    pack(b"another file", Layout::RawLeaves, HashFunction::Sha2_256).expect("it fits").root().to_string()
}

fn client() -> Configured {
    Configured::builder(FixedClock(NOW)).build().expect("a client")
}

fn url(server: &Server) -> ConfiguredUrl {
    ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}/base", server.address.port())).expect("a URL")
}

async fn scripted(steps: Vec<Step>) -> Server {
    Server::start(Script::plain([vec![Step::ReadRequest], steps].concat())).await
}

async fn serving(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Server {
    scripted(vec![Step::answer(reply)]).await
}

fn kubo(server: &Server) -> Kubo {
    Kubo::new(client(), url(server), Some(TOKEN)).expect("a token").time_limit(Duration::from_millis(600))
}

/// Returns the error, and checks that it does not contain the token.
#[track_caller]
fn error(result: Result<Pinned, PinError>) -> PinError {
    let error = result.expect_err("an error");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error
}

#[tokio::test]
async fn kubo_imports_an_archive() {
    let packed = packed();
    let root = packed.root().to_string();
    let server = serving(move |_| ok(format!("{{\"Root\":{{\"Cid\":{{\"/\":\"{root}\"}},\"PinErrorMsg\":\"\"}}}}\n"))).await;
    let kubo = kubo(&server);
    let pinned = kubo.import(&packed).await.unwrap();
    assert_eq!((&pinned.cid, pinned.request), (packed.root(), None));
    let request = &server.requests()[0];
    assert_eq!((request.method(), request.path()), ("POST", "/base/api/v0/dag/import?pin-roots=true&stats=false"));
    assert_eq!(request.header("authorization"), Some("Bearer s3cret-token"));
    // The body is a form with the complete archive.
    let boundary = request.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let text = String::from_utf8_lossy(&request.body);
    assert!(text.starts_with(&format!("--{boundary}\r\n")) && text.ends_with(&format!("\r\n--{boundary}--\r\n")));
    let car = packed.to_car();
    assert!(request.body.windows(car.len()).any(|window| window == car));
    assert!(!format!("{kubo:?}").contains("s3cret"));
}

#[tokio::test]
async fn kubo_takes_blocks() {
    let packed = packed();
    let blocks = packed.blocks().to_vec();
    let root = packed.root().to_string();
    let server = serving(move |request| {
        if request.path().contains("/pin/add?") {
            return ok(format!("{{\"Pins\":[\"{root}\"]}}"));
        }
        let block = blocks.iter().find(|block| request.body.windows(block.bytes.len()).any(|window| window == block.bytes));
        ok(format!("{{\"Key\":\"{}\",\"Size\":1}}", block.unwrap().cid))
    })
    .await;
    kubo(&server).put(&packed).await.unwrap();
    let paths: Vec<String> = server.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "/base/api/v0/block/put?cid-codec=dag-pb&mhtype=sha2-256&pin=false".to_owned(),
            "/base/api/v0/block/put?cid-codec=raw&mhtype=sha2-256&pin=false".to_owned(),
            format!("/base/api/v0/pin/add?arg={}&recursive=true", packed.root()),
        ]
    );
}

#[tokio::test]
async fn kubo_that_lies_or_fails() {
    let packed = packed();
    let root = packed.root().clone();
    let line = |cid: &str, message: &str| format!("{{\"Root\":{{\"Cid\":{{\"/\":\"{cid}\"}},\"PinErrorMsg\":\"{message}\"}}}}\n");
    for (body, code) in [
        (line(&other(), ""), a::PUBLISH_OTHER_CID),
        (line(&root.to_string(), "no space left"), a::PUBLISH_FAILED),
        (line(&root.to_string(), "").repeat(2), a::PUBLISH_ANSWER),
        (line("not a CID", ""), a::PUBLISH_ANSWER),
        (String::new(), a::PUBLISH_ANSWER),
        ("{}".to_owned(), a::PUBLISH_ANSWER),
        (format!("<html>{TOKEN}</html>"), a::PUBLISH_ANSWER),
        ("[".repeat(10_000), a::PUBLISH_ANSWER),
    ] {
        let server = serving(move |_| ok(&body)).await;
        assert_eq!(error(kubo(&server).import(&packed).await).code(), code);
        assert_ne!(error(kubo(&server).put(&packed).await).code(), a::PUBLISH_FAILED);
    }
    for (steps, code) in [
        (vec![Step::send(answer("401 Unauthorized", "", TOKEN.as_bytes()))], a::PUBLISH_DENIED),
        (vec![Step::send(answer("403 Forbidden", "", b""))], a::PUBLISH_DENIED),
        (vec![Step::send(answer("500 Oops", "", TOKEN.as_bytes()))], a::PUBLISH_ANSWER),
        (vec![Step::send(answer("302 Found", "Location: http://127.0.0.1:1/\r\n", b""))], a::PUBLISH_ANSWER),
        (vec![Step::Hold], f::TOTAL_TIMEOUT),
        (vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Endless(vec![b' '; 65536])], f::BODY_TOO_LARGE),
    ] {
        let server = scripted(steps).await;
        assert_eq!(error(kubo(&server).import(&packed).await).code(), code);
    }
    // Version 0 of the same CID is the same CID.
    let node = pack(br#"{"agt":"1.0","domain":"exampleagent.agt"}"#, Layout::FileNodes, HashFunction::Sha2_256).unwrap();
    let body = line("QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ", "");
    let server = serving(move |_| ok(&body)).await;
    assert!(kubo(&server).import(&node).await.is_ok());
}

fn quick() -> PollLimits {
    PollLimits { first: Duration::from_millis(20), longest: Duration::from_millis(80), total: Duration::from_secs(2) }
}

fn service(server: &Server, limits: PollLimits) -> PinningService {
    PinningService::new(client(), url(server), TOKEN, limits).expect("a token")
}

fn status(state: &str, cid: &str, request: &str) -> String {
    format!(
        "{{\"requestid\":\"{request}\",\"status\":\"{state}\",\"created\":\"2026-01-01T00:00:00Z\",\"pin\":{{\"cid\":\"{cid}\"}},\"delegates\":[]}}"
    )
}

/// Responds with these statuses in sequence; the last one repeats.
async fn in_turn(states: Vec<Vec<u8>>) -> Server {
    let at = Arc::new(AtomicUsize::new(0));
    serving(move |_| states[at.fetch_add(1, Ordering::Relaxed).min(states.len() - 1)].clone()).await
}

#[tokio::test]
async fn a_service_pins_at_once_or_later() {
    let packed = packed();
    let root = packed.root().to_string();
    let accepted = |state: &str| answer("202 Accepted", "", status(state, &root, "id/1?x").as_bytes());
    let now = |state: &str| ok(status(state, &root, "id/1?x"));
    for states in [
        vec![accepted("pinned")],
        vec![accepted("queued"), now("pinning"), now("pinned")],
        // Busy in between.
        vec![accepted("queued"), answer("500 Oops", "", b""), answer("429 Slow Down", "", b""), now("pinned")],
    ] {
        let count = states.len();
        let server = in_turn(states).await;
        let service = service(&server, quick());
        let pinned = service.pin(packed.root(), "exampleagent.agt").await.unwrap();
        assert_eq!((&pinned.cid, pinned.request.as_deref()), (packed.root(), Some("id/1?x")));
        let requests = server.requests();
        assert_eq!(requests.len(), count);
        assert_eq!((requests[0].method(), requests[0].path()), ("POST", "/base/pins"));
        let body: serde_json::Value = serde_json::from_slice(&requests[0].body).unwrap();
        assert_eq!(body, serde_json::json!({ "cid": root, "name": "exampleagent.agt" }));
        for request in &requests {
            assert_eq!(request.header("authorization"), Some("Bearer s3cret-token"));
        }
        for request in &requests[1..] {
            assert_eq!((request.method(), request.path()), ("GET", "/base/pins/id%2F1%3Fx"));
        }
        assert!(!format!("{service:?} {pinned:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn a_service_that_lies_or_fails() {
    let packed = packed();
    let root = packed.root().to_string();
    let accepted = |state: &str| answer("202 Accepted", "", status(state, &root, "1").as_bytes());
    for (states, code) in [
        (vec![accepted("failed")], a::PUBLISH_FAILED),
        (vec![accepted("queued"), ok(status("failed", &root, "1"))], a::PUBLISH_FAILED),
        (vec![ok(status("pinned", &other(), "1"))], a::PUBLISH_OTHER_CID),
        (vec![accepted("queued"), ok(status("pinned", &other(), "1"))], a::PUBLISH_OTHER_CID),
        (vec![accepted("queued"), ok(status("pinned", &root, "2"))], a::PUBLISH_ANSWER),
        (vec![accepted("done")], a::PUBLISH_ANSWER),
        (vec![ok(status("queued", &root, ""))], a::PUBLISH_ANSWER),
        (vec![ok(status("queued", &root, ".."))], a::PUBLISH_ANSWER),
        (vec![ok(status("queued", &root, &"x".repeat(257)))], a::PUBLISH_ANSWER),
        (vec![ok(format!("{{\"error\":\"{TOKEN}\"}}"))], a::PUBLISH_ANSWER),
        (vec![answer("401 Unauthorized", "", TOKEN.as_bytes())], a::PUBLISH_DENIED),
        (vec![accepted("queued"), answer("401 Unauthorized", "", b"")], a::PUBLISH_DENIED),
        (vec![accepted("queued"), answer("404 Not Found", "", b"")], a::PUBLISH_ANSWER),
        (vec![answer("500 Oops", "", b"")], a::PUBLISH_ANSWER),
    ] {
        let server = in_turn(states).await;
        assert_eq!(error(service(&server, quick()).pin(packed.root(), "name").await).code(), code);
    }
    let limits = PollLimits { total: Duration::from_millis(500), ..quick() };
    // A pin that never completes.
    let server = in_turn(vec![accepted("queued"), ok(status("pinning", &root, "1"))]).await;
    assert_eq!(error(service(&server, limits).pin(packed.root(), "name").await).code(), a::PUBLISH_PENDING);
    assert!(server.accepted() < 20, "the pauses grow: {}", server.accepted());
    // A server that never responds.
    let server = scripted(vec![Step::Hold]).await;
    assert_eq!(error(service(&server, limits).pin(packed.root(), "name").await).code(), f::TOTAL_TIMEOUT);
    // Tokens that cannot be sent are not printed.
    let server = scripted(vec![]).await;
    let bad = PinningService::new(client(), url(&server), "s3cret\r\nx: y", quick()).unwrap_err();
    assert!(!format!("{bad} {bad:?}").contains("s3cret"));
    assert_eq!(bad.code(), f::HEADER_REFUSED);
}
