//! Errors.

use std::io;
use std::path::PathBuf;

use toolcrib_core::codes::{self, Code};

/// A program that was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The operating system refused.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// What was to be started: the program, or the launcher.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The program is not given by an absolute path.
    #[error("cannot start {}: the path is not absolute", program.display())]
    Program {
        /// The path.
        program: PathBuf,
    },
    /// A sandbox was asked for without a launcher that applies it.
    #[error("cannot start a sandboxed program without a launcher")]
    Launcher,
    /// The system has no means to restrict a program.
    #[error("cannot sandbox {}: {reason}", program.display())]
    Unavailable {
        /// The program.
        program: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// The policy asks for bubblewrap.
    #[error("the policy asks for bubblewrap, and {} is not an executable file", program.display())]
    Bubblewrap {
        /// Where it was looked for.
        program: PathBuf,
    },
    /// A path of the policy.
    #[error("the sandbox policy cannot use the path {}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A variable or an argument. Neither is repeated: both may hold a secret.
    #[error("cannot pass {what} to a program: {reason}")]
    Environment {
        /// Which one, without its value.
        what: String,
        /// What is wrong with it.
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

/// A program whose end is not that of the program itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The launcher could not apply the sandbox. The program did not run.
    #[error("the launcher could not apply the sandbox and did not start the program; its standard error says why")]
    Refused,
    /// The launcher could not execute the program. The program did not run.
    #[error("the launcher could not execute the program; its standard error says why")]
    NotStarted,
    /// The operating system did not tell.
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
