//! `publish`, and the check of the served manifest in `register` and `update`: the real program, a chain, and a TLS server on loopback.

mod killed;
pub(crate) mod world;

use std::sync::Arc;

use serde_json::Value;
use toolcrib_author::preflight::preflight;
use toolcrib_author::served::compare;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_fetch::ResolveError;
use toolcrib_verify::Verifier;

use crate::example;
use crate::onchain::CREATOR;
use toolcrib_testkit::servers::NOW;
use world::{HOST, PublishSetup};

/// The account that is not the creator.
const STRANGER: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

// req: CLI-006, VERIFY-001, CREATOR-003
#[test]
fn a_file_becomes_a_tool_that_verifies() {
    let place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    let ran = place.publish("tide-table", &[]).code(0);
    assert!(ran.stdout.contains("/1\n") && ran.stdout.trim_end().lines().last().unwrap().starts_with("verified ("), "{ran:#?}");
    assert!(ran.stdout.contains("development environment"), "{}", ran.stdout);
    place.check_onchain("tide-table", 1, 1);

    // Repeated, there is nothing to do, and the tool is verified all the same.
    let again = place.publish("tide-table", &[]).code(0);
    assert!(again.stderr.contains("already committed") && !again.stderr.contains("sent"), "{again:#?}");
    assert!(again.stdout.trim_end().lines().last().unwrap().starts_with("verified ("), "{}", again.stdout);

    // A new version is an update, also without local state.
    place.write_and_serve("tide-table", "two");
    let changed = place.publish("tide-table", &[]).code(0);
    assert!(changed.stderr.contains("change the manifest"), "{}", changed.stderr);
    place.check_onchain("tide-table", 1, 1);
    place.write_and_serve("tide-table", "three");
    let (code, envelope) = place.publish_json("tide-table", &["--state-dir", "elsewhere"]);
    let data = &envelope["data"];
    assert_eq!((code, &data["done"], &data["id"]), (0, &Value::from("updated"), &Value::from("1")), "{envelope:#}");
    assert_eq!(data["report"]["verdict"], "verified");
    place.check_onchain("tide-table", 1, 1);
    // The registry's log contains it too.
    let (_, envelope) = place.publish_json("tide-table", &["--state-dir", "third", "--from-block", "0"]);
    assert_eq!((&envelope["data"]["done"], &envelope["data"]["id"]), (&Value::from("nothing"), &Value::from("1")));

    // A removed tool is never registered again, whatever the local state says.
    place.world.sign(&["deregister", "1"], "0").code(0);
    place.publish("tide-table", &[]).code(0);
    place.check_onchain("tide-table", 2, 2);
}

// req: CREATOR-005, URL-004
#[test]
fn nothing_is_signed_that_would_not_verify() {
    let place = PublishSetup::new();
    place.write("tide-table", "one");
    let refused = |more: &[&str], code: i32, words: &[&str]| {
        let ran = place.publish("tide-table", more).code(code);
        for word in words {
            assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("sent 1") && !ran.stdout.contains("verified ("), "{ran:#?}");
    };
    refused(&[], 1, &["author.not_served", "fetch.", "nothing was signed"]);
    place.serve("tide-table", "<!doctype html><title>hello</title>");
    refused(&[], 1, &["author.served_differs", "hash.error_page"]);
    place.write_and_serve("tide-table", "one");
    place.write("tide-table", "two");
    refused(&[], 1, &["author.served_differs", "expected: 0x", "got: 0x", "changed /description"]);
    place.write("tide-table", "one");
    place.write("other", "one");
    let elsewhere = place.uri("other").replace(HOST, "elsewhere.tool.localhost");
    let ran = place.run(&["publish", "other.json", "--metadata", &elsewhere, "--dev-account", "0", "--yes"]).code(1);
    assert!(ran.stderr.contains("url.origin_host"), "{}", ran.stderr);
    let ran = place.run(&["publish", "tide-table.json", "--metadata", &place.uri("tide-table"), "--dev-account", "1", "--yes"]);
    assert!(ran.code(1).stderr.contains("author.creator_not_signer"));
    // An invalid file is refused before any request.
    place.world.sandbox.write("bad.json", r#"{"name": "x"}"#);
    let ran = place.run(&["publish", "bad.json", "--metadata", &place.uri("bad"), "--dev-account", "0", "--yes"]).code(1);
    assert!(ran.stderr.contains("error["), "{}", ran.stderr);
    let declined = place.run(&["publish", "tide-table.json", "--metadata", &place.uri("tide-table"), "--dev-account", "0"]);
    assert!(declined.code(2).stderr.contains("author.declined"));
    assert!(place.publish("tide-table", &["--dry-run"]).code(0).stdout.contains("nothing was signed"));
    assert!(place.publish("tide-table", &["--calldata"]).code(0).stdout.contains("0xfe1d0b16"));
    place.check_count(0);
}

#[test]
fn what_is_stale_is_named_and_can_be_waited_for() {
    let place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    place.publish("tide-table", &[]).code(0);
    place.write("tide-table", "two");
    let stale = place.publish("tide-table", &[]).code(1);
    assert!(stale.stderr.contains("author.served_stale") && stale.stderr.contains("--wait"), "{}", stale.stderr);
    let text = place.manifest("tide-table", "two");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            place.serve("tide-table", text);
        });
        let ran = place.publish("tide-table", &["--wait", "60"]).code(0);
        assert!(ran.stderr.contains("waiting up to 60 seconds: the URL still serves"), "{}", ran.stderr);
    });
    place.check_onchain("tide-table", 1, 1);
}

