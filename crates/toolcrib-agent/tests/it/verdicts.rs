//! Complete verdicts: the fields of a verified report, and that a single failure is enough to reject.

use alloy_primitives::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_agent::evidence::{AgentEvidence, OwnerOutcome};
use toolcrib_agent::judge::{MAX_SOURCES, judge_file};
use toolcrib_agent::report::{ManifestSource, SignedBy};
use toolcrib_agent::{AgentPolicy, AgentState, judge};
use toolcrib_core::codes;

use crate::fixture::*;

// req: AGT-020, AGT-022
#[test]
fn a_genuine_manifest_is_verified() {
    let evidence = evidence(&signed(json!({})));
    let judgement = judged_whole(&evidence, &AgentPolicy::default());
    let report = &judgement.report;
    assert_verified(report);
    assert!(report.conformant && report.is_usable() && !report.legacy);
    assert_eq!(report.source, Some(ManifestSource::V1));
    assert_eq!((report.owner, report.holder), (Some(owner()), Some(owner())));
    assert_eq!(report.signed_by, Some(SignedBy::Key));
    assert_eq!(judgement.manifest.expect("verified").domain(), &domain(NAME));
    assert!(judgement.legacy.is_none() && report.claims.is_none());

    let mut json = serde_json::to_value(report).expect("JSON");
    assert_eq!(json["findings"].take(), json!([]));
    let about = json["about"].take();
    let content = json["content"].take();
    assert_eq!(
        json,
        json!({
            "domain": NAME, "state": "manifest", "verified": true, "conformant": true, "legacy": false, "source": "v1", "failed": null,
            "steps": (1..=8).map(|step| json!({"step": step, "result": "passed", "code": null})).collect::<Vec<_>>(),
            "findings": null, "content": null, "created_at": 1_777_658_400,
            "token_id": "0x83a287e66590d5365701d1345f59a53cc04197e83a2cde96935cf2b6b48f8922",
            "owner": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "holder": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "signed_by": "eip-191", "gathered_at": 1_780_000_000, "chain_id": 137, "block": 80_000_000, "about": null, "claims": null,
        })
    );
    assert_eq!(about["name"], "Example Agent");
    assert_eq!(about["protocols"][0]["endpoint"], "https://agents.toolcrib.dev/mcp");
    assert_eq!(about["capabilities"][0]["id"], "research");
    assert_eq!(about["pricing"]["paid"]["amount"], "0.01");
    assert_eq!(content["cid"], Value::String(evidence.content.as_ref().expect("content").cid.clone()));
}

