//! Gateways with every kind of failure, alone and next to an honest one.

use std::time::Duration;

use tokio::time::Instant;
use toolcrib_agent::evidence::{GatewayOutcome, Retrieval};
use toolcrib_agent::ipfs::{Block, Codec, GatewayLimits, Gateways, HashFunction, Layout, Packed, WalkLimits, pack};
use toolcrib_agent::source::ContentSource as _;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::{Code, agent as a, fetch as f};
use toolcrib_fetch::{Configured, ConfiguredUrl};

use crate::content;
use toolcrib_testkit::servers::{Authority, NOW, Request, Script, Server, Step, answer};

pub(crate) const FILE: &[u8] = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;
pub(crate) const BLOCK: &str = "Content-Type: application/vnd.ipld.raw\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

/// Short timeouts, so that tests end soon.
pub(crate) fn quick() -> GatewayLimits {
    GatewayLimits {
        stagger: Duration::from_millis(50),
        gateway: Duration::from_millis(1500),
        idle: Duration::from_millis(700),
        ..GatewayLimits::default()
    }
}

pub(crate) fn raw() -> Packed {
    pack(FILE, Layout::RawLeaves, HashFunction::Sha2_256).expect("it fits")
}

pub(crate) fn client() -> Configured {
    Configured::builder(FixedClock(NOW)).build().expect("a client")
}

pub(crate) fn url(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.address.port())
}

/// A deadline for retrievals in which time does not matter.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Default time of a retrieval.
pub(crate) const TOTAL: Duration = Duration::from_secs(20);

pub(crate) async fn retrieve(urls: &[String], limits: GatewayLimits, cid: &str) -> Retrieval {
    retrieve_within(TOTAL, urls, limits, cid).await
}

async fn retrieve_within(total: Duration, urls: &[String], limits: GatewayLimits, cid: &str) -> Retrieval {
    let urls = urls.iter().map(|url| ConfiguredUrl::from_setting(url).expect("a URL")).collect();
    let gateways = Gateways::new(client(), urls, limits).expect("gateways");
    gateways.retrieve(&CidText::parse(cid).expect("a CID"), Instant::now() + total).await
}

/// A server that reads a request and continues with `steps`.
pub(crate) async fn scripted(steps: Vec<Step>) -> Server {
    Server::start(Script::plain([vec![Step::ReadRequest], steps].concat())).await
}

pub(crate) async fn serving(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Server {
    scripted(vec![Step::answer(reply)]).await
}

/// A gateway with these blocks and no others.
pub(crate) async fn honest(packed: &Packed) -> Server {
    let blocks: Vec<Block> = packed.blocks().to_vec();
    serving(move |request| {
        let path = request.path().strip_prefix("/ipfs/").and_then(|path| path.strip_suffix("?format=raw")).unwrap_or_default();
        match blocks.iter().find(|block| block.cid.to_string() == path) {
            Some(block) => answer("200 OK", BLOCK, &block.bytes),
            None => answer("404 Not Found", "", b"no such block"),
        }
    })
    .await
}

/// The result of one gateway for the CID of `packed`.
async fn one(packed: &Packed, server: &Server) -> Retrieval {
    retrieve(&[url(server)], quick(), &packed.root().to_string()).await
}

fn outcome(retrieval: &Retrieval) -> &GatewayOutcome {
    assert_eq!(retrieval.attempts.len(), 1);
    &retrieval.attempts[0].outcome
}

#[track_caller]
pub(crate) fn assert_unreachable(outcome: &GatewayOutcome, expected: Code) {
    match outcome {
        GatewayOutcome::Unreachable { code, .. } => assert_eq!(code, expected.id()),
        other => panic!("{other:?} instead of {expected}"),
    }
}

#[track_caller]
fn assert_refused(outcome: &GatewayOutcome, expected: Code) {
    match outcome {
        GatewayOutcome::Refused { code, .. } => assert_eq!(code, expected.id()),
        other => panic!("{other:?} instead of {expected}"),
    }
}

// req: AGT-017
#[tokio::test]
async fn every_layout_is_retrieved() {
    let file: Vec<u8> = (0..60_000_u32).map(|i| (i * 31 + 7) as u8).collect();
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        for hash in [HashFunction::Sha2_256, HashFunction::Sha3_512, HashFunction::Blake3] {
            let packed = pack(&file, layout, hash).unwrap();
            let server = honest(&packed).await;
            let got = one(&packed, &server).await;
            assert_eq!(outcome(&got), &GatewayOutcome::Served, "{layout:?}");
            assert_eq!(content(&got), Some(&file[..]));
            assert_eq!(got.attempts[0].bytes, packed.blocks().iter().map(|block| block.bytes.len() as u64).sum::<u64>());
        }
    }
}

