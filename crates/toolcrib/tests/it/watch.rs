//! `watch`, against a real chain and a real server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::init_code;
use crate::onchain::CREATOR;
use crate::trust::TrustSetup;
use toolcrib_testkit::servers::{Script, Server, Step, answer};

/// The codes of the changes in an event.
fn changes(event: &Value) -> Vec<&str> {
    event["changes"].as_array().expect("changes").iter().filter_map(|change| change["code"].as_str()).collect()
}

// req: VERIFY-019
#[test]
fn one_look_tells_what_changed_since_the_last() {
    let place = TrustSetup::new();
    let reference = place.register();
    let look = || {
        let (code, envelope) = place.json(&["watch", "1", "--once", "--state", "seen.json"]);
        (code, envelope["data"]["tools"][0].clone())
    };
    let (code, event) = look();
    assert_eq!((code, &event["event"], &event["tool"]), (0, &json!("first"), &json!(reference)), "{event:#}");
    let (code, event) = look();
    assert_eq!((code, &event["event"], changes(&event).len()), (0, &json!("same"), 0), "{event:#}");

    let original = place.world.sandbox.read("tool.json");
    let renamed = place.renamed();
    place.serve(&renamed);
    let (code, event) = look();
    assert_eq!((code, &event["event"]), (1, &json!("drift")), "{event:#}");
    assert_eq!(changes(&event), ["drift.served_changed", "drift.became_unverified"]);
    // It was reported already. The tool still does not match, so the answer stays no.
    let (code, event) = look();
    assert_eq!((code, &event["event"], changes(&event).len()), (1, &json!("same"), 0), "{event:#}");

    place.world.sandbox.write("tool.json", &renamed);
    place.world.sign(&["update", "1", "--manifest", "tool.json", "--skip-fetch"], "0").code(0);
    let (code, event) = look();
    assert_eq!(changes(&event), ["drift.hash_committed_changed", "drift.repaired"], "{event:#}");
    assert_eq!((code, look().0), (1, 0));

    // A pin is compared each time, with or without state.
    let (code, event) =
        place.json(&["watch", "1", "--once", "--state", "fresh.json", "--pin", &format!("0x{}", "11".repeat(32))]);
    assert_eq!(changes(&event["data"]["tools"][0]), ["pin.manifest_hash_changed"], "{event:#}");
    assert_eq!(code, 1);
    let hash = place.world.sandbox.run(&["hash", "tool.json", "-q"]).stdout;
    place.run(&["watch", "1", "--once", "--state", "fresh.json", "--pin", hash.trim()]).code(0);

    // A damaged state does not count as empty.
    place.world.sandbox.write("seen.json", "{}");
    let ran = place.run(&["watch", "1", "--once", "--state", "seen.json"]).code(2);
    assert!(ran.stderr.contains("cli.state"), "{}", ran.stderr);
    assert_eq!(place.world.sandbox.read("seen.json"), "{}", "and is left alone");

    place.serve(&original);
    place.world.sign(&["deregister", "1"], "0").code(0);
    let (code, event) = place.json(&["watch", "1", "--once", "--state", "fresh.json"]);
    assert_eq!((code, changes(&event["data"]["tools"][0])), (1, vec!["drift.deregistered"]), "{event:#}");
}

#[test]
fn an_outage_neither_makes_nor_hides_drift() {
    let mut place = TrustSetup::new();
    place.register();
    place.run(&["watch", "1", "--once"]).code(0);
    let renamed = place.renamed();
    place.world.sandbox.write("tool.json", &renamed);
    place.down();
    let (code, envelope) = place.json(&["watch", "1", "--once"]);
    assert_eq!((code, &envelope["data"]["tools"][0]["event"]), (2, &json!("could_not_tell")), "{envelope:#}");
    assert_eq!(changes(&envelope["data"]["tools"][0]).len(), 0);
    // Onchain changes meanwhile are drift, whether the server responds or not.
    place.world.sign(&["update", "1", "--manifest", "tool.json", "--skip-fetch"], "0").code(0);
    let (code, envelope) = place.json(&["watch", "1", "--once"]);
    assert_eq!((code, changes(&envelope["data"]["tools"][0])), (1, vec!["drift.hash_committed_changed"]), "{envelope:#}");
}

#[test]
fn a_webhook_that_does_not_listen_hides_nothing() {
    let place = TrustSetup::new();
    place.register();
    let hook = |status: &'static str| {
        let script = Script::plain(vec![Step::ReadRequest, Step::answer(move |_| answer(status, "", b""))]);
        place.runtime.block_on(Server::start(script))
    };
    let url = |server: &Server| format!("http://{}/hook?key=s3cret", server.address);
    let broken = hook("500 Internal Server Error");
    let look = |url: &str| place.run(&["watch", "1", "--once", "--webhook", url]);
    look(&url(&broken)).code(0);
    assert_eq!(broken.requests().len(), 0, "nothing to tell");
    place.serve(&place.renamed());
    for _ in 0..2 {
        let ran = look(&url(&broken)).code(1);
        assert!(ran.stdout.contains("drift.became_unverified") && ran.stderr.contains("cli.webhook"), "{ran:#?}");
        assert!(!format!("{ran:?}").contains("s3cret"));
    }
    assert_eq!(broken.requests().len(), 2, "told again, since nobody heard it");
    let sound = hook("204 No Content");
    let chain = ["--network", "local", "--rpc-url", &place.world.url];
    let arguments = [&["watch", "1", "--once"][..], &chain].concat();
    place.world.sandbox.run_with_env(&arguments, &[("TOOLCRIB_WEBHOOK", &url(&sound))]).code(1);
    let request = sound.requests().remove(0);
    assert_eq!((request.method(), request.path()), ("POST", "/hook?key=s3cret"));
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!((&body["schema_version"], &body["event"]), (&json!(1), &json!("drift")), "{body:#}");
    assert_eq!(changes(&body), ["drift.served_changed", "drift.became_unverified"]);
    assert!(!look(&url(&sound)).code(1).stdout.contains("drift."), "told once");
    assert_eq!(sound.requests().len(), 1);
    // A webhook on another machine must use https.
    let ran = look("http://alerts.harbour-office.org/x").code(2);
    assert!(ran.stderr.contains("fetch.configured_url"), "{}", ran.stderr);
}

