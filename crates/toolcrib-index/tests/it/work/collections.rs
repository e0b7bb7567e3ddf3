//! Images and floor prices from a service with the `OpenSea` API v2: recorded answers, and every way in which it fails.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use serde_json::json;
use toolcrib_core::clock::FixedClock;
use toolcrib_fetch::{Configured, ConfiguredUrl};
use toolcrib_index::facts::{CollectionProvider as _, OpenSea, Provided};

use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::servers::{NOW, Request, Script, Server, Step, answer, ok};

const CONTRACT: Address = Address::repeat_byte(0xc0);
const KEY: &str = "k3y-of-the-operator";

/// What the service answers about a contract, a collection and its statistics, in this order.
type Answers = Arc<Mutex<[Vec<u8>; 3]>>;

struct Service {
    server: Server,
    answers: Answers,
    clock: MovingClock,
    provider: OpenSea,
}

/// Answers as the service's documentation has them.
fn documented() -> [Vec<u8>; 3] {
    [
        json!({"address": format!("{CONTRACT:#x}"), "chain": "base", "collection": "apes-of-base", "contract_standard": "erc721", "name": "Apes", "total_supply": 10}),
        json!({"collection": "apes-of-base", "name": "Apes", "image_url": "https://img.example/apes.png", "banner_image_url": "", "fees": []}),
        json!({"total": {"volume": 1.5, "sales": 3, "average_price": 0.5, "num_owners": 2, "market_cap": 9.0, "floor_price": 0.045,
            "floor_price_symbol": "ETH"}, "intervals": []}),
    ]
    .map(|document| ok(document.to_string()))
}

impl Service {
    async fn start() -> Self {
        let answers: Answers = Arc::new(Mutex::new(documented()));
        let shared = Arc::clone(&answers);
        let reply = move |request: &Request| {
            assert_eq!(request.header("x-api-key"), Some(KEY));
            let answers = shared.lock().expect("unpoisoned");
            match request.path() {
                path if path == format!("/api/v2/chain/base/contract/{CONTRACT:#x}") => answers[0].clone(),
                "/api/v2/collections/apes-of-base" => answers[1].clone(),
                "/api/v2/collections/apes-of-base/stats" => answers[2].clone(),
                other => panic!("{other}"),
            }
        };
        let server = Server::start(Script::plain(vec![Step::ReadRequest, Step::answer(reply)])).await;
        let clock = MovingClock::new();
        let provider = provider(&server, &clock);
        Self { server, answers, clock, provider }
    }

    fn set(&self, at: usize, bytes: Vec<u8>) {
        self.answers.lock().expect("unpoisoned")[at] = bytes;
    }

    fn set_floor(&self, price: &str) {
        let body = format!("{{\"total\":{{\"floor_price\":{price},\"floor_price_symbol\":\"ETH\"}}}}");
        self.set(2, ok(body));
    }

    async fn ask(&self) -> Option<Provided> {
        self.provider.collection(8453, CONTRACT).await
    }

    fn asked(&self) -> usize {
        self.server.requests().len()
    }
}

fn provider(server: &Server, clock: &MovingClock) -> OpenSea {
    let client = Configured::builder(FixedClock(NOW)).build().expect("a client");
    let url = ConfiguredUrl::from_setting(&format!("http://{}", server.address)).expect("a URL");
    OpenSea::new(client, url, Some(KEY), Arc::new(clock.clone())).expect("a provider")
}

fn floor(provided: Option<Provided>) -> Option<String> {
    provided.and_then(|provided| provided.floor_price)
}

