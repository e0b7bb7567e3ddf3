//! Evidence and reports in an object store: a folder, a service by others, one that is away, and objects that are lost.

use std::path::{Path, PathBuf};

use toolcrib_core::clock::Clock as _;
use toolcrib_index::model::ToolKey;
use toolcrib_index::objects::{Collected, Direction, Placement};
use toolcrib_index::{Error, Index, export};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::{Policy, judge};
use toolcrib_store::database::Value;
use toolcrib_store::objects::{Objects, ObjectsLocation};

use super::{Stage, World};
use toolcrib_testkit::objects::{Service, objects_at};
use toolcrib_testkit::servers::NOW;

fn folder() -> (tempfile::TempDir, Objects) {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = Objects::open(&ObjectsLocation::folder(folder.path()), |_| None).expect("a store");
    (folder, objects)
}

/// All objects in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Bytes of evidence in rows of the database.
async fn in_rows(index: &Index) -> i64 {
    const SUM: &str = "SELECT CAST(COALESCE(SUM(length(bytes)), 0) AS BIGINT) FROM index_evidence";
    index.database().fetch_optional(SUM, &[]).await.expect("a sum").expect("a row").scalar::<i64>().expect("a number")
}

/// Makes all references older than the grace period.
async fn age(index: &Index) {
    index.database().execute("UPDATE index_object SET at = at - 1000000", &[]).await.expect("aged");
}

