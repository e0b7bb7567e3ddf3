//! Finding tools and maintaining an index: against a store and against directories.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use toolcrib_chain::deploy;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_directory::Directory;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::ToolKey;
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index, text_key};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use crate::Sandbox;

const REGISTRY: Address = Address::repeat_byte(0x82);
const REFERENCE: &str = "eip155:8453/erc8257:0x8282828282828282828282828282828282828282/1";

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// An index with two verified tools, one of them with a hostile description.
async fn fill(path: &Path) -> Index {
    const TOOL: &str = "INSERT INTO index_tool (registry, tool, creator, uri, uri_key, hash, registered_block, registered_at,
        updated_block, updated_at, events, listed, access) VALUES ($1, $2, $3, $4, $5, $6, 1, $7, 1, $7, 1, $8, 'open')";
    const LISTING: &str =
        "INSERT INTO index_listing (registry, tool, checked_at, endpoint_key, document) VALUES ($1, $2, $3, $4, $5)";
    let index = Index::open(Database::open(&Location::file(path)).await.expect("a database")).await.expect("an index");
    let registry = index.add_registry(8453, REGISTRY, 1).await.expect("a registry").id;
    let mut transaction = index.database().begin().await.expect("a transaction");
    let mut changes = Vec::new();
    for (id, name, description) in [(1, "tide-table", "Tides at a harbour."), (2, "bell", "Rings \u{1b}[31mred\u{202e} bells.")] {
        let key = ToolKey { registry, id: U256::from(id) };
        let uri = format!("https://tools.example.com/.well-known/ai-tool/{name}.json");
        let document = json!({
            "checked_at": 1_000, "expires_at": 4_000_000_000_i64, "manifest_hash": B256::repeat_byte(7), "metadata_uri": uri,
            "verdict": "verified", "verified": true, "conformant": true, "checks": ["passed", "passed", "passed", "passed"],
            "failed": null, "findings": [], "claims": null, "tier": "self-attested", "same_uri": [], "same_endpoint": [],
            "life": { "state": "active" }, "health": { "looks": 0, "answered": 0, "latency_ms": null, "last_answer": null }, "dev": false,
            "access": { "kind": "open", "predicate": null, "predicate_is_proxy": null, "predicate_name": null, "predicate_code": null,
                "is_advertised": null, "any": false, "requirements": [] },
            "manifest": { "name": name, "description": description, "tags": ["sea"], "endpoint": format!("https://tools.example.com/{name}"),
                "origin": "https://tools.example.com", "slug": name, "version": null, "image": null, "featured_image": null,
                "inputs": null, "outputs": null, "fields": [], "prices": [], "max_age": null }
        });
        let (bytes, creator) = (key.id_bytes(), Address::repeat_byte(0xc0));
        let values = [
            Value::Integer(registry.0),
            Value::Bytes(&bytes),
            Value::Bytes(creator.as_slice()),
            Value::Text(&uri),
            Value::Integer(text_key(&uri)),
            Value::Bytes(&[7; 32]),
            Value::Integer(1_000 + id),
            Value::Boolean(true),
        ];
        transaction.execute(TOOL, &values).await.expect("a tool");
        let document = document.to_string();
        let values =
            [Value::Integer(registry.0), Value::Bytes(&bytes), Value::Integer(1_000), Value::Integer(0), Value::Text(&document)];
        transaction.execute(LISTING, &values).await.expect("a listing");
        changes.push((key, Kinds::REGISTERED));
    }
    feed::record(&mut transaction, &changes, UnixTime::from_seconds(1_000)).await.expect("recorded");
    transaction.commit().await.expect("committed");
    index
}

fn filled(sandbox: &Sandbox) {
    runtime().block_on(async { fill(&sandbox.path().join("index.db")).await.database().close().await });
}

fn names(envelope: &Json, rows: &str) -> Vec<String> {
    let rows = envelope["data"][rows].as_array().expect("rows");
    rows.iter().map(|row| row["tool_id"].as_str().unwrap_or_default().to_owned()).collect()
}

