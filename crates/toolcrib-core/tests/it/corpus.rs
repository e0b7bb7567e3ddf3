//! Where the tests find their files.

use std::path::{Path, PathBuf};

/// The corpus of real data, or `None` and a loud line when it is not there.
pub fn corpus(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("TOOLCRIB_CORPUS").map(PathBuf::from).filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: {test}: TOOLCRIB_CORPUS is not set or is no folder");
    }
    found
}

/// The `vectors` folder of the repository.
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// The rows of a tab-separated file below its header.
pub fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The files of a folder in order of their names.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}
