//! Checks the content of the CID: steps 1 and 2.

use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::{Finding, Severity};

use super::ContentTrust;
use super::case::Case;
use crate::content_hash::ContentMatch;
use crate::evidence::{AgentEvidence, GatewayAttempt, GatewayOutcome, Retrieval};
use crate::report::{AgentState, Stage};

/// Returns the content if it was retrieved and matches the CID.
pub(super) fn check<'e>(
    case: &mut Case,
    evidence: &'e AgentEvidence,
    cid: &CidText,
    trust: ContentTrust<'_>,
) -> Option<&'e [u8]> {
    let Some(retrieval) = &evidence.content else {
        let finding = Finding::new(codes::agent::CONTENT_UNAVAILABLE).message("the manifest was not retrieved");
        case.fail(Stage::Content, Some(1), AgentState::Unreachable, finding);
        return None;
    };
    if retrieval.cid != cid.as_str() {
        let finding = Finding::new(codes::agent::EVIDENCE_UNUSABLE)
            .message("the content was retrieved by another CID than that of the record")
            .expected(cid.as_str())
            .got(&retrieval.cid);
        case.fail(Stage::Evidence, Some(1), AgentState::Unreachable, finding);
        return None;
    }
    let Some(content) = &retrieval.content else {
        not_retrieved(case, retrieval);
        return None;
    };
    for (index, attempt) in retrieval.attempts.iter().enumerate() {
        if let GatewayOutcome::Tampered { .. } = attempt.outcome {
            case.add(describe(index, attempt).severity(Severity::Warning));
        }
    }
    case.pass(1);
    let (hash, is_trusted) = match trust {
        ContentTrust::Recheck(hash) => (hash, false),
        ContentTrust::Retrieved(hash) => (hash, true),
    };
    let (state, code) = match hash.content_matches(cid.as_str(), content) {
        ContentMatch::Unknown if !is_trusted => (AgentState::Unreachable, codes::agent::CONTENT_UNCHECKED),
        ContentMatch::Differs => (AgentState::InvalidCid, codes::agent::CONTENT_MISMATCH),
        ContentMatch::Matches | ContentMatch::Unknown => {
            case.pass(2);
            return Some(&content[..]);
        }
    };
    case.fail(Stage::Content, Some(2), state, Finding::new(code).got(cid.as_str()));
    None
}

/// Judges a retrieval in which no gateway served the content.
fn not_retrieved(case: &mut Case, retrieval: &Retrieval) {
    let mut findings: Vec<(&GatewayOutcome, Finding)> = Vec::new();
    for (index, attempt) in retrieval.attempts.iter().enumerate() {
        if !matches!(attempt.outcome, GatewayOutcome::Cancelled | GatewayOutcome::Served) {
            findings.push((&attempt.outcome, describe(index, attempt)));
        }
    }
    let find = |test: fn(&GatewayOutcome) -> bool| findings.iter().position(|(outcome, _)| test(outcome));
    let refused = find(|outcome| matches!(outcome, GatewayOutcome::Refused { .. }));
    let tampered = find(|outcome| matches!(outcome, GatewayOutcome::Tampered { .. }));
    let other = find(|outcome| !matches!(outcome, GatewayOutcome::Refused { .. } | GatewayOutcome::Tampered { .. }));
    let (step, state, at) = match (refused, tampered, other) {
        // Genuine blocks that are not a file: every other gateway has the same.
        (Some(at), _, _) => (1, AgentState::InvalidCid, Some(at)),
        (None, Some(at), None) => (2, AgentState::InvalidCid, Some(at)),
        // One gateway lies and another did not respond: the content may be fine.
        (None, _, other) => (1, AgentState::Unreachable, other),
    };
    let decisive = match at {
        Some(at) => findings.remove(at).1,
        None => Finding::new(codes::agent::CONTENT_UNAVAILABLE).message("no gateway was asked"),
    };
    case.fail(Stage::Content, Some(step), state, decisive);
    for (_, finding) in findings {
        case.add(finding);
    }
}

fn describe(index: usize, attempt: &GatewayAttempt) -> Finding {
    let gateway = &attempt.gateway;
    let mut finding = match &attempt.outcome {
        GatewayOutcome::Tampered { block } => Finding::new(codes::agent::CONTENT_TAMPERED).expected(block.as_str()).got(gateway),
        GatewayOutcome::Refused { code, reason } => {
            Finding::new(Code::find(code).unwrap_or(codes::agent::CONTENT_REFUSED)).got(format!("{gateway}: {reason}"))
        }
        GatewayOutcome::NotFound => unavailable(format!("{gateway}: does not have the content")),
        GatewayOutcome::Unverifiable { reason } => unavailable(format!("{gateway}: cannot be checked: {reason}")),
        GatewayOutcome::Unreachable { code, message } => unavailable(format!("{gateway}: {message} ({code})")),
        GatewayOutcome::Cancelled | GatewayOutcome::Served => unavailable(gateway.clone()),
    };
    finding.pointer = format!("/content/attempts/{index}");
    finding
}

fn unavailable(got: String) -> Finding {
    Finding::new(codes::agent::CONTENT_UNAVAILABLE).got(got)
}