#[test]
fn a_url_that_stands_there_twice_is_asked_about() {
    let place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    let uri = place.uri("tide-table");
    place.sign(&["register", "--metadata", &uri, "--manifest", "tide-table.json"]).code(0);
    place.sign(&["register", "--metadata", &uri, "--manifest", "tide-table.json"]).code(0);
    let ran = place.publish("tide-table", &[]).code(2);
    assert!(ran.stderr.contains("author.duplicate") && ran.stderr.contains("tool 1, tool 2"), "{}", ran.stderr);
    place.write_and_serve("tide-table", "two");
    place.publish("tide-table", &["--tool", "2"]).code(0);
    place.check_onchain("tide-table", 2, 2);
    // From here on, the state identifies the tool.
    place.publish("tide-table", &[]).code(0);
    let stranger = place.sign_as(&["register", "--metadata", &uri, "--manifest", "tide-table.json", "--skip-fetch"], "1").code(1);
    assert!(stranger.stderr.contains("author.creator_not_signer"));
    let nobody = place.publish("tide-table", &["--tool", "9"]).code(2);
    assert!(nobody.stderr.contains("chain.tool_not_found"), "{}", nobody.stderr);
}

#[test]
fn a_gate_is_set_once_and_never_changed_in_passing() {
    let place = PublishSetup::new();
    let collection = "0x0241662C9c78b03677892e6272EEDd36B9e94107";
    place.write_and_serve("tide-table", "one");
    // A gate that is too large is refused at once. If the chain refuses it, the tool stays closed; corrected, the same command finishes
    // it.
    let many: Vec<_> = (1..=9).map(|n| format!("0x{n:040x}")).collect();
    let many: Vec<_> = many.iter().flat_map(|collection| ["--nft-gate", collection]).collect();
    let refused = place.publish("tide-table", &many).code(2);
    assert!(refused.stderr.contains("author.gate_too_large"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("sent 1"), "before anything is spent: {}", refused.stderr);
    let half = place.publish("tide-table", &["--nft-gate", "0x0000000000000000000000000000000000000000"]).code(2);
    assert!(half.stderr.contains("run the same command again to continue"), "{}", half.stderr);
    let ran = place.publish("tide-table", &["--nft-gate", collection]).code(0);
    assert!(ran.stderr.contains("continuing unfinished work"), "{}", ran.stderr);
    place.check_onchain("tide-table", 1, 1);
    assert!(place.world.run(&["predicate", "show", "1"]).code(0).stdout.contains(&collection.to_lowercase()));
    place.write_and_serve("tide-table", "two");
    place.publish("tide-table", &[]).code(0);
    assert_ne!(place.world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "granted\n", "still gated");
    let other = place.publish("tide-table", &["--erc20-gate", collection, "--min", "1"]).code(2);
    assert!(other.stderr.contains("author.gate_differs"), "{}", other.stderr);
    let others = place.publish("tide-table", &["--nft-gate", "0x0000000000000000000000000000000000000007"]).code(2);
    assert!(others.stderr.contains("author.gate_differs"), "{}", others.stderr);
    let same = place.publish("tide-table", &["--nft-gate", collection]).code(0);
    assert!(same.stderr.contains("already committed"), "{}", same.stderr);
}

/// Registered with a gate from a lost machine, before the gate was configured: another machine finishes it.
#[test]
fn a_gate_that_was_never_told_is_told() {
    let place = PublishSetup::new();
    let collection = "0x0241662C9c78b03677892e6272EEDd36B9e94107";
    let deny = format!("!{collection}");
    let key = format!("0x{:064x}", 7);
    place.world.sandbox.write("friends.txt", format!("{STRANGER}\n{CREATOR}\n"));
    let gates: [&[&str]; 6] = [
        &["--nft-gate", collection],
        &["--erc1155-gate", "0x0241662C9c78b03677892e6272EEDd36B9e94107:1,2"],
        &["--erc20-gate", collection, "--min", "5"],
        &["--trait-gate", collection, "--trait-key", &key, "--trait-value", &key],
        &["--all-of", &deny],
        &["--allowlist", "friends.txt"],
    ];
    for (index, gate) in gates.into_iter().enumerate() {
        let (slug, id) = (format!("tide-{index}"), index + 1);
        place.write_and_serve(&slug, "one");
        // The first machine only sent the first of the two calls.
        let (_, planned) = place.publish_json(&slug, &[gate, &["--calldata"]].concat());
        let predicate =
            planned["data"]["calls"][0]["what"].as_str().and_then(|what| what.rsplit(' ').next()).expect("a predicate");
        place.sign(&["register", "--metadata", &place.uri(&slug), "--access-predicate", predicate]).code(0);
        let ran = place.publish(&slug, gate).code(0);
        assert!(ran.stderr.contains("whom to let in") && !ran.stderr.contains("register"), "{gate:?}: {}", ran.stderr);
        let again = place.publish(&slug, gate).code(0);
        assert!(again.stderr.contains("already committed"), "{gate:?}: {}", again.stderr);
        place.check_onchain(&slug, id, id);
    }
}

// req: CREATOR-005
#[test]
fn registering_and_updating_look_first_too() {
    let place = PublishSetup::new();
    let uri = place.uri("tide-table");
    place.write("tide-table", "one");
    let nothing = place.sign(&["register", "--metadata", &uri, "--manifest", "tide-table.json"]).code(1);
    assert!(nothing.stderr.contains("author.not_served"), "{}", nothing.stderr);
    // Without a file, the served manifest is committed.
    place.write_and_serve("tide-table", "one");
    let ran = place.sign(&["register", "--metadata", &uri]).code(0);
    assert!(ran.stderr.contains("served: \"Tide table\", hash 0x"), "{}", ran.stderr);
    place.check_onchain("tide-table", 1, 1);
    assert!(place.run(&["verify", "1", "--network", "local"]).code(0).stdout.contains("verified ("));

    place.write("tide-table", "two");
    let stale = place.sign(&["update", "1", "--manifest", "tide-table.json"]).code(1);
    assert!(stale.stderr.contains("author.served_stale"), "{}", stale.stderr);
    place.write_and_serve("tide-table", "two");
    place.sign(&["update", "1"]).code(0);
    place.check_onchain("tide-table", 1, 1);
    let (code, envelope) = place.json(&["update", "1", "--metadata", &place.uri("nowhere")]);
    assert_eq!((code, &envelope["data"]["findings"][0]["code"]), (1, &Value::from("author.not_served")), "{envelope:#}");

    // A manifest of another creator, and an invalid URL.
    place.serve("theirs", place.manifest("theirs", "one").replace(&CREATOR.to_lowercase(), STRANGER));
    let theirs = place.sign(&["register", "--metadata", &place.uri("theirs")]).code(1);
    assert!(theirs.stderr.contains("author.creator_not_signer"), "{}", theirs.stderr);
    let nowhere = place.sign(&["register", "--metadata", &uri.replace(".json", ".txt")]).code(1);
    assert!(nowhere.stderr.contains("error[url."), "{}", nowhere.stderr);
    let usage = place.sign(&["register", "--metadata", &uri, "--skip-fetch"]).code(2);
    assert!(usage.stderr.contains("--manifest"), "{}", usage.stderr);
    place.check_count(1);
}

/// Without a network the answer is "could not tell", and no state says otherwise.
#[test]
fn without_a_network_there_is_no_answer() {
    let mut place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    place.publish("tide-table", &[]).code(0);

    place.close();
    for arguments in [vec![], vec!["--json"]] {
        let down = place.publish("tide-table", &arguments).code(2);
        assert!(format!("{}{}", down.stdout, down.stderr).contains("author.not_served"), "{down:#?}");
        assert!(!down.stdout.contains("verified"), "{down:#?}");
    }
    let verify = place.run(&["verify", "1", "--network", "local"]).code(2);
    assert!(verify.stdout.contains("could not tell"), "{}", verify.stdout);

    // The node is down.
    let mut place = PublishSetup::new();
    place.write_and_serve("tide-table", "one");
    place.world.end();
    let down = place.publish("tide-table", &[]).code(2);
    assert!(down.stderr.contains("error[chain.") && down.stdout.is_empty(), "{down:#?}");
    place.check_nothing_says_verified();
}

/// If name servers do not respond, the answer is "could not tell", also for a tool that was verified before.
#[test]
fn without_name_servers_there_is_no_answer() {
    let world = toolcrib_testkit::servers::World::new();
    let host = "tools.harbour-office.org";
    world.recorder.answers(host, vec![Err(ResolveError::Failed("no name server answers".to_owned()))]);
    let verifier = Verifier::new(world.fetch(), Arc::new(FixedClock(NOW)), "test");
    let uri = format!("https://{host}/.well-known/ai-tool/tide-table.json");
    let manifest = example("tool-free.json");
    let creator: Value = serde_json::from_str(&manifest).expect("JSON");
    let creator = creator["creatorAddress"].as_str().and_then(|text| text.parse().ok()).expect("an address");
    let ready = preflight(manifest.as_bytes(), &uri, creator).expect("a good manifest");
    let place = WellKnown::parse(&uri).expect("a metadata URL");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let exchange = runtime.block_on(verifier.fetch_manifest(&place, 8453));
    let refusal = compare(&exchange, &ready, Some(ready.manifest.hash())).expect_err("nothing was seen");
    assert!(refusal.is_unclear, "exit code 2");
    assert_eq!(refusal.findings[1].code.id(), "fetch.dns_failed");
}
