//! Search snapshots: a new node begins with one, and builds search from the database when none is usable.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use serde_json::{Value as Json, json};
use toolcrib_index::model::RegistryId;
use toolcrib_index::search::{PublishOptions, Published, Publisher, Search, SearchOptions, SearchQuery, SearchStart, Snapshots};
use toolcrib_index::{Error, Index};
use toolcrib_store::database::Value;
use toolcrib_store::objects::{Objects, ObjectsLocation};
use toolcrib_store::{Database, Location};

use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::objects::Service;
use toolcrib_testkit::samples::{Sample, put};

/// Publishes on every change, and deletes files of old snapshots at once.
const AT_ONCE: PublishOptions = PublishOptions { every_seconds: 0, changes: 1, soonest_seconds: 0, grace_seconds: 0 };

async fn index_in(place: &TestStore) -> (Index, RegistryId) {
    let index = Index::open(place.database().await).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    (index, registry)
}

fn store(folder: &Path) -> Objects {
    Objects::open(&ObjectsLocation::folder(folder), |_| None).expect("a store")
}

async fn search_in(index: &Index, folder: Option<&Path>, objects: Option<&Objects>) -> Search {
    let snapshots = objects.cloned().map(Snapshots::new);
    let options = SearchOptions { folder: folder.map(Path::to_owned), snapshots, ..SearchOptions::default() };
    Search::open(index.clone(), options).await.expect("search")
}

fn publisher(search: &Search, objects: &Objects) -> Publisher {
    Publisher::new(search.clone(), Snapshots::new(objects.clone()), AT_ONCE)
}

fn found(search: &Search, text: &str) -> Vec<u64> {
    let query = SearchQuery { text: Some(text.to_owned()), limit: 20, ..SearchQuery::default() };
    search.run(&query).expect("a page").hits.iter().map(|hit| hit.key.id.to::<u64>()).collect()
}

fn some() -> Vec<Sample> {
    vec![
        Sample::new(1, "harbour-tides", "When the water rises at a harbour."),
        Sample::new(2, "weather", "A forecast for a city."),
        Sample { is_verified: false, ..Sample::new(3, "weather pro", "Promises the best forecast.") },
    ]
}

/// An index with tools, and a snapshot of it in a folder.
struct Scene {
    index: Index,
    registry: RegistryId,
    search: Search,
    objects: Objects,
    store: tempfile::TempDir,
    _search: tempfile::TempDir,
    _place: TestStore,
}

