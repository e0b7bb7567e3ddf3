//! The set of loaded tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use super::folder::{LoadError, LoadedFunction, LoadedTool, MANIFEST, load};
use super::snapshot::Snapshots;

/// Most tool folders of one host. The target is 200 in a second; more than this is probably the wrong folder.
pub const MAX_TOOLS: usize = 2_000;

/// Most files of a folder that are compared to detect a change.
const MAX_COMPARED: usize = 20_000;

/// An immutable set of tools; a reload creates another one.
#[derive(Debug, Default)]
pub struct ToolSet {
    generation: u64,
    tools: BTreeMap<String, Arc<LoadedTool>>,
    problems: Vec<Problem>,
    states: FolderStates,
}

/// A folder that is not loaded, or not in its current version.
#[derive(Debug)]
pub struct Problem {
    /// The folder.
    pub folder: PathBuf,
    /// What is wrong.
    pub error: Arc<LoadError>,
    /// Whether an earlier version of the tool is still in use.
    pub earlier_version_in_use: bool,
}

/// Folders that are loaded in parallel. A copy is synced file by file, and disks handle several at once.
const LOADERS: usize = 4;

/// Most comparisons of folders that keep changing, before they are read as they are. A tool that writes into its own folder never settles.
const MAX_LOOKS: usize = 30;

/// The state of every tool folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderStates(BTreeMap<PathBuf, FolderState>);

impl FolderStates {
    /// Reads the state of the tool folders in these roots.
    pub(crate) fn of(roots: &[PathBuf]) -> Self {
        Self(discover(roots).into_iter().map(|folder| (folder.clone(), state(&folder))).collect())
    }

    fn get(&self, folder: &Path) -> Option<&FolderState> {
        self.0.get(folder)
    }
}

/// Repeats `look` after each pause until two results in a row are equal, or [`MAX_LOOKS`] were not.
pub(crate) fn settle<T: PartialEq>(mut last: T, mut look: impl FnMut() -> T, mut pause: impl FnMut()) {
    for _ in 0..MAX_LOOKS {
        pause();
        let now = look();
        if now == last {
            return;
        }
        last = now;
    }
}

/// File system metadata of a folder: enough to detect a change without reading the files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FolderState(Vec<(PathBuf, u64, Option<SystemTime>, u64)>);

impl ToolSet {
    /// Increases with every set that differs from the previous one.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The tools by their ids.
    pub const fn tools(&self) -> &BTreeMap<String, Arc<LoadedTool>> {
        &self.tools
    }

    /// Folders that are not loaded, or not in their current version.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// A tool and one of its functions.
    pub fn function(&self, tool: &str, function: &str) -> Option<(&Arc<LoadedTool>, &LoadedFunction)> {
        let tool = self.tools.get(tool)?;
        Some((tool, tool.functions().get(function)?))
    }

    /// A tool and the name of one of its functions, by the name that models see.
    pub fn exposed(&self, exposed: &str) -> Option<(&Arc<LoadedTool>, &str)> {
        // An id may contain an underscore, so the name cannot be split at the first one.
        self.tools.values().filter(|tool| exposed.strip_prefix(tool.id()).is_some_and(|rest| rest.starts_with('_'))).find_map(
            |tool| {
                let (name, _) = tool.functions().iter().find(|(_, function)| function.exposed() == exposed)?;
                Some((tool, name.as_str()))
            },
        )
    }

    /// Whether this set was loaded from folders in these states.
    pub(crate) fn is_of(&self, states: &FolderStates) -> bool {
        self.generation > 0 && *states == self.states
    }

