//! Payments: a priced tool behind the gate, settled on a real chain; and TLS, with which such a tool verifies.

use std::net::TcpListener;

use alloy_primitives::{Address, U256, keccak256};
use serde_json::json;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::{asset, read_header};

use super::gates::{STRANGER, priced};
use super::upstream::Behind;
use super::{Gate, HttpResponse, manifest, send, signed, until};
use crate::onchain::World;
use toolcrib_testkit::servers::Authority;

/// Mints test money, which any account may do.
pub(crate) fn mint(world: &World, to: Address, amount: u64) {
    let token = asset::usdc(31_337).expect("listed").address;
    let selector = alloy_primitives::hex::encode(&keccak256("mint(address,uint256)")[..4]);
    let data = format!("0x{selector}{:0>64}{amount:064x}", format!("{to:x}"));
    let from = dev_signers()[0].address();
    world.ask("eth_sendTransaction", &json!({ "from": from, "to": token, "data": data, "gas": "0x100000" }).to_string());
}

/// The test money of an account.
pub(super) fn balance(world: &World, of: &str) -> U256 {
    let token = asset::usdc(31_337).expect("listed").address;
    let data = format!("0x70a08231{:0>64}", of.trim_start_matches("0x").to_lowercase());
    let answer = world.ask("eth_call", &format!("{},\"latest\"", json!({ "to": token, "data": data })));
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    answer["result"].as_str().expect("a word").parse().expect("a number")
}

fn pay(gate: &Gate, nonce: u8) -> HttpResponse {
    let asked = gate.call("tool", &json!({}));
    assert_eq!(asked.status, 402, "{}", gate.log());
    let challenge = read_header(asked.header("payment-required").expect("version 2")).challenge.expect("a challenge");
    gate.call_with("tool", &[("PAYMENT-SIGNATURE", &signed(&challenge, 2, nonce))], &json!({ "a": 1 }))
}

// req: GATE-002, GATE-006
#[test]
fn a_priced_tool_is_served_to_those_who_pay_and_to_nobody_else() {
    let (world, behind) = (World::new(), Behind::start());
    world.sandbox.write("tool.json", priced("tool").to_string());
    let url = |path: &str| format!("http://{}/{path}", behind.address);
    let payer = dev_signers()[2].address();
    mint(&world, payer, 25_000);
    let settle = ["--settle-locally", "--dev-account", "9", "--rpc-url", &world.url, "--store", "memory"];
    let gate = Gate::start(&world.sandbox, &[&["tool.json", "--upstream", &url("echo")], &settle[..]].concat());
    let answer = pay(&gate, 1);
    assert_eq!((answer.status, answer.json()), (200, json!({ "got": { "a": 1 } })), "{}", gate.log());
    assert!(answer.header("payment-response").is_some(), "{}", answer.head);
    assert_eq!(balance(&world, STRANGER), U256::from(10_000));
    assert_eq!(pay(&gate, 2).status, 200);
    // Five thousand are left, which is too little.
    let answer = pay(&gate, 3);
    assert_eq!(answer.status, 402, "{}", gate.log());
    assert_eq!(balance(&world, STRANGER), U256::from(20_000));
    assert_eq!(behind.requests.lock().expect("unpoisoned").len(), 2, "a payment that cannot settle costs the upstream nothing");
    drop(gate);

    // A failing tool is not paid.
    mint(&world, payer, 10_000);
    for path in ["fails", "refuses", "page", "huge", "closes"] {
        let gate = Gate::start(&world.sandbox, &[&["tool.json", "--upstream", &url(path)], &settle[..]].concat());
        let answer = pay(&gate, 4);
        assert!(matches!(answer.status, 422 | 500), "{path}: {answer:?}");
        assert_eq!(balance(&world, STRANGER), U256::from(20_000), "{path}");
    }
}

