//! Third-party clients: viem and cast, if they are installed.

use std::process::Command;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn viem_has_a_session() {
    let Some(packages) = toolcrib_testkit::viem() else { return };
    let chain = chain().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/session.cjs");
    let output = Command::new("node")
        .env("TOOLCRIB_NODE_MODULES", packages)
        .arg(script)
        .args([chain.http_url(), chain.ws_url()])
        .output()
        .expect("node runs");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn cast_has_a_session() {
    let Some(program) = toolcrib_testkit::cast() else { return };
    let chain = chain().await;
    let url = chain.http_url();
    let cast = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).env("ETH_RPC_URL", &url).output().expect("cast runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned(), error)
    };
    let key = format!("{}", toolcrib_devchain::accounts::DEV_KEYS[0]);
    let (ok, out, error) = cast(&["chain-id"]);
    assert!(ok && out == "31337", "{out} {error}");
    let (ok, out, error) = cast(&["send", "--private-key", &key, "--create", &LOGGER_INIT.to_string()]);
    assert!(ok, "{out} {error}");
    let logger = account(0).create(0).to_string();
    let (ok, out, error) = cast(&["send", &logger, &word(3).to_string(), "--private-key", &key]);
    assert!(ok, "{out} {error}");
    assert_eq!(cast(&["call", &logger, "--data", "0x"]).1, word(3).to_string());
    assert_eq!(cast(&["storage", &logger, "0"]).1, word(3).to_string());
    assert_eq!(cast(&["block-number"]).1, "2");
    assert!(cast(&["logs", "--from-block", "0", "--address", &logger]).1.contains("blockNumber: 2"));
    chain.set_code(alloy_primitives::Address::repeat_byte(9), REVERTER);
    let (ok, _, error) = cast(&["call", &alloy_primitives::Address::repeat_byte(9).to_string(), "--data", "0x"]);
    assert!(!ok && error.contains("deadbeef"), "{error}");
}
