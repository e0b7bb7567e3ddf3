//! `agt tools` with real tools: a name on one development chain, and a tool that is registered on another and served over TLS.

use serde_json::Value;

use crate::agt::{OTHER, polygon, send, token_id, word};
use crate::onchain::{CREATOR, World};
use crate::trust::TrustSetup;

/// Signs a manifest of `rain.agt` with the tool's endpoint, mints the name for its owner, and saves the evidence of a resolution.
fn evidence(place: &TrustSetup, names: &World, owner: &str, account: &str, file: &str) {
    let sandbox = &place.world.sandbox;
    let tool: Value = serde_json::from_str(&sandbox.read("tool.json")).expect("JSON");
    let protocol = format!("http={}", tool["endpoint"].as_str().expect("an endpoint"));
    let draft = format!("draft-{account}.json");
    sandbox.run(&["agt", "new", "rain.agt", "--owner", owner, "--protocol", &protocol, "--out", &draft]).code(0);
    let signed = sandbox.run(&["agt", "sign", &draft, "--dev-account", account, "-q"]).code(0).stdout;
    let name = format!("signed-{account}.json");
    sandbox.write(&name, signed);
    let (code, packed) = sandbox.run_json(&["agt", "pack", &name]);
    assert_eq!(code, 0, "{packed:#}");
    sandbox.write("records.txt", format!("{}\n", packed["data"]["txt"].as_str().expect("a record")));
    let resolve = ["agt", "resolve", "rain.agt", "--source", "file:records.txt", "--content", &name, "--no-memory"];
    let (code, report) = sandbox.run_json(&[&resolve[..], &["--rpc-url", &names.url, "--save", file]].concat());
    assert_eq!((code, &report["data"]["report"]["verified"]), (0, &Value::Bool(true)), "{report:#}");
}

/// The one tool at the endpoint, and the codes of the findings.
fn found(envelope: &Value) -> (&Value, Vec<&str>) {
    let agent = &envelope["data"]["agent"];
    let tools = agent["endpoints"][0]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1, "{envelope:#}");
    let findings = agent["findings"].as_array().expect("findings");
    (&tools[0], findings.iter().filter_map(|finding| finding["code"].as_str()).collect())
}

#[test]
fn tools_at_the_endpoint_are_shown_with_both_verdicts() {
    let mut place = TrustSetup::new();
    let names = polygon();
    let id = token_id(&place.world.sandbox);
    send(&names, "40c10f19", &[word(CREATOR), word(&id)]);
    evidence(&place, &names, CREATOR, "0", "evidence.json");
    let reference = place.register();

    // The owner of the name registered the tool, and both are verified.
    let (code, same) = place.json(&["agt", "tools", "evidence.json"]);
    let (tool, codes) = found(&same);
    assert_eq!((code, codes), (0, Vec::new()), "{same:#}");
    assert_eq!((same["data"]["agent"]["verdict"].as_str(), tool["verdict"].as_str()), (Some("verified"), Some("verified")));
    assert_eq!((tool["same_owner"].as_bool(), tool["confirmed"].as_bool()), (Some(true), Some(true)));
    assert_eq!((tool["place"].as_str(), tool["tool"].as_str()), (Some("same"), Some(reference.as_str())));
    let said = place.run(&["agt", "tools", "evidence.json"]).code(0).stdout;
    assert!(said.contains("rain.agt: verified") && said.contains("verified, registered by the owner"), "{said}");
    // A manifest in a file is only signed.
    let (code, unresolved) = place.json(&["agt", "tools", "signed-0.json"]);
    let (tool, codes) = found(&unresolved);
    assert_eq!((code, tool["confirmed"].as_bool(), codes), (1, Some(false), vec!["agent.tool_not_verified"]), "{unresolved:#}");

    // Another account owns the name: the tool is verified, but registered by a different account.
    send(&names, "23b872dd", &[word(CREATOR), word(OTHER), word(&id)]);
    evidence(&place, &names, OTHER, "1", "sold.json");
    let (code, differs) = place.json(&["agt", "tools", "sold.json", "--tool", &reference]);
    let (tool, codes) = found(&differs);
    assert_eq!((code, codes), (1, vec!["agent.tool_creator_differs"]), "{differs:#}");
    assert_eq!((differs["data"]["agent"]["verdict"].as_str(), tool["verdict"].as_str()), (Some("verified"), Some("verified")));
    assert_eq!((tool["same_owner"].as_bool(), tool["confirmed"].as_bool()), (Some(false), Some(false)));
    let said = place.run(&["agt", "tools", "sold.json", "--tool", &reference]).code(1).stdout;
    assert!(said.contains("verified, registered by another account"), "{said}");
    // The new owner has registered nothing.
    let (code, none) = place.json(&["agt", "tools", "sold.json"]);
    assert_eq!((code, &none["data"]["agent"]["endpoints"][0]["tools"]), (1, &Value::Array(Vec::new())), "{none:#}");

    // The server has a manifest other than the registered one: the tool's location is known, but it is not verified.
    place.serve(&place.renamed());
    let (code, refused) = place.json(&["agt", "tools", "evidence.json"]);
    let (tool, codes) = found(&refused);
    assert_eq!((code, codes), (1, vec!["agent.tool_not_verified"]), "{refused:#}");
    assert_eq!((refused["data"]["agent"]["verdict"].as_str(), tool["verdict"].as_str()), (Some("verified"), Some("refused")));
    assert_eq!((tool["same_owner"].as_bool(), tool["confirmed"].as_bool()), (Some(true), Some(false)));
    let said = place.run(&["agt", "tools", "evidence.json"]).code(1).stdout;
    assert!(said.contains("rain.agt: verified") && said.contains("not verified, registered by the owner"), "{said}");
    // If the server is down, nothing is known about the endpoint.
    place.down();
    let (code, gone) = place.json(&["agt", "tools", "evidence.json"]);
    assert_eq!((code, &gone["data"]["agent"]["endpoints"][0]["tools"]), (1, &Value::Array(Vec::new())), "{gone:#}");
}
