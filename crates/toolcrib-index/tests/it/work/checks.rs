//! The four checks, one after the other, as the index shows them.

use alloy_primitives::B256;
use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_index::feed::Kinds;
use toolcrib_index::listing::{AccessKind, Verdict};
use toolcrib_index::work::{Reason, Wanted};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::{Policy, judge};

use super::{World, hash_of, manifest, uri};
use toolcrib_testkit::servers::{NOW, answer, ok};

// req: IDX-001
#[tokio::test(flavor = "multi_thread")]
async fn each_check_that_fails_is_named() {
    let world = World::start().await;
    let (good, _a) = world.tool("good.example", |_| {}).await;
    let _b = world.net.honest("gone.example", |_| answer("404 Not Found", "", b"")).await;
    let gone = world.register(0, &uri("gone.example"), B256::repeat_byte(1), None);
    let (elsewhere, _c) = world.tool("moved.example", |document| document["endpoint"] = json!("https://other.example/x")).await;
    let other = manifest("other.example").to_string().into_bytes();
    let _d = world.net.honest("other.example", move |_| ok(&other)).await;
    let hashed = world.register(0, &uri("other.example"), B256::repeat_byte(2), None);
    let (squatted, _e) = world.tool("squat.example", |_| {}).await;
    let hash = hash_of(manifest("squat.example").to_string().as_bytes());
    let squatter = world.register(1, &uri("squat.example"), hash, None);
    for stage in world.stages().await {
        for id in [good, gone, elsewhere, hashed, squatter] {
            stage.follow(&world, id).await;
        }
        let round = stage.work(&world).await;
        assert_eq!((round.leased, round.written), (5, 5), "{round:?}");

        let listing = stage.listing(good).await;
        assert_eq!((listing.verified, listing.conformant, listing.verdict), (true, true, Verdict::Verified));
        assert_eq!((listing.checked_at, listing.expires_at), (NOW, NOW.plus(86_400)));
        assert_eq!(listing.checks, ["passed"; 4]);
        assert!(listing.failed.is_none());
        let manifest = listing.manifest.expect("it is verified");
        assert_eq!((manifest.name.as_str(), manifest.fields), ("word-count", vec!["text".to_owned(), "words".to_owned()]));
        assert_eq!((listing.access.kind, listing.access.predicate_is_proxy), (AccessKind::Open, None));
        assert_eq!((listing.health.looks, listing.health.answered, listing.health.status()), (1, 1, "healthy"));

        for (id, check, step, code) in [
            (gone, 1, "fetch", "fetch.not_found"),
            (elsewhere, 2, "origin", "url.origin_host"),
            (hashed, 3, "hash", "verify.hash_mismatch"),
            (squatter, 4, "creator", "verify.creator_mismatch"),
        ] {
            let listing = stage.listing(id).await;
            let failed = listing.failed.clone().expect("it failed");
            assert_eq!((failed.check, failed.step.as_str(), failed.code.as_str()), (Some(check), step, code));
            assert_eq!((listing.verified, listing.verdict), (false, Verdict::Refused));
            assert_eq!(listing.checks[usize::from(check) - 1], "failed");
            assert!(listing.manifest.is_none() && listing.findings[0].code == code);
        }
        assert_eq!(stage.listed().await, [good], "what failed is left out");

        // The report and the evidence are kept, and say the same to anybody who judges again.
        let key = stage.key(squatter);
        let report = stage.queue.report(key).await.expect("read").expect("kept");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&report).expect("JSON")["failed"]["check"], 4);
        let evidence = stage.queue.evidence(key).await.expect("read").expect("kept");
        let evidence: Evidence = serde_json::from_slice(&evidence).expect("evidence");
        assert_eq!(
            judge(&evidence, &Policy::default(), NOW).failed.map(|failed| failed.code.id()),
            Some("verify.creator_mismatch")
        );
        assert!(stage.queue.verified_evidence(key).await.expect("read").is_none());

        let changes = stage.index.changes(0, 100).await.expect("changes");
        assert!(changes.len() == 10 && changes[5..].iter().all(|change| change.kinds == Kinds::VERIFICATION));
        assert!(stage.index.queue_state(NOW).await.expect("a state").due == 0);
        let _ = squatted;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_seen_and_so_is_its_repair() {
    let world = World::start().await;
    let is_broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let honest = manifest("tools.example").to_string().into_bytes();
    let hash = hash_of(&honest);
    let broken = is_broken.clone();
    let _server = world
        .net
        .honest("tools.example", move |_| if broken.load(std::sync::atomic::Ordering::SeqCst) { ok(b"{}") } else { ok(&honest) })
        .await;
    let id = world.register(0, &uri("tools.example"), hash, None);
    for stage in world.stages().await {
        is_broken.store(false, std::sync::atomic::Ordering::SeqCst);
        stage.follow(&world, id).await;
        stage.work(&world).await;
        assert_eq!(stage.listed().await, [id]);
        is_broken.store(true, std::sync::atomic::Ordering::SeqCst);
        stage.clock.advance(4_000);
        assert_eq!(stage.work(&world).await.written, 1);
        assert!(stage.listed().await.is_empty());
        let verified = stage.queue.verified_evidence(stage.key(id)).await.expect("read").expect("the last good one is kept");
        let verified: Evidence = serde_json::from_slice(&verified).expect("evidence");
        assert!(judge(&verified, &Policy::default(), verified.gathered_at).verified);
        // A good tool that turns bad is looked at again soon, not in an hour.
        stage.clock.advance(700);
        is_broken.store(false, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(stage.listed().await, [id]);
        let words: Vec<_> = stage
            .index
            .verdicts(stage.key(id), 10)
            .await
            .expect("a history")
            .iter()
            .map(|change| change.verdict.clone())
            .collect();
        assert_eq!(words, [Verdict::Verified, Verdict::Refused, Verdict::Verified], "newest first");
        // Nothing new: nothing to tell.
        let before = stage.index.last_change().await.expect("a number");
        stage.clock.advance(4_000);
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(stage.index.last_change().await.expect("a number"), before);
        assert_eq!(stage.index.verdicts(stage.key(id), 10).await.expect("a history").len(), 3);
        // Somebody thinks that it is no longer what it was.
        assert_eq!(stage.work(&world).await.leased, 0);
        stage.queue.suspect(stage.key(id), stage.clock.now()).await.expect("told");
        let wanted = Wanted { count: 9, slow: 0, seconds: 60, registries: None };
        let jobs = stage.queue.lease(wanted, stage.clock.now()).await.expect("jobs");
        assert_eq!(jobs.iter().map(|job| job.reason).collect::<Vec<_>>(), [Reason::DriftSuspect]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_breaks_a_rule_is_verified_and_not_listed() {
    let world = World::start().await;
    let (id, _server) = world.tool("odd.example", |document| document["tags"] = json!("text")).await;
    for stage in world.stages().await {
        stage.follow(&world, id).await;
        assert_eq!(stage.work(&world).await.written, 1);
        let listing = stage.listing(id).await;
        assert_eq!((listing.verified, listing.conformant, listing.verdict), (true, false, Verdict::Verified));
        assert!(listing.manifest.is_none() && listing.claims.is_some());
        assert!(stage.listed().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_ahead_of_the_index_changes_nothing() {
    let world = World::start().await;
    let (id, _a) = world.tool("tools.example", |_| {}).await;
    let (_, _b) = world.tool("next.example", |_| {}).await;
    let stages = world.stages().await;
    for stage in &stages {
        stage.follow(&world, id).await;
        stage.work(&world).await;
        assert_eq!(stage.listed().await, [id]);
    }
    let hash = hash_of(manifest("next.example").to_string().as_bytes());
    world.send(0, &world.registry.update(id, &uri("next.example"), hash));
    for stage in &stages {
        let before = stage.listing(id).await;
        assert!(stage.queue.request(stage.key(id), NOW).await.expect("asked"));
        stage.clock.advance(5);
        let round = stage.work(&world).await;
        assert_eq!((round.leased, round.postponed), (1, 1), "{round:?}");
        assert_eq!(stage.listing(id).await, before, "the follower says what is registered");
        stage.clock.advance(-5);
        stage.follow(&world, id).await;
        stage.clock.advance(5);
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(stage.listing(id).await.manifest_hash, hash);
        assert_eq!(stage.listed().await, [id]);
        stage.clock.advance(-5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chain_says_is_shown_even_while_the_server_is_away() {
    let world = World::start().await;
    let (id, server) = world.tool("tools.example", |_| {}).await;
    let stages = world.stages().await;
    for stage in &stages {
        stage.follow(&world, id).await;
        stage.work(&world).await;
        assert_eq!(stage.listing(id).await.access.kind, AccessKind::Open);
    }
    drop(server);
    world.send(0, &world.registry.set_predicate(id, Some(world.deny_all)));
    for stage in &stages {
        stage.follow(&world, id).await;
        stage.clock.advance(5);
        assert_eq!(stage.work(&world).await.kept, 1);
        let listing = stage.listing(id).await;
        assert_eq!((listing.access.kind, listing.access.predicate), (AccessKind::Gated, Some(world.deny_all)));
        assert!(listing.verified && listing.health.answered == 1 && listing.health.looks == 2);
        stage.clock.advance(-5);
    }
}
