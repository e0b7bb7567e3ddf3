//! Converts a tool's sandbox request to the policy of its programs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use toolcrib_core::local::{NetworkRequest, SandboxRequest};
use toolcrib_process::{Limits, Network, Policy};

/// Default memory of a tool, in MiB: enough for Node and Python, too little to hurt a desktop.
const DEFAULT_MEMORY_MIB: u64 = 512;

/// Default number of processes and threads of a tool. Node alone has a dozen threads.
const DEFAULT_PROCESSES: u64 = 64;

/// Default size limit of files of a tool, in MiB.
const DEFAULT_FILE_MIB: u64 = 64;

/// Most entries that are granted individually in a folder that contains the host's state.
const MAX_ENTRIES: usize = 1_000;

const MIB: u64 = 1 << 20;

/// Folders of one tool.
#[derive(Clone, Debug)]
pub(crate) struct Folders<'a> {
    /// The snapshot of the tool.
    pub(crate) folder: &'a Path,
    /// The data folder of the tool.
    pub(crate) data: &'a Path,
    /// Temporary files.
    pub(crate) temporary: &'a Path,
    /// The home folder of the user.
    pub(crate) home: Option<&'a Path>,
    /// The state folder of the host, with credentials and rules of all tools.
    pub(crate) state: &'a Path,
}

/// The sandbox policy for programs of a tool.
pub(crate) fn policy(request: &SandboxRequest, folders: &Folders<'_>) -> Policy {
    let mut policy = Policy::default();
    // The user approved this content: the program may execute any of its files.
    policy.execute.push(folders.folder.to_owned());
    policy.write.extend([folders.data.to_owned(), folders.temporary.to_owned()]);
    let existing = |paths: &[String]| -> Vec<PathBuf> {
        paths.iter().filter_map(|path| expand(path, folders)).flat_map(|path| without_state(path, folders)).collect()
    };
    policy.read.extend(existing(request.read()));
    policy.write.extend(existing(request.write()));
    policy.network = match request.network() {
        NetworkRequest::None => Network::None,
        NetworkRequest::Ports(ports) => Network::Ports(ports.clone()),
        NetworkRequest::Any => Network::Any,
    };
    policy
}

/// The parts of a path that can be granted: nothing of the host's state except the folders of the tool. In a folder that contains the
/// state, each other entry is granted, but not the listing of the folder.
///
/// Rules apply to existing files. A missing file cannot be accessed either.
fn without_state(path: PathBuf, folders: &Folders<'_>) -> Vec<PathBuf> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let (Some(place), Some(state)) = (real(&path), real(folders.state)) else { return Vec::new() };
    let is_own = [folders.folder, folders.data, folders.temporary].into_iter().filter_map(real).any(|own| place.starts_with(own));
    if is_own || !(place.starts_with(&state) || state.starts_with(&place)) {
        return vec![path];
    }
    if place.starts_with(&state) {
        return Vec::new();
    }
    let entries = fs::read_dir(&place).into_iter().flatten().flatten().take(MAX_ENTRIES);
    entries.flat_map(|entry| without_state(entry.path(), folders)).collect()
}

/// The folders that are visible to a component, each with write access or not: its data folder, and existing folders that its manifest
/// declares, without the host's state.
#[cfg(feature = "wasm")]
pub(crate) fn folders(request: &SandboxRequest, folders: &Folders<'_>) -> Vec<(PathBuf, bool)> {
    // In a folder that contains the state, only subfolders are granted: components cannot be given single files.
    let granted = |path: PathBuf| -> Vec<PathBuf> {
        let left = without_state(path.clone(), folders);
        if left == [path] { left } else { left.into_iter().filter(|path| path.is_dir()).collect() }
    };
    let declared = |paths: &[String], may_write: bool| -> Vec<(PathBuf, bool)> {
        let paths = paths.iter().filter_map(|path| expand(path, folders)).flat_map(granted);
        paths.map(|path| (path, may_write)).collect()
    };
    let mut all = vec![(folders.data.to_owned(), true)];
    all.extend(declared(request.write(), true));
    all.extend(declared(request.read(), false));
    all
}

