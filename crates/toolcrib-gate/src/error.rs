//! Why a server does not start.

use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;

/// A setting that would make a tool unverifiable or unsafe. The server does not start with it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The origin is invalid.
    #[error("{origin:?} is not an origin: {fault}")]
    Origin {
        /// The value of the setting.
        origin: String,
        /// Why it is invalid.
        fault: String,
        /// The code of the URL rule.
        code: Code,
    },
    /// Two origins have the same host.
    #[error("two origins have the host {host}")]
    HostTwice {
        /// The host.
        host: String,
    },
    /// The tool has no usable slug.
    #[error("{name:?} has no usable slug")]
    Slug {
        /// The tool's name, or the slug that was given.
        name: String,
    },
    /// Two tools have the same slug.
    #[error("two tools have the slug {slug}")]
    SlugTwice {
        /// The slug.
        slug: String,
    },
    /// Two routes have the same path.
    #[error("{slug}: something else is served at {path} already")]
    EndpointTwice {
        /// The tool that was added second.
        slug: String,
        /// The path.
        path: String,
    },
    /// The endpoint is on another origin.
    #[error("{slug}: the endpoint {endpoint} is not on {origin}")]
    OffOrigin {
        /// The tool's slug.
        slug: String,
        /// Its endpoint.
        endpoint: String,
        /// The server's origin.
        origin: String,
    },
    /// The bytes to serve do not match the manifest.
    #[error("{slug}: the bytes to serve are not those of the manifest")]
    BytesDiffer {
        /// The tool's slug.
        slug: String,
    },
    /// A schema cannot be compiled.
    #[error("{slug}: the schema of `{which}` cannot be compiled: {}", first(findings))]
    Schema {
        /// The tool's slug.
        slug: String,
        /// `inputs` or `outputs`.
        which: &'static str,
        /// Why.
        findings: Vec<Finding>,
    },
    /// The manifest has a price, but the gate does not charge.
    #[error("{slug}: the manifest has a price, and the gate asks for none")]
    Priced {
        /// The tool's slug.
        slug: String,
    },
    /// The gate charges, but the manifest has no price.
    #[error("{slug}: the gate asks for money, and the manifest has no price")]
    NoPrice {
        /// The tool's slug.
        slug: String,
    },
    /// Without a store, payments would be lost when the process ends.
    #[error("{slug}: a paid tool needs a store for payments")]
    NoStore {
        /// The tool's slug.
        slug: String,
    },
    /// The secret for sign-in challenges is unusable.
    #[error("there is no usable secret for sign-in challenges: it needs at least 16 bytes")]
    SignInKey,
    /// No challenge can be made.
    #[error("{slug}: no challenge can be made: {}", first(findings))]
    Challenge {
        /// The tool's slug.
        slug: String,
        /// Why.
        findings: Vec<Finding>,
    },
}

impl SetupError {
    /// Returns the code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Origin { code, .. } => *code,
            Self::HostTwice { .. } => codes::gate::HOST_TWICE,
            Self::Slug { .. } => codes::gate::SLUG,
            Self::SlugTwice { .. } => codes::gate::SLUG_TWICE,
            Self::EndpointTwice { .. } => codes::gate::ENDPOINT_TWICE,
            Self::OffOrigin { .. } => codes::gate::OFF_ORIGIN,
            Self::BytesDiffer { .. } => codes::gate::BYTES_DIFFER,
            Self::Schema { .. } => codes::gate::SCHEMA,
            Self::Priced { .. } => codes::gate::PRICED,
            Self::NoPrice { .. } => codes::gate::NO_PRICE,
            Self::NoStore { .. } => codes::gate::NO_STORE,
            Self::SignInKey => codes::gate::SIGN_IN_KEY,
            Self::Challenge { .. } => codes::gate::CHALLENGE,
        }
    }
}

/// All errors in the settings.
#[derive(Clone, Debug)]
pub struct SetupErrors(pub Vec<SetupError>);

impl std::fmt::Display for SetupErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{error} ({})", error.code())?;
        }
        Ok(())
    }
}

impl std::error::Error for SetupErrors {}

fn first(findings: &[Finding]) -> &str {
    findings.first().map_or("nothing is known about it", |finding| finding.message.as_str())
}
