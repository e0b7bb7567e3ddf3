//! What can be wrong with settings. Nothing a server does ends up here: that is [`Failure`](toolcrib_judge::evidence::Failure).

use toolcrib_core::codes::{self, Code};

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A certificate authority is not an X.509 certificate.
    #[error("the certificate authority cannot be parsed: {reason}")]
    Authority {
        /// What is wrong with it.
        reason: String,
    },
    /// A URL in the settings. Its text is not repeated: it may hold a secret.
    #[error("the URL in the settings is not allowed: {reason}")]
    ConfiguredUrl {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header that cannot be sent. Its value is not repeated: it may hold a secret.
    #[error("the header `{name}` is not allowed: {reason}")]
    Header {
        /// The name of the header, escaped.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Authority { .. } => codes::fetch::AUTHORITY_UNREADABLE,
            Self::ConfiguredUrl { .. } => codes::fetch::CONFIGURED_URL,
            Self::Header { .. } => codes::fetch::HEADER_REFUSED,
        }
    }
}