/// The resource limits of a tool's programs.
pub(crate) fn limits(request: &SandboxRequest) -> Limits {
    Limits {
        memory: Some(request.memory_mib().unwrap_or(DEFAULT_MEMORY_MIB) * MIB),
        processes: Some(request.max_processes().unwrap_or(DEFAULT_PROCESSES)),
        file_size: Some(request.max_file_mib().unwrap_or(DEFAULT_FILE_MIB) * MIB),
        ..Limits::default()
    }
}

/// Folders of programs that come with the operating system.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr", "/bin", "/lib"];

/// Whether a program comes with the operating system, so that the sandbox grants it.
pub(crate) fn is_system(program: &Path) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| program.starts_with(folder))
}

/// The installation folder of a program outside the system, which contains its libraries: `prefix` of `prefix/bin/program`, otherwise the
/// folder of the program.
pub(crate) fn installation(program: &Path) -> Option<PathBuf> {
    let program = fs::canonicalize(program).ok().filter(|program| !is_system(program))?;
    let folder = program.parent()?;
    let prefix = folder.parent().filter(|prefix| folder.ends_with("bin") && prefix.components().count() > 2);
    Some(prefix.unwrap_or(folder).to_owned())
}

/// The environment of a tool's programs. Of the host's environment, only the search path and the language.
pub(crate) fn environment(path: &OsStr, language: Option<&OsStr>, folders: &Folders<'_>) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), path.to_owned()),
        ("HOME".into(), folders.data.as_os_str().to_owned()),
        ("TMPDIR".into(), folders.temporary.as_os_str().to_owned()),
    ];
    variables.extend(language.map(|language| ("LANG".into(), language.to_owned())));
    variables
}

/// Resolves a path of a manifest. `None` for a path in the home folder if there is none.
fn expand(path: &str, folders: &Folders<'_>) -> Option<PathBuf> {
    let starts = [
        ("$folder", Some(folders.folder)),
        ("$data", Some(folders.data)),
        ("$tmp", Some(folders.temporary)),
        ("~", folders.home),
    ];
    for (start, folder) in starts {
        if let Some(rest) = path.strip_prefix(start).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            let rest = rest.trim_start_matches('/');
            return folder.map(|folder| if rest.is_empty() { folder.to_owned() } else { folder.join(rest) });
        }
    }
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_manifests_mean_places() {
        let (folder, data, temporary) = (Path::new("/s/a"), Path::new("/d/a"), Path::new("/t/a"));
        let folders = Folders { folder, data, temporary, home: None, state: Path::new("/s") };
        let expanded = |path| expand(path, &folders);
        assert_eq!(expanded("$folder"), Some("/s/a".into()));
        assert_eq!(expanded("$data/x/y"), Some("/d/a/x/y".into()));
        assert_eq!(expanded("$tmp//x"), Some("/t/a/x".into()), "a rest never begins at the root");
        assert_eq!(expanded("/usr/share"), Some("/usr/share".into()));
        assert_eq!(expanded("~/notes"), None);
        let folders = Folders { home: Some(Path::new("/home/u")), ..folders };
        assert_eq!(expand("~/notes", &folders), Some("/home/u/notes".into()));
    }

    #[test]
    fn the_state_of_the_host_is_granted_to_no_tool() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| home.join(name);
        for folder in [".local/state/crib/data/a", ".local/state/crib/data/b", ".local/state/other", ".local/share", "notes"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("diary"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at(".local/state/crib"), at("link")).unwrap();
        let (state, data) = (at(".local/state/crib"), at(".local/state/crib/data/a"));
        let folders = Folders { folder: &data, data: &data, temporary: &data, home: Some(&home), state: &state };
        let granted = |path: &str| {
            let mut granted = without_state(at(path), &folders);
            granted.sort();
            granted
        };
        assert_eq!(granted("notes"), [at("notes")]);
        assert_eq!(granted(""), [at(".local/share"), at(".local/state/other"), at("diary"), at("notes")]);
        assert_eq!(granted(".local/state"), [at(".local/state/other")]);
        assert_eq!(granted(".local/state/crib/data/a"), [at(".local/state/crib/data/a")]);
        for closed in [".local/state/crib", ".local/state/crib/data", ".local/state/crib/data/b", "link", "missing"] {
            assert_eq!(granted(closed), Vec::<PathBuf>::new(), "{closed}");
        }
    }
}
