//! A directory that follows and verifies while its disk becomes full: it keeps running and serving, and continues when there is space.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::stage::{Stage, free_address, get};
use super::{check_directories, check_index, ids, is_settled, issue_key, pages};
use toolcrib_testkit::databases::{Server, TestStore};

const FOLDER: &str = "TOOLCRIB_SMALL_DISK";

/// Whether the database on the disk is PostgreSQL.
const IS_POSTGRES: &str = "TOOLCRIB_SMALL_DISK_POSTGRES";

/// Time limit for effects of a full disk, and of its end: pauses after errors grow to a minute.
const SOON: Duration = Duration::from_secs(180);

/// Most tools that are registered before the full disk is noticed, on SQLite and on PostgreSQL.
const MOST: [usize; 2] = [400, 80];

/// Mounts a disk that only this process and its children see, and runs the test `child` on it, as a user other than root, since PostgreSQL
/// refuses to run as root.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size="$3" tmpfs "$1" || exit 77
exec unshare --user --map-user=65534 --map-group=65534 "$2" --exact machines::full_disk::child --nocapture --test-threads=1
"#;

#[test]
fn a_directory_lives_on_a_full_disk_and_catches_up() {
    run_on_small_disk("24m", "");
}

#[test]
fn a_directory_lives_beside_a_postgres_on_a_full_disk_and_catches_up() {
    if toolcrib_testkit::postgres().is_some() {
        // A new cluster without its write-ahead log takes about 25 MB.
        run_on_small_disk("64m", "1");
    }
}

fn run_on_small_disk(size: &str, is_postgres: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--user", "--map-root-user", "sh", "-c", SMALL_DISK, "disk"]).arg(folder.path());
    unshare.arg(std::env::current_exe().expect("this program")).arg(size);
    unshare.env(FOLDER, folder.path()).env(IS_POSTGRES, is_postgres);
    let output = match unshare.stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(77) => output,
        _ => return toolcrib_testkit::skip("namespaces", "no disk can be mounted for one process"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Fills the disk, and returns the file that does so.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filler");
    let mut file = std::fs::File::create(&path).expect("a file");
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = Runtime::new().expect("a runtime");
    let server = std::env::var_os(IS_POSTGRES).is_some_and(|value| !value.is_empty()).then(|| {
        let tables = folder.join("tables");
        std::fs::create_dir(&tables).expect("a folder");
        Server::on_disk(&tables).expect("it is installed")
    });
    let place = match &server {
        Some(server) => runtime.block_on(TestStore::on(server)),
        None => TestStore::at(&folder.join("store.db")),
    };
    let stage = Stage::start(runtime, place);
    for _ in 0..9 {
        stage.register();
    }
    let key = issue_key(&stage, &stage.setting);
    let (address, words) = (free_address(), folder.join("words"));
    let (listen, words) = (address.to_string(), words.to_str().expect("text"));
    let arguments = ["directory", "--with-index", "--listen", &listen, "--search", words, "--workers", "4"];
    let mut directory = stage.process("directory", &arguments);
    let listed = || ids(&pages(address, &key, "/api/v2/tools?limit=50"), "tools");
    stage.wait("what is verified is listed", SOON, || listed().len() == stage.good());
    let registry = format!("{:#x}", stage.registry.address());

    for round in 1..=2 {
        let before = listed();
        if server.is_some() {
            // Workers have verdicts to write, whether or not the follower can write new events.
            stage.execute("UPDATE index_job SET due_at = 0 WHERE lease IS NULL");
        }
        let filler = fill(&folder);
        let refusals = || stage.log("directory").matches("store.disk").count();
        let (refused, known) = (refusals(), stage.log("directory").len());
        // The first writes use the remaining space in the database's log, or in the last pages of its tables.
        stage.wait("the full disk is noticed", SOON, || {
            if stage.told.lock().expect("unpoisoned").len() < round * MOST[usize::from(server.is_some())] {
                stage.register();
            }
            // Followers and workers write different tables, each with free space of its own on PostgreSQL.
            let log = stage.log("directory").split_off(known);
            let has_said = |what: &str| log.lines().any(|line| line.contains("store.disk") && line.contains(what));
            match server {
                Some(_) => {
                    let has_worker = has_said("verification failed") || has_said("jobs could not be leased");
                    has_worker && has_said("follower error, retrying")
                }
                None => refusals() > refused,
            }
        });
        let noticed = refusals();
        let mut asked = 0;
        stage.wait("it is said again", SOON, || {
            asked += 1;
            for path in [
                format!("/api/v2/tools?limit={}", 1 + asked % 50),
                format!("/api/v2/tools/31337/{registry}/{}", 1 + asked % 6),
                format!("/api/v2/tools/search?query=count%20words&limit={}", 1 + asked % 50),
                format!("/api/v2/changes?limit={}", 1 + asked % 50),
            ] {
                let (status, body) = get(address, &key, &path).expect("an answer");
                assert_eq!(status, 200, "{path}: {body}");
            }
            assert!(directory.is_running());
            asked >= 20 && refusals() > noticed
        });
        assert!(listed().is_superset(&before), "nothing that was listed is gone");

        std::fs::remove_file(filler).expect("room");
        stage.wait("it catches up", SOON, || is_settled(&stage));
        assert!(directory.is_running());
    }
    check_index(&stage);
    check_directories(&stage, &[address], &key);
    assert_eq!(directory.terminate(), Some(0));
}
