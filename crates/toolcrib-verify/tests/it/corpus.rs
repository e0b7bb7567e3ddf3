//! Recorded registrations: hostile ones cause no connection, and manifests with the committed hash get the correct verdict.
//!
//! No name in the corpus is ever resolved: a recorder replaces DNS and the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes;
use toolcrib_core::tool::TYPE_V1;
use toolcrib_core::url::ip;
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_judge::evidence::{Body, Exchange, Method, Response};
use toolcrib_judge::{Check, Policy, Report, Step, judge};
use toolcrib_verify::{Depth, Verifier};

use crate::recorded::{Gold, Hostile, check_harmless, folder, printed};
use crate::sources::FixedSource;
use toolcrib_testkit::registry::hash_of;
use toolcrib_testkit::servers::{NOW, World, ok};

fn verifier(world: &World) -> Verifier {
    Verifier::new(world.fetch(), Arc::new(FixedClock(NOW)), "test")
}

async fn verify(world: &World, row: &Hostile) -> Report {
    let tool = FixedSource::registered(row.chain, row.id, row.creator, &row.uri, row.hash);
    let evidence = verifier(world).gather(&tool, Depth::Full).await.expect("the chain answers");
    let report = judge(&evidence, &Policy::default(), NOW);
    assert!(!report.verified && !report.is_usable() && report.about.is_none(), "{}", row.uri.escape_debug());
    check_harmless(&printed(&report), "report");
    report
}

/// The host of a row whose URI is well formed; other rows are rejected before any request.
fn host_of(row: &Hostile) -> Option<String> {
    WellKnown::parse(&row.uri).ok().map(|uri| uri.url().host().to_owned())
}

// req: SSRF-001, SSRF-002, URL-012, VERIFY-007
#[tokio::test]
async fn hostile_registrations_reach_nobody() {
    let Some(folder) = folder() else { return };
    let rows = Hostile::all(&folder);
    assert!(rows.len() >= 50, "{} rows", rows.len());
    let well_formed = rows.iter().filter(|row| host_of(row).is_some()).count();

    // DNS knows no name.
    let world = World::new();
    for row in &rows {
        let before = world.recorder.lookups().len();
        let report = verify(&world, row).await;
        let asked = world.recorder.lookups().len() - before;
        let failed = report.failed.expect("a reason");
        match host_of(row) {
            Some(_) => assert_eq!((asked, failed.step, failed.code), (1, Step::Fetch, codes::fetch::NO_SUCH_HOST)),
            None => assert_eq!((asked, failed.step), (0, Step::MetadataUri), "{}", row.uri.escape_debug()),
        }
    }
    assert_eq!(world.recorder.dialled(), [], "nobody is called");

    // DNS leads to the client's own network.
    for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"] {
        let world = World::new();
        for row in &rows {
            if let Some(host) = host_of(row) {
                world.recorder.host(&host, &[inside]);
            }
            let failed = verify(&world, row).await.failed.expect("a reason");
            if host_of(row).is_some() {
                assert_eq!((failed.step, failed.code), (Step::Egress, codes::fetch::PRIVATE_ADDRESS));
            }
        }
        assert_eq!(world.recorder.dialled(), [], "nobody is called at {inside}");
        assert_eq!(world.recorder.lookups().len(), well_formed);
    }
    eprintln!("{} hostile registrations, {well_formed} of which may be looked up: nobody was called", rows.len());
}