// req: CLI-001, CLI-002, CLI-003
#[test]
fn a_store_of_ones_own_is_a_directory() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    let store = ["--store", "index.db"];
    let explained = sandbox.run(&[&["tools", "search", "--query", "tides", "--explain"][..], &store].concat()).code(0).stdout;
    let lines: Vec<Vec<&str>> = explained.lines().map(|line| line.split_whitespace().collect()).collect();
    let parts = ["TEXT", "MEANING", "TRUST", "USAGE", "CREATOR", "HEALTH", "AGE", "RECENCY", "REPUTATION"];
    assert_eq!(lines[0], [&["NAME", "TOOL_ID", "SCORE"][..], &parts].concat());
    let numbers: Vec<f64> = lines[1][2..].iter().map(|number| number.parse().expect("a number")).collect();
    assert!(numbers[0] > 0.1 && (numbers[0] - numbers[1..].iter().sum::<f64>()).abs() < 0.006, "they add up: {explained}");
    let search = ["tools", "search", "--query", "tides", "--access-type", "open"];
    let (code, found) = sandbox.run_json(&[&search[..], &store].concat());
    assert_eq!((code, names(&found, "results")), (0, vec!["1".to_owned()]));
    let search = ["tools", "search", "--query", "tides", "--access-type", "nft_gated"];
    let (code, found) = sandbox.run_json(&[&search[..], &store].concat());
    assert_eq!((code, names(&found, "results").len()), (0, 0));
    let (code, newest) = sandbox.run_json(&[&["tools", "list", "--sort-by", "newest", "--limit", "10"][..], &store].concat());
    assert_eq!((code, names(&newest, "tools")), (0, vec!["2".to_owned(), "1".to_owned()]));
    let (code, found) = sandbox.run_json(&["tools", "search", "--query", "tides harbour", "--store", "index.db"]);
    assert_eq!((code, names(&found, "results")), (0, vec!["1".to_owned()]));
    let (_, listed) = sandbox.run_json(&["tools", "list", "--sort-by", "oldest", "--limit", "1", "--store", "sqlite:index.db"]);
    assert_eq!(names(&listed, "tools"), ["1"]);
    let next = listed["data"]["next"].as_str().expect("more").to_owned();
    let (_, rest) = sandbox.run_json(&["tools", "list", "--sort-by", "oldest", "--next", &next, "--store", "index.db"]);
    assert_eq!(names(&rest, "tools"), ["2"]);
    let (_, none) = sandbox.run_json(&["tools", "search", "--tags", "sea,moon", "--store", "index.db"]);
    assert_eq!(names(&none, "results").len(), 0);
    let (code, one) = sandbox.run_json(&["tools", "get", REFERENCE, "--store", "index.db"]);
    assert_eq!((code, one["data"]["name"].as_str()), (0, Some("tide-table")));
    let same =
        ["tools", "get", "8453", &REGISTRY.to_string(), "1", "--store", "index.db", "--fields", "name", "--format", "json"];
    assert_eq!(sandbox.run(&same).code(0).silent().stdout, "{\n  \"name\": \"tide-table\"\n}\n");
    let (code, missing) = sandbox.run_json(&["tools", "get", "8453", &REGISTRY.to_string(), "77", "--store", "index.db"]);
    assert_eq!((code, &missing["data"]), (1, &Json::Null));
    for part in ["activity", "history"] {
        assert_eq!(sandbox.run_json(&["tools", part, REFERENCE, "--store", "index.db"]).0, 0);
    }
}

#[test]
fn foreign_text_does_nothing_to_a_terminal() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    for format in ["table", "json", "toon"] {
        let ran = sandbox.run(&["tools", "search", "--query", "bells", "--store", "index.db", "--format", format]).code(0);
        assert!(ran.stdout.contains("bell"), "{format}: {}", ran.stdout);
        assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}']), "{format}: {:?}", ran.stdout);
        let short = sandbox.run(&["tools", "list", "--store", "index.db", "--format", format, "--max-lines", "1"]).code(0);
        assert_eq!(short.stdout.lines().count(), 1, "{format}");
    }
}

