//! Resolution with test doubles for every source.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolcrib_agent::content_hash::raw_sha256_cid;
use toolcrib_agent::evidence::{AgentEvidence, ContractRead, OwnerOutcome, TxtLookup};
use toolcrib_agent::memory::{AgentMemory, FileMemory, ProcessMemory};
use toolcrib_agent::policy::Reaction;
use toolcrib_agent::{AgentPolicy, AgentState, Resolver, judge};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes;

use crate::doubles::{Contents, Holders, Txt};
use crate::fixture::*;

/// A name with test doubles.
struct World {
    txt: Arc<Txt>,
    contents: Arc<Contents>,
    holders: Arc<Holders>,
}

impl World {
    fn with(manifest: &str) -> Self {
        let contents = Contents::default();
        contents.put(&raw_sha256_cid(manifest.as_bytes()), manifest);
        Self {
            txt: Txt::records(&[&pointer(manifest.as_bytes())]),
            contents: Arc::new(contents),
            holders: Arc::new(Holders::new(owner())),
        }
    }

    fn resolver(&self) -> Resolver {
        Resolver::new(self.contents.clone(), Arc::new(FixedClock(NOW)), "test")
            .txt_source(self.txt.clone())
            .owners(self.holders.clone())
    }

    /// Publishes another manifest for the name.
    fn publish(&self, manifest: &str) {
        self.contents.put(&raw_sha256_cid(manifest.as_bytes()), manifest);
        self.txt.set(&[&pointer(manifest.as_bytes())]);
    }
}

// req: AGT-022
#[tokio::test]
async fn a_name_resolves_and_its_evidence_is_judged_again_with_the_same_result() {
    for manifest in [signed(json!({})), sign_text(&fields(json!({})).to_string(), &keys().1), "{}".to_owned()] {
        let world = World::with(&manifest);
        let resolution = world.resolver().resolve(&domain(NAME)).await;
        let saved = serde_json::to_vec(&resolution.evidence).expect("JSON");
        let read: AgentEvidence = serde_json::from_slice(&saved).expect("evidence");
        assert_eq!(judge(&read, &AgentPolicy::default(), None, NOW), resolution.report);
        assert!(resolution.not_remembered.is_none());
        assert_eq!(resolution.manifest.is_some(), resolution.report.is_usable());
    }
    let world = World::with(&signed(json!({})));
    let resolution = world.resolver().resolve(&domain(NAME)).await;
    assert_verified(&resolution.report);
    assert_eq!(resolution.manifest.expect("verified").name(), Some("Example Agent"));
    assert_eq!(resolution.evidence.gatherer, "test");
}

// req: AGT-020
#[tokio::test]
async fn a_transfer_flips_the_next_verdict_although_the_content_is_cached() {
    let world = World::with(&signed(json!({})));
    let resolver = world.resolver();
    let name = domain(NAME);
    for _ in 0..2 {
        assert_verified(&resolver.resolve(&name).await.report);
    }
    assert_eq!((world.contents.asked(), world.holders.asked()), (1, 2), "content once, the holder every time");
    world.holders.set(OwnerOutcome::Holder(other()));
    let report = resolver.resolve(&name).await.report;
    assert_failed(&report, AgentState::InvalidOwner, "agent.holder_not_owner", Some(8));
    world.holders.set(OwnerOutcome::Failed { code: "chain.rpc_unreachable".to_owned(), message: "x".to_owned() });
    let report = resolver.resolve(&name).await.report;
    assert_failed(&report, AgentState::Unreachable, "agent.holder_unknown", Some(7));
    world.holders.set(OwnerOutcome::Holder(owner()));
    assert_verified(&resolver.resolve(&name).await.report);
    assert_eq!((world.contents.asked(), world.holders.asked()), (1, 5));
}

#[tokio::test]
async fn only_verified_content_is_cached() {
    let world = World::with(&signed(json!({})));
    world.holders.set(OwnerOutcome::NotMinted);
    let resolver = world.resolver();
    for _ in 0..3 {
        assert_eq!(resolver.resolve(&domain(NAME)).await.report.state, AgentState::InvalidOwner);
    }
    assert_eq!(world.contents.asked(), 3);
}

