//! Staging: changes are prepared in a folder next to the tools, and become visible in one step.
//!
//! Each run has a separate folder. Before it changes anything visible, it writes a journal, so that the next run can finish or undo it if
//! it is interrupted at any step.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcrib_files::{AtomicFile, create_private_folder, sync_folder};

use super::write::read_bounded;
use super::{InstallError, LockEntry, LockFile};
use crate::local::hash_folder;

/// The lock file that serializes runs of several processes.
const MUTEX: &str = "mutex";

/// The prefix of the folders of runs.
const RUN_PREFIX: &str = "run-";

/// The journal of a run.
const JOURNAL: &str = "journal.json";

/// A file that is locked while the run is active.
const ALIVE: &str = "alive";

/// Largest journal: one entry of the lock file.
const MAX_JOURNAL_BYTES: u64 = 65_536;

/// Called at named steps of a run, so that tests can interrupt it.
pub(super) type Interrupt = fn(&'static str);

/// The journal of a run: what it is about to change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) id: String,
    /// The new entry of the lock file; `None` if the tool is removed.
    pub(super) entry: Option<LockEntry>,
}

/// The staging folder, locked by this run.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    root: PathBuf,
    lock: PathBuf,
    /// Unlocked on drop.
    _mutex: File,
}

impl Staging {
    /// Waits for other runs, then finishes or undoes an interrupted one.
    pub(super) fn enter(root: &Path, lock: &Path) -> Result<Self, InstallError> {
        fs::create_dir_all(root).map_err(InstallError::io(root))?;
        // The path to the tools may contain links, but both folders must be on one file system.
        let root = fs::canonicalize(root).map_err(InstallError::io(root))?;
        let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else {
            return Err(InstallError::io(&root)(io::Error::other("the folder of tools has no parent")));
        };
        let folder = parent.join(format!(".{}.toolcrib-staging", name.to_string_lossy()));
        create_private_folder(&folder).map_err(InstallError::io(&folder))?;
        if let Some(parent) = lock.parent().filter(|parent| *parent != Path::new("")) {
            create_private_folder(parent).map_err(InstallError::io(parent))?;
        }
        let path = folder.join(MUTEX);
        let mutex = File::options().create(true).append(true).open(&path).map_err(InstallError::io(&path))?;
        mutex.lock().map_err(InstallError::io(&path))?;
        let staging = Self { folder, root, lock: lock.to_owned(), _mutex: mutex };
        staging.recover()?;
        Ok(staging)
    }

