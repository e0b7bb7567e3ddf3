//! Why the index could not tell.

use toolcrib_core::codes::{self, Code};

/// Why the index could not do what it was asked to. What a stranger's tool does wrong is no error: that is a finding in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] toolcrib_store::Error),
    /// A node, or what it said.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// The database holds something that this program never writes.
    #[error("the index holds an impossible {what}")]
    Corrupt {
        /// What cannot be read.
        what: &'static str,
    },
    /// The changes since a cursor are no longer kept.
    #[error("the changes after {cursor} are no longer kept; the oldest is {oldest}")]
    Forgotten {
        /// The cursor.
        cursor: i64,
        /// The oldest change that is kept.
        oldest: i64,
    },
}

impl Error {
    /// Its code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Chain(error) => error.code(),
            Self::Corrupt { .. } => codes::store::CORRUPT,
            Self::Forgotten { .. } => codes::index::FORGOTTEN,
        }
    }
}
