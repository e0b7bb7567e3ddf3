//! Documents and records published with the drafts of the specification, and their expected verdicts.

use std::path::Path;

use alloy_primitives::Bytes;
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::judge::judge_file;
use toolcrib_agent::{AgentPolicy, AgentState, judge};
use toolcrib_core::agent::txt::records_from_text;
use toolcrib_core::codes;

use crate::fixture::*;

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

// req: AGT-023, AGT-025
#[test]
fn records_of_the_drafts() {
    let Some(folder) = toolcrib_testkit::corpus("agt") else { return };
    for (file, state, code) in [
        // A genuine pointer; nothing is fetched here, so there is no verdict on its content.
        ("txt-01-CHANGELOG.txt", AgentState::Unreachable, Some("agent.content_unavailable")),
        ("txt-08-agt-manifest-v0.2.0.txt", AgentState::Unreachable, Some("agent.content_unavailable")),
        // The placeholder in a specification is not a CID, and an invalid pointer never leads to a fallback to other records.
        ("txt-05-agt-manifest-v0.2.0.txt", AgentState::InvalidCid, Some("agent.pointer_cid")),
        // Complete sets of legacy records: readable, never verified.
        ("txt-02-technical-reference.txt", AgentState::Legacy, None),
        ("txt-04-agt-manifest-v0.1.0.txt", AgentState::Legacy, None),
        ("txt-09-agt-manifest-v0.2.0.txt", AgentState::Legacy, None),
        ("txt-11-agt-manifest-v1.0.txt", AgentState::Legacy, None),
    ] {
        let records = records_from_text(&read(&folder, file));
        let records = records.into_iter().map(|record| Bytes::from(record.bytes)).collect();
        let mut evidence = evidence("{}");
        (evidence.content, evidence.owner) = (None, None);
        evidence.txt = vec![answer("corpus", TxtLookup::Records(records))];
        let report = judge(&evidence, &AgentPolicy::default(), None, NOW);
        assert_eq!((report.state, report.failed.map(|failed| failed.code.id())), (state, code), "{file}");
        assert!(!report.verified && report.about.is_none(), "{file}");
        assert_eq!(report.legacy, state == AgentState::Legacy, "{file}");
        if state == AgentState::Legacy {
            // All four have an owner that is truncated or has a wrong checksum.
            assert!(report.has(codes::agent::LEGACY_VALUE) && report.has(codes::agent::LEGACY), "{file}");
        }
    }
}

// req: AGT-004
#[test]
fn documents_of_the_drafts() {
    let Some(folder) = toolcrib_testkit::corpus("agt") else { return };
    for (file, code) in [
        // Draft 0.2 signs the hash of other bytes, so its signatures prove nothing under 1.0.
        ("manifest-07-agt-manifest-v0.2.0.json", "agent.version_unsupported"),
        // An early sketch without a name: it could be served for any name.
        ("manifest-03-github-issues-full-detail.json", "manifest.field_missing"),
        // An excerpt with `[...]` in it.
        ("manifest-06-agt-manifest-v0.2.0.txt", "json.syntax"),
        // The JSON Schema of a draft is not a manifest.
        ("manifest-10-agt-manifest-v0.2.0.json", "manifest.field_missing"),
    ] {
        let text = read(&folder, file);
        for name in [None, Some(domain(NAME))] {
            let report = judge_file(text.as_bytes(), name.as_ref(), None, &AgentPolicy::default(), None, NOW).report;
            assert_eq!(report.state, AgentState::InvalidManifest, "{file}: {:#?}", report.findings);
            assert_eq!(report.findings[0].code.id(), code, "{file}");
            assert!(!report.verified && report.about.is_none(), "{file}");
        }
        // The same document behind a pointer, with an onchain owner that matches any claim.
        assert_eq!(judged(&evidence(&text)).state, AgentState::InvalidManifest, "{file}");
    }
}
