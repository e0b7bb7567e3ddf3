//! Why an object store could not do what it was asked to.

use std::error::Error as _;
use std::io::ErrorKind;

use toolcrib_core::codes::{self, Code};

/// Why an object store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The setting names no object store that can be used.
    #[error("the object store setting is not usable: {reason}")]
    Location {
        /// What is wrong with it, without repeating it.
        reason: &'static str,
    },
    /// The store does not answer, or says that it cannot now.
    #[error("the object store does not answer: {detail}")]
    Unavailable {
        /// What the client says.
        detail: String,
    },
    /// The store refuses: wrong credentials, a missing right, or no such bucket.
    #[error("the object store denies access: {detail}")]
    Refused {
        /// What the client says.
        detail: String,
    },
    /// The store has no room, or only reads.
    #[error("the object store is full or read-only: {detail}")]
    Full {
        /// What the system says.
        detail: String,
    },
    /// An object is not there.
    #[error("the object {key} is missing")]
    Absent {
        /// Its key.
        key: String,
    },
    /// An object is not what was written.
    #[error("the object {key} is damaged: {reason}")]
    Damaged {
        /// Its key.
        key: String,
        /// How it shows.
        reason: &'static str,
    },
}

impl Error {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Location { .. } => codes::objects::LOCATION,
            Self::Unavailable { .. } => codes::objects::UNAVAILABLE,
            Self::Refused { .. } => codes::objects::REFUSED,
            Self::Full { .. } => codes::objects::FULL,
            Self::Absent { .. } => codes::objects::ABSENT,
            Self::Damaged { .. } => codes::objects::DAMAGED,
        }
    }

    /// Whether the same call may succeed later without a change of the settings.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// Whether the object is lost: missing, or not what was written.
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::Damaged { .. })
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        if let Some(detail) = full(&error) {
            return Self::Full { detail };
        }
        let detail = told(&error);
        match error {
            E::PermissionDenied { .. } | E::Unauthenticated { .. } | E::UnknownConfigurationKey { .. } => {
                Self::Refused { detail }
            }
            // The bucket, where an object that is missing was told apart before.
            E::NotFound { .. } => Self::Refused { detail },
            _ => Self::Unavailable { detail },
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let detail = error.to_string();
        if is_full(error.kind()) { Self::Full { detail } } else { Self::Unavailable { detail } }
    }
}

/// Longest text of a client that is kept: an answer of a server may be in it.
const MAX_DETAIL_CHARS: usize = 300;

/// An error and its causes in a line. The client leaves query and headers out, where signatures are.
fn told(error: &object_store::Error) -> String {
    error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_DETAIL_CHARS).collect()
}

const fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

/// What the system says about a disk that takes nothing.
fn full(error: &object_store::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>().filter(|io| is_full(io.kind())) {
            return Some(io.to_string());
        }
        cause = error.source();
    }
    None
}
