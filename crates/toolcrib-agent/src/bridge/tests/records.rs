use alloy_primitives::{U256, address};

use super::*;

fn records(manifest: &AgentManifest, options: &ExportOptions) -> (Vec<(String, String)>, Vec<Finding>) {
    let (list, findings) = exported_json(manifest, Format::Ensip26, options);
    let text = |record: &Json, key: &str| record[key].as_str().unwrap().to_owned();
    (list.as_array().unwrap().iter().map(|record| (text(record, "key"), text(record, "value"))).collect(), findings)
}

#[test]
fn text_records_of_an_agent() {
    let registry = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
    let registrations = vec![Registration { chain_id: 1, registry, agent_id: U256::from(26433) }; 2];
    let (records, findings) = records(&manifest(json!({})), &ExportOptions { registrations, ..options() });
    let expected = [
        ("agent-endpoint[web]", "https://agent.example.com/about"),
        ("agent-endpoint[mcp]", "https://agent.example.com/mcp"),
        ("agent-endpoint[a2a]", "https://agent.example.com/.well-known/agent-card.json"),
        ("agent-endpoint[ws]", "wss://agent.example.com/live"),
        ("agent-registration[0x000100000101148004a169fb4a3325136eb29fa0ceb6d2e539a432][26433]", "1"),
    ];
    assert_eq!(records[0].0, "agent-context");
    let rest: Vec<_> = records[1..].iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(rest, expected);
    let context: Json = serde_json::from_str(&records[0].1).unwrap();
    assert_eq!((&context["name"], &context["agt"]["domain"]), (&json!("Example Agent"), &json!("exampleagent.agt")));
    assert_eq!(context["agt"]["manifest"], format!("ipfs://{CID}"));
    assert!(!records[0].1.contains('\n'));
    assert!(noted(&findings).contains(&(code::BRIDGE_DROPPED, "/capabilities")));
}

#[test]
fn a_name_has_one_endpoint_for_each_protocol() {
    let manifest = manifest(json!({"protocols": [
        {"id": "mcp", "endpoint": "https://agent.example.com/one"},
        {"id": "mcp", "endpoint": "https://agent.example.com/two"},
        {"id": "web", "endpoint": "https://agent.example.com/three"},
        {"id": "my-proto", "endpoint": "foo://agent.example.com/four"},
    ]}));
    let (records, findings) = records(&manifest, &options());
    let mcp: Vec<_> = records.iter().filter(|(key, _)| key == "agent-endpoint[mcp]").collect();
    assert_eq!(mcp.len(), 1);
    assert_eq!(mcp[0].1, "https://agent.example.com/one");
    // A custom protocol cannot replace the website.
    assert_eq!(records.iter().find(|(key, _)| key == "agent-endpoint[web]").unwrap().1, "https://agent.example.com/about");
    for index in 1..=3 {
        assert!(findings.iter().any(|finding| finding.pointer == format!("/protocols/{index}/endpoint")), "{index}");
    }
}

#[test]
fn hostile_texts_stay_inside_their_record() {
    let hostile = "x\"}]\n[{\"key\":\"agent-endpoint[mcp]\",\"value\":\"https://evil.example\"";
    let manifest = manifest(json!({"name": hostile, "description": hostile}));
    let (records, _) = records(&manifest, &options());
    assert_eq!(records.iter().filter(|(key, _)| key == "agent-endpoint[mcp]").count(), 1);
    let context: Json = serde_json::from_str(&records[0].1).unwrap();
    assert_eq!(context["description"], hostile);
}

fn zone(extra: Json, options: &ExportOptions) -> (Vec<String>, Vec<Finding>) {
    let export = exported(&manifest(extra), Format::Aid, options);
    (export.text.lines().map(str::to_owned).collect(), export.findings)
}

#[test]
fn records_of_aid() {
    let (lines, findings) = zone(json!({}), &options());
    assert_eq!(
        lines,
        [
            "_agent.agent.example.com. 300 IN TXT \"v=aid2;u=https://agent.example.com/mcp;p=mcp;a=pat;s=Example Agent;d=https://agent.example.com/about\"",
            "_agent._a2a.agent.example.com. 300 IN TXT \"v=aid2;u=https://agent.example.com/.well-known/agent-card.json;p=a2a;a=pat;s=Example Agent;d=https://agent.example.com/about\"",
            "_agent._websocket.agent.example.com. 300 IN TXT \"v=aid2;u=wss://agent.example.com/live;p=websocket;s=Example Agent;d=https://agent.example.com/about\"",
        ]
    );
    assert!(noted(&findings).contains(&(code::BRIDGE_FILLED, "/protocols/0/auth")));
    let (lines, _) =
        zone(json!({}), &ExportOptions { aid_version: AidVersion::Aid1, aid_protocol: Some("ws".to_owned()), ..options() });
    assert!(lines[0].starts_with("_agent.agent.example.com. 300 IN TXT \"v=aid1;u=wss:"), "{lines:?}");
    assert!(lines[1].starts_with("_agent._mcp.agent.example.com."), "{lines:?}");
}

#[test]
fn the_host_of_records() {
    let (lines, findings) = zone(json!({}), &ExportOptions { host: None, ..options() });
    assert!(lines[0].starts_with("_agent.exampleagent.agt. "), "{lines:?}");
    assert!(findings.iter().any(|finding| finding.message.contains("option host")), "{findings:?}");
    let (lines, _) = zone(json!({}), &ExportOptions { host: Some("Agent.Example.com.".to_owned()), ..options() });
    assert!(lines[0].starts_with("_agent.agent.example.com. "), "{lines:?}");
    let manifest = manifest(json!({}));
    let long = format!("{}.example.com", ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(50)].join("."));
    for host in
        ["", "a b.example.com", "agent.example.com/x", "agent.example.com:8443", "93.184.215.14", "evil\n.example.com", &long]
    {
        let options = ExportOptions { host: Some(host.to_owned()), ..options() };
        assert_eq!(refused(&manifest, Format::Aid, &options).code(), code::BRIDGE_OPTION, "{host:?}");
    }
    let unknown = ExportOptions { aid_protocol: Some("grpc".to_owned()), ..options() };
    assert_eq!(refused(&manifest, Format::Aid, &unknown).code(), code::BRIDGE_OPTION);
}

