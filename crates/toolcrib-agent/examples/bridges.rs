//! Writes exports of agent manifests, which third-party programs validate: `interop/agt-js/run` runs it.
//!
//!   bridges write OUT MANIFEST…   all exports of these manifests and of made-up ones
//!   bridges import DOCUMENT       drafts a manifest from an A2A card or an ERC-8004 file and prints it
#![expect(clippy::print_stdout, reason = "the script reads it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use alloy_primitives::{U256, address};
use serde_json::{Value as Json, json};
use toolcrib_agent::bridge::import::{ImportOptions, import};
use toolcrib_agent::bridge::{A2aBinding, A2aEndpoint, AidVersion, ExportOptions, Format, Registration, export};
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::agent::{AgentManifest, AgtDomain};
use toolcrib_core::checked::parse;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::finding::{Mode, Severity};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["write", out, manifests @ ..] => write(Path::new(out), manifests),
        ["import", document] => draft(Path::new(document)),
        _ => Err("expected `write OUT MANIFEST…` or `import DOCUMENT`".into()),
    }
}

/// Imports a document. The draft must satisfy every rule except that of the signature.
fn draft(path: &Path) -> Outcome {
    let options = ImportOptions {
        domain: AgtDomain::parse("imported.agt")?,
        owner: address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        created_at: UnixTime::from_seconds(1_793_523_600),
        format: None,
    };
    let imported = import(&fs::read(path)?, &options)?;
    if let Some(error) = imported.draft_findings.iter().find(|finding| finding.severity == Severity::Error) {
        return Err(format!("the draft breaks a rule: {} at {}", error.message, error.pointer).into());
    }
    print!("{}", imported.draft);
    Ok(())
}

fn write(out: &Path, manifests: &[&str]) -> Outcome {
    let mut cases: Vec<(String, String)> =
        made_up().into_iter().map(|(name, manifest)| (name.to_owned(), manifest.to_string())).collect();
    for path in manifests {
        let name = Path::new(path).file_stem().ok_or("a manifest has no name")?.to_string_lossy().replace('.', "-");
        cases.push((name, fs::read_to_string(path)?));
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (name, text) in cases {
        let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Consumer);
        let Some(manifest) = checked.conformant() else {
            return Err(format!("the manifest {name} has errors: {:?}", checked.findings).into());
        };
        for format in Format::ALL {
            for (kind, options) in options(&name)? {
                match export(manifest, format, &options) {
                    Ok(export) => {
                        *counts.entry(format!("{format}: exported")).or_default() += 1;
                        *counts.entry(format!("{format}: findings")).or_default() += export.findings.len();
                        let folder = out.join(&name).join(kind).join(format.as_str());
                        fs::create_dir_all(&folder)?;
                        fs::write(folder.join(export.file_name), export.text)?;
                    }
                    Err(error) => *counts.entry(format!("{format}: {}", error.code())).or_default() += 1,
                }
            }
        }
    }
    println!("{}", json!(counts));
    Ok(())
}

/// The minimum of options, and all of them.
fn options(name: &str) -> Result<[(&'static str, ExportOptions); 2], Box<dyn Error>> {
    let few = ExportOptions {
        a2a_endpoint: Some(A2aEndpoint::Rpc),
        version: Some("1.0.0".to_owned()),
        namespace: Some("com.example.agents".to_owned()),
        ..ExportOptions::default()
    };
    let registry = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
    let all = ExportOptions {
        cid: CidText::parse("bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4").ok(),
        a2a_binding: Some(A2aBinding::HttpJson),
        a2a_card: Some(format!("https://{name}.example.com/.well-known/agent-card.json")),
        provider: Some("Harbour Office".to_owned()),
        input_modes: vec!["text/plain".to_owned(), "application/json".to_owned()],
        output_modes: vec!["text/markdown".to_owned()],
        registrations: vec![
            Registration { chain_id: 1, registry, agent_id: U256::from(26433) },
            Registration { chain_id: 8453, registry, agent_id: U256::from(9_007_199_254_740_991_u64) },
        ],
        supported_trust: vec!["reputation".to_owned()],
        x402: true,
        host: Some(format!("{name}.example.com")),
        aid_version: AidVersion::Aid1,
        aid_protocol: None,
        ..few.clone()
    };
    Ok([("few", few), ("all", all)])
}

/// Manifests that try to break their exports. Their signatures are well-formed, but not genuine.
fn made_up() -> Vec<(&'static str, Json)> {
    let manifest = |extra: Json| {
        let mut manifest = json!({
            "agt": "1.0", "domain": "made-up.agt", "owner": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "created_at": "2026-11-01T09:00:00Z", "signature": format!("0x{:064x}{:064x}1b", 1, 1),
            "protocols": [
                {"id": "mcp", "version": "2025-11-25", "endpoint": "https://made-up.example.com/mcp", "auth": "bearer"},
                {"id": "a2a", "version": "1.0", "endpoint": "https://made-up.example.com/a2a", "auth": "bearer"},
            ],
        });
        if let (Json::Object(fields), Json::Object(extra)) = (&mut manifest, extra) {
            fields.extend(extra);
        }
        manifest
    };
    let hostile = "It's \"quoted\" \\ ;u=https://evil.example;v=aid1\n\"}] \u{202e}rtl\u{200b} \u{2028} 日本 😀 </script>";
    vec![
        ("bare", manifest(json!({}))),
        (
            "hostile-texts",
            manifest(json!({
                "name": hostile, "description": hostile,
                "capabilities": [{"id": "chat", "description": hostile}, {"id": "constructor", "description": "x"}],
            })),
        ),
        (
            "limits",
            manifest(json!({
                "name": "名".repeat(100), "description": "é".repeat(280),
                "icon": format!("https://made-up.example.com/{}", "i".repeat(400)),
                "website": format!("https://made-up.example.com/{}", "w".repeat(1_000)),
                "capabilities": (0..200).map(|n| json!({"id": format!("skill-{n}"), "description": "d".repeat(200)})).collect::<Vec<_>>(),
            })),
        ),
        (
            "protocols",
            manifest(json!({
                "name": "Many protocols",
                "capabilities": [{"id": "ocr", "input": {"type": "object"}}, {"id": "chat", "output": {"type": "object"}}],
                "protocols": [
                    {"id": "mcp", "version": "2024-11-05", "endpoint": "https://made-up.example.com/sse", "auth": "oauth2"},
                    {"id": "mcp", "endpoint": "https://made-up.example.com/mcp", "auth": "none"},
                    {"id": "mcp", "endpoint": "http://made-up.example.com/plain"},
                    {"id": "a2a", "version": "0.3.0", "endpoint": "https://made-up.example.com/a2a"},
                    {"id": "a2a", "endpoint": "https://made-up.example.com/a2a/rest"},
                    {"id": "ws", "endpoint": "wss://made-up.example.com/live", "auth": "signed-nonce"},
                    {"id": "grpc", "endpoint": "https://made-up.example.com:8443/grpc"},
                    {"id": "openapi", "endpoint": "https://made-up.example.com/openapi.json"},
                    {"id": "http", "endpoint": "https://made-up.example.com/api"},
                    {"id": "my-proto", "endpoint": "https://made-up.example.com/own"},
                ],
                "pricing": {"model": "paid", "paid": {"currency": "USDC", "amount": "0.01", "unit": "per_request", "chain": "eip155:8453"}},
            })),
        ),
    ]
}
