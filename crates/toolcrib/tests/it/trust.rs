//! Commands that verify, against a real chain and a real server: `https://<slug>.tool.localhost:<port>`.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolcrib_x402::header;

use crate::onchain::{CREATOR, World};
use crate::{RunOutput, example};
use toolcrib_testkit::servers::{Authority, Request, Script, Server, Step, answer, ok};

const HOST: &str = "tide-table.tool.localhost";
const HASH: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";

/// A chain, a server with one tool, and its certificate authority.
pub(crate) struct TrustSetup {
    pub(crate) world: World,
    pub(crate) port: u16,
    served: Arc<Mutex<Served>>,
    server: Option<Server>,
    pub(crate) runtime: Runtime,
}

/// The response of the server.
struct Served {
    manifest: String,
    call: Vec<u8>,
}

impl TrustSetup {
    pub(crate) fn new() -> Self {
        Self::with(&[], "tool-free.json")
    }

    fn with(chain: &[&str], tool: &str) -> Self {
        let world = World::with(chain);
        let authority = Authority::new("a development world");
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", header::encode(&authority.der()));
        crate::write(&world.sandbox.home().join(".local/state/toolcrib/dev/ca.pem"), pem.as_bytes());
        let served = Arc::new(Mutex::new(Served { manifest: String::new(), call: ok(b"{\"tides\": []}") }));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let shared = Arc::clone(&served);
        let respond = move |request: &Request| {
            let served = shared.lock().expect("unpoisoned");
            match (request.method(), request.path()) {
                ("GET", "/.well-known/ai-tool/tide-table.json") => ok(&served.manifest),
                ("POST", _) => {
                    assert_eq!(request.body, b"{}", "a probe sends nothing that could be an argument");
                    served.call.clone()
                }
                _ => answer("404 Not Found", "", b""),
            }
        };
        let script = Script::tls(&authority.leaf(&[HOST]), vec![Step::ReadRequest, Step::answer(respond)]);
        let server = runtime.block_on(Server::start(script));
        let place = Self { world, port: server.address.port(), served, server: Some(server), runtime };
        let text = example(tool);
        let creator = text.rfind("\"creatorAddress\": \"0x").expect("a creator") + 19;
        let text = text.replace(&text[creator..creator + 42], &CREATOR.to_lowercase());
        let text = text.replace("https://tools.harbour-office.org", &format!("https://{HOST}:{}", place.port));
        place.world.sandbox.write("tool.json", &text);
        place.serve(&text);
        place
    }

    /// The URL of the manifest.
    fn uri(&self) -> String {
        format!("https://{HOST}:{}/.well-known/ai-tool/tide-table.json", self.port)
    }

    /// Changes the served manifest.
    pub(crate) fn serve(&self, manifest: &str) {
        manifest.clone_into(&mut self.served.lock().expect("unpoisoned").manifest);
    }

    fn answer_calls(&self, with: Vec<u8>) {
        self.served.lock().expect("unpoisoned").call = with;
    }

    /// Stops the server: its port refuses connections.
    pub(crate) fn down(&mut self) {
        let server = self.server.take();
        self.runtime.block_on(async {
            drop(server);
            // The listener closes with its task.
            for _ in 0..200 {
                if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("the server is still there");
        });
    }

    /// Registers the tool with the served manifest.
    pub(crate) fn register(&self) -> String {
        let uri = self.uri();
        let ran = self.world.sign(&["register", "--manifest", "tool.json", "--metadata", &uri, "--skip-fetch"], "0").code(0);
        ran.stdout.trim().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        self.world.run(arguments)
    }

    /// Runs with `--json` and returns the exit code and the envelope.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> (i32, Value) {
        self.world.sandbox.run_json(&[arguments, &["--network", "local", "--rpc-url", &self.world.url]].concat())
    }

    /// The manifest with another name.
    pub(crate) fn renamed(&self) -> String {
        self.world.sandbox.read("tool.json").replace("\"Tide table\"", "\"Tide table two\"")
    }
}

