//! A directory that resolves a list of names, as processes: verified names are remembered across restarts, and tools at the endpoints of
//! an agent are listed with it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use toolcrib_store::{Database, Location};

use crate::agt::{polygon, send, token_id, word};
use crate::machines::stage::get;
use crate::onchain::{CREATOR, World};
use crate::trust::TrustSetup;

/// A directory that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process on the test's database, and returns its first line.
fn process(place: &TrustSetup, arguments: &[&str]) -> (Running, Json) {
    let sandbox = &place.world.sandbox;
    let ca = sandbox.home().join(".local/state/toolcrib/dev/ca.pem");
    let chain = ["--network", "local", "--rpc-url", &place.world.url, "--dev-ca", ca.to_str().expect("text")];
    let mut command = sandbox.command(&[arguments, &chain, &["--store", "index.db", "--json"]].concat());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let running = Running(child);
    (running, serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

/// Starts a directory with these arguments, and returns its address.
fn directory(place: &TrustSetup, arguments: &[&str]) -> (Running, SocketAddr) {
    let (running, told) = process(place, &[&["directory", "--listen", "127.0.0.1:0"], arguments].concat());
    let url = told["data"]["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL").to_owned();
    (running, url.parse().expect("an address"))
}

/// The options for a list of names.
fn listed<'a>(names: &'a World, gateway: &'a str) -> [&'a str; 8] {
    ["--agt", "names.txt", "--agt-source", "file:records.txt", "--agt-gateway", gateway, "--agt-rpc-url", &names.url]
}

/// Starts followers, workers, the list of names and a directory in one process, and returns its address.
fn start(place: &TrustSetup, names: &World, gateway: &str) -> (Running, SocketAddr) {
    directory(place, &[&["--with-index"], &listed(names, gateway)[..]].concat())
}

/// Polls until the response is as expected.
fn until(at: SocketAddr, path: &str, is_there: impl Fn(&Json) -> bool) -> Json {
    let begun = Instant::now();
    loop {
        let (_, body) = get(at, "", path).expect("an answer");
        let answer: Json = serde_json::from_str(&body).unwrap_or_default();
        if is_there(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer:#}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Makes every name due, as an hour would.
fn make_due(place: &TrustSetup) {
    let location = Location::file(place.world.sandbox.path().join("index.db"));
    place.runtime.block_on(async {
        let database = Database::open(&location).await.expect("a database");
        let sql = "UPDATE index_agent SET due_at = 0, leased_until = NULL, lease = NULL";
        assert_eq!(database.execute(sql, &[]).await.expect("written"), 1);
        database.close().await;
    });
}

/// A gateway with some files, by CID.
fn gateway(files: HashMap<String, String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4_096];
            let length = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]);
            let _ = match files.iter().find(|(cid, _)| head.contains(cid.as_str())) {
                Some((_, file)) => {
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{file}", file.len())
                }
                None => write!(stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
            };
        }
    });
    format!("http://{address}")
}

/// Signs a manifest of `rain.agt` with the tool's endpoint, and returns its CID, its record and its text.
fn manifest(place: &TrustSetup, created_at: &str) -> (String, String, String) {
    let sandbox = &place.world.sandbox;
    let tool: Json = serde_json::from_str(&sandbox.read("tool.json")).expect("JSON");
    let protocol = format!("http={}", tool["endpoint"].as_str().expect("an endpoint"));
    let drafted = sandbox.run(&["agt", "new", "rain.agt", "--owner", CREATOR, "--protocol", &protocol, "--out", "-"]).code(0);
    let mut draft: Json = serde_json::from_str(&drafted.stdout).expect("JSON");
    draft["created_at"] = created_at.into();
    sandbox.write("draft.json", draft.to_string());
    let signed = sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout;
    sandbox.write("signed.json", &signed);
    let (_, packed) = sandbox.run_json(&["agt", "pack", "signed.json"]);
    let text = |name: &str| packed["data"][name].as_str().unwrap_or_else(|| panic!("{packed:#}")).to_owned();
    (text("cid"), text("txt"), signed)
}

fn has_finding(agent: &Json, code: &str) -> bool {
    agent["findings"].as_array().is_some_and(|findings| findings.iter().any(|finding| finding["code"] == code))
}

