//! A full disk, and a PostgreSQL server that is gone: reads go on from what is there, writes say so, and both go on by themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::feed::{self, Kinds};
use toolcrib_store::Database;
use toolcrib_store::database::Value;

use crate::shelf::{Ask, Reply, Shelf, Stock, open, path};
use toolcrib_testkit::databases::{Server, TestStore};

/// The folder that the small disk is mounted at.
const FOLDER: &str = "TOOLCRIB_SMALL_DISK";

/// Whether the database on it is PostgreSQL.
const IS_POSTGRES: &str = "TOOLCRIB_SMALL_DISK_POSTGRES";

/// Mounts a disk of some megabytes that only this process and its children see, and runs the test `outage::child` on it. As somebody who is not
/// root, since PostgreSQL refuses to run as root.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size="$3" tmpfs "$1" || exit 77
exec unshare --user --map-user=65534 --map-group=65534 "$2" --exact outage::child --nocapture --test-threads=1
"#;

#[test]
fn a_full_disk_stops_writing_and_nothing_else() {
    run_on_small_disk("24m", "");
}

#[test]
fn a_full_disk_below_postgres_stops_writing_and_nothing_else() {
    if toolcrib_testkit::postgres().is_some() {
        // A new cluster without its write-ahead log takes about 25 MB.
        run_on_small_disk("64m", "1");
    }
}

