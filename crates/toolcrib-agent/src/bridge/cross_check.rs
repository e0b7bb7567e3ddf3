//! Compares an agent with registered ERC-8257 tools: which tools run at its endpoints, and whether the same wallet owns both.
//!
//! The caller finds candidates in an index of tools, for example all tools on the agent's hosts. Nothing is verified here: the caller
//! passes the verdicts of the agent and of each tool, and they are reported side by side.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use serde::Serialize;
use toolcrib_core::agent::AgentManifest;
pub use toolcrib_core::agent::place::EndpointRelation;
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Findings, Severity};
use toolcrib_core::url::HttpsUrl;
use toolcrib_judge::Verdict;

use super::export::{about, endpoint_pointer};

/// Maximum number of candidates for one agent. An agent has a handful of hosts, and a host rarely more than some dozen tools.
pub const MAX_CANDIDATES: usize = 1_000;

/// Maximum number of reported matches for one endpoint.
pub const MAX_MATCHES: usize = 100;

/// A registered tool that may run at an endpoint of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCandidate {
    /// The tool's reference, such as `eip155:8453:0x…/7`. The report repeats it.
    pub tool: String,
    /// Its endpoint.
    pub endpoint: String,
    /// The wallet that registered it.
    pub creator: Address,
    /// The tool's verdict.
    pub verdict: Verdict,
}

/// The comparison of an agent with registered tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrossCheck {
    /// The name of the agent.
    pub domain: String,
    /// Its owner.
    pub owner: Address,
    /// The agent's verdict.
    pub verdict: Verdict,
    /// Its endpoints, in the order of the manifest.
    pub endpoints: Vec<EndpointCheck>,
    /// Findings about the matches.
    pub findings: Vec<Finding>,
}

/// One endpoint of the agent with the matching tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointCheck {
    /// The protocol.
    pub protocol: String,
    /// The endpoint in the manifest. Untrusted text.
    pub endpoint: String,
    /// The matching tools, the closest first.
    pub tools: Vec<ToolMatch>,
}

/// A tool at an endpoint of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolMatch {
    /// The tool's reference.
    pub tool: String,
    /// Its endpoint. Untrusted text.
    pub endpoint: String,
    /// How the two endpoints relate.
    pub place: EndpointRelation,
    /// The wallet that registered it.
    pub creator: Address,
    /// Whether that wallet owns the agent.
    pub same_owner: bool,
    /// The tool's verdict.
    pub verdict: Verdict,
    /// Whether the same wallet provably owns both: both are verified, and the wallets are equal.
    pub confirmed: bool,
}

/// Compares the endpoints of an agent with registered tools. Tools on other origins are not reported.
pub fn cross_check(manifest: &AgentManifest, verdict: Verdict, candidates: &[ToolCandidate]) -> CrossCheck {
    let mut findings = Findings::new();
    if candidates.len() > MAX_CANDIDATES {
        findings.push(
            Finding::new(code::TOO_MANY_TOOLS)
                .expected(format!("at most {MAX_CANDIDATES} tools"))
                .got(candidates.len().to_string()),
        );
    }
    let mut by_origin: BTreeMap<_, Vec<(HttpsUrl, &ToolCandidate)>> = BTreeMap::new();
    for candidate in candidates.iter().take(MAX_CANDIDATES) {
        // A registered tool has an https endpoint; any other URL cannot match.
        if let Ok(url) = HttpsUrl::parse(&candidate.endpoint) {
            by_origin.entry(url.origin()).or_default().push((url, candidate));
        }
    }
    let mut endpoints = Vec::new();
    for (index, protocol) in manifest.protocols().enumerate() {
        let mut tools = Vec::new();
        if let Ok(url) = HttpsUrl::parse(protocol.endpoint()) {
            for (other, candidate) in by_origin.get(&url.origin()).into_iter().flatten() {
                let same_owner = candidate.creator == manifest.owner();
                let both = verdict == Verdict::Verified && candidate.verdict == Verdict::Verified;
                tools.push(ToolMatch {
                    tool: candidate.tool.clone(),
                    endpoint: candidate.endpoint.clone(),
                    place: EndpointRelation::of(&url, other).unwrap_or(EndpointRelation::SameOrigin),
                    creator: candidate.creator,
                    same_owner,
                    verdict: candidate.verdict,
                    confirmed: same_owner && both,
                });
            }
        }
        // A stable sort keeps equally close tools in the given order.
        tools.sort_by_key(|tool| tool.place);
        if tools.len() > MAX_MATCHES {
            let finding = about(code::TOO_MANY_TOOLS, endpoint_pointer(index)).expected(format!("at most {MAX_MATCHES} tools"));
            findings.push(finding.got(tools.len().to_string()));
            tools.truncate(MAX_MATCHES);
        }
        for tool in &tools {
            judge(index, tool, verdict, &mut findings);
        }
        endpoints.push(EndpointCheck { protocol: protocol.id().to_owned(), endpoint: protocol.endpoint().to_owned(), tools });
    }
    CrossCheck {
        domain: manifest.domain().to_string(),
        owner: manifest.owner(),
        verdict,
        endpoints,
        findings: findings.into_sorted(),
    }
}

fn judge(index: usize, tool: &ToolMatch, agent: Verdict, findings: &mut Findings) {
    // Many share a host, so another creator on the same origin alone is not suspicious.
    if tool.place == EndpointRelation::SameOrigin || findings.is_full() {
        return;
    }
    if !tool.same_owner {
        let severity = if tool.place == EndpointRelation::Same { Severity::Warning } else { Severity::Hint };
        findings.push(about(code::TOOL_CREATOR_DIFFERS, endpoint_pointer(index)).severity(severity).got(&tool.tool));
    } else if !tool.confirmed {
        let word = |verdict: Verdict| match verdict {
            Verdict::Verified => "verified",
            Verdict::Refused => "refused",
            Verdict::Unknown => "unknown",
            Verdict::Partial => "partly checked",
        };
        let message = format!("the agent is {}, and the tool at its endpoint {}", word(agent), word(tool.verdict));
        findings.push(about(code::TOOL_NOT_VERIFIED, endpoint_pointer(index)).message(message).got(&tool.tool));
    }
}
