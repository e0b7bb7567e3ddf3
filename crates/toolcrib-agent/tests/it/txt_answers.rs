//! Responses of TXT sources: agreement, failures, DNSSEC, and unusable pointers.

use alloy_primitives::Bytes;
use serde_json::json;
use toolcrib_agent::evidence::{Dnssec, TxtAnswer, TxtLookup};
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState, judge};
use toolcrib_core::codes;

use crate::fixture::*;

fn with_policy(txt: Vec<TxtAnswer>, policy: &AgentPolicy) -> AgentReport {
    let mut evidence = evidence(&signed(json!({})));
    evidence.txt = txt;
    judge(&evidence, policy, None, NOW)
}

fn with(txt: Vec<TxtAnswer>) -> AgentReport {
    with_policy(txt, &AgentPolicy::default())
}

fn good() -> String {
    pointer(signed(json!({})).as_bytes())
}

// req: AGT-001, AGT-003
#[test]
fn sources_that_answer_have_to_agree() {
    let (good, another) = (good(), pointer(b"another"));
    let (none, not_found) = (|| answer("none", TxtLookup::NoRecords), || answer("nx", TxtLookup::NotFound));
    // Order, quotes and other records do not matter.
    let quoted = format!("\"{good}\"");
    assert_verified(&with(vec![records("a", &["v=spf1 -all", &good]), records("b", &[&quoted, &good, "x=y"])]));
    let report = with(vec![records("a", &[&good]), failure("b")]);
    assert_verified(&report);
    assert!(report.has(codes::agent::TXT_UNANSWERED), "a failure is a finding");
    assert_verified(&with(vec![failure("a"), records("b", &[&good])]));
    for txt in [
        vec![records("a", &[&good]), records("b", &[&another])],
        vec![records("a", &[&good]), none()],
        vec![records("a", &[&good]), not_found()],
        vec![not_found(), records("a", &[&good])],
        vec![records("a", &[&good]), failure("b"), records("c", &["agt-version=1"])],
        vec![records("a", &["agt-version=1", "agt-name=x"]), records("b", &["agt-version=1", "agt-name=y"])],
    ] {
        assert_failed(&with(txt), AgentState::Ambiguous, "agent.txt_disagree", None);
    }
    let legacy = with(vec![
        records("a", &["agt-version=1", "agt-cap=chat", "agt-cap=ocr"]),
        records("b", &["agt-cap=ocr", "\"agt-version=1\"", "agt-cap=chat"]),
    ]);
    assert_eq!(legacy.state, AgentState::Legacy, "the order of DNS means nothing");
    for (txt, state, code) in [
        (vec![not_found(), not_found()], AgentState::NotFound, "agent.not_found"),
        (vec![not_found()], AgentState::NotFound, "agent.not_found"),
        (vec![none()], AgentState::NotAnAgent, "agent.not_an_agent"),
        (vec![not_found(), none()], AgentState::NotAnAgent, "agent.not_an_agent"),
        (vec![none(), records("a", &["v=spf1 -all"])], AgentState::NotAnAgent, "agent.not_an_agent"),
        (vec![records("a", &["agt-version=2", "agt-name=x"])], AgentState::NotAnAgent, "agent.not_an_agent"),
        (vec![records("a", &[])], AgentState::NotAnAgent, "agent.not_an_agent"),
        (vec![failure("a"), failure("b")], AgentState::Unreachable, "agent.txt_unanswered"),
        (vec![], AgentState::Unreachable, "agent.txt_unanswered"),
    ] {
        assert_failed(&with(txt), state, code, None);
    }
    let report = with(vec![failure("a"), failure("b")]);
    assert_eq!(report.findings.len(), 2, "every failure is reported");
}

// req: AGT-001, AGT-002, AGT-022
#[test]
fn pointers_that_cannot_be_followed() {
    let (good, another) = (good(), pointer(b"another"));
    for (records_of, state, code) in [
        (vec![good.as_str(), another.as_str()], AgentState::Ambiguous, "agent.pointer_ambiguous"),
        (vec![&good, &another, "agt-manifest=https://x.example"], AgentState::Ambiguous, "agent.pointer_ambiguous"),
        (vec!["agt-manifest=https://x.example/m.json"], AgentState::InvalidCid, "agent.pointer_not_ipfs"),
        (vec!["agt-manifest=ipns://x.example"], AgentState::InvalidCid, "agent.pointer_not_ipfs"),
        (vec![&good, "agt-manifest=ipfs://"], AgentState::InvalidCid, "agent.pointer_cid"),
        (
            vec!["agt-manifest=ipfs://QmTzGrdxq4r9NSuFWjbjD5ghPswhgVT3UVv9NTEGSerAPZ", "agt-version=1"],
            AgentState::InvalidCid,
            "agent.pointer_cid_v0",
        ),
        (vec!["AGT-Manifest=ipfs://x"], AgentState::NotAnAgent, "agent.not_an_agent"),
    ] {
        let report = with(vec![records("a", &records_of)]);
        assert_failed(&report, state, code, None);
        assert!(!report.legacy, "legacy records are not used instead");
    }
    assert_verified(&with(vec![records("a", &[&good, &good])]));
    let not_text = TxtLookup::Records(vec![Bytes::from_static(b"agt-manifest=ipfs://\xff\x00")]);
    assert_failed(&with(vec![answer("a", not_text)]), AgentState::InvalidCid, "agent.pointer_cid", None);
    let many = vec!["x"; 2_000];
    assert_failed(&with(vec![records("a", &many)]), AgentState::Ambiguous, "agent.txt_too_much", None);
}

#[test]
fn dnssec_can_be_required_and_wrong_signatures_never_count() {
    let required = AgentPolicy { require_dnssec: true, ..AgentPolicy::default() };
    let marked = |dnssec| vec![TxtAnswer { dnssec, ..records("a", &[&good()]) }];
    assert_verified(&with_policy(marked(Dnssec::Secure), &required));
    for dnssec in [Dnssec::Unchecked, Dnssec::Insecure] {
        assert_verified(&with(marked(dnssec)));
        assert_failed(&with_policy(marked(dnssec), &required), AgentState::Unreachable, "agent.txt_not_secure", None);
    }
    for policy in [&AgentPolicy::default(), &required] {
        let report = with_policy(marked(Dnssec::Bogus), policy);
        assert_failed(&report, AgentState::Unreachable, "agent.txt_not_secure", None);
    }
    // A forged response next to a secure one is ignored and reported.
    let mut both = marked(Dnssec::Secure);
    both.push(TxtAnswer { dnssec: Dnssec::Bogus, ..records("b", &[&pointer(b"another")]) });
    let report = with(both);
    assert_verified(&report);
    assert!(report.has(codes::agent::TXT_NOT_SECURE));
}
