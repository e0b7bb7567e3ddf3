//! Errors of object stores.

use std::error::Error as _;
use std::io::ErrorKind;

use toolcrib_core::codes::{self, Code};

/// Why an operation of an object store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The setting of the object store is invalid.
    #[error("the object store setting is not usable: {reason}")]
    Location {
        /// Why, without repeating it.
        reason: &'static str,
    },
    /// The store does not respond, or is temporarily unavailable.
    #[error("the object store does not answer: {detail}")]
    Unavailable {
        /// What the client says.
        detail: String,
    },
    /// The store refuses: wrong credentials, a missing permission, or no such bucket.
    #[error("the object store denies access: {detail}")]
    Refused {
        /// What the client says.
        detail: String,
    },
    /// The store is full or read-only.
    #[error("the object store is full or read-only: {detail}")]
    Full {
        /// What the system says.
        detail: String,
    },
    /// An object is missing.
    #[error("the object {key} is missing")]
    Absent {
        /// Its key.
        key: String,
    },
    /// An object differs from what was written.
    #[error("the object {key} is damaged: {reason}")]
    Damaged {
        /// Its key.
        key: String,
        /// How it differs.
        reason: &'static str,
    },
}

impl Error {
    /// Returns the code of the vocabulary.
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

    /// Whether the object is lost: missing or damaged.
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
            // The bucket, since a missing object was handled before.
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

/// Longest error text of a client: it may contain a server's response.
const MAX_DETAIL_CHARS: usize = 300;

/// Formats an error and its causes in one line. The client leaves out query and headers, which contain signatures.
fn told(error: &object_store::Error) -> String {
    error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_DETAIL_CHARS).collect()
}

const fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

/// Returns the system's message about a full or read-only disk.
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