    /// Reads all folders again. Tools without changes are kept; for one that cannot be loaded any more, the last valid version is kept.
    /// Returns `None` if nothing changed.
    pub(crate) fn reload(&self, roots: &[PathBuf], snapshots: &Snapshots) -> Option<Self> {
        let found = discover(roots);
        let states = FolderStates(found.iter().map(|folder| (folder.clone(), state(folder))).collect());
        if self.is_of(&states) {
            return None;
        }
        let mut next = Self { generation: self.generation + 1, states, ..Self::default() };
        let earlier: BTreeMap<&Path, _> = self.tools.values().map(|tool| (tool.source(), tool)).collect();
        let kept = |folder: &Path| {
            let is_same = self.states.get(folder) == next.states.get(folder);
            let has_problem = self.problems.iter().any(|problem| problem.folder == folder);
            earlier.get(folder).copied().filter(|_| is_same && !has_problem)
        };
        let kept: Vec<_> = found.iter().map(|folder| kept(folder).map(Arc::clone)).collect();
        let changed: Vec<_> = found.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(folder, _)| folder).collect();
        let mut loaded = load_all(&changed, snapshots).into_iter();
        for (folder, kept) in found.iter().zip(kept) {
            let Some(result) = kept.map(Ok).or_else(|| Some(loaded.next()?.map(Arc::new))) else { continue };
            next.add(folder.clone(), result, earlier.get(folder.as_path()).copied());
        }
        Some(next)
    }

    fn add(&mut self, folder: PathBuf, loaded: Result<Arc<LoadedTool>, LoadError>, earlier: Option<&Arc<LoadedTool>>) {
        let tool = match loaded {
            Ok(tool) => tool,
            Err(error) => {
                let earlier_version_in_use = earlier.is_some_and(|tool| !self.tools.contains_key(tool.id()));
                if let Some(tool) = earlier.filter(|_| earlier_version_in_use) {
                    self.tools.insert(tool.id().to_owned(), Arc::clone(tool));
                }
                self.problems.push(Problem { folder, error: Arc::new(error), earlier_version_in_use });
                return;
            }
        };
        match self.tools.get(tool.id()) {
            Some(other) => {
                let error = LoadError::DuplicateId { folder: folder.clone(), other: other.source().to_owned() };
                self.problems.push(Problem { folder, error: Arc::new(error), earlier_version_in_use: false });
            }
            None => {
                self.tools.insert(tool.id().to_owned(), tool);
            }
        }
    }
}

/// Loads folders in parallel, because most of the time is spent on disk I/O. The results are in the order of the folders.
fn load_all(folders: &[&PathBuf], snapshots: &Snapshots) -> Vec<Result<LoadedTool, LoadError>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut loaded = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(folder) = folders.get(at) else { return loaded };
            loaded.push((at, load(folder, snapshots)));
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..LOADERS.min(folders.len())).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, loaded)| loaded).collect()
}

/// Finds tool folders, in the order of their roots: a root with a manifest, or the folders in it. Hidden folders are skipped.
fn discover(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in roots {
        if root.join(MANIFEST).is_file() {
            found.push(root.clone());
            continue;
        }
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let is_hidden = |path: &Path| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let mut folders: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !is_hidden(path)).take(MAX_TOOLS).collect();
        folders.sort();
        found.extend(folders);
    }
    found.truncate(MAX_TOOLS);
    found
}

/// Names, sizes, times and ids of all files. Empty for an unreadable folder.
fn state(folder: &Path) -> FolderState {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt as _;
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                if entry.file_name() != ".git" {
                    open.push(entry.path());
                }
                continue;
            }
            if files.len() >= MAX_COMPARED {
                return FolderState(files);
            }
            #[cfg(unix)]
            let number = data.ino() ^ (u64::from(data.mode()) << 48);
            #[cfg(not(unix))]
            let number = 0;
            files.push((entry.path(), data.len(), data.modified().ok(), number));
        }
    }
    files.sort();
    FolderState(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_looked_at_until_they_stay_as_they_are() {
        let looks = |states: &[u32]| {
            let (mut states, mut count) = (states.iter().copied(), 0);
            let first = states.next().expect("a state");
            settle(first, || states.next().expect("no look after two that are the same"), || count += 1);
            count
        };
        assert_eq!(looks(&[1, 1]), 1);
        assert_eq!(looks(&[1, 2, 3, 3]), 3);
        // A folder that never settles is read all the same.
        let endless: Vec<u32> = (0..=MAX_LOOKS as u32).collect();
        assert_eq!(looks(&endless), MAX_LOOKS);
    }
}
