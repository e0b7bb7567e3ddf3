//! Installs tools from a folder, an archive or a repository, with a lock file.
//!
//! Everything is prepared and checked in a staging folder next to the tools, and becomes visible by one rename. An interrupted run leaves
//! no partial installation: the next run finishes or undoes it. The lock file records the source and the content hash of each tool.

mod archive;
mod diff;
mod error;
mod git;
mod lock;
mod source;
mod stage;
mod staged;
mod write;

use std::path::PathBuf;

use serde::Serialize;
use toolcrib_core::clock::Clock;
use toolcrib_core::finding::Finding;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::time::format_rfc3339;

use self::stage::{Interrupt, Staging};
use self::staged::{Staged, unpack, within};
use super::{ContentHash, hash_entries, list_folder};

pub use archive::{Archive, ArchiveError, ArchiveFile, MAX_ARCHIVE_BYTES};
pub use diff::{Change, Diff, FieldChange, FileChange, FileState, FunctionChange};
pub use error::InstallError;
pub use git::GitOptions;
pub use lock::{LockEntry, LockFile};
pub use source::{Source, SourceError};
pub use staged::holds_tool;

pub(crate) use staged::{read_bounded_text, read_manifest};
pub(crate) use write::{copy_folder, write_files};

/// The manifest of a tool.
const MANIFEST: &str = "manifest.json";

/// Where a tool is staged until its id is known. Not a valid id, so it cannot clash with a tool.
const UNNAMED: &str = ".unnamed";

/// A file of a generated tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFile {
    /// Its path within the folder: relative, with `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

/// Options for adding a tool.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// The only accepted content hash.
    pub digest: Option<ContentHash>,
    /// How repositories are fetched.
    pub git: GitOptions,
}

/// Options for updating a tool.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// A source other than the one in the lock file.
    pub source: Option<Source>,
    /// The only accepted content hash.
    pub digest: Option<ContentHash>,
    /// Discard local modifications of the installed folder.
    pub discard_changes: bool,
    /// How repositories are fetched.
    pub git: GitOptions,
}

/// An installed tool.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its id, the name of its folder.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its entry in the lock file.
    pub entry: LockEntry,
    /// Warnings and hints about its manifest.
    pub findings: Vec<Finding>,
}

/// The state of a folder compared with the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LockState {
    /// The folder has the locked content.
    Unchanged,
    /// The folder has another content.
    Changed {
        /// The hash in the lock file.
        expected: ContentHash,
        /// The hash of the folder.
        found: ContentHash,
    },
    /// The folder is missing.
    Missing,
    /// The folder cannot be hashed.
    Unreadable {
        /// Why.
        problem: String,
    },
    /// There is a folder that the lock file does not list.
    Unlocked,
}

/// Installs, updates and removes tools.
#[derive(Clone, Debug)]
pub struct Installer<C> {
    root: PathBuf,
    lock: PathBuf,
    clock: C,
    step: Interrupt,
}

impl<C: Clock> Installer<C> {
    /// Creates an installer for the tools in the folder `root`, with the lock file `lock`. Both are created when needed.
    pub fn new(root: impl Into<PathBuf>, lock: impl Into<PathBuf>, clock: C) -> Self {
        Self { root: root.into(), lock: lock.into(), clock, step: |_| {} }
    }

    /// Calls `step` at named steps, for tests that interrupt a run.
    #[doc(hidden)]
    #[must_use]
    pub fn with_interrupt(mut self, step: fn(&'static str)) -> Self {
        self.step = step;
        self
    }

    /// Installs a tool. Fails if a tool with the same id is installed.
    pub fn add(&self, source: &Source, options: &AddOptions) -> Result<Installed, InstallError> {
        let staging = Staging::enter(&self.root, &self.lock)?;
        let staged = self.stage(&staging, source, &options.git)?;
        staged.check_digest(options.digest)?;
        self.refuse_existing(&staging, &staged.id)?;
        self.commit(&staging, staged, source.clone())
    }

    /// Installs a tool with generated files, such as an imported one.
    pub fn add_files(&self, files: &[ToolFile], source: &Source) -> Result<Installed, InstallError> {
        let staging = Staging::enter(&self.root, &self.lock)?;
        let run = staging.run()?;
        let place = run.staged(UNNAMED);
        std::fs::create_dir(&place).map_err(InstallError::io(&place))?;
        write_files(&place, files)?;
        let staged = Staged::check(run, None)?;
        self.refuse_existing(&staging, &staged.id)?;
        self.commit(&staging, staged, source.clone())
    }

    /// Checks that no tool has this id, or one that some file systems treat as equal.
    pub fn check_free(&self, id: &str) -> Result<(), InstallError> {
        self.refuse_existing(&Staging::enter(&self.root, &self.lock)?, id)
    }

    /// Fetches the newest version of an installed tool and compares it. Nothing is changed until [`Update::apply`].
    pub fn update(&self, id: &str, options: &UpdateOptions) -> Result<Update<'_, C>, InstallError> {
        let staging = Staging::enter(&self.root, &self.lock)?;
        let locked = self.locked(id)?;
        let source = options.source.clone().unwrap_or_else(|| locked.source.clone());
        let staged = self.stage(&staging, &source, &options.git)?;
        if staged.id != id {
            return Err(InstallError::IdChanged { expected: id.to_owned(), found: staged.id });
        }
        staged.check_digest(options.digest)?;
        let place = staging.place(id);
        let old = list_folder(&place)?;
        let found = hash_entries(&old);
        if found != locked.content && !options.discard_changes {
            return Err(InstallError::ChangedLocally { id: id.to_owned(), expected: locked.content, found: found.to_string() });
        }
        let old_manifest = read_manifest(&place)?.0;
        let diff = Diff::of((&old, &old_manifest), (&staged.entries, &staged.manifest));
        Ok(Update { installer: self, staged, source, diff })
    }

