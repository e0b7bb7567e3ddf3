//! Publishes snapshots: one process of a database at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use toolcrib_store::objects::name_of;

use super::manifest::{File, LATEST, Manifest, Retired, key_of};
use super::{SnapshotLocation, Snapshots};
use crate::Error;
use crate::lease::NamedLease;
use crate::search::Search;
use crate::search::engine::{UNVERIFIED, VERIFIED, blocking};
use crate::search::files::{META, names_in};

/// The name of its lease.
const LEASE: &str = "search-snapshot";

/// The duration of the lease, which is renewed with each file: the slowest upload of one file.
const LEASE_SECONDS: i64 = 600;

/// Time between two checks for something to publish.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Seconds for which files are kept that the newest snapshot does not have, for readers of the previous one; and files in no manifest, for
/// a publisher that is uploading them.
const GRACE_SECONDS: i64 = 3_600;

/// Seconds after which snapshots of other formats are deleted: an upgrade that is rolled back is over by then.
const OTHER_FORMATS_SECONDS: i64 = 7 * 24 * 3_600;

/// Options of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishOptions {
    /// A snapshot with new changes is published this number of seconds after the last one.
    pub every_seconds: i64,
    /// After this number of changes one is published earlier.
    pub changes: i64,
    /// But not earlier than this number of seconds after the last one.
    pub soonest_seconds: i64,
    /// Seconds for which files are kept that the newest snapshot does not have.
    pub grace_seconds: i64,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { every_seconds: 900, changes: 50_000, soonest_seconds: 60, grace_seconds: GRACE_SECONDS }
    }
}

/// The result of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Search is not filled yet.
    NotReady,
    /// The newest snapshot is recent enough.
    NotDue,
    /// Another process is publishing.
    Busy,
    /// Another process published meanwhile. Its snapshot is kept.
    Overtaken,
    /// A snapshot was published.
    Done {
        /// The last change that it includes.
        cursor: i64,
        /// Its size in bytes.
        bytes: u64,
        /// The number of uploaded bytes; the other files existed.
        uploaded: u64,
    },
}

/// Publishes snapshots of a search index.
#[derive(Debug)]
pub struct Publisher {
    search: Search,
    snapshots: Snapshots,
    options: PublishOptions,
    /// Hashes of files by name: segments never change, so each is hashed once.
    known: HashMap<String, (u64, String)>,
}

impl Publisher {
    /// Creates a publisher.
    pub fn new(search: Search, snapshots: Snapshots, options: PublishOptions) -> Self {
        Self { search, snapshots, options, known: HashMap::new() }
    }

