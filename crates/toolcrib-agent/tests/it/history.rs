//! Rollbacks, downgrades and transfers compared with what was verified before.

use alloy_primitives::Address;
use serde_json::json;
use toolcrib_agent::memory::Remembered;
use toolcrib_agent::policy::Reaction;
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState, judge};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};

use crate::fixture::*;

fn report(created_at: &str, remembered: Option<&Remembered>, policy: &AgentPolicy) -> AgentReport {
    judge(&evidence(&signed(json!({"created_at": created_at}))), policy, remembered, NOW)
}

fn remembered(created_at: &str) -> Remembered {
    let report = report(created_at, None, &AgentPolicy::default());
    Remembered::of(&report, NOW).expect("verified")
}

fn codes_of(report: &AgentReport) -> Vec<Code> {
    report.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn a_step_back_to_an_older_manifest_is_noticed() {
    let policy = |rollback| AgentPolicy { rollback, ..AgentPolicy::default() };
    let known = remembered("2026-05-02T00:00:00Z");
    let older = "2026-05-01T00:00:00Z";
    let warned = report(older, Some(&known), &policy(Reaction::Warn));
    assert_verified(&warned);
    assert_eq!(codes_of(&warned), [codes::agent::ROLLBACK]);
    let refused = report(older, Some(&known), &policy(Reaction::Fail));
    assert_failed(&refused, AgentState::Rollback, "agent.rollback", None);
    assert_eq!(passed(&refused), [1, 2, 3, 4, 5, 6, 7, 8], "all steps of the specification pass");
    assert!(codes_of(&report(older, Some(&known), &policy(Reaction::Off))).is_empty());
    for newer in ["2026-05-02T00:00:00Z", "2026-05-02T00:00:01Z", "2026-05-02T02:00:00+01:00"] {
        let report = report(newer, Some(&known), &policy(Reaction::Fail));
        assert_verified(&report);
        assert!(codes_of(&report).is_empty(), "{newer}");
    }
    assert!(codes_of(&report(older, None, &policy(Reaction::Fail))).is_empty(), "nothing is known");
}

#[test]
fn a_time_that_is_used_twice_is_noticed() {
    let known = remembered("2026-05-02T00:00:00Z");
    let changed = signed(json!({"created_at": "2026-05-02T00:00:00Z", "name": "Changed"}));
    let report = judge(&evidence(&changed), &AgentPolicy::default(), Some(&known), NOW);
    assert_verified(&report);
    assert_eq!(codes_of(&report), [codes::agent::CREATED_AT_REUSED]);
    // The same content with another formatting has another CID, but is not a change.
    let same = signed(json!({"created_at": "2026-05-02T00:00:00Z"}));
    let value: serde_json::Value = serde_json::from_str(&same).expect("JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("JSON");
    assert!(codes_of(&judge(&evidence(&pretty), &AgentPolicy::default(), Some(&known), NOW)).is_empty());
}

#[test]
fn a_time_in_the_future_does_not_block_later_updates() {
    let far = report("2099-01-01T00:00:00Z", None, &AgentPolicy::default());
    let known = Remembered::of(&far, NOW).expect("verified");
    assert_eq!(known.created_at, NOW);
    let strict = AgentPolicy { rollback: Reaction::Fail, ..AgentPolicy::default() };
    assert_verified(&report("2026-12-01T00:00:00Z", Some(&known), &strict));
}

#[test]
fn an_unverified_result_is_not_remembered() {
    let mut transferred = evidence(&signed(json!({})));
    transferred.owner = Some(read_of(NAME, toolcrib_agent::evidence::OwnerOutcome::Holder(other())));
    assert_eq!(Remembered::of(&judged(&transferred), NOW), None);
    let mut preview = evidence(&signed(json!({})));
    preview.owner = None;
    assert_eq!(Remembered::of(&judge(&preview, &AgentPolicy::preview(), None, NOW), NOW), None);
    let legacy = with_records(&["agt-version=1"], None, &AgentPolicy::default());
    assert_eq!(Remembered::of(&legacy, NOW), None);
    assert!(remembered("2026-05-01T00:00:00Z").created_at < UnixTime::from_seconds(1_777_658_400));
}

fn with_records(texts: &[&str], known: Option<&Remembered>, policy: &AgentPolicy) -> AgentReport {
    let mut evidence = evidence("{}");
    (evidence.content, evidence.owner) = (None, None);
    evidence.txt = vec![records("dns", texts)];
    judge(&evidence, policy, known, NOW)
}

#[test]
fn a_name_that_had_a_manifest_does_not_go_back_to_legacy_records() {
    let known = remembered("2026-05-02T00:00:00Z");
    let policy = |downgrade| AgentPolicy { downgrade, ..AgentPolicy::default() };
    let legacy = ["agt-version=1", "agt-name=x"];
    let refused = with_records(&legacy, Some(&known), &AgentPolicy::default());
    assert_failed(&refused, AgentState::Downgrade, "agent.downgrade", None);
    assert!(refused.legacy, "it still says what it is");
    let warned = with_records(&legacy, Some(&known), &policy(Reaction::Warn));
    assert_eq!((warned.state, warned.verified), (AgentState::Legacy, false));
    assert!(warned.has(codes::agent::DOWNGRADE));
    assert!(!with_records(&legacy, Some(&known), &policy(Reaction::Off)).has(codes::agent::DOWNGRADE));
    assert_eq!(with_records(&legacy, None, &AgentPolicy::default()).state, AgentState::Legacy);
    assert_eq!(with_records(&["v=spf1"], Some(&known), &AgentPolicy::default()).state, AgentState::NotAnAgent);
}

#[test]
fn a_transfer_is_pointed_out() {
    let known = Remembered { owner: Address::repeat_byte(9), ..remembered("2026-05-01T18:00:00Z") };
    let report = report("2026-05-02T00:00:00Z", Some(&known), &AgentPolicy::default());
    assert_verified(&report);
    assert_eq!(codes_of(&report), [codes::agent::OWNER_CHANGED]);
}
