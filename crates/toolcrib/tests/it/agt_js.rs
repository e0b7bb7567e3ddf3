//! Signatures of agent manifests, created and verified by third-party JavaScript packages.

use std::path::Path;
use std::process::{Command, Output};

use crate::Sandbox;

/// The key of the first account that development chains publish.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

fn node(folder: &Path, script: &str, file: &Path) -> Output {
    Command::new("node").arg(folder.join(script)).arg(file).env("PRIVATE_KEY", KEY).output().expect("node runs")
}

/// Manifests whose canonical form has traps: order of keys by UTF-16, numbers, escapes, a nested `signature`, text beyond ASCII.
fn drafts() -> Vec<String> {
    let draft = |extra: &str| {
        format!(
            "{{\"agt\":\"1.0\",\"domain\":\"rain.agt\",\"owner\":\"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\",\
             \"created_at\":\"2026-11-01T09:00:00Z\"{extra}}}"
        )
    };
    vec![
        draft(""),
        draft(r#", "name": "Wëather 日本 🤖", "description": "Line one\nline \"two\" \\ end é""#),
        draft(r#", "x-number": [1e21, 1e-7, 0.1, 100, 1E2, 333333333.33333329, 4.50, -0], "x-empty": {}, "x-list": []"#),
        draft(r#", "\ufb01": 1, "🤖": 2, "x-z": {"b": 1, "a": {"signature": "kept"}}"#),
        draft(
            r#", "capabilities": [{"id": "ocr", "input": {"type": "object", "properties": {"__proto__": {"type": "string"}}}}]"#,
        ),
    ]
}

// req: AGT-015, AGT-016, AGT-018
#[test]
fn javascript_verifies_what_toolcrib_signs() {
    let Some(folder) = toolcrib_testkit::agt_js() else { return };
    let sandbox = Sandbox::new();
    for draft in drafts() {
        sandbox.write("draft.json", &draft);
        let signed = sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout;
        let file = sandbox.write("signed.json", &signed);
        let verified = node(&folder, "verify.mjs", &file);
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success(), "{signed}\n{said}{}", String::from_utf8_lossy(&verified.stderr));
        let answer: serde_json::Value = serde_json::from_str(&said).expect("one line of JSON");
        assert_eq!(answer["signer"], "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        let changed = sandbox.write("changed.json", signed.replacen("09:00:00", "09:00:01", 1));
        assert_eq!(node(&folder, "verify.mjs", &changed).status.code(), Some(1), "a changed manifest is not valid");
    }
}

// req: AGT-015, AGT-016, AGT-018
#[test]
fn toolcrib_verifies_what_javascript_signs() {
    let Some(folder) = toolcrib_testkit::agt_js() else { return };
    let sandbox = Sandbox::new();
    for draft in drafts() {
        let file = sandbox.write("draft.json", &draft);
        let signed = node(&folder, "sign.mjs", &file);
        assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
        sandbox.write("signed.json", &signed.stdout);
        sandbox.run(&["agt", "verify", "signed.json"]).code(0);
        let changed = String::from_utf8(signed.stdout).expect("text").replacen("09:00:00", "09:00:01", 1);
        sandbox.write("changed.json", changed);
        sandbox.run(&["agt", "verify", "changed.json"]).code(1);
    }
}
