//! The files of a word index: creating, opening, checking and replacing them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tantivy::directory::error::{LockError, OpenDirectoryError};
use tantivy::directory::{Directory as _, INDEX_WRITER_LOCK, MmapDirectory, RamDirectory};
use tantivy::store::Compressor;
use tantivy::{Index, IndexSettings, ReloadPolicy, TantivyError};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::search::document::Fields;
use crate::search::shelf::Snapshot;
use crate::search::words::{GIVEN, LineTokenizer};

/// The size of the largest index whose files are all read and verified when it is opened: some 60 MB, a tenth of a second.
const CHECKED_TOOLS: u64 = 50_000;

/// Files of the engine: the index metadata, and the list of files that it manages.
pub(super) const META: &str = "meta.json";
const MANAGED: &str = ".managed.json";

/// The payload of each commit.
#[derive(Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) format: String,
    pub(super) cursor: i64,
}

pub(super) fn create(directory: impl Into<Box<dyn tantivy::Directory>>, fields: &Fields) -> Result<Index, Error> {
    let settings = IndexSettings { docstore_compression: Compressor::Lz4, ..IndexSettings::default() };
    let index = Index::create(directory, fields.schema.clone(), settings)?;
    index.tokenizers().register(GIVEN, LineTokenizer);
    Ok(index)
}

/// Replaces the content of a folder by staged files. Until the last of them is there, which is renamed, the folder has no index.
pub(super) fn install(folder: &Path, staged: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    let _lock = directory
        .acquire_lock(&INDEX_WRITER_LOCK)
        .map_err(|error| locked(TantivyError::LockFailure(error, None), Some(folder)))?;
    std::fs::remove_file(folder.join(META)).or_else(missing_is_fine)?;
    remove_ours(folder)?;
    let names = names_in(staged)?;
    std::fs::write(folder.join(MANAGED), managed(&names)?)?;
    for name in names.iter().filter(|name| *name != META) {
        std::fs::rename(staged.join(name), folder.join(name))?;
    }
    std::fs::File::open(folder)?.sync_all()?;
    std::fs::rename(staged.join(META), folder.join(META))?;
    Ok(std::fs::File::open(folder)?.sync_all()?)
}

fn missing_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Returns the names of the files in a folder.
pub(super) fn names_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Returns the engine's list of managed files: it never deletes other files.
fn managed(names: &[String]) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(names).map_err(|_| Error::Corrupt { what: "search index" })
}

/// Reads the content of a folder into memory.
pub(super) fn open_copy(folder: &Path, fields: &Fields, format: &str) -> Result<(Index, Option<i64>), Error> {
    let directory = RamDirectory::create();
    let names = names_in(folder)?;
    for name in &names {
        directory.atomic_write(Path::new(name), &std::fs::read(folder.join(name))?)?;
    }
    directory.atomic_write(Path::new(MANAGED), &managed(&names)?)?;
    match catch_unwind(AssertUnwindSafe(|| open_kept(&directory, fields, format))) {
        Ok(Ok(Some((index, cursor)))) => Ok((index, Some(cursor))),
        other => {
            let error = other.ok().and_then(Result::err).map(|error| error.to_string());
            let code = toolcrib_core::codes::objects::SNAPSHOT_DAMAGED;
            tracing::warn!(code = code.id(), error, "search snapshot cannot be opened, building from the database");
            Ok((create(RamDirectory::create(), fields)?, None))
        }
    }
}

pub(super) fn open_folder(folder: &Path, fields: &Fields, format: &str) -> Result<(Index, Option<i64>), Error> {
    let io = |error: std::io::Error| Error::Search { reason: format!("{}: {error}", folder.display()) };
    std::fs::create_dir_all(folder).map_err(io)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    // No other process may write while it is checked and possibly deleted.
    let _lock = directory
        .acquire_lock(&INDEX_WRITER_LOCK)
        .map_err(|error| locked(TantivyError::LockFailure(error, None), Some(folder)))?;
    // The engine panics on truncated files.
    let kept = catch_unwind(AssertUnwindSafe(|| open_kept(&directory, fields, format)));
    match kept.unwrap_or_else(|_| Err(Error::Search { reason: "a file is damaged".to_owned() })) {
        Ok(Some((index, cursor))) => return Ok((index, Some(cursor))),
        Ok(None) => {}
        Err(error) => tracing::warn!(folder = %folder.display(), %error, "search index unreadable, rebuilding"),
    }
    remove_ours(folder).map_err(io)?;
    let directory =
        MmapDirectory::open(folder).map_err(|error: OpenDirectoryError| Error::Search { reason: error.to_string() })?;
    Ok((create(directory, fields)?, None))
}

fn remove_ours(folder: &Path) -> std::io::Result<()> {
    for name in names_in(folder)?.iter().filter(|name| is_ours(name)) {
        std::fs::remove_file(folder.join(name))?;
    }
    Ok(())
}

/// Opens the index in a directory, if it can be read and has this format.
fn open_kept<D: tantivy::Directory + Clone>(directory: &D, fields: &Fields, format: &str) -> Result<Option<(Index, i64)>, Error> {
    if !Index::exists(directory).map_err(TantivyError::from)? {
        return Ok(None);
    }
    let index = Index::open(directory.clone())?;
    let Some(payload) = index.load_metas()?.payload else { return Ok(None) };
    let Ok(payload) = serde_json::from_str::<Payload>(&payload) else { return Ok(None) };
    if index.schema() != fields.schema || payload.format != format {
        return Ok(None);
    }
    index.tokenizers().register(GIVEN, LineTokenizer);
    // A small index is read in full and verified against its checksums; a larger one is only opened, which detects missing files.
    if index.load_metas()?.segments.iter().map(|segment| u64::from(segment.max_doc())).sum::<u64>() <= CHECKED_TOOLS
        && !index.validate_checksum()?.is_empty()
    {
        return Err(Error::Search { reason: "a checksum is wrong".to_owned() });
    }
    Snapshot::of(index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?.searcher(), &HashMap::new())?;
    Ok(Some((index, payload.cursor)))
}

/// Whether the engine writes files with this name. Other files in a folder are never deleted.
pub(super) fn is_ours(name: &str) -> bool {
    let is_segment = |name: &str| {
        name.split_once('.').is_some_and(|(id, _)| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    name == META || name == MANAGED || is_segment(name)
}

pub(super) fn locked(error: TantivyError, folder: Option<&Path>) -> Error {
    match (error, folder) {
        (TantivyError::LockFailure(LockError::LockBusy, _), Some(folder)) => {
            Error::SearchLocked { folder: folder.display().to_string() }
        }
        (error, _) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_engine_are_removed() {
        assert!(is_ours("meta.json") && is_ours(".managed.json"));
        assert!(is_ours("0123456789abcdef0123456789abcdef.idx") && is_ours("0123456789abcdef0123456789abcdef.7.del"));
        assert!(!is_ours("holiday.jpg") && !is_ours("0123.idx") && !is_ours("meta.json.bak") && !is_ours("toolcrib.db"));
    }
}