    /// Removes an installed tool. With local modifications, it is removed only if `discard_changes` is set.
    pub fn remove(&self, id: &str, discard_changes: bool) -> Result<LockEntry, InstallError> {
        let staging = Staging::enter(&self.root, &self.lock)?;
        let locked = self.locked(id)?;
        let place = staging.place(id);
        if !discard_changes && place.symlink_metadata().is_ok() {
            let found = super::hash_folder(&place).map_or_else(|error| error.to_string(), |found| found.to_string());
            if found != locked.content.to_string() {
                return Err(InstallError::ChangedLocally { id: id.to_owned(), expected: locked.content, found });
            }
        }
        let run = staging.run()?;
        staging.uninstall(&run, id, self.step)?;
        Ok(locked)
    }

    /// Compares all folders with the lock file, by id.
    pub fn verify_lock(&self) -> Result<Vec<(String, LockState)>, InstallError> {
        let staging = Staging::enter(&self.root, &self.lock)?;
        let lock = LockFile::read(&self.lock)?;
        let mut states: std::collections::BTreeMap<String, LockState> = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(staging.root()).map_err(InstallError::io(staging.root()))? {
            let entry = entry.map_err(InstallError::io(staging.root()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !lock.tools.contains_key(&name) && entry.path().join(MANIFEST).symlink_metadata().is_ok() {
                states.insert(name, LockState::Unlocked);
            }
        }
        for (id, entry) in &lock.tools {
            let place = staging.place(id);
            let state = if place.symlink_metadata().is_err() {
                LockState::Missing
            } else {
                match super::hash_folder(&place) {
                    Ok(found) if found == entry.content => LockState::Unchanged,
                    Ok(found) => LockState::Changed { expected: entry.content, found },
                    Err(error) => LockState::Unreadable { problem: error.to_string() },
                }
            };
            states.insert(id.clone(), state);
        }
        Ok(states.into_iter().collect())
    }

    /// Finishes or undoes an interrupted run. Every other method does this first.
    pub fn recover(&self) -> Result<(), InstallError> {
        Staging::enter(&self.root, &self.lock).map(drop)
    }

    fn locked(&self, id: &str) -> Result<LockEntry, InstallError> {
        let mut lock = LockFile::read(&self.lock)?;
        lock.tools.remove(id).ok_or_else(|| InstallError::NotInstalled { id: id.to_owned() })
    }

    fn stage(&self, staging: &Staging, source: &Source, git: &GitOptions) -> Result<Staged, InstallError> {
        let run = staging.run()?;
        let place = run.staged(UNNAMED);
        std::fs::create_dir(&place).map_err(InstallError::io(&place))?;
        let resolved = match source {
            Source::Folder { path } => {
                copy_folder(path, &place)?;
                None
            }
            Source::Archive { path } => Some(unpack(path, &place)?),
            Source::Server { .. } => return Err(InstallError::NeedsListing),
            Source::Git { subfolder, .. } => {
                let work = run.path().join("work");
                let commit = git::fetch(source, &work, git)?;
                copy_folder(&within(&work, subfolder.as_deref())?, &place)?;
                Some(commit)
            }
        };
        (self.step)("staged");
        Staged::check(run, resolved)
    }

    /// Case-insensitive file systems would merge both folders.
    fn refuse_existing(&self, staging: &Staging, id: &str) -> Result<(), InstallError> {
        for entry in std::fs::read_dir(staging.root()).map_err(InstallError::io(staging.root()))? {
            let name = entry.map_err(InstallError::io(staging.root()))?.file_name();
            if name.to_string_lossy().eq_ignore_ascii_case(id) {
                return Err(InstallError::Exists { id: id.to_owned(), existing: escape_for_display(&name.to_string_lossy()) });
            }
        }
        Ok(())
    }

    fn commit(&self, staging: &Staging, staged: Staged, source: Source) -> Result<Installed, InstallError> {
        let entry = LockEntry {
            source,
            resolved: staged.resolved,
            content: hash_entries(&staged.entries),
            version: staged.manifest.version().to_owned(),
            time: format_rfc3339(self.clock.now()).unwrap_or_default(),
        };
        staging.install(&staged.run, &staged.id, entry.clone(), self.step)?;
        Ok(Installed { folder: staging.place(&staged.id), id: staged.id, entry, findings: staged.findings })
    }
}

/// A staged new version of an installed tool.
#[derive(Debug)]
pub struct Update<'i, C> {
    installer: &'i Installer<C>,
    staged: Staged,
    source: Source,
    diff: Diff,
}

impl<C: Clock> Update<'_, C> {
    /// Its changes.
    pub const fn diff(&self) -> &Diff {
        &self.diff
    }

    /// Warnings and hints about the new manifest.
    pub fn findings(&self) -> &[Finding] {
        &self.staged.findings
    }

    /// Installs the new version. Fails if the installed version is not the compared one any more.
    pub fn apply(self) -> Result<Installed, InstallError> {
        let staging = Staging::enter(&self.installer.root, &self.installer.lock)?;
        self.installer.locked(&self.staged.id)?;
        let found = super::hash_folder(&staging.place(&self.staged.id))?;
        if found != self.diff.old_content {
            return Err(InstallError::ChangedLocally {
                id: self.staged.id,
                expected: self.diff.old_content,
                found: found.to_string(),
            });
        }
        self.installer.commit(&staging, self.staged, self.source)
    }
}
