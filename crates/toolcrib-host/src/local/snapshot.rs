//! Snapshots of tool folders, named by their content hash.
//!
//! A tool runs from a snapshot, never from the folder that its author edits. So the bytes that run are those whose hash the user approved,
//! a running call keeps its files while the folder changes, and the last valid version stays usable when a new one is invalid.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::content::{ContentHash, FolderError, hash_folder};
use super::install::{InstallError, copy_folder};

/// How long an unused snapshot is kept: longer than a host usually runs without reloading its tools.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The prefix of unfinished snapshots.
const UNFINISHED: &str = ".copy-";

/// Why a folder cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It cannot be read, or it is beyond the limits.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The copy cannot be written.
    #[error(transparent)]
    Copy(#[from] InstallError),
}

/// A folder with one snapshot per content.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    folder: PathBuf,
}

/// A snapshot of a tool folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) folder: PathBuf,
    pub(crate) content: ContentHash,
}

impl Snapshots {
    /// Uses `folder`, which must exist and be private.
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Copies a tool folder, unless there is a snapshot of the same content.
    ///
    /// A new snapshot is named by the hash of the copy, so a change of the source during the copy is in both the copy and its hash, or in
    /// neither.
    pub(crate) fn take(&self, source: &Path) -> Result<Snapshot, SnapshotError> {
        let content = hash_folder(source)?;
        let folder = self.place(&content);
        if folder.is_dir() && touch(&folder).is_ok() {
            return Ok(Snapshot { folder, content });
        }
        let failed = |source| FolderError::Io { path: self.folder.clone(), source };
        let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder).map_err(failed)?;
        copy_folder(source, unfinished.path())?;
        let content = hash_folder(unfinished.path())?;
        let folder = self.place(&content);
        let unfinished = unfinished.keep();
        if let Err(error) = fs::rename(&unfinished, &folder) {
            let _ = fs::remove_dir_all(&unfinished);
            // Another host may have created it meanwhile.
            if !folder.is_dir() {
                return Err(failed(error).into());
            }
        }
        touch(&folder).map_err(failed)?;
        Ok(Snapshot { folder, content })
    }

    /// The snapshot of a content, if it still exists.
    pub(crate) fn kept(&self, content: &ContentHash) -> Option<PathBuf> {
        Some(self.place(content)).filter(|folder| folder.is_dir())
    }

    fn place(&self, content: &ContentHash) -> PathBuf {
        self.folder.join(content.to_string().replace(':', "-"))
    }

    /// Removes snapshots that were unused for long, and unfinished ones of killed hosts. Errors are ignored until the next time.
    pub(crate) fn clean(&self, is_used: impl Fn(&Path) -> bool) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > KEPT) && !is_used(&path) {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

/// Marks a snapshot as used now. If that fails, it is copied again when it is needed.
pub(crate) fn mark_used(folder: &Path) {
    let _ = touch(folder);
}

fn touch(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let folder = fs::File::open(folder)?;
    Ok(futimens(&folder, &Timestamps { last_access: now, last_modification: now })?)
}
