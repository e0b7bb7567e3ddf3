//! Many gateways, most of them hostile or dead: alone, and in a resolver with little time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolcrib_agent::evidence::{GatewayAttempt, GatewayOutcome};
use toolcrib_agent::ipfs::{GatewayLimits, Gateways, HashFunction, Layout, Packed, pack};
use toolcrib_agent::{AgentPolicy, AgentState, Resolver, judge};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::{Code, agent as a, fetch as f};
use toolcrib_fetch::ConfiguredUrl;

use crate::content;
use crate::doubles::{Holders, Txt};
use crate::fixture::*;
use crate::gateway::{BLOCK, FILE, TOTAL, assert_unreachable, client, honest, quick, raw, retrieve, scripted, serving, url};
use toolcrib_testkit::servers::{Server, Step, answer};

/// Nine hostile or dead gateways, and an honest one at the end.
async fn hostile_nine(packed: &Packed) -> (Vec<Server>, Vec<String>, Vec<Expected>) {
    let mut flipped = FILE.to_vec();
    flipped[7] ^= 1;
    let block = packed.root().to_string();
    let tampered = || Expected::Exactly(GatewayOutcome::Tampered { block: block.clone() });
    let nine = vec![
        (scripted(vec![Step::Hold]).await, Expected::Code(f::READ_TIMEOUT)),
        (dripping().await, Expected::Code(f::TOTAL_TIMEOUT)),
        (serving(|_| answer("500 Oops", "", b"")).await, Expected::Code(f::SERVER_ERROR)),
        (serving(|_| answer("429 Too Many Requests", "", b"")).await, Expected::Code(f::CLIENT_ERROR)),
        (serving(|_| answer("200 OK", "Content-Type: text/html\r\n", b"<html>")).await, Expected::Code(a::GATEWAY_ANSWER)),
        (serving(|_| answer("200 OK", BLOCK, b"the bytes of another CID")).await, tampered()),
        (serving(move |_| answer("200 OK", BLOCK, &flipped)).await, tampered()),
        (
            scripted(vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Endless(vec![b'x'; 65536])]).await,
            Expected::Code(f::BODY_TOO_LARGE),
        ),
        (scripted(vec![Step::Reset]).await, Expected::Unreachable),
    ];
    let (mut servers, mut expected): (Vec<Server>, Vec<Expected>) = nine.into_iter().unzip();
    servers.push(honest(packed).await);
    expected.push(Expected::Exactly(GatewayOutcome::Served));
    let urls = servers.iter().map(url).collect();
    (servers, urls, expected)
}

#[derive(Debug)]
enum Expected {
    Code(Code),
    Exactly(GatewayOutcome),
    Unreachable,
}

// req: AGT-024
#[tokio::test]
async fn one_honest_gateway_among_nine_hostile_ones() {
    let packed = raw();
    let (_servers, urls, expected) = hostile_nine(&packed).await;
    // One at a time: each of the nine is waited for until it fails.
    let limits = GatewayLimits { concurrency: 1, ..quick() };
    let started = Instant::now();
    let got = retrieve(&urls, limits, &packed.root().to_string()).await;
    assert!(started.elapsed() < TOTAL, "{:?}", started.elapsed());
    assert_eq!(content(&got), Some(FILE));
    assert_attempts(&got.attempts, &expected, &urls);
}

// req: AGT-024
#[tokio::test]
async fn gateways_that_hang_are_not_waited_for() {
    let packed = raw();
    let (_servers, urls, _) = hostile_nine(&packed).await;
    let limits = GatewayLimits { gateway: Duration::from_secs(15), idle: Duration::from_secs(15), ..quick() };
    let started = Instant::now();
    let got = retrieve(&urls, limits, &packed.root().to_string()).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(content(&got), Some(FILE));
    assert_eq!(got.attempts[0].outcome, GatewayOutcome::Cancelled);
    assert_eq!(got.attempts[1].outcome, GatewayOutcome::Cancelled);
    assert_eq!(got.attempts[9].outcome, GatewayOutcome::Served);
}

/// Asserts the result of each gateway, in the order of the settings.
#[track_caller]
fn assert_attempts(attempts: &[GatewayAttempt], expected: &[Expected], urls: &[String]) {
    assert_eq!((attempts.len(), expected.len()), (urls.len(), urls.len()), "{attempts:#?}");
    for ((attempt, expected), url) in attempts.iter().zip(expected).zip(urls) {
        assert_eq!(&attempt.gateway, url);
        match expected {
            Expected::Code(code) => assert_unreachable(&attempt.outcome, *code),
            Expected::Exactly(outcome) => assert_eq!(&attempt.outcome, outcome),
            Expected::Unreachable => assert!(matches!(attempt.outcome, GatewayOutcome::Unreachable { .. }), "{attempt:?}"),
        }
    }
}