#[test]
fn what_cannot_be_asked_is_said() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["tools", "list", "--store", "none.db"]).code(2);
    assert!(ran.stderr.contains("none.db has no index"), "{}", ran.stderr);
    assert!(!sandbox.path().join("none.db").exists());
    let ran = sandbox.run(&["tools", "list", "--store", "postgres://u:hidden@db/x"]).code(2);
    assert!(!ran.stderr.contains("hidden") && ran.stderr.contains("TOOLCRIB_INDEX"), "{}", ran.stderr);
    sandbox.run(&["tools", "get", "7", "--store", "none.db"]).code(2);
    sandbox.run(&["tools", "get", "8453", "7", "--store", "none.db"]).code(2);
    sandbox.run(&["tools", "list", "--limit", "201"]).code(2);
    sandbox.run(&["tools", "list", "--directory", "http://127.0.0.1:1", "--store", "x"]).code(2);
    for url in ["http://tools.example.com", "https://tools.example.com/?key=1", "ftp://x", ""] {
        sandbox.run(&["tools", "list", "--directory", url]).code(2);
    }
    // No server listens there.
    sandbox.run(&["tools", "list", "--directory", "http://127.0.0.1:1"]).code(2);
}

#[test]
fn a_directory_behind_a_url_answers_the_same() {
    let sandbox = Sandbox::new();
    let runtime = runtime();
    let url = runtime.block_on(async {
        let index = fill(&sandbox.path().join("index.db")).await;
        let search = Search::open(index.clone(), SearchOptions::default()).await.expect("search");
        while search.catch_up().await.expect("fed") > 0 {}
        let queue = Queue::new(index.clone());
        let clock = FixedClock(UnixTime::from_seconds(1_800_000_000));
        let directory = Directory::builder(index, search, queue, Chains::default(), clock).build().await.expect("a directory");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(toolcrib_directory::serve(listener, directory.router(), std::future::pending()));
        url
    });
    for question in [
        &["tools", "search", "--query", "tides"][..],
        &["tools", "list", "--type", "open"],
        &["tools", "get", REFERENCE],
        &["tools", "activity", REFERENCE],
        &["tools", "history", REFERENCE],
    ] {
        let there = sandbox.run_json(&[question, &["--directory", &url]].concat());
        let here = sandbox.run_json(&[question, &["--store", "index.db"]].concat());
        assert_eq!(there, here, "{question:?}");
        assert_eq!(there.0, 0);
    }
    // The environment and the settings name one too; the flag takes precedence.
    let ran = sandbox.run_with_env(&["tools", "list"], &[("TOOLCRIB_DIRECTORY", &url)]).code(0);
    assert!(ran.stdout.contains("tools.example.com"), "{}", ran.stdout);
    let setting = format!("directory = \"{url}\"\n");
    crate::write(&sandbox.home().join(".config/toolcrib/config.toml"), setting.as_bytes());
    assert_eq!(sandbox.run(&["tools", "list"]).code(0).stdout, ran.stdout);
    assert!(sandbox.run(&["config"]).code(0).stdout.contains("directory = "));
    sandbox.run(&["tools", "list", "--directory", "http://127.0.0.1:1"]).code(2);
    sandbox.run(&["tools", "search", "--access-type", "nonsense"]).code(2);
    // A project folder cannot redirect the user's key.
    sandbox.write("toolcrib.toml", "directory = \"http://127.0.0.1:1\"\n");
    sandbox.run(&["tools", "list"]).code(2);
}

