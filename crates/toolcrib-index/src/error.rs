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
    /// What was to be imported is no export, or one of a version that this program does not know.
    #[error("this is no export of an index that this program can read: {reason}")]
    ExportVersion {
        /// Why.
        reason: &'static str,
    },
    /// What was to be imported is damaged. Nothing was imported.
    #[error("line {line} of the export is damaged: {reason}")]
    ExportDamaged {
        /// Which line, counted from 1.
        line: u64,
        /// Why.
        reason: &'static str,
    },
    /// What was to be imported does not fit what is there. Nothing was imported.
    #[error("the index already holds another registry under number {registry}, or this one under another number")]
    ImportConflict {
        /// The number in the export.
        registry: i64,
    },
    /// A file.
    #[error("{what}: {error}")]
    File {
        /// What was done.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
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
            Self::ExportVersion { .. } => codes::index::EXPORT_VERSION,
            Self::ExportDamaged { .. } => codes::index::EXPORT_DAMAGED,
            Self::ImportConflict { .. } => codes::index::IMPORT_CONFLICT,
            Self::File { .. } => codes::index::FILE,
        }
    }
}
