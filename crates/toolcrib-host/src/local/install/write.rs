//! Writes the files of a tool into a staging folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::{ArchiveError, InstallError, ToolFile};
use crate::local::content::open_file;
use crate::local::{EntryKind, MAX_FOLDER_BYTES, list_folder};

/// Writes a new file below `folder`. `path` must be checked: relative and without `..`.
pub(crate) fn write_file(folder: &Path, path: &str, bytes: &[u8], executable: bool) -> Result<(), InstallError> {
    let path = folder.join(path);
    make_parent(&path)?;
    let mut file = create(&path, executable).map_err(InstallError::io(&path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(InstallError::io(&path))
}

/// Writes new files below `folder`. Their paths are checked.
pub(crate) fn write_files(folder: &Path, files: &[ToolFile]) -> Result<(), InstallError> {
    for ToolFile { path, bytes, executable } in files {
        let usable = !path.is_empty() && !path.contains('\\') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !usable {
            return Err(ArchiveError::Name { name: path.clone(), problem: "it is not a relative path" }.into());
        }
        write_file(folder, path, bytes, *executable)?;
    }
    Ok(())
}

/// Copies the folder of a tool, without `.git`. Modes are reduced to executable or not; links are kept and do not point out of the folder.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<(), InstallError> {
    for entry in list_folder(from)? {
        let (source, target) = (from.join(&entry.path), to.join(&entry.path));
        make_parent(&target)?;
        if entry.kind == EntryKind::Link {
            copy_link(&source, &target).map_err(InstallError::io(&target))?;
            continue;
        }
        let mut file = create(&target, entry.kind == EntryKind::Executable).map_err(InstallError::io(&target))?;
        // The file could grow during the copy; the copy is hashed again.
        let mut content = open_file(&source).map_err(InstallError::io(&source))?.take(MAX_FOLDER_BYTES);
        io::copy(&mut content, &mut file).and_then(|_| file.sync_all()).map_err(InstallError::io(&target))?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), InstallError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(InstallError::io(parent))
}

fn create(path: &Path, executable: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Never follows an existing link.
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o755 } else { 0o644 });
    }
    #[cfg(not(unix))]
    let _ = executable;
    options.open(path)
}

#[cfg(unix)]
fn copy_link(source: &Path, target: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(source)?, target)
}

#[cfg(not(unix))]
fn copy_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links are copied on Unix only"))
}

/// The bytes of a file, if there are at most `most`.
pub(crate) fn read_bounded(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}
