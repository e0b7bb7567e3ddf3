use alloy_primitives::{U256, address};

use super::*;

fn registration(agent_id: U256) -> Registration {
    Registration { chain_id: 8453, registry: address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432"), agent_id }
}

#[test]
fn every_field_of_a_registration_file() {
    let options = ExportOptions { registrations: vec![registration(U256::from(22))], ..options() };
    let (file, findings) = exported_json(&manifest(json!({})), Format::Erc8004, &options);
    assert_eq!(
        file,
        json!({
            "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
            "name": "Example Agent",
            "description": "Research and source citation agent.",
            "image": "https://agent.example.com/icon.png",
            "services": [
                {"name": "AGT", "endpoint": "exampleagent.agt", "version": "1.0"},
                {"name": "web", "endpoint": "https://agent.example.com/about"},
                {"name": "MCP", "endpoint": "https://agent.example.com/mcp", "version": "2025-11-25"},
                {"name": "A2A", "endpoint": "https://agent.example.com/.well-known/agent-card.json", "version": "1.0"},
                {"name": "ws", "endpoint": "wss://agent.example.com/live"},
            ],
            "x402Support": false,
            "active": true,
            "registrations": [
                {"agentId": 22, "agentRegistry": "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"},
            ],
        })
    );
    assert_eq!(
        noted(&findings),
        [(code::BRIDGE_DROPPED, "/protocols"), (code::BRIDGE_DROPPED, "/capabilities"), (code::BRIDGE_DROPPED, "/pricing")]
    );
}

#[test]
fn nothing_is_claimed_that_was_not_given() {
    let manifest = manifest(json!({"icon": null}));
    let (file, findings) = exported_json(&manifest, Format::Erc8004, &options());
    assert_eq!(file["registrations"], json!([]));
    assert!(file.get("supportedTrust").is_none() && file.get("image").is_none());
    assert!(findings.iter().any(|finding| finding.message.contains("no registration") && finding.severity == Severity::Warning));
    let given = ExportOptions { supported_trust: vec!["reputation".to_owned()], x402: true, inactive: true, ..options() };
    let (file, _) = exported_json(&manifest, Format::Erc8004, &given);
    assert_eq!(
        (&file["supportedTrust"], &file["x402Support"], &file["active"]),
        (&json!(["reputation"]), &json!(true), &json!(false))
    );
    for trust in ["", "two words", "<b>"] {
        let options = ExportOptions { supported_trust: vec![trust.to_owned()], ..options() };
        assert_eq!(refused(&manifest, Format::Erc8004, &options).code(), code::BRIDGE_OPTION, "{trust}");
    }
}

#[test]
fn agent_ids_are_numbers_that_every_reader_reads() {
    let manifest = manifest(json!({}));
    let with = |id: U256| ExportOptions { registrations: vec![registration(id)], ..options() };
    let largest = (1_u64 << 53) - 1;
    let export = exported(&manifest, Format::Erc8004, &with(U256::from(largest)));
    assert!(export.text.contains("\"agentId\": 9007199254740991,"), "{}", export.text);
    for id in [U256::from(largest + 1), U256::MAX] {
        assert_eq!(refused(&manifest, Format::Erc8004, &with(id)).code(), code::BRIDGE_OPTION);
        // As text it has no limit.
        assert!(exported(&manifest, Format::Ensip26, &with(id)).text.contains(&format!("][{id}]")));
    }
}

#[test]
fn readers_of_registration_files_expect_cards() {
    let manifest = manifest(json!({}));
    let url = |options: &ExportOptions| {
        let (file, findings) = exported_json(&manifest, Format::Erc8004, options);
        let service = file["services"].as_array().unwrap().iter().find(|service| service["name"] == "A2A").cloned();
        (service.map(|service| service["endpoint"].as_str().unwrap().to_owned()), findings)
    };
    let own = Some("https://agent.example.com/a2a".to_owned());
    let (found, findings) = url(&ExportOptions { a2a_endpoint: Some(A2aEndpoint::Card), a2a_card: None, ..options() });
    assert!(found == own && !findings.iter().any(|finding| finding.code == code::BRIDGE_A2A_KIND));
    let (found, findings) = url(&ExportOptions { a2a_endpoint: None, a2a_card: None, ..options() });
    assert!(found == own && findings.iter().any(|finding| finding.code == code::BRIDGE_A2A_KIND));
    let (found, findings) = url(&ExportOptions { a2a_endpoint: Some(A2aEndpoint::Rpc), a2a_card: None, ..options() });
    assert!(found.is_none() && noted(&findings).contains(&(code::BRIDGE_DROPPED, "/protocols/1/endpoint")));
    let bad = ExportOptions { a2a_card: Some("http://agent.example.com/card".to_owned()), ..options() };
    assert_eq!(refused(&manifest, Format::Erc8004, &bad).code(), code::BRIDGE_OPTION);
}

#[test]
fn every_field_of_a_server_file() {
    let (file, findings) = exported_json(&manifest(json!({})), Format::McpRegistry, &options());
    assert_eq!(file["$schema"], "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json");
    assert_eq!(file["name"], "com.example.agent/exampleagent");
    assert_eq!(file["title"], "Example Agent");
    assert_eq!(file["description"], "Research and source citation agent.");
    assert_eq!(file["version"], "1.2.3");
    assert_eq!(file["websiteUrl"], "https://agent.example.com/about");
    assert_eq!(file["icons"], json!([{"src": "https://agent.example.com/icon.png"}]));
    assert_eq!(
        file["remotes"],
        json!([{
            "type": "streamable-http", "url": "https://agent.example.com/mcp",
            "headers": [{"name": "Authorization", "description": "Bearer token", "isRequired": true, "isSecret": true}],
        }])
    );
    let meta = &file["_meta"]["io.modelcontextprotocol.registry/publisher-provided"]["agt"];
    assert_eq!((&meta["domain"], &meta["owner"]), (&json!("exampleagent.agt"), &json!(OWNER)));
    assert_eq!(
        noted(&findings),
        [
            (code::BRIDGE_DROPPED, "/protocols/1"),
            (code::BRIDGE_DROPPED, "/protocols/2"),
            (code::BRIDGE_DROPPED, "/capabilities"),
            (code::BRIDGE_DROPPED, "/pricing"),
        ]
    );
}

#[test]
fn texts_keep_the_limits_of_the_registry() {
    let at = |count: usize| {
        let (file, findings) =
            exported_json(&manifest(json!({"description": "é".repeat(count)})), Format::McpRegistry, &options());
        let text = file["description"].as_str().unwrap().to_owned();
        (text.chars().count(), text.ends_with('…'), findings.iter().any(|finding| finding.code == code::BRIDGE_SHORTENED))
    };
    assert_eq!(at(100), (100, false, false));
    assert_eq!(at(101), (100, true, true));
    assert_eq!(at(280), (100, true, true));
    let icon = format!("https://agent.example.com/{}", "i".repeat(230));
    let (file, findings) = exported_json(&manifest(json!({"icon": icon})), Format::McpRegistry, &options());
    assert!(file.get("icons").is_none() && noted(&findings).contains(&(code::BRIDGE_ENDPOINT, "/icon")));
    let icon = format!("https://agent.example.com/{}", "i".repeat(229));
    assert_eq!(exported_json(&manifest(json!({"icon": icon})), Format::McpRegistry, &options()).0["icons"][0]["src"], icon);
}

#[test]
fn the_registry_needs_a_namespace_a_version_and_a_server() {
    let full = manifest(json!({}));
    for namespace in [None, Some(""), Some("a/b"), Some("has space"), Some("ünder")] {
        let options = ExportOptions { namespace: namespace.map(str::to_owned), ..options() };
        let error = refused(&full, Format::McpRegistry, &options);
        assert!(error.code() == code::BRIDGE_OPTION && error.to_string().contains("namespace"), "{namespace:?}: {error}");
    }
    let long = ExportOptions { namespace: Some("n".repeat(200)), ..options() };
    assert_eq!(refused(&full, Format::McpRegistry, &long).code(), code::BRIDGE_OPTION);
    for version in [None, Some("latest"), Some("^1.2.3"), Some("1.x"), Some(">=1"), Some("")] {
        let options = ExportOptions { version: version.map(str::to_owned), ..options() };
        let error = refused(&full, Format::McpRegistry, &options);
        assert!(error.code() == code::BRIDGE_OPTION && error.to_string().contains("version"), "{version:?}: {error}");
    }
    let (_, findings) =
        exported_json(&full, Format::McpRegistry, &ExportOptions { version: Some("2026-11-01".to_owned()), ..options() });
    assert!(findings.iter().any(|finding| finding.code == code::BRIDGE_FILLED && finding.message.contains("semantic")));
    let without = manifest(json!({"protocols": [{"id": "http", "endpoint": "https://agent.example.com/api"}]}));
    assert_eq!(refused(&without, Format::McpRegistry, &options()).code(), code::BRIDGE_NO_ENDPOINT);
    let plain = manifest(json!({"protocols": [{"id": "mcp", "endpoint": "http://agent.example.com/mcp"}]}));
    assert_eq!(refused(&plain, Format::McpRegistry, &options()).code(), code::BRIDGE_NO_ENDPOINT);
}

#[test]
fn transports_and_headers_of_servers() {
    let remote = |protocol: Json| {
        let (file, findings) = exported_json(&manifest(json!({"protocols": [protocol]})), Format::McpRegistry, &options());
        (file["remotes"][0].clone(), findings)
    };
    let endpoint = "https://agent.example.com/mcp";
    let (old, _) = remote(json!({"id": "mcp", "version": "2024-11-05", "endpoint": endpoint}));
    assert_eq!(old, json!({"type": "sse", "url": endpoint}));
    for hint in ["none", "oauth2"] {
        assert!(remote(json!({"id": "mcp", "endpoint": endpoint, "auth": hint})).0.get("headers").is_none());
    }
    let (odd, findings) = remote(json!({"id": "mcp", "endpoint": endpoint, "auth": "signed-nonce"}));
    assert!(odd.get("headers").is_none() && noted(&findings).contains(&(code::BRIDGE_DROPPED, "/protocols/0/auth")));
    let twice = manifest(json!({"protocols": [
        {"id": "mcp", "endpoint": endpoint}, {"id": "mcp", "endpoint": endpoint, "version": "2025-11-25"},
    ]}));
    let (file, findings) = exported_json(&twice, Format::McpRegistry, &options());
    assert_eq!(file["remotes"].as_array().unwrap().len(), 1);
    assert!(noted(&findings).contains(&(code::BRIDGE_DROPPED, "/protocols/1")));
}