// req: AGT-003, AGT-022, AGT-023
#[test]
fn what_a_directory_verified_is_remembered_across_restarts() {
    let place = TrustSetup::new();
    let names = polygon();
    let sandbox = &place.world.sandbox;
    send(&names, "40c10f19", &[word(CREATOR), word(&token_id(sandbox))]);
    let reference = place.register();
    let (older, newer) = (manifest(&place, "2026-05-01T00:00:00Z"), manifest(&place, "2026-05-02T00:00:00Z"));
    let gateway = gateway([(older.0, older.2), (newer.0.clone(), newer.2)].into());
    sandbox.write("names.txt", "rain.agt\n");
    sandbox.write("records.txt", format!("{}\n", newer.1));

    let path = "/api/v2/agents/rain.agt";
    let (running, at) = start(&place, &names, &gateway);
    // The agent is verified, and so is the tool at its endpoint, which the owner of the name registered.
    let agent = until(at, path, |agent| agent["verified"] == true && agent["tools"][0]["verdict"] == "verified");
    assert_eq!((agent["cid"].as_str(), has_finding(&agent, "agent.rollback")), (Some(newer.0.as_str()), false));
    let tool = &agent["tools"][0];
    assert_eq!((tool["id"].as_str(), tool["place"].as_str()), (Some(reference.as_str()), Some("same")));
    assert_eq!((tool["same_owner"].as_bool(), tool["confirmed"].as_bool()), (Some(true), Some(true)), "{tool:#}");
    let (_, page) = get(at, "", "/agents/rain.agt").expect("a page");
    assert!(page.contains("verified, same owner") && page.contains(&reference), "{page}");
    let changes = until(at, "/api/v2/changes", |page| page["changes"].as_array().is_some_and(|all| all.len() >= 4));
    let of_agent = |kind: &str| {
        let all = changes["changes"].as_array().expect("changes");
        all.iter().any(|change| change["subject"] == "agent" && change["id"] == "rain.agt" && change["kinds"][0] == kind)
    };
    assert!(of_agent("listed") && of_agent("verification"), "{changes:#}");
    drop(running);

    // Another process, and an older manifest of the same owner: every step of the specification passes, and the rollback is detected.
    sandbox.write("records.txt", format!("{}\n", older.1));
    make_due(&place);
    let (running, at) = start(&place, &names, &gateway);
    let agent = until(at, path, |agent| has_finding(agent, "agent.rollback"));
    assert_eq!((agent["verified"].as_bool(), agent["state"].as_str()), (Some(true), Some("manifest")), "{agent:#}");
    drop(running);

    // Legacy records of a name that had a manifest are refused.
    sandbox.write("records.txt", "agt-version=1\nagt-name=Rain\n");
    make_due(&place);
    let (_running, at) = start(&place, &names, &gateway);
    let agent = until(at, path, |agent| agent["state"] == "downgrade");
    assert_eq!((agent["verified"].as_bool(), &agent["tools"]), (Some(false), &Json::Array(Vec::new())), "{agent:#}");
}

// req: AGT-003, AGT-022
#[test]
fn an_index_process_resolves_the_names_of_a_list_for_a_directory() {
    let place = TrustSetup::new();
    let names = polygon();
    let sandbox = &place.world.sandbox;
    send(&names, "40c10f19", &[word(CREATOR), word(&token_id(sandbox))]);
    let (cid, record, file) = manifest(&place, "2026-05-01T00:00:00Z");
    let gateway = gateway([(cid.clone(), file)].into());
    sandbox.write("names.txt", "rain.agt\nnot a name\n");
    sandbox.write("records.txt", format!("{record}\n"));
    let (_index, told) = process(&place, &[&["index"], &listed(&names, &gateway)[..]].concat());
    assert_eq!(told["event"], "ready", "{told:#}");
    let (_directory, at) = directory(&place, &[]);
    let agent = until(at, "/api/v2/agents/rain.agt", |agent| agent["verified"] == true);
    assert_eq!(agent["cid"].as_str(), Some(cid.as_str()), "{agent:#}");
    // A name that is added to the list is resolved, and a removed one is not listed any more.
    sandbox.write("names.txt", "snow.agt\n");
    until(at, "/api/v2/agents", |page| {
        let agents = page["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
        !agents.iter().any(|agent| agent["domain"] == "rain.agt")
    });
    until(at, "/api/v2/agents/snow.agt", |agent| agent["state"].is_string() && agent["verified"] == false);
}