/// A running `watch`, and its output lines.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(place: &TrustSetup, more: &[&str]) -> Self {
        let chain = ["--network", "local", "--rpc-url", &place.world.url];
        let mut command = place.world.sandbox.command(&[&["watch", "1"][..], more, &chain].concat());
        let mut child = command.stderr(Stdio::null()).spawn().expect("the program starts");
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || out.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(90)).expect("a line")
    }

    #[track_caller]
    fn event(&self) -> Value {
        serde_json::from_str(&self.line()).expect("a line of JSON")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// req: VERIFY-019, IDX-008
#[test]
fn what_the_chain_announces_is_looked_at_without_waiting() {
    let place = TrustSetup::new();
    place.register();
    // The interval is longer than any test: only the event can trigger a verification.
    let mut running = Running::start(&place, &["--interval", "3600", "--json"]);
    let first = running.event();
    assert_eq!((&first["event"], &first["verdict"]), (&json!("first"), &json!("verified")), "{first:#}");
    let renamed = place.renamed();
    place.world.sandbox.write("tool.json", &renamed);
    place.serve(&renamed);
    place.world.sign(&["update", "1", "--manifest", "tool.json", "--skip-fetch"], "0").code(0);
    let event = running.event();
    assert_eq!((&event["event"], changes(&event)), (&json!("drift"), vec!["drift.hash_committed_changed"]), "{event:#}");
    place.world.sign(&["pause", "1"], "0").code(0);
    assert_eq!(changes(&running.event()), ["drift.predicate_changed"]);

    // The signal of a service manager.
    let pid = running.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    let envelope = running.event();
    assert_eq!((&envelope["success"], &envelope["data"]["drifts"]), (&json!(false), &json!(2)), "the last line: {envelope:#}");
    assert_eq!(running.child.wait().expect("ended").code(), Some(1));
    // The saved state survives it.
    let (_, envelope) = place.json(&["watch", "1", "--once"]);
    assert_eq!(envelope["data"]["tools"][0]["event"], "same", "{envelope:#}");
}

#[test]
fn a_watch_ends_at_the_first_drift_if_told_to() {
    let place = TrustSetup::new();
    place.register();
    let mut running = Running::start(&place, &["--interval", "5", "--until-drift"]);
    assert!(running.line().ends_with("verified, seen for the first time"));
    place.serve(&place.renamed());
    assert!(running.line().contains("warning[drift.served_changed]"));
    assert!(running.line().contains("error[drift.became_unverified]"));
    assert_eq!(running.child.wait().expect("ended").code(), Some(1));
    assert!(place.run(&["watch", "1", "--interval", "4"]).code(2).stderr.contains("4 is not in 5..=86400"));
}

// req: IDX-003
#[test]
fn an_upgrade_of_the_gate_is_seen_without_waiting() {
    let place = TrustSetup::new();
    place.register();
    let ask = |method: &str, parameter: &Value| {
        let answer: Value = serde_json::from_str(&place.world.ask(method, &parameter.to_string())).expect("JSON");
        answer["result"].clone()
    };
    let transact = |transaction: Value| ask("eth_getTransactionReceipt", &ask("eth_sendTransaction", &transaction));
    // Any two of our predicates: their decisions do not matter here.
    let (deny, merkle) = ("0241662c9c78b03677892e6272eedd36b9e94107", "423c61a1ba8febf88a900445f4c4c2c2346f1877");
    let code = format!("{}{deny:0>64}", init_code("TestProxy"));
    let deployed = transact(json!({ "from": CREATOR, "data": code }));
    let proxy = deployed["contractAddress"].as_str().expect("an address").to_owned();
    place.world.sign(&["predicate", "use", "1", &proxy], "0").code(0);

    let running = Running::start(&place, &["--interval", "3600", "--json"]);
    assert_eq!(running.event()["event"], "first");
    let selector = alloy_primitives::hex::encode(&alloy_primitives::keccak256("testProxyUpgradeTo(address)")[..4]);
    transact(json!({ "from": CREATOR, "to": proxy, "data": format!("0x{selector}{merkle:0>64}") }));
    let event = running.event();
    assert_eq!(event["event"], "drift", "{event:#}");
    assert!(changes(&event).contains(&"drift.predicate_upgraded"), "{event:#}");
}
