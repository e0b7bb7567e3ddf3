//! Directories with an object store, as processes: evidence in objects, a second node that starts from a snapshot, and credentials that
//! are not shown.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::machines::stage::get;
use crate::trust::TrustSetup;
use toolcrib_testkit::objects::{BUCKET, Service};

/// A directory that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SECRET: &str = "aSecretThatNobodySees";

/// Starts a directory over the same database and object store, and returns its address. With `index` it also follows and verifies.
fn start(place: &TrustSetup, objects: &str, index: bool) -> (Running, SocketAddr) {
    let sandbox = &place.world.sandbox;
    let ca = sandbox.home().join(".local/state/toolcrib/dev/ca.pem");
    let ca = ca.to_str().expect("text");
    let mut arguments = vec!["directory", "--network", "local", "--rpc-url", &place.world.url, "--dev-ca", ca, "--json"];
    arguments.extend(["--listen", "127.0.0.1:0", "--store", "index.db", "--objects", objects]);
    if index {
        arguments.extend(["--with-index", "--search", "words", "--snapshot-every", "1"]);
    }
    let mut command = sandbox.command(&arguments);
    command.env("AWS_ACCESS_KEY_ID", "S3RVER").env("AWS_SECRET_ACCESS_KEY", SECRET);
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let running = Running(child);
    let told: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let url = told["data"]["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL").to_owned();
    (running, url.parse().expect("an address"))
}

/// Polls until the response is as expected.
fn until(at: SocketAddr, path: &str, is_there: impl Fn(u16, &str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let (status, body) = get(at, "", path).expect("an answer");
        if is_there(status, &body) {
            return body;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{path}: {status} {body}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

/// The path of the only tool, once it is listed.
fn listed(at: SocketAddr) -> String {
    let is_listed =
        |_: u16, body: &str| serde_json::from_str::<Json>(body).is_ok_and(|page| page["tools"][0]["verified"] == true);
    let page: Json = serde_json::from_str(&until(at, "/api/v2/tools", is_listed)).expect("JSON");
    let tool = &page["tools"][0];
    let text = |name: &str| tool[name].as_str().map_or_else(|| tool[name].to_string(), str::to_owned);
    format!("/api/v2/tools/{}/{}/{}", text("registry_chain"), text("registry_addr"), text("tool_id"))
}

#[test]
fn a_second_node_begins_with_a_snapshot_and_lost_evidence_comes_back() {
    let place = TrustSetup::new();
    place.register();
    let folder = place.world.sandbox.path().join("objects");
    let setting = format!("file://{}", folder.display());
    let (_first, at) = start(&place, &setting, true);
    let tool = listed(at);
    let evidence = format!("{tool}/evidence");
    until(at, &evidence, |status, body| status == 200 && body.contains("gathered_at"));
    // A snapshot may be older than the tool's listing; the next contains it.
    let ready: Json = serde_json::from_str(&until(at, "/ready", |status, _| status == 200)).expect("JSON");
    let last = ready["shown"].as_i64().expect("the number of a change");
    let begun = Instant::now();
    let published = || {
        let manifest = files(&folder).into_iter().find(|file| file.ends_with("latest.json"))?;
        serde_json::from_slice::<Json>(&std::fs::read(manifest).ok()?).ok()?["cursor"].as_i64()
    };
    while published().is_none_or(|cursor| cursor < last) {
        assert!(begun.elapsed() < Duration::from_secs(120), "no snapshot of change {last}: {:?}", published());
        thread::sleep(Duration::from_millis(100));
    }

    let (_second, other) = start(&place, &setting, false);
    let metrics = until(other, "/metrics", |status, _| status == 200);
    assert!(metrics.contains("toolcrib_directory_search_from_snapshot 1"), "{metrics}");
    until(other, "/api/v2/tools/search?query=tide", |status, body| status == 200 && body.contains("tide-table"));
    until(other, &evidence, |status, body| status == 200 && body.contains("gathered_at"));

    let objects: Vec<_> = files(&folder).into_iter().filter(|file| file.to_string_lossy().contains("/evidence/")).collect();
    assert!(!objects.is_empty());
    for object in objects {
        std::fs::remove_file(object).expect("removed");
    }
    let refused = until(other, &evidence, |status, _| status == 503);
    assert_eq!(serde_json::from_str::<Json>(&refused).expect("JSON")["code"], "objects.absent");
    assert_eq!(get(other, "", &tool).expect("an answer").0, 200);
    // The first node verifies the tool again.
    until(other, &evidence, |status, body| status == 200 && body.contains("gathered_at"));
}

#[test]
fn credentials_are_seen_by_nobody() {
    let Some(service) = Service::moto() else { return };
    let place = TrustSetup::new();
    place.register();
    let setting = format!("s3://{BUCKET}/here?endpoint=http://127.0.0.1:{}", service.port);
    let (mut running, at) = start(&place, &setting, true);
    until(at, &format!("{}/evidence", listed(at)), |status, body| status == 200 && body.contains("gathered_at"));
    if cfg!(target_os = "linux") {
        for file in ["environ", "cmdline"] {
            let seen = std::fs::read(format!("/proc/{}/{file}", running.0.id())).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&seen).contains(SECRET), "{file}");
        }
    }
    drop(service);
    // The service is down: log lines about it contain no secret.
    until(at, &format!("{}/evidence", listed(at)), |status, body| status == 503 && body.contains("objects.unavailable"));
    running.0.kill().expect("killed");
    let mut said = String::new();
    if let Some(mut stderr) = running.0.stderr.take() {
        stderr.read_to_string(&mut said).expect("text");
    }
    assert!(said.contains("objects.unavailable") && !said.contains(SECRET), "{said}");

    let sandbox = &place.world.sandbox;
    let refused =
        sandbox.run(&["index", "objects", "--store", "index.db", "--objects", "s3://AKIA:aSecretThatNobodySees@bucket/x"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("objects.location") && !refused.stderr.contains(SECRET), "{}", refused.stderr);
    let shown = sandbox.run(&["index", "objects", "--store", "index.db", "--json"]).code(0).stdout;
    let shown: Json = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((shown["data"]["in_database"].as_u64(), shown["data"]["in_objects"].as_u64()), (Some(0), Some(1)), "{shown}");
}
