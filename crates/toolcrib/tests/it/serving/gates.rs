//! Access gates from the command line and the manifest, and what a dry run says about them.

use serde_json::{Value, json};
use toolcrib_chain::deploy;
use toolcrib_x402::read_body;

use super::upstream::Behind;
use super::{Gate, ORIGIN, manifest, send, signed, until};
use crate::Sandbox;
use crate::onchain::{CREATOR, World};
use toolcrib_testkit::databases::{Backend, TestStore};

pub(super) const STRANGER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

pub(super) fn priced(slug: &str) -> Value {
    let mut manifest = manifest(slug);
    let token = toolcrib_x402::asset::usdc(31_337).expect("listed").address;
    manifest["pricing"] = json!([{
        "amount": "10000",
        "asset": format!("eip155:31337/erc20:{token:#x}"),
        "recipient": format!("eip155:31337:{}", STRANGER.to_lowercase()),
        "protocol": "x402",
    }]);
    manifest["maxAge"] = json!(0);
    manifest
}

fn gated(slug: &str) -> Value {
    let mut manifest = manifest(slug);
    manifest["access"] = json!({ "logic": "AND", "requirements": [{
        "kind": "0x80ac58cd", "data": format!("0x{:0>64}", "241662c9c78b03677892e6272eedd36b9e94107"), "label": "A token",
    }] });
    manifest
}

#[test]
fn what_a_manifest_asks_for_is_never_served_for_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.json", gated("gated").to_string());
    sandbox.write("priced.json", priced("priced").to_string());
    sandbox.write("plain.json", manifest("plain").to_string());
    let base = ["--upstream", "http://127.0.0.1:1/", "--listen", "127.0.0.1:0", "--store", "memory"];
    for (arguments, message) in [
        (&["gated.json"][..], "gated has access requirements"),
        (&["priced.json"], "priced has a price, but no settlement"),
        (&["priced.json", "--open"], "priced has a price, but no settlement"),
        (&["priced.json", "--closed"], "priced has a price, so it can be served before it is registered"),
        (&["plain.json", "gated.json", "--tool", "7", "--network", "local"], "--tool names one tool"),
        (&["plain.json", "--tool", "other=7", "--network", "local"], "--tool is for other, which is not among the manifests"),
        (&["plain.json", "--upstream", "http://127.0.0.1:2/"], "--upstream is given twice"),
        (&["plain.json", "--origin", "https://elsewhere.harbour-office.org"], "plain: the endpoint"),
        (&["plain.json", "plain.json"], "two tools have the slug plain"),
        (&["plain.json", "--rate", "0"], "--rate is 0"),
    ] {
        let ran = sandbox.run(&[&["serve"], arguments, &base].concat()).code(2);
        let first = ran.stderr.lines().find(|line| line.starts_with("error[")).unwrap_or_default();
        assert!(first.contains(message), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("hidden"));
    }
    let elsewhere = ["serve", "plain.json", "--upstream", "http://127.0.0.1:1/", "--store", "postgres://user:hidden@db/x"];
    let ran = sandbox.run(&elsewhere).code(2);
    assert!(ran.stderr.starts_with("error[cli.usage]: a database URL has a password") && !ran.stderr.contains("hidden"));
    let ran = sandbox.run(&["serve", "plain.json"]).code(2);
    assert!(ran.stderr.contains("plain has no upstream or program"), "{}", ran.stderr);
    let ran = sandbox.run(&["serve", "plain.json", "--command", "no-such-program"]).code(2);
    assert!(ran.stderr.contains("program no-such-program not found"), "{}", ran.stderr);
    sandbox.write("flawed.json", r#"{"name":"x"}"#);
    sandbox.run(&["serve", "flawed.json", "--upstream", "http://127.0.0.1:1/"]).code(1);
}

