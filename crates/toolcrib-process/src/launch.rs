//! The launcher: the process between the host and a program. It restricts the program and outlives it.
//!
//! The host starts the launcher, which becomes the supervisor of one program. It enters the control groups, sets the limits, restricts one
//! of its threads with Landlock and seccomp, and starts the program from this thread, so that the program inherits the restrictions. The
//! supervisor itself stays unrestricted, and the program cannot access it. It adopts all descendants of the program, kills them when the
//! program ends, and kills everything when the host dies. A plain `exec` could not do this: a parent-death signal is sent to the program
//! only and not to its descendants.
//!
//! With bubblewrap the program is started through a second launcher inside the namespaces, which restricts itself and executes the program:
//! bubblewrap cannot set up namespaces under Landlock.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::spec::Limits;

/// The exit code of a launcher that could not apply the sandbox and did not start the program. High enough that few programs use it, and
/// below the codes that shells use.
pub const EXIT_REFUSED: u8 = 121;

/// The exit code of a launcher that could not execute the program.
pub const EXIT_NOT_STARTED: u8 = 122;

/// The prefix of the program's variables in the environment of the launcher: `LD_PRELOAD` and similar ones must not affect the launcher,
/// which is not restricted. They are not arguments, because all users of a machine can read those.
pub(crate) const VARIABLE_PREFIX: &str = "PROGRAM_ENV_";

/// The program that restricts and supervises programs: its path and its leading arguments.
///
/// It must call [`launcher_main`] with the arguments after those, before it starts a thread or opens a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    program: PathBuf,
    leading_arguments: Vec<String>,
}

impl Launcher {
    /// A launcher at an absolute path.
    pub fn new(program: impl Into<PathBuf>, leading_arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { program: program.into(), leading_arguments: leading_arguments.into_iter().map(Into::into).collect() }
    }

    /// The path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The leading arguments.
    pub fn leading_arguments(&self) -> &[String] {
        &self.leading_arguments
    }
}

/// The host's instructions for a launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) stage: Stage,
    /// The process id of the host.
    pub(crate) host: i32,
    /// The launcher itself, for the second stage.
    pub(crate) launcher: PathBuf,
    pub(crate) leading_arguments: Vec<String>,
    /// `None`: the program is supervised and limited, but not restricted.
    pub(crate) policy: Option<Policy>,
    /// The Landlock ABI that the host has measured and reported. A launcher that cannot apply it refuses.
    pub(crate) landlock_abi: i32,
    pub(crate) seccomp: bool,
    pub(crate) limits: Limits,
    /// Control groups to enter.
    pub(crate) groups: Vec<PathBuf>,
    /// The control group that can be killed with all its processes.
    pub(crate) kill_group: Option<PathBuf>,
    /// Whether the watchdog must enforce the memory limit, because no control group does.
    pub(crate) watch_memory: bool,
    pub(crate) watch_processes: bool,
}

/// The role of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    /// The child of the host.
    Supervise,
    /// The launcher inside the namespaces of bubblewrap.
    Restrict,
}

/// The name of a variable in the environment of the launcher.
pub(crate) fn prefixed(name: &OsStr) -> OsString {
    let mut prefixed = OsString::from(VARIABLE_PREFIX);
    prefixed.push(name);
    prefixed
}

/// Runs the launcher with the arguments after the [leading ones](Launcher::leading_arguments).
///
/// Returns when the program has ended. If the policy cannot be applied completely, it returns [`EXIT_REFUSED`], and if the program cannot
/// be executed, [`EXIT_NOT_STARTED`], each with a message on standard error. The program never runs unrestricted instead.
///
/// Call it at the start of `main`, on the main thread.
pub fn launcher_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(target_os = "linux")]
    return crate::linux::launcher(arguments);
    #[cfg(not(target_os = "linux"))]
    {
        use std::io::Write as _;
        drop(arguments);
        // If standard error is closed, the launcher refuses all the same.
        let _ = writeln!(std::io::stderr(), "sandbox: this system has no sandbox");
        ExitCode::from(EXIT_REFUSED)
    }
}
