//! A settable clock, and processes that run one test of this binary.

use std::process::{Command, Output, Stdio};

use toolcrib_host::local::ContentHash;

/// A folder that only this user can access.
pub(crate) fn private_folder() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

pub(crate) fn content(byte: u8) -> ContentHash {
    ContentHash::new([byte; 32])
}

/// Runs the test `name` of this binary in a process, with `task` in the variable `variable`.
pub(crate) fn child(name: &str, variable: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments(name)).env(variable, task).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same, with files limited to one block: larger writes fail as on a full disk. The shell ignores the signal that would kill the
/// process, and ignored signals stay ignored across `exec`.
pub(crate) fn child_with_small_files(name: &str, variable: &str, task: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    command.args(arguments(name)).env(variable, task).output().unwrap()
}

fn arguments(name: &str) -> [String; 4] {
    ["--exact".to_owned(), name.to_owned(), "--nocapture".to_owned(), "--test-threads=1".to_owned()]
}

#[track_caller]
pub(crate) fn assert_success(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    // A name that does not exist runs no test and succeeds.
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}
