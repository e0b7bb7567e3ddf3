//! Lookups over every transport, from an honest server.

use std::time::{Duration, Instant};

use toolcrib_agent::evidence::{Dnssec, TxtLookup};
use toolcrib_agent::source::TxtSource as _;
use toolcrib_agent::txt::dns::DnsSettings;
use toolcrib_core::agent::txt::{TxtOutcome, parse_records};

use crate::authority::{Authority, Zone, zone};
use crate::support::{POINTER, SERVER_NAME, code, domain, records, settings, sorted, source};

async fn authority() -> Authority {
    Authority::start(vec![zone(), Zone::new("example.").txt("host.example.", &[b"agt-version=1"])]).await
}

fn transports(authority: &Authority) -> Vec<DnsSettings> {
    let texts = [
        format!("udp://{}", authority.plain),
        format!("tcp://{}", authority.plain),
        format!("tls://{SERVER_NAME}@{}", authority.tls),
        format!("https://{SERVER_NAME}@{}/dns-query", authority.https),
    ];
    let with_authority = |text: &String| {
        let mut settings = settings(text);
        settings.authorities = vec![authority.certificates.authority.clone()];
        settings
    };
    texts.iter().map(with_authority).collect()
}

// req: AGT-001
#[tokio::test]
async fn records_come_over_udp_tcp_tls_and_https() {
    let authority = authority().await;
    for settings in transports(&authority) {
        let source = source(settings);
        let answer = source.lookup(&domain("plain.agt")).await;
        let expected = sorted(records(&[POINTER.as_bytes(), b"v=spf1 -all"]));
        assert_eq!(sorted(answer.outcome), expected, "{}", source.name());
        assert_eq!((answer.dnssec, answer.source.as_str()), (Dnssec::Unchecked, source.name()));
        assert_eq!(source.lookup(&domain("none.agt")).await.outcome, TxtLookup::NotFound, "{}", source.name());
        assert_eq!(source.lookup(&domain("nodata.agt")).await.outcome, TxtLookup::NoRecords, "{}", source.name());
        // More than fits into one datagram.
        let many = source.lookup(&domain("many.agt")).await.outcome;
        assert!(matches!(&many, TxtLookup::Records(found) if found.len() == 120), "{}: {many:?}", source.name());
    }
}

// req: AGT-001
#[tokio::test]
async fn character_strings_are_joined_and_bytes_stay_as_they_are() {
    let authority = authority().await;
    let source = source(settings(&format!("udp://{}", authority.plain)));
    assert_eq!(source.lookup(&domain("split.agt")).await.outcome, records(&[POINTER.as_bytes()]));
    assert_eq!(source.lookup(&domain("bytes.agt")).await.outcome, records(&[b"agt-name=\xff\x00"]));
    let long = [vec![b'a'; 255], vec![b'b'; 255], vec![b'c'; 90]].concat();
    assert_eq!(source.lookup(&domain("long.agt")).await.outcome, records(&[&long]));
    // Quotes that users entered stay in the evidence, and do not hide the pointer.
    let TxtLookup::Records(quoted) = source.lookup(&domain("quoted.agt")).await.outcome else { panic!("no records") };
    assert!(quoted[0].starts_with(b"\"agt-manifest="));
    assert!(matches!(parse_records(&quoted).outcome, TxtOutcome::Pointer(_)));
}

#[tokio::test]
async fn aliases_are_followed_within_limits() {
    let authority = authority().await;
    let source = source(settings(&format!("udp://{}", authority.plain)));
    let expected = sorted(records(&[POINTER.as_bytes(), b"v=spf1 -all"]));
    assert_eq!(sorted(source.lookup(&domain("alias.agt")).await.outcome), expected);
    // An alias to another zone, which the server does not include in the same response.
    assert_eq!(source.lookup(&domain("outside.agt")).await.outcome, records(&[b"agt-version=1"]));
    // The name exists, but its alias target does not.
    assert_eq!(source.lookup(&domain("dangling.agt")).await.outcome, TxtLookup::NoRecords);
    let outcome = source.lookup(&domain("one.agt")).await.outcome;
    assert!(["agent.dns_aliases", "agent.dns_server_failure"].contains(&code(&outcome)), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_zone_says_nothing_about_the_name() {
    let authority = Authority::start(vec![Zone::new("example.")]).await;
    for scheme in ["udp", "tcp"] {
        let source = source(settings(&format!("{scheme}://{}", authority.plain)));
        assert_eq!(code(&source.lookup(&domain("plain.agt")).await.outcome), "agent.dns_refused");
    }
}

#[tokio::test]
async fn certificates_are_checked() {
    let authority = authority().await;
    let [_, _, tls, https] = transports(&authority).try_into().expect("four transports");
    for settings in [tls, https] {
        let mut unknown = settings.clone();
        unknown.authorities.clear();
        assert_eq!(code(&source(unknown).lookup(&domain("plain.agt")).await.outcome), "agent.dns_unreachable");
    }
    for text in [format!("tls://other.test@{}", authority.tls), format!("https://other.test@{}/dns-query", authority.https)] {
        let mut wrong = settings(&text);
        wrong.authorities = vec![authority.certificates.authority.clone()];
        assert_eq!(code(&source(wrong).lookup(&domain("plain.agt")).await.outcome), "agent.dns_unreachable", "{text}");
    }
    // Another path than the service's.
    let mut path = settings(&format!("https://{SERVER_NAME}@{}/other", authority.https));
    path.authorities = vec![authority.certificates.authority.clone()];
    let source = source(path);
    let answer = source.lookup(&domain("plain.agt")).await;
    assert!(matches!(answer.outcome, TxtLookup::Failed { .. }), "{answer:?}");
    assert!(!answer.source.contains("/other"));
}

#[tokio::test]
async fn the_next_server_is_asked_when_one_does_not_answer() {
    let authority = authority().await;
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let mut settings = settings(&format!("udp://{}", silent.local_addr().expect("bound")));
    settings.query_timeout = Duration::from_millis(300);
    let alone = source(settings.clone());
    let started = Instant::now();
    assert_eq!(code(&alone.lookup(&domain("plain.agt")).await.outcome), "agent.dns_timeout");
    assert!(started.elapsed() < Duration::from_secs(5));
    settings.servers.push(format!("udp://{}", authority.plain).parse().expect("a server"));
    let both = source(settings);
    assert!(matches!(both.lookup(&domain("plain.agt")).await.outcome, TxtLookup::Records(_)));
}

#[tokio::test]
async fn nobody_at_home_is_a_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let source = source(settings(&format!("tcp://{address}")));
    assert_eq!(code(&source.lookup(&domain("plain.agt")).await.outcome), "agent.dns_unreachable");
}