/// The codes of the findings of a report.
fn codes(report: &Value) -> Vec<&str> {
    report["findings"].as_array().expect("findings").iter().filter_map(|finding| finding["code"].as_str()).collect()
}

// req: VERIFY-001, VERIFY-002, VERIFY-004, SSRF-003
#[test]
fn an_honest_tool_verifies_and_its_evidence_says_the_same_later() {
    let place = TrustSetup::new();
    let reference = place.register();
    let ran = place.run(&["verify", "1", "--save", "evidence.json"]).code(0);
    assert!(ran.stdout.contains(&reference) && ran.stdout.contains("verified ("), "{}", ran.stdout);
    assert!(ran.stdout.contains("in the development environment"), "{}", ran.stdout);
    let (code, live) = place.json(&["verify", &reference, "--save", "evidence.json"]);
    assert_eq!((code, &live["data"]["dev"], &live["data"]["verified"]), (0, &json!(true), &json!(true)), "{live:#}");
    assert_eq!(live["data"]["checks"], json!(["passed", "passed", "passed", "passed"]));
    assert_eq!(live["data"]["about"]["name"], "Tide table");

    let sandbox = &place.world.sandbox;
    let (code, saved) = sandbox.run_json(&["verify", "--evidence", "evidence.json"]);
    assert_eq!((code, &saved["data"]), (0, &live["data"]), "the same report from the file");

    // A tampered file never gives a yes.
    let text = sandbox.read("evidence.json");
    for (from, to, code) in [
        ("Tide table", "Tide fable", "verify.hash_mismatch"),
        ("\"dev\": true", "\"dev\": false", "verify.inconsistent_evidence"),
        ("\"status\": 200", "\"status\": 204", "verify.inconsistent_evidence"),
        ("\"format\": 1", "\"format\": 2", "verify.evidence_format"),
    ] {
        assert!(text.contains(from), "{from} is in the file");
        sandbox.write("altered.json", text.replace(from, to));
        let (exit, altered) = sandbox.run_json(&["verify", "--evidence", "altered.json"]);
        assert!(exit == 1 && codes(&altered["data"]).contains(&code), "{from}: {altered:#}");
        assert_eq!(altered["data"]["verified"], false);
    }
    for damage in [("\"gathered_at\"", "\"verified\": true, \"gathered_at\""), ("{", "[")] {
        sandbox.write("altered.json", text.replacen(damage.0, damage.1, 1));
        let ran = sandbox.run(&["verify", "--evidence", "altered.json"]).code(2);
        assert!(ran.stderr.contains("cli.unreadable"), "{}", ran.stderr);
    }
}

// req: VERIFY-019
#[test]
fn many_tools_pins_and_urls() {
    let place = TrustSetup::new();
    let first = place.register();
    let hash = place.world.sandbox.run(&["hash", "tool.json", "-q"]).code(0).stdout;
    place.run(&["verify", "1", "--pin", hash.trim()]).code(0);
    let other = place.run(&["verify", "1", "--pin", HASH]).code(1);
    assert!(
        other.stdout.contains("pin.manifest_hash_changed") && other.stdout.contains("not the pinned version"),
        "{}",
        other.stdout
    );

    let elsewhere = place.uri().replace("tide-table.json", "ebb-table.json");
    place.world.sign(&["register", "--manifest", "tool.json", "--metadata", &elsewhere, "--skip-fetch"], "0").code(0);
    let all = place.run(&["verify", "--all", CREATOR]).code(1).stdout;
    let lines: Vec<_> = all.lines().collect();
    assert_eq!(lines.len(), 2, "{all}");
    assert!(lines[0].starts_with(&first) && lines[0].contains("verified ("), "{all}");
    assert!(lines[1].contains("not verified: check 1") && lines[1].contains("fetch.not_found"), "{all}");
    let nobody = place.run(&["verify", "--all", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]).code(1);
    assert!(nobody.stderr.contains("registered nothing"), "{}", nobody.stderr);

    // A URL has no chain, so it is not resolved in the development environment, and its answer is labelled.
    let (code, url) = place.world.sandbox.run_json(&["verify", &place.uri()]);
    assert_eq!((code, &url["data"]["verified"], &url["data"]["tool"]), (1, &json!(false), &Value::Null), "{url:#}");
    assert!(codes(&url["data"]).contains(&"verify.no_chain"), "{url:#}");
    assert!(codes(&url["data"]).contains(&"fetch.localhost_refused"), "{url:#}");
    let unregistered = place.run(&["verify", "3"]).code(1);
    assert!(unregistered.stdout.contains("chain.tool_not_found"), "{}", unregistered.stdout);
}

