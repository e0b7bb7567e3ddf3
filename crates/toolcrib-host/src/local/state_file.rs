//! Private state files of the user: locked, and replaced atomically.
//!
//! Every writer holds a lock, so a crash leaves at most one unfinished file, which the next write removes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
pub(crate) use toolcrib_files::Step;
use toolcrib_files::{AtomicFile, create_private_folder, sync_folder};

/// Longest wait for the lock of another process. A write takes milliseconds; deriving a key from a passphrase takes a second, or several
/// on a loaded machine.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(15);

/// Pauses between attempts to take the lock: short at first, since most writes are, then longer.
const LOCK_PAUSES: [Duration; 4] =
    [Duration::from_micros(100), Duration::from_micros(500), Duration::from_millis(2), Duration::from_millis(5)];

/// Why a state file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is larger than any valid one.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// Other users of the machine have access.
    #[error("{} has mode {mode:o}, which gives other users access; expected {expected:o}", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The permission bits that it should have.
        expected: u32,
    },
    /// Another user owns the file.
    #[error("{} belongs to user {owner}; expected user {expected}", path.display())]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// The owner's uid.
        owner: u32,
        /// The uid of this process.
        expected: u32,
    },
    /// A symbolic link, a folder, a pipe or a device where a regular file is expected.
    #[error("{} is not a regular file (symbolic links are not followed)", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// Another process holds the lock.
    #[error("{} has been locked by another process for more than {} s", path.display(), LOCK_WAIT.as_secs())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
}

impl StateFileError {
    /// Converts an error of the operating system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

type Result<T, E = StateFileError> = std::result::Result<T, E>;

/// A test hook for a step of writing the named file.
#[cfg(test)]
pub(crate) type Fault = std::sync::Arc<dyn Fn(&str, Step) -> io::Result<()> + Send + Sync>;

/// A folder with the state of one user.
#[derive(Clone)]
pub(crate) struct StateFolder {
    path: PathBuf,
    #[cfg(test)]
    fault: Option<Fault>,
}

impl std::fmt::Debug for StateFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StateFolder").field(&self.path).finish()
    }
}

/// Proof that this process holds the lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct StateLock(LockFile);

/// An open lock file. It can stay open between locks.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    number: (u64, u64),
}

impl StateLock {
    /// Releases the lock, and keeps its file open for [`StateFolder::lock_with`]. Returns `None` if that failed, in which case the file is
    /// closed.
    pub(crate) fn release(self) -> Option<LockFile> {
        self.0.file.unlock().is_ok().then_some(self.0)
    }
}

impl StateFolder {
    /// A folder that may not exist yet.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            #[cfg(test)]
            fault: None,
        }
    }

    /// The same folder, with `fault` run before each step of each write.
    #[cfg(test)]
    pub(crate) fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates the folder if it is missing, and refuses one that other users can access, because they could replace its files.
    pub(crate) fn ensure(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) => check_private(&metadata, &self.path, 0o700, Owners::User),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_folder(&self.path).map_err(StateFileError::io("create", &self.path))
            }
            Err(error) => Err(StateFileError::io("open", &self.path)(error)),
        }
    }

    /// Waits for the lock. It is on a separate file, since the protected files are replaced.
    pub(crate) fn lock(&self, name: &str) -> Result<StateLock> {
        self.lock_with(name, None)
    }

    /// Like [`lock`](Self::lock), with a lock file that was kept open, if it still has that name: the folder was checked when it was
    /// opened.
    pub(crate) fn lock_with(&self, name: &str, kept: Option<LockFile>) -> Result<StateLock> {
        let path = self.file(name);
        let is_current = |kept: &LockFile| fs::symlink_metadata(&path).is_ok_and(|found| file_number(&found) == kept.number);
        let lock = match kept.filter(is_current) {
            Some(kept) => kept,
            None => {
                self.ensure()?;
                let file = private_options().create(true).truncate(false).write(true).open(&path).map_err(opening(&path))?;
                let metadata = file.metadata().map_err(StateFileError::io("open", &path))?;
                LockFile { number: file_number(&metadata), file }
            }
        };
        let began = Instant::now();
        let mut pauses = LOCK_PAUSES.into_iter().chain(std::iter::repeat(LOCK_PAUSES[LOCK_PAUSES.len() - 1]));
        loop {
            match lock.file.try_lock() {
                Ok(()) => return Ok(StateLock(lock)),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => thread::sleep(pauses.next().unwrap_or_default()),
                Err(TryLockError::WouldBlock) => return Err(StateFileError::Busy { path }),
                Err(TryLockError::Error(error)) => return Err(StateFileError::io("lock", &path)(error)),
            }
        }
    }

    /// Reads a private file of at most `limit` bytes. `None` if it does not exist.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        read_private(&self.file(name), limit, Owners::User)
    }

    /// Replaces a file atomically.
    pub(crate) fn replace(&self, _: &StateLock, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.file(name);
        let replaced = AtomicFile::new(&path).under_lock().replace_with(bytes, |step| self.reach(name, step));
        replaced.map_err(StateFileError::io("replace", &path))
    }

    /// Syncs the names in the folder to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_folder(&self.path).map_err(StateFileError::io("write", &self.path))
    }

    #[cfg(test)]
    fn reach(&self, name: &str, step: Step) -> io::Result<()> {
        self.fault.as_ref().map_or(Ok(()), |fault| fault(name, step))
    }

    #[cfg(not(test))]
    const fn reach(&self, _: &str, _: Step) -> io::Result<()> {
        Ok(())
    }
}

