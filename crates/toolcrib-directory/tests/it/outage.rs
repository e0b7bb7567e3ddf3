//! A full disk, and a PostgreSQL server that is gone: reads go on from what is there, writes say so, and both go on by themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::feed::{self, Kinds};
use toolcrib_store::database::Value;

use crate::databases::{Place, Server};
use crate::shelf::{Ask, Shelf, Stock, open, path};

const FOLDER: &str = "TOOLCRIB_SMALL_DISK";

/// Mounts a disk of 24 MB that only this process and its children see, and runs the test `outage::child` on it.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=24m tmpfs "$1" || exit 77
exec "$2" --exact outage::child --nocapture --test-threads=1
"#;

#[test]
fn a_full_disk_stops_writing_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    // Somebody who is not root becomes root of a namespace of his own, where that is allowed.
    let namespaces: &[&str] = &["--mount", "--user", "--map-root-user"];
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args(["sh", "-c", SMALL_DISK, "disk"]).arg(folder.path());
    unshare.arg(std::env::current_exe().expect("this program")).env(FOLDER, folder.path());
    let output = match unshare.stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(77) => output,
        _ => return toolcrib_testkit::skip("namespaces", "no disk can be mounted for one process"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Fills the disk, and gives the file that does so.
fn fill(folder: &Path) -> PathBuf {
    use std::io::Write as _;
    let path = folder.join("filler");
    let mut file = std::fs::File::create(&path).expect("a file");
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

const WRITE: &str = "UPDATE index_listing SET document = document || $1 WHERE tool = $2";

/// A transaction that needs room.
async fn write(shelf: &Shelf, id: u64) -> Result<(), toolcrib_index::Error> {
    let (tool, blanks) = (shelf.key(id).id_bytes(), " ".repeat(40_000));
    let mut transaction = shelf.index.database().begin().await?;
    transaction.execute(WRITE, &[Value::Text(&blanks), Value::Bytes(&tool)]).await?;
    feed::record(&mut transaction, &[(shelf.key(id), Kinds::FACTS)], UnixTime::from_seconds(1)).await?;
    Ok(transaction.commit().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let shelf = Shelf::with_words(Place::at(&folder.join("store.db")), &folder.join("words")).await;
    shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    for round in 0..3 {
        let filler = fill(&folder);
        let mut refused = 0;
        for _ in 0..200 {
            if let Err(error) = write(&shelf, 1).await {
                assert_eq!(error.code().id(), "store.disk", "{error}");
                assert!(error.is_retryable(), "followers and workers go on");
                refused += 1;
            }
            if refused == 5 {
                break;
            }
        }
        assert_eq!(refused, 5, "the disk is full");
        // What little room there is in the log goes to small writes.
        let queue = toolcrib_index::work::Queue::new(shelf.index.clone());
        let mut small = 0;
        while queue.request(shelf.key(2), UnixTime::from_seconds(small)).await.is_ok() {
            small += 1;
            assert!(small < 1_000, "the disk is full");
        }
        shelf.clock.forward(3_600);
        // The words of search are on the same disk.
        let _ = shelf.directory.refresh().await;
        for address in
            [path(1), path(2), "/api/v2/tools".to_owned(), format!("/api/v2/tools/search?query=maps&limit={}", 1 + round)]
        {
            let reply = shelf.get(&address).await;
            assert_eq!(reply.status, StatusCode::OK, "{address}: {}", reply.text());
        }
        assert_eq!(shelf.ids(&format!("/api/v2/tools/search?query=maps&limit={}", 10 + round)).await, [2]);
        let asked = Ask::post(&format!("{}/verify", path(1)), "").of(&shelf.router).await;
        assert_eq!(
            (asked.status, asked.json()["code"].as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, Some("store.disk")),
            "{}",
            asked.text()
        );
        assert!(asked.headers.contains_key("retry-after"));

        std::fs::remove_file(filler).expect("room");
        write(&shelf, 1).await.expect("writing goes on");
        let word = ["zebra", "quartz", "fjord"][round as usize];
        shelf.put(&Stock::good(10 + round, word)).await;
        assert_eq!(shelf.ids(&format!("/api/v2/tools/search?query={word}")).await, [10 + round], "search goes on");
        assert!(queue.request(shelf.key(1), shelf.clock.now()).await.expect("and so do requests"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_makes_nobody_wait_and_old_answers_are_marked() {
    let Some(mut server) = Server::own() else { return };
    let shelf = Shelf::over(Place::on(&server).await, open(), toolcrib_index::Chains::default()).await;
    shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    let list = "/api/v2/tools?limit=5";
    for address in [path(1).as_str(), list] {
        assert_eq!(shelf.get(address).await.status, StatusCode::OK);
    }
    // Another version of everything, under which nothing was asked for.
    shelf.put(&Stock::good(1, "Weather tomorrow")).await;

    for round in 0..2 {
        server.stop();
        // The first one finds out.
        let begun = Instant::now();
        let reply = shelf.get(&path(20 + round)).await;
        assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
        assert_eq!(
            (reply.status, reply.json()["code"].as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, Some("directory.unavailable"))
        );
        assert!(reply.headers.contains_key("retry-after"));
        for _ in 0..10 {
            for address in [path(1).as_str(), list] {
                let begun = Instant::now();
                let reply = shelf.get(address).await;
                assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
                assert_eq!(reply.status, StatusCode::OK, "{address}: {}", reply.text());
                assert!(reply.text().contains("Weather"));
                let status = reply.header("cache-status");
                assert!(status.starts_with("toolcrib; hit; ttl=-"), "{status}");
                assert_eq!(reply.header("cache-control"), "no-store");
            }
        }
        let begun = Instant::now();
        assert_eq!(write(&shelf, 1).await.expect_err("no server").code().id(), "store.lost");
        assert_eq!(shelf.get("/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());

        server.restart();
        let begun = Instant::now();
        while shelf.directory.refresh().await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it goes on by itself");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let reply = shelf.get(&path(1)).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert!(!reply.headers.contains_key("cache-status"), "fresh again");
        assert!(reply.text().contains(if round == 0 { "Weather tomorrow" } else { "Weather" }));
        assert_eq!(shelf.get(&path(2)).await.status, StatusCode::OK);
        shelf.put(&Stock::good(1, "Weather")).await;
    }
}