/// Three manifests, each genuine except for one step.
fn single_faults() -> [(u8, &'static str, AgentState, AgentEvidence); 3] {
    let good = signed(json!({}));
    let mut tampered = evidence(&good);
    let content = tampered.content.as_mut().expect("content");
    content.content = Some(Bytes::from(signed(json!({"name": "Another Agent"})).into_bytes()));

    let forged = evidence(&sign_text(&fields(json!({})).to_string(), &keys().1));

    let mut transferred = evidence(&good);
    transferred.owner = Some(read_of(NAME, OwnerOutcome::Holder(other())));
    [
        (2, "agent.content_mismatch", AgentState::InvalidCid, tampered),
        (5, "agent.signer_not_owner", AgentState::InvalidSignature, forged),
        (8, "agent.holder_not_owner", AgentState::InvalidOwner, transferred),
    ]
}

// req: AGT-021, AGT-017, AGT-018, AGT-020
#[test]
fn one_failed_step_of_three_rejects() {
    for (step, code, state, evidence) in single_faults() {
        let report = judged(&evidence);
        assert_failed(&report, state, code, Some(step));
        let others: Vec<u8> = (1..=8).filter(|&number| number != step).collect();
        // Content that does not match its CID is not parsed, so nothing after step 2 is reached.
        assert_eq!(passed(&report), if step == 2 { vec![1] } else { others });
    }
}

// req: AGT-022
#[test]
fn a_broken_manifest_never_gives_way_to_legacy_records() {
    for (_, code, state, mut evidence) in single_faults() {
        let cid = evidence.content.as_ref().expect("content").cid.clone();
        let pointer = format!("agt-manifest=ipfs://{cid}");
        evidence.txt = vec![records("dns", &["agt-version=1", "agt-name=Old", &pointer])];
        let report = judged(&evidence);
        assert_eq!((report.state, report.failed.expect("failed").code.id()), (state, code));
        assert!(!report.legacy && report.source == Some(ManifestSource::V1));
        assert!(report.has(codes::agent::POINTER_WITH_LEGACY), "both is a finding");
    }
}

// req: AGT-005
#[test]
fn the_name_is_compared_before_anything_else() {
    // A genuine manifest of another agent whose owner also owns this name: every other check passes.
    let report = judged(&evidence(&signed(json!({"domain": "otheragent.agt"}))));
    assert_failed(&report, AgentState::DomainMismatch, "agent.domain_mismatch", None);
    assert_eq!(passed(&report), [1, 2]);
    // The signature is wrong too, but the name still decides.
    let forged = sign_text(&fields(json!({"domain": "otheragent.agt"})).to_string(), &keys().1);
    assert_failed(&judged(&evidence(&forged)), AgentState::DomainMismatch, "agent.domain_mismatch", None);
    for spelling in ["ExampleAgent.agt", "exampleagent.agt.", "EXAMPLEAGENT.AGT", "exаmpleagent.agt", " exampleagent.agt"] {
        let report = judged(&evidence(&signed(json!({"domain": spelling}))));
        assert_failed(&report, AgentState::DomainMismatch, "agent.domain_malformed", None);
    }
    for missing in [json!({"domain": null}), json!({"domain": 7})] {
        assert_eq!(judged(&evidence(&signed(missing))).state, AgentState::InvalidManifest);
    }
}

/// The canonical form of a name as people write it.
fn domain_of(text: &str) -> String {
    toolcrib_core::agent::AgtDomain::from_input(text).expect("a name").as_str().to_owned()
}

#[test]
fn names_with_unicode_are_compared_by_their_ascii_form() {
    let name = "xn--mnchen-3ya.agt";
    let mut good = evidence(&signed(json!({"domain": name})));
    good.domain = name.to_owned();
    good.owner = Some(read_of(name, OwnerOutcome::Holder(owner())));
    let report = judged(&good);
    assert_verified(&report);
    assert!(report.has(codes::agent::DOMAIN_IDN), "look-alikes are pointed out");
    // A homograph is verified as its own name, and reported as a homograph.
    let lookalike = domain_of("p\u{430}ypal.agt");
    let mut homograph = evidence(&signed(json!({"domain": lookalike})));
    homograph.owner = Some(read_of(&lookalike, OwnerOutcome::Holder(owner())));
    homograph.domain = lookalike;
    let report = judged(&homograph);
    assert_verified(&report);
    assert!(report.has(codes::url::CONFUSABLE_HOST) && report.has(codes::url::MIXED_SCRIPT), "{:?}", report.findings);
    let mut unicode = evidence(&signed(json!({"domain": "münchen.agt"})));
    unicode.domain = name.to_owned();
    assert_failed(&judged(&unicode), AgentState::DomainMismatch, "agent.domain_malformed", None);
}

// req: AGT-018
#[test]
fn no_change_of_a_single_byte_verifies() {
    let good = signed(json!({}));
    let bytes = good.as_bytes();
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        let Ok(text) = String::from_utf8(changed) else { continue };
        let report = judged(&evidence(&text));
        assert!(!report.verified, "byte {at}: {text}");
        assert!(report.failed.is_some() && report.about.is_none());
    }
}

#[test]
fn a_verified_manifest_that_breaks_other_rules_is_only_claims() {
    let long = "x".repeat(101);
    let judgement = judged_whole(&evidence(&signed(json!({"name": long}))), &AgentPolicy::default());
    let report = &judgement.report;
    assert_verified(report);
    assert!(!report.conformant && !report.is_usable());
    assert!(report.has(codes::agent::NAME_LENGTH));
    assert!(judgement.manifest.is_none() && report.about.is_none());
    assert!(report.claims.as_ref().is_some_and(|claims| claims.name.is_some()));
}