impl Scene {
    async fn of(backend: Backend) -> Option<Self> {
        let place = TestStore::new(backend).await?;
        let (index, registry) = index_in(&place).await;
        put(&index, registry, &some()).await;
        let (store_folder, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let objects = store(store_folder.path());
        let search = search_in(&index, Some(folder.path()), Some(&objects)).await;
        assert_eq!(search.start(), SearchStart::Database, "there is no snapshot yet");
        search.catch_up().await.expect("caught up");
        let scene = Self { index, registry, search, objects, store: store_folder, _search: folder, _place: place };
        let published = scene.publish().await;
        assert!(
            matches!(published, Published::Done { cursor: 3, uploaded, bytes } if uploaded == bytes && bytes > 0),
            "{published:?}"
        );
        Some(scene)
    }

    async fn publish(&self) -> Published {
        publisher(&self.search, &self.objects).step().await.expect("a step")
    }

    /// The folder of the snapshots of this database in this format.
    fn folder(&self) -> PathBuf {
        let latest = files(self.store.path()).into_iter().find(|path| path.ends_with("latest.json"));
        latest.expect("a snapshot").parent().expect("a folder").to_owned()
    }

    fn manifest(&self) -> Json {
        serde_json::from_slice(&std::fs::read(self.folder().join("latest.json")).expect("bytes")).expect("JSON")
    }

    fn write_manifest(&self, manifest: &Json) {
        std::fs::write(self.folder().join("latest.json"), manifest.to_string()).expect("written");
    }

    /// A new node on this database: checks its initial content, and that it works.
    async fn node(&self) -> SearchStart {
        let search = search_in(&self.index, None, Some(&self.objects)).await;
        let start = search.start();
        assert_eq!(search.is_ready(), start == SearchStart::Snapshot);
        search.catch_up().await.expect("caught up");
        assert_eq!(found(&search, "weather forecast"), [2]);
        start
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_node_begins_with_a_snapshot_and_goes_on_in_the_feed() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(scene) = Scene::of(backend).await else { continue };
        put(&scene.index, scene.registry, &[Sample::new(4, "moon", "Phases of the moon.")]).await;
        let folder = tempfile::tempdir().expect("a folder");
        for folder in [None, Some(folder.path())] {
            let node = search_in(&scene.index, folder, Some(&scene.objects)).await;
            assert_eq!((node.start(), node.cursor(), node.is_ready()), (SearchStart::Snapshot, 3, true));
            assert_eq!(found(&node, "harbour"), [1], "without reading a tool of the database");
            assert!(found(&node, "moon").is_empty());
            assert_eq!(node.catch_up().await.expect("caught up"), 1, "only what came after the snapshot");
            assert_eq!(found(&node, "moon"), [4]);
        }
        // The folder belongs to the node now, and nothing else is left in it.
        let node = search_in(&scene.index, Some(folder.path()), Some(&scene.objects)).await;
        assert_eq!((node.start(), node.cursor()), (SearchStart::Folder, 4));
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
        names.sort();
        assert_eq!(names, ["unverified", "verified"]);
        // After many changes and merges the engine has deleted files that it no longer needs: files of the snapshot, too.
        for round in 0..12 {
            put(&scene.index, scene.registry, &[Sample::new(100 + round, "sun", "Where the sun is.")]).await;
            node.catch_up().await.expect("caught up");
        }
        assert_eq!(found(&node, "sun").len(), 12);
        assert_eq!(found(&node, "harbour"), [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_new_is_uploaded_and_what_is_old_goes() {
    let scene = Scene::of(Backend::SqliteFile).await.expect("SQLite is always there");
    assert_eq!(scene.publish().await, Published::NotDue, "nothing changed");
    let first = files(&scene.folder()).len();
    put(&scene.index, scene.registry, &[Sample::new(4, "moon", "Phases of the moon.")]).await;
    scene.search.catch_up().await.expect("caught up");
    let Published::Done { cursor, bytes, uploaded } = scene.publish().await else { panic!("a snapshot") };
    assert!(cursor == 4 && uploaded < bytes, "{uploaded} of {bytes}");
    // Without a grace period, files that the new one does not have are deleted; all of its own exist.
    let manifest = scene.manifest();
    let named = manifest["files"].as_array().expect("files").len();
    let kept = files(&scene.folder().join("files")).len();
    assert!(kept <= named && kept + 1 < first + named, "{kept} files of {named} in the manifest, {first} before");
    assert_eq!(scene.node().await, SearchStart::Snapshot);
    // Limits: too few changes, and too soon.
    put(&scene.index, scene.registry, &[Sample::new(5, "stars", "Where stars are.")]).await;
    scene.search.catch_up().await.expect("caught up");
    let step = async |options: PublishOptions| {
        Publisher::new(scene.search.clone(), Snapshots::new(scene.objects.clone()), options).step().await.expect("a step")
    };
    let hour = PublishOptions { every_seconds: 3_600, changes: 2, soonest_seconds: 0, grace_seconds: 3_600 };
    assert_eq!(step(hour).await, Published::NotDue);
    assert_eq!(step(PublishOptions { changes: 1, soonest_seconds: 3_600, ..hour }).await, Published::NotDue);
    assert!(matches!(step(PublishOptions { changes: 1, ..hour }).await, Published::Done { cursor: 5, .. }));
    // During the grace period files of the previous one stay.
    assert!(!scene.manifest()["retired"].as_array().expect("a list").is_empty());
}

// Every way in which a snapshot may not fit: it is not used, and search works.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_does_not_fit_is_not_used() {
    let scene = Scene::of(Backend::SqliteFile).await.expect("SQLite is always there");
    assert_eq!(scene.node().await, SearchStart::Snapshot);
    let good = scene.manifest();
    let changed = |pointer: &str, value: Json| {
        let mut manifest = good.clone();
        *manifest.pointer_mut(pointer).expect(pointer) = value;
        manifest
    };
    let duplicate = good["files"].as_array().expect("files").iter().cycle().take(9_000).cloned().collect::<Vec<_>>();
    for (why, manifest) in [
        ("another version", changed("/version", json!(2))),
        ("another format", changed("/format", json!("1"))),
        ("another schema", changed("/schema", json!("0".repeat(64)))),
        ("another database", changed("/identity", json!("00"))),
        ("a cursor beyond the end", changed("/cursor", json!(1_000))),
        ("a negative cursor", changed("/cursor", json!(-1))),
        ("another change at its cursor", changed("/change", json!("0".repeat(64)))),
        ("a change that it does not name", changed("/change", Json::Null)),
        ("a path", changed("/files/0/name", json!("../../../../etc/passwd"))),
        ("a name that the engine does not write", changed("/files/0/name", json!("holiday.jpg"))),
        ("the file of managed files", changed("/files/0/name", json!(".managed.json"))),
        ("another part", changed("/files/0/part", json!("../verified"))),
        ("another hash", changed("/files/0/sha256", json!("0".repeat(64)))),
        ("a key in place of a hash", changed("/files/0/sha256", json!("../latest.json"))),
        ("another size", changed("/files/0/size", json!(1))),
        ("more bytes than are fetched", changed("/files/0/size", json!(u64::MAX))),
        ("more files than are fetched", changed("/files", json!(duplicate))),
        ("a file twice", changed("/files/1", good["files"][0].clone())),
        ("no files", changed("/files", json!([]))),
        ("no object", json!([])),
    ] {
        scene.write_manifest(&manifest);
        assert_eq!(scene.node().await, SearchStart::Database, "{why}");
    }
    std::fs::write(scene.folder().join("latest.json"), vec![b' '; 5 << 20]).expect("written");
    assert_eq!(scene.node().await, SearchStart::Database, "a manifest that is too large");
    scene.write_manifest(&good);
    assert_eq!(scene.node().await, SearchStart::Snapshot, "nothing else was wrong with it");

    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 3] = [
        ("missing", |file| std::fs::remove_file(file).expect("removed")),
        ("cut off", |file| std::fs::write(file, b"{").expect("cut off")),
        ("other bytes", |file| {
            let mut bytes = std::fs::read(file).expect("bytes");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(file, bytes).expect("written");
        }),
    ];
    for (why, spoil) in spoils {
        for file in files(&scene.folder().join("files")) {
            let bytes = std::fs::read(&file).expect("bytes");
            spoil(&file);
            assert_eq!(scene.node().await, SearchStart::Database, "{why}: {}", file.display());
            std::fs::write(&file, bytes).expect("written");
        }
    }
    assert_eq!(scene.node().await, SearchStart::Snapshot);

    // The next snapshot replaces an unusable one, whatever it is.
    scene.write_manifest(&json!("nonsense"));
    assert!(matches!(scene.publish().await, Published::Done { cursor: 3, .. }));
    assert_eq!(scene.node().await, SearchStart::Snapshot);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_older_than_the_feed_or_of_another_database_is_not_used() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(scene) = Scene::of(backend).await else { continue };
        for id in 4..7 {
            put(&scene.index, scene.registry, &[Sample::new(id, "moon", "Phases of the moon.")]).await;
            scene.index.last_change().await.expect("a number");
        }
        assert_eq!(scene.node().await, SearchStart::Snapshot);
        scene.index.database().execute("DELETE FROM index_change WHERE seq <= 5", &[]).await.expect("forgotten");
        assert_eq!(scene.node().await, SearchStart::Database, "its changes are forgotten");
        scene.search.catch_up().await.expect("caught up");
        assert!(matches!(scene.publish().await, Published::Done { cursor: 6, .. }));
        assert_eq!(scene.node().await, SearchStart::Snapshot);

        // A database that was restored from a backup assigned the number to another change.
        scene.index.database().execute("UPDATE index_change SET at = at + 1", &[]).await.expect("another past");
        assert_eq!(scene.node().await, SearchStart::Database);
        // Another database has another location, and sees none of it.
        scene
            .index
            .database()
            .execute("UPDATE index_identity SET identity = $1", &[Value::Bytes(&[7; 16])])
            .await
            .expect("another");
        assert_eq!(scene.node().await, SearchStart::Database);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_publishers_one_publishes() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(scene) = Scene::of(backend).await else { continue };
        for round in 4..8 {
            put(&scene.index, scene.registry, &[Sample::new(round, "moon", "Phases of the moon.")]).await;
            scene.search.catch_up().await.expect("caught up");
            let mut publishers: Vec<_> = (0..6).map(|_| publisher(&scene.search, &scene.objects)).collect();
            let steps = futures_util::future::join_all(publishers.iter_mut().map(Publisher::step)).await;
            let steps: Vec<_> = steps.into_iter().map(|step| step.expect("a step")).collect();
            let done = steps.iter().filter(|step| matches!(step, Published::Done { .. })).count();
            assert_eq!(done, 1, "{steps:?}");
            assert_eq!(scene.manifest()["cursor"], round);
            assert_eq!(scene.node().await, SearchStart::Snapshot);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_others_carry_snapshots() {
    for service in [Service::moto(), Service::s3rver()].into_iter().flatten() {
        let place = TestStore::new(Backend::SqliteMemory).await.expect("a place");
        let (index, registry) = index_in(&place).await;
        put(&index, registry, &some()).await;
        let objects = service.objects("snapshots/of this".replace(' ', "-").as_str());
        let search = search_in(&index, None, Some(&objects)).await;
        search.catch_up().await.expect("caught up");
        assert!(matches!(publisher(&search, &objects).step().await.expect("a step"), Published::Done { cursor: 3, .. }));
        put(&index, registry, &[Sample::new(4, "moon", "Phases of the moon.")]).await;
        search.catch_up().await.expect("caught up");
        assert!(matches!(publisher(&search, &objects).step().await.expect("a step"), Published::Done { cursor: 4, .. }));
        let node = search_in(&index, None, Some(&objects)).await;
        assert_eq!((node.start(), node.cursor()), (SearchStart::Snapshot, 4));
        assert_eq!(found(&node, "moon"), [4]);
        drop(service);
        // The service is unavailable: search is built from the database, and publishing fails with an error.
        let node = search_in(&index, None, Some(&objects)).await;
        assert_eq!(node.start(), SearchStart::Database);
        node.catch_up().await.expect("caught up");
        assert_eq!(found(&node, "moon"), [4]);
        let error = publisher(&search, &objects).step().await.expect_err("it is gone");
        assert_eq!(error.code().id(), "objects.unavailable", "{error}");
    }
}

const TASK: &str = "TOOLCRIB_SNAPSHOT_PUBLISHER";

/// Publishes snapshots continuously, each with all files new, until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (database, folder) = task.split_once('\n').expect("two parts");
    let index = Index::open(Database::open(&Location::file(database)).await.expect("a database")).await.expect("an index");
    let registry = index.registries().await.expect("registries")[0].id;
    let objects = store(Path::new(folder));
    for round in 0.. {
        put(&index, registry, &[Sample::new(10 + round % 50, "moon", "Phases of the moon.")]).await;
        let search = search_in(&index, None, None).await;
        search.catch_up().await.expect("caught up");
        // The lease of a killed process must expire.
        index.database().execute("UPDATE index_lease SET until = 0", &[]).await.expect("ended");
        publisher(&search, &objects).step().await.expect("a step");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_is_killed_leaves_a_snapshot_that_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = TestStore::at(&folder.path().join("store.db"));
    let (index, registry) = index_in(&place).await;
    put(&index, registry, &some()).await;
    let (store_folder, mut cursors) = (folder.path().join("objects"), Vec::new());
    let objects = store(&store_folder);
    let task = format!("{}\n{}", folder.path().join("store.db").display(), store_folder.display());
    for round in 0..10_u64 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "snapshots::child", "--nocapture", "--test-threads=1"])
            .env(TASK, &task)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        // At any moment after the first snapshot was there.
        let begun = Instant::now();
        while files(&store_folder).iter().all(|path| !path.ends_with("latest.json")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it publishes nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(300 + round * 37 % 200)).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        let node = search_in(&index, None, Some(&objects)).await;
        assert_eq!(node.start(), SearchStart::Snapshot, "round {round}");
        cursors.push(node.cursor());
        node.catch_up().await.expect("caught up");
        assert_eq!(found(&node, "harbour"), [1]);
    }
    assert!(cursors.is_sorted() && cursors[9] > cursors[0], "snapshots are published between kills: {cursors:?}");
}

const SMALL_FOLDER: &str = "TOOLCRIB_SMALL_OBJECTS";

/// Mounts a disk of 4 MB that only this process and its children see, and runs the test below on it.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=4m tmpfs "$1" || exit 77
exec "$2" --exact snapshots::on_a_small_disk --nocapture --test-threads=1
"#;

#[test]
fn a_full_object_store_leaves_the_last_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    // A user who is not root becomes root of a namespace, where that is allowed.
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--user", "--map-root-user"]).args(["sh", "-c", SMALL_DISK, "disk"]).arg(folder.path());
    unshare.arg(std::env::current_exe().expect("this program")).env(SMALL_FOLDER, folder.path());
    let output = match unshare.stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(77) => output,
        _ => return toolcrib_testkit::skip("namespaces", "no disk can be mounted for one process"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_small_disk() {
    let Some(folder) = std::env::var_os(SMALL_FOLDER).map(PathBuf::from) else { return };
    let place = TestStore::new(Backend::SqliteMemory).await.expect("a place");
    let (index, registry) = index_in(&place).await;
    put(&index, registry, &some()).await;
    let objects = store(&folder.join("objects"));
    let search = search_in(&index, None, Some(&objects)).await;
    search.catch_up().await.expect("caught up");
    assert!(matches!(publisher(&search, &objects).step().await.expect("a step"), Published::Done { cursor: 3, .. }));
    let filler = folder.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    for size in [1 << 16, 1 << 12, 1] {
        while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
    }
    put(&index, registry, &[Sample::new(4, "moon", "Phases of the moon.")]).await;
    search.catch_up().await.expect("caught up");
    let error = publisher(&search, &objects).step().await.expect_err("the disk is full");
    assert_eq!(error.code().id(), "objects.full", "{error}");
    assert!(matches!(&error, Error::Objects(_)) && error.is_retryable());
    let node = search_in(&index, None, Some(&objects)).await;
    assert_eq!((node.start(), node.cursor()), (SearchStart::Snapshot, 3), "the one before");
    drop(file);
    std::fs::remove_file(filler).expect("room");
    assert!(matches!(publisher(&search, &objects).step().await.expect("a step"), Published::Done { cursor: 4, .. }));
}
