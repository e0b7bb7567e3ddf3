//! Functions of local tools behind the gate: `local publish`.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;

use alloy_primitives::U256;
use serde_json::{Value, json};
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::read_header;

use super::gates::STRANGER;
use super::paid::{balance, mint};
use super::{Gate, HttpResponse, ORIGIN, signed, until};
use crate::Sandbox;
use crate::local::{answering, python};
use crate::onchain::{CREATOR, World};

/// The path of the function `run` of the tool `greeter` at the gate.
const PATH: &str = "tools/greeter/run";

fn greeter(script: &str, more: Value) -> Sandbox {
    let sandbox = Sandbox::new();
    install(&sandbox, script, more);
    sandbox
}

/// Writes the tool into the folder `tools`.
fn install(sandbox: &Sandbox, script: &str, more: Value) {
    let parameters = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let mut manifest = python("greeter", more);
    manifest["functions"][0]["parameters"] = parameters;
    sandbox.write("tools/greeter/manifest.json", manifest.to_string());
    sandbox.write("tools/greeter/main.py", answering(script));
}

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["local", "publish", "greeter", "run", "--tools", "tools", "--origin", ORIGIN, "--creator", CREATOR];
    [&usual[..], &["--listen", "127.0.0.1:0", "--store", "memory"], more].concat()
}

fn publish(sandbox: &Sandbox, more: &[&str], variables: &[(&str, &str)]) -> Gate {
    Gate::spawn(sandbox, sandbox.command(&arguments(more)), variables)
}

/// The error code of a refusal.
#[track_caller]
fn refused(sandbox: &Sandbox, more: &[&str]) -> String {
    let (code, envelope) = sandbox.run_json(&arguments(more));
    assert_eq!(code, 1, "{envelope}");
    envelope["data"]["code"].as_str().expect("a code").to_owned()
}

fn logged(sandbox: &Sandbox, event: &str) -> Vec<Value> {
    let (_, envelope) = sandbox.run_json(&["local", "logs", "greeter"]);
    let lines = envelope["data"]["lines"].as_array().expect("lines");
    lines.iter().filter(|line| line["event"] == event).cloned().collect()
}

#[test]
fn a_published_function_answers_over_the_gate() {
    let sandbox = greeter("'hello ' + call['args']['name']", json!({}));
    assert_eq!(refused(&sandbox, &[]), "host.declined", "there is no terminal to ask at");
    let gate = publish(&sandbox, &["--yes"], &[]);
    let answer = gate.call(PATH, &json!({"name": "Ann"}));
    assert_eq!((answer.status, answer.json()), (200, json!("hello Ann")), "{}", gate.log());
    for wrong in [json!({"name": 7}), json!({}), json!([])] {
        assert_eq!(gate.call(PATH, &wrong).verdict(), (400, "gate.input_invalid".to_owned()), "{wrong}");
    }
    // The manifest is served unchanged.
    let manifest = gate.get("/.well-known/ai-tool/greeter-run.json");
    assert_eq!(manifest.body, sandbox.read(".well-known/ai-tool/greeter-run.json").as_bytes());
    let manifest = manifest.json();
    assert_eq!(manifest["endpoint"], json!(format!("{ORIGIN}/{PATH}")));
    assert_eq!(manifest["creatorAddress"], json!(CREATOR.to_lowercase()));
    let next = format!("next: toolcrib register --metadata {ORIGIN}/.well-known/ai-tool/greeter-run.json --manifest");
    assert!(gate.log().contains(&next), "{}", gate.log());
    assert_eq!(gate.stop(), Some(0));
    // One call reached the tool, and the log contains its caller and containment.
    let started = logged(&sandbox, "call_started");
    let [call] = started.as_slice() else { panic!("{started:?}") };
    assert_eq!((&call["client"], &call["function"]), (&json!("gate"), &json!("run")));
    assert!(call["sandbox"].as_str().expect("a text").starts_with("sandboxed by"), "{call}");
    assert_eq!(logged(&sandbox, "permission_changed").len(), 1);
    // The approval holds for this version.
    let gate = publish(&sandbox, &[], &[]);
    assert_eq!(gate.call(PATH, &json!({"name": "Bob"})).json(), json!("hello Bob"));
    assert_eq!(logged(&sandbox, "permission_changed").len(), 1);
}

#[test]
fn the_sandbox_holds_for_callers_and_faults_say_nothing_of_this_machine() {
    let sandbox = greeter("open(call['args']['name']).read()", json!({}));
    let precious = sandbox.write("precious.txt", "precious").display().to_string();
    let gate = publish(&sandbox, &["--yes"], &[]);
    for path in [precious.as_str(), "/etc/shadow-or-not"] {
        let answer = gate.call(PATH, &json!({"name": path}));
        assert_eq!(answer.verdict(), (500, "gate.failed".to_owned()), "{}", gate.log());
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!body.contains("precious") && !body.contains("shadow"), "{body}");
    }
}

