use super::*;

fn card(extra: Json) -> (Json, Vec<Finding>) {
    exported_json(&manifest(extra), Format::A2a, &options())
}

#[test]
fn every_field_of_a_card() {
    let (card, findings) = card(json!({}));
    assert_eq!(
        card,
        json!({
            "name": "Example Agent",
            "description": "Research and source citation agent.",
            "supportedInterfaces": [
                {"url": "https://agent.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "version": "1.2.3",
            "documentationUrl": "https://agent.example.com/about",
            "capabilities": {"extensions": [{
                "uri": PROVENANCE_EXTENSION,
                "description": "The .agt manifest that this card was made from. Resolve the domain to verify it.",
                "required": false,
                "params": {
                    "domain": "exampleagent.agt",
                    "owner": OWNER,
                    "manifest": format!("ipfs://{CID}"),
                    "digest": manifest(json!({})).signing_payload().unwrap().digest().to_string(),
                    "createdAt": "2026-05-01T18:00:00Z",
                },
            }]},
            "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [
                {
                    "id": "research", "name": "Research", "description": "Searches sources.", "tags": ["research", "language"],
                    "inputModes": ["application/json"], "outputModes": ["application/json"],
                },
                {
                    "id": "summarization", "name": "Summarization", "description": "summarises long texts",
                    "tags": ["summarization", "language"],
                },
                {"id": "tide-tables", "name": "Tide tables", "description": "Tide tables", "tags": ["tide-tables"]},
            ],
            "iconUrl": "https://agent.example.com/icon.png",
        })
    );
    assert_eq!(
        noted(&findings),
        [
            (code::BRIDGE_FILLED, "/capabilities"),
            (code::BRIDGE_DROPPED, "/capabilities"),
            (code::BRIDGE_DROPPED, "/protocols/0"),
            (code::BRIDGE_DROPPED, "/protocols/2"),
            (code::BRIDGE_DROPPED, "/pricing"),
        ]
    );
    // The fields that version 1.0 removed.
    for gone in ["url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"] {
        assert!(card.get(gone).is_none(), "{gone}");
    }
}

#[test]
fn whether_the_endpoint_is_a_card_is_never_guessed() {
    let manifest = manifest(json!({}));
    let none = ExportOptions { a2a_endpoint: None, ..options() };
    let error = refused(&manifest, Format::A2a, &none);
    assert_eq!(error.code(), code::BRIDGE_OPTION);
    assert!(error.to_string().contains("a2a_endpoint"), "{error}");
    let card = ExportOptions { a2a_endpoint: Some(A2aEndpoint::Card), ..options() };
    assert_eq!(refused(&manifest, Format::A2a, &card).code(), code::BRIDGE_OPTION);
    for (interface, is_usable) in
        [("https://agent.example.com/rpc", true), ("http://agent.example.com/rpc", false), ("https://10.0.0.1/", false)]
    {
        let options = ExportOptions { a2a_interface: Some(interface.to_owned()), ..card.clone() };
        match export(&manifest, Format::A2a, &options) {
            Ok(export) => {
                let card: Json = serde_json::from_str(&export.text).unwrap();
                assert_eq!(card["supportedInterfaces"][0]["url"], interface);
            }
            Err(error) => assert!(!is_usable && error.code() == code::BRIDGE_OPTION, "{error}"),
        }
    }
    // The default binding is reported as an assumption.
    let (card, findings) = exported_json(&manifest, Format::A2a, &ExportOptions { a2a_binding: None, ..options() });
    assert_eq!(card["supportedInterfaces"][0]["protocolBinding"], "JSONRPC");
    assert!(findings.iter().any(|finding| finding.code == code::BRIDGE_FILLED && finding.message.contains("JSONRPC")));
    for (binding, word) in [(A2aBinding::Grpc, "GRPC"), (A2aBinding::HttpJson, "HTTP+JSON")] {
        let options = ExportOptions { a2a_binding: Some(binding), ..options() };
        assert_eq!(exported_json(&manifest, Format::A2a, &options).0["supportedInterfaces"][0]["protocolBinding"], word);
    }
}

#[test]
fn a_card_needs_an_interface() {
    for protocols in [
        json!([{"id": "mcp", "endpoint": "https://agent.example.com/mcp"}]),
        json!([{"id": "a2a", "endpoint": "http://agent.example.com/a2a"}]),
        json!([]),
        Json::Null,
    ] {
        let error = refused(&manifest(json!({"protocols": protocols})), Format::A2a, &options());
        assert_eq!(error.code(), code::BRIDGE_NO_ENDPOINT, "{protocols}");
    }
}

#[test]
fn a_card_needs_a_skill() {
    for capabilities in [Json::Null, json!([])] {
        let error = refused(&manifest(json!({"capabilities": capabilities})), Format::A2a, &options());
        assert_eq!((error.code(), error.reason.pointer.as_str()), (code::BRIDGE_NO_SKILLS, "/capabilities"));
    }
}

#[test]
fn versions_of_interfaces() {
    let version = |version: Json| {
        let mut protocol = json!({"id": "a2a", "endpoint": "https://agent.example.com/a2a"});
        if !version.is_null() {
            protocol["version"] = version;
        }
        let (card, findings) = card(json!({"protocols": [protocol]}));
        let found = findings.iter().find(|finding| finding.pointer == "/protocols/0/version").map(|finding| finding.code);
        (card["supportedInterfaces"][0]["protocolVersion"].as_str().unwrap().to_owned(), found)
    };
    assert_eq!(version(json!("1.0")), ("1.0".to_owned(), None));
    assert_eq!(version(json!("0.3")), ("0.3".to_owned(), None));
    assert_eq!(version(json!("0.3.0")), ("0.3".to_owned(), Some(code::BRIDGE_SHORTENED)));
    assert_eq!(version(json!(null)), ("1.0".to_owned(), Some(code::BRIDGE_FILLED)));
    for odd in ["v1", "2025-11-25", "1", "1.0.0.0", "1.x", "99999.1"] {
        assert_eq!(version(json!(odd)), ("1.0".to_owned(), Some(code::BRIDGE_FILLED)), "{odd}");
    }
}

#[test]
fn interfaces_are_listed_once() {
    let (card, findings) = card(json!({"protocols": [
        {"id": "a2a", "endpoint": "https://agent.example.com/a2a", "version": "1.0"},
        {"id": "a2a", "endpoint": "https://AGENT.example.com:443/a2a", "version": "1.0"},
        {"id": "a2a", "endpoint": "https://agent.example.com/second", "version": "1.0"},
    ]}));
    let urls: Vec<_> = card["supportedInterfaces"].as_array().unwrap().iter().map(|interface| &interface["url"]).collect();
    assert_eq!(urls, ["https://agent.example.com/a2a", "https://agent.example.com/second"]);
    assert!(noted(&findings).contains(&(code::BRIDGE_DROPPED, "/protocols/1/endpoint")), "{findings:?}");
}

#[test]
fn authentication_that_a_card_can_express() {
    let with = |hints: &[Option<&str>]| {
        let protocols = hints.iter().enumerate().map(|(index, hint)| {
            let mut protocol = json!({"id": "a2a", "version": "1.0", "endpoint": format!("https://agent.example.com/{index}")});
            if let Some(hint) = hint {
                protocol["auth"] = json!(hint);
            }
            protocol
        });
        let (card, findings) = card(json!({"protocols": protocols.collect::<Vec<_>>()}));
        let warned = findings.iter().any(|finding| finding.pointer.ends_with("/auth") && finding.severity == Severity::Warning);
        (card.get("securitySchemes").is_some(), warned)
    };
    assert_eq!(with(&[Some("bearer")]), (true, false));
    assert_eq!(with(&[Some("bearer"), Some("bearer")]), (true, false));
    assert_eq!(with(&[Some("none")]), (false, false));
    assert_eq!(with(&[None]), (false, false));
    for hint in ["oauth2", "signed-nonce", "my-own"] {
        assert_eq!(with(&[Some(hint)]), (false, true), "{hint}");
    }
    assert_eq!(with(&[Some("bearer"), None]), (false, true));
    assert_eq!(with(&[Some("bearer"), Some("none")]), (false, true));
}

#[test]
fn required_fields_that_a_manifest_may_lack() {
    let empty = json!({"name": null, "description": null, "icon": null, "website": null, "capabilities": [{"id": "ocr"}], "pricing": null});
    let bare = ExportOptions { version: None, input_modes: Vec::new(), output_modes: Vec::new(), cid: None, ..options() };
    let (card, findings) = exported_json(&manifest(empty), Format::A2a, &bare);
    assert_eq!(card["name"], "exampleagent");
    assert_eq!(card["description"], "exampleagent.agt");
    assert_eq!(card["version"], "2026-05-01T18:00:00Z");
    assert_eq!(card["defaultInputModes"], json!(["text/plain"]));
    assert!(card["capabilities"]["extensions"][0]["params"].get("manifest").is_none());
    for absent in ["iconUrl", "documentationUrl", "provider"] {
        assert!(card.get(absent).is_none(), "{absent}");
    }
    let filled: Vec<_> =
        findings.iter().filter(|finding| finding.code == code::BRIDGE_FILLED).map(|finding| finding.pointer.as_str()).collect();
    assert_eq!(filled, ["/name", "/description", "/created_at", "", "", "/capabilities"]);
}

#[test]
fn provider_version_and_modes_come_from_options() {
    let manifest = manifest(json!({}));
    let given = ExportOptions { provider: Some("Harbour Office".to_owned()), ..options() };
    let (card, _) = exported_json(&manifest, Format::A2a, &given);
    assert_eq!(card["provider"], json!({"organization": "Harbour Office", "url": "https://agent.example.com/about"}));
    let (card, findings) = exported_json(&super::manifest(json!({"website": null})), Format::A2a, &given);
    assert!(card.get("provider").is_none() && noted(&findings).contains(&(code::BRIDGE_DROPPED, "/website")));
    for bad in [
        ExportOptions { provider: Some(String::new()), ..options() },
        ExportOptions { provider: Some("a\nb".to_owned()), ..options() },
        ExportOptions { version: Some(" 1".to_owned()), ..options() },
        ExportOptions { version: Some("x".repeat(256)), ..options() },
        ExportOptions { input_modes: vec!["text".to_owned()], ..options() },
        ExportOptions { output_modes: vec!["text/plain; charset=utf-8".to_owned()], ..options() },
    ] {
        assert_eq!(refused(&manifest, Format::A2a, &bad).code(), code::BRIDGE_OPTION);
    }
}

#[test]
fn tags_are_words() {
    for (id, tags) in
        [("citation", json!(["citation", "search-retrieval"])), ("ocr", json!(["ocr", "media"])), ("own", json!(["own"]))]
    {
        assert_eq!(card(json!({"capabilities": [{"id": id}]})).0["skills"][0]["tags"], tags);
    }
}

#[test]
fn repeated_capabilities_become_one_skill() {
    let (card, findings) =
        card(json!({"capabilities": [{"id": "ocr", "description": "one"}, {"id": "ocr", "description": "two"}]}));
    assert_eq!(card["skills"].as_array().unwrap().len(), 1);
    assert_eq!(card["skills"][0]["description"], "one");
    assert!(noted(&findings).contains(&(code::BRIDGE_DROPPED, "/capabilities/1")));
}
