//! How a command ends: with an answer, or with a reason why there is none.

use std::io;
use std::process::ExitCode;

use serde_json::Value;
use toolcrib_core::codes::{self, Code};

/// The answers that an exit code can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// 0: the answer is yes, or the work is done.
    Yes,
    /// 1: the answer is no.
    No,
    /// 2: there is no answer: wrong usage, unreadable files, a full disk.
    CouldNotTell,
    /// 3: there is no answer for now: a directory wants no more questions.
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

/// A command that came to its end.
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

/// Why a command stopped before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The answer was found on the way.
    Done(Done),
    /// Something that the user should know.
    Failure(Failure),
    /// Whoever read our output has seen enough. That is no failure.
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
    /// For errors of writing to stdout and stderr; errors about files are made with more to say.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Failure(Failure::new(codes::cli::OUTPUT, format!("cannot write the result: {error}"))),
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Which kind of failure this is.
    pub(crate) code: Code,
    /// One sentence: lowercase start, no full stop. May hold foreign text.
    pub(crate) message: String,
    /// What to do next, when it is not what the code says.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure with the hint that its code has.
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
