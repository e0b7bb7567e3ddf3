//! Tests of the bridges with made-up manifests.

mod a2a;
mod cross_check;
mod import;
mod records;
mod registries;

use serde_json::{Value as Json, json};
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::checked::parse;
use toolcrib_core::codes::{Code, agent as code};
use toolcrib_core::finding::{Finding, Mode, Severity};

use super::*;

const OWNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const CID: &str = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";

/// A conformant manifest. Members of `extra` replace those of the full one, or remove them if `null`.
fn manifest(extra: Json) -> AgentManifest {
    let mut fields = json!({
        "agt": "1.0",
        "domain": "exampleagent.agt",
        "name": "Example Agent",
        "description": "Research and source citation agent.",
        "icon": "https://agent.example.com/icon.png",
        "website": "https://agent.example.com/about",
        "owner": OWNER,
        "created_at": "2026-05-01T18:00:00Z",
        "protocols": [
            {"id": "mcp", "version": "2025-11-25", "endpoint": "https://agent.example.com/mcp", "auth": "bearer"},
            {"id": "a2a", "version": "1.0", "endpoint": "https://agent.example.com/a2a", "auth": "bearer"},
            {"id": "ws", "endpoint": "wss://agent.example.com/live"},
        ],
        "capabilities": [
            {"id": "research", "description": "Searches sources.", "input": {"type": "object"}, "output": {"type": "object"}},
            {"id": "summarization"},
            {"id": "tide-tables"},
        ],
        "pricing": {"model": "free"},
        "signature": format!("0x{:064x}{:064x}1b", 1, 1),
    });
    for (key, value) in extra.as_object().expect("members") {
        match value {
            Json::Null => fields.as_object_mut().unwrap().shift_remove(key),
            value => fields.as_object_mut().unwrap().insert(key.clone(), value.clone()),
        };
    }
    let checked = parse::<AgentManifest>(fields.to_string().as_bytes(), Mode::Consumer);
    match checked.into_result() {
        Ok(sealed) => sealed.into_parts().0,
        Err(findings) => panic!("the manifest of the test has errors: {findings:?}"),
    }
}

/// Options that satisfy every format.
fn options() -> ExportOptions {
    ExportOptions {
        cid: Some(CidText::parse(CID).unwrap()),
        version: Some("1.2.3".to_owned()),
        a2a_endpoint: Some(A2aEndpoint::Rpc),
        a2a_binding: Some(A2aBinding::JsonRpc),
        a2a_card: Some("https://agent.example.com/.well-known/agent-card.json".to_owned()),
        input_modes: vec!["text/plain".to_owned()],
        output_modes: vec!["text/plain".to_owned()],
        namespace: Some("com.example.agent".to_owned()),
        host: Some("agent.example.com".to_owned()),
        ..ExportOptions::default()
    }
}

#[track_caller]
fn exported(manifest: &AgentManifest, format: Format, options: &ExportOptions) -> Export {
    export(manifest, format, options).unwrap_or_else(|error| panic!("{error}: {:?}", error.reason))
}

#[track_caller]
fn exported_json(manifest: &AgentManifest, format: Format, options: &ExportOptions) -> (Json, Vec<Finding>) {
    let export = exported(manifest, format, options);
    (serde_json::from_str(&export.text).expect("JSON"), export.findings)
}

/// Codes and pointers of findings.
fn noted(findings: &[Finding]) -> Vec<(Code, &str)> {
    findings.iter().map(|finding| (finding.code, finding.pointer.as_str())).collect()
}

#[track_caller]
fn refused(manifest: &AgentManifest, format: Format, options: &ExportOptions) -> ExportError {
    let error = export(manifest, format, options).expect_err("a refusal");
    assert_eq!(error.reason.severity, Severity::Error, "{error:?}");
    assert_eq!(error.code(), error.reason.code);
    error
}

#[test]
fn every_format_is_deterministic_and_named() {
    let manifest = manifest(json!({}));
    for format in Format::ALL {
        let export = exported(&manifest, format, &options());
        assert_eq!(export, exported(&manifest, format, &options()), "{format}");
        assert_eq!((export.file_name, export.media_type), (format.file_name(), format.media_type()));
        assert!(export.text.ends_with('\n') && !export.text.ends_with("\n\n"), "{format}");
        assert!(export.findings.iter().all(|finding| finding.severity != Severity::Error), "{format}: {:?}", export.findings);
    }
}

#[test]
fn unpublishable_endpoints_are_left_out_of_every_format() {
    let manifest = manifest(json!({
        "icon": null, "website": null,
        "protocols": [
            {"id": "mcp", "endpoint": "http://agent.example.com/mcp"},
            {"id": "mcp", "endpoint": "https://localhost/mcp"},
            {"id": "mcp", "endpoint": "https://agent.example.com/mcp?token=hunter22"},
            {"id": "mcp", "endpoint": "https://agent.example.com/mcp"},
            {"id": "a2a", "endpoint": "https://router.lan/a2a"},
            {"id": "a2a", "endpoint": "https://agent.example.com/a2a"},
        ],
    }));
    for format in Format::ALL {
        let export = exported(&manifest, format, &options());
        for left_out in ["localhost", "hunter22", "router.lan"] {
            assert!(!export.text.contains(left_out), "{format} has {left_out}: {}", export.text);
        }
        assert!(!export.text.contains("http://"), "{format}");
        let count = export.findings.iter().filter(|finding| finding.code == code::BRIDGE_ENDPOINT).count();
        let expected = match format {
            Format::A2a => 1,
            Format::McpRegistry => 3,
            _ => 4,
        };
        assert_eq!(count, expected, "{format}: {:?}", export.findings);
        assert!(!format!("{:?}", export.findings).contains("hunter22"), "{format}");
    }
}

#[test]
fn unknown_fields_are_named_once() {
    let manifest = manifest(json!({"x-one": 1, "x-two": {"deep": true}}));
    for format in Format::ALL {
        let export = exported(&manifest, format, &options());
        let found: Vec<_> = export.findings.iter().filter(|finding| finding.message.contains("does not know")).collect();
        assert_eq!(found.len(), 1, "{format}");
        assert_eq!(found[0].got.as_deref(), Some("2"));
    }
}
