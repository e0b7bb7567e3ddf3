//! Errors of the index.

use toolcrib_core::codes::{self, Code};

/// Why an operation of the index failed. A tool's own mistakes are not errors: they are findings in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] toolcrib_store::Error),
    /// The object store failed, or an object in it is damaged.
    #[error(transparent)]
    Objects(#[from] toolcrib_store::objects::Error),
    /// Evidence is in an object store, and this process has none configured.
    #[error("the evidence is in an object store that is not configured for this process")]
    ObjectsUnset,
    /// An RPC node failed, or sent an invalid response.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// The database has a value that this program never writes.
    #[error("the index contains an invalid {what}")]
    Corrupt {
        /// The value that cannot be read.
        what: &'static str,
    },
    /// A pagination cursor that this index did not issue, or that belongs to another query.
    #[error("the cursor does not match this query")]
    Cursor,
    /// Another process has the lease of this registry now. Nothing was written.
    #[error("another process took over following this registry")]
    LeaseLost,
    /// Responses of nodes contradict each other. This is temporary: a node is behind, or the chain reorganises.
    #[error("the RPC node's answers are inconsistent: {what}")]
    Inconsistent {
        /// The contradiction.
        what: &'static str,
    },
    /// A node leaves out logs, and neither another node nor another request returns them. Nothing after the gap is indexed.
    #[error("logs are missing between block {from} and block {to}: {what}")]
    Incomplete {
        /// How the gap was detected.
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
    /// The input of an import is not an export, or has a version that this program does not know.
    #[error("the file is not a readable index export: {reason}")]
    ExportVersion {
        /// Why.
        reason: &'static str,
    },
    /// The input of an import is damaged. Nothing was imported.
    #[error("line {line} of the export is damaged: {reason}")]
    ExportDamaged {
        /// Which line, counted from 1.
        line: u64,
        /// Why.
        reason: &'static str,
    },
    /// The input of an import contradicts existing rows. Nothing was imported.
    #[error("the index already has another registry with id {registry}, or this registry with another id")]
    ImportConflict {
        /// The number in the export.
        registry: i64,
    },
    /// The list of names is larger than the limit. The list that was read before stays.
    #[error("the list of names exceeds the limit of {limit}")]
    NamesTooMany {
        /// The limit, with its unit.
        limit: &'static str,
    },
    /// A file operation failed.
    #[error("{what}: {error}")]
    File {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Another process uses the folder of the search index.
    #[error("the search index in {folder} is in use by another process")]
    SearchLocked {
        /// The folder.
        folder: String,
    },
    /// The search index is not built yet, or is being rebuilt after damage.
    #[error("search is not ready yet")]
    NotReady,
    /// The search index cannot be read or written.
    #[error("the search index failed: {reason}")]
    Search {
        /// The error of the search engine or of the operating system.
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
    /// Returns the code of this error.
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

    /// Whether a retry may succeed without any change to the configuration or the data.
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