#[test]
fn parquet_files_are_written_by_builds_that_can() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    let write = |folder: &str, options: &[&str]| {
        let usual = ["index", "parquet", folder, "--store", "index.db"];
        sandbox.run_json(&[&usual[..], options].concat())
    };
    let (code, done) = write("first", &[]);
    if cfg!(not(feature = "parquet")) {
        assert_eq!((code, done["errors"][0]["code"].as_str()), (2, Some("cli.usage")), "{done}");
        assert!(!sandbox.path().join("first").exists());
        return;
    }
    assert_eq!((code, &done["data"]["rows"]["tools"], &done["data"]["since"]), (0, &json!(2), &Json::Null), "{done}");
    let described: Json = serde_json::from_str(&sandbox.read("first/export.json")).expect("JSON");
    assert_eq!(described, done["data"]);
    let (code, again) = write("first", &[]);
    assert_eq!((code, again["errors"][0]["code"].as_str()), (2, Some("cli.exists")), "{again}");
    let cursor = done["data"]["cursor"].to_string();
    let (code, nothing) = write("second", &["--since", &cursor]);
    assert_eq!(
        (code, &nothing["data"]["rows"]["tools"], &nothing["data"]["rows"]["changed"]),
        (0, &json!(0), &json!(0)),
        "{nothing}"
    );
    let (code, ahead) = write("third", &["--since", "999"]);
    assert_eq!((code, ahead["errors"][0]["code"].as_str()), (2, Some("index.cursor")), "a cursor of another index: {ahead}");
    assert_eq!(write("fourth", &["--since", "-1"]).0, 2);
}

/// A server with one response for all requests, and the first request that it got.
pub(crate) fn one_answer(answer: String) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let sent = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
            head.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).expect("sent");
        String::from_utf8_lossy(&head).into_owned()
    });
    (url, sent)
}

#[test]
fn every_answer_has_its_exit_code() {
    let sandbox = Sandbox::new();
    for (head, body, code, words) in [
        ("429 Too Many Requests\r\nretry-after: 17", "{\"errors\":[\"slow down\"]}", 3, "slow down; try again in 17 s"),
        ("401 Unauthorized", "{\"errors\":[\"no key\\u001b[31m\"]}", 2, "no key"),
        ("404 Not Found", "", 1, "not found"),
        ("500 Oops", "", 2, "status 500"),
        ("302 Found\r\nlocation: http://127.0.0.1:1/", "", 2, "status 302"),
        ("200 OK", "null", 2, "not JSON"),
        ("200 OK", "{\"tools\":[]}", 0, "nothing found"),
    ] {
        let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let (url, sent) = one_answer(answer.clone());
        let ran = sandbox.run_with_env(&["tools", "list", "--directory", &url], &[("TOOLCRIB_API_KEY", "tcd_secret")]);
        assert!(ran.stderr.contains(words) && !ran.stderr.contains("tcd_secret"), "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
        assert_eq!(ran.code, code, "{answer}");
        let sent = sent.join().expect("served").to_ascii_lowercase();
        assert!(sent.starts_with("get /api/v2/tools?limit=20 http/1.1\r\n") && sent.contains("x-api-key: tcd_secret"), "{sent}");
    }
}

/// A response with unknown fields at every depth.
fn newer(answer: &Json) -> Json {
    match answer {
        Json::Object(fields) => {
            let mut fields: serde_json::Map<_, _> = fields.iter().map(|(name, value)| (name.clone(), newer(value))).collect();
            fields.insert("beta_field".to_owned(), json!({ "of": ["a", "later", { "version": 3 }] }));
            fields.insert("another".to_owned(), Json::Null);
            Json::Object(fields)
        }
        Json::Array(items) => items.iter().map(newer).collect(),
        other => other.clone(),
    }
}

// req: API-006
#[test]
fn fields_of_later_directories_break_nothing() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    let url = |answer: &Json| {
        let body = answer.to_string();
        one_answer(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()))
    };
    for question in [
        &["tools", "list"][..],
        &["tools", "search", "--query", "tides"],
        &["tools", "get", REFERENCE],
        &["tools", "activity", REFERENCE],
        &["tools", "history", REFERENCE],
    ] {
        let ask = |more: &[&str]| sandbox.run(&[question, more].concat()).code(0);
        let known = sandbox.run_json(&[question, &["--store", "index.db"]].concat()).1["data"].clone();
        let shown = ask(&["--store", "index.db"]).stdout;
        // Tables are unchanged, a single tool shows all fields, and programs get all fields.
        let (later, sent) = url(&newer(&known));
        let shown_later = ask(&["--directory", &later]).stdout;
        match question[1] {
            "get" => assert!(shown_later.lines().any(|line| line.starts_with("beta_field")), "{shown_later}"),
            _ => assert_eq!(shown_later, shown, "{question:?}"),
        }
        sent.join().expect("served");
        let (later, sent) = url(&newer(&known));
        let (code, envelope) = sandbox.run_json(&[question, &["--directory", &later]].concat());
        assert_eq!((code, &envelope["data"]), (0, &newer(&known)), "{question:?}");
        sent.join().expect("served");
    }
}

