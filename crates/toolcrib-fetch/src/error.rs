//! Errors in settings. Failures of servers are a [`Failure`](toolcrib_judge::evidence::Failure) instead.

use toolcrib_core::codes::{self, Code};

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A certificate authority is not an X.509 certificate.
    #[error("the certificate authority cannot be parsed: {reason}")]
    Authority {
        /// What is wrong with it.
        reason: String,
    },
    /// An invalid URL in the settings. Its text is not repeated, because it may contain a secret.
    #[error("the URL in the settings is not allowed: {reason}")]
    ConfiguredUrl {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An invalid header. Its value is not repeated, because it may contain a secret.
    #[error("the header `{name}` is not allowed: {reason}")]
    Header {
        /// The name of the header, escaped.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Authority { .. } => codes::fetch::AUTHORITY_UNREADABLE,
            Self::ConfiguredUrl { .. } => codes::fetch::CONFIGURED_URL,
            Self::Header { .. } => codes::fetch::HEADER_REFUSED,
        }
    }
}