#[test]
fn a_facilitator_that_is_down_moves_nothing_and_is_told_at_the_start() {
    let (world, behind) = (World::new(), Behind::start());
    world.sandbox.write("tool.json", priced("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let arguments = ["tool.json", "--upstream", &upstream, "--facilitator", "http://127.0.0.1:1/", "--store", "memory"];
    // Without a node, a forged transaction would be accepted, so that needs an explicit option.
    let ran = world.sandbox.run(&[&["serve"], &arguments[..]].concat());
    assert!(
        ran.code == 2 && ran.stderr.contains("settlement.no_node") && ran.stderr.contains("--trust-facilitator"),
        "{}",
        ran.stderr
    );
    let arguments = [&arguments[..], &["--trust-facilitator"]].concat();
    let gate = Gate::start(&world.sandbox, &arguments);
    assert!(gate.log().contains("warning[settlement.kinds_unknown]"), "{}", gate.log());
    assert_eq!(pay(&gate, 1).verdict(), (502, "settlement.unavailable".to_owned()));
    assert!(behind.requests.lock().expect("unpoisoned").is_empty());
    drop(gate);
    let checked = [&arguments[..7], &["--rpc-url", &world.url]].concat();
    let gate = Gate::start(&world.sandbox, &checked);
    assert!(gate.log().contains("note: other servers may use the same recipients"), "{}", gate.log());
    drop(gate);
    let gate = Gate::start(&world.sandbox, &[&checked[..], &["--sole-recipient"]].concat());
    assert!(gate.log().contains("note: only this server uses these recipients (--sole-recipient)"), "{}", gate.log());
    drop(gate);
    // Without a node, the option would have no effect.
    let ran = world.sandbox.run(&[&["serve"], &arguments[..], &["--sole-recipient"]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("settlement.no_node") && ran.stderr.contains("--rpc-url"), "{}", ran.stderr);
    let ran = world.sandbox.run(&[&["serve"], &arguments[..], &["--facilitator-auth-env", "X-Api-Key=NO_SUCH_KEY"]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("environment variable NO_SUCH_KEY is not set"), "{}", ran.stderr);
}

/// A value of the metrics page.
fn counter(gate: &Gate, name: &str) -> u64 {
    until("the address of the counters", || gate.log().contains("/metrics\n"));
    let log = gate.log();
    let address = log.lines().find_map(|line| line.strip_prefix("metrics at http://")?.strip_suffix("/metrics"));
    let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{log}"));
    let page = send(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let page = String::from_utf8(page.body).expect("text");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {page}"))
}

#[test]
fn the_limits_of_what_is_kept_are_settings_and_shown() {
    let (world, behind) = (World::new(), Behind::start());
    world.sandbox.write("tool.json", priced("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let settle = ["--settle-locally", "--dev-account", "9", "--rpc-url", &world.url, "--metrics", "127.0.0.1:0"];
    let start = |store: &str, more: &[&str]| {
        let arguments = [&["tool.json", "--upstream", &upstream, "--store", store], &settle[..], more].concat();
        Gate::start(&world.sandbox, &arguments)
    };
    let names = ["toolcrib_replay_result_bytes_limit", "toolcrib_replay_one_result_bytes_limit", "toolcrib_replay_entries_limit"];
    let shown = |gate: &Gate| names.map(|name| counter(gate, name));
    // What `docs/deploy.md` says.
    assert_eq!(shown(&start("memory", &[])), [256 << 20, 1 << 20, 1_000_000]);
    assert_eq!(shown(&start("gate.db", &[])), [4 << 30, 1 << 20, 1_000_000]);
    let payer = dev_signers()[2].address();
    mint(&world, payer, 100_000);
    for (nth, store) in [(0, "memory"), (1, "other.db")] {
        // Two payments, and results, the second of which is too large here: it is not charged.
        let gate = start(store, &["--kept-results", "50000", "--largest-result", "20", "--kept-payments", "2"]);
        assert_eq!(shown(&gate), [50_000, 20, 2], "{store}");
        assert_eq!(pay(&gate, 10 * nth + 1).status, 200, "{}", gate.log());
        let before = balance(&world, STRANGER);
        let asked = gate.call("tool", &json!({}));
        let challenge = read_header(asked.header("payment-required").expect("version 2")).challenge.expect("a challenge");
        let payment = signed(&challenge, 2, 10 * nth + 2);
        let large = gate.call_with("tool", &[("PAYMENT-SIGNATURE", &payment)], &json!({ "a": "more than twenty bytes" }));
        assert_eq!(large.verdict(), (500, "gate.output_too_large".to_owned()), "{store}: {}", gate.log());
        assert_eq!(pay(&gate, 10 * nth + 3).status, 200, "{store}: what is not charged takes no room");
        assert_eq!(balance(&world, STRANGER) - before, U256::from(10_000), "{store}");
        assert_eq!(pay(&gate, 10 * nth + 4).verdict(), (503, "store.full".to_owned()), "{store}: {}", gate.log());
    }
    for (flag, value) in [
        ("--kept-results", "0"),
        ("--largest-result", "0"),
        ("--largest-result", "4194305"),
        ("--kept-payments", "0"),
        ("--kept-payments", "many"),
    ] {
        let ran = world.sandbox.run(&["serve", "tool.json", "--upstream", &upstream, flag, value]).code(2);
        assert!(ran.stderr.contains(flag), "{flag} {value}: {}", ran.stderr);
    }
}

#[test]
fn a_facilitator_is_asked_to_list_a_tool_unless_that_is_not_wanted() {
    let (sandbox, behind) = (crate::Sandbox::new(), Behind::start());
    sandbox.write("tool.json", priced("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let facilitator = ["--facilitator", "http://127.0.0.1:1/", "--trust-facilitator"];
    for (more, listed) in [(&[][..], true), (&["--unlisted"], false)] {
        let gate = Gate::start(
            &sandbox,
            &[&["tool.json", "--upstream", &upstream, "--store", "memory"], &facilitator[..], more].concat(),
        );
        let answer = gate.call("tool", &json!({}));
        let challenge = read_header(answer.header("payment-required").expect("version 2")).challenge.expect("a challenge");
        let names: Vec<_> = challenge.extensions.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"payment-identifier"), "{names:?}");
        assert_eq!(names.contains(&"bazaar"), listed, "{names:?}");
    }
    let ran = sandbox.run(&["serve", "tool.json", "--upstream", &upstream, "--unlisted"]).code(2);
    assert!(ran.stderr.contains("--facilitator"), "{}", ran.stderr);
}

#[test]
fn with_a_certificate_a_sidecar_is_published_and_verifies() {
    let (world, behind) = (World::new(), Behind::start());
    let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    let host = "harbour.tool.localhost";
    let authority = Authority::new("development authority");
    let leaf = authority.leaf(&[host]);
    let chain: String = leaf.chain.iter().map(|der| crate::publish::world::pem(der)).collect();
    world.sandbox.write("ca.pem", crate::publish::world::pem(&authority.der()));
    world.sandbox.write("chain.pem", chain);
    let key = crate::publish::world::pem(leaf.key().secret_der()).replace("CERTIFICATE", "PRIVATE KEY");
    world.sandbox.write("key.pem", key);
    let mut manifest = manifest("tool");
    manifest["endpoint"] = format!("https://{host}:{port}/tool").into();
    world.sandbox.write("tool.json", manifest.to_string());
    let (upstream, listen) = (format!("http://{}/echo", behind.address), format!("127.0.0.1:{port}"));
    let mut command = world.sandbox.command(&[
        "serve",
        "tool.json",
        "--upstream",
        &upstream,
        "--listen",
        &listen,
        "--tls-cert",
        "chain.pem",
        "--tls-key",
        "key.pem",
        "--store",
        "memory",
    ]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("the program starts");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().expect("a pipe")), &mut line).expect("a line");
    assert!(line.contains(&format!("at https://127.0.0.1:{port}")), "{line}");
    let uri = format!("https://{host}:{port}/.well-known/ai-tool/tool.json");
    let ran = world.sign(&["publish", "tool.json", "--metadata", &uri, "--dev-ca", "ca.pem"], "0");
    let _ = child.kill();
    let _ = child.wait();
    ran.code(0);
    let wrong =
        world.sandbox.run(&["serve", "tool.json", "--upstream", &upstream, "--tls-cert", "key.pem", "--tls-key", "key.pem"]);
    assert!(wrong.code == 2 && wrong.stderr.starts_with("error[gate.tls_"), "{}", wrong.stderr);
}
