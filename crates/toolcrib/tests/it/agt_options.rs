//! Options of `agt` commands: memory, contracts and final blocks, sources and gateways, layouts and other formats.

use std::time::Duration;

use alloy_primitives::{Address, hex, keccak256};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolcrib_agent::content_hash::raw_sha256_cid;
use toolcrib_agent::ipfs::{Cid, Codec, HashFunction};

use crate::Sandbox;
use crate::agt::{OTHER, REGISTRY, polygon, send, token_id, word};
use crate::onchain::{CREATOR, World};
use toolcrib_testkit::servers::{Request, Script, Server, Step, answer, ok};

const LEGACY: &str = "agt-version=1\nagt-name=Rain\n";

/// A server that gives one response to each request.
pub(crate) struct Served {
    pub(crate) server: Server,
    _runtime: Runtime,
}

impl Served {
    pub(crate) fn start(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let server = runtime.block_on(Server::start(Script::plain(vec![Step::ReadRequest, Step::answer(reply)])));
        Self { server, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.address.port())
    }
}

/// Signs a manifest of `rain.agt` with a creation time, as `<name>.json`, and returns its TXT record.
fn manifest(sandbox: &Sandbox, name: &str, created_at: &str) -> String {
    let draft = json!({ "agt": "1.0", "domain": "rain.agt", "owner": CREATOR, "created_at": created_at, "name": name });
    sandbox.write("draft.json", draft.to_string());
    let file = format!("{name}.json");
    sandbox.write(&file, sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
    let (_, packed) = sandbox.run_json(&["agt", "pack", &file]);
    packed["data"]["txt"].as_str().expect("a record").to_owned()
}

/// Resolves `rain.agt` on a chain, by the records in `records.txt` unless other sources are given. Returns the exit code and the data.
fn resolve(world: &World, more: &[&str]) -> (i32, Value) {
    let source: &[&str] = if more.contains(&"--source") { &[] } else { &["--source", "file:records.txt"] };
    let (code, envelope) =
        world.sandbox.run_json(&[&["agt", "resolve", "rain.agt", "--rpc-url", &world.url], source, more].concat());
    (code, envelope["data"].clone())
}

fn state(data: &Value) -> &str {
    data["report"]["state"].as_str().unwrap_or_else(|| panic!("{data:#}"))
}

fn has_finding(data: &Value, code: &str) -> bool {
    data["report"]["findings"].as_array().expect("findings").iter().any(|finding| finding["code"] == code)
}

/// A chain on which the first account holds the name.
fn minted() -> World {
    let world = polygon();
    send(&world, "40c10f19", &[word(CREATOR), word(&token_id(&world.sandbox))]);
    world
}

// req: AGT-022, AGT-023
#[test]
fn rollbacks_and_downgrades_are_treated_as_the_options_say() {
    let world = minted();
    let sandbox = &world.sandbox;
    let (old, new) = (manifest(sandbox, "old", "2026-05-01T00:00:00Z"), manifest(sandbox, "new", "2026-05-02T00:00:00Z"));
    sandbox.write("records.txt", new);
    assert_eq!(resolve(&world, &["--content", "new.json"]).0, 0);

    sandbox.write("records.txt", old);
    for (option, code, expected, is_found) in [
        (&[][..], 0, "manifest", true),
        (&["--rollback", "warn"], 0, "manifest", true),
        (&["--rollback", "fail"], 1, "rollback", true),
        (&["--rollback", "off"], 0, "manifest", false),
    ] {
        let (ended, data) = resolve(&world, &[&["--content", "old.json"], option].concat());
        assert_eq!((ended, state(&data), has_finding(&data, "agent.rollback")), (code, expected, is_found), "{option:?}");
    }
    // Without a memory there is nothing to compare with.
    let (_, data) = resolve(&world, &["--content", "old.json", "--rollback", "fail", "--no-memory"]);
    assert_eq!(state(&data), "manifest");

    sandbox.write("records.txt", LEGACY);
    for (option, expected, is_found) in [
        (&[][..], "downgrade", true),
        (&["--downgrade", "fail"], "downgrade", true),
        (&["--downgrade", "warn"], "legacy", true),
        (&["--downgrade", "off"], "legacy", false),
    ] {
        let (ended, data) = resolve(&world, option);
        assert_eq!((ended, state(&data), has_finding(&data, "agent.downgrade")), (1, expected, is_found), "{option:?}");
        assert_eq!(data["report"]["verified"], false, "{option:?}");
    }
}

#[test]
fn a_contract_that_holds_the_name_is_asked_only_with_the_option() {
    let world = polygon();
    let sandbox = &world.sandbox;
    let contract = Address::repeat_byte(0x5a).to_checksum(None);
    send(&world, "40c10f19", &[word(&contract), word(&token_id(sandbox))]);
    // The contract is the owner, and another key made the signature.
    manifest(sandbox, "signed", "2026-05-01T00:00:00Z");
    let file = sandbox.read("signed.json").replace(CREATOR, &contract);
    sandbox.write("contract.json", &file);
    sandbox.write("records.txt", format!("agt-manifest=ipfs://{}", raw_sha256_cid(file.as_bytes())));
    let asked = ["--content", "contract.json", "--no-memory"];
    let allowed = [&asked[..], &["--allow-contract-owner"]].concat();
    // Code that answers every call with the magic value of ERC-1271, and code that returns zero.
    world.set_code(&contract, "0x631626ba7e60e01b60005260206000f3");
    let (code, data) = resolve(&world, &asked);
    assert_eq!((code, state(&data)), (1, "invalid-signature"), "{data:#}");
    let (code, data) = resolve(&world, &allowed);
    assert_eq!((code, state(&data), &data["report"]["signed_by"]), (0, "manifest", &json!("erc-1271-extension")), "{data:#}");
    assert!(has_finding(&data, "agent.contract_signature"), "the extension is labelled: {data:#}");
    world.set_code(&contract, "0x60206000f3");
    let (code, data) = resolve(&world, &allowed);
    assert_eq!((code, state(&data)), (1, "invalid-signature"), "{data:#}");
}

#[test]
fn the_holder_of_a_final_block_is_read_on_request() {
    let world = minted();
    let sandbox = &world.sandbox;
    sandbox.write("records.txt", manifest(sandbox, "signed", "2026-05-01T00:00:00Z"));
    let newest = ["--content", "signed.json", "--no-memory"];
    let last = [&newest[..], &["--finalized"]].concat();
    let later = || world.ask("anvil_mine", "\"0x46\"");
    later();
    let (code, data) = resolve(&world, &last);
    assert_eq!((code, state(&data)), (0, "manifest"), "{data:#}");
    assert!(data["report"]["block"].as_u64().expect("a block") < world.head(), "{data:#}");
    // The name is transferred: final blocks show it later.
    send(&world, "23b872dd", &[word(CREATOR), word(OTHER), word(&token_id(sandbox))]);
    let (code, data) = resolve(&world, &newest);
    assert_eq!((code, state(&data)), (1, "invalid-owner"), "{data:#}");
    assert_eq!(resolve(&world, &last).0, 0);
    later();
    assert_eq!(state(&resolve(&world, &last).1), "invalid-owner");
}

/// Code that answers functions with fixed words.
fn canned(answers: &[(&str, Vec<u8>)]) -> String {
    let place = |number: usize| u16::try_from(number).expect("short").to_be_bytes();
    // PUSH1 0, CALLDATALOAD, PUSH1 224, SHR: the selector.
    let mut code = hex!("60003560e01c").to_vec();
    let blocks = code.len() + 11 * answers.len() + 5;
    let mut data = blocks + 16 * answers.len();
    let (mut answering, mut words) = (Vec::new(), Vec::new());
    for (at, (function, answer)) in answers.iter().enumerate() {
        // DUP1, PUSH4 selector, EQ, PUSH2 block, JUMPI.
        code.extend(
            [&hex!("8063")[..], &keccak256(function)[..4], &hex!("1461"), &place(blocks + 16 * at), &hex!("57")].concat(),
        );
        // JUMPDEST, CODECOPY of the answer, RETURN.
        let length = place(answer.len());
        answering.extend(
            [&hex!("5b61")[..], &length, &hex!("61"), &place(data), &hex!("60003961"), &length, &hex!("6000f3")].concat(),
        );
        words.extend(answer);
        data += answer.len();
    }
    // PUSH1 0, PUSH1 0, REVERT.
    code.extend(hex!("60006000fd"));
    hex::encode_prefixed([code, answering, words].concat())
}

/// A list with one text, as the ABI writes it.
fn list(text: &str) -> Vec<u8> {
    let number = |number: usize| hex::decode(word(&format!("{number:x}"))).expect("hex");
    let mut padded = text.as_bytes().to_vec();
    padded.resize(text.len().next_multiple_of(32), 0);
    [number(32), number(1), number(32), number(text.len()), padded].concat()
}

// req: AGT-001, AGT-024
#[test]
fn records_come_from_every_kind_of_source_and_must_agree() {
    let world = polygon();
    let sandbox = &world.sandbox;
    let record = manifest(sandbox, "signed", "2026-05-01T00:00:00Z");
    let other = manifest(sandbox, "other", "2026-05-02T00:00:00Z");
    let registry = canned(&[
        ("ownerOf(uint256)", hex::decode(word(CREATOR)).expect("hex")),
        ("exists(uint256)", hex::decode(word("1")).expect("hex")),
        ("getAllKeys(uint256)", list("record.TXT.0")),
        ("getManyRecords(string[],uint256)", list(&record)),
    ]);
    world.set_code(REGISTRY, &registry);
    world.ask("anvil_mine", "\"0x4\"");
    let text = json!(format!("\"{record}\""));
    let served = Served::start(move |request| match request.path() {
        "/api/FNS/rain.agt" => {
            ok(json!({ "data": { "name": "rain.agt", "records": [{ "type": "TXT", "value": text }] } }).to_string())
        }
        "/dns-query?name=rain.agt&type=TXT" => {
            ok(json!({ "Status": 0, "Answer": [{ "name": "rain.agt.", "type": 16, "data": text }] }).to_string())
        }
        _ => answer("503 Busy", "", b""),
    });
    sandbox.write("other.txt", other);
    let url = served.url();
    let sources = [format!("freename:{url}/api"), format!("doh-json:{url}/dns-query"), "fns".to_owned()];
    let ask = |sources: &[&str]| {
        let sources = sources.iter().flat_map(|source| ["--source", source]);
        resolve(&world, &sources.chain(["--content", "signed.json", "--no-memory"]).collect::<Vec<_>>())
    };
    for source in &sources {
        let (code, data) = ask(&[source]);
        assert_eq!((code, state(&data), data["txt"].as_array().map(Vec::len)), (0, "manifest", Some(1)), "{source}: {data:#}");
    }
    let all: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (code, data) = ask(&all);
    assert_eq!((code, data["txt"].as_array().map(Vec::len)), (0, Some(3)), "{data:#}");
    // A source that does not respond changes nothing; one with other records makes the name ambiguous.
    let busy = format!("doh-json:{url}/busy");
    let (code, data) = ask(&["fns", &busy]);
    assert_eq!((code, state(&data), has_finding(&data, "agent.txt_unanswered")), (0, "manifest", true), "{data:#}");
    let (code, data) = ask(&["fns", "file:other.txt"]);
    assert_eq!((code, state(&data), has_finding(&data, "agent.txt_disagree")), (1, "ambiguous", true), "{data:#}");
    assert_eq!(data["gateways"], Value::Null, "nothing is retrieved: {data:#}");
    // The same source twice would always agree.
    let twice = ["agt", "resolve", "rain.agt", "--source", "fns", "--source", "fns", "--rpc-url", &world.url];
    assert!(sandbox.run(&twice).code(2).stderr.contains("agent.txt_setting"));
}

// req: AGT-024
#[test]
fn one_honest_gateway_is_enough_and_each_of_the_others_is_named() {
    let world = minted();
    let sandbox = &world.sandbox;
    let record = manifest(sandbox, "signed", "2026-05-01T00:00:00Z");
    let cid = record.rsplit('/').next().expect("a CID").to_owned();
    sandbox.write("records.txt", &record);
    let file = sandbox.read("signed.json");
    let changed = file.replacen("2026-05-01", "2026-05-03", 1);
    let block = |file: String| move |_: &Request| answer("200 OK", "Content-Type: application/vnd.ipld.raw\r\n", file.as_bytes());
    let others = [
        Served::start(block(changed)),
        Served::start(|_| answer("404 Not Found", "", b"")),
        Served::start(|_| answer("500 Oops", "", b"")),
        Served::start(|_| answer("200 OK", "Content-Type: text/html\r\n", b"<html>")),
    ];
    // It is slow, so that all gateways are tried.
    let serve = block(file);
    let honest = Served::start(move |request| {
        std::thread::sleep(Duration::from_secs(3));
        serve(request)
    });
    let said = [
        format!("served other bytes for {cid}"),
        "does not have the content".to_owned(),
        "unreachable: status 500 (fetch.server_error)".to_owned(),
        "unreachable: a web page instead of the block (agent.gateway_answer)".to_owned(),
        "fetch.connect_refused".to_owned(),
        "served the content".to_owned(),
    ];
    let mut urls: Vec<String> = others.iter().map(Served::url).collect();
    urls.extend(["http://127.0.0.1:1".to_owned(), honest.url()]);
    let gateways: Vec<&str> = urls.iter().flat_map(|url| ["--gateway", url]).collect();
    let asked = ["agt", "resolve", "rain.agt", "--source", "file:records.txt", "--rpc-url", &world.url, "--no-memory", "-v"];
    let ran = sandbox.run(&[&asked[..], &gateways].concat()).code(0);
    assert!(ran.stdout.starts_with("rain.agt: verified (manifest)\n"), "{ran:?}");
    for (url, said) in urls.iter().zip(&said) {
        let line = ran.stderr.lines().find(|line| line.contains(&format!("{url} ("))).unwrap_or_else(|| panic!("{url}: {ran:?}"));
        assert!(line.contains(said.as_str()), "{said}: {line}");
    }
    let (code, data) = resolve(&world, &[&gateways[..], &["--no-memory"]].concat());
    assert_eq!((code, has_finding(&data, "agent.content_tampered")), (0, true), "{data:#}");
    let named: Vec<_> = data["gateways"].as_array().expect("attempts").iter().map(|one| one["gateway"].as_str()).collect();
    assert_eq!(named, urls.iter().map(|url| Some(url.as_str())).collect::<Vec<_>>());
    // Without the honest one nothing is known: invalid content and failures give no verdict.
    let (code, data) = resolve(&world, &[&gateways[..gateways.len() - 2], &["--no-memory"]].concat());
    assert_eq!((code, state(&data)), (2, "unreachable"), "{data:#}");
}

// req: AGT-002, AGT-017
#[test]
fn manifests_are_packed_as_unixfs_files_on_request() {
    let sandbox = Sandbox::new();
    manifest(&sandbox, "signed", "2026-05-01T00:00:00Z");
    let file = sandbox.read("signed.json").into_bytes();
    // UnixFS: a file (type 2) with its bytes and their number, as the data of a node without links.
    let length = |number: usize| {
        assert!((128..16_384).contains(&number), "two digits");
        vec![(number & 0x7f) as u8 | 0x80, (number >> 7) as u8]
    };
    let data = [vec![0x08, 0x02, 0x12], length(file.len()), file.clone(), vec![0x18], length(file.len())].concat();
    let node = [vec![0x0a], length(data.len()), data].concat();
    let cid = Cid::of(Codec::DagPb, HashFunction::Sha2_256, &node).to_string();
    assert!(cid.starts_with("bafybei"), "{cid}");

    let (code, packed) = sandbox.run_json(&["agt", "pack", "signed.json", "--dag-pb", "--car", "signed.car"]);
    assert_eq!((code, packed["data"]["cid"].as_str()), (0, Some(cid.as_str())), "{packed:#}");
    let record = packed["data"]["txt"].as_str().expect("a record");
    assert_eq!(record, format!("agt-manifest=ipfs://{cid}"));
    sandbox.write("records.txt", record);
    for content in ["signed.car", "signed.json"] {
        let asked = ["agt", "resolve", "rain.agt", "--source", "file:records.txt", "--preview", "--no-memory", "--content"];
        let (_, resolved) = sandbox.run_json(&[&asked[..], &[content]].concat());
        assert_eq!(
            (state(&resolved["data"]), &resolved["data"]["report"]["content"]["cid"]),
            ("manifest", &json!(cid)),
            "{content}"
        );
    }
    // Publishing packs in the same way.
    let publish = ["agt", "publish", "signed.json", "--dag-pb", "--dry-run", "--preview", "--source", "file:records.txt"];
    let (code, planned) = sandbox.run_json(&publish);
    assert_eq!(
        (code, planned["data"]["cid"].as_str(), &planned["data"]["add"]),
        (0, Some(cid.as_str()), &json!([])),
        "{planned:#}"
    );
}

#[test]
fn manifests_are_written_in_the_formats_of_others() {
    let sandbox = Sandbox::new();
    let protocols =
        ["--protocol", "mcp=https://rain.harbour-office.org/mcp", "--protocol", "a2a=https://rain.harbour-office.org/a2a"];
    let new =
        ["agt", "new", "rain.agt", "--owner", CREATOR, "--name", "Rain", "--capability", "forecasting", "--out", "draft.json"];
    sandbox.run(&[&new[..], &protocols].concat()).code(0);
    sandbox.write("signed.json", sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
    let (_, packed) = sandbox.run_json(&["agt", "pack", "signed.json"]);
    let manifest = json!(format!("ipfs://{}", packed["data"]["cid"].as_str().expect("a CID")));
    let export = |format: &str, more: &[&str]| sandbox.run(&[&["agt", "export", "signed.json", "--to", format], more].concat());
    let document = |format: &str, more: &[&str]| -> Value {
        serde_json::from_str(&export(format, more).code(0).stdout).expect("a JSON document")
    };

    assert!(export("a2a", &[]).code(2).stderr.contains("a2a_endpoint"));
    let card = document("a2a", &["--a2a-endpoint", "rpc", "--a2a-binding", "HTTP+JSON"]);
    let interface = &card["supportedInterfaces"][0];
    assert_eq!(
        (&interface["url"], &interface["protocolBinding"]),
        (&json!("https://rain.harbour-office.org/a2a"), &json!("HTTP+JSON"))
    );
    assert_eq!(card["capabilities"]["extensions"][0]["params"]["manifest"], manifest, "{card:#}");
    let other = ["--a2a-endpoint", "card", "--a2a-interface", "https://rain.harbour-office.org/rpc"];
    assert_eq!(document("a2a", &other)["supportedInterfaces"][0]["url"], "https://rain.harbour-office.org/rpc");

    assert!(export("mcp-registry", &["--version", "1.2.0"]).code(2).stderr.contains("namespace"));
    let server = document("mcp-registry", &["--namespace", "org.harbour-office", "--version", "1.2.0"]);
    assert_eq!((&server["name"], &server["version"]), (&json!("org.harbour-office/rain"), &json!("1.2.0")), "{server:#}");
    assert_eq!(server["remotes"][0]["url"], "https://rain.harbour-office.org/mcp");

    let records = document("ensip26", &[]);
    let value = |key: &str| {
        let all = records.as_array().expect("records");
        all.iter().find(|record| record["key"] == key).unwrap_or_else(|| panic!("{key}: {records:#}"))["value"].clone()
    };
    assert_eq!(value("agent-endpoint[mcp]"), "https://rain.harbour-office.org/mcp");
    let context: Value = serde_json::from_str(value("agent-context").as_str().expect("text")).expect("JSON");
    assert_eq!((&context["agt"]["domain"], &context["agt"]["manifest"]), (&json!("rain.agt"), &manifest));

    let line = |version: &str| {
        format!("_agent.rain.harbour-office.org. 300 IN TXT \"v={version};u=https://rain.harbour-office.org/mcp;p=mcp;")
    };
    let host = ["--host", "rain.harbour-office.org"];
    let said = export("aid", &host).code(0).stdout;
    assert!(said.starts_with(&line("aid2")), "{said}");
    let said = export("aid", &[&host[..], &["--aid-version", "aid1"]].concat()).code(0).stdout;
    assert!(said.starts_with(&line("aid1")), "{said}");

    // To a file, which is not overwritten by default.
    assert_eq!(export("aid", &["--out", "records.zone"]).code(0).stdout, "records.zone\n");
    assert!(export("ensip26", &["--out", "records.zone"]).code(2).stderr.contains("cli.exists"));
    export("ensip26", &["--out", "records.zone", "--force"]).code(0);
    assert_eq!(serde_json::from_str::<Value>(&sandbox.read("records.zone")).expect("JSON"), records);
}

// req: AGT-028
#[test]
fn legacy_records_are_migrated_without_a_chain() {
    let world = minted();
    let sandbox = &world.sandbox;
    sandbox.write("records.txt", format!("{LEGACY}agt-owner={OTHER}\n"));
    let migrate = |more: &[&str]| {
        let (code, migrated) =
            sandbox.run_json(&[&["agt", "migrate", "rain.agt", "--source", "file:records.txt"], more].concat());
        let draft: Value = serde_json::from_str(migrated["data"]["draft"].as_str().expect("a draft")).expect("JSON");
        (code, draft["owner"].clone(), migrated["data"]["holder"].as_str().map(str::to_lowercase))
    };
    // The owner onchain is used, and without a chain the account in the records.
    assert_eq!(migrate(&["--rpc-url", &world.url]), (0, json!(CREATOR), Some(CREATOR.to_lowercase())));
    assert_eq!(migrate(&["--rpc-url", &world.url, "--offline"]), (0, json!(OTHER), None));
    assert_eq!(migrate(&["--rpc-url", "http://127.0.0.1:1", "--offline"]), (0, json!(OTHER), None));
}