#[test]
fn a_closed_tool_shows_its_manifest_and_takes_no_calls() {
    let sandbox = Sandbox::new();
    sandbox.write("gated.json", gated("gated").to_string());
    let gate = Gate::start(&sandbox, &["gated.json", "--closed", "--store", "memory"]);
    assert_eq!(gate.get("/.well-known/ai-tool/gated.json").body, sandbox.read("gated.json").into_bytes());
    assert_eq!(gate.call("gated", &json!({})).verdict(), (503, "gate.unavailable".to_owned()));
}

#[test]
fn the_store_is_a_file_in_the_state_folder_unless_told_otherwise() {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tool.json", manifest("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let gate = Gate::start_with(&sandbox, &["tool.json"], &[("TOOLCRIB_UPSTREAM", &upstream)]);
    assert_eq!(gate.call("tool", &json!(1)).json(), json!({ "got": 1 }));
    assert!(sandbox.home().join(".local/state/toolcrib/gate.db").exists());
    drop(gate);
    let own = sandbox.path().join("own.db");
    let variables = [("TOOLCRIB_UPSTREAM", upstream.as_str()), ("TOOLCRIB_STORE", &format!("sqlite:{}", own.display()))];
    let _gate = Gate::start_with(&sandbox, &["tool.json"], &variables);
    assert!(own.exists());
}

#[test]
fn servers_that_are_replicas_share_a_store_or_do_not_start() {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tool.json", manifest("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let file = format!("sqlite:{}", sandbox.path().join("gate.db").display());
    let base = ["tool.json", "--upstream", &upstream];
    // The port is in use, so that a server that is not refused exits all the same.
    let taken = behind.address.to_string();
    let refused = |more: &[&str], variables: &[(&str, &str)], named: &str| {
        let all = [&["serve", "--listen", &taken, "--replicas", "2"], &base[..], more].concat();
        let ran = sandbox.run_with_env(&all, variables).code(2);
        assert!(ran.stderr.starts_with("error[cli.usage]: 2 servers cannot share the store "), "{named}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(named) && ran.stderr.contains("hint: set TOOLCRIB_STORE to the URL of a PostgreSQL database"),
            "{}",
            ran.stderr
        );
    };
    refused(&["--store", "memory"], &[], "memory");
    refused(&["--store", "own.db"], &[], "own.db");
    refused(&[], &[("TOOLCRIB_STORE", &file)], "gate.db");
    refused(&[], &[], ".local/state/toolcrib/gate.db");
    assert!(!sandbox.path().join("own.db").exists(), "no file is made for a server that does not start");
    let ran = sandbox.run(&[&["serve", "--replicas", "0"], &base[..]].concat()).code(2);
    assert!(ran.stderr.contains("--replicas"), "{}", ran.stderr);

    // One server may use a local store, and warns that replicas must not.
    let told = |gate: &Gate| {
        let is_store = |line: &&str| line.starts_with("replay store: ");
        until("the store is named", || gate.log().ends_with('\n') && gate.log().lines().any(|line| is_store(&line)));
        let log = gate.log();
        let line = log.lines().find(is_store).expect("a line").to_owned();
        assert!(line.ends_with("; all servers of these tools must share it"), "{line}");
        line
    };
    for store in [["--store", "memory"], ["--store", "own.db"]] {
        let gate = Gate::start(&sandbox, &[&base[..], &store, &["--replicas", "1"]].concat());
        let line = told(&gate);
        assert!(line.contains(store[1]), "{line}");
    }
    // Several may share a database.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let Some(place) = runtime.block_on(TestStore::new(Backend::Postgres)) else { return };
    let shared = [("TOOLCRIB_STORE", place.setting.as_str())];
    let gates = [(); 2].map(|()| Gate::start_with(&sandbox, &[&base[..], &["--replicas", "2"]].concat(), &shared));
    for gate in &gates {
        assert_eq!(gate.call("tool", &json!(1)).json(), json!({ "got": 1 }), "{}", gate.log());
        let line = told(gate);
        assert!(!line.contains(toolcrib_testkit::databases::PASSWORD), "{line}");
    }
}

