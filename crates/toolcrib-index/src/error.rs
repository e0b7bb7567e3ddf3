//! Why the index could not tell.

use toolcrib_core::codes::{self, Code};

/// Why the index could not do what it was asked to. What a stranger's tool does wrong is no error: that is a finding in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] toolcrib_store::Error),
    /// The object store, or an object in it.
    #[error(transparent)]
    Objects(#[from] toolcrib_store::objects::Error),
    /// Evidence is in an object store, and this process was given none.
    #[error("the evidence is in an object store that is not configured for this process")]
    ObjectsUnset,
    /// A node, or what it said.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// The database holds something that this program never writes.
    #[error("the index contains an invalid {what}")]
    Corrupt {
        /// What cannot be read.
        what: &'static str,
    },
    /// A cursor that no answer gave, or that belongs to another search.
    #[error("the cursor does not match this query")]
    Cursor,
    /// Another follows this registry now. Nothing was written.
    #[error("another process took over following this registry")]
    LeaseLost,
    /// What nodes say does not fit together, which passes: they are behind, or the chain is changing its mind.
    #[error("the RPC node's answers are inconsistent: {what}")]
    Inconsistent {
        /// What does not fit.
        what: &'static str,
    },
    /// A node left logs out, and no other node and no other question gives them. Nothing is taken in over the gap.
    #[error("logs are missing between block {from} and block {to}: {what}")]
    Incomplete {
        /// How it shows.
        what: &'static str,
        /// The first block that they can be in.
        from: u64,
        /// The last block that they can be in.
        to: u64,
    },
    /// The changes since a cursor are no longer kept.
    #[error("the changes after cursor {cursor} are no longer kept; the oldest is {oldest}")]
    Forgotten {
        /// The cursor.
        cursor: i64,
        /// The oldest change that is kept.
        oldest: i64,
    },
    /// What was to be imported is no export, or one of a version that this program does not know.
    #[error("the file is not a readable index export: {reason}")]
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
    #[error("the index already has another registry with id {registry}, or this registry with another id")]
    ImportConflict {
        /// The number in the export.
        registry: i64,
    },
    /// The list of names is larger than is read. The list that was read before stays.
    #[error("the list of names exceeds the limit of {limit}")]
    NamesTooMany {
        /// The limit, with its unit.
        limit: &'static str,
    },
    /// A file.
    #[error("{what}: {error}")]
    File {
        /// What was done.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
    /// The folder of the search index is in use by another process.
    #[error("the search index in {folder} is in use by another process")]
    SearchLocked {
        /// The folder.
        folder: String,
    },
    /// The search index was not built yet, or is being built again after damage.
    #[error("search is not ready yet")]
    NotReady,
    /// The search index cannot be read or written.
    #[error("the search index failed: {reason}")]
    Search {
        /// Why, in the words of the engine or of the system.
        reason: String,
    },
    /// The embedding file cannot be used.
    #[error("the embedding in {folder} cannot be used: {reason}")]
    Embedding {
        /// The folder.
        folder: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Its code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Chain(error) => error.code(),
            Self::Objects(error) => error.code(),
            Self::ObjectsUnset => codes::objects::NOT_CONFIGURED,
            Self::Corrupt { .. } => codes::store::CORRUPT,
            Self::Cursor => codes::index::CURSOR,
            Self::LeaseLost => codes::index::LEASE_LOST,
            Self::Inconsistent { .. } => codes::index::INCONSISTENT,
            Self::Incomplete { .. } => codes::index::INCOMPLETE,
            Self::Forgotten { .. } => codes::index::CURSOR_EXPIRED,
            Self::ExportVersion { .. } => codes::index::EXPORT_VERSION,
            Self::ExportDamaged { .. } => codes::index::EXPORT_DAMAGED,
            Self::ImportConflict { .. } => codes::index::IMPORT_CONFLICT,
            Self::NamesTooMany { .. } => codes::agent::LIST_TOO_LARGE,
            Self::File { .. } => codes::index::FILE,
            Self::SearchLocked { .. } => codes::index::SEARCH_LOCKED,
            Self::NotReady => codes::index::NOT_READY,
            Self::Search { .. } => codes::index::SEARCH,
            Self::Embedding { .. } => codes::index::EMBEDDING,
        }
    }

    /// Whether the same may succeed later without anybody changing anything.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::Objects(error) => error.is_retryable(),
            Self::Chain(toolcrib_chain::Error::Transport { fault, .. }) => {
                !matches!(fault, toolcrib_chain::rpc::TransportFault::WrongChain { .. })
            }
            Self::Chain(toolcrib_chain::Error::Refused { .. })
            | Self::LeaseLost
            | Self::Inconsistent { .. }
            | Self::Incomplete { .. }
            | Self::NotReady => true,
            Self::Chain(_)
            | Self::Corrupt { .. }
            | Self::Cursor
            | Self::Embedding { .. }
            | Self::ExportDamaged { .. }
            | Self::ExportVersion { .. }
            | Self::File { .. }
            | Self::ImportConflict { .. }
            | Self::Forgotten { .. }
            | Self::NamesTooMany { .. }
            | Self::ObjectsUnset
            | Self::Search { .. }
            | Self::SearchLocked { .. } => false,
        }
    }
}