#[test]
fn keys_are_issued_listed_and_revoked() {
    let sandbox = Sandbox::new();
    let (code, issued) =
        sandbox.run_json(&["directory", "keys", "issue", "--name", "ci", "--reads", "9", "--days", "2", "--store", "keys.db"]);
    let key = issued["data"]["key"].as_str().expect("a key").to_owned();
    assert!(code == 0 && key.starts_with("tcd_"));
    sandbox.run(&["directory", "keys", "issue", "--name", "ci", "--store", "keys.db"]).code(2);
    let plain = sandbox.run(&["directory", "keys", "issue", "--store", "keys.db"]).code(0);
    assert!(plain.stdout.trim_end().starts_with("tcd_") && plain.stdout.lines().count() == 1, "{}", plain.stdout);
    let ran = sandbox.run(&["directory", "keys", "list", "--store", "keys.db"]).code(0);
    assert!(ran.stdout.contains("ci") && !ran.stdout.contains(&key), "{}", ran.stdout);
    sandbox.run(&["directory", "keys", "revoke", "ci", "--store", "keys.db"]).code(0);
    sandbox.run(&["directory", "keys", "revoke", "ci", "--store", "keys.db"]).code(1);
    let (_, listed) = sandbox.run_json(&["directory", "keys", "list", "--store", "keys.db"]);
    let states: Vec<_> = listed["data"]["keys"].as_array().expect("keys").iter().map(|key| key["state"].clone()).collect();
    assert!(states.contains(&json!("revoked")) && states.contains(&json!("good")), "{states:?}");
}

#[test]
fn an_operator_moderates_by_command() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    let found = || {
        let (_, found) = sandbox.run_json(&["tools", "search", "--query", "tides", "--store", "index.db"]);
        names(&found, "results")
    };
    assert_eq!(found(), ["1"]);
    let (_, list) = sandbox.run_json(&["tools", "list", "--store", "index.db"]);
    let tool = list["data"]["tools"].as_array().expect("tools").iter().find(|tool| tool["tool_id"] == "1").expect("a tool");
    let (id, creator) = (tool["id"].as_str().expect("an id").to_owned(), tool["creator"].as_str().expect("a creator").to_owned());
    let run = |arguments: &[&str]| sandbox.run_json(&[&["index"], arguments, &["--store", "index.db"]].concat());
    assert_eq!(run(&["moderate", "block", &id]).0, 2, "a reason is needed");
    assert_eq!(run(&["moderate", "block", "seven", "--reason", "x"]).0, 2);
    let (code, done) = run(&["moderate", "block", &id, "--reason", "malware", "--notice", "It steals keys."]);
    assert_eq!((code, &done["data"]["changed"]), (0, &json!(true)), "{done}");
    assert!(found().is_empty());
    let shown = sandbox.run(&["tools", "get", &id, "--store", "index.db"]);
    assert!(shown.stdout.contains("It steals keys."), "{}", shown.stdout);
    // A resource of the Bazaar by its identity; a number must be known.
    let resource = format!("x402_bazaar/0x{}", "5a".repeat(32));
    assert_eq!(run(&["moderate", "hide", &resource, "--reason", "spam"]).0, 0);
    assert_eq!(run(&["moderate", "block", "x402_bazaar/07", "--reason", "x"]).0, 2);
    let (_, missing) = run(&["moderate", "block", "x402_bazaar/7", "--reason", "x"]);
    assert!(missing.to_string().contains("x402_bazaar/7 is not in the index"), "{missing}");
    let (_, rules) = run(&["moderation"]);
    assert_eq!(rules["data"]["rules"][1]["subject"], resource.as_str());
    assert_eq!(
        (rules["data"]["rules"][0]["subject"].as_str(), &rules["data"]["rules"][0]["action"]),
        (Some(id.as_str()), &json!("block"))
    );
    // Moderation rules are part of the exported index.
    sandbox.run(&["index", "export", "--store", "index.db", "--out", "moderated.ndjson"]).code(0);
    sandbox.run(&["index", "import", "moderated.ndjson", "--store", "moderated.db"]).code(0);
    let (_, copied) = sandbox.run_json(&["index", "moderation", "--store", "moderated.db"]);
    assert_eq!(copied["data"]["rules"], rules["data"]["rules"]);
    assert_eq!(run(&["moderate", "unblock", &id]).0, 0);
    assert_eq!(run(&["moderate", "unblock", &id]).0, 1, "it was so already");
    assert_eq!(found(), ["1"]);
    assert_eq!(run(&["moderate", "hide", &creator, "--reason", "spam"]).0, 0);
    assert!(found().is_empty());
    let (_, log) = run(&["moderation", "--log"]);
    let actions: Vec<_> = log["data"]["log"].as_array().expect("a log").iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["hide", "unblock", "hide", "block"]);
    assert_eq!((run(&["reports"]).0, run(&["reports", "--close", "1"]).0), (0, 1));
    let (_, issued) = sandbox.run_json(&["directory", "keys", "issue", "--admin", "--store", "index.db"]);
    assert_eq!(issued["data"]["admin"], true);
}

