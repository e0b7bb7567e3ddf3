//! Files that are written whole or not at all.
//!
//! The new content goes to a file beside the old one, under a random name that did not exist, and takes its place
//! in one step. A name that can be foreseen could be a link to another file, put there by someone else who may write to the folder.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(tempfile::Builder::new().tempfile_in(folder(path))?, path, bytes)
}

/// Writes a file that others can read as far as the user's settings let them.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    replace(builder.tempfile_in(folder(path))?, path, bytes)
}

/// Writes a file beside `path` that has these permissions, and gives it.
pub(crate) fn write_beside(path: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().tempfile_in(folder(path))?;
    // Permissions first: what is private stays so at every moment.
    file.as_file().set_permissions(permissions)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn replace(mut file: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    // A power cut must not leave an empty file under the name of a full one.
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn a_link_beside_the_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [victim, path] = ["victim", "out.json"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").expect("written");
        for name in ["out.json.partial", "out.json.tmp", "out.tmp", ".out.json", "out.json.new"] {
            symlink(&victim, folder.path().join(name)).expect("linked");
        }
        write(&path, b"new").expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert_eq!(fs::read(&victim).expect("there"), b"precious");
        // One under the very name is replaced, and what it points to stays.
        fs::remove_file(&path).and_then(|()| symlink(&victim, &path)).expect("linked");
        write_private(&path, b"newer").expect("written");
        assert_eq!(
            (fs::read(&path).expect("there"), fs::read(&victim).expect("there")),
            (b"newer".to_vec(), b"precious".to_vec())
        );
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn nothing_is_left_behind_when_it_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).expect("made");
        assert!(write(&taken, b"x").is_err(), "a folder is not replaced");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }
}