#[tokio::test]
async fn what_a_gateway_is_asked() {
    let packed = raw();
    let server = serving(|_| answer("200 OK", BLOCK, FILE)).await;
    let setting = format!("{}/base?key=s3cret", url(&server));
    // A CID in another base is requested in base32.
    let got = retrieve(&[setting], quick(), &packed.root().to_string().to_uppercase()).await;
    assert_eq!(content(&got), Some(FILE));
    assert_eq!(got.cid, packed.root().to_string().to_uppercase());
    let request = &server.requests()[0];
    assert_eq!(request.path(), format!("/base/ipfs/{}?key=s3cret&format=raw", packed.root()));
    assert_eq!(request.header("accept"), Some("application/vnd.ipld.raw"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!(got.attempts[0].gateway, url(&server));
    assert!(!serde_json::to_string(&got).unwrap().contains("s3cret"));
}

// req: AGT-017, AGT-024
#[tokio::test]
async fn a_file_instead_of_its_block() {
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        for file in [FILE, b""] {
            let packed = pack(file, layout, HashFunction::Sha2_256).unwrap();
            let server = serving(move |_| answer("200 OK", JSON, file)).await;
            let got = one(&packed, &server).await;
            assert_eq!(outcome(&got), &GatewayOutcome::Served, "{layout:?}");
            assert_eq!(content(&got), Some(file));
        }
    }
    // Another file is never accepted. For dag-pb it is unknown whether it is the right one.
    let raw = raw();
    let server = serving(|_| answer("200 OK", JSON, b"{}")).await;
    assert_eq!(outcome(&one(&raw, &server).await), &GatewayOutcome::Tampered { block: raw.root().to_string() });
    let node = pack(FILE, Layout::FileNodes, HashFunction::Sha2_256).unwrap();
    let got = one(&node, &server).await;
    assert!(matches!(outcome(&got), GatewayOutcome::Unverifiable { .. }), "{got:?}");
    assert_eq!(got.content, None);
}

// req: AGT-017, AGT-024
#[tokio::test]
async fn bytes_without_the_hash() {
    let raw = raw();
    let tampered = GatewayOutcome::Tampered { block: raw.root().to_string() };
    let mut flipped = FILE.to_vec();
    flipped[7] ^= 0x10;
    let other = pack(b"another file", Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
    let other = other.blocks()[0].bytes.clone();
    // A gzip stream without a Content-Encoding header is just other bytes.
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xabV*I-.Q\xb2R\x80r\0\xab\x16\x0b\x0c\x13\0\0\0".to_vec();
    for bytes in [flipped, other, gzip, Vec::new(), [FILE, b"\n"].concat(), FILE[..40].to_vec()] {
        let server = serving(move |_| answer("200 OK", BLOCK, &bytes)).await;
        let got = one(&raw, &server).await;
        assert_eq!(outcome(&got), &tampered);
        assert_eq!(got.content, None);
    }
    // A leaf of a genuine root, and the root instead of a leaf: a cycle cannot have matching hashes.
    let packed = pack(FILE, Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
    let (root, leaf) = (packed.blocks()[0].clone(), packed.blocks()[1].clone());
    for lie in [b"other".to_vec(), root.bytes.clone()] {
        let (root, name) = (root.clone(), root.cid.to_string());
        let server =
            serving(move |request| answer("200 OK", BLOCK, if request.path().contains(&name) { &root.bytes } else { &lie }))
                .await;
        assert_eq!(outcome(&one(&packed, &server).await), &GatewayOutcome::Tampered { block: leaf.cid.to_string() });
    }
    // A gateway that has only the root.
    let (name, bytes) = (root.cid.to_string(), root.bytes);
    let server =
        serving(
            move |request| {
                if request.path().contains(&name) { answer("200 OK", BLOCK, &bytes) } else { answer("404 Not Found", "", b"") }
            },
        )
        .await;
    assert_eq!(outcome(&one(&packed, &server).await), &GatewayOutcome::NotFound);
}

#[tokio::test]
async fn answers_that_are_not_those_of_a_gateway() {
    let raw = raw();
    for status in ["404 Not Found", "410 Gone"] {
        let server = serving(move |_| answer(status, "", b"")).await;
        assert_eq!(outcome(&one(&raw, &server).await), &GatewayOutcome::NotFound);
    }
    let location = "Location: /elsewhere\r\n";
    let endless = vec![
        Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Step::Endless(b"10000\r\n".iter().copied().chain([b'x'; 65536]).chain(*b"\r\n").collect()),
    ];
    for (steps, expected) in [
        (vec![Step::send(answer("429 Too Many Requests", "", b""))], f::CLIENT_ERROR),
        (vec![Step::send(answer("403 Forbidden", "", b""))], f::CLIENT_ERROR),
        (vec![Step::send(answer("500 Oops", "", b"{}"))], f::SERVER_ERROR),
        (vec![Step::send("HTTP/1.1 504 Late\r\n\r\n"), Step::Endless(vec![b'x'; 65536])], f::SERVER_ERROR),
        // Redirects are not followed, whatever their target.
        (vec![Step::send(answer("302 Found", location, FILE))], f::REDIRECT),
        (vec![Step::send(answer("307 Temporary Redirect", location, b""))], f::REDIRECT),
        (vec![Step::send(answer("206 Partial Content", BLOCK, FILE))], f::STATUS),
        (vec![Step::send("HTTP/1.1 204 No Content\r\n\r\n")], f::STATUS),
        (
            vec![Step::send(answer("200 OK", "Content-Type: text/html; charset=utf-8\r\n", b"<html>welcome</html>"))],
            a::GATEWAY_ANSWER,
        ),
        // A compressed response is rejected before it is decompressed.
        (vec![Step::send(answer("200 OK", "Content-Encoding: gzip\r\n", &[0; 1000]))], f::ENCODING_REFUSED),
        (vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{\"agt\"")], f::TRUNCATED),
        (vec![Step::Hold], f::READ_TIMEOUT),
        (
            vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Drip(vec![b'x'; 10_000], Duration::from_millis(20))],
            f::TOTAL_TIMEOUT,
        ),
        (vec![Step::send("garbage\r\n\r\n")], f::NOT_HTTP),
        (
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n"), Step::Endless(vec![b'x'; 65536])],
            f::LENGTH_TOO_LARGE,
        ),
        (endless, f::BODY_TOO_LARGE),
    ] {
        let server = scripted(steps).await;
        let got = one(&raw, &server).await;
        assert_unreachable(outcome(&got), expected);
        assert_eq!((got.content, server.accepted()), (None, 1), "asked once: {expected}");
    }
    // Nothing listens on this port.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let got = retrieve(&[format!("http://{gone}")], quick(), &raw.root().to_string()).await;
    assert_unreachable(outcome(&got), f::CONNECT_REFUSED);
    // A certificate of an unknown authority.
    let leaf = Authority::new("other").leaf(&["localhost"]);
    let server = Server::start(Script::tls(&leaf, vec![Step::ReadRequest, Step::send(answer("200 OK", BLOCK, FILE))])).await;
    let got = retrieve(&[format!("https://localhost:{}", server.address.port())], quick(), &raw.root().to_string()).await;
    assert_unreachable(outcome(&got), f::CERTIFICATE_UNKNOWN_ISSUER);
}

#[tokio::test]
async fn bodies_without_a_length_are_read() {
    let raw = raw();
    let chunked = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n29\r\n"[..], FILE, b"\r\n0\r\n\r\n"].concat();
    let closed = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], FILE].concat();
    for bytes in [chunked, closed] {
        let server = scripted(vec![Step::send(bytes)]).await;
        assert_eq!(content(&one(&raw, &server).await), Some(FILE));
    }
}