/// Serves manifests rebuilt from the recorded data, with the right hash and creator: neither their endpoints nor their schemas are
/// ever called, and their texts do no harm to a terminal.
// req: SSRF-001, VERIFY-008, HARDEN-013
#[tokio::test]
async fn hostile_text_prints_harmlessly() {
    let Some(folder) = folder() else { return };
    let mut served = 0;
    for row in Hostile::all(&folder) {
        let manifest = json!({
            "type": TYPE_V1,
            "name": row.row["name"],
            "description": row.row["description"],
            "endpoint": row.row["endpoint"],
            "inputs": inputs(&row.row["inputs"]),
            "outputs": {"type": "object"},
            "creatorAddress": format!("{:#x}", row.creator),
        });
        for raw in [row.row.to_string(), manifest.to_string()] {
            let world = World::new();
            // Rows without a usable host share one.
            let (host, uri) = match host_of(&row) {
                Some(host) => (host, row.uri.as_str()),
                None => ("stand-in.example.com".to_owned(), "https://stand-in.example.com/.well-known/ai-tool/probe.json"),
            };
            let body = raw.clone().into_bytes();
            let hash = hash_of(&body);
            let server = world.honest(&host, move |_| ok(&body)).await;
            let tool = FixedSource::registered(row.chain, row.id, row.creator, uri, hash);
            let evidence = verifier(&world).gather(&tool, Depth::Full).await.expect("the chain answers");
            let report = judge(&evidence, &Policy::default(), NOW);
            assert_eq!(report.hash.served, Some(hash), "it was read");
            check_harmless(&printed(&report), &row.uri);
            check_harmless(&serde_json::to_string(&report).expect("a report can be written"), &row.uri);
            let dialled = world.recorder.dialled();
            assert!(dialled.len() == 1 && ip::is_public(dialled[0].ip()), "{dialled:?}");
            assert_eq!((server.requests().len(), world.recorder.lookups()), (1, vec![host]));
            served += 1;
        }
    }
    eprintln!("{served} hostile manifests were read");
    assert!(served >= 100, "{served}");
}

/// Rebuilds a schema from the index's list of inputs.
fn inputs(listed: &Json) -> Json {
    let names = listed.as_array().into_iter().flatten().filter_map(|input| input["name"].as_str().or_else(|| input.as_str()));
    let properties: serde_json::Map<String, Json> = names.map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

// req: VERIFY-001, VERIFY-004, VERIFY-005, CREATOR-003
#[tokio::test]
async fn manifests_whose_hash_is_onchain() {
    let Some(folder) = folder() else { return };
    let rows = Gold::all(&folder);
    assert!(rows.len() >= 20, "{} rows", rows.len());
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        let world = World::new();
        let tool = FixedSource::registered(row.chain, row.id, row.creator, &row.uri, row.hash);
        let report = match WellKnown::parse(&row.uri) {
            Ok(uri) => {
                let body = row.bytes.clone();
                let server = world.honest(uri.url().host(), move |_| ok(&body)).await;
                let live = verifier(&world).live(&tool, &Policy::default(), Depth::Checks).await.expect("the chain answers");
                assert_eq!(server.requests().len(), 1, "{}", row.file);
                assert_eq!(live.verified.is_some(), live.report.is_usable(), "{}", row.file);
                live.report
            }
            // Registered at a URL where no manifest may be: no request is made, and even the right bytes would not help.
            Err(_) => {
                let mut evidence = verifier(&world).gather(&tool, Depth::Full).await.expect("the chain answers");
                assert!(evidence.manifest.is_none() && world.recorder.lookups().is_empty(), "{}", row.file);
                let mut exchange = Exchange::new(Method::Get, row.uri.clone(), NOW);
                exchange.response = Some(Response { status: 200, headers: Vec::new(), body: Body(row.bytes.clone()) });
                evidence.manifest = Some(exchange);
                let report = judge(&evidence, &Policy::default(), NOW);
                assert_eq!(report.failed.map(|failed| failed.check()), Some(Some(2)), "{}", row.file);
                report
            }
        };
        let finds = |code| report.findings.iter().any(|finding| finding.code == code);
        assert_eq!(report.hash.served, Some(row.hash), "{}", row.file);
        assert!(!finds(codes::verify::HASH_MISMATCH), "{}: the hash is the one onchain", row.file);
        assert_eq!(report.checks[3] == Check::Passed, row.creator_is_equal, "{}", row.file);
        assert_eq!(report.creator.declared == Some(row.creator), row.creator_is_equal, "{}", row.file);
        let outcome = match (report.verified, report.is_usable()) {
            (true, true) => "usable",
            (true, false) => "all checks pass, a rule is broken",
            (false, _) => "right by hash, refused",
        };
        *tally.entry(outcome).or_default() += 1;
        if !report.is_usable() {
            assert!(report.about.is_none(), "{}", row.file);
            let reason = report.findings.first().map_or("", |finding| finding.code.id());
            eprintln!("{}: {outcome}: {reason}", row.file);
        }
    }
    eprintln!("{} manifests with the hash that is onchain: {tally:?}", rows.len());
    assert!(tally.values().sum::<usize>() > tally.get("usable").copied().unwrap_or_default(), "a hash is not all: {tally:?}");
}