fn run_on_small_disk(size: &str, is_postgres: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    // Somebody who is not root becomes root of a namespace of his own, where that is allowed.
    let namespaces: &[&str] = &["--mount", "--user", "--map-root-user"];
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args(["sh", "-c", SMALL_DISK, "disk"]).arg(folder.path());
    unshare.arg(std::env::current_exe().expect("this program")).arg(size);
    unshare.env(FOLDER, folder.path()).env(IS_POSTGRES, is_postgres);
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
    let mut file = std::fs::File::options().create(true).append(true).open(&path).expect("a file");
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

/// Removes the files in which PostgreSQL keeps its catalogue for new connections, as a change of the catalogue does.
fn forget_catalogue(tables: &Path) {
    let below =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    for folder in below(&tables.join("base")).iter().chain([&tables.join("global")]) {
        match std::fs::remove_file(folder.join("pg_internal.init")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

const WRITE: &str = "UPDATE index_listing SET document = document || $1 WHERE tool = $2";

/// White space that no database compresses to nothing.
fn blanks() -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b" \n\t\r"[(state >> 62) as usize] as char
    };
    (0..40_000).map(|_| next()).collect()
}

/// A transaction that needs room.
async fn write(shelf: &Shelf, id: u64) -> Result<(), toolcrib_index::Error> {
    let (tool, blanks) = (shelf.key(id).id_bytes(), blanks());
    let mut transaction = shelf.index.database().begin().await?;
    transaction.execute(WRITE, &[Value::Text(&blanks), Value::Bytes(&tool)]).await?;
    feed::record(&mut transaction, &[(shelf.key(id), Kinds::FACTS)], UnixTime::from_seconds(1)).await?;
    Ok(transaction.commit().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let server = match std::env::var_os(IS_POSTGRES).is_some_and(|value| !value.is_empty()) {
        true => {
            let tables = folder.join("tables");
            std::fs::create_dir(&tables).expect("a folder");
            Some(Server::on_disk(&tables).expect("it is installed"))
        }
        false => None,
    };
    let place = match &server {
        Some(server) => TestStore::on(server).await,
        None => TestStore::at(&folder.join("store.db")),
    };
    let location = place.location();
    let shelf = Shelf::with_words(place, &folder.join("words")).await;
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
        let queue = toolcrib_index::work::Queue::new(shelf.index.clone());
        if server.is_none() {
            // What little room there is in the log goes to small writes. PostgreSQL makes room by what small writes replace, for ever.
            let mut small = 0;
            while queue.request(shelf.key(2), UnixTime::from_seconds(small)).await.is_ok() {
                small += 1;
                assert!(small < 1_000, "the disk is full");
            }
        }
        shelf.clock.advance(3_600);
        // The words of search are on the same disk.
        let _ = shelf.directory.refresh().await;
        for address in
            [path(1), path(2), "/api/v2/tools".to_owned(), format!("/api/v2/tools/search?query=maps&limit={}", 1 + round)]
        {
            let reply = shelf.get(&address).await;
            assert_eq!(reply.status, StatusCode::OK, "{address}: {}", reply.text());
        }
        assert_eq!(shelf.ids(&format!("/api/v2/tools/search?query=maps&limit={}", 10 + round)).await, [2]);
        if server.is_none() {
            is_refused(&Ask::post(&format!("{}/verify", path(1)), "").of(&shelf.router).await);
        }
        // Each key is a row more, until the last page of its table is full.
        let mut reply = None;
        for caller in 0..200_u32 {
            let from = std::net::Ipv4Addr::from(0x0a00_0000 + round * 256 + caller);
            let issued = Ask::post("/api/v2/auth/keys", "").from(&from.to_string()).of(&shelf.router).await;
            if issued.status != StatusCode::CREATED {
                reply = Some(issued);
                break;
            }
        }
        is_refused(&reply.expect("the disk is full"));
        if server.is_some() {
            // Connections that are open go on. Before it takes a new one the server writes what it knows of its catalogue, and has no room.
            forget_catalogue(&folder.join("tables"));
            fill(&folder);
            let lazy = Database::open_replica(&location).expect("a location");
            let error = lazy.fetch("SELECT 1", &[]).await.expect_err("no room");
            assert_eq!((error.code().id(), error.is_retryable()), ("store.disk", true), "{error}");
            lazy.close().await;
        }

        std::fs::remove_file(filler).expect("room");
        if server.is_some() {
            // The next connection writes the file of the catalogue again.
            let next = Database::open_replica(&location).expect("a location");
            next.fetch("SELECT 1", &[]).await.expect("connections are taken again");
            next.close().await;
        }
        write(&shelf, 1).await.expect("writing goes on");
        let word = ["zebra", "quartz", "fjord"][round as usize];
        let id = u64::from(10 + round);
        shelf.put(&Stock::good(id, word)).await;
        assert_eq!(shelf.ids(&format!("/api/v2/tools/search?query={word}")).await, [id], "search goes on");
        assert!(queue.request(shelf.key(1), shelf.clock.now()).await.expect("and so do requests"));
        assert_eq!(Ask::post("/api/v2/auth/keys", "").from("192.0.2.9").of(&shelf.router).await.status, StatusCode::CREATED);
    }
}

/// Checks that the full disk is the reason why a request was refused.
#[track_caller]
fn is_refused(reply: &Reply) {
    let said = (reply.status, reply.json()["code"].as_str().map(str::to_owned));
    assert_eq!(said, (StatusCode::SERVICE_UNAVAILABLE, Some("store.disk".to_owned())), "{}", reply.text());
    assert!(reply.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_makes_nobody_wait_and_old_answers_are_marked() {
    let Some(mut server) = Server::own() else { return };
    let shelf = Shelf::over(TestStore::on(&server).await, open(), toolcrib_index::Chains::default()).await;
    shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
    let (list, found) = ("/api/v2/tools?limit=5", "/api/v2/tools/search?query=weather&limit=5");
    for address in [path(1).as_str(), list, found] {
        assert_eq!(shelf.get(address).await.status, StatusCode::OK);
    }
    // Writes over HTTP work while the server is there.
    let issue = |from: &str| Ask::post("/api/v2/auth/keys", "").from(from).of(&shelf.router);
    assert_eq!(issue("192.0.2.1").await.status, StatusCode::CREATED);
    // Another version of everything, under which nothing was asked for.
    shelf.put(&Stock::good(1, "Weather tomorrow")).await;

    for round in 0..2 {
        server.stop();
        // The first one finds out.
        let begun = Instant::now();
        let reply = shelf.get(&path(20 + round)).await;
        assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
        is_unavailable(&reply);
        for _ in 0..10 {
            for address in [path(1).as_str(), list, found] {
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
        // What was not asked for before cannot be answered, and nothing can be written: at once, with a code.
        for ask in [
            Ask::get(&format!("/api/v2/tools/search?query=maps&limit={}", 6 + round)),
            Ask::post("/api/v2/auth/keys", "").from("192.0.2.2"),
            Ask::post(&format!("{}/verify", path(1)), "").from("192.0.2.3"),
        ] {
            let begun = Instant::now();
            let reply = ask.of(&shelf.router).await;
            assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
            is_unavailable(&reply);
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
        assert_eq!(shelf.ids(&format!("/api/v2/tools/search?query=maps&limit={}", 6 + round)).await, [2]);
        assert_eq!(issue(&format!("192.0.2.{}", 10 + round)).await.status, StatusCode::CREATED);
        let verify = Ask::post(&format!("{}/verify", path(1)), "").from("192.0.2.3").of(&shelf.router).await;
        assert_eq!(verify.status, StatusCode::ACCEPTED, "{}", verify.text());
        shelf.put(&Stock::good(1, "Weather")).await;
    }
}

/// Checks that a request was refused because the database is away.
#[track_caller]
fn is_unavailable(reply: &Reply) {
    let said = (reply.status, reply.json()["code"].as_str().map(str::to_owned));
    assert_eq!(said, (StatusCode::SERVICE_UNAVAILABLE, Some("directory.unavailable".to_owned())), "{}", reply.text());
    assert!(reply.headers.contains_key("retry-after"));
}