#[test]
fn claims_are_escaped_and_bounded() {
    let forged = sign_text(
        &fields(json!({"name": "red \u{1b}[31m\u{202e}", "description": "x".repeat(5_000), "protocols": vec![
            json!({"id": "mcp", "endpoint": "javascript:alert(1)"}); 50]}))
        .to_string(),
        &keys().1,
    );
    let report = judged(&evidence(&forged));
    let json = serde_json::to_string(&report.claims).expect("JSON");
    assert!(!json.contains('\u{1b}') && !json.contains('\u{202e}') && json.len() < 4_000, "{json}");
    assert_eq!(report.claims.as_ref().expect("claims").endpoints.len(), 8);
}

#[test]
fn a_preview_without_a_chain_is_labelled_unverified() {
    let mut evidence = evidence(&signed(json!({})));
    evidence.owner = None;
    assert_failed(&judged(&evidence), AgentState::Unreachable, "agent.holder_unknown", Some(7));
    let judgement = judged_whole(&evidence, &AgentPolicy::preview());
    let report = &judgement.report;
    assert_eq!((report.state, report.verified, report.failed), (AgentState::Manifest, false, None));
    assert!(report.has(codes::agent::ONCHAIN_SKIPPED) && report.about.is_none() && judgement.manifest.is_none());
    assert_eq!(passed(report), [1, 2, 3, 4, 5, 6]);
    let json = serde_json::to_value(report).expect("JSON");
    assert_eq!(json["steps"][7], json!({"step": 8, "result": "not-reached", "code": null}));
    // Skipping the chain skips no other check.
    let mut forged = single_faults()[1].3.clone();
    forged.owner = None;
    let report = judge(&forged, &AgentPolicy::preview(), None, NOW);
    assert_failed(&report, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
}

// req: AGT-023, AGT-026
#[test]
fn legacy_records_are_never_verified() {
    let mut evidence = evidence("{}");
    (evidence.content, evidence.owner) = (None, None);
    evidence.txt = vec![records("dns", &["agt-version=1", "agt-name=Old \u{1b}", "agt-endpoint-mcp=https://old.example/mcp"])];
    let judgement = judged_whole(&evidence, &AgentPolicy::default());
    let report = &judgement.report;
    assert_eq!((report.state, report.verified, report.legacy), (AgentState::Legacy, false, true));
    assert_eq!(report.source, Some(ManifestSource::V0Legacy));
    assert!(report.about.is_none() && !report.conformant && report.failed.is_none() && passed(report).is_empty());
    let json = serde_json::to_value(report).expect("JSON");
    assert_eq!((&json["source"], &json["state"]), (&json!("v0-legacy"), &json!("legacy")));
    assert_eq!(json["claims"]["name"], "Old \\u{1b}");
    let shaped = judgement.legacy.expect("legacy").to_json(Some(&domain(NAME)));
    assert!(shaped.contains(r#""legacy":true"#) && shaped.contains(r#""verified":false"#), "{shaped}");
}

#[test]
fn evidence_that_does_not_fit_together_proves_nothing() {
    let good = evidence(&signed(json!({})));
    let broken = |change: &dyn Fn(&mut AgentEvidence)| {
        let mut evidence = good.clone();
        change(&mut evidence);
        let report = judged(&evidence);
        assert_failed(&report, AgentState::Unreachable, "agent.evidence_unusable", report.failed.and_then(|failed| failed.step));
    };
    broken(&|evidence| evidence.format = 2);
    broken(&|evidence| evidence.domain = "ExampleAgent.agt".to_owned());
    broken(&|evidence| evidence.domain = "\u{1b}[31m".repeat(1_000));
    broken(&|evidence| evidence.txt = vec![evidence.txt[0].clone(); MAX_SOURCES + 1]);
    broken(&|evidence| evidence.content.as_mut().expect("content").cid.replace_range(10..11, "q"));
    let owner = |change: fn(&mut toolcrib_agent::evidence::OwnerRead)| {
        broken(&|evidence| change(evidence.owner.as_mut().expect("owner")));
    };
    // The same contract address exists on other chains, where the same token may have any owner.
    owner(|read| read.chain_id = 56);
    owner(|read| read.registry = alloy_primitives::Address::repeat_byte(7));
    owner(|read| read.token_id = domain("otheragent.agt").token_id());
}

#[test]
fn saved_evidence_is_judged_the_same() {
    let mut all: Vec<AgentEvidence> = single_faults().into_iter().map(|(.., evidence)| evidence).collect();
    all.push(evidence(&signed(json!({}))));
    all.push(evidence("\u{0} not JSON"));
    for evidence in all {
        let saved = serde_json::to_string(&evidence).expect("JSON");
        let read: AgentEvidence = serde_json::from_str(&saved).expect("evidence");
        assert_eq!(read, evidence);
        assert_eq!(judged(&read), judged(&evidence));
    }
    let more = r#"{"format":1,"gatherer":"x","gathered_at":0,"domain":"a.agt","txt":[],"verified":true}"#;
    assert!(serde_json::from_str::<AgentEvidence>(more).is_err(), "evidence has no verdict in it");
}

#[test]
fn files_are_judged_without_records() {
    let policy = AgentPolicy::default();
    let read = read_of(NAME, OwnerOutcome::Holder(owner()));
    let good = signed(json!({}));
    let judgement = judge_file(good.as_bytes(), None, Some(&read), &policy, None, NOW);
    assert_eq!((judgement.report.state, judgement.report.verified), (AgentState::Manifest, false));
    assert!(judgement.report.failed.is_none() && judgement.report.conformant && judgement.report.has(codes::agent::FILE_ONLY));
    assert_eq!(passed(&judgement.report), [3, 4, 5, 6, 7, 8]);
    let other = domain("otheragent.agt");
    let judgement = judge_file(good.as_bytes(), Some(&other), None, &policy, None, NOW);
    assert_failed(&judgement.report, AgentState::DomainMismatch, "agent.domain_mismatch", None);
    for (text, state) in [
        ("", AgentState::InvalidManifest),
        ("[]", AgentState::InvalidManifest),
        ("{}", AgentState::InvalidManifest),
        (r#"{"domain":"A.agt"}"#, AgentState::DomainMismatch),
    ] {
        let judgement = judge_file(text.as_bytes(), None, None, &policy, None, NOW);
        assert_eq!(judgement.report.state, state, "{text}");
    }
}

#[test]
fn every_state_has_its_own_word() {
    let mut words: Vec<&str> = AgentState::ALL.iter().map(|state| state.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), AgentState::ALL.len());
    assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_content_is_answered_and_none_is_verified(
        cut in 0..1_000_usize,
        put in prop::collection::vec(any::<u8>(), 0..12),
        texts in prop::collection::vec("(agt-(version|manifest|name)=?)?[ -~é\"]{0,20}", 0..4),
        keep_pointer in any::<bool>(),
    ) {
        let good = signed(json!({})).into_bytes();
        let at = cut % good.len();
        let changed: Vec<u8> = [&good[..at], &put, &good[at..]].concat();
        let mut evidence = evidence("{}");
        let content = evidence.content.as_mut().expect("content");
        content.cid = toolcrib_agent::content_hash::raw_sha256_cid(&changed);
        content.content = Some(Bytes::from(changed.clone()));
        let mut all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let pointer = pointer(&changed);
        if keep_pointer {
            all.push(&pointer);
        }
        evidence.txt = vec![records("dns", &all)];
        let report = judged(&evidence);
        // White space is the only insertion that does not change what was signed.
        let is_same = serde_json::from_slice::<Value>(&changed).ok() == serde_json::from_slice::<Value>(&good).ok();
        prop_assert!(!report.verified || (is_same && keep_pointer), "{:?}", String::from_utf8_lossy(&changed));
        prop_assert_eq!(report.failed.is_some(), report.findings.first().is_some_and(|first| Some(first.code) == report.failed.map(|failed| failed.code)));
        serde_json::to_string(&report).expect("JSON");
    }
}