    /// Publishes when it is due, until `stopped`. Errors are logged and retried.
    pub async fn run(mut self, stopped: impl Future<Output = ()> + Send) {
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let step = tokio::select! {
                () = &mut stopped => return,
                step = self.step() => step,
            };
            match step {
                Ok(Published::Done { cursor, bytes, uploaded }) => {
                    tracing::info!(cursor, bytes, uploaded, "search snapshot published");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(code = error.code().id(), %error, "search snapshot not published, retrying");
                }
            }
            tokio::select! {
                () = &mut stopped => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Publishes a snapshot if it is due.
    pub async fn step(&mut self) -> Result<Published, Error> {
        if !self.search.is_ready() {
            return Ok(Published::NotReady);
        }
        let index = self.search.index().clone();
        let place = self.snapshots.place(&index, self.search.format(), self.search.schema()).await?;
        if !self.is_due(&place).await? {
            return Ok(Published::NotDue);
        }
        let Some(lease) = NamedLease::take(&index, LEASE, LEASE_SECONDS).await? else { return Ok(Published::Busy) };
        let published = self.publish(&place, &lease).await;
        lease.release().await?;
        published
    }

    async fn is_due(&self, place: &SnapshotLocation) -> Result<bool, Error> {
        let index = self.search.index();
        let Some((Ok(last), _)) = Manifest::read(place).await? else { return Ok(true) };
        if last.check(place).is_err() || last.check_cursor(index).await?.is_err() {
            return Ok(true);
        }
        let (changes, age) = (self.search.cursor() - last.cursor, index.database().now().await? - last.published_at);
        let is_much = changes >= self.options.changes && age >= self.options.soonest_seconds;
        Ok(changes > 0 && (is_much || age >= self.options.every_seconds))
    }

    async fn publish(&mut self, place: &SnapshotLocation, lease: &NamedLease) -> Result<Published, Error> {
        // Before any upload: if another process publishes from here on, this one does not replace its manifest.
        let read = Manifest::read(place).await?;
        let version = read.as_ref().map(|(_, version)| version.clone());
        let before = read.and_then(|(manifest, _)| manifest.ok()).filter(|manifest| manifest.check(place).is_ok());
        let staged = stage_folder(self.search.folder())?;
        let (cursor, tools) = self.search.stage(staged.path().to_owned()).await?;
        let index = self.search.index().clone();
        let mut manifest = Manifest::new(&index, place, cursor, tools).await?;
        manifest.files = self.describe(staged.path()).await?;
        let mut uploaded = 0;
        for file in &manifest.files {
            lease.renew().await?;
            if place.objects.size(&file.key()).await? != Some(file.size) {
                place.objects.upload(&file.key(), &staged.path().join(&file.part).join(&file.name)).await?;
                uploaded += file.size;
            }
        }
        manifest.retired = retired(before.as_ref(), &manifest, self.options.grace_seconds);
        let dropped = dropped(before.as_ref(), &manifest);
        lease.renew().await?;
        let text = serde_json::to_vec(&manifest).map_err(|_| Error::Corrupt { what: "snapshot" })?;
        if !place.objects.replace(LATEST, version.as_ref(), text).await? {
            return Ok(Published::Overtaken);
        }
        let bytes = manifest.files.iter().map(|file| file.size).sum();
        if let Err(error) = prune(place, &manifest, &dropped, self.options.grace_seconds).await {
            tracing::warn!(code = error.code().id(), %error, "old search snapshots not removed, retrying with the next publication");
        }
        Ok(Published::Done { cursor, bytes, uploaded })
    }

    /// Returns names, sizes and hashes of staged files.
    async fn describe(&mut self, staged: &Path) -> Result<Vec<File>, Error> {
        let (staged, mut known) = (staged.to_owned(), std::mem::take(&mut self.known));
        let (files, known) = blocking(move || {
            let (mut files, mut seen) = (Vec::new(), HashMap::new());
            for part in [VERIFIED, UNVERIFIED] {
                for name in names_in(&staged.join(part))? {
                    let path = staged.join(part).join(&name);
                    let (size, sha256) = match known.remove(&name).filter(|_| name != META) {
                        Some(known) => known,
                        None => hash_file(&path)?,
                    };
                    if name != META {
                        seen.insert(name.clone(), (size, sha256.clone()));
                    }
                    files.push(File { part: part.to_owned(), name, size, sha256 });
                }
            }
            Ok((files, seen))
        })
        .await?;
        self.known = known;
        Ok(files)
    }
}

/// Creates the folder for staging: inside the folder of search, so that hard links work.
fn stage_folder(folder: Option<&Path>) -> Result<TempDir, Error> {
    Ok(match folder {
        Some(folder) => TempDir::with_prefix_in(".publish-", folder)?,
        None => TempDir::with_prefix("toolcrib-publish-")?,
    })
}

fn hash_file(path: &PathBuf) -> Result<(u64, String), Error> {
    let (mut file, mut hash, mut size) = (std::fs::File::open(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((size, name_of(&hash.finalize().into())));
        }
        hash.update(&buffer[..read]);
        size += read as u64;
    }
}

/// Returns files that the previous snapshot had, or had retired, and that this one does not have, with the time of their retirement.
fn gone(before: Option<&Manifest>, manifest: &Manifest) -> BTreeMap<String, i64> {
    let Some(before) = before else { return BTreeMap::new() };
    let mut gone: BTreeMap<String, i64> = before.files.iter().map(|file| (file.sha256.clone(), manifest.published_at)).collect();
    gone.extend(before.retired.iter().map(|retired| (retired.sha256.clone(), retired.since)));
    for file in &manifest.files {
        gone.remove(&file.sha256);
    }
    gone
}

/// Returns those of them that are kept for a while.
fn retired(before: Option<&Manifest>, manifest: &Manifest, grace: i64) -> Vec<Retired> {
    let gone = gone(before, manifest).into_iter().filter(|(_, since)| manifest.published_at - since < grace);
    gone.map(|(sha256, since)| Retired { sha256, since }).collect()
}

/// Returns those of them that expired.
fn dropped(before: Option<&Manifest>, manifest: &Manifest) -> BTreeSet<String> {
    let stays: BTreeSet<_> = manifest.retired.iter().map(|retired| &retired.sha256).collect();
    gone(before, manifest).into_keys().filter(|sha256| !stays.contains(sha256)).collect()
}

/// Deletes files that no snapshot needs: expired ones, those of publishers that died, and snapshots of formats that are no longer
/// published.
async fn prune(place: &SnapshotLocation, manifest: &Manifest, dropped: &BTreeSet<String>, grace: i64) -> Result<(), Error> {
    let kept: BTreeSet<String> =
        manifest.files.iter().map(File::key).chain(manifest.retired.iter().map(|r| key_of(&r.sha256))).collect();
    let dropped: BTreeSet<String> = dropped.iter().map(|sha256| key_of(sha256)).collect();
    let mut listed = std::pin::pin!(place.objects.list("files"));
    while let Some(entry) = listed.try_next().await? {
        let is_orphan = entry.modified < manifest.published_at - grace;
        if !kept.contains(&entry.key) && (dropped.contains(&entry.key) || is_orphan) {
            place.objects.delete(&entry.key).await?;
        }
    }
    let mut newest: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
    let mut listed = std::pin::pin!(place.root.list(""));
    while let Some(entry) = listed.try_next().await? {
        let Some((folder, _)) = entry.key.split_once('/').filter(|(folder, _)| *folder != place.folder) else { continue };
        let (modified, keys) = newest.entry(folder.to_owned()).or_default();
        *modified = entry.modified.max(*modified);
        keys.push(entry.key);
    }
    let before = manifest.published_at - OTHER_FORMATS_SECONDS;
    for key in newest.into_values().filter(|(modified, _)| *modified < before).flat_map(|(_, keys)| keys) {
        place.root.delete(&key).await?;
    }
    let age = Duration::from_secs(grace.unsigned_abs());
    place.root.sweep(age).await?;
    Ok(())
}
