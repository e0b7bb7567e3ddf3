//! The record of skipped tests.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Names the file that records skipped tests.
const RECORD: &str = "TOOLCRIB_SKIPPED";

/// Records that the calling test is skipped, wholly or in part, because `input` is missing.
///
/// Call it on the thread of the test: the harness names that thread after the test, and there is no other way to learn the
/// name. `input` is a short word that is the same for all tests that need it, such as `corpus`; `./test` decides by this word
/// whether the skip is acceptable.
///
/// # Panics
///
/// If the record cannot be written: an unrecorded skip would count as a pass.
pub fn skip(input: &str, reason: &str) {
    let thread = std::thread::current();
    let line = line(input, &program(), thread.name().unwrap_or("unnamed"), reason);
    match std::env::var_os(RECORD) {
        Some(file) => append(Path::new(&file), &line).unwrap_or_else(|error| panic!("{RECORD}={}: {error}", file.display())),
        // Not `eprintln!`: the harness hides what passing tests print with it.
        None => drop(writeln!(io::stderr(), "\nSKIPPED: {line}")),
    }
}

/// One line: input, test binary, test, reason, separated by tabs.
fn line(input: &str, program: &str, test: &str, reason: &str) -> String {
    [input, program, test, reason].map(|field| field.replace(['\t', '\n', '\r'], " ")).join("\t")
}

/// Appends in a single write, so that lines of parallel tests and processes never mix.
fn append(file: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(format!("{line}\n").as_bytes())
}

/// The path of the test binary below cargo's target folder, as cargo prints it: `deps/it-0123456789abcdef`.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("unknown"));
    let mut parts: Vec<_> = path.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.reverse();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Skips this test if a parent process asks for it. Otherwise it has nothing to do.
    #[test]
    fn child() {
        if std::env::var_os("TOOLCRIB_TESTKIT_CHILD").is_some() {
            skip("corpus", "one\nreason\twith control characters");
            skip("anvil", "another");
        }
    }

    #[test]
    fn a_skip_is_recorded_with_the_name_of_the_test() {
        let file = std::env::temp_dir().join(format!("toolcrib-skipped-{}", std::process::id()));
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        // With one thread the harness runs tests on its main thread, which is not named after a test.
        command.args(["skip::tests::child", "--exact", "--test-threads=2"]);
        let output = command.env("TOOLCRIB_TESTKIT_CHILD", "1").env(RECORD, &file).output().expect("the test runs");
        assert!(output.status.success(), "{output:?}");
        let record = std::fs::read_to_string(&file).expect("a record");
        std::fs::remove_file(&file).expect("removed");
        let program = program();
        assert!(program.starts_with("deps/toolcrib_testkit-"), "{program}");
        let expected = format!(
            "corpus\t{program}\tskip::tests::child\tone reason with control characters\nanvil\t{program}\tskip::tests::child\tanother\n"
        );
        assert_eq!(record, expected);
    }

    #[test]
    fn without_a_file_the_record_goes_to_standard_error_past_the_harness() {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["skip::tests::child", "--exact", "--test-threads=2"]);
        let output = command.env("TOOLCRIB_TESTKIT_CHILD", "1").env_remove(RECORD).output().expect("the test runs");
        assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("SKIPPED: corpus\t"), "{output:?}");
    }

    #[test]
    fn a_record_that_cannot_be_written_fails_the_test() {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["skip::tests::child", "--exact", "--test-threads=2"]);
        let output = command.env("TOOLCRIB_TESTKIT_CHILD", "1").env(RECORD, "/nonexistent/file").output().expect("the test runs");
        assert!(!output.status.success(), "{output:?}");
    }
}
