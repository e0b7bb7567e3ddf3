//! Pinned onchain tools with the real program.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::trust::TrustSetup;

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The pins as `local list` shows them.
#[track_caller]
fn listed(place: &TrustSetup) -> Vec<Value> {
    let (_, envelope) = place.world.sandbox.run_json(&["local", "list"]);
    envelope["data"]["onchain"].as_array().expect("a list").clone()
}

/// Exit code and error code of a refusal.
#[track_caller]
fn refusal(place: &TrustSetup, arguments: &[&str]) -> (i32, String) {
    let (code, envelope) = place.json(arguments);
    (code, envelope["data"]["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn an_onchain_tool_is_pinned_quarantined_and_accepted() {
    let place = TrustSetup::new();
    let tool = place.register();
    assert_eq!(refusal(&place, &["local", "add", &tool]), (1, "host.declined".to_owned()), "there is no terminal");
    assert_eq!(listed(&place), [] as [Value; 0]);
    let ran = place.run(&["local", "add", &tool, "--yes"]).code(0);
    let origin = format!("https://tide-table.tool.localhost:{}", place.port);
    for part in ["Tide table", &origin, &tool, "none stated", "onchain_tide-table", "manifest     0x"] {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
    assert_eq!(refusal(&place, &["local", "add", &tool, "--yes"]), (1, "host.pin_exists".to_owned()));
    let pins = listed(&place);
    assert_eq!((pins.len(), &pins[0]["exposed"], &pins[0]["quarantine"]), (1, &json!("onchain_tide-table"), &Value::Null));
    let (code, envelope) = place.world.sandbox.run_json(&["local", "show", &tool]);
    assert_eq!((code, &envelope["data"]["tool"]), (0, &json!(tool)));
    assert_eq!(envelope["data"]["inputs"]["type"], "object");

    // The served manifest differs from the registration: the MCP server detects it, and the user sees the difference.
    let renamed = place.renamed();
    place.serve(&renamed);
    assert_eq!(refusal(&place, &["local", "update", &tool, "--yes"]), (1, "host.pin_unverified".to_owned()));
    let arguments = ["mcp", "--directory", "http://127.0.0.1:1/", "--network", "local", "--rpc-url", &place.world.url];
    let mut command = place.world.sandbox.command(&arguments);
    let running = Running(command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts"));
    let began = Instant::now();
    while listed(&place)[0]["quarantine"].is_null() {
        toolcrib_testkit::assert_not_hung(began, "the change is noticed");
        thread::sleep(Duration::from_millis(100));
    }
    drop(running);
    let quarantine = listed(&place)[0]["quarantine"].clone();
    assert_eq!(quarantine["changes"]["list"][0]["field"], "name", "{quarantine}");
    assert!(quarantine["codes"].to_string().contains("verify.hash_mismatch"), "{quarantine}");
    let text = place.world.sandbox.run(&["local", "list"]).stdout;
    assert!(text.contains("QUARANTINED") && text.contains("\"Tide table\" -> \"Tide table two\""), "{text}");
    let (code, envelope) = place.world.sandbox.run_json(&["local", "doctor"]);
    let checks = envelope["data"]["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["check"] == "pinned tool onchain_tide-table").expect("a check");
    assert_eq!((code, &check["ok"]), (1, &json!(false)), "{check}");

    // The creator commits to the other manifest; the user sees the difference and accepts it.
    place.world.sandbox.write("renamed.json", &renamed);
    place.world.sign(&["update", &tool, "--manifest", "renamed.json", "--skip-fetch"], "0").code(0);
    assert_eq!(refusal(&place, &["local", "update", &tool]), (1, "host.declined".to_owned()), "there is no terminal");
    let (code, envelope) = place.json(&["local", "update", "onchain_tide-table", "--dry-run"]);
    assert_eq!((code, &envelope["data"]["diff"]["list"][0]["after"]), (0, &json!("\"Tide table two\"")));
    assert!(!listed(&place)[0]["quarantine"].is_null(), "nothing was accepted");
    place.run(&["local", "update", &tool, "--yes"]).code(0);
    let pins = listed(&place);
    assert_eq!((&pins[0]["name"], &pins[0]["quarantine"]), (&json!("Tide table two"), &Value::Null));
    place.world.sandbox.run(&["local", "remove", "onchain_tide-table"]).code(0);
    assert_eq!(listed(&place), [] as [Value; 0]);
}

#[test]
fn what_does_not_verify_or_has_a_name_that_is_taken_is_not_pinned() {
    let place = TrustSetup::new();
    let tool = place.register();
    let honest = place.world.sandbox.read("tool.json");
    place.serve(&place.renamed());
    let (code, envelope) = place.json(&["local", "add", &tool, "--yes"]);
    assert_eq!((code, &envelope["data"]["code"]), (1, &json!("host.pin_unverified")));
    let findings = envelope["data"]["report"]["findings"].to_string();
    assert!(findings.contains("verify.hash_mismatch"), "{findings}");
    place.serve(&honest);
    let function = json!({"name": "tide-table", "description": "Takes a name.", "parameters": {"type": "object"}});
    let manifest = json!({
        "id": "onchain", "name": "Onchain", "description": "Takes names.", "version": "1.0.0",
        "functions": [function], "runtime": {"kind": "exec", "command": ["true"]},
    });
    place.world.sandbox.write("tools/onchain/manifest.json", manifest.to_string());
    let arguments = ["local", "add", &tool, "--yes", "--json", "--network", "local", "--rpc-url", &place.world.url];
    let ran = place.world.sandbox.run_with_env(&arguments, &[("TOOLCRIB_TOOLS", "tools")]).code(1);
    assert!(ran.stdout.contains("host.pin_name_taken"), "{}", ran.stdout);
    let named = [&arguments[..], &["--name", "tides"]].concat();
    let ran = place.world.sandbox.run_with_env(&named, &[("TOOLCRIB_TOOLS", "tools")]).code(0);
    assert!(ran.stdout.contains("onchain_tides"), "{}", ran.stdout);
}