#[test]
fn an_index_moves_as_text_and_as_a_backup() {
    let sandbox = Sandbox::new();
    filled(&sandbox);
    let text = sandbox.run(&["index", "export", "--store", "index.db"]).code(0);
    let (_, written) = sandbox.run_json(&["index", "export", "--store", "index.db", "--out", "export.ndjson"]);
    assert_eq!(written["data"]["rows"], text.stdout.lines().count() - 2);
    sandbox.run(&["index", "export", "--store", "index.db", "--out", "export.ndjson"]).code(2);
    sandbox.run(&["index", "export", "--store", "index.db", "--json"]).code(2);
    let (_, read) = sandbox.run_json(&["index", "import", "export.ndjson", "--store", "copy.db"]);
    assert_eq!((&read["data"]["new"], &read["data"]["rows"]), (&written["data"]["rows"], &written["data"]["rows"]));
    let (_, again) = sandbox.run_json(&["index", "import", "export.ndjson", "--store", "copy.db"]);
    assert_eq!(again["data"]["new"], 0);
    sandbox.write("broken.ndjson", sandbox.read("export.ndjson").replacen("tide", "tire", 1));
    let (code, broken) = sandbox.run_json(&["index", "import", "broken.ndjson", "--store", "other.db"]);
    assert_eq!((code, broken["errors"][0]["code"].as_str()), (2, Some("index.export_damaged")));
    let (code, ended) = sandbox.run_json(&["index", "expire", "--store", "copy.db"]);
    assert_eq!((code, ended["data"]["ended"].as_u64(), ended["data"]["until"].is_string()), (0, Some(0), true), "{ended}");
    sandbox.run(&["index", "expire", "--store", "nowhere.db"]).code(2);
    sandbox.run(&["index", "backup", "backup.db", "--store", "copy.db"]).code(0);
    sandbox.run(&["index", "backup", "backup.db", "--store", "copy.db"]).code(2);
    sandbox.run(&["index", "restore", "backup.db", "--store", "restored.db"]).code(0);
    let (_, found) = sandbox.run_json(&["tools", "search", "--query", "tides", "--store", "restored.db"]);
    assert_eq!(names(&found, "results"), ["1"]);
}

