use alloy_primitives::Address;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::UnixTime;

use super::super::import::{
    ImportError, ImportFormat, ImportOptions, Imported, MAX_BYTES, MAX_CAPABILITIES, MAX_PROTOCOLS, import,
};
use super::*;

fn import_options() -> ImportOptions {
    ImportOptions {
        domain: AgtDomain::parse("rain.agt").unwrap(),
        owner: OWNER.parse::<Address>().unwrap(),
        created_at: UnixTime::from_seconds(1_777_658_400),
        format: None,
    }
}

fn imported(document: &Json) -> (Json, Imported) {
    let imported =
        import(document.to_string().as_bytes(), &import_options()).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let errors: Vec<_> = imported.draft_findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}\n{}", imported.draft);
    (serde_json::from_str(&imported.draft).unwrap(), imported)
}

fn failed(bytes: &[u8]) -> ImportError {
    let error = import(bytes, &import_options()).expect_err("a refusal");
    assert_eq!(error.code(), code::BRIDGE_UNREADABLE);
    error
}

fn codes_at<'f>(findings: &'f [Finding], pointer: &str) -> Vec<&'f Finding> {
    findings.iter().filter(|finding| finding.pointer == pointer).collect()
}

#[test]
fn cards_of_version_1_0() {
    let card = json!({
        "name": "Recipe Agent", "description": "Helps with recipes.", "version": "1.0.0",
        "supportedInterfaces": [
            {"url": "https://agent.example.com/a2a/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "https://agent.example.com/a2a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
            {"url": "http://agent.example.com/plain", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            "text",
        ],
        "provider": {"organization": "Kitchen", "url": "https://kitchen.example.com"},
        "documentationUrl": "https://agent.example.com/docs",
        "iconUrl": "https://agent.example.com/icon.png",
        "capabilities": {"streaming": true},
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [
            {"id": "find-recipes", "name": "Find", "description": "Finds recipes.", "tags": ["food"]},
            {"id": "Plan_Meals", "name": "Plan", "description": "Plans meals.", "tags": []},
            {"id": "plan-meals", "name": "Again", "description": "Again.", "tags": []},
            {"id": "料理", "name": "x", "description": "y", "tags": []},
            {"name": "no id"},
        ],
        "signatures": [{"protected": "e30", "signature": "AA"}],
    });
    let (draft, imported) = imported(&card);
    assert_eq!(
        draft,
        json!({
            "agt": "1.0", "domain": "rain.agt", "name": "Recipe Agent", "description": "Helps with recipes.",
            "icon": "https://agent.example.com/icon.png", "website": "https://agent.example.com/docs",
            "owner": OWNER, "created_at": "2026-05-01T18:00:00Z",
            "protocols": [
                {"id": "a2a", "version": "1.0", "endpoint": "https://agent.example.com/a2a/v1", "auth": "bearer"},
                {"id": "a2a", "version": "0.3", "endpoint": "https://agent.example.com/a2a/rest", "auth": "bearer"},
            ],
            "capabilities": [
                {"id": "find-recipes", "description": "Finds recipes."},
                {"id": "plan-meals", "description": "Plans meals."},
            ],
        })
    );
    assert_eq!(imported.format, ImportFormat::A2a);
    assert_eq!(codes_at(&imported.findings, "/supportedInterfaces/2/url")[0].code, code::BRIDGE_ENDPOINT);
    assert_eq!(codes_at(&imported.findings, "/skills/1/id")[0].expected.as_deref(), Some("plan-meals"));
    for pointer in [
        "/supportedInterfaces/3",
        "/skills/2/id",
        "/skills/3/id",
        "/skills/4",
        "/provider",
        "/signatures",
        "/version",
        "/capabilities",
    ] {
        assert_eq!(codes_at(&imported.findings, pointer)[0].code, code::BRIDGE_DROPPED, "{pointer}");
    }
    assert_eq!(imported.findings[0].code, code::BRIDGE_UNPROVEN);
    assert!(imported.findings.iter().any(|finding| finding.message.contains("bindings and tenants")));
}

#[test]
fn cards_of_version_0_3() {
    let card = json!({
        "protocolVersion": "0.3.0", "name": "Old", "description": "An old card.", "url": "https://agent.example.com/a2a",
        "preferredTransport": "JSONRPC", "version": "2",
        "additionalInterfaces": [
            {"url": "https://agent.example.com/a2a", "transport": "JSONRPC"},
            {"url": "https://agent.example.com/rest", "transport": "HTTP+JSON"},
        ],
        "capabilities": {}, "provider": {"organization": "Kitchen", "url": "https://kitchen.example.com"},
        "securitySchemes": {"o": {"type": "oauth2", "flows": {}}}, "security": [{"o": []}],
        "defaultInputModes": [], "defaultOutputModes": [],
        "skills": [{"id": "ocr", "name": "OCR", "description": "x".repeat(201), "tags": []}],
    });
    let (draft, imported) = imported(&card);
    assert_eq!(draft["website"], "https://kitchen.example.com");
    assert_eq!(
        draft["protocols"],
        json!([
            {"id": "a2a", "version": "0.3.0", "endpoint": "https://agent.example.com/a2a", "auth": "oauth2"},
            {"id": "a2a", "version": "0.3.0", "endpoint": "https://agent.example.com/rest", "auth": "oauth2"},
        ])
    );
    assert_eq!(draft["capabilities"][0]["description"].as_str().unwrap().chars().count(), 200);
    assert_eq!(codes_at(&imported.findings, "/skills/0/description")[0].code, code::BRIDGE_SHORTENED);
    // A card for readers of both versions: the newer part is used.
    let mut both = card;
    both["supportedInterfaces"] =
        json!([{"url": "https://new.example.com/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    let (draft, imported) = self::imported(&both);
    assert_eq!(draft["protocols"].as_array().unwrap().len(), 1);
    assert_eq!(draft["protocols"][0]["endpoint"], "https://new.example.com/");
    assert_eq!(codes_at(&imported.findings, "/url")[0].code, code::BRIDGE_DROPPED);
}

#[test]
fn schemes_that_a_manifest_can_name() {
    let word = |schemes: Json| {
        let card = json!({"url": "https://agent.example.com/", "skills": [], "securitySchemes": schemes});
        let (draft, imported) = imported(&card);
        let warned = !codes_at(&imported.findings, "/securitySchemes").is_empty();
        (draft["protocols"][0].get("auth").and_then(Json::as_str).map(str::to_owned), warned)
    };
    let said = |text: &str| (Some(text.to_owned()), false);
    assert_eq!(word(json!({"a": {"type": "http", "scheme": "Bearer"}})), said("bearer"));
    assert_eq!(word(json!({"a": {"type": "http", "scheme": "basic"}})), said("basic"));
    assert_eq!(word(json!({"a": {"type": "apiKey", "in": "header", "name": "x"}})), said("apikey"));
    assert_eq!(word(json!({"a": {"mtlsSecurityScheme": {}}})), said("mtls"));
    assert_eq!(word(json!({"a": {"oauth2SecurityScheme": {"flows": {}}}})), said("oauth2"));
    assert_eq!(word(json!({})), (None, false));
    for schemes in [
        json!({"a": {"type": "openIdConnect"}}),
        json!({"a": {"type": "http", "scheme": "digest"}}),
        json!({"a": "text"}),
        json!({"a": {"type": "http", "scheme": "bearer"}, "b": {"type": "oauth2"}}),
    ] {
        assert_eq!(word(schemes.clone()), (None, true), "{schemes}");
    }
}

#[test]
fn registration_files() {
    let file = json!({
        "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
        "name": "n".repeat(101), "description": "d".repeat(281), "image": "ipfs://bafy/icon.png",
        "services": [
            {"name": "web", "endpoint": "https://agent.example.com/"},
            {"name": "web", "endpoint": "https://agent.example.com/second"},
            {"name": "MCP", "endpoint": "https://agent.example.com/mcp", "version": "2025-06-18", "mcpTools": ["a"]},
            {"name": "A2A", "endpoint": "https://agent.example.com/.well-known/agent-card.json", "version": "0.3.0"},
            {"name": "Trading Desk", "endpoint": "wss://agent.example.com/desk"},
            {"name": "ENS", "endpoint": "agent.eth", "version": "v1"},
            {"name": "email", "endpoint": "a@example.com"},
            {"name": "trading", "endpoint": "autonomous"},
            {"endpoint": "https://agent.example.com/nameless"},
        ],
        "x402Support": true, "active": false,
        "registrations": [{"agentId": 22, "agentRegistry": "eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"}],
        "supportedTrust": ["reputation"],
    });
    let (draft, imported) = imported(&file);
    assert_eq!(imported.format, ImportFormat::Erc8004);
    assert_eq!(draft["name"].as_str().unwrap().chars().count(), 100);
    assert_eq!(draft["description"].as_str().unwrap().chars().count(), 280);
    assert_eq!(draft["website"], "https://agent.example.com/");
    assert!(draft.get("icon").is_none());
    assert_eq!(
        draft["protocols"],
        json!([
            {"id": "mcp", "version": "2025-06-18", "endpoint": "https://agent.example.com/mcp"},
            {"id": "a2a", "version": "0.3.0", "endpoint": "https://agent.example.com/.well-known/agent-card.json"},
            {"id": "trading-desk", "endpoint": "wss://agent.example.com/desk"},
        ])
    );
    for pointer in [
        "/services/1",
        "/services/2",
        "/services/5",
        "/services/6",
        "/services/8",
        "/active",
        "/x402Support",
        "/registrations",
        "/supportedTrust",
    ] {
        assert_eq!(codes_at(&imported.findings, pointer)[0].code, code::BRIDGE_DROPPED, "{pointer}");
    }
    for pointer in ["/image", "/services/7/endpoint"] {
        assert_eq!(codes_at(&imported.findings, pointer)[0].code, code::BRIDGE_ENDPOINT, "{pointer}");
    }
    // Earlier drafts of the standard: another key, and files without a type.
    let old =
        json!({"name": "Old", "registrations": [], "endpoints": [{"name": "MCP", "endpoint": "https://agent.example.com/mcp"}]});
    let (draft, imported) = self::imported(&old);
    assert_eq!(draft["protocols"][0]["id"], "mcp");
    assert!(imported.findings.iter().any(|finding| finding.message.contains("no type")));
}

#[test]
fn exports_come_back() {
    let manifest = manifest(json!({}));
    let mut options = import_options();
    options.domain = manifest.domain().clone();
    let card = exported(&manifest, Format::A2a, &super::options());
    let back = import(card.text.as_bytes(), &options).unwrap();
    let draft: Json = serde_json::from_str(&back.draft).unwrap();
    assert_eq!((&draft["name"], &draft["website"]), (&json!("Example Agent"), &json!("https://agent.example.com/about")));
    assert_eq!(
        draft["protocols"],
        json!([{"id": "a2a", "version": "1.0", "endpoint": "https://agent.example.com/a2a", "auth": "bearer"}])
    );
    let ids: Vec<_> = draft["capabilities"].as_array().unwrap().iter().map(|capability| &capability["id"]).collect();
    assert_eq!(ids, ["research", "summarization", "tide-tables"]);
    let unproven = |imported: &Imported| imported.findings.iter().filter(|finding| finding.code == code::BRIDGE_UNPROVEN).count();
    assert_eq!(unproven(&back), 1);
    let file = exported(&manifest, Format::Erc8004, &super::options());
    let registration = import(file.text.as_bytes(), &options).unwrap();
    let draft: Json = serde_json::from_str(&registration.draft).unwrap();
    assert_eq!(draft["protocols"].as_array().unwrap().len(), 3);
    assert_eq!(unproven(&registration), 1);
    // The same documents for another name.
    for text in [&card.text, &file.text] {
        assert_eq!(unproven(&import(text.as_bytes(), &import_options()).unwrap()), 2);
    }
}

#[test]
fn hostile_documents_are_refused_or_bounded() {
    for bytes in [
        &b""[..],
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"{\"url\":\"https://a.example.com\",\"skills\":[]",
        br#"{"url":"https://a.example.com","url":"https://b.example.com","skills":[]}"#,
        br#"{"type":"https://eips.ethereum.org/EIPS/eip-8004#registration-v2","services":[],"registrations":[]}"#,
        br#"{"name":"\ud800","url":"https://a.example.com","skills":[]}"#,
    ] {
        failed(bytes);
    }
    failed(&vec![b' '; MAX_BYTES + 1]);
    let deep = format!("{{\"url\":\"https://a.example.com\",\"skills\":{}{}}}", "[".repeat(100), "]".repeat(100));
    failed(deep.as_bytes());
    let many = format!("{{\"url\":\"https://a.example.com\",\"skills\":[{}0]}}", "0,".repeat(40_000));
    failed(many.as_bytes());

    let skills: Vec<_> = (0..2_000).map(|index| json!({"id": format!("s{index}")})).collect();
    let interfaces: Vec<_> = (0..200).map(|index| json!({"url": format!("https://a.example.com/{index}")})).collect();
    let (draft, imported) = imported(&json!({"supportedInterfaces": interfaces, "skills": skills}));
    assert_eq!(draft["capabilities"].as_array().unwrap().len(), MAX_CAPABILITIES);
    assert_eq!(draft["protocols"].as_array().unwrap().len(), MAX_PROTOCOLS);
    for pointer in ["/supportedInterfaces", "/skills"] {
        assert_eq!(codes_at(&imported.findings, pointer)[0].code, code::BRIDGE_DROPPED);
    }
    // Thousands of invalid values give a bounded list of findings.
    let bad: Vec<_> = (0..5_000).map(|_| json!(1)).collect();
    let (_, imported) = self::imported(&json!({"url": "https://a.example.com", "skills": bad}));
    assert!(imported.findings.len() <= 257, "{}", imported.findings.len());
    let (draft, _) = self::imported(&json!({"url": 5, "name": {}, "description": [], "skills": {}, "iconUrl": null}));
    assert_eq!(draft.as_object().unwrap().keys().collect::<Vec<_>>(), ["agt", "domain", "owner", "created_at"]);
}

#[test]
fn credentials_in_imports_are_not_repeated() {
    let card = json!({"supportedInterfaces": [
        {"url": "https://user:hunter22@agent.example.com/"}, {"url": "https://agent.example.com/?api_key=hunter22"},
    ], "skills": []});
    let (draft, imported) = imported(&card);
    assert!(!format!("{draft} {:?}", imported.findings).contains("hunter22"));
    assert!(draft.get("protocols").is_none());
}

#[test]
fn formats_can_be_named() {
    for format in [ImportFormat::A2a, ImportFormat::Erc8004] {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert!("aid".parse::<ImportFormat>().is_err());
    let card = json!({"url": "https://agent.example.com/", "skills": []}).to_string();
    let wrong = ImportOptions { format: Some(ImportFormat::Erc8004), ..import_options() };
    // A given format is not detected again, and nothing in this document has that format.
    let imported = import(card.as_bytes(), &wrong).unwrap();
    assert!(!imported.draft.contains("agent.example.com"));
    let wrong = ImportOptions { format: Some(ImportFormat::A2a), ..import_options() };
    assert_eq!(import(b"{\"name\":\"x\"}", &wrong).unwrap_err().code(), code::BRIDGE_UNREADABLE);
}

#[test]
fn changed_bytes_never_break_an_import() {
    let manifest = manifest(json!({}));
    let mut imported_count = 0;
    for format in [Format::A2a, Format::Erc8004] {
        let text = exported(&manifest, format, &super::options()).text;
        for at in 0..text.len() {
            for byte in [b'"', b'{', b'0', b'\\', 0xff] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] = byte;
                let Ok(imported) = import(&bytes, &import_options()) else { continue };
                imported_count += 1;
                let errors = imported.draft_findings.iter().filter(|finding| finding.severity == Severity::Error).count();
                assert_eq!(errors, 0, "{at} {byte}: {}", imported.draft);
            }
        }
    }
    assert!(imported_count > 1_000, "{imported_count}");
}