#[tokio::test]
async fn sources_are_asked_only_for_what_can_matter() {
    let other_name = World::with(&signed(json!({"domain": "otheragent.agt"})));
    let report = other_name.resolver().resolve(&domain(NAME)).await.report;
    assert_failed(&report, AgentState::DomainMismatch, "agent.domain_mismatch", None);
    assert_eq!((other_name.contents.asked(), other_name.holders.asked()), (1, 0), "the holder is not asked about another name");

    let legacy = World::with("{}");
    legacy.txt.set(&["agt-version=1", "agt-name=x"]);
    let resolution = legacy.resolver().resolve(&domain(NAME)).await;
    assert_eq!(resolution.report.state, AgentState::Legacy);
    assert!(resolution.legacy.is_some() && resolution.manifest.is_none());
    assert_eq!((legacy.contents.asked(), legacy.holders.asked()), (0, 0));

    let no_chain = World::with(&signed(json!({})));
    let resolver = Resolver::new(no_chain.contents.clone(), Arc::new(FixedClock(NOW)), "test").txt_source(no_chain.txt.clone());
    let report = resolver.resolve(&domain(NAME)).await.report;
    assert_failed(&report, AgentState::Unreachable, "agent.holder_unknown", Some(7));
    let report = resolver.policy(AgentPolicy::preview()).resolve(&domain(NAME)).await.report;
    assert_eq!((report.state, report.verified), (AgentState::Manifest, false));
}

// req: AGT-024
#[tokio::test]
async fn a_content_source_that_lies_is_found_out() {
    let world = World::with(&signed(json!({})));
    let cid = raw_sha256_cid(signed(json!({})).as_bytes());
    world.contents.put(&cid, &signed(json!({"name": "Another Agent"})));
    let report = world.resolver().resolve(&domain(NAME)).await.report;
    assert_failed(&report, AgentState::InvalidCid, "agent.content_mismatch", Some(2));
}

#[tokio::test(start_paused = true)]
async fn txt_sources_are_asked_side_by_side() {
    let world = World::with(&signed(json!({})));
    let second = Duration::from_secs(1);
    let pointer = pointer(signed(json!({})).as_bytes());
    let mut resolver = world.resolver();
    for _ in 0..5 {
        resolver = resolver.txt_source(Txt::slow(&[&pointer], second));
    }
    let started = Instant::now();
    assert_verified(&resolver.resolve(&domain(NAME)).await.report);
    assert_eq!(started.elapsed(), second);
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_does_not_use_up_the_time_of_the_others() {
    let for_ever = Duration::from_secs(1_000_000);
    let deadline = Duration::from_secs(10);
    let manifest = signed(json!({}));
    let hanging = || Txt::slow(&[], for_ever);
    let world = World::with(&manifest);
    let started = Instant::now();
    let resolution = world.resolver().deadline(deadline).txt_source(hanging()).resolve(&domain(NAME)).await;
    assert_verified(&resolution.report);
    assert!(resolution.report.has(codes::agent::TXT_UNANSWERED));
    assert!(matches!(resolution.evidence.txt[1].outcome, TxtLookup::Failed { .. }));
    assert_eq!(resolution.evidence.txt[1].millis, 4_000);
    assert_eq!(started.elapsed(), Duration::from_secs(4));

    let contents = Arc::new(Contents { delay: for_ever, ..Contents::default() });
    let slow = World { contents, ..World::with(&manifest) };
    let started = Instant::now();
    let report = slow.resolver().deadline(deadline).resolve(&domain(NAME)).await.report;
    assert_failed(&report, AgentState::Unreachable, "agent.content_unavailable", Some(1));
    assert_eq!(started.elapsed(), Duration::from_secs(8));

    let holders = Arc::new(Holders { delay: for_ever, ..Holders::new(owner()) });
    let slow = World { holders, ..World::with(&manifest) };
    let started = Instant::now();
    let report = slow.resolver().deadline(deadline).resolve(&domain(NAME)).await.report;
    assert_failed(&report, AgentState::Unreachable, "agent.holder_unknown", Some(7));
    assert_eq!(started.elapsed(), deadline, "never longer than the deadline");
}

#[tokio::test]
async fn what_is_verified_is_remembered_across_resolvers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agents.json");
    let open = || Arc::new(FileMemory::open(&path).expect("readable"));
    let strict = AgentPolicy { rollback: Reaction::Fail, ..AgentPolicy::default() };
    let (old, new) = (signed(json!({})), signed(json!({"created_at": "2026-05-09T00:00:00Z"})));
    let world = World::with(&new);
    let name = domain(NAME);
    assert_verified(&world.resolver().memory(open()).policy(strict.clone()).resolve(&name).await.report);
    world.publish(&old);
    let resolver = world.resolver().memory(open()).policy(strict);
    let report = resolver.resolve(&name).await.report;
    assert_failed(&report, AgentState::Rollback, "agent.rollback", None);
    assert_eq!(open().recall(&name).expect("remembered").cid, raw_sha256_cid(new.as_bytes()), "the newest stays");
    world.txt.set(&["agt-version=1"]);
    assert_failed(&resolver.resolve(&name).await.report, AgentState::Downgrade, "agent.downgrade", None);
    world.publish(&new);
    assert_verified(&resolver.resolve(&name).await.report);
}

