//! Errors of installing, updating and removing tools.

use std::io;
use std::path::{Path, PathBuf};

use toolcrib_core::codes::{Code, install as code};
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::text::escape_for_display;

use super::ArchiveError;
use crate::local::{ContentHash, FolderError};

/// An error of installing, updating or removing a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", escape_for_display(&path.to_string_lossy()))]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder of the tool cannot be hashed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The archive is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The manifest is missing or has errors.
    #[error("the manifest of the tool has errors: {}", findings.iter().find(|finding| finding.severity == Severity::Error).map_or("it is missing", |finding| finding.message.as_str()))]
    Manifest {
        /// The findings. Empty if there is no manifest.
        findings: Vec<Finding>,
    },
    /// The source is an MCP server, whose tools must be listed first.
    #[error("the source is an MCP server and not a tool folder: import it")]
    NeedsListing,
    /// A tool with this id is installed already.
    #[error("a tool called {id} is already installed as {existing}")]
    Exists {
        /// The id.
        id: String,
        /// The existing folder.
        existing: String,
    },
    /// The lock file does not list the tool.
    #[error("{} was not installed", escape_for_display(id))]
    NotInstalled {
        /// The id.
        id: String,
    },
    /// The content does not have the pinned hash.
    #[error("the content hash is {found}, expected {expected}")]
    Digest {
        /// The pinned hash.
        expected: ContentHash,
        /// The hash of the source.
        found: ContentHash,
    },
    /// The source now contains another tool.
    #[error("the source holds {found}, expected {expected}")]
    IdChanged {
        /// The installed id.
        expected: String,
        /// The id of the source.
        found: String,
    },
    /// The installed folder was modified locally.
    #[error("{id} was changed since it was installed: the content hash is {found}, expected {expected}")]
    ChangedLocally {
        /// The id.
        id: String,
        /// The hash in the lock file.
        expected: ContentHash,
        /// The hash of the folder.
        found: String,
    },
    /// The lock file or a journal is invalid.
    #[error("{}: {problem}", escape_for_display(&path.to_string_lossy()))]
    Lock {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The URL of the repository is refused.
    #[error("{}: {problem}", escape_for_display(url))]
    GitUrl {
        /// The URL.
        url: String,
        /// Why.
        problem: String,
    },
    /// git failed.
    #[error("git could not fetch the repository: {0}")]
    Git(String),
    /// git exceeded its time or space limit.
    #[error("fetching the repository was ended: {0}")]
    GitLimit(String),
    /// The subfolder is not in the repository.
    #[error("the repository has no folder {}", escape_for_display(subfolder))]
    Subfolder {
        /// The subfolder.
        subfolder: String,
    },
}

impl InstallError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Io { .. } => code::IO,
            Self::Folder(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::Manifest { .. } => code::MANIFEST,
            Self::NeedsListing => code::NEEDS_LISTING,
            Self::Exists { .. } => code::EXISTS,
            Self::NotInstalled { .. } => code::NOT_INSTALLED,
            Self::Digest { .. } => code::DIGEST,
            Self::IdChanged { .. } => code::ID_CHANGED,
            Self::ChangedLocally { .. } => code::CHANGED_LOCALLY,
            Self::Lock { .. } => code::LOCK,
            Self::GitUrl { .. } => code::GIT_URL,
            Self::Git(_) => code::GIT,
            Self::GitLimit(_) => code::GIT_LIMIT,
            Self::Subfolder { .. } => code::SOURCE,
        }
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}
