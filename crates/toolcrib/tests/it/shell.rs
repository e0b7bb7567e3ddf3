//! `explain`, `completions` and `man`.

use crate::Sandbox;

#[test]
fn a_code_explains_itself() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.run(&["explain", "json.duplicate_key"]).code(0).silent().stdout, @r"
    json.duplicate_key: an object has the same key twice

    Readers disagree on which of two equal keys counts, so two readers could see two
    different manifests under one hash. Keys are compared after unescaping.

    What to do: keep one of the two.

    Severity: error
    Source: RFC 8785 §3.1 (I-JSON)
    Fails: check 3 of ERC-8257 §7, so readers treat the tool as unverified
    ");
    let ran = sandbox.run(&["explain", "json.dupicate_key"]).code(1);
    insta::assert_snapshot!(ran.stderr, @r"
    error[cli.unknown_code]: no code is called `json.dupicate_key`
    hint: did you mean json.duplicate_key?
    ");
    assert_eq!(ran.stdout, "");
    sandbox.run(&["explain"]).code(2);
}

#[test]
fn all_codes_are_listed() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["explain", "--list"]).code(0).silent();
    assert_eq!(ran.stdout.lines().count(), toolcrib_core::codes::all().count());
    let (_, envelope) = sandbox.run_json(&["explain", "--list"]);
    assert_eq!(envelope["data"]["codes"].as_array().map(Vec::len), Some(toolcrib_core::codes::all().count()));
}

#[test]
fn shells_and_man_get_their_files() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&["completions", shell]).code(0).silent().stdout;
        assert!(script.contains("deny-warnings"), "{shell}");
    }
    assert!(sandbox.run(&["man"]).code(0).silent().stdout.contains(".TH toolcrib 1"));
    assert!(sandbox.run(&["man", "lint"]).code(0).silent().stdout.contains("deny\\-warnings"));
    sandbox.run(&["man", "nonsense"]).code(2);
}
