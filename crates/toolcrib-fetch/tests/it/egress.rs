//! Which destinations are allowed, and which never are.

use std::io::ErrorKind;
use std::time::Instant;

use toolcrib_core::codes::{Code, fetch as f};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{MAX_ADDRESSES, MAX_ATTEMPTS, PortPolicy, ResolveError, Target};
use toolcrib_testkit::assert_not_hung;

use toolcrib_testkit::servers::recorder::parse;
use toolcrib_testkit::servers::{World, ok, quick};

const HOST: &str = "tools.example.com";

async fn failure(world: &World, url: &str) -> Code {
    let url = HttpsUrl::parse(url).expect("a URL");
    let start = Instant::now();
    let exchange = world.fetch().get(&Target::file(&url, Some(1)).limits(quick())).await;
    assert_not_hung(start, HOST);
    assert!(exchange.response.is_none() && exchange.tls.is_none());
    exchange.failure.expect("it fails").code
}

// req: SSRF-001
#[tokio::test]
async fn no_connection_to_an_address_that_is_not_public() {
    let addresses = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for address in addresses {
        for (answers, expected) in [
            (vec![address], f::PRIVATE_ADDRESS),
            (vec!["5.5.5.5", address], f::MIXED_ADDRESSES),
            (vec![address, "2a00::1"], f::MIXED_ADDRESSES),
        ] {
            let world = World::new();
            world.recorder.host(HOST, &answers);
            let url = format!("https://{HOST}/");
            assert_eq!(failure(&world, &url).await, expected, "{answers:?}");
            assert_eq!(world.recorder.lookups(), [HOST]);
            assert!(world.recorder.dialled().is_empty(), "{answers:?}");
        }
        // As a literal it is rejected by the grammar.
        let literal = if address.contains(':') { format!("https://[{address}]/") } else { format!("https://{address}/") };
        assert!(HttpsUrl::parse(&literal).is_err(), "{literal}");
    }
}

// req: SSRF-001
#[test]
fn what_the_grammar_keeps_away() {
    for url in [
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://[fe80::1%25eth0]/",
        "https://user@tools.example.com/",
        "https://tools.example.com./",
        "https://tools.example.com:0/",
        "https://b\u{fc}cher.example/",
        "http://tools.example.com/",
        "https://[::ffff:8.8.8.8]/",
    ] {
        assert!(HttpsUrl::parse(url).is_err(), "{url}");
    }
}

// req: SSRF-002
#[tokio::test]
async fn answers_that_change_between_look_ups() {
    let world = World::new();
    let server = world.honest(HOST, |_| ok("{}")).await;
    world.recorder.answers(HOST, vec![Ok(parse(&["5.5.5.1"])), Ok(parse(&["127.0.0.1"])), Ok(parse(&["5.5.5.1"]))]);
    let url = HttpsUrl::parse(&format!("https://{HOST}/")).unwrap();
    let fetch = world.fetch();
    let target = Target::file(&url, Some(1));
    let first = fetch.get(&target).await;
    assert!(first.complete().is_some(), "{first:?}");
    assert_eq!(world.recorder.lookups().len(), 1, "one look-up for one request");
    assert_eq!(first.connected.unwrap().ip(), first.addresses[0], "the connection uses the checked address");
    let second = fetch.get(&target).await;
    assert_eq!(second.failure.unwrap().code, f::PRIVATE_ADDRESS);
    assert!(fetch.get(&target).await.complete().is_some());
    assert_eq!(world.recorder.lookups().len(), 3, "each request looks up again");
    assert_eq!((world.recorder.dialled().len(), server.accepted()), (2, 2));
}

// req: VERIFY-007
#[tokio::test]
async fn names_without_a_usable_answer() {
    let world = World::new();
    let url = format!("https://{HOST}/");
    let many = |count: u8| Ok((0..count).map(|last| [5, 5, 6, last].into()).collect());
    for (answer, expected) in [
        (Err(ResolveError::NoSuchHost), f::NO_SUCH_HOST),
        (Err(ResolveError::NoAddresses), f::NO_ADDRESSES),
        (Ok(Vec::new()), f::NO_ADDRESSES),
        (Err(ResolveError::Failed("name server is gone".into())), f::DNS_FAILED),
        (many(MAX_ADDRESSES as u8 + 1), f::TOO_MANY_ADDRESSES),
        (many(MAX_ADDRESSES as u8), f::CONNECT_REFUSED),
    ] {
        world.recorder.answers(HOST, vec![answer]);
        let dialled = world.recorder.dialled().len();
        assert_eq!(failure(&world, &url).await, expected);
        let attempts = world.recorder.dialled().len() - dialled;
        assert_eq!(attempts, if expected == f::CONNECT_REFUSED { MAX_ATTEMPTS } else { 0 }, "{expected}");
    }
    world.recorder.never(HOST);
    assert_eq!(failure(&world, &url).await, f::DNS_FAILED);
}

#[tokio::test]
async fn addresses_that_do_not_answer() {
    let world = World::new();
    let url = format!("https://{HOST}/");
    let rec = &world.recorder;
    rec.fail("5.5.5.10", ErrorKind::ConnectionRefused);
    rec.fail("5.5.5.11", ErrorKind::NetworkUnreachable);
    rec.fail("2a00::11", ErrorKind::HostUnreachable);
    rec.silent("5.5.5.12");
    for (addresses, expected) in [
        (&["5.5.5.10"][..], f::CONNECT_REFUSED),
        (&["5.5.5.11", "2a00::11"], f::UNREACHABLE),
        (&["5.5.5.12"], f::CONNECT_TIMEOUT),
        (&["5.5.5.11", "5.5.5.12"], f::CONNECT_TIMEOUT),
        (&["5.5.5.12", "5.5.5.10"], f::CONNECT_REFUSED),
    ] {
        rec.host(HOST, addresses);
        assert_eq!(failure(&world, &url).await, expected, "{addresses:?}");
        assert!(toolcrib_core::codes::fetch::is_transient(expected));
    }
    // One address that responds is enough, even after one that does not.
    let server = world.honest(HOST, |_| ok("{}")).await;
    rec.host(HOST, &["5.5.5.12", "2a00::11", "5.5.5.1"]);
    let url = HttpsUrl::parse(&url).unwrap();
    let exchange = world.fetch().get(&Target::file(&url, None).limits(quick())).await;
    assert!(exchange.complete().is_some(), "{exchange:?}");
    assert_eq!(exchange.connected, Some("5.5.5.1:443".parse().unwrap()));
    assert_eq!((exchange.addresses.len(), server.accepted()), (3, 1));
}

#[tokio::test]
async fn ports_of_other_protocols() {
    let world = World::new();
    world.recorder.host(HOST, &["5.5.5.1"]);
    for port in [1, 22, 25, 53, 110, 143, 465, 587, 993, 2049, 5060, 6000, 6667, 10080] {
        assert_eq!(failure(&world, &format!("https://{HOST}:{port}/")).await, f::PORT_REFUSED, "{port}");
    }
    assert!(world.recorder.lookups().is_empty() && world.recorder.dialled().is_empty());
    for port in [80, 8443, 65535] {
        assert_eq!(failure(&world, &format!("https://{HOST}:{port}/")).await, f::CONNECT_REFUSED, "{port}");
    }
    let strict = world.builder().ports(PortPolicy::Only(vec![443])).build().unwrap();
    let url = HttpsUrl::parse(&format!("https://{HOST}:8443/")).unwrap();
    assert_eq!(strict.get(&Target::file(&url, None)).await.failure.unwrap().code, f::PORT_REFUSED);
}
