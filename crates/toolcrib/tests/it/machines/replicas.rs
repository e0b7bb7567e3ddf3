//! Two web nodes that read from two streaming replicas, an index process and a purger on the primary: responses and logs when the database
//! servers are paused, killed and promoted.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tokio::runtime::Runtime;

use super::stage::{Caller, Stage, free_address, get};
use super::{ids, issue_key, pages};
use toolcrib_testkit::databases::{Server, TestStore};

/// Largest replica lag in this test, in seconds.
const LAG: &str = "3";

/// Time limit for servers and processes to notice each other's changes.
const SOON: Duration = Duration::from_secs(60);

const SECRET: &str = "purge-token-5f1c";

/// Status, head and body of a request.
fn exchange(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_lowercase(), body.to_owned())
}

pub(super) fn ready(address: SocketAddr) -> Json {
    let (_, body) = get(address, "", "/ready").expect("an answer");
    serde_json::from_str(&body).expect("JSON")
}

/// Why each replica is not used; an empty text for one that is used.
pub(super) fn codes(ready: &Json) -> Vec<String> {
    let replicas = ready["replicas"].as_array().expect("replicas");
    let code = |replica: &Json| match replica["usable"].as_bool() {
        Some(true) => String::new(),
        _ => replica["code"].as_str().unwrap_or("unknown").to_owned(),
    };
    replicas.iter().map(code).collect()
}

/// How many responses a node read from a replica.
pub(super) fn reads(node: SocketAddr, key: &str, database: usize) -> u64 {
    let (_, page) = get(node, key, "/metrics").expect("an answer");
    let name = format!("toolcrib_directory_database_reads_total{{replica=\"{database}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().expect("a count"))
}

struct Nodes<'s> {
    stage: &'s Stage,
    all: [SocketAddr; 2],
    key: String,
}

impl Nodes<'_> {
    /// Waits until both nodes report this state of each replica.
    #[track_caller]
    fn wait_for(&self, what: &str, expected: [&str; 2]) -> Duration {
        self.stage.wait(what, SOON, || self.all.iter().all(|node| codes(&ready(*node)) == expected))
    }

    /// Waits until both nodes list this number of tools.
    #[track_caller]
    fn wait_for_tools(&self, what: &str, count: usize) -> Duration {
        self.stage.wait(what, SOON, || self.all.iter().all(|node| self.listed(*node).len() == count))
    }

    fn listed(&self, node: SocketAddr) -> BTreeSet<u64> {
        ids(&pages(node, &self.key, "/api/v2/tools?limit=50"), "tools")
    }

    fn reads(&self, node: SocketAddr, database: usize) -> u64 {
        reads(node, &self.key, database)
    }
}

/// Head and body of each request to a cache.
type Told = Arc<Mutex<Vec<(String, String)>>>;

/// A cache's purge API.
fn cache() -> (SocketAddr, Told) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, told) = (listener.local_addr().expect("an address"), Told::default());
    let all = Arc::clone(&told);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).expect("a line");
                if let Some(bytes) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = bytes.trim().parse().expect("a number");
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").expect("answered");
            all.lock().expect("unpoisoned").push((head, String::from_utf8(body).expect("text")));
        }
    });
    (address, told)
}

