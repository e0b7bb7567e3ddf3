//! The client for configured services.

use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::fetch as f;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers};

use toolcrib_testkit::servers::{Authority, NOW, Recorder, Script, Server, Step, answer, ok, quick};

#[tokio::test]
async fn a_service_on_this_machine_over_plain_http() {
    let steps = vec![Step::ReadRequest, Step::answer(|request| answer("201 Created", "", &request.body))];
    let server = Server::start(Script::plain(steps)).await;
    let url = ConfiguredUrl::from_setting(&format!("http://localhost:{}/hook?key=s3cret", server.address.port())).unwrap();
    let headers = Headers::new().with("Authorization", "Bearer s3cret").unwrap();
    // The real resolver and connector: no lookup, and a connection to 127.0.0.1.
    let door = Configured::builder(FixedClock(NOW)).build().unwrap();
    let exchange = door.post(&url, &headers, b"{}", quick()).await;
    assert_eq!(
        exchange.complete().map(|response| (response.status, response.body.as_bytes())),
        Some((201, &b"{}"[..])),
        "{exchange:?}"
    );
    assert_eq!(exchange.url, format!("http://localhost:{}", server.address.port()));
    let request = &server.requests()[0];
    assert_eq!((request.path(), request.header("authorization")), ("/hook?key=s3cret", Some("Bearer s3cret")));
    let shown = format!("{exchange:?} {url:?} {url} {headers:?} {door:?}") + &serde_json::to_string(&exchange).unwrap();
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn a_service_in_the_operators_network() {
    let (authority, recorder) = (Authority::new("authority of the operator"), Recorder::default());
    let leaf = authority.leaf(&["pay.internal", "10.0.0.5"]);
    let server = Server::start(Script::tls(&leaf, vec![Step::ReadRequest, Step::send(ok("{}"))])).await;
    recorder.host("pay.internal", &["10.0.0.5"]);
    recorder.route("10.0.0.5", server.address);
    let build = |authorities| {
        let builder = Configured::builder(FixedClock(NOW)).resolver(recorder.clone()).connector(recorder.clone());
        builder.authorities(authorities).build().unwrap()
    };
    let door = build(vec![authority.der()]);
    for url in ["https://pay.internal:8443/x", "https://10.0.0.5/x"] {
        let url = ConfiguredUrl::from_setting(url).unwrap();
        let exchange = door.get(&url, &Headers::new(), quick()).await;
        assert!(exchange.complete().is_some() && exchange.tls.is_some(), "{exchange:?}");
    }
    // Certificates are validated here too.
    let url = ConfiguredUrl::from_setting("https://pay.internal/x").unwrap();
    let exchange = build(Vec::new()).get(&url, &Headers::new(), quick()).await;
    assert_eq!(exchange.failure.unwrap().code, f::CERTIFICATE_UNKNOWN_ISSUER);
}

#[tokio::test]
async fn limits_hold_here_too() {
    let big = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", quick().body + 1);
    for (steps, expected) in [
        (vec![Step::ReadRequest, Step::Hold], Err(f::READ_TIMEOUT)),
        (vec![Step::ReadRequest, Step::send(big)], Err(f::LENGTH_TOO_LARGE)),
        (
            vec![Step::ReadRequest, Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Endless(vec![b'x'; 65536])],
            Err(f::BODY_TOO_LARGE),
        ),
        (vec![Step::ReadRequest, Step::send(answer("302 Found", "Location: http://127.0.0.1:1/\r\n", b""))], Ok(302)),
        (vec![Step::ReadRequest, Step::send("garbage")], Err(f::NOT_HTTP)),
    ] {
        let server = Server::start(Script::plain(steps)).await;
        let url = ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}/", server.address.port())).unwrap();
        let exchange = Configured::builder(FixedClock(NOW)).build().unwrap().get(&url, &Headers::new(), quick()).await;
        let got = match &exchange.failure {
            Some(failure) => Err(failure.code),
            None => Ok(exchange.complete().unwrap().status),
        };
        assert_eq!(got, expected);
        assert_eq!(server.accepted(), 1);
    }
}
