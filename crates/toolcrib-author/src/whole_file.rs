//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file that only its owner can read, makes its folder if there is none, and waits until the disk has both.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}
