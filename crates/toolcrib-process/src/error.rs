//! Errors.

use std::io;
use std::path::PathBuf;

use toolcrib_core::codes::{self, Code};

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The operating system returned an error.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program or the launcher.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The path of the program is not absolute.
    #[error("cannot start {}: the path is not absolute", program.display())]
    Program {
        /// The path.
        program: PathBuf,
    },
    /// A sandbox is required, but there is no launcher to apply it.
    #[error("cannot start a sandboxed program without a launcher")]
    Launcher,
    /// The system cannot restrict programs.
    #[error("cannot sandbox {}: {reason}", program.display())]
    Unavailable {
        /// The program.
        program: PathBuf,
        /// The missing feature.
        reason: &'static str,
    },
    /// The policy requires bubblewrap, which was not found.
    #[error("the policy asks for bubblewrap, and {} is not an executable file", program.display())]
    Bubblewrap {
        /// The path that was tried.
        program: PathBuf,
    },
    /// A path of the policy.
    #[error("the sandbox policy cannot use the path {}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// An environment variable or an argument. Neither is quoted: both may hold a secret.
    #[error("cannot pass {what} to a program: {reason}")]
    Environment {
        /// The variable or argument, without its value.
        what: String,
        /// The problem.
        reason: &'static str,
    },
}

impl SpawnError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Start { .. } => codes::sandbox::START,
            Self::Program { .. } => codes::sandbox::PROGRAM,
            Self::Launcher => codes::sandbox::LAUNCHER,
            Self::Unavailable { .. } => codes::sandbox::UNAVAILABLE,
            Self::Bubblewrap { .. } => codes::sandbox::BUBBLEWRAP,
            Self::Path { .. } => codes::sandbox::PATH,
            Self::Environment { .. } => codes::sandbox::ENVIRONMENT,
        }
    }
}

/// Why a program has no exit status of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The launcher could not apply the sandbox. The program did not run.
    #[error("the launcher could not apply the sandbox and did not start the program; its standard error says why")]
    Refused,
    /// The launcher could not execute the program. The program did not run.
    #[error("the launcher could not execute the program; its standard error says why")]
    NotStarted,
    /// The operating system returned an error.
    #[error("cannot wait for the program: {source}")]
    Wait {
        /// The reason.
        #[from]
        source: io::Error,
    },
}

impl WaitError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Refused => codes::sandbox::REFUSED,
            Self::NotStarted => codes::sandbox::NOT_STARTED,
            Self::Wait { .. } => codes::sandbox::WAIT,
        }
    }
}
