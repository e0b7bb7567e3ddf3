//! `--network` restricts what is signed, by commands and over MCP.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::calling::{INPUT, PRICE, RECIPIENT, Shop};

/// An unused key: development accounts sign on no other network.
const KEY: (&str, &str) = ("TOOLCRIB_PRIVATE_KEY", "0x0000000000000000000000000000000000000000000000000000000000000001");

/// Calls a tool in one MCP session of the real program, and returns the result.
fn over_mcp(shop: &Shop, more: &[&str]) -> Value {
    let sandbox = &shop.world.sandbox;
    sandbox.write("policy.toml", "any_tool = true\nmax_price = \"1\"\n");
    let node = format!("local={}", shop.world.url);
    let arguments = [
        &["mcp", "--directory", "http://127.0.0.1:1/", "--rpc-url", &node, "--dev-account", "1", "--unattended", "policy.toml"],
        more,
    ]
    .concat();
    let mut child = sandbox.command(&arguments).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut say = |message: Value| writeln!(input, "{message}").expect("it listens");
    let mut hear = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    assert_eq!(hear()["result"]["serverInfo"]["name"], "toolcrib");
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let asked: Value = serde_json::from_str(INPUT).expect("JSON");
    let params = json!({ "name": "call_tool", "arguments": { "reference": shop.tool, "input": asked } });
    say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    let answer = hear();
    drop(input);
    assert_eq!(child.wait().expect("it ends with its client").code(), Some(0));
    answer["result"].clone()
}

#[test]
fn a_tool_that_is_paid_elsewhere_is_not_paid_where_another_network_was_named() {
    // Test money on another test network, so that only the name prevents it.
    let shop = Shop::open_on(84_532);
    let (code, refused) = shop.call(&["--yes"]);
    assert_eq!((code, &refused["data"]["code"]), (1, &json!("call.other_network")), "{refused:#}");
    let message = refused["data"]["message"].as_str().expect("a message");
    assert!(message.contains("(eip155:84532, test money)") && message.contains("(eip155:31337, test money)"), "{message}");
    let (code, plan) = shop.call(&["--dry-run"]);
    assert_eq!((code, &plan["data"]["refusal"]), (1, &json!("call.other_network")), "{plan:#}");
    let answer = over_mcp(&shop, &["--network", "local"]);
    let text = answer["content"][0]["text"].as_str().expect("text");
    assert!(answer["isError"] == json!(true) && text.contains("call.other_network"), "{answer:#}");
    assert!(text.contains("(eip155:84532, test money)"), "{text}");
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    assert_eq!(list["data"]["payments"], json!([]), "nothing was signed");

    // With only its reference it is paid; the server's claims cannot be checked without a node.
    let arguments = ["call", &shop.tool, "--input", INPUT, "--yes", "--rpc-url", &shop.world.url];
    // Not with a public development key.
    let ran = shop.world.sandbox.run(&[&arguments[..], &["--dev-account", "1"]].concat()).code(2);
    assert!(ran.stderr.contains("wallet.published_key"), "{}", ran.stderr);
    let ran = shop.world.sandbox.run_with_env(&arguments, &[KEY]).code(0);
    assert!(ran.stderr.contains("settled (stated by the server, not checked)"), "{}", ran.stderr);
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    let payments = list["data"]["payments"].as_array().expect("a list");
    let states: Vec<_> = payments.iter().map(|entry| (&entry["state"], &entry["evidence"])).collect();
    assert!(states.contains(&(&json!("settled"), &json!("server"))) && states.len() == 2, "{list:#}");
    let list = shop.world.sandbox.run(&["payments"]).code(0).stdout;
    assert!(list.contains("settled") && list.contains("(stated by the server, not checked)"), "{list}");
}

#[test]
fn a_url_that_is_paid_elsewhere_is_not_paid_where_another_network_was_named() {
    let shop = Shop::open_on(84_532);
    let (url, to) = (shop.url(), RECIPIENT.to_checksum(None));
    // Everything else is approved: recipient, price, and prompt.
    let agreed = ["pay", &url, "--data", INPUT, "--to", &to, "--max-price", "1", "--yes"];
    let named = [&agreed[..], &["--network", "local", "--rpc-url", &shop.world.url]].concat();
    let ran = shop.world.sandbox.run_with_env(&named, &[KEY]).code(1);
    assert!(ran.stderr.contains("error[call.other_network]"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("(eip155:84532, test money)") && ran.stderr.contains("(eip155:31337, test money)"),
        "{}",
        ran.stderr
    );
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    assert_eq!(list["data"]["payments"], json!([]), "nothing was signed");
    // A payment on the given network is still made.
    let shop = Shop::open();
    let url = shop.url();
    let named = ["--network", "local", "--rpc-url", &shop.world.url, "--dev-account", "1"];
    let paid = [&["pay", &url, "--data", INPUT, "--to", &to, "--max-price", "1", "--yes"], &named[..]].concat();
    let ran = shop.world.sandbox.run(&paid).code(0);
    assert!(ran.stderr.contains("settled (confirmed on the chain)"), "{}", ran.stderr);
    assert_eq!(shop.balance(), PRICE);
}

#[test]
fn a_model_is_told_network_token_amount_and_kind_of_money() {
    let shop = Shop::open();
    let answer = over_mcp(&shop, &["--network", "local"]);
    let paid = &answer["structuredContent"]["paid"];
    let shown = paid["shown"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    assert!(shown.starts_with("0.01 USDC on ") && shown.contains("(eip155:31337, test money)"), "{shown}");
    assert_eq!((&paid["state"], &paid["evidence"], shop.balance()), (&json!("settled"), &json!("chain"), PRICE), "{answer:#}");
    // Only test money is spent, independent of the policy for real money.
    let (_, budget) = shop.world.sandbox.run_json(&["budget"]);
    assert_eq!((&budget["data"]["spent_test"]["day"], &budget["data"]["spent"]["day"]), (&json!("0.01"), &json!("0")));
}
