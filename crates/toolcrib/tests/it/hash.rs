//! `hash` and `canon`.

use crate::{Sandbox, example};

#[test]
fn the_hash_is_over_the_canonical_form() {
    let sandbox = Sandbox::new();
    // keccak256 of `{"a":1,"b":[]}`, computed with an independent implementation.
    let expected = "0xb4d09b167c0f953447631e2f7819918b0132ead63aa84f78fc08923de3d85b52";
    let one = sandbox.run_with_stdin(&["hash"], b"{ \"b\": [], \"a\": 1.0 }").code(0).silent().stdout;
    let two = sandbox.run_with_stdin(&["hash", "-"], b"{\"a\":1,\"b\":[]}").code(0).silent().stdout;
    assert_eq!(one, two);
    assert_eq!(one.trim(), expected);
    assert_eq!(sandbox.run_with_stdin(&["canon"], b"{ \"b\": [], \"a\": 1.0 }").code(0).silent().stdout, "{\"a\":1,\"b\":[]}");
}

#[test]
fn any_document_has_a_hash_and_what_would_not_verify_is_told_beside_it() {
    let sandbox = Sandbox::new();
    sandbox.run_with_stdin(&["hash"], b"[1, 2]").code(0).silent();
    sandbox.write("tool.json", "{\"endpoint\": \"cafe\u{301}\"}");
    let ran = sandbox.run(&["hash", "tool.json"]).code(0);
    assert!(ran.stdout.starts_with("0x") && ran.stdout.len() == 67, "{}", ran.stdout);
    assert!(ran.stderr.contains("tool.json:1:14: error[json.not_nfc]: "), "{}", ran.stderr);
    assert_eq!(sandbox.run(&["hash", "tool.json", "-q"]).code(0).silent().stdout, ran.stdout);
    let (code, envelope) = sandbox.run_json(&["hash", "tool.json"]);
    assert_eq!(code, 0);
    assert_eq!(envelope["data"]["documents"][0]["hash"], ran.stdout.trim());
    assert!(envelope["warnings"].as_array().expect("a list").iter().any(|warning| warning["code"] == "json.not_nfc"));
}

#[test]
fn a_document_without_canonical_form_has_no_hash() {
    let sandbox = Sandbox::new();
    for text in ["{\"a\":1,\"a\":2}", "[\"\\ud800\"]", "[1e999]", "", "[1] x", "\u{feff}[]"] {
        for command in ["hash", "canon"] {
            let ran = sandbox.run_with_stdin(&[command, "-q"], text.as_bytes()).code(1);
            assert_eq!(ran.stdout, "", "{text}");
            assert!(ran.stderr.starts_with("<stdin>"), "{text}: {}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{text}: {}", ran.stderr);
        }
    }
}

#[test]
fn several_files_give_several_lines() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", example("tool-free.json"));
    sandbox.write("b.json", example("tool-paid.json"));
    let ran = sandbox.run(&["hash", "a.json", "gone.json", "b.json"]).code(2);
    let lines: Vec<_> = ran.stdout.lines().map(|line| line.split_once("  ").expect("hash and path")).collect();
    assert_eq!(lines.iter().map(|(_, path)| *path).collect::<Vec<_>>(), ["a.json", "b.json"]);
    assert_eq!(sandbox.run(&["hash", "a.json"]).code(0).stdout.trim(), lines[0].0);
    assert!(ran.stderr.starts_with("error[cli.not_found]: gone.json does not exist\n"), "{}", ran.stderr);
}

#[test]
fn the_canonical_form_has_no_newline_and_is_a_fixed_point() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", example("agent.agt.json"));
    let once = sandbox.run(&["canon", "a.json"]).code(0).silent().stdout;
    assert!(once.starts_with("{\"agt\":\"1.0\",\"capabilities\":") && once.ends_with('}'));
    assert_eq!(sandbox.run_with_stdin(&["canon"], once.as_bytes()).code(0).stdout, once);
}

#[test]
fn what_a_wallet_signs_leaves_the_signature_out() {
    let sandbox = Sandbox::new();
    sandbox.write("agent.json", example("agent.agt.json"));
    let signed = sandbox.run(&["canon", "--for-signing", "agent.json", "-q"]).code(0).stdout;
    let whole = sandbox.run(&["canon", "agent.json", "-q"]).code(0).stdout;
    assert!(whole.contains("\"signature\":\"0x") && !signed.contains("\"signature\""), "{signed}");
    let digest = sandbox.run(&["hash", "--for-signing", "agent.json", "-q"]).code(0).stdout;
    assert_ne!(digest, sandbox.run(&["hash", "agent.json", "-q"]).code(0).stdout);
    // keccak256 of "\x19Ethereum Signed Message:\n2{}", computed with an independent implementation.
    let empty = sandbox.run_with_stdin(&["hash", "--for-signing", "-q"], b"{\"signature\": 1}").code(0).stdout;
    assert_eq!(empty.trim(), "0xc496eb97e233a06697fa8bff2f26e72d174d1307686616c1e4e37bc6bdf0f6af");
    sandbox.run_with_stdin(&["canon", "--for-signing", "-q"], b"[]").code(1);
}