#[test]
fn limits_of_aid_records() {
    let name = |name: &str| {
        let (lines, findings) =
            zone(json!({"name": name, "protocols": [{"id": "mcp", "endpoint": "https://a.example.com/"}]}), &options());
        let text = lines[0].split(";s=").nth(1).map(|rest| rest.split(';').next().unwrap().trim_end_matches('"').to_owned());
        (text, findings.iter().find(|finding| finding.pointer == "/name").map(|finding| finding.code))
    };
    let sixty = "n".repeat(60);
    assert_eq!(name(&sixty), (Some(sixty), None));
    let (cut, finding) = name(&"n".repeat(61));
    assert_eq!((cut.unwrap(), finding), (format!("{}\\226\\128\\166", "n".repeat(57)), Some(code::BRIDGE_SHORTENED)));
    // A semicolon would start another value.
    assert_eq!(name("Agent;u=https://evil.example"), (None, Some(code::BRIDGE_DROPPED)));
    assert_eq!(name("two\nlines"), (None, Some(code::BRIDGE_DROPPED)));
    let (lines, findings) = zone(
        json!({"website": "https://agent.example.com/a;b", "protocols": [
            {"id": "mcp", "endpoint": "https://agent.example.com/x;u=y"},
            {"id": "grpc", "endpoint": "https://agent.example.com/grpc"},
        ]}),
        &options(),
    );
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("p=grpc") && !lines[0].contains(";d="), "{lines:?}");
    assert!(noted(&findings).contains(&(code::BRIDGE_DROPPED, "/protocols/0")), "{findings:?}");
    assert!(noted(&findings).contains(&(code::BRIDGE_ENDPOINT, "/website")), "{findings:?}");
    // Long records are split, but never inside an escape sequence.
    let long = format!("https://agent.example.com/{}", "p".repeat(400));
    let (lines, _) = zone(json!({"protocols": [{"id": "mcp", "endpoint": long}]}), &options());
    assert!(lines[0].contains("\" \""), "{lines:?}");
}

#[test]
fn protocols_and_authentication_of_aid() {
    let auth = |hint: &str| {
        let protocols = json!([{"id": "mcp", "endpoint": "https://agent.example.com/mcp", "auth": hint}]);
        let (lines, _) = zone(json!({"protocols": protocols}), &options());
        lines[0].split(";a=").nth(1).map(|rest| rest.split(';').next().unwrap().to_owned())
    };
    for (hint, token) in
        [("none", "none"), ("bearer", "pat"), ("basic", "basic"), ("api-key", "apikey"), ("signed-nonce", "custom")]
    {
        assert_eq!(auth(hint).as_deref(), Some(token), "{hint}");
    }
    assert_eq!(auth("oauth2"), None);
    let none = manifest(json!({"protocols": [
        {"id": "http", "endpoint": "https://agent.example.com/api"},
        {"id": "ws", "endpoint": "https://agent.example.com/live"},
        {"id": "local", "endpoint": "https://agent.example.com/local"},
    ]}));
    let error = refused(&none, Format::Aid, &options());
    assert_eq!(error.code(), code::BRIDGE_NO_ENDPOINT);
    assert_eq!(
        noted(&error.findings),
        [(code::BRIDGE_DROPPED, "/protocols/0"), (code::BRIDGE_DROPPED, "/protocols/2"), (code::BRIDGE_DROPPED, "/protocols/1")]
    );
}

/// Parses a line like a resolver and an AID client: the character-strings, then the values.
fn values(line: &str) -> Vec<(String, String)> {
    let mut bytes = Vec::new();
    let quoted = line.split_once(" IN TXT ").unwrap().1;
    let mut rest = quoted.bytes();
    let mut is_inside = false;
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => is_inside = !is_inside,
            b'\\' => {
                let first = rest.next().unwrap();
                if first.is_ascii_digit() {
                    let digits = [first, rest.next().unwrap(), rest.next().unwrap()];
                    bytes.push(std::str::from_utf8(&digits).unwrap().parse::<u8>().unwrap());
                } else {
                    bytes.push(first);
                }
            }
            byte if is_inside => bytes.push(byte),
            byte => assert_eq!(byte, b' ', "only spaces stand between character-strings"),
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    text.split(';').map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn no_name_adds_a_value_or_a_line() {
    for c in (0_u32..0x300).chain([0x2028, 0x202e, 0xfeff, 0x1f916]).filter_map(char::from_u32) {
        let name = format!("a{c}u=https://evil.example{c}b");
        let manifest = manifest(json!({"name": name}));
        let export = exported(&manifest, Format::Aid, &options());
        assert_eq!(export.text.lines().count(), 3, "{c:?}");
        for line in export.text.lines() {
            assert!(line.is_ascii(), "{c:?}");
            let values = values(line);
            assert_eq!(values.iter().filter(|(key, _)| key == "u").count(), 1, "{c:?}: {values:?}");
            if let Some((_, text)) = values.iter().find(|(key, _)| key == "s") {
                assert_eq!(text, name.trim(), "{c:?}");
            }
        }
    }
}