#[test]
fn a_tool_that_changes_is_not_served_until_it_is_published_again() {
    let sandbox = greeter("'hello ' + call['args']['name']", json!({}));
    let gate = publish(&sandbox, &["--yes"], &[]);
    let input = json!({"name": "Ann"});
    assert_eq!(gate.call(PATH, &input).json(), json!("hello Ann"));
    sandbox.write("tools/greeter/main.py", answering("'changed'"));
    until("it is not served any more", || gate.call(PATH, &input).status == 503);
    assert_eq!(gate.call(PATH, &input).verdict(), (503, "gate.unavailable".to_owned()));
    let lines = gate.log().lines().filter(|line| line.contains("published tool changed, not served")).count();
    assert_eq!(lines, 1, "one line, however often it is called: {}", gate.log());
    // Until the change was detected, the published copy ran.
    let contents: BTreeSet<_> = logged(&sandbox, "call_started").iter().map(|line| line["content"].to_string()).collect();
    assert_eq!(contents.len(), 1, "the changed tool ran");
    drop(gate);
    assert_eq!(refused(&sandbox, &[]), "host.declined", "the approval was for the other version");
    let gate = publish(&sandbox, &["--yes"], &[]);
    assert_eq!(gate.call(PATH, &input).json(), json!("changed"));
}

#[test]
fn credentials_missing_sandboxes_and_deny_rules_keep_a_function_from_being_published() {
    let credentials = json!({"credentials": [{"name": "token", "label": "Token", "required": true}]});
    let sandbox = greeter("len(call['credentials']['token'])", credentials);
    assert_eq!(refused(&sandbox, &["--yes"]), "host.publish_credentials");
    assert_eq!(refused(&sandbox, &["--yes", "--allow-unsandboxed"]), "host.publish_credentials");
    let secret = [("TOOLCRIB_SECRET_GREETER__TOKEN", "abcdefgh")];
    let gate = publish(&sandbox, &["--yes", "--allow-credentials"], &secret);
    assert_eq!(gate.call(PATH, &json!({"name": "Ann"})).json(), json!(8), "{}", gate.log());
    drop(gate);

    let sandbox = greeter("'hello'", json!({}));
    assert_eq!(refused(&sandbox, &["--yes", "--no-sandbox"]), "host.publish_unsandboxed");
    assert_eq!(refused(&sandbox, &["--yes", "--no-sandbox", "--allow-credentials"]), "host.publish_unsandboxed");
    let gate = publish(&sandbox, &["--yes", "--no-sandbox", "--allow-unsandboxed"], &[]);
    assert_eq!(gate.call(PATH, &json!({"name": "Ann"})).json(), json!("hello"), "{}", gate.log());
    // A new rule applies from the next call on.
    sandbox.run(&["permit", "set", "greeter", "deny", "--tools", "tools"]).code(0);
    assert_eq!(gate.call(PATH, &json!({"name": "Ann"})).status, 503);
    drop(gate);
    assert_eq!(refused(&sandbox, &["--yes"]), "host.declined");
    assert_eq!(
        sandbox.run(&["local", "publish", "greeter", "walk", "--tools", "tools", "--origin", ORIGIN, "--creator", CREATOR]).code,
        1
    );
}

#[test]
fn a_priced_function_is_never_served_for_nothing() {
    let sandbox = greeter("'hello'", json!({}));
    // No settler is configured.
    let ran = sandbox.run(&arguments(&["--yes", "--price", "0.01", "--network", "base"])).code(2);
    assert!(ran.stderr.contains("error["), "{}", ran.stderr);
    let manifest: Value = serde_json::from_str(&sandbox.read(".well-known/ai-tool/greeter-run.json")).expect("JSON");
    assert_eq!(manifest["pricing"][0]["amount"], "10000");
    assert!(manifest["pricing"][0]["recipient"].as_str().expect("a text").ends_with(&CREATOR.to_lowercase()[2..]), "{manifest}");
}

/// Pays for a call with a development account.
fn pay(gate: &Gate, nonce: u8) -> HttpResponse {
    let input = json!({"name": "Ann"});
    let asked = gate.call(PATH, &input);
    assert_eq!(asked.status, 402, "{}", gate.log());
    let challenge = read_header(asked.header("payment-required").expect("version 2")).challenge.expect("a challenge");
    gate.call_with(PATH, &[("PAYMENT-SIGNATURE", &signed(&challenge, 2, nonce))], &input)
}

#[test]
fn a_priced_function_is_paid_and_one_that_changed_costs_nothing() {
    let world = World::new();
    install(&world.sandbox, "'hello ' + call['args']['name']", json!({}));
    mint(&world, dev_signers()[2].address(), 30_000);
    let price = ["--yes", "--price", "0.01", "--recipient", STRANGER, "--network", "local", "--rpc-url", &world.url];
    let gate = publish(&world.sandbox, &[&price[..], &["--settle-locally", "--dev-account", "9"]].concat(), &[]);
    let answer = pay(&gate, 1);
    assert_eq!((answer.status, answer.json()), (200, json!("hello Ann")), "{}", gate.log());
    assert!(answer.header("payment-response").is_some(), "{}", answer.head);
    assert_eq!(balance(&world, STRANGER), U256::from(10_000));
    world.sandbox.write("tools/greeter/main.py", answering("'changed'"));
    until("the change is noticed", || !logged(&world.sandbox, "tool_changed").is_empty());
    assert_eq!(pay(&gate, 2).verdict(), (503, "gate.unavailable".to_owned()), "{}", gate.log());
    assert_eq!(balance(&world, STRANGER), U256::from(10_000), "what is not served is not paid");
}