/// The permitted owners of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// The user who runs this process.
    User,
    /// That user or root, who has access to everything anyway.
    UserOrRoot,
    /// Not checked: another program manages the folder.
    Any,
}

/// Reads a regular file of at most `limit` bytes that no other user can access. `None` if it does not exist.
pub(crate) fn read_private(path: &Path, limit: u64, owners: Owners) -> Result<Option<Vec<u8>>> {
    let Some((file, metadata)) = open_regular(path)? else { return Ok(None) };
    if owners != Owners::Any {
        check_private(&metadata, path, 0o600, owners)?;
    }
    read_open(file, &metadata, path, limit).map(Some)
}

/// Opens a regular file for reading, without following a link in the last part of the path, and without blocking on a pipe.
pub(crate) fn open_regular(path: &Path) -> Result<Option<(File, fs::Metadata)>> {
    let mut options = OpenOptions::new();
    options.read(true);
    no_follow(&mut options);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(opening(path)(error)),
    };
    // Metadata of the open file, not of the path, so that it cannot be replaced in between.
    let metadata = file.metadata().map_err(StateFileError::io("open", path))?;
    if metadata.is_file() { Ok(Some((file, metadata))) } else { Err(StateFileError::NotRegular { path: path.to_owned() }) }
}

/// Reads an open file into a buffer of its full size, because a growing buffer leaves copies behind.
pub(crate) fn read_open(file: File, metadata: &fs::Metadata, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let too_large = || StateFileError::TooLarge { path: path.to_owned(), limit };
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
    file.take(limit + 1).read_to_end(&mut bytes).map_err(StateFileError::io("read", path))?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Refuses a file that other users can access. `expected` is the widest accepted mode.
#[cfg(unix)]
pub(crate) fn check_private(metadata: &fs::Metadata, path: &Path, expected: u32, owners: Owners) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != user && !(owners == Owners::UserOrRoot && owner == 0) {
        return Err(StateFileError::Owner { path: path.to_owned(), owner, expected: user });
    }
    let mode = metadata.mode() & 0o777;
    if mode & !expected != 0 {
        return Err(StateFileError::Exposed { path: path.to_owned(), mode, expected });
    }
    Ok(())
}

/// On systems without permission bits, the user's profile folder protects the file.
#[cfg(not(unix))]
pub(crate) fn check_private(_: &fs::Metadata, _: &Path, _: u32, _: Owners) -> Result<()> {
    Ok(())
}

/// The id of a file, independent of its name.
#[cfg(unix)]
pub(crate) fn file_number(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;

    (metadata.dev(), metadata.ino())
}

/// On systems without file ids, all are equal.
#[cfg(not(unix))]
pub(crate) const fn file_number(_: &fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// Options for files that only their owner can read from their creation on.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    no_follow(&mut options);
    options
}

fn no_follow(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;

        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(flags.bits() as i32);
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Interprets an error of opening without following links.
pub(crate) fn opening(path: &Path) -> impl FnOnce(io::Error) -> StateFileError {
    move |error| {
        #[cfg(unix)]
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return StateFileError::NotRegular { path: path.to_owned() };
        }
        StateFileError::io("open", path)(error)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
