//! The manifest of a snapshot.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use toolcrib_core::codes::{self, Code};
use toolcrib_store::objects::{Version, hash_of, name_of};

use super::SnapshotLocation;
use crate::feed::Change;
use crate::search::engine::{UNVERIFIED, VERIFIED};
use crate::search::files::{META, is_ours};
use crate::{Error, Index};

/// The name of the manifest of the newest snapshot.
pub(super) const LATEST: &str = "latest.json";

/// The version of the manifest format.
const VERSION: u32 = 1;

/// The maximum size of a manifest: some hundred bytes for each of its files.
const MAX_BYTES: u64 = 4 << 20;

/// The maximum number of files in a snapshot. A segment has ten, and the engine merges segments to a few dozen.
const MAX_FILES: usize = 8_192;

/// The maximum size of a snapshot. A million tools take about 400 MB, so this is enough for thirty million.
pub(super) const MAX_SNAPSHOT_BYTES: u64 = 16 << 30;

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    /// The part of search that it belongs to.
    pub(super) part: String,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) sha256: String,
}

impl File {
    /// Returns the key of its content.
    pub(super) fn key(&self) -> String {
        key_of(&self.sha256)
    }
}

pub(super) fn key_of(sha256: &str) -> String {
    format!("files/{sha256}")
}

/// A file that is not in the newest snapshot any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Retired {
    pub(super) sha256: String,
    /// Since when, in seconds of the database's clock.
    pub(super) since: i64,
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: u32,
    /// The identity of the database.
    pub(super) identity: String,
    pub(super) format: String,
    pub(super) schema: String,
    /// The last change that it includes.
    pub(super) cursor: i64,
    /// A hash of that change: a database that was restored from a backup assigns its number to another change.
    pub(super) change: Option<String>,
    /// When it was published, in seconds of the database's clock.
    pub(super) published_at: i64,
    pub(super) tools: u64,
    pub(super) files: Vec<File>,
    pub(super) retired: Vec<Retired>,
}

/// Why a snapshot is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) code: Code,
    pub(super) reason: &'static str,
}

const fn unfit(code: Code, reason: &'static str) -> Unfit {
    Unfit { code, reason }
}

pub(super) const fn damaged(reason: &'static str) -> Unfit {
    unfit(codes::objects::SNAPSHOT_DAMAGED, reason)
}

/// Returns a hash that identifies a change.
fn mark(change: &Change) -> String {
    let kinds: Vec<_> = change.kinds.names().collect();
    let text =
        format!("{} {} {} {:#x} {}", change.seq, change.at.seconds(), change.key.registry.0, change.key.id, kinds.join(" "));
    name_of(&hash_of(text.as_bytes()))
}

impl Manifest {
    /// Creates a manifest without files.
    pub(super) async fn new(index: &Index, place: &SnapshotLocation, cursor: i64, tools: u64) -> Result<Self, Error> {
        Ok(Self {
            version: VERSION,
            identity: place.identity.clone(),
            format: place.format.clone(),
            schema: place.schema.clone(),
            cursor,
            change: index.change(cursor).await?.as_ref().map(mark),
            published_at: index.database().now().await?,
            tools,
            files: Vec::new(),
            retired: Vec::new(),
        })
    }

    /// Reads the newest manifest of a location, and its version in the store.
    pub(super) async fn read(place: &SnapshotLocation) -> Result<Option<(Result<Self, Unfit>, Version)>, Error> {
        let (bytes, version) = match place.objects.read(LATEST, MAX_BYTES).await {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let manifest = serde_json::from_slice(&bytes).map_err(|_| damaged("its manifest cannot be read"));
        Ok(Some((manifest, version)))
    }

    /// Checks that it belongs to this location, with valid file names and within the limits.
    pub(super) fn check(&self, place: &SnapshotLocation) -> Result<(), Unfit> {
        if self.version != VERSION || self.format != place.format || self.schema != place.schema {
            return Err(unfit(codes::objects::SNAPSHOT_FORMAT, "its version, format or schema differs"));
        }
        if self.identity != place.identity {
            return Err(unfit(codes::objects::SNAPSHOT_FOREIGN, "it belongs to another database"));
        }
        let total = self.files.iter().try_fold(0_u64, |total, file| total.checked_add(file.size));
        if self.files.len() > MAX_FILES || total.is_none_or(|total| total > MAX_SNAPSHOT_BYTES) {
            return Err(unfit(codes::objects::SNAPSHOT_TOO_LARGE, "it has more files or bytes than the limit"));
        }
        let mut seen = HashSet::new();
        for file in &self.files {
            let is_known =
                [VERIFIED, UNVERIFIED].contains(&file.part.as_str()) && is_ours(&file.name) && !file.name.starts_with('.');
            if !is_known || !seen.insert((&file.part, &file.name)) || hash(&file.sha256).is_none() {
                return Err(damaged("it names an unexpected file"));
            }
        }
        if [VERIFIED, UNVERIFIED].iter().any(|part| !self.files.iter().any(|file| file.part == *part && file.name == META)) {
            return Err(damaged("one of its parts is missing"));
        }
        Ok(())
    }

    /// Checks that the feed still has all changes since its cursor, and that the change at the cursor is the same.
    pub(super) async fn check_cursor(&self, index: &Index) -> Result<Result<(), Unfit>, Error> {
        if self.cursor < 0 || self.cursor > index.last_change().await? {
            return Ok(Err(unfit(codes::objects::SNAPSHOT_FOREIGN, "its cursor is beyond the last change")));
        }
        match index.changes(self.cursor, 1).await {
            Ok(_) => {}
            Err(Error::Forgotten { .. }) => {
                return Ok(Err(unfit(codes::objects::SNAPSHOT_STALE, "the changes after it are no longer kept")));
            }
            Err(error) => return Err(error),
        }
        // The change itself may be compacted while all those after it still exist.
        let Some(change) = index.change(self.cursor).await? else { return Ok(Ok(())) };
        if self.change.as_deref() != Some(mark(&change).as_str()) {
            return Ok(Err(unfit(codes::objects::SNAPSHOT_FOREIGN, "its last change differs from the one in this database")));
        }
        Ok(Ok(()))
    }
}

/// Parses a hash in a manifest.
pub(super) fn hash(text: &str) -> Option<[u8; 32]> {
    let is_plain = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_plain { alloy_primitives::hex::decode(text).ok()?.try_into().ok() } else { None }
}
