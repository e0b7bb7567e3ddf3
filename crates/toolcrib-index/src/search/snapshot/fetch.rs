//! Downloads a snapshot into a new folder.

use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use tantivy::schema::Schema;
use tempfile::TempDir;
use tokio::time::timeout;
use toolcrib_core::codes;
use toolcrib_store::objects;

use super::manifest::{File, Manifest, Unfit, damaged, hash};
use super::{SnapshotLocation, Snapshots};
use crate::search::engine::{UNVERIFIED, VERIFIED};
use crate::{Error, Index};

/// Concurrent downloads of files.
const FILES_AT_ONCE: usize = 8;

/// The timeout of a download. Building from the database takes minutes for a million tools, so a slower download saves nothing.
const LIMIT: Duration = Duration::from_secs(600);

/// The timeout for the manifest: the process cannot serve requests meanwhile.
const MANIFEST_LIMIT: Duration = Duration::from_secs(10);

/// The number of manifests that are tried: another may have replaced the first while its files were downloaded, long enough ago for them
/// to be deleted.
const TRIES: usize = 2;

/// Downloads the newest suitable snapshot into a new folder, next to the folder that it is for. `None`, with a reason in the log, when
/// there is none. Only errors of the database are errors: without a snapshot search is built from it.
pub(in crate::search) async fn fetch(
    index: &Index,
    snapshots: &Snapshots,
    format: &str,
    schema: &Schema,
    folder: Option<&Path>,
) -> Result<Option<TempDir>, Error> {
    let place = snapshots.place(index, format, schema).await?;
    let mut tried = 1;
    loop {
        match timeout(LIMIT, fetch_now(index, &place, folder)).await {
            Ok(Ok(Ok(staged))) => return Ok(Some(staged)),
            Ok(Ok(Err(unfit))) if unfit.code == codes::objects::SNAPSHOT_DAMAGED && tried < TRIES => tried += 1,
            Ok(Ok(Err(Unfit { code, reason }))) => {
                tracing::warn!(
                    code = code.id(),
                    reason,
                    hint = code.info().hint,
                    "no search snapshot used, building from the database"
                );
                return Ok(None);
            }
            Ok(Err(error @ (Error::Store(_) | Error::Corrupt { .. }))) => return Err(error),
            Ok(Err(error)) => {
                tracing::warn!(code = error.code().id(), %error, "no search snapshot fetched, building from the database");
                return Ok(None);
            }
            Err(_) => {
                let code = codes::objects::UNAVAILABLE;
                tracing::warn!(
                    code = code.id(),
                    seconds = LIMIT.as_secs(),
                    "search snapshot too slow, building from the database"
                );
                return Ok(None);
            }
        }
    }
}

async fn fetch_now(index: &Index, place: &SnapshotLocation, folder: Option<&Path>) -> Result<Result<TempDir, Unfit>, Error> {
    let none = Unfit { code: codes::objects::SNAPSHOT_NONE, reason: "there is no snapshot" };
    let late = |_| objects::Error::Unavailable { detail: format!("no manifest within {} s", MANIFEST_LIMIT.as_secs()) };
    let Some((manifest, _)) = timeout(MANIFEST_LIMIT, Manifest::read(place)).await.map_err(late)?? else {
        return Ok(Err(none));
    };
    let manifest = match manifest.and_then(|manifest| manifest.check(place).map(|()| manifest)) {
        Ok(manifest) => manifest,
        Err(unfit) => return Ok(Err(unfit)),
    };
    if let Err(unfit) = manifest.check_cursor(index).await? {
        return Ok(Err(unfit));
    }
    let staged = match folder {
        Some(folder) => TempDir::with_prefix_in(".snapshot-", folder)?,
        None => TempDir::with_prefix("toolcrib-snapshot-")?,
    };
    for part in [VERIFIED, UNVERIFIED] {
        std::fs::create_dir(staged.path().join(part))?;
    }
    let fetched = futures_util::stream::iter(&manifest.files)
        .map(|file| fetch_file(place, file, staged.path()))
        .buffer_unordered(FILES_AT_ONCE)
        .try_collect::<()>()
        .await;
    match fetched {
        Ok(()) => {}
        Err(error) if error.is_lost() => {
            tracing::warn!(code = error.code().id(), %error, "search snapshot incomplete");
            return Ok(Err(damaged("one of its files is missing or differs")));
        }
        Err(error) => return Err(error.into()),
    }
    let bytes: u64 = manifest.files.iter().map(|file| file.size).sum();
    tracing::info!(cursor = manifest.cursor, tools = manifest.tools, bytes, "search snapshot fetched");
    Ok(Ok(staged))
}

async fn fetch_file(place: &SnapshotLocation, file: &File, staged: &Path) -> Result<(), objects::Error> {
    let key = file.key();
    let lost = || objects::Error::Damaged { key: key.clone(), reason: "its hash cannot be read" };
    let sha256 = hash(&file.sha256).ok_or_else(lost)?;
    place.objects.download(&key, file.size, &sha256, &staged.join(&file.part).join(&file.name)).await
}