#[tokio::test]
async fn two_gibibytes_take_two_mebibytes() {
    let raw = raw();
    // 2 GiB in chunks, as fast as they are read.
    let piece: Vec<u8> = b"100000\r\n".iter().copied().chain(std::iter::repeat_n(b'x', 1 << 20)).chain(*b"\r\n").collect();
    let steps = std::iter::once(Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let server = scripted(steps.chain([Step::Endless(piece)]).collect()).await;
    let got = one(&raw, &server).await;
    assert_unreachable(outcome(&got), f::BODY_TOO_LARGE);
    // Bytes sent beyond the limit are in the buffers of the sockets.
    assert!(server.sent() < 32 << 20, "{} bytes were taken", server.sent());
}

#[tokio::test]
async fn content_up_to_the_limit() {
    for layout in [Layout::RawLeaves, Layout::FileNodes] {
        for (size, fits) in [(65_536, true), (65_537, false), (66_560, false)] {
            let packed = pack(&vec![b'x'; size], layout, HashFunction::Sha2_256).unwrap();
            let server = honest(&packed).await;
            let got = one(&packed, &server).await;
            if fits {
                assert_eq!(got.content.map(|content| content.len()), Some(size));
            } else {
                assert_refused(outcome(&got), a::CONTENT_TOO_LARGE);
            }
        }
    }
    let limits = GatewayLimits { content: WalkLimits::with_content(262_144), ..quick() };
    let packed = pack(&vec![b'x'; 262_144], Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
    let server = honest(&packed).await;
    let got = retrieve(&[url(&server)], limits, &packed.root().to_string()).await;
    assert_eq!(got.content.map(|content| content.len()), Some(262_144));
}

#[tokio::test]
async fn a_genuine_refusal_ends_the_search() {
    // An empty folder. Every honest gateway would serve the same.
    let folder = Block::new(Codec::DagPb, HashFunction::Sha2_256, vec![0x0a, 0x02, 0x08, 0x01]);
    let bytes = folder.bytes.clone();
    let server = serving(move |_| answer("200 OK", BLOCK, &bytes)).await;
    let hanging = scripted(vec![Step::Hold]).await;
    let got = retrieve(&[url(&hanging), url(&server)], quick(), &folder.cid.to_string()).await;
    assert_eq!(got.attempts[0].outcome, GatewayOutcome::Cancelled);
    assert_refused(&got.attempts[1].outcome, a::CONTENT_NOT_A_FILE);
    assert_eq!(got.content, None);
}

// req: AGT-002
#[tokio::test]
async fn nothing_is_asked_for_a_refused_cid() {
    let server = honest(&raw()).await;
    // The file itself instead of a hash.
    let identity: String = FILE.iter().map(|byte| format!("{byte:02x}")).collect();
    for (cid, code) in [
        (&*format!("f01550029{identity}"), a::CID_HASH_WEAK),
        ("bafyreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4", a::CID_CODEC),
        ("bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk5", a::CID_NOT_CANONICAL),
    ] {
        let got = retrieve(&[url(&server)], quick(), cid).await;
        assert_refused(outcome(&got), code);
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn no_gateways_give_nothing() {
    let got = retrieve(&[], quick(), &raw().root().to_string()).await;
    assert_eq!((got.content, got.attempts), (None, Vec::new()));
}

// req: AGT-024
#[tokio::test]
async fn the_first_is_bad_and_the_second_good() {
    let packed = pack(FILE, Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
    let bad = serving(|_| answer("200 OK", BLOCK, b"other")).await;
    let good = honest(&packed).await;
    let got = retrieve(&[url(&bad), url(&good)], quick(), &packed.root().to_string()).await;
    assert_eq!(content(&got), Some(FILE));
    let outcomes: Vec<_> = got.attempts.iter().map(|attempt| attempt.outcome.clone()).collect();
    assert_eq!(outcomes, [GatewayOutcome::Tampered { block: packed.root().to_string() }, GatewayOutcome::Served]);
}

#[tokio::test]
async fn a_fast_gateway_is_not_joined_by_others() {
    let packed = raw();
    let (first, second) = (honest(&packed).await, honest(&packed).await);
    let limits = GatewayLimits { stagger: Duration::from_secs(5), ..quick() };
    let got = retrieve(&[url(&first), url(&second)], limits, &packed.root().to_string()).await;
    assert_eq!(content(&got), Some(FILE));
    assert_eq!(got.attempts[1].outcome, GatewayOutcome::Cancelled);
    assert_eq!((first.accepted(), second.accepted()), (1, 0));
}

#[tokio::test]
async fn only_a_few_are_asked_at_a_time() {
    let mut servers = Vec::new();
    for _ in 0..6 {
        servers.push(scripted(vec![Step::Hold]).await);
    }
    let urls: Vec<String> = servers.iter().map(url).collect();
    let long = Duration::from_secs(30);
    let limits = GatewayLimits { concurrency: 2, stagger: Duration::ZERO, gateway: long, idle: long, ..quick() };
    let cid = raw().root().to_string();
    let search = retrieve_within(long * 4, &urls, limits, &cid);
    assert!(tokio::time::timeout(Duration::from_millis(500), search).await.is_err());
    assert_eq!(servers.iter().map(Server::accepted).sum::<usize>(), 2);
}

#[tokio::test]
async fn everything_ends_with_the_total() {
    let packed = raw();
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(
            scripted(vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Drip(vec![b'x'; 10_000], Duration::from_millis(50))])
                .await,
        );
    }
    let urls: Vec<String> = servers.iter().map(url).collect();
    let limits = GatewayLimits { concurrency: 1, gateway: Duration::from_secs(5), ..quick() };
    let started = Instant::now();
    let got = retrieve_within(Duration::from_millis(900), &urls, limits, &packed.root().to_string()).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    // Each had its share of time: a slow first gateway does not prevent the others from being asked.
    for (attempt, server) in got.attempts.iter().zip(&servers) {
        assert_unreachable(&attempt.outcome, f::TOTAL_TIMEOUT);
        assert_eq!(server.accepted(), 1);
    }
}
