//! Runs the real program and checks its output, its streams and its exit codes.

mod agt;
mod agt_index;
mod agt_js;
mod agt_options;
mod agt_publish;
mod agt_tools;
mod architecture;
mod asking;
mod bazaar;
mod calling;
mod conformance;
mod custom_networks;
mod dev;
mod discovery;
mod embedding;
mod exit_codes;
mod fix;
mod formats;
mod hash;
mod hostile;
mod init;
mod lint;
#[cfg(target_os = "linux")]
mod local;
#[cfg(target_os = "linux")]
mod local_secrets;
#[cfg(target_os = "linux")]
mod local_settings;
mod machines;
mod networks;
mod new;
mod objects;
mod onchain;
mod pinned;
mod publish;
mod recovery;
mod schema;
mod serving;
mod settings;
mod shell;
mod trust;
mod watch;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

/// An isolated folder for one test: no settings and no variables of the machine.
pub(crate) struct Sandbox {
    root: TempDir,
}

/// The result of running the program.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().expect("a temporary folder");
        fs::create_dir_all(root.path().join("project")).expect("a folder to work in");
        fs::create_dir_all(root.path().join("home")).expect("a home folder");
        Self { root }
    }

    /// The folder that commands run in.
    pub(crate) fn path(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// The home folder of the user who runs commands.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes a file below the working folder.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        write(&self.path().join(name), bytes.as_ref())
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).expect("a readable text file")
    }

    /// A command ready to run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
        command.args(arguments).current_dir(self.path()).env_clear().env("HOME", self.home());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        finish(&mut self.command(arguments), b"")
    }

    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> RunOutput {
        finish(self.command(arguments).stdin(Stdio::piped()), stdin)
    }

    pub(crate) fn run_with_env(&self, arguments: &[&str], variables: &[(&str, &str)]) -> RunOutput {
        finish(self.command(arguments).envs(variables.iter().copied()), b"")
    }

    /// Runs with `--json`, checks the envelope, and returns the exit code and the envelope.
    #[track_caller]
    pub(crate) fn run_json(&self, arguments: &[&str]) -> (i32, Value) {
        let ran = self.run(&[arguments, &["--json"]].concat());
        let envelope: Value = serde_json::from_str(&ran.stdout).expect("stdout is one JSON value");
        let keys: Vec<_> = envelope.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["schema_version", "success", "data", "errors", "warnings"]);
        assert_eq!(envelope["schema_version"], 1);
        assert_eq!(envelope["success"], ran.code == 0, "success is exit code 0");
        assert_eq!(ran.code == 2, envelope["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{envelope:#}");
        (ran.code, envelope)
    }

    /// The text with the path of the sandbox replaced.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(&self.root.path().display().to_string(), "[ROOT]")
    }
}

impl RunOutput {
    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "{self:#?}");
        self
    }

    /// Checks that stderr is empty.
    #[track_caller]
    pub(crate) fn silent(self) -> Self {
        assert_eq!(self.stderr, "");
        self
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command, stdin: &[u8]) -> RunOutput {
    let mut child = command.spawn().expect("the program starts");
    let pipe = child.stdin.take();
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            if let Some(mut pipe) = pipe {
                // The program may stop reading early.
                let _ = pipe.write_all(stdin);
            }
        });
        child.wait_with_output().expect("the program ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    RunOutput { code: output.status.code().expect("no signal"), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Writes a file and the folders it needs.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> PathBuf {
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("folders");
    fs::write(path, bytes).expect("a file");
    path.to_owned()
}

/// The code that creates a contract without constructor arguments, as hex.
pub(crate) fn init_code(contract: &str) -> String {
    toolcrib_contracts::artifact(contract).expect("a contract").init_code(&[]).to_string()
}

/// The examples that come with the project.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The text of one example, with a host that causes no findings.
pub(crate) fn example(name: &str) -> String {
    let text = fs::read_to_string(examples().join(name)).expect("an example");
    text.replace(".example.com", ".harbour-office.org")
}