// req: GATE-002, GATE-005
#[test]
fn a_gated_tool_asks_who_calls_and_a_dry_run_says_so_before() {
    let world = World::new();
    let sandbox = &world.sandbox;
    sandbox.write("tool.json", manifest("tool").to_string());
    let uri = format!("{ORIGIN}/.well-known/ai-tool/tool.json");
    let collection = deploy::test_assets().into_iter().flatten().find(|asset| asset.name == "TestERC721").expect("listed");
    let collection = collection.address.to_checksum(None);
    world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", &uri, "--nft-gate", &collection], "0");
    let at = ["--tool", "1", "--network", "local", "--rpc-url", &world.url];

    let ran = sandbox.run(&[&["dry-run-gate", "tool.json", "--account", STRANGER], &at[..]].concat()).code(1);
    for said in [
        "predicate of eip155:31337/erc8257:",
        "gets 402",
        "x402 v1:",
        "x402 v2:",
        "a signature, no money",
        "denied, and the call gets 403",
        "own a token of 0x",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    let (code, envelope) = sandbox.run_json(&[&["dry-run-gate", "tool.json", "--account", STRANGER], &at[..]].concat());
    assert_eq!((code, &envelope["data"]["access"]["status"]), (1, &json!(403)), "{envelope:#}");
    assert_eq!(envelope["data"]["challenge"]["v2"][0]["payTo"], CREATOR);
    assert_eq!(envelope["data"]["challenge"]["v1"][0]["amount"], "0");

    let gate =
        Gate::start(sandbox, &[&["tool.json", "--upstream", "http://127.0.0.1:1/", "--store", "memory"], &at[..]].concat());
    let answer = gate.call("tool", &json!({}));
    assert_eq!(answer.status, 402);
    assert!(answer.header("payment-required").is_some(), "{}", answer.head);
    assert_eq!(answer.json()["accepts"][0]["payTo"], CREATOR);
}

#[test]
fn a_dry_run_shows_prices() {
    let sandbox = Sandbox::new();
    sandbox.write("priced.json", priced("priced").to_string());
    sandbox.write("plain.json", manifest("plain").to_string());
    let ran = sandbox.run(&["dry-run-gate", "priced.json"]).code(0);
    assert!(ran.stdout.contains("10000 (0.01 USDC) on eip155:31337 to 0x7099"), "{}", ran.stdout);
    let ran = sandbox.run(&["dry-run-gate", "plain.json"]).code(0);
    assert!(ran.stdout.contains("served without a challenge"), "{}", ran.stdout);
    let ran = sandbox.run(&["dry-run-gate", "priced.json", "--data", "0x"]).code(2);
    assert!(ran.stderr.contains("--account"), "{}", ran.stderr);
}

// req: GATE-003, GATE-006, GATE-009
#[test]
fn the_upstream_learns_who_proved_to_call() {
    let (world, behind) = (World::new(), Behind::start());
    let sandbox = &world.sandbox;
    sandbox.write("tool.json", manifest("tool").to_string());
    let uri = format!("{ORIGIN}/.well-known/ai-tool/tool.json");
    world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", &uri], "0").code(0);
    let upstream = format!("http://{}/echo", behind.address);
    let at = ["--tool", "1", "--network", "local", "--rpc-url", &world.url, "--store", "memory", "--upstream", &upstream];
    let gate = Gate::start(sandbox, &[&["tool.json"], &at[..]].concat());
    let challenge = read_body(&gate.call("tool", &json!({})).body).challenge.expect("a challenge");

    let payment = signed(&challenge, 1, 7);
    let answer = gate.call_with("tool", &[("X-PAYMENT", &payment)], &json!({ "a": 1 }));
    assert_eq!((answer.status, answer.json()), (200, json!({ "got": { "a": 1 } })), "{}", gate.log());
    let again = gate.call_with("tool", &[("X-PAYMENT", &payment)], &json!({ "a": 1 }));
    assert_eq!(again.verdict(), (409, "payment.replayed".to_owned()));

    // A dry run checks a payment and does not use it up.
    let at = ["--tool", "1", "--network", "local", "--rpc-url", &world.url];
    sandbox.write("payment", signed(&challenge, 1, 8));
    for _ in 0..2 {
        let ran = sandbox.run(&[&["dry-run-gate", "tool.json", "--payment", "payment"], &at[..]].concat()).code(0);
        assert!(ran.stdout.contains("the payment (x402 v1) is valid"), "{}", ran.stdout);
    }
    for (payment, said) in [("bm90IGEgcGF5bWVudA==", "the call gets 400 payment."), ("\u{1b}[31m", "the call gets 400 payment.")]
    {
        let run = [&["dry-run-gate", "tool.json", "--payment", "-"], &at[..]].concat();
        let ran = sandbox.run_with_stdin(&run, payment.as_bytes());
        assert!(ran.code == 1 && ran.stdout.contains(said) || ran.code == 2 && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
    let bound = [&["dry-run-gate", "tool.json", "--payment", "payment", "--bound-only"], &at[..]].concat();
    assert!(sandbox.run(&bound).code(1).stdout.contains("402 payment.nonce_unbound"));

    let requests = behind.requests.lock().expect("unpoisoned");
    assert_eq!(requests.len(), 1);
    let head = requests[0].split_once("\r\n\r\n").expect("a head").0.to_ascii_lowercase();
    assert!(head.contains(&format!("x-tool-caller: {}\r\n", STRANGER.to_ascii_lowercase())), "{head}");
    assert!(head.contains("x-tool-reference: eip155:31337/erc8257:0x"), "{head}");
    assert!(!head.contains("payment"), "{head}");
}

// req: USAGE-001
#[test]
fn a_directory_is_told_of_calls_and_counters_are_elsewhere() {
    let (world, behind) = (World::new(), Behind::start());
    let sandbox = &world.sandbox;
    sandbox.write("tool.json", manifest("tool").to_string());
    let uri = format!("{ORIGIN}/.well-known/ai-tool/tool.json");
    world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", &uri], "0").code(0);
    let (upstream, usage) = (format!("http://{}/echo", behind.address), format!("http://{}/created", behind.address));
    let at = ["tool.json", "--tool", "1", "--network", "local", "--rpc-url", &world.url, "--store", "memory"];
    let told = ["--upstream", &upstream, "--usage-url", &usage, "--metrics", "127.0.0.1:0"];
    let all = [&at[..], &told[..]].concat();
    let ran = sandbox.run(&[&["serve", "--listen", "127.0.0.1:0"], &all[..]].concat()).code(2);
    assert!(ran.stderr.contains("TOOLCRIB_USAGE_KEY"), "{}", ran.stderr);

    let gate = Gate::start_with(sandbox, &all, &[("TOOLCRIB_USAGE_KEY", "k3y-of-ours")]);
    let challenge = read_body(&gate.call("tool", &json!({})).body).challenge.expect("a challenge");
    let answer = gate.call_with("tool", &[("X-PAYMENT", &signed(&challenge, 1, 9))], &json!({ "a": 1 }));
    assert_eq!(answer.status, 200, "{}", gate.log());
    {
        let requests = behind.requests.lock().expect("unpoisoned");
        let report = requests.iter().find(|request| request.starts_with("POST /created ")).expect("a report");
        assert!(report.to_ascii_lowercase().contains("x-api-key: k3y-of-ours\r\n"), "{report}");
        assert!(report.contains("\"verification_type\":\"eip3009_authorization\""), "{report}");
    }
    assert_eq!(gate.get("/metrics").status, 404, "callers do not see them");
    let log = gate.log();
    assert!(!log.contains("k3y-of-ours"), "{log}");
    let counters = log.lines().find_map(|line| line.strip_prefix("metrics at http://")?.strip_suffix("/metrics"));
    let counters = counters.unwrap_or_else(|| panic!("{log}")).parse().expect("an address");
    let page = send(counters, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let page = String::from_utf8(page.body).expect("text");
    assert!(page.lines().any(|line| line.starts_with("toolcrib_calls_total{tool=\"tool\",status=\"200\"")), "{page}");
}
