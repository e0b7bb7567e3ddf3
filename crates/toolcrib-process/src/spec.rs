//! The program to run, and its limits.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::Policy;

/// Memory of a program and everything that it starts, in bytes. Node starts with 40 to 60 MiB and a Python program with common libraries
/// with 100 MiB; half a gibibyte leaves room for data and still permits eight programs side by side on a small machine.
pub const DEFAULT_MEMORY: u64 = 512 * 1024 * 1024;

/// Processes and threads of a program. Node alone has about eleven threads; a shell pipeline with a compiler stays far below.
pub const DEFAULT_PROCESSES: u64 = 64;

/// The largest file that a program may write, in bytes. Larger than a document or an image, smaller than a disk.
pub const DEFAULT_FILE_SIZE: u64 = 64 * 1024 * 1024;

/// Open file descriptors of each process: the default of most systems, and the limit of `select`.
pub const DEFAULT_OPEN_FILES: u64 = 1_024;

/// A program to run.
#[derive(Clone)]
pub struct ProgramSpec {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, without the name of the program.
    pub arguments: Vec<OsString>,
    /// Its complete environment. Nothing of this process's environment is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; that of this process if absent.
    pub folder: Option<PathBuf>,
    /// Its restrictions.
    pub sandbox: SandboxMode,
    /// Its limits.
    pub limits: Limits,
}

impl ProgramSpec {
    /// A program without arguments and environment, with the default policy and limits.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            sandbox: SandboxMode::On(Policy::default()),
            limits: Limits::default(),
        }
    }
}

/// Omits arguments and variables: either may hold a secret.
impl fmt::Debug for ProgramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = (&self.program, &self.folder, &self.sandbox, &self.limits);
        f.debug_struct("ProgramSpec")
            .field("program", fields.0)
            .field("folder", fields.1)
            .field("sandbox", fields.2)
            .field("limits", fields.3)
            .finish_non_exhaustive()
    }
}

/// Whether a program is restricted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// The program has all rights of this process's user.
    Off,
    /// The program has the rights of the policy and no others.
    On(Policy),
}

impl SandboxMode {
    /// The policy, if there is one.
    pub const fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Off => None,
            Self::On(policy) => Some(policy),
        }
    }
}

/// Limits on the resources of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Memory of the program and everything that it starts, in bytes.
    pub memory: Option<u64>,
    /// Processes and threads of the program and everything that it starts.
    pub processes: Option<u64>,
    /// The largest file that each process may write, in bytes.
    pub file_size: Option<u64>,
    /// Open file descriptors of each process.
    pub open_files: u64,
    /// CPU time of each process.
    pub cpu: Option<Duration>,
}

impl Limits {
    /// No limits except for the usual number of file descriptors.
    pub const UNLIMITED: Self =
        Self { memory: None, processes: None, file_size: None, open_files: DEFAULT_OPEN_FILES, cpu: None };
}

impl Default for Limits {
    /// Memory, processes and file sizes are limited. CPU time is not: a call has its own time limit, and a process that serves many calls
    /// exceeds any total.
    fn default() -> Self {
        Self {
            memory: Some(DEFAULT_MEMORY),
            processes: Some(DEFAULT_PROCESSES),
            file_size: Some(DEFAULT_FILE_SIZE),
            open_files: DEFAULT_OPEN_FILES,
            cpu: None,
        }
    }
}