// req: VERIFY-008, SSRF-001, SSRF-003
#[test]
fn a_tool_below_localhost_on_another_chain_is_not_visited() {
    let place = TrustSetup::with(&["--chain-id", "84532"], "tool-free.json");
    let sandbox = &place.world.sandbox;
    let list = sandbox.run(&["contracts", "list"]).code(0).stdout;
    let at =
        list.lines().find(|line| line.contains("ToolRegistry")).and_then(|line| line.find("0x").map(|at| &line[at..at + 42]));
    let registry = at.expect("an address").to_owned();
    let chain = ["--network", "84532", "--rpc-url", &place.world.url, "--registry", &registry];
    let uri = place.uri();
    let register = ["register", "--manifest", "tool.json", "--metadata", &uri, "--skip-fetch", "--dev-account", "0", "--yes"];
    sandbox.run(&[&register[..], &chain].concat()).code(0);
    let ran = sandbox.run(&[&["verify", "1"][..], &chain].concat()).code(1);
    assert!(ran.stdout.contains("fetch.localhost_refused") && ran.stdout.contains("check 2"), "{}", ran.stdout);
    let server = place.server.as_ref().expect("it runs");
    assert_eq!(server.accepted(), 0, "nobody came");
    let probed = sandbox.run(&[&["probe", "1"][..], &chain].concat()).code(1);
    assert!(probed.stderr.contains("not probed"), "{}", probed.stderr);
    assert_eq!(server.accepted(), 0, "nobody came");
}

