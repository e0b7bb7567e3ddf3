//! Owner reads of registries and nodes.

use serde_json::json;
use toolcrib_agent::evidence::OwnerOutcome;
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState, judge};
use toolcrib_core::codes;

use crate::fixture::*;

fn with(outcome: OwnerOutcome, policy: &AgentPolicy) -> AgentReport {
    let mut evidence = evidence(&signed(json!({})));
    evidence.owner = Some(read_of(NAME, outcome));
    judge(&evidence, policy, None, NOW)
}

fn failed(code: &str) -> OwnerOutcome {
    OwnerOutcome::Failed { code: code.to_owned(), message: "x".to_owned() }
}

// req: AGT-020
#[test]
fn only_the_holder_verifies_and_only_the_registry_refuses() {
    let policy = AgentPolicy::default();
    assert_verified(&with(OwnerOutcome::Holder(owner()), &policy));
    assert_failed(&with(OwnerOutcome::Holder(other()), &policy), AgentState::InvalidOwner, "agent.holder_not_owner", Some(8));
    assert_failed(&with(OwnerOutcome::NotMinted, &policy), AgentState::InvalidOwner, "agent.not_minted", Some(8));
    for code in ["chain.rpc_unreachable", "chain.rpc_rate_limited", "chain.no_quorum", "chain.wrong_chain", "no.such_code"] {
        assert_failed(&with(failed(code), &policy), AgentState::Unreachable, "agent.holder_unknown", Some(7));
    }
    for outcome in [OwnerOutcome::NoCode, OwnerOutcome::Malformed { reason: "31 bytes".to_owned() }] {
        assert_failed(&with(outcome, &policy), AgentState::Unreachable, "agent.registry_answer", Some(7));
    }
}

#[test]
fn a_preview_still_refuses_what_the_registry_refuses() {
    let preview = AgentPolicy::preview();
    assert_verified(&with(OwnerOutcome::Holder(owner()), &preview));
    assert_failed(&with(OwnerOutcome::NotMinted, &preview), AgentState::InvalidOwner, "agent.not_minted", Some(8));
    for outcome in [failed("chain.rpc_timeout"), OwnerOutcome::NoCode] {
        let report = with(outcome, &preview);
        assert_eq!((report.state, report.verified, report.failed), (AgentState::Manifest, false, None));
        assert!(report.has(codes::agent::ONCHAIN_SKIPPED));
    }
}
