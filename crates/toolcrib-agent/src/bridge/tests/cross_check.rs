use alloy_primitives::Address;
use toolcrib_judge::Verdict;

use super::super::cross_check::{EndpointRelation, MAX_CANDIDATES, MAX_MATCHES, ToolCandidate};
use super::*;

fn owner() -> Address {
    OWNER.parse().unwrap()
}

fn tool(endpoint: &str, creator: Address, verdict: Verdict) -> ToolCandidate {
    ToolCandidate { tool: format!("tool at {endpoint}"), endpoint: endpoint.to_owned(), creator, verdict }
}

fn agent() -> AgentManifest {
    manifest(json!({"protocols": [
        {"id": "mcp", "endpoint": "https://agent.example.com/mcp"},
        {"id": "http", "endpoint": "https://agent.example.com/api/v1"},
        {"id": "ws", "endpoint": "wss://agent.example.com/live"},
    ]}))
}

#[test]
fn the_same_wallet_vouches_for_both_only_if_both_are_verified() {
    let endpoint = "https://Agent.example.com:443/mcp";
    for (agent_verdict, tool_verdict, creator, confirmed, found) in [
        (Verdict::Verified, Verdict::Verified, owner(), true, None),
        (Verdict::Verified, Verdict::Refused, owner(), false, Some(code::TOOL_NOT_VERIFIED)),
        (Verdict::Unknown, Verdict::Verified, owner(), false, Some(code::TOOL_NOT_VERIFIED)),
        (Verdict::Verified, Verdict::Verified, Address::repeat_byte(7), false, Some(code::TOOL_CREATOR_DIFFERS)),
        (Verdict::Refused, Verdict::Refused, Address::repeat_byte(7), false, Some(code::TOOL_CREATOR_DIFFERS)),
    ] {
        let report = cross_check(&agent(), agent_verdict, &[tool(endpoint, creator, tool_verdict)]);
        let found_tool = &report.endpoints[0].tools[0];
        assert_eq!(
            (found_tool.place, found_tool.confirmed, found_tool.verdict),
            (EndpointRelation::Same, confirmed, tool_verdict)
        );
        assert_eq!(found_tool.same_owner, creator == owner());
        assert_eq!(report.verdict, agent_verdict);
        assert_eq!(report.findings.first().map(|finding| finding.code), found, "{agent_verdict:?} {tool_verdict:?}");
    }
}

#[test]
fn tools_are_matched_by_origin_and_path() {
    let candidates: Vec<_> = [
        "https://agent.example.com/api/v1",
        "https://agent.example.com/api/v1/research?x=1",
        "https://agent.example.com/api/v10",
        "https://agent.example.com/other",
        "https://agent.example.com:8443/api/v1",
        "https://other.example.com/api/v1",
        "http://agent.example.com/api/v1",
        "not a url",
    ]
    .into_iter()
    .map(|endpoint| tool(endpoint, owner(), Verdict::Verified))
    .collect();
    let report = cross_check(&agent(), Verdict::Verified, &candidates);
    let places: Vec<_> = report.endpoints[1].tools.iter().map(|tool| tool.place).collect();
    assert_eq!(
        places,
        [EndpointRelation::Same, EndpointRelation::Below, EndpointRelation::SameOrigin, EndpointRelation::SameOrigin]
    );
    assert_eq!(report.endpoints[1].tools[1].endpoint, "https://agent.example.com/api/v1/research?x=1");
    // A WebSocket endpoint is not an https endpoint.
    assert!(report.endpoints[2].tools.is_empty());
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    // Another creator on the same origin alone is not suspicious: hosts are shared.
    let neighbour = [tool("https://agent.example.com/other", Address::repeat_byte(7), Verdict::Verified)];
    assert!(cross_check(&agent(), Verdict::Verified, &neighbour).findings.is_empty());
    let below = [tool("https://agent.example.com/api/v1/x", Address::repeat_byte(7), Verdict::Verified)];
    let findings = cross_check(&agent(), Verdict::Verified, &below).findings;
    assert_eq!((findings[0].code, findings[0].severity), (code::TOOL_CREATOR_DIFFERS, Severity::Hint));
}

#[test]
fn the_root_has_one_spelling() {
    let manifest = manifest(json!({"protocols": [{"id": "http", "endpoint": "https://agent.example.com"}]}));
    let candidates =
        ["https://agent.example.com/", "https://agent.example.com/x"].map(|url| tool(url, owner(), Verdict::Verified));
    let report = cross_check(&manifest, Verdict::Verified, &candidates);
    let places: Vec<_> = report.endpoints[0].tools.iter().map(|tool| tool.place).collect();
    assert_eq!(places, [EndpointRelation::Same, EndpointRelation::SameOrigin]);
}

#[test]
fn long_lists_are_bounded() {
    let candidates: Vec<_> = (0..=MAX_CANDIDATES)
        .map(|index| tool(&format!("https://agent.example.com/api/v1/{index}"), Address::repeat_byte(7), Verdict::Unknown))
        .collect();
    let report = cross_check(&agent(), Verdict::Verified, &candidates);
    assert!(report.endpoints.iter().all(|endpoint| endpoint.tools.len() <= MAX_MATCHES));
    let limits = report.findings.iter().filter(|finding| finding.code == code::TOO_MANY_TOOLS).count();
    assert_eq!(limits, 3, "one for the list, one for each endpoint on that host");
}

#[test]
fn the_report_can_be_written() {
    let report = cross_check(&agent(), Verdict::Partial, &[tool("https://agent.example.com/mcp", owner(), Verdict::Verified)]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["domain"], "exampleagent.agt");
    assert_eq!(json["verdict"], "partial");
    assert_eq!(json["endpoints"][0]["tools"][0]["place"], "same");
    assert_eq!(json["endpoints"][0]["tools"][0]["verdict"], "verified");
    assert_eq!(json["findings"][0]["code"], "agent.tool_not_verified");
}