// req: VERIFY-004, VERIFY-015, VERIFY-019
#[test]
fn a_changed_file_is_refused_explained_and_mended() {
    let place = TrustSetup::new();
    let reference = place.register();
    let sandbox = &place.world.sandbox;
    place.run(&["verify", "1", "--save", "before.json"]).code(0);
    let same = place.run(&["diff", "1", "--manifest", "tool.json"]).code(0).stdout;
    assert_eq!(same.matches("as onchain").count(), 2, "{same}");
    assert!(place.run(&["explain", "hash", "1"]).code(0).stdout.contains("both hashes are equal"));

    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]).args(arguments);
        let output = command.current_dir(sandbox.path()).output().expect("git is installed");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "tool.json"]);
    git(&["commit", "-q", "-m", "first"]);
    let renamed = place.renamed();
    sandbox.write("tool.json", &renamed);
    git(&["commit", "-q", "-a", "-m", "second"]);
    place.serve(&renamed);

    let (code, report) = place.json(&["verify", "1"]);
    assert_eq!((code, &report["data"]["failed"]["code"]), (1, &json!("verify.hash_mismatch")), "{report:#}");
    assert_eq!((&report["data"]["failed"]["check"], &report["data"]["about"]), (&json!(3), &Value::Null));
    let diff = place.run(&["diff", "1", "--manifest", "tool.json"]).code(1).stdout;
    assert!(diff.contains("differs") && diff.contains("served and local are equal"), "{diff}");

    // Without candidates, it says so, and does not guess.
    let (code, nothing) = place.json(&["explain", "hash", "1"]);
    assert_eq!((code, &nothing["data"]["code"], &nothing["data"]["cause"]), (1, &json!("hash.unexplained"), &Value::Null));
    // The history of the file, earlier evidence, and a copy each reveal the cause.
    let path = std::env::var("PATH").unwrap_or_default();
    let chain = ["--network", "local", "--rpc-url", &place.world.url];
    let history =
        sandbox.run_with_env(&[&["explain", "hash", "1", "--git", "tool.json"][..], &chain].concat(), &[("PATH", &path)]);
    let history = history.code(0).stdout;
    assert!(history.contains("error[hash.older_version]") && history.contains("tool.json of commit "), "{history}");
    assert!(history.contains("  ~ /name  \"Tide table\" -> \"Tide table two\""), "{history}");
    assert!(history.contains(&format!("run: toolcrib update {reference} --manifest tool.json")), "{history}");
    let (code, earlier) = place.json(&["explain", "hash", "1", "--earlier", "before.json"]);
    assert_eq!((code, &earlier["data"]["code"]), (0, &json!("hash.older_version")), "{earlier:#}");
    // Offline, from a served file and a hash.
    let committed = report["data"]["hash"]["committed"].as_str().expect("a hash");
    sandbox.write("my copy.json", renamed.replace("Tide table two", "Tide table"));
    let offline =
        sandbox.run(&["explain", "hash", "--served", "tool.json", "--expected", committed, "--manifest", "my copy.json"]).code(0);
    assert!(offline.stdout.contains("hash.local_file"), "{}", offline.stdout);
    assert!(offline.stdout.contains("run: toolcrib update TOOL --manifest 'my copy.json'"), "{}", offline.stdout);

    place.world.sign(&["update", "1", "--manifest", "tool.json", "--skip-fetch"], "0").code(0);
    place.run(&["verify", "1"]).code(0);
}