#[test]
fn two_web_nodes_read_from_streaming_replicas_and_survive_all_of_them() {
    let Some(mut primary) = Server::own() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let place = runtime.block_on(TestStore::on(&primary));
    let stage = Stage::start(runtime, place);
    let (mut first, second) = (primary.replica(), primary.replica());
    let at = |server: &Server| primary.setting_at(&stage.setting, server);
    let (first_url, second_url) = (at(&first), at(&second));
    for _ in 0..9 {
        stage.register();
    }
    let key = issue_key(&stage, &stage.setting);
    let _index = stage.process("index", &["index", "--workers", "4"]);
    let all = [free_address(), free_address()];
    let web = |name, address: SocketAddr| {
        let (listen, words) = (address.to_string(), format!("words-{name}"));
        let reading = ["--read-store", &first_url, "--read-store", &second_url, "--max-read-lag", LAG, "--cdn-max-age", "600"];
        stage.process(name, &[&["directory", "--listen", &listen, "--search", &words][..], &reading].concat())
    };
    let (_web1, _web2) = (web("web1", all[0]), web("web2", all[1]));
    let nodes = Nodes { stage: &stage, all, key };
    nodes.wait_for("both replicas are read", ["", ""]);
    nodes.wait_for_tools("what is verified is listed", stage.good());
    let caller = Caller::start(all.to_vec(), nodes.key.clone());

    // All servers work: replicas are read.
    for node in all {
        let before: u64 = (1..=2).map(|replica| nodes.reads(node, replica)).sum();
        for limit in 1..=10 {
            assert_eq!(get(node, &nodes.key, &format!("/api/v2/tools?limit={limit}")).expect("an answer").0, 200);
        }
        let after: u64 = (1..=2).map(|replica| nodes.reads(node, replica)).sum();
        assert!(after >= before + 8, "{node}: {before}, then {after}");
    }

    // One is paused: the other is read, and new tools are shown.
    stage.runtime.block_on(first.admin("SELECT pg_wal_replay_pause()"));
    nodes.wait_for("the first is behind", ["replica.behind", ""]);
    for _ in 0..3 {
        stage.register();
    }
    nodes.wait_for_tools("new tools are shown", stage.good());
    // Both: the primary is read.
    stage.runtime.block_on(second.admin("SELECT pg_wal_replay_pause()"));
    nodes.wait_for("both are behind", ["replica.behind", "replica.behind"]);
    stage.register();
    nodes.wait_for_tools("the primary tells of it", stage.good());
    assert!(all.iter().all(|node| ready(*node)["status"] == "ok"));
    stage.runtime.block_on(async {
        first.admin("SELECT pg_wal_replay_resume()").await;
        second.admin("SELECT pg_wal_replay_resume()").await;
    });
    nodes.wait_for("both have caught up", ["", ""]);

    // The cache is notified of a change, and the token is sent to no other server.
    let (purges, told) = cache();
    let url = format!("http://{purges}/purge");
    let arguments = ["index", "purge", "--url", &url, "--header-env", "X-Token=CDN_TOKEN", "--settle", "1", "--json", "-v"];
    let mut command = stage.sandbox.command(&arguments);
    command.env("TOOLCRIB_INDEX", &stage.setting).env("CDN_TOKEN", SECRET).stdout(Stdio::piped());
    let log = std::fs::File::create(stage.sandbox.path().join("purge.log")).expect("a file");
    let mut purger = command.stderr(log).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(purger.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.contains("\"ready\"") && !line.contains(SECRET), "{line}");
    stage.update(1);
    stage.wait("the cache is told", SOON, || {
        told.lock().expect("unpoisoned").iter().any(|(_, body)| body.contains("\"lists\"") && body.contains("\"t-"))
    });
    purger.kill().expect("killed");
    purger.wait().expect("gone");
    let heads = told.lock().expect("unpoisoned").iter().map(|(head, _)| head.clone()).collect::<String>();
    assert!(heads.to_lowercase().contains(&format!("x-token: {SECRET}")), "{heads}");
    assert!(!stage.log("purge").contains(SECRET), "{}", stage.log("purge"));
    let (_, head, _) = exchange(all[0], "GET /api/v2/tools HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert!(head.contains("s-maxage=600") && head.contains("surrogate-key: t-") && head.contains(" lists all"), "{head}");

    // One is killed: no request fails or waits.
    first.kill();
    for round in 0..40 {
        let begun = Instant::now();
        let path = format!("/api/v2/tools?limit={}", 1 + round % 20);
        assert_eq!(get(all[round % 2], &nodes.key, &path).expect("an answer").0, 200);
        toolcrib_testkit::assert_not_hung(begun, "a request beside a replica that was killed");
    }
    nodes.wait_for("the first is gone", ["replica.unreachable", ""]);
    first.restart();
    nodes.wait_for("the first is back", ["", ""]);

    // One is promoted: it is never read again.
    stage.runtime.block_on(first.admin("SELECT pg_promote()"));
    nodes.wait_for("the first is promoted", ["replica.promoted", ""]);
    stage.register();
    nodes.wait_for_tools("the second tells of it", stage.good());
    let (seen, _) = caller.end();
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>(), "the feed has no gap, whichever database told it");

    // The primary is killed: the second replica is read, writes are refused, and after a while responses state their age.
    let before = nodes.listed(all[0]);
    primary.kill();
    for node in all {
        stage.wait("it is known", SOON, || ready(node)["status"] == "the primary does not answer; read replicas do");
        assert_eq!(codes(&ready(node)), ["replica.promoted", ""]);
        assert_eq!(nodes.listed(node), before);
        assert_eq!(ids(&pages(node, &nodes.key, "/api/v2/tools/search?query=count%20words&limit=50"), "results"), before);
        let issue = "POST /api/v2/auth/keys HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (status, head, body) = exchange(node, issue);
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("directory.unavailable") && head.contains("cache-control: no-store"), "{head} {body}");
        let list = "GET /api/v2/tools?limit=3 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stage_wait("answers are marked", || {
            let (status, head, _) = exchange(node, list);
            assert_eq!(status, 200);
            head.contains("cache-status: toolcrib; hit; ttl=-") && head.contains("cache-control: no-store")
        });
    }
    primary.restart();
    stage.wait("the primary is back", SOON, || all.iter().all(|node| ready(*node)["status"] == "ok"));
    nodes.wait_for("the second follows it again", ["replica.promoted", ""]);
    stage.register();
    nodes.wait_for_tools("everything goes on", stage.good());
    // Logs contain the events, with their codes.
    for name in ["web1", "web2"] {
        let log = stage.log(name);
        for code in ["replica.behind", "replica.unreachable", "replica.promoted"] {
            assert!(log.contains(code), "{name} never said {code}: {log}");
        }
        assert!(log.contains("primary does not answer"), "{name}: {log}");
    }
}

/// Like `Stage::wait`, for when the database is down that a failure message would query.
fn stage_wait(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < SOON, "{what}: not in time");
        thread::sleep(Duration::from_millis(50));
    }
}
