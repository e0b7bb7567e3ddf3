//! Gateway results, and content that does not match its CID.

use alloy_primitives::Bytes;
use serde_json::json;
use toolcrib_agent::content_hash::{ContentHash, ContentMatch};
use toolcrib_agent::evidence::{AgentEvidence, GatewayAttempt, GatewayOutcome, Retrieval};
use toolcrib_agent::judge::{ContentTrust, judge_whole};
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState};
use toolcrib_core::codes;

use crate::fixture::*;

const DAG_PB: &str = "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha";

fn without_content(attempts: Vec<GatewayAttempt>) -> AgentReport {
    let mut evidence = evidence(&signed(json!({})));
    let content = evidence.content.as_mut().expect("content");
    (content.content, content.attempts) = (None, attempts);
    judged(&evidence)
}

fn tampered() -> GatewayAttempt {
    attempt("liar", GatewayOutcome::Tampered { block: DAG_PB.to_owned() })
}

fn unreachable() -> GatewayAttempt {
    let outcome = GatewayOutcome::Unreachable { code: "fetch.server_error".to_owned(), message: "status 503".to_owned() };
    attempt("down", outcome)
}

// req: AGT-017, AGT-024
#[test]
fn gateways_are_not_believed() {
    let invalid = AgentState::InvalidCid;
    assert_failed(&without_content(vec![tampered()]), invalid, "agent.content_tampered", Some(2));
    assert_failed(&without_content(vec![tampered(), tampered()]), invalid, "agent.content_tampered", Some(2));
    // Another gateway may have the genuine content, so one lying gateway decides nothing.
    let report = without_content(vec![tampered(), unreachable()]);
    assert_failed(&report, AgentState::Unreachable, "agent.content_unavailable", Some(1));
    assert!(report.has(codes::agent::CONTENT_TAMPERED));
    for attempts in [
        vec![],
        vec![unreachable()],
        vec![attempt("x", GatewayOutcome::NotFound)],
        vec![attempt("x", GatewayOutcome::Unverifiable { reason: "a file instead of a block".to_owned() })],
    ] {
        assert_failed(&without_content(attempts), AgentState::Unreachable, "agent.content_unavailable", Some(1));
    }
    let refused = |code: &str| attempt("x", GatewayOutcome::Refused { code: code.to_owned(), reason: "a folder".to_owned() });
    let report = without_content(vec![unreachable(), refused("no.such_code")]);
    assert_failed(&report, invalid, "agent.content_refused", Some(1));
    assert_failed(&without_content(vec![refused("json.too_large")]), invalid, "json.too_large", Some(1));

    let mut second = evidence(&signed(json!({})));
    second.content.as_mut().expect("content").attempts.insert(0, tampered());
    let report = judged(&second);
    assert_verified(&report);
    assert!(report.has(codes::agent::CONTENT_TAMPERED), "first gateway bad, second good");
    let mut nothing = evidence(&signed(json!({})));
    nothing.content = None;
    assert_failed(&judged(&nothing), AgentState::Unreachable, "agent.content_unavailable", Some(1));
}

/// Evidence whose CID covers blocks that are not in the evidence.
fn dag_pb() -> AgentEvidence {
    let content = signed(json!({}));
    let mut evidence = evidence(&content);
    evidence.txt = vec![records("dns", &[&format!("agt-manifest=ipfs://{DAG_PB}")])];
    evidence.content = Some(Retrieval {
        cid: DAG_PB.to_owned(),
        content: Some(Bytes::from(content.into_bytes())),
        attempts: vec![attempt("gateway", GatewayOutcome::Served)],
    });
    evidence
}

struct Always(ContentMatch);

impl ContentHash for Always {
    fn content_matches(&self, _: &str, _: &[u8]) -> ContentMatch {
        self.0
    }
}

// req: AGT-017
#[test]
fn saved_content_is_hashed_again() {
    let evidence = dag_pb();
    let with = |trust: ContentTrust<'_>| judge_whole(&evidence, &AgentPolicy::default(), None, NOW, trust).report;
    let (matches, differs, unknown) =
        (Always(ContentMatch::Matches), Always(ContentMatch::Differs), Always(ContentMatch::Unknown));
    assert_verified(&with(ContentTrust::Recheck(&matches)));
    assert_verified(&with(ContentTrust::Retrieved(&matches)));
    assert_verified(&with(ContentTrust::Retrieved(&unknown)));
    let report = with(ContentTrust::Recheck(&unknown));
    assert_failed(&report, AgentState::Unreachable, "agent.content_unchecked", Some(2));
    for trust in [ContentTrust::Recheck(&differs), ContentTrust::Retrieved(&differs)] {
        assert_failed(&with(trust), AgentState::InvalidCid, "agent.content_mismatch", Some(2));
    }
    assert_failed(&judged(&evidence), AgentState::Unreachable, "agent.content_unchecked", Some(2));
}