/// A check agrees with the chain, detects a row that was changed directly, and requests a rescan.
fn checked_and_rescanned(sandbox: &Sandbox, runtime: &Runtime, node: &str) {
    let check = ["index", "check", "--network", "local", "--rpc-url", node, "--store", "index.db"];
    let (code, report) = sandbox.run_json(&check);
    assert_eq!(code, 0, "{report}");
    let found = &report["data"]["registries"][0];
    assert_eq!((&found["compared"], &found["wrong"], &found["counted"]), (&json!(1), &json!(0), &json!("1")), "{report}");
    runtime.block_on(async {
        let database = Database::open(&Location::file(sandbox.path().join("index.db"))).await.expect("a database");
        let changed = database.execute("UPDATE index_tool SET uri = 'https://other.example/'", &[]).await.expect("changed");
        assert_eq!(changed, 1);
        database.close().await;
    });
    let (code, report) = sandbox.run_json(&[&check[..], &["--fix"]].concat());
    assert_eq!(code, 1, "{report}");
    let found = &report["data"]["registries"][0];
    assert_eq!((&found["wrong"], &found["differences"][0]["fields"]), (&json!(1), &json!(["metadataURI"])), "{report}");
    assert!(found["rescan_from"].is_u64(), "{report}");
    let (code, report) = sandbox.run_json(&["index", "rescan", "--from", "3", "--network", "local", "--store", "index.db"]);
    assert_eq!((code, &report["data"]["rescans"][0]["from"]), (0, &json!(3)), "{report}");
    sandbox.run(&["index", "rescan", "--network", "base", "--store", "index.db"]).code(2);
}

/// Followers, a worker and a directory in one process, over a chain with a tool whose server cannot be reached.
#[test]
fn one_process_follows_verifies_and_serves() {
    let sandbox = Sandbox::new();
    let runtime = runtime();
    let (_devchain, node) = runtime.block_on(async {
        let clock = FixedClock(UnixTime::from_seconds(1_800_000_000));
        let devchain = toolcrib_devchain::Devchain::builder(clock).spawn().await.expect("a chain");
        let url = devchain.http_url();
        let config = ChainConfig::new(Network::find("local").expect("listed"), vec![NodeUrl::parse(&url).expect("a URL")]);
        let chain = Chain::connect(config.expect("a node")).await.expect("an answer");
        let wallet = LocalWallet::development(0).expect("a development account");
        for contract in deploy::contracts().expect("the files fit each other") {
            if chain.code(contract.address).await.expect("an answer").is_empty() {
                chain.send(&wallet, &contract.call(), Duration::from_secs(20)).await.expect("deployed");
            }
        }
        let network = deploy::with_our_contracts(chain.network());
        let registry = Registry::new(chain.clone(), network.registry.expect("ours"));
        let call = registry.register("https://10.0.0.1/.well-known/ai-tool/x.json", B256::repeat_byte(7), None);
        chain.send(&wallet, &call, Duration::from_secs(20)).await.expect("registered");
        (devchain, url)
    });
    let mut command =
        sandbox.command(&["directory", "--with-index", "--network", "local", "--rpc-url", &node, "--listen", "127.0.0.1:0"]);
    let mut child = command.args(["--store", "index.db", "--json"]).spawn().expect("the program starts");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    let told: Json = serde_json::from_str(&line).expect("JSON");
    let url = told["data"]["url"].as_str().expect("a URL").to_owned();
    let list = ["tools", "list", "--include-unverified", "--directory", &url];
    let found = (0..300).any(|_| {
        let (_, listed) = sandbox.run_json(&list);
        if names(&listed, "tools") == ["1"] {
            return true;
        }
        thread::sleep(Duration::from_millis(100));
        false
    });
    assert!(found, "the tool is there");
    let (_, listed) = sandbox.run_json(&["tools", "list", "--directory", &url]);
    assert!(names(&listed, "tools").is_empty(), "and is not shown to agents");
    let ended = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(ended.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    // What another process stored is read from the store.
    let (_, kept) = sandbox.run_json(&["tools", "list", "--include-unverified", "--store", "index.db"]);
    assert_eq!(names(&kept, "tools"), ["1"]);
    checked_and_rescanned(&sandbox, &runtime, &node);
    sandbox.run(&["index", "--network", "base", "--network", "local", "--rpc-url", "http://127.0.0.1:1"]).code(2);
    sandbox.run(&["index", "--no-follow", "--workers", "0", "--store", "x.db"]).code(2);
    sandbox.run(&["index", "--network", "base-sepolia", "--rpc-url", "http://127.0.0.1:1", "--store", "x.db"]).code(2);
}