async fn read(stage: &Stage, key: ToolKey) -> (Evidence, serde_json::Value) {
    let evidence = stage.queue.evidence(key).await.expect("read").expect("kept");
    let report = stage.queue.report(key).await.expect("read").expect("kept");
    (serde_json::from_slice(&evidence).expect("evidence"), serde_json::from_str(&report).expect("a report"))
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_goes_into_objects_and_comes_back_the_same() {
    let world = World::start().await;
    let (id, server) = world.tool("good.example", |_| {}).await;
    for stage in world.stages().await {
        let (folder, objects) = folder();
        let stage = stage.with_objects(objects).await;
        let key = stage.key(id);
        stage.follow(&world, id).await;
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(in_rows(&stage.index).await, 36, "a reference, and no evidence");
        assert_eq!(files(folder.path()).len(), 1);
        let (evidence, report) = read(&stage, key).await;
        assert_eq!(report["verified"], true);
        assert!(judge(&evidence, &Policy::default(), evidence.gathered_at).verified);
        assert_eq!(stage.index.evidence_placement().await.expect("counts"), Placement { in_database: 0, in_objects: 1 });

        // The next verification has another object. The old one stays for the grace period, and goes then; what is referred to stays.
        stage.clock.advance(86_400);
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(files(folder.path()).len(), 2);
        assert_eq!(stage.index.collect_objects().await.expect("collected"), Collected::default());
        age(&stage.index).await;
        let collected = stage.index.collect_objects().await.expect("collected");
        assert_eq!(collected, Collected { deleted: 1, forgotten: 0 });
        assert_eq!(files(folder.path()).len(), 1);
        read(&stage, key).await;
        assert_eq!(stage.index.collect_objects().await.expect("collected"), Collected::default(), "the mark stays");
        stage.index.database().execute("UPDATE index_object SET condemned_at = 0 WHERE deleted", &[]).await.expect("aged");
        assert_eq!(stage.index.collect_objects().await.expect("collected"), Collected { deleted: 0, forgotten: 1 });

        // A process that was not told where objects are says so, and lists all the same.
        let other = toolcrib_index::work::Queue::new(Index::open(stage.index.database().clone()).await.expect("an index"));
        let error = other.evidence(key).await.expect_err("it is not there");
        assert_eq!((error.code().id(), error.is_retryable()), ("objects.not_configured", false));
        assert_eq!(stage.listed().await, [id]);
        let counts = stage.index.object_counts().expect("a store");
        assert_eq!((counts.written, counts.failed, counts.kept_in_database, counts.lost), (2, 0, 0, 0), "{counts:?}");
        stage.clock.advance(-86_400);
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_verified_evidence_stays_beside_that_of_a_failure() {
    let world = World::start().await;
    let (id, server) = world.tool("good.example", |_| {}).await;
    let mut stages = Vec::new();
    for stage in world.stages().await {
        let (folder, objects) = folder();
        let stage = stage.with_objects(objects).await;
        stage.follow(&world, id).await;
        assert_eq!(stage.work(&world).await.written, 1);
        stages.push((stage, folder));
    }
    drop(server);
    let _gone = world.net.honest("good.example", |_| toolcrib_testkit::servers::answer("404 Not Found", "", b"")).await;
    world.clock.advance(86_400);
    for (stage, folder) in stages {
        assert_eq!(stage.work(&world).await.written, 1);
        let key = stage.key(id);
        age(&stage.index).await;
        assert_eq!(stage.index.collect_objects().await.expect("collected").deleted, 0, "both are referred to");
        assert_eq!(files(folder.path()).len(), 2);
        let (evidence, report) = read(&stage, key).await;
        assert_eq!(report["failed"]["check"], 1);
        assert!(!judge(&evidence, &Policy::default(), evidence.gathered_at).verified);
        let verified = stage.queue.verified_evidence(key).await.expect("read").expect("kept");
        let verified: Evidence = serde_json::from_slice(&verified).expect("evidence");
        assert!(judge(&verified, &Policy::default(), verified.gathered_at).verified);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_lost_takes_no_listing_down_and_asks_for_a_verification() {
    let world = World::start().await;
    let (id, _server) = world.tool("good.example", |_| {}).await;
    for stage in world.stages().await {
        let (folder, objects) = folder();
        let stage = stage.with_objects(objects).await;
        let key = stage.key(id);
        stage.follow(&world, id).await;
        assert_eq!(stage.work(&world).await.written, 1);
        type Spoil = fn(&Path);
        let spoils: [(&str, Spoil); 4] = [
            ("objects.absent", |file| std::fs::remove_file(file).expect("removed")),
            ("objects.damaged", |file| std::fs::write(file, b"").expect("emptied")),
            ("objects.damaged", |file| {
                let bytes = std::fs::read(file).expect("bytes");
                std::fs::write(file, &bytes[..bytes.len() / 2]).expect("cut off");
            }),
            // It can be unpacked, and is something else.
            ("objects.damaged", |file| {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut encoder, b"{}\n{}\n").expect("packed");
                std::fs::write(file, encoder.finish().expect("packed")).expect("replaced");
            }),
        ];
        for (round, (code, spoil)) in spoils.into_iter().enumerate() {
            assert_eq!(stage.index.queue_state(stage.clock.now()).await.expect("a state").due, 0);
            for file in files(folder.path()) {
                spoil(&file);
            }
            let error = stage.queue.evidence(key).await.expect_err(code);
            assert_eq!(error.code().id(), code, "{error}");
            assert_eq!(stage.queue.report(key).await.expect_err(code).code().id(), code);
            assert_eq!(stage.listed().await, [id], "the listing goes on");
            const REASON: &str = "SELECT reason FROM index_job";
            let job = stage.index.database().fetch_optional(REASON, &[]).await.expect("read").expect("a job");
            assert_eq!(job.scalar::<&str>().expect("a word"), "requested", "{code}: a new verification was asked for");
            // By the database's clock, which is another one than that of this test. A server is asked again after a pause.
            stage.clock.advance(60);
            stage.index.database().execute("UPDATE index_job SET due_at = $1", &[Value::Integer(0)]).await.expect("due");
            assert_eq!(stage.work(&world).await.written, 1, "{code}");
            read(&stage, key).await;
            assert_eq!(stage.index.object_counts().expect("a store").lost, 2 * (round as u64 + 1));
        }
        stage.clock.advance(-240);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_evidence_goes_into_the_database_and_moves_later() {
    let world = World::start().await;
    let (id, _server) = world.tool("good.example", |_| {}).await;
    for stage in world.stages().await {
        let plain = stage.index.clone();
        let stage = stage.with_objects(objects_at(1, "away")).await;
        let key = stage.key(id);
        stage.follow(&world, id).await;
        assert_eq!(stage.work(&world).await.written, 1, "verification does not depend on the object store");
        let counts = stage.index.object_counts().expect("a store");
        assert_eq!((counts.written, counts.failed, counts.kept_in_database), (0, 1, 1), "{counts:?}");
        let (before, report) = read(&stage, key).await;
        assert_eq!(stage.index.evidence_placement().await.expect("counts"), Placement { in_database: 1, in_objects: 0 });

        // It is there again.
        let (folder, objects) = folder();
        let stage = stage.with_objects(objects).await;
        let moved = stage.index.transfer_evidence(Direction::ToObjects, None, 100).await.expect("moved");
        assert_eq!(moved, (1, None));
        assert_eq!((in_rows(&stage.index).await, files(folder.path()).len()), (36, 1));
        assert_eq!(read(&stage, key).await, (before.clone(), report.clone()));
        assert_eq!(stage.index.transfer_evidence(Direction::ToObjects, None, 100).await.expect("moved"), (0, None));

        // An export has everything itself, and so has what it is imported into.
        let mut text = Vec::new();
        export::export(&stage.index, &mut text, NOW).await.expect("exported");
        assert!(matches!(export::export(&plain, &mut Vec::new(), NOW).await, Err(Error::ObjectsUnset)));
        let copy = toolcrib_store::Database::open(&toolcrib_store::Location::memory()).await.expect("a database");
        let copy = Index::open(copy).await.expect("an index");
        export::import(&copy, &mut text.as_slice(), NOW).await.expect("imported");
        let queue = toolcrib_index::work::Queue::new(copy.clone());
        let evidence = queue.evidence(key).await.expect("read").expect("kept");
        assert_eq!(serde_json::from_slice::<Evidence>(&evidence).expect("evidence"), before);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&queue.report(key).await.expect("read").expect("kept")).expect("JSON"),
            report
        );
        assert_ne!(copy.identity().await.expect("one"), plain.identity().await.expect("one"), "it is another database");

        // And back.
        let moved = stage.index.transfer_evidence(Direction::ToDatabase, None, 100).await.expect("moved");
        assert_eq!(moved, (1, None));
        assert_eq!(toolcrib_index::work::Queue::new(plain).evidence(key).await.expect("read"), Some(evidence));
        assert_eq!(read(&stage, key).await, (before, report));
        age(&stage.index).await;
        assert_eq!(stage.index.collect_objects().await.expect("collected").deleted, 1);
        assert!(files(folder.path()).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_others_keeps_evidence() {
    let world = World::start().await;
    let (id, _server) = world.tool("good.example", |_| {}).await;
    for service in [Service::moto(), Service::s3rver()].into_iter().flatten() {
        for stage in world.stages().await {
            let stage = stage.with_objects(service.objects("evidence")).await;
            stage.follow(&world, id).await;
            assert_eq!(stage.work(&world).await.written, 1);
            assert_eq!(in_rows(&stage.index).await, 36);
            assert_eq!(read(&stage, stage.key(id)).await.1["verified"], true);
            assert_eq!(stage.index.transfer_evidence(Direction::ToDatabase, None, 100).await.expect("moved"), (1, None));
            age(&stage.index).await;
            assert_eq!(stage.index.collect_objects().await.expect("collected").deleted, 1);
        }
    }
}
