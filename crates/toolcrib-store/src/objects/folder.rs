//! Operations on a folder that `object_store` lacks: compare-and-replace, and removing incomplete uploads.

use std::fs::{self, File};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::UpdateVersion;
use object_store::path::Path;
use toolcrib_files::AtomicFile;

use super::{Error, Version, hash_of, name_of};

/// The lock file for comparing and replacing an object.
const LOCK: &str = ".replace.lock";

/// Returns the version of bytes in a folder: their hash, since timestamps of files are too coarse to tell two writes apart.
pub(super) fn version(bytes: &[u8]) -> Version {
    Version(UpdateVersion { e_tag: Some(name_of(&hash_of(bytes))), version: None })
}

/// Compares and renames, under a lock that processes of this machine share.
pub(super) async fn replace(folder: Arc<FilePath>, path: Path, read: Option<Version>, bytes: Bytes) -> Result<bool, Error> {
    let work = move || {
        let lock = File::options().create(true).append(true).open(folder.join(LOCK))?;
        lock.lock()?;
        let target = folder.join(path.as_ref());
        let now = match fs::read(&target) {
            Ok(bytes) => Some(version(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        if now != read {
            return Ok(false);
        }
        let parent = target.parent().unwrap_or(&folder);
        fs::create_dir_all(parent)?;
        AtomicFile::new(target.as_path()).prefix("#").replace(&bytes)?;
        Ok(true)
    };
    blocking(work).await
}

/// Removes files of interrupted uploads: their names contain a `#`, which no key does.
pub(super) async fn sweep(folder: Arc<FilePath>, older: Duration) -> Result<u64, Error> {
    blocking(move || {
        let (mut folders, mut count): (Vec<PathBuf>, u64) = (vec![folder.to_path_buf()], 0);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && entry.file_name().to_string_lossy().contains('#') {
                    let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
                    if age > older {
                        fs::remove_file(entry.path())?;
                        count += 1;
                    }
                }
            }
        }
        Ok(count)
    })
    .await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Unavailable { detail: error.to_string() }),
    }
}