/// A resolver with real gateways, and test doubles for records and owner.
fn resolver(manifest: &Packed, file: &str, urls: &[String], limits: GatewayLimits, txt_delay: Duration) -> Resolver {
    let urls = urls.iter().map(|url| ConfiguredUrl::from_setting(url).expect("a URL")).collect();
    let gateways = Gateways::new(client(), urls, limits).expect("gateways");
    assert_eq!(pointer(file.as_bytes()), format!("agt-manifest=ipfs://{}", manifest.root()));
    Resolver::new(Arc::new(gateways), Arc::new(FixedClock(NOW)), "test")
        .txt_source(Txt::slow(&[&pointer(file.as_bytes())], txt_delay))
        .owners(Arc::new(Holders::new(owner())))
}

/// A gateway that starts to respond and never ends.
async fn dripping() -> Server {
    scripted(vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Drip(vec![b'x'; 10_000], Duration::from_millis(20))]).await
}

// req: AGT-024
#[tokio::test]
async fn a_name_resolves_by_the_one_honest_gateway_and_the_report_names_the_liars() {
    let file = signed(json!({}));
    let packed = pack(file.as_bytes(), Layout::RawLeaves, HashFunction::Sha2_256).expect("it fits");
    let (_servers, urls, expected) = hostile_nine(&packed).await;
    let limits = GatewayLimits { concurrency: 1, ..quick() };
    let resolution = resolver(&packed, &file, &urls, limits, Duration::ZERO).resolve(&domain(NAME)).await;
    assert_verified(&resolution.report);
    assert_eq!(resolution.manifest.as_ref().expect("verified").name(), Some("Example Agent"));
    let retrieval = resolution.evidence.content.as_ref().expect("a retrieval");
    assert_attempts(&retrieval.attempts, &expected, &urls);
    // Lying gateways are findings, with their index in the evidence and their name.
    let liars: Vec<_> = resolution.report.findings.iter().filter(|finding| finding.code == a::CONTENT_TAMPERED).collect();
    let pointers: Vec<_> = liars.iter().map(|finding| finding.pointer.as_str()).collect();
    assert_eq!(pointers, ["/content/attempts/5", "/content/attempts/6"]);
    let named: Vec<_> = liars.iter().map(|finding| finding.got.as_deref()).collect();
    assert_eq!(named, [Some(urls[5].as_str()), Some(urls[6].as_str())]);
    assert_eq!(judge(&resolution.evidence, &AgentPolicy::default(), None, NOW), resolution.report);
}

// req: AGT-024
#[tokio::test]
async fn slow_records_leave_time_for_every_gateway() {
    let file = signed(json!({}));
    let packed = pack(file.as_bytes(), Layout::RawLeaves, HashFunction::Sha2_256).expect("it fits");
    let mut servers = Vec::new();
    for _ in 0..9 {
        servers.push(dripping().await);
    }
    let dripping: Vec<String> = servers.iter().map(url).collect();
    servers.push(honest(&packed).await);
    let urls: Vec<String> = servers.iter().map(url).collect();
    // The records take their share of the time first.
    let deadline = Duration::from_secs(10);
    let limits = GatewayLimits::default();
    let late = Duration::from_millis(3_800);
    let started = Instant::now();
    let resolution = resolver(&packed, &file, &urls, limits, late).deadline(deadline).resolve(&domain(NAME)).await;
    assert!(started.elapsed() < deadline, "{:?}", started.elapsed());
    assert_verified(&resolution.report);
    let attempts = &resolution.evidence.content.as_ref().expect("a retrieval").attempts;
    assert_eq!(attempts.len(), 10, "{attempts:#?}");
    assert_eq!(attempts[9].outcome, GatewayOutcome::Served, "{attempts:#?}");
    assert!(servers.iter().all(|server| server.accepted() == 1), "{attempts:#?}");
    for (attempt, url) in attempts.iter().zip(&dripping) {
        assert_eq!(&attempt.gateway, url);
        // The last of them is still pending when the honest one responds.
        match &attempt.outcome {
            GatewayOutcome::Unreachable { code, .. } => assert_eq!(code, f::TOTAL_TIMEOUT.id()),
            outcome => assert_eq!(outcome, &GatewayOutcome::Cancelled),
        }
    }

    // Without an honest gateway, the report still says what each did.
    let resolution = resolver(&packed, &file, &dripping, limits, late).deadline(deadline).resolve(&domain(NAME)).await;
    assert_failed(&resolution.report, AgentState::Unreachable, "agent.content_unavailable", Some(1));
    let expected: Vec<_> = dripping.iter().map(|_| Expected::Code(f::TOTAL_TIMEOUT)).collect();
    assert_attempts(&resolution.evidence.content.expect("a retrieval").attempts, &expected, &dripping);
    let told = resolution.report.findings.iter().filter(|finding| finding.code == a::CONTENT_UNAVAILABLE).count();
    assert_eq!(told, 9, "{:#?}", resolution.report.findings);
}
