//! Test data of the repository, read from files.

use std::path::{Path, PathBuf};

use crate::repository;

/// Returns the folder `part` of the test vectors.
#[must_use]
pub fn vectors(part: &str) -> PathBuf {
    repository().join("vectors").join(part)
}

/// Returns the rows of a tab-separated file below its header.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Returns the files of a folder in order of their names.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}