#[test]
fn histories_that_cannot_be_read_say_so() {
    let sandbox = crate::Sandbox::new();
    sandbox.write("tool.json", example("tool-free.json"));
    let run = |path: &str, file: &str| {
        let arguments = ["explain", "hash", "--served", "tool.json", "--expected", HASH, "--git", file];
        sandbox.run_with_env(&arguments, &[("PATH", path)]).code(2).stderr
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let none = run("/nonexistent", "tool.json");
    assert!(none.contains("cli.git") && none.contains("git is not installed"), "{none}");
    assert!(run(&path, "tool.json").contains("cli.git"), "no repository");
    assert!(run(&path, "nowhere/tool.json").contains("the folder does not exist"));
    // A name that looks like an option is still a name.
    sandbox.write("--output=owned", "x");
    assert!(run(&path, "./--output=owned").contains("cli.git"));
    // Findings about a placeholder need no server.
    let odd = sandbox.run(&["explain", "hash", "--served", "tool.json", "--expected", HASH]).code(0).stdout;
    assert!(odd.contains("hash.placeholder"), "{odd}");
    // A URL without a hash, evidence without a file.
    sandbox.run(&["explain", "hash", "https://a.harbour-office.org/"]).code(2);
    sandbox.run(&["explain", "hash", "--evidence", "none.json"]).code(2);
    sandbox.run(&["explain", "hash", "--served", "tool.json"]).code(2);
}

// req: VERIFY-007, VERIFY-010, VERIFY-011
#[test]
fn an_outage_is_no_verdict() {
    let mut place = TrustSetup::new();
    place.register();
    place.run(&["verify", "1"]).code(0);
    place.run(&["watch", "1", "--once"]).code(0);
    place.down();
    for command in [&["verify", "1"][..], &["diff", "1"], &["watch", "1", "--once"], &["explain", "hash", "1"], &["probe", "1"]] {
        let ran = place.run(command).code(2);
        assert!(ran.stderr.contains("error[fetch.connect_refused]"), "{command:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("verified ("), "no memory of better days: {}", ran.stdout);
        let (code, envelope) = place.json(command);
        assert_eq!((code, &envelope["errors"][0]["code"]), (2, &json!("fetch.connect_refused")), "{envelope:#}");
    }
    // No node listens on this port.
    let dead = format!("http://127.0.0.1:{}", place.port);
    for command in
        [&["verify", "1"][..], &["verify", "--all", CREATOR], &["diff", "1"], &["watch", "1", "--once"], &["probe", "1"]]
    {
        let ran = place.world.sandbox.run(&[command, &["--network", "local", "--rpc-url", &dead]].concat()).code(2);
        assert!(ran.stderr.contains("error[chain."), "{command:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("verified ("), "{}", ran.stdout);
    }
}

/// A challenge of version 1 for the first prices of the example.
fn challenge(amount: &str) -> Vec<u8> {
    let offer = |network: &str, asset: &str| {
        json!({
            "scheme": "exact", "network": network, "maxAmountRequired": amount, "asset": asset,
            "payTo": "0x52908400098527886E0F7030069857D2E4169EE7", "resource": format!("https://{HOST}/risk-report"),
            "description": "", "mimeType": "application/json", "maxTimeoutSeconds": 60,
            "extra": { "name": "USD Coin", "version": "2" }
        })
    };
    let offers = [
        offer("base", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        offer("ethereum", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
    ];
    let body = json!({ "x402Version": 1, "error": "payment required", "accepts": offers }).to_string();
    answer("402 Payment Required", "Content-Type: application/json\r\n", body.as_bytes())
}

// req: VERIFY-008
#[test]
fn endpoints_are_probed_without_paying() {
    let place = TrustSetup::with(&[], "tool-paid.json");
    place.register();
    place.answer_calls(challenge("50000"));
    let ran = place.run(&["probe", "1"]).code(0);
    assert!(
        ran.stdout.contains("requires payment or proof (402 to POST)") && ran.stdout.contains("manifest   matches"),
        "{ran:#?}"
    );
    place.answer_calls(challenge("60000"));
    let (code, dear) = place.json(&["probe", "1"]);
    assert_eq!((code, &dear["data"]["report"]["agrees"]), (1, &json!(false)), "{dear:#}");
    assert!(dear.to_string().contains("probe.asks_more") || dear.to_string().contains("probe.price_differs"), "{dear:#}");
    place.answer_calls(ok(b"{}"));
    assert!(place.run(&["probe", "1"]).code(1).stdout.contains("probe.unexpected_success"));
    place.answer_calls(answer("405 Method Not Allowed", "Allow: GET\r\n", b""));
    let ran = place.run(&["probe", "1"]).code(1);
    assert!(ran.stdout.contains("probe.method_not_allowed"), "{ran:#?}");
    place.answer_calls(answer("307 Temporary Redirect", "Location: https://127.0.0.1/\u{202e}x\r\n", b""));
    let ran = place.run(&["probe", "1"]).code(1);
    assert!(ran.stdout.contains("probe.redirect") && !ran.stdout.contains('\u{202e}'), "{ran:#?}");
    // A tool that does not verify is not called, whatever its manifest says.
    let calls = place.server.as_ref().expect("it runs").requests().iter().filter(|request| request.method() == "POST").count();
    place.serve(&place.world.sandbox.read("tool.json").replace("risk-report\"", "elsewhere\""));
    let ran = place.run(&["probe", "1"]).code(1);
    assert!(ran.stdout.contains("verify.hash_mismatch") && ran.stderr.contains("not probed"), "{ran:#?}");
    let after = place.server.as_ref().expect("it runs").requests().iter().filter(|request| request.method() == "POST").count();
    assert_eq!(calls, after);
    // A URL of the user goes through the same client, which refuses addresses of this machine.
    let ran = place.run(&["probe", &format!("https://{HOST}:{}/x", place.port)]).code(1);
    assert!(ran.stdout.contains("fetch.localhost_refused"), "{ran:#?}");
    place.run(&["probe", "http://tools.harbour-office.org/x"]).code(2);
}

#[test]
fn hostile_text_reaches_no_terminal() {
    let place = TrustSetup::new();
    place.register();
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J";
    let manifest = place.world.sandbox.read("tool.json").replace("Tide table", &format!("Tide {hostile}"));
    // As escapes, since a raw control character is invalid JSON.
    let manifest = manifest.replace('\u{1b}', "\\u001b").replace('\u{7}', "\\u0007");
    place.serve(&manifest);
    for command in [
        &["verify", "1"][..],
        &["verify", "1", "--json"],
        &["diff", "1", "--manifest", "tool.json"],
        &["explain", "hash", "1", "--candidate", "tool.json"],
        &["explain", "hash", "1", "--candidate", "tool.json", "--json"],
        &["watch", "1", "--once"],
    ] {
        let ran = place.run(command);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{command:?}: {all:?}");
    }
}

#[test]
fn a_registry_with_other_code_proves_nothing() {
    let place = TrustSetup::new();
    place.register();
    place.run(&["verify", "1"]).code(0);
    let list = place.world.sandbox.run(&["contracts", "list"]).code(0).stdout;
    let at =
        list.lines().find(|line| line.contains("ToolRegistry")).and_then(|line| line.find("0x").map(|at| &line[at..at + 42]));
    let registry = at.expect("an address");
    let answer: Value =
        serde_json::from_str(&place.world.ask("eth_getCode", &format!(r#""{registry}","latest""#))).expect("JSON");
    // A byte after the last instruction only changes the hash.
    place.world.set_code(registry, &format!("{}00", answer["result"].as_str().expect("code")));
    let (code, envelope) = place.json(&["verify", "1"]);
    assert_eq!((code, &envelope["data"]["failed"]["code"]), (1, &json!("chain.registry_code")), "{envelope:#}");
}

// req: VERIFY-011
#[test]
fn saved_evidence_is_judged_as_of_any_time() {
    let sandbox = crate::Sandbox::new();
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/judge/verified.json");
    let judged = |at: &str| sandbox.run_json(&["verify", "--evidence", seed, "--at", at]);
    let (code, then) = judged("2027-01-15T08:05:00Z");
    assert_eq!(
        (code, &then["data"]["verified"], &then["data"]["freshness"]["fresh"]),
        (0, &json!(true), &json!(true)),
        "{then:#}"
    );
    assert_eq!(judged("2027-01-15T08:05:00Z").1, then, "the same on any day");
    let (code, later) = judged("2027-01-15T08:05:01Z");
    assert_eq!(
        (code, &later["data"]["verified"], &later["data"]["freshness"]["fresh"]),
        (0, &json!(true), &json!(false)),
        "{later:#}"
    );
    let (code, early) = judged("2027-01-15T07:58:59Z");
    assert_eq!((code, &early["data"]["verified"]), (2, &json!(false)), "{early:#}");
}

/// In a separate network namespace the program reaches no server, not even a name server, and no packet leaves the machine.
#[test]
fn without_name_servers_nothing_can_be_told() {
    let alone = ["-n", "-rn"]
        .into_iter()
        .find(|option| Command::new("unshare").args([option, "true"]).output().is_ok_and(|output| output.status.success()));
    let Some(alone) = alone else {
        return toolcrib_testkit::skip("network-namespace", "`unshare -n` and `unshare -rn` both fail");
    };
    let url = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";
    let sandbox = crate::Sandbox::new();
    let ran = Command::new("unshare")
        .args([alone, env!("CARGO_BIN_EXE_toolcrib"), "--json", "verify", url])
        .env("HOME", sandbox.home())
        .output()
        .expect("it runs");
    let envelope: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(ran.status.code(), Some(2), "{envelope:#}");
    assert_eq!(envelope["data"]["failed"]["code"], "fetch.dns_failed", "{envelope:#}");
    assert_eq!((&envelope["data"]["verified"], &envelope["data"]["verdict"]), (&json!(false), &json!("unknown")), "{envelope:#}");
}
