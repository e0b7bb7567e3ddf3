//! Errors of writing and verifying the log.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;
use toolcrib_core::codes::{self, Code};

use super::{Head, MAX_LINE_BYTES};
use crate::local::StateFileError;

/// An error of the audit log. A call whose start cannot be recorded must not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// A record does not fit into a line.
    #[error("the audit line has {bytes} bytes; the limit is {MAX_LINE_BYTES}")]
    LineTooLong {
        /// Bytes of the line.
        bytes: usize,
    },
    /// The log cannot be continued after its last line.
    #[error("the last line of {} cannot be continued: {cause}", path.display())]
    Tail {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: BreakCause,
    },
    /// Lines of earlier calls could not be synced to disk.
    #[error("lines of earlier calls may not be on the disk: {why}")]
    NotSynced {
        /// The error of that sync.
        why: String,
    },
    /// The chain is broken.
    #[error(transparent)]
    Broken(#[from] Break),
    /// The log does not contain the expected head.
    #[error("the log does not contain line {} with {}; it ends with line {}", expected.seq, expected.hash, found.seq)]
    Head {
        /// The expected head, noted earlier.
        expected: Head,
        /// The head of the log.
        found: Head,
    },
}

impl AuditError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        use codes::audit as code;
        match self {
            Self::File(StateFileError::Busy { .. }) => code::BUSY,
            Self::File(StateFileError::Exposed { .. } | StateFileError::Owner { .. }) => code::EXPOSED,
            Self::File(StateFileError::NotRegular { .. }) => code::NOT_A_FILE,
            Self::File(StateFileError::Io { .. } | StateFileError::TooLarge { .. }) | Self::NotSynced { .. } => code::STORAGE,
            Self::LineTooLong { .. } => code::LINE_TOO_LONG,
            Self::Tail { .. } => code::TAIL_INVALID,
            Self::Broken(_) => code::CHAIN_BROKEN,
            Self::Head { .. } => code::HEAD_MISMATCH,
        }
    }
}

/// Where the chain breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}:{line}: {why}", file.display())]
pub struct Break {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: BreakCause,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakCause {
    /// It is longer than any line that is written.
    TooLong,
    /// It is not a JSON object with `seq`, `prev` and `hash`.
    NotALine,
    /// Its bytes are not the canonical form: they were changed without changing the JSON value.
    NotCanonical,
    /// Its hash does not match its content: the line was changed.
    Hash,
    /// It does not continue the previous line: lines were removed, inserted or moved.
    Previous,
    /// Its number does not follow that of the previous line.
    Sequence,
    /// It is incomplete, and other lines follow.
    Torn,
}

impl fmt::Display for BreakCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the line is longer than 65,536 bytes",
            Self::NotALine => "the line is not an audit line",
            Self::NotCanonical => "the line is not in canonical form",
            Self::Hash => "the hash does not match the content of the line",
            Self::Previous => "the line does not continue the line before",
            Self::Sequence => "the number of the line does not follow the line before",
            Self::Torn => "the line is incomplete",
        })
    }
}
