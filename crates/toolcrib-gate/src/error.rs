//! Why a server does not start.

use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;

/// Something in the settings that would make a tool unverifiable or unsafe. The server does not start with it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The origin is not one.
    #[error("{origin:?} is not an origin: {fault}")]
    Origin {
        /// What was given.
        origin: String,
        /// What is wrong with it.
        fault: String,
        /// The code of the URL rule.
        code: Code,
    },
    /// Two origins have the same host.
    #[error("two origins have the host {host}")]
    HostTwice {
        /// Which.
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
        /// Which.
        slug: String,
    },
    /// Two tools have the same path.
    #[error("{slug}: something else is served at {path} already")]
    EndpointTwice {
        /// The tool that comes second.
        slug: String,
        /// The path.
        path: String,
    },
    /// The endpoint is on another origin.
    #[error("{slug}: the endpoint {endpoint} is not on {origin}")]
    OffOrigin {
        /// Which tool.
        slug: String,
        /// Its endpoint.
        endpoint: String,
        /// The server's origin.
        origin: String,
    },
    /// The bytes to serve are not those of the manifest.
    #[error("{slug}: the bytes to serve are not those of the manifest")]
    BytesDiffer {
        /// Which tool.
        slug: String,
    },
    /// A schema cannot be compiled.
    #[error("{slug}: the schema of `{which}` cannot be compiled: {}", first(findings))]
    Schema {
        /// Which tool.
        slug: String,
        /// `inputs` or `outputs`.
        which: &'static str,
        /// Why.
        findings: Vec<Finding>,
    },
    /// The manifest has a price that nobody would ask for.
    #[error("{slug}: the manifest has a price, and the gate asks for none")]
    Priced {
        /// Which tool.
        slug: String,
    },
    /// The gate asks for money, and the manifest for none.
    #[error("{slug}: the gate asks for money, and the manifest has no price")]
    NoPrice {
        /// Which tool.
        slug: String,
    },
    /// Payments would be forgotten.
    #[error("{slug}: a paid tool needs a store for payments")]
    NoStore {
        /// Which tool.
        slug: String,
    },
    /// The secret of sign-in challenges cannot be used.
    #[error("there is no usable secret for sign-in challenges: it needs at least 16 bytes")]
    SignInKey,
    /// No challenge can be made.
    #[error("{slug}: no challenge can be made: {}", first(findings))]
    Challenge {
        /// Which tool.
        slug: String,
        /// Why.
        findings: Vec<Finding>,
    },
}

impl SetupError {
    /// The code of the vocabulary.
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

/// Everything that is wrong with the settings, at once.
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
