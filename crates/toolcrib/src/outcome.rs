//! How a command ends: with an answer, or with an error.

use std::io;
use std::process::ExitCode;

use serde_json::Value;
use toolcrib_core::codes::{self, Code};

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// 0: yes, or done.
    Yes,
    /// 1: no.
    No,
    /// 2: could not tell: wrong usage, unreadable files, a full disk.
    CouldNotTell,
    /// 3: rate limited by a directory.
    RateLimited,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Yes => Self::SUCCESS,
            Exit::No => Self::from(1),
            Exit::CouldNotTell => Self::from(2),
            Exit::RateLimited => Self::from(3),
        }
    }
}

/// A command that ended with an answer.
#[derive(Debug)]
pub(crate) struct Done {
    /// The answer.
    pub(crate) exit: Exit,
    /// What goes into `data` of the JSON envelope.
    pub(crate) data: Value,
}

impl Done {
    /// An answer with its data.
    pub(crate) const fn new(exit: Exit, data: Value) -> Self {
        Self { exit, data }
    }
}

/// Why a command stopped early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The answer is known already.
    Done(Done),
    /// An error to report.
    Failure(Failure),
    /// The reader of the output closed the pipe. That is not an error.
    BrokenPipe,
}

impl From<Done> for Stop {
    fn from(done: Done) -> Self {
        Self::Done(done)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<io::Error> for Stop {
    /// For errors of writing to stdout and stderr. Errors about files get more context where they occur.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Failure(Failure::new(codes::cli::OUTPUT, format!("cannot write the result: {error}"))),
        }
    }
}

/// An error that a command reports.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The error code.
    pub(crate) code: Code,
    /// One sentence: lowercase start, no full stop. May contain untrusted input.
    pub(crate) message: String,
    /// What to do next, if it differs from the hint of the code.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure with the hint of its code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Replaces the hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do next.
    pub(crate) fn what_next(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.info().hint)
    }
}