#[tokio::test]
async fn a_memory_that_cannot_be_written_is_reported_beside_the_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agents.json");
    let memory = Arc::new(FileMemory::open(&path).expect("empty"));
    std::fs::write(&path, "damaged by another program").expect("written");
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let world = World::with(&signed(json!({})));
    let resolution = world.resolver().memory(memory).resolve(&domain(NAME)).await;
    assert_verified(&resolution.report);
    assert_eq!(resolution.not_remembered.expect("not written").code().id(), "agent.memory_damaged");
}

#[tokio::test]
async fn unverified_names_are_not_remembered() {
    let memory = Arc::new(ProcessMemory::default());
    let world = World::with(&signed(json!({})));
    world.holders.set(OwnerOutcome::Holder(other()));
    let _ = world.resolver().memory(memory.clone()).resolve(&domain(NAME)).await;
    assert_eq!(memory.recall(&domain(NAME)), None);
}

#[tokio::test]
async fn contracts_are_asked_only_if_the_policy_allows_them() {
    let wallet = alloy_primitives::Address::repeat_byte(0x5a);
    let manifest = sign_text(&fields(json!({"owner": wallet.to_checksum(None)})).to_string(), &keys().0);
    let holders = Holders { contract: Some(ContractRead::Accepted), ..Holders::new(wallet) };
    let world = World { holders: Arc::new(holders), ..World::with(&manifest) };
    let resolution = world.resolver().resolve(&domain(NAME)).await;
    assert_eq!(resolution.report.state, AgentState::InvalidSignature);
    assert_eq!(resolution.evidence.owner.expect("read").contract, None, "not asked");
    let allowed = AgentPolicy { allow_contract_owner: true, ..AgentPolicy::default() };
    assert_verified(&world.resolver().policy(allowed).resolve(&domain(NAME)).await.report);
}

#[tokio::test]
async fn files_are_verified_against_the_registry() {
    let world = World::with("{}");
    let resolver = world.resolver();
    let good = signed(json!({}));
    let report = resolver.verify_manifest(good.as_bytes(), None).await.report;
    assert_eq!((report.state, report.verified, passed(&report)), (AgentState::Manifest, false, vec![3, 4, 5, 6, 7, 8]));
    let report = resolver.verify_manifest(good.as_bytes(), Some(&domain("otheragent.agt"))).await.report;
    assert_failed(&report, AgentState::DomainMismatch, "agent.domain_mismatch", None);
    assert_eq!(world.holders.asked(), 1);
    world.holders.set(OwnerOutcome::Holder(other()));
    let report = resolver.verify_manifest(good.as_bytes(), Some(&domain(NAME))).await.report;
    assert_failed(&report, AgentState::InvalidOwner, "agent.holder_not_owner", Some(8));
}
