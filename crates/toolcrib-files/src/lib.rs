#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A step of replacing a file, for tests that fail or end the process there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Before the new file is created.
    Create,
    /// The new file exists and is empty.
    Write,
    /// Half of the new file is written.
    WriteRest,
    /// All bytes are written, but may not be on the disk.
    SyncFile,
    /// All bytes are on the disk, under the name of the new file.
    Rename,
    /// The new file has replaced the old one.
    SyncFolder,
    /// All steps are done.
    Done,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 7] =
        [Self::Create, Self::Write, Self::WriteRest, Self::SyncFile, Self::Rename, Self::SyncFolder, Self::Done];
}

/// A file to be written completely or not at all. Only its owner can read it, unless configured otherwise.
#[derive(Clone, Debug)]
pub struct AtomicFile<'a> {
    path: PathBuf,
    access: FileMode,
    name: Name<'a>,
}

#[derive(Clone, Debug)]
enum FileMode {
    Private,
    Shared,
    Exactly(Permissions),
}

/// The name of the new file until it replaces the old one.
#[derive(Clone, Debug)]
enum Name<'a> {
    /// The prefix and random characters.
    Random(&'a str),
    /// `.NAME.partial`.
    Fixed,
}

impl<'a> AtomicFile<'a> {
    /// Returns an atomic file at `path`, whose folder exists.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), access: FileMode::Private, name: Name::Random(".tmp") }
    }

    /// Lets other users read the file as far as the process's umask permits.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { access: FileMode::Shared, ..self }
    }

    /// Sets the permissions of the file, such as those of the file that it replaces.
    #[must_use]
    pub fn permissions(self, permissions: Permissions) -> Self {
        Self { access: FileMode::Exactly(permissions), ..self }
    }

    /// Starts the name of the new file with `prefix`, by which a cleanup finds what crashes left.
    #[must_use]
    pub fn prefix(self, prefix: &'a str) -> Self {
        Self { name: Name::Random(prefix), ..self }
    }

    /// Names the new file `.NAME.partial` and removes what a crash left under that name. The caller must hold a lock that every writer
    /// takes.
    #[must_use]
    pub fn under_lock(self) -> Self {
        Self { name: Name::Fixed, ..self }
    }

    /// Replaces the file, or creates it.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(bytes, |_| Ok(()))
    }

    /// Replaces the file and calls `reach` before each step. An error of `reach` ends the write there.
    pub fn replace_with(&self, bytes: &[u8], mut reach: impl FnMut(Step) -> io::Result<()>) -> io::Result<()> {
        let prepared = self.prepare_with(bytes, &mut reach)?;
        reach(Step::Rename)?;
        prepared.file.persist(&prepared.path)?;
        reach(Step::SyncFolder)?;
        sync_folder(folder_of(&prepared.path))?;
        reach(Step::Done)
    }

    /// Creates the file. An existing file stays unchanged, and the error is [`io::ErrorKind::AlreadyExists`].
    pub fn create(&self, bytes: &[u8]) -> io::Result<()> {
        let prepared = self.prepare(bytes)?;
        prepared.file.persist_noclobber(&prepared.path)?;
        sync_folder(folder_of(&prepared.path))
    }

    /// Writes the new file beside the old one, so that the caller can compare once more before replacing it.
    pub fn prepare(&self, bytes: &[u8]) -> io::Result<PreparedFile> {
        self.prepare_with(bytes, &mut |_| Ok(()))
    }

    fn prepare_with(&self, bytes: &[u8], reach: &mut impl FnMut(Step) -> io::Result<()>) -> io::Result<PreparedFile> {
        reach(Step::Create)?;
        let mut file = self.beside()?;
        if let FileMode::Exactly(permissions) = &self.access {
            // Before the content is written: a private file is never readable by others.
            file.as_file().set_permissions(permissions.clone())?;
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        reach(Step::Write)?;
        file.write_all(first)?;
        reach(Step::WriteRest)?;
        file.write_all(rest)?;
        reach(Step::SyncFile)?;
        // A power failure must not leave an empty file under the name of a complete one.
        file.as_file().sync_all()?;
        Ok(PreparedFile { file, path: self.path.clone() })
    }

    /// Creates the new file without following links or replacing an existing file. It is removed when dropped.
    fn beside(&self) -> io::Result<NamedTempFile> {
        let folder = folder_of(&self.path);
        let mut builder = Builder::new();
        #[cfg(unix)]
        if matches!(self.access, FileMode::Shared) {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        match self.name {
            Name::Random(prefix) => builder.prefix(prefix).tempfile_in(folder),
            Name::Fixed => {
                let name = self.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                let name = [".".as_ref(), name, ".partial".as_ref()].into_iter().collect::<std::ffi::OsString>();
                match fs::remove_file(folder.join(&name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                builder.prefix(&name).rand_bytes(0).tempfile_in(folder)
            }
        }
    }
}

/// New content beside a file, synced to the disk. It is removed when dropped.
#[derive(Debug)]
pub struct PreparedFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl PreparedFile {
    /// Replaces the file with this one.
    pub fn replace(self) -> io::Result<()> {
        self.file.persist(&self.path)?;
        sync_folder(folder_of(&self.path))
    }
}

/// Syncs the names in a folder to the disk: without it, a power failure can undo a rename.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Not every platform can open folders as files.
    #[cfg(unix)]
    match fs::File::open(folder)?.sync_all() {
        // The file system does not support it; the rename itself is done.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {}
        synced => synced?,
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Creates a folder that only its owner may use, and its parents. An existing folder is unchanged.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the folder of a file; the current one if the path is only a name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(all(test, unix))]
mod tests;
