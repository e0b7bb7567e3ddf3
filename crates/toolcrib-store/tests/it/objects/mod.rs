//! Object stores: a folder, two services by other authors, and servers that misbehave.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};
use toolcrib_store::objects::{Objects, ObjectsLocation, hash_of};

use toolcrib_testkit::objects::{self, BUCKET, KEY, SECRET, Scripted, Service, open};

fn folder() -> (tempfile::TempDir, Objects) {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::open(&ObjectsLocation::folder(folder.path().join("objects")), |_| None).unwrap();
    (folder, objects)
}

/// More than two parts, and no two of them alike.
fn large() -> Vec<u8> {
    (0_u32..5_000_000).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

async fn keys(objects: &Objects, prefix: &str) -> BTreeSet<String> {
    objects.list(prefix).map_ok(|entry| entry.key).try_collect().await.unwrap()
}

/// What every store does.
async fn behaves(objects: &Objects) {
    assert_eq!(objects.get("a/b", 100).await.unwrap(), None);
    assert_eq!(objects.size("a/b").await.unwrap(), None);
    objects.delete("a/b").await.unwrap();
    objects.put("a/b", "first").await.unwrap();
    objects.put("a/b", "second").await.unwrap();
    objects.put("a/c/d", Vec::new()).await.unwrap();
    objects.put("other", "x").await.unwrap();
    assert_eq!(objects.get("a/b", 6).await.unwrap().unwrap(), "second");
    assert_eq!(objects.get("a/c/d", 0).await.unwrap().unwrap(), "");
    assert_eq!(objects.size("a/b").await.unwrap(), Some(6));
    let error = objects.get("a/b", 5).await.unwrap_err();
    assert_eq!(error.code().id(), "objects.damaged", "{error}");
    assert_eq!(keys(objects, "a").await, ["a/b", "a/c/d"].map(str::to_owned).into());
    // A store below sees its own objects under their short names.
    let below = objects.below("a");
    assert_eq!(keys(&below, "").await, ["b", "c/d"].map(str::to_owned).into());
    assert_eq!(below.get("b", 100).await.unwrap().unwrap(), "second");
    let entry = objects.list("a/b").try_collect::<Vec<_>>().await.unwrap();
    assert!(entry.iter().all(|entry| entry.size == 6 && entry.modified > 1_700_000_000), "{entry:?}");

    let (work, bytes) = (tempfile::tempdir().unwrap(), large());
    let (source, target) = (work.path().join("source"), work.path().join("target"));
    std::fs::write(&source, &bytes).unwrap();
    objects.upload("large", &source).await.unwrap();
    let (size, hash) = (bytes.len() as u64, hash_of(&bytes));
    assert_eq!(objects.size("large").await.unwrap(), Some(size));
    objects.download("large", size, &hash, &target).await.unwrap();
    assert!(std::fs::read(&target).unwrap() == bytes);
    for (size, hash) in [(size - 1, hash), (size, [7; 32])] {
        let error = objects.download("large", size, &hash, &work.path().join(format!("{size}-{}", hash[0]))).await.unwrap_err();
        assert_eq!(error.code().id(), "objects.damaged", "{error}");
    }
    let error = objects.download("none", 1, &hash, &work.path().join("none")).await.unwrap_err();
    assert_eq!(error.code().id(), "objects.absent", "{error}");

    for key in ["a/b", "a/c/d", "other", "large"] {
        objects.delete(key).await.unwrap();
    }
    assert!(keys(objects, "").await.is_empty());
}

/// How writers that read the same version replace it.
#[derive(Clone, Copy)]
enum Writers {
    Together,
    /// moto checks a condition and writes in two steps without a lock, so that two writers at once can both succeed.
    OneByOne,
}

/// Of several writers that read the same version and replace it, one succeeds.
async fn compares(objects: &Objects, writers: Writers) {
    assert!(objects.replace("pointer", None, "1").await.unwrap());
    assert!(!objects.replace("pointer", None, "2").await.unwrap(), "there is one");
    let (bytes, version) = objects.read("pointer", 100).await.unwrap().unwrap();
    assert_eq!(bytes, "1");
    let at_once = match writers {
        Writers::Together => 8,
        Writers::OneByOne => 1,
    };
    let all = (0..8).map(|number| objects.replace("pointer", Some(&version), format!("from {number}")));
    let done: Vec<bool> = futures_util::stream::iter(all).buffered(at_once).map(Result::unwrap).collect().await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    let winner = done.iter().position(|done| *done).unwrap();
    let (bytes, next) = objects.read("pointer", 100).await.unwrap().unwrap();
    assert_eq!(bytes, format!("from {winner}"));
    assert!(next != version);
    assert!(!objects.replace("pointer", Some(&version), "late").await.unwrap());
    objects.delete("pointer").await.unwrap();
    assert!(!objects.replace("pointer", Some(&next), "gone").await.unwrap(), "what was read is no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder() {
    let (_folder, objects) = folder();
    behaves(&objects).await;
    compares(&objects, Writers::Together).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_conditions() {
    let Some(service) = Service::moto() else { return };
    behaves(&service.objects("some/prefix")).await;
    compares(&service.objects("other"), Writers::OneByOne).await;
    // Without a prefix everything of the bucket is ours.
    behaves(&service.objects("")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_checks_signatures() {
    let Some((service, key, secret)) = Service::moto_with_account() else { return };
    let setting = format!("s3://{BUCKET}/x?endpoint=http://127.0.0.1:{}", service.port);
    let objects = open(&setting, &key, &secret).unwrap();
    behaves(&objects).await;
    compares(&objects, Writers::OneByOne).await;
    let wrong = open(&setting, &key, "wrong-and-secret").unwrap();
    for error in [wrong.put("a", "b").await.unwrap_err(), wrong.get("large", 100).await.unwrap_err()] {
        assert_eq!(error.code().id(), "objects.refused", "{error}");
        assert!(!format!("{error} {error:?}").contains("wrong-and-secret"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_implementation() {
    let Some(service) = Service::s3rver() else { return };
    let objects = service.objects("some/prefix");
    objects.put("a/b", "first").await.unwrap();
    assert_eq!(objects.get("a/b", 100).await.unwrap().unwrap(), "first");
    assert_eq!(objects.get("a/c", 100).await.unwrap(), None);
    let (work, bytes) = (tempfile::tempdir().unwrap(), large());
    let (source, target) = (work.path().join("source"), work.path().join("target"));
    std::fs::write(&source, &bytes).unwrap();
    objects.upload("large", &source).await.unwrap();
    objects.download("large", bytes.len() as u64, &hash_of(&bytes), &target).await.unwrap();
    assert_eq!(keys(&objects, "").await, ["a/b", "large"].map(str::to_owned).into());
    objects.delete("a/b").await.unwrap();
    assert_eq!(objects.get("a/b", 100).await.unwrap(), None);

    let setting = format!("s3://{BUCKET}/x?endpoint=http://127.0.0.1:{}", service.port);
    let wrong = open(&setting, "NOBODY", SECRET).unwrap();
    for error in [wrong.put("a", "b").await.unwrap_err(), wrong.get("large", 100).await.unwrap_err()] {
        assert_eq!(error.code().id(), "objects.refused", "{error}");
    }
    let missing = open(&setting.replace(BUCKET, "no-such-bucket"), KEY, SECRET).unwrap();
    for error in [missing.put("a", "b").await.unwrap_err(), missing.get("a", 100).await.unwrap_err()] {
        assert_eq!(error.code().id(), "objects.refused", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_away_or_fails_says_so_in_time() {
    let begun = Instant::now();
    let away = objects::objects_at(1, "prefix");
    assert_eq!(away.put("a", "b").await.unwrap_err().code().id(), "objects.unavailable");
    assert_eq!(away.get("a", 100).await.unwrap_err().code().id(), "objects.unavailable");
    let failing = Scripted::answering("500 Internal Server Error", 0, b"");
    let error = failing.objects().get("a", 100).await.unwrap_err();
    assert!(error.code().id() == "objects.unavailable" && error.is_retryable(), "{error}");
    assert!(failing.requests() > 1, "a server's fault is tried again");
    assert!(!format!("{error:?}").contains("Signature"), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_end_early_or_do_not_end_are_no_objects() {
    let cut = Scripted::answering("200 OK", 1_000, b"half");
    let error = cut.objects().get("a", 2_000).await.unwrap_err();
    assert!(error.is_retryable() || error.is_lost(), "{error}");
    let long = Scripted::answering("200 OK", 1_000_000_000, b"x");
    assert_eq!(long.objects().get("a", 2_000).await.unwrap_err().code().id(), "objects.damaged");
    let other = Scripted::answering("200 OK", 5, b"other");
    let folder = tempfile::tempdir().unwrap();
    let error = other.objects().download("a", 5, &hash_of(b"right"), &folder.path().join("a")).await.unwrap_err();
    assert_eq!(error.code().id(), "objects.damaged", "{error}");
    let moved = Scripted::start(Some(
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_vec(),
    ));
    assert_eq!(moved.objects().get("a", 100).await.unwrap_err().code().id(), "objects.unavailable");
}

#[test]
fn plain_http_is_for_this_machine() {
    let at = |endpoint: &str| open(&format!("s3://{BUCKET}?endpoint={endpoint}"), KEY, SECRET);
    assert!(at("http://127.0.0.1:9000").is_ok() && at("https://minio.example").is_ok());
    for endpoint in ["http://minio.example", "ftp://minio.example", "nonsense", "https://a:hidden@minio.example"] {
        let error = at(endpoint).unwrap_err();
        assert_eq!(error.code().id(), "objects.location", "{endpoint}");
        assert!(!error.to_string().contains("hidden"));
    }
    let location = ObjectsLocation::parse("s3://bucket-x?endpoint=http://minio.example").unwrap();
    let variable = |name: &str| (name == "AWS_ALLOW_HTTP").then(|| "true".to_owned());
    assert!(Objects::open(&location, variable).is_ok());
    let location = ObjectsLocation::parse("s3://bucket-x").unwrap();
    let variable = |name: &str| (name == "AWS_CA_BUNDLE").then(|| "/no/such/file".to_owned());
    assert_eq!(Objects::open(&location, variable).unwrap_err().code().id(), "objects.location");
}

#[tokio::test]
async fn uploads_that_were_cut_off_are_swept_from_a_folder() {
    let (folder, objects) = folder();
    objects.put("a/b", "kept").await.unwrap();
    let left = folder.path().join("objects/a/b#1");
    std::fs::write(&left, "half").unwrap();
    assert_eq!(keys(&objects, "").await, ["a/b".to_owned()].into(), "it is no object");
    assert_eq!(objects.sweep(Duration::from_secs(3_600)).await.unwrap(), 0, "it may be under way");
    assert_eq!(objects.sweep(Duration::ZERO).await.unwrap(), 1);
    assert!(!left.exists());
    assert_eq!(objects.get("a/b", 100).await.unwrap().unwrap(), "kept");
}
