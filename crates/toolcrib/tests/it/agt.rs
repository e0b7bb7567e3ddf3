//! Agents from draft to verification, only with the program: records and archives in files, the registry on a development chain.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use toolcrib_core::agent::vocabulary::{CAPABILITIES, Category};

use crate::onchain::{CREATOR, World};
use crate::{RunOutput, Sandbox};

/// The registry of .agt names on Polygon.
pub(crate) const REGISTRY: &str = "0x465ea4967479A96D4490d575b5a6cC2B4A4BEE65";

/// The registry of tools on development chains.
const OUR_REGISTRY: &str = "0xdd2f026ed31bc76b22587fbbb039f0acb1833e0a";

/// The second development account.
pub(crate) const OTHER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

fn draft(sandbox: &Sandbox, more: &[&str]) -> RunOutput {
    sandbox.run(&[&["agt", "new", "rain.agt", "--owner", CREATOR], more].concat())
}

/// A chain with the id of Polygon, and a token contract at the address of the registry, whose names the first account holds.
pub(crate) fn polygon() -> World {
    let world = World::with(&["--chain-id", "137"]);
    let artifact = toolcrib_contracts::artifact("TestERC721").expect("a contract");
    let code = artifact.runtime_code();
    world.ask("anvil_setCode", &format!(r#""{REGISTRY}","{code}""#));
    world
}

/// Calls a function of the registry from the first account: a selector and words.
pub(crate) fn send(world: &World, selector: &str, words: &[String]) {
    let data = format!("0x{selector}{}", words.concat());
    world.ask("eth_sendTransaction", &format!(r#"{{"from":"{CREATOR}","to":"{REGISTRY}","data":"{data}","gas":"0x300000"}}"#));
}

pub(crate) fn word(text: &str) -> String {
    format!("{:0>64}", text.trim_start_matches("0x").to_lowercase())
}

pub(crate) fn token_id(sandbox: &Sandbox) -> String {
    let (code, envelope) = sandbox.run_json(&["agt", "token-id", "rain.agt"]);
    assert_eq!(code, 0);
    envelope["data"]["hex"].as_str().expect("hex").to_owned()
}

// req: AGT-012, AGT-019
#[test]
fn names_and_words_of_the_specification() {
    let sandbox = Sandbox::new();
    let id = "59540150336142667550544583641889160517462524862920549582472908425897536620834\n";
    assert_eq!(sandbox.run(&["agt", "token-id", "ExampleAgent.agt"]).code(0).stdout, id);
    let (code, envelope) = sandbox.run_json(&["agt", "token-id", "münchen.agt"]);
    assert_eq!((code, envelope["data"]["domain"].as_str()), (0, Some("xn--mnchen-3ya.agt")));
    assert!(sandbox.run(&["agt", "token-id", "a.b.agt"]).code(2).stderr.contains("not an .agt name"));
    let (code, all) = sandbox.run_json(&["agt", "vocab"]);
    assert_eq!((code, all["data"]["capabilities"].as_array().map(Vec::len)), (0, Some(69)));
    assert!(sandbox.run(&["agt", "vocab", "translat"]).code(0).stdout.contains("translation"));
    assert!(sandbox.run(&["agt", "vocab", "sumarization"]).code(1).stderr.contains("did you mean summarization?"));
}

#[test]
fn drafts_come_from_options() {
    let sandbox = Sandbox::new();
    let full = [
        "--name",
        "Rain",
        "--protocol",
        "mcp=https://rain.harbour-office.org/mcp",
        "--capability",
        "forecasting",
        "--price",
        "0.01:USDC:per_request:polygon",
        "--free-tier",
        "10 a day",
    ];
    assert_eq!(draft(&sandbox, &full).code(0).stdout, "rain.agt.json\n");
    let text: Value = serde_json::from_str(&sandbox.read("rain.agt.json")).expect("JSON");
    assert_eq!(text["pricing"]["model"], "freemium");
    assert_eq!(text["pricing"]["paid"]["amount"], "0.01");
    assert_eq!(text["protocols"][0]["endpoint"], "https://rain.harbour-office.org/mcp");
    assert_eq!(text["capabilities"][0]["id"], "forecasting");
    assert!(draft(&sandbox, &full).code(2).stderr.contains("cli.exists"));
    for (more, what) in [
        (&["--price", "1"][..], "is not a price"),
        (&["--price", "1e3:USDC:per_request"], "agent.amount_malformed"),
        (&["--protocol", "mcp"], "names no endpoint"),
        (&["--protocol", "MCP=https://rain.harbour-office.org/"], "agent.id_malformed"),
        (&["--capability", "Not_An_Id"], "agent.id_malformed"),
    ] {
        let ran = draft(&sandbox, &[more, &["--out", "-"]].concat()).code(2);
        assert!(ran.stderr.contains(what), "{more:?}: {}", ran.stderr);
    }
    assert!(sandbox.run(&["agt", "new", "rain.agt", "--name", "Rain"]).code(2).stderr.contains("--owner"));
}

// req: AGT-017, AGT-020, AGT-021, AGT-022, AGT-024
#[test]
fn a_name_from_its_draft_to_a_transfer() {
    let world = polygon();
    let sandbox = &world.sandbox;
    draft(sandbox, &["--protocol", "mcp=https://rain.harbour-office.org/mcp", "--out", "draft.json"]).code(0);
    sandbox.write("signed.json", sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
    let (code, packed) = sandbox.run_json(&["agt", "pack", "signed.json", "--car", "signed.car"]);
    assert_eq!(code, 0, "{packed:#}");
    let record = packed["data"]["txt"].as_str().expect("a record").to_owned();
    assert!(record.starts_with("agt-manifest=ipfs://bafkrei"), "{record}");
    sandbox.write("records.txt", format!("v=spf1 -all\n{record}\n"));
    let node = ["--rpc-url", world.url.as_str()];
    let resolve = |more: &[&str]| {
        sandbox.run_json(&[&["agt", "resolve", "rain.agt", "--source", "file:records.txt"], &node[..], more].concat())
    };

    // The name is not minted yet.
    let (code, report) = resolve(&["--content", "signed.car"]);
    assert_eq!((code, report["data"]["report"]["state"].as_str()), (1, Some("invalid-owner")), "{report:#}");
    let id = token_id(sandbox);
    send(&world, "40c10f19", &[word(CREATOR), word(&id)]);
    // Names are accepted in upper case, with a trailing dot, and with letters that normalise to ASCII.
    for name in ["RAIN.AGT.", "Rain.agt", "\u{ff52}ain\u{3002}agt"] {
        let asked = ["agt", "resolve", name, "--source", "file:records.txt", "--content", "signed.car", "--no-memory"];
        let (code, report) = sandbox.run_json(&[&asked[..], &node].concat());
        assert_eq!((code, &report["data"]["report"]["verified"]), (0, &Value::Bool(true)), "{name}: {report:#}");
        assert_eq!(report["data"]["report"]["domain"], "rain.agt", "{name}: {report:#}");
    }
    let (code, verified) = resolve(&["--content", "signed.car", "--save", "evidence.json"]);
    assert_eq!((code, &verified["data"]["report"]["verified"]), (0, &Value::Bool(true)), "{verified:#}");
    assert_eq!(verified["data"]["report"]["about"]["protocols"][0]["endpoint"], "https://rain.harbour-office.org/mcp");
    assert_eq!(verified["data"]["gateways"][0]["outcome"], "served");
    // The same from the file itself, from a gateway, and in the human format.
    assert_eq!(resolve(&["--content", "signed.json"]).0, 0);
    let gateway = gateway(sandbox.read("signed.json"));
    assert_eq!(resolve(&["--gateway", &gateway]).0, 0);
    let words = ["agt", "verify", "rain.agt", "--source", "file:records.txt", "--content", "signed.json"];
    let ran = sandbox.run(&[&words[..], &node].concat()).code(0);
    assert!(ran.stdout.starts_with("rain.agt: verified (manifest)\n"), "{}", ran.stdout);
    let file = sandbox.run(&[&["agt", "verify", "signed.json", "--onchain"], &node[..]].concat()).code(0);
    assert!(file.stdout.starts_with("rain.agt: not verified (manifest)\n"), "no TXT record was read: {}", file.stdout);

    // Saved evidence is verified again offline, and tampered evidence is detected.
    let saved = |file: &str| sandbox.run_json(&["agt", "resolve", "--evidence", file, "--no-memory"]);
    let (code, again) = saved("evidence.json");
    assert_eq!((code, &again["data"]["report"]["verified"]), (0, &Value::Bool(true)), "{again:#}");
    let mut evidence: Value = serde_json::from_str(&sandbox.read("evidence.json")).expect("JSON");
    let content = evidence["content"]["content"].as_str().expect("content").replacen("7261696e", "7261696f", 1);
    evidence["content"]["content"] = content.into();
    sandbox.write("changed.json", evidence.to_string());
    let (code, changed) = saved("changed.json");
    assert_eq!((code, changed["data"]["report"]["state"].as_str()), (1, Some("invalid-cid")), "{changed:#}");

    // The agent's tools: the owner has registered none on this chain.
    let tools = |file: &str| {
        let registry = ["--network", "137", "--registry", OUR_REGISTRY];
        sandbox.run_json(&[&["agt", "tools", file], &registry[..], &node].concat())
    };
    let (code, none) = tools("evidence.json");
    assert_eq!((code, none["data"]["agent"]["verdict"].as_str()), (1, Some("verified")), "{none:#}");
    assert_eq!(none["data"]["agent"]["endpoints"][0]["tools"].as_array().map(Vec::len), Some(0));
    assert_eq!(tools("signed.json").1["data"]["agent"]["verdict"], "partial");
    let (code, refused) = tools("changed.json");
    assert_eq!((code, refused["errors"][0]["code"].as_str()), (2, Some("agent.content_mismatch")), "{refused:#}");

    // A manifest other than that of the record, a preview, and a node that is down.
    sandbox.write("other.json", format!("{} ", sandbox.read("signed.json")));
    assert_ne!(resolve(&["--content", "other.json"]).0, 0);
    let (code, preview) = resolve(&["--content", "signed.json", "--preview"]);
    assert_eq!((code, &preview["data"]["report"]["verified"]), (1, &Value::Bool(false)), "{preview:#}");
    let dead = ["agt", "resolve", "rain.agt", "--source", "file:records.txt", "--content", "signed.json"];
    let (code, unknown) = sandbox.run_json(&[&dead[..], &["--rpc-url", "http://127.0.0.1:1", "--timeout", "5"]].concat());
    assert_eq!((code, unknown["data"]["report"]["state"].as_str()), (2, Some("unreachable")), "{unknown:#}");

    // Publishing shows the change, and refuses legacy records beside the pointer, and wrong owners.
    let publish = |more: &[&str]| {
        let base = ["agt", "publish", "signed.json", "--source", "file:records.txt"];
        sandbox.run(&[&base[..], &node, more].concat())
    };
    assert!(publish(&["--dry-run"]).code(0).stderr.contains("no change"));
    sandbox.write("records.txt", "agt-version=1\nagt-name=Rain\n");
    assert!(publish(&["--dry-run"]).code(2).stderr.contains("--remove-legacy"));
    let planned = publish(&["--dry-run", "--remove-legacy"]).code(0).stderr;
    assert!(planned.contains("remove  agt-version=1") && planned.contains(&format!("add     {record}")), "{planned}");
    assert!(publish(&["--remove-legacy", "--txt", "command", "--txt-command", "/bin/cat"]).code(2).stderr.contains("--yes"));
    let written = publish(&["--remove-legacy", "--txt", "command", "--txt-command", "/bin/cat", "--yes"]).code(0);
    assert!(written.stderr.contains("changed by command:/bin/cat"), "{}", written.stderr);

    // Legacy records of a name that had a verified manifest are a downgrade.
    let (code, downgrade) = resolve(&["--content", "signed.json"]);
    assert_eq!((code, downgrade["data"]["report"]["state"].as_str()), (1, Some("downgrade")), "{downgrade:#}");
    let migrated = [&["agt", "migrate", "rain.agt", "--source", "file:records.txt"], &node[..]].concat();
    let migrated = sandbox.run(&migrated).code(0);
    assert!(migrated.stdout.contains(&format!("\"owner\": \"{CREATOR}\"")), "{}", migrated.stdout);

    // A transfer of the name changes the verdict.
    sandbox.write("records.txt", format!("{record}\n"));
    send(&world, "23b872dd", &[word(CREATOR), word(OTHER), word(&id)]);
    let (code, moved) = resolve(&["--content", "signed.json"]);
    assert_eq!((code, moved["data"]["report"]["state"].as_str()), (1, Some("invalid-owner")), "{moved:#}");
    assert!(publish(&["--dry-run"]).code(2).stderr.contains("does not hold"));
}

/// A Unicode name, whose records and manifest are those of its ASCII form.
#[test]
fn a_unicode_name_is_resolved_by_its_ascii_form() {
    let sandbox = Sandbox::new();
    sandbox.run(&["agt", "new", "münchen.agt", "--owner", CREATOR, "--name", "München", "--out", "draft.json"]).code(0);
    sandbox.write("signed.json", sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
    let (_, packed) = sandbox.run_json(&["agt", "pack", "signed.json"]);
    sandbox.write("records.txt", packed["data"]["txt"].as_str().expect("a record"));
    // A composed and a decomposed letter, upper case, and the form in the DNS.
    for name in ["münchen.agt", "mu\u{308}nchen.agt", "MÜNCHEN.AGT.", "xn--mnchen-3ya.agt"] {
        let asked =
            ["agt", "resolve", name, "--source", "file:records.txt", "--content", "signed.json", "--preview", "--no-memory"];
        let (code, report) = sandbox.run_json(&asked);
        let report = &report["data"]["report"];
        // A preview is never verified; every check before the owner passes.
        assert_eq!((code, report["state"].as_str()), (1, Some("manifest")), "{name}: {report:#}");
        assert_eq!(report["domain"], "xn--mnchen-3ya.agt", "{name}: {report:#}");
    }
    let (code, report) = sandbox.run_json(&[
        "agt",
        "resolve",
        "munchen.agt",
        "--source",
        "file:records.txt",
        "--content",
        "signed.json",
        "--preview",
        "--no-memory",
    ]);
    assert_eq!((code, report["data"]["report"]["state"].as_str()), (1, Some("domain-mismatch")), "another name: {report:#}");
}

/// Whether a terminal would interpret one of these characters.
fn is_active(character: char) -> bool {
    (character.is_control() && character != '\n') || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
}

// req: AGT-026
#[test]
fn terminals_only_show_the_texts_of_agents() {
    const HOSTILE: &str = "Rain \u{1b}[31m\u{1b}]0;owned\u{7}\u{202e}gnp\u{200b}\u{9b}2J";
    let world = polygon();
    let sandbox = &world.sandbox;
    let draft = serde_json::json!({
        "agt": "1.0", "domain": "rain.agt", "owner": CREATOR, "created_at": "2026-11-01T09:00:00Z", "name": HOSTILE, "description": HOSTILE,
    });
    sandbox.write("draft.json", draft.to_string());
    sandbox.write("signed.json", sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
    let (_, packed) = sandbox.run_json(&["agt", "pack", "signed.json"]);
    let record = packed["data"]["txt"].as_str().expect("a record").to_owned();
    send(&world, "40c10f19", &[word(CREATOR), word(&token_id(sandbox))]);
    // The texts of the manifest are shown and not interpreted.
    let shown = |arguments: &[&str], code: i32, expected: &str| {
        let ran = sandbox.run(&[arguments, &["--rpc-url", &world.url]].concat()).code(code);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(expected) && !text.contains(is_active), "{arguments:?}: {text:?}");
    };
    let resolve = ["agt", "resolve", "rain.agt", "--source", "file:records.txt", "--content", "signed.json", "--no-memory"];
    let escaped = "Rain \\u{1b}[31m";
    sandbox.write("records.txt", format!("{record}\nagt-name={HOSTILE}\n"));
    shown(&resolve, 0, escaped);
    shown(&["agt", "verify", "signed.json", "--onchain"], 0, escaped);
    // A manifest that differs from the signed one, legacy records, and invalid CIDs.
    sandbox.write("signed.json", sandbox.read("signed.json").replacen("2026-11-01", "2026-11-02", 1));
    shown(&["agt", "verify", "signed.json", "--onchain"], 1, escaped);
    sandbox.write("records.txt", format!("agt-version=1\nagt-name={HOSTILE}\nagt-cap={HOSTILE}\nagt-endpoint-mcp={HOSTILE}\n"));
    shown(&resolve, 1, escaped);
    // The draft is a document, which is escaped only for terminals; the changes are for users.
    let migrate = ["agt", "migrate", "rain.agt", "--source", "file:records.txt", "--rpc-url", &world.url];
    let changes = sandbox.run(&migrate).code(0).stderr;
    assert!(changes.contains(escaped) && !changes.contains(is_active), "{changes:?}");
    sandbox.write("records.txt", format!("agt-manifest=ipfs://{HOSTILE}\n"));
    shown(&resolve, 1, "invalid-cid");
    sandbox.write("records.txt", format!("agt-manifest={HOSTILE}\n"));
    shown(&resolve, 1, "invalid-cid");
}

#[test]
fn other_formats_and_back() {
    let sandbox = Sandbox::new();
    sandbox.write("agent.json", std::fs::read(crate::examples().join("agent.agt.json")).expect("an example"));
    let (code, card) = sandbox.run_json(&["agt", "export", "agent.json", "--to", "erc8004"]);
    assert_eq!((code, card["data"]["format"].as_str()), (0, Some("erc8004")), "{card:#}");
    sandbox.write("registration.json", card["data"]["text"].as_str().expect("a text"));
    let import = ["agt", "import", "registration.json", "--domain", "rain.agt", "--owner", CREATOR];
    let drafted = sandbox.run(&import).code(0).stdout;
    assert!(drafted.contains("\"domain\": \"rain.agt\""), "{drafted}");
    assert!(sandbox.run(&["agt", "export", "agent.json", "--to", "fax"]).code(2).stderr.contains("--to"));
    sandbox.write("unsigned.json", &drafted);
    assert!(sandbox.run(&["agt", "lint", "unsigned.json"]).code(1).stdout.contains("agent.unsigned"));
    assert_eq!(sandbox.run_json(&["agt", "lint", "agent.json"]).0, 0);
    assert!(sandbox.run(&["agt", "pack", "unsigned.json"]).code(2).stderr.contains("agent.unsigned"));
}

/// Runs a command at a terminal and types answers to its prompts.
const TERMINAL: &str = include_str!("local/terminal.py");

/// Time limit of a session in seconds. It takes less than ten.
const SESSION_SECONDS: u32 = 120;

#[test]
fn drafts_come_from_answers_at_a_terminal() {
    let sandbox = Sandbox::new();
    let protocol = "Protocol as ID=URL (mcp, a2a, http, ws, grpc; empty when done): ";
    let capability = "Capability id, or a group to list its ids (empty when done): ";
    let price = "Price: free, contact, or AMOUNT:CURRENCY:UNIT[:CHAIN]: ";
    let answers: [(&str, &str); 16] = [
        ("Owner: the wallet that holds the name (0x…): ", CREATOR),
        ("Display name [rain]: ", ""),
        ("What does the agent do, in one sentence?: ", "Says when it rains."),
        ("Website (https://…): ", "https://rain.harbour-office.org/"),
        ("Image (https://…): ", ""),
        (protocol, "mcp"),
        (&format!("`mcp` names no endpoint\r\n{protocol}"), "mcp=https://rain.harbour-office.org/mcp"),
        (protocol, ""),
        (capability, "data"),
        (capability, "forcasting"),
        (&format!("`forcasting` is not a known id; did you mean forecasting?\r\n{capability}"), "forecasting"),
        (capability, "tide-tables"),
        (capability, "forecasting"),
        (capability, ""),
        (price, "cheap"),
        (&format!("`cheap` is not a price\r\n{price}"), "0.01:USDC:per_request:polygon"),
    ];
    let typed: Vec<_> = answers.iter().map(|(prompt, text)| (prompt, text, false)).collect();
    let command = format!("'{}' agt new rain.agt", env!("CARGO_BIN_EXE_toolcrib"));
    let task = serde_json::json!({ "command": command, "seconds": SESSION_SECONDS, "typed": typed });
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL]).current_dir(sandbox.path()).env_clear().env("HOME", sandbox.home()).env("TERM", "dumb");
    python.env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = crate::finish(&mut python, task.to_string().as_bytes()).code(0);
    assert_eq!(ran.stderr.trim(), "0", "the exit code of the program\n{}", ran.stdout);
    // The groups, and the ids of the selected group with their descriptions.
    assert!(ran.stdout.contains("Groups of capabilities: Language, Code, Data, "), "{}", ran.stdout);
    let listed: Vec<_> = ran.stdout.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")).collect();
    let known: Vec<_> = CAPABILITIES.iter().filter(|one| one.category == Category::Data).collect();
    assert_eq!(listed.len(), known.len(), "{}", ran.stdout);
    assert!(listed.iter().zip(&known).all(|((id, _), one)| *id == one.id), "{}", ran.stdout);

    let draft: Value = serde_json::from_str(&sandbox.read("rain.agt.json")).expect("JSON");
    assert_eq!((&draft["domain"], &draft["owner"], &draft["name"]), (&"rain.agt".into(), &CREATOR.into(), &"rain".into()));
    assert_eq!(draft["description"], "Says when it rains.");
    assert_eq!(draft.get("icon"), None, "an empty answer leaves the field out");
    assert_eq!(draft["protocols"], serde_json::json!([{ "id": "mcp", "endpoint": "https://rain.harbour-office.org/mcp" }]));
    let ids: Vec<_> = draft["capabilities"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, ["forecasting", "tide-tables"], "each once, without the misspelt one");
    assert_eq!(draft["pricing"]["paid"]["amount"], "0.01");
    // Only the signature is missing.
    let (code, linted) = sandbox.run_json(&["agt", "lint", "rain.agt.json"]);
    let findings = linted["data"]["files"][0]["findings"].as_array().expect("findings");
    let errors: Vec<_> = findings.iter().filter(|one| one["severity"] == "error").map(|one| one["code"].as_str()).collect();
    assert_eq!((code, errors), (1, vec![Some("agent.unsigned")]), "{linted:#}");
}

/// A gateway that serves one file for every path, three times.
fn gateway(file: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().take(3) {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{file}", file.len());
        }
    });
    format!("http://{address}")
}
