//! Writing mended files: as a whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use toolcrib_core::codes;

use crate::outcome::Failure;

/// Replaces the contents of a file in one step: readers see the old text or the new one, never a part. The file keeps
/// its permissions. `before` is what was read from it.
pub(crate) fn replace(path: &Path, before: &[u8], after: &[u8]) -> Result<(), Failure> {
    let failure = |error: &io::Error| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display()));
    // A link is kept; what it points to is replaced.
    let target = fs::canonicalize(path).map_err(|error| failure(&error))?;
    let permissions = fs::metadata(&target).map_err(|error| failure(&error))?.permissions();
    if permissions.readonly() {
        return Err(Failure::new(codes::cli::UNWRITABLE, format!("{} is read-only", path.display())));
    }
    let temporary = write_beside(&target, after, permissions).map_err(|error| failure(&error))?;
    let result = match fs::read(&target) {
        Ok(now) if now != before => {
            Err(Failure::new(codes::cli::CHANGED, format!("{} changed while it was being checked", path.display())))
        }
        Ok(_) => fs::rename(&temporary, &target).map_err(|error| failure(&error)),
        Err(error) => Err(failure(&error)),
    };
    if result.is_err() {
        // The reason for failing matters more than a file that cannot be removed either.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Writes a new file next to `target` and gives its path.
fn write_beside(target: &Path, bytes: &[u8], permissions: fs::Permissions) -> io::Result<PathBuf> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!(".{name}.{}.toolcrib-tmp", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    // Permissions first: what is private stays so at every moment.
    let written = file.set_permissions(permissions).and_then(|()| file.write_all(bytes)).and_then(|()| file.sync_all());
    match written {
        Ok(()) => Ok(temporary),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}