#[tokio::test(flavor = "multi_thread")]
async fn image_and_floor_price_are_read_once_an_hour() {
    let service = Service::start().await;
    let expected = Provided { image: Some("https://img.example/apes.png".to_owned()), floor_price: Some("0.045 ETH".to_owned()) };
    assert_eq!(service.ask().await, Some(expected.clone()));
    assert_eq!(service.ask().await, Some(expected));
    assert_eq!(service.asked(), 3);
    service.set_floor("123456789012345678.123456789012345678");
    service.clock.advance(3_600);
    assert_eq!(floor(service.ask().await).as_deref(), Some("123456789012345678.123456789012345678 ETH"), "every digit");
    assert_eq!(service.asked(), 6);
    assert_eq!(service.provider.collection(31_337, CONTRACT).await, None, "a chain that the service does not know");
    assert_eq!(service.asked(), 6);
    assert!(!format!("{:?}", service.provider).contains(KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_price_is_absent() {
    for price in ["-1", "0", "null", "\"1\"", "[1]", "true", "1e400", "{\"value\": 1}"] {
        let service = Service::start().await;
        service.set_floor(price);
        let provided = service.ask().await.expect("an image is there");
        assert_eq!((provided.floor_price, provided.image.is_some()), (None, true), "{price}");
    }
    // What JSON has no word for makes the whole answer unreadable.
    for price in ["NaN", "Infinity", "1.", "0x10", "+1"] {
        let service = Service::start().await;
        service.set_floor(price);
        assert_eq!(service.ask().await, None, "{price}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_limits_is_left_alone_for_as_long_as_it_says() {
    let service = Service::start().await;
    service.ask().await.expect("something is known");
    service.clock.advance(3_600);
    service.set(0, answer("429 Too Many Requests", "Retry-After: 600\r\n", b""));
    assert_eq!(floor(service.ask().await).as_deref(), Some("0.045 ETH"), "what was known is still shown");
    assert_eq!(service.asked(), 4);
    service.clock.advance(599);
    service.ask().await;
    // Nor is another collection asked for.
    assert_eq!(service.provider.collection(8453, Address::repeat_byte(0xd1)).await, None);
    assert_eq!(service.asked(), 4);
    service.clock.advance(1);
    service.ask().await;
    assert_eq!(service.asked(), 5);
    // No service is left alone for a year, and nothing is shown that is a day old.
    service.set(0, answer("429 Too Many Requests", "Retry-After: 999999999\r\n", b""));
    service.clock.advance(600);
    service.ask().await;
    service.clock.advance(3_600);
    service.ask().await;
    assert_eq!(service.asked(), 7);
    service.clock.advance(86_400);
    assert_eq!(service.ask().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_none() {
    for bytes in [
        answer("500 Internal Server Error", "", b"{}"),
        answer("401 Unauthorized", "", b"{\"errors\":[\"key\"]}"),
        answer("302 Found", "Location: http://10.0.0.1/\r\n", b""),
        answer("200 OK", "Content-Type: text/html\r\n", b"<html>"),
        ok("[]"),
        ok(format!("{{\"collection\": \"{}\"}}", "x".repeat(300_000))),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec(),
    ] {
        for at in 0..3 {
            let service = Service::start().await;
            service.set(at, bytes.clone());
            assert_eq!(service.ask().await, None);
            let asked = service.asked();
            service.ask().await;
            assert_eq!(service.asked(), asked, "it is left alone");
            // A minute later it works again.
            service.set(at, documented()[at].clone());
            service.clock.advance(60);
            assert!(service.ask().await.is_some());
        }
    }
    // A slug that leads elsewhere, and none at all: the collection is not known, which is no fault of the service.
    for slug in [json!("../../admin"), json!("a/b"), json!(""), json!(7), json!("x".repeat(200))] {
        let service = Service::start().await;
        service.set(0, ok(json!({"collection": slug}).to_string()));
        assert_eq!(service.ask().await, None);
        assert_eq!(service.asked(), 1);
    }
    let service = Service::start().await;
    service.set(0, answer("404 Not Found", "", b"{}"));
    assert_eq!((service.ask().await, service.ask().await, service.asked()), (None, None, 1), "that it is unknown is remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_service_delays_one_verification_by_seconds() {
    let server = Server::start(Script::plain(vec![Step::Hold])).await;
    let clock = MovingClock::new();
    let provider = provider(&server, &clock);
    let begun = Instant::now();
    for byte in 1..20 {
        assert_eq!(provider.collection(8453, Address::repeat_byte(byte)).await, None);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(server.accepted(), 1, "it is asked once, and then left alone");
}
