//! Tests of the public interface, on files: the vectors of this repository, and a corpus when one is given.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "core itself reads no files; its tests do, and say what they skip"
)]

mod jcs_corpus;
mod jcs_vectors;

use std::path::PathBuf;

/// The folder `part` of the corpus. `None`, said loudly, when no corpus is given.
fn corpus(part: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("TOOLCRIB_CORPUS") else {
        eprintln!("SKIPPED: TOOLCRIB_CORPUS is not set, so nothing of {part} is tested");
        return None;
    };
    Some(PathBuf::from(root).join(part))
}

/// The folder `part` of the vectors.
fn vectors(part: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(part)
}
