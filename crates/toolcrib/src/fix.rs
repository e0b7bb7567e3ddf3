//! Writes fixed files atomically.

use std::fs;
use std::io;
use std::path::Path;

use toolcrib_core::codes;
use toolcrib_files::AtomicFile;

use crate::outcome::Failure;

/// Replaces the contents of a file atomically: readers see the old text or the new one, never a part. The file keeps its permissions.
/// `before` is the text that was read from it.
pub(crate) fn replace(path: &Path, before: &[u8], after: &[u8]) -> Result<(), Failure> {
    let failure = |error: &io::Error| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display()));
    // A symbolic link is kept; its target is replaced.
    let target = fs::canonicalize(path).map_err(|error| failure(&error))?;
    let permissions = fs::metadata(&target).map_err(|error| failure(&error))?.permissions();
    if permissions.readonly() {
        return Err(Failure::new(codes::cli::UNWRITABLE, format!("{} is read-only", path.display())));
    }
    // Dropping the temporary file before it is renamed removes it.
    let temporary = AtomicFile::new(&target).permissions(permissions).prepare(after).map_err(|error| failure(&error))?;
    match fs::read(&target) {
        Ok(now) if now != before => {
            Err(Failure::new(codes::cli::CHANGED, format!("{} changed while it was being checked", path.display())))
        }
        Ok(_) => temporary.replace().map_err(|error| failure(&error)),
        Err(error) => Err(failure(&error)),
    }
}
