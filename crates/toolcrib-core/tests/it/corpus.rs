//! Manifests from the wild. They are test input that is not part of the repository; `TOOLCRIB_CORPUS` names the folder.

use std::path::PathBuf;
use std::{env, fs};

/// The JSON files of one folder of the corpus, sorted. `None`, said loudly, when there is no corpus.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like one that ran")]
pub(crate) fn files(part: &str) -> Option<Vec<PathBuf>> {
    let Some(root) = env::var_os("TOOLCRIB_CORPUS") else {
        eprintln!("SKIPPED: TOOLCRIB_CORPUS is not set, so the corpus `{part}` was not looked at");
        return None;
    };
    let entries = fs::read_dir(PathBuf::from(root).join(part)).expect("TOOLCRIB_CORPUS names the corpus folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Some(files)
}
