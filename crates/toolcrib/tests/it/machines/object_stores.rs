//! A whole deployment: a primary, a streaming replica, an object store, an index process, and two web nodes that read from the replica and the
//! object store.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::replicas::{codes, reads, ready};
use super::stage::{Stage, free_address, get};
use super::{ids, issue_key, pages};
use toolcrib_testkit::databases::{Server, TestStore};
use toolcrib_testkit::objects::{BUCKET, Service};

/// Time limit for processes to notice each other's changes. Snapshots are checked every 15 seconds.
const SOON: Duration = Duration::from_secs(120);

const SECRET: &str = "aSecretOfTheObjectStore";

/// Where objects are.
enum Store {
    Folder(std::path::PathBuf),
    S3(Service),
}

impl Store {
    fn setting(&self) -> String {
        match self {
            Self::Folder(folder) => format!("file://{}", folder.display()),
            Self::S3(service) => format!("s3://{BUCKET}/deployment?endpoint=http://127.0.0.1:{}", service.port),
        }
    }

    /// Stops the service, or replaces the folder by a file.
    fn end(self) {
        if let Self::Folder(folder) = self {
            std::fs::rename(&folder, folder.with_extension("away")).expect("renamed");
            std::fs::write(folder, "no folder").expect("written");
        }
    }
}

#[test]
fn two_web_nodes_share_a_replica_and_a_folder_of_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    deploy(Store::Folder(folder.path().join("objects")));
}

#[test]
fn two_web_nodes_share_a_replica_and_an_s3_service() {
    let Some(service) = Service::moto() else { return };
    deploy(Store::S3(service));
}

fn deploy(objects: Store) {
    let Some(primary) = Server::own() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let place = runtime.block_on(TestStore::on(&primary));
    let stage = Stage::start(runtime, place);
    let replica = primary.replica();
    let replica_url = primary.setting_at(&stage.setting, &replica);
    for _ in 0..9 {
        stage.register();
    }
    let key = issue_key(&stage, &stage.setting);
    let setting = objects.setting();
    let start = |name: &'static str, arguments: &[&str]| {
        let credentials = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        stage.process_with(name, &[arguments, &["--objects", &setting, "-v"]].concat(), &credentials)
    };
    let web = |name, listen: &str, words: &str| {
        start(name, &["directory", "--listen", listen, "--search", words, "--read-store", &replica_url])
    };
    let _index = start("index", &["index", "--workers", "4", "--search", "words-index", "--snapshot-every", "1"]);
    let all = [free_address(), free_address()];
    let _first = web("web1", &all[0].to_string(), "words-web1");
    let listed = |node| ids(&pages(node, &key, "/api/v2/tools?limit=50"), "tools");
    let good: BTreeSet<u64> = (1..=9).filter(|id| !matches!(id, 3 | 7)).collect();
    stage.wait("what is verified is listed", SOON, || listed(all[0]) == good);

    // The second node starts from a snapshot that contains everything.
    let last = stage.runtime.block_on(stage.index.last_change()).expect("a number");
    stage.wait("a snapshot is published", SOON, || {
        let log = stage.log("index");
        let published = log.lines().filter(|line| line.contains("search snapshot published"));
        let cursors = published.filter_map(|line| line.split_once("cursor")).map(|(_, rest)| {
            let rest = rest.trim_start_matches(|letter: char| !letter.is_ascii_digit());
            rest.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|number| number.parse::<i64>().ok())
        });
        cursors.flatten().any(|cursor| cursor >= last)
    });
    let _second = web("web2", &all[1].to_string(), "words-web2");
    let (_, metrics) = get(all[1], &key, "/metrics").expect("an answer");
    assert!(metrics.lines().any(|line| line == "toolcrib_directory_search_from_snapshot 1"), "{metrics}");
    for node in all {
        stage.wait("the replica is read", SOON, || codes(&ready(node)) == [""]);
        let before = reads(node, &key, 1);
        stage.wait("both list the same", SOON, || listed(node) == good);
        for limit in 1..=5 {
            assert_eq!(get(node, &key, &format!("/api/v2/tools?limit={limit}")).expect("an answer").0, 200);
        }
        assert!(reads(node, &key, 1) > before, "{node}");
        stage.wait("both find the same", SOON, || {
            ids(&pages(node, &key, "/api/v2/tools/search?query=count%20words&limit=50"), "results") == good
        });
    }

    // Evidence is only in objects; both nodes serve it. The last tool's is left for later.
    let shown = stage.sandbox.run_with_env(&["index", "objects", "--json"], &[("TOOLCRIB_INDEX", &stage.setting)]).code(0);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown["data"]["in_database"], 0, "{shown}");
    assert!(shown["data"]["in_objects"].as_u64().is_some_and(|count| count >= good.len() as u64), "{shown}");
    let registry = format!("{:#x}", stage.registry.address());
    let evidence = |id: u64| format!("/api/v2/tools/31337/{registry}/{id}/evidence");
    for id in good.iter().copied().filter(|id| *id < 9) {
        let said = all.map(|node| get(node, &key, &evidence(id)).expect("an answer"));
        assert_eq!(said[0].0, 200, "{id}: {}", said[0].1);
        assert!(said[0].1.contains("gathered_at") && said[0] == said[1], "{id}: {} {}", said[1].0, said[1].1);
    }

    // Without the object store, everything but evidence still works.
    objects.end();
    for node in all {
        let (status, body) = get(node, &key, &evidence(9)).expect("an answer");
        let said: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status, said["code"].as_str()), (503, Some("objects.unavailable")), "{body}");
        for path in
            ["/api/v2/tools?limit=7", "/api/v2/tools?limit=8&sort_by=oldest", &format!("/api/v2/tools/31337/{registry}/9")]
        {
            assert_eq!(get(node, &key, path).expect("an answer").0, 200, "{path}");
        }
        assert_eq!(listed(node), good);
        assert_eq!(ids(&pages(node, &key, "/api/v2/tools/search?query=count%20words&limit=49"), "results"), good);
    }
    for name in ["index", "web1", "web2"] {
        assert!(!stage.log(name).contains(SECRET), "{name}");
    }
}
