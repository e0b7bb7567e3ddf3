//! Tests of the public interface, on files: the vectors of this repository, and a corpus when one is given.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "core itself reads no files; its tests do, and say what they skip"
)]

mod agent_corpus;
mod drift_corpus;
mod erc_verdicts;
mod explain_corpus;
mod jcs_corpus;
mod jcs_vectors;
mod kind_corpus;
mod local_corpus;
mod local_vectors;
mod reference_gaps;
mod schema_suite;
mod tool_vectors;
mod url_corpus;
mod verdicts;
mod x402_corpus;
mod x402_vectors;

use std::path::{Path, PathBuf};

use toolcrib_testkit::corpus;

/// The folder `part` of the vectors.
fn vectors(part: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(part)
}

/// The rows of a tab-separated file below its header.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The files of a folder in order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}