    /// The folder of the tools, without links.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the tool `id`. Ids contain no separators and no dots.
    pub(super) fn place(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// Starts a run.
    pub(super) fn run(&self) -> Result<Run, InstallError> {
        let folder =
            tempfile::Builder::new().prefix(RUN_PREFIX).tempdir_in(&self.folder).map_err(InstallError::io(&self.folder))?;
        let path = folder.path().join(ALIVE);
        let alive = File::create_new(&path).map_err(InstallError::io(&path))?;
        alive.lock().map_err(InstallError::io(&path))?;
        let run = Run { folder, _alive: alive };
        for part in ["new", "old"] {
            let path = run.path().join(part);
            fs::create_dir(&path).map_err(InstallError::io(&path))?;
        }
        Ok(run)
    }

    /// Moves the staged tool into place, replacing an existing one, and writes the lock file.
    pub(super) fn install(&self, run: &Run, id: &str, entry: LockEntry, step: Interrupt) -> Result<(), InstallError> {
        run.write_journal(&Journal { id: id.to_owned(), entry: Some(entry.clone()) })?;
        step("journal");
        let (new, old, place) = (run.staged(id), run.replaced(id), self.place(id));
        let io = InstallError::io(&place);
        if place.symlink_metadata().is_ok() {
            // Atomic where the system supports it; otherwise the tool is missing for a moment, and an interrupted run is undone.
            if exchange(&new, &place).is_err() {
                fs::rename(&place, &old).map_err(&io)?;
                step("moved");
                fs::rename(&new, &place).map_err(&io)?;
            }
        } else {
            fs::rename(&new, &place).map_err(&io)?;
        }
        sync_folder(&self.root).map_err(InstallError::io(&self.root))?;
        step("renamed");
        self.write_entry(id, Some(entry))?;
        step("locked");
        Ok(())
    }

    /// Removes a tool and its entry in the lock file.
    pub(super) fn uninstall(&self, run: &Run, id: &str, step: Interrupt) -> Result<(), InstallError> {
        run.write_journal(&Journal { id: id.to_owned(), entry: None })?;
        step("journal");
        let place = self.place(id);
        match fs::rename(&place, run.replaced(id)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(InstallError::io(&place)(error)),
        }
        sync_folder(&self.root).map_err(InstallError::io(&self.root))?;
        step("renamed");
        self.write_entry(id, None)?;
        step("locked");
        Ok(())
    }

    fn write_entry(&self, id: &str, entry: Option<LockEntry>) -> Result<(), InstallError> {
        let mut lock = LockFile::read(&self.lock)?;
        match entry {
            Some(entry) => lock.tools.insert(id.to_owned(), entry),
            None => lock.tools.remove(id),
        };
        lock.write(&self.lock)
    }

    /// Recovers every run that is not active any more.
    fn recover(&self) -> Result<(), InstallError> {
        let io = InstallError::io(&self.folder);
        for entry in fs::read_dir(&self.folder).map_err(&io)? {
            let entry = entry.map_err(&io)?;
            let run = entry.path();
            if !entry.file_name().to_string_lossy().starts_with(RUN_PREFIX) || is_alive(&run) {
                continue;
            }
            if let Ok(Some(bytes)) = read_bounded(&run.join(JOURNAL), MAX_JOURNAL_BYTES)
                && let Ok(journal) = serde_json::from_slice::<Journal>(&bytes)
                && toolcrib_core::local::names::is_name(&journal.id)
            {
                self.settle(&run, &journal)?;
            }
            fs::remove_dir_all(&run).map_err(InstallError::io(&run))?;
        }
        Ok(())
    }

    /// Finishes a run whose change is visible already, and undoes any other.
    fn settle(&self, run: &Path, journal: &Journal) -> Result<(), InstallError> {
        let place = self.place(&journal.id);
        let is_there = place.symlink_metadata().is_ok();
        match &journal.entry {
            Some(entry) if is_there && hash_folder(&place).is_ok_and(|content| content == entry.content) => {
                self.write_entry(&journal.id, Some(entry.clone()))
            }
            Some(_) => {
                let old = run.join("old").join(&journal.id);
                if !is_there && old.symlink_metadata().is_ok() {
                    fs::rename(&old, &place).map_err(InstallError::io(&place))?;
                }
                Ok(())
            }
            None if !is_there => self.write_entry(&journal.id, None),
            None => Ok(()),
        }
    }
}

/// The folder of one run. Removed on drop, or by the next run.
#[derive(Debug)]
pub(super) struct Run {
    folder: tempfile::TempDir,
    _alive: File,
}

impl Run {
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the new version of a tool is staged.
    pub(super) fn staged(&self, id: &str) -> PathBuf {
        self.path().join("new").join(id)
    }

    /// Where the old version is moved.
    fn replaced(&self, id: &str) -> PathBuf {
        self.path().join("old").join(id)
    }

    fn write_journal(&self, journal: &Journal) -> Result<(), InstallError> {
        let path = self.path().join(JOURNAL);
        let bytes =
            serde_json::to_vec(journal).map_err(|error| InstallError::Lock { path: path.clone(), problem: error.to_string() })?;
        AtomicFile::new(&path).replace(&bytes).map_err(InstallError::io(&path))
    }
}

/// Whether the run of this folder is still active.
fn is_alive(run: &Path) -> bool {
    File::open(run.join(ALIVE)).is_ok_and(|alive| matches!(alive.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("not on this system"))
}
