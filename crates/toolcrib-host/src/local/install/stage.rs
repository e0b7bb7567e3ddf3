//! Staging: everything happens in a folder beside the tools, and becomes visible in one step.
//!
//! A run has a folder of its own. Before it changes anything visible it writes down what it is about to do, so that the next run can
//! finish or undo it when this one was interrupted, at whatever step.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcrib_files::{AtomicFile, create_private_folder, sync_folder};

use super::write::read_bounded;
use super::{InstallError, LockEntry, LockFile};
use crate::local::hash_folder;

/// The file that runs of other processes wait for.
const MUTEX: &str = "mutex";

/// How the folders of runs begin.
const RUN_PREFIX: &str = "run-";

/// What a run is about to do.
const JOURNAL: &str = "journal.json";

/// Locked as long as the run is at work.
const ALIVE: &str = "alive";

/// Largest journal: one entry of the lock file.
const MAX_JOURNAL_BYTES: u64 = 65_536;

/// Called at the named steps of a run, so that tests can interrupt it.
pub(super) type Interrupt = fn(&'static str);

/// What a run is about to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) id: String,
    /// The new entry of the lock file; nothing when the tool is removed.
    pub(super) entry: Option<LockEntry>,
}

/// The staging folder, held by this run alone.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    root: PathBuf,
    lock: PathBuf,
    /// Released when it goes out of scope.
    _mutex: File,
}

impl Staging {
    /// Waits for other runs, then finishes or undoes what an interrupted one left.
    pub(super) fn enter(root: &Path, lock: &Path) -> Result<Self, InstallError> {
        fs::create_dir_all(root).map_err(InstallError::io(root))?;
        // Links on the way to the tools are fine, but both folders must be on one file system.
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

    /// Where the tool `id` is installed. Ids have no separators and no dots.
    pub(super) fn place(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// A new run.
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

    /// Puts what was staged at its place, in place of what may be there, and writes the lock file.
    pub(super) fn install(&self, run: &Run, id: &str, entry: LockEntry, step: Interrupt) -> Result<(), InstallError> {
        run.write_journal(&Journal { id: id.to_owned(), entry: Some(entry.clone()) })?;
        step("journal");
        let (new, old, place) = (run.staged(id), run.replaced(id), self.place(id));
        let io = InstallError::io(&place);
        if place.symlink_metadata().is_ok() {
            // In one step where the system can; otherwise the tool is away for a moment, and an interrupted run is undone.
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

    /// Takes a tool away and out of the lock file.
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

    /// Looks at every run that is left and at work no more.
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

    /// Finishes a run that had made its change visible, and undoes one that had not.
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

/// The folder of one run. Removed when it goes out of scope, or by the next run.
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

    /// Where the old version goes.
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

/// Whether the run that has this folder is still at work.
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
