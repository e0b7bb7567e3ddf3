//! Whether a gated tool's registration matches what is served here: the same manifest, creator and address, and a predicate.
//!
//! A gate with the wrong tool id works without an error, but for callers with access to another tool. A check after the start finds that.

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::registry::{Registry, ToolConfig};
use toolcrib_core::codes::{self, Code};

/// The expected registration of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) hash: B256,
    pub(crate) creator: Address,
    pub(crate) uri: String,
}

/// A mismatch between the registry and the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationMismatch {
    /// The registry could not be read, or does not know the tool.
    #[error("{slug}: {source}")]
    NotAsked {
        /// The tool's slug.
        slug: String,
        /// Why.
        source: toolcrib_chain::Error,
    },
    /// Another manifest is registered.
    #[error("{slug}: the manifest {registered} is registered, and {served} is served")]
    Hash {
        /// The tool's slug.
        slug: String,
        /// The registered hash.
        registered: B256,
        /// The hash of the served manifest.
        served: B256,
    },
    /// Another creator registered the tool.
    #[error("{slug}: it was registered by {registered}, and the manifest names {served}")]
    Creator {
        /// The tool's slug.
        slug: String,
        /// The registered creator.
        registered: Address,
        /// The creator in the manifest.
        served: Address,
    },
    /// The tool is registered with another address.
    #[error("{slug}: it is not registered for {served}")]
    Uri {
        /// The tool's slug.
        slug: String,
        /// Where the manifest is served.
        served: String,
    },
    /// The tool has no predicate, so every account has access.
    #[error("{slug}: it has no predicate, so everybody with a key is let in")]
    NoPredicate {
        /// The tool's slug.
        slug: String,
    },
}

impl RegistrationMismatch {
    /// Returns the code of the vocabulary.
    pub fn code(&self) -> Code {
        match self {
            Self::NotAsked { source, .. } => source.code(),
            Self::Hash { .. } => codes::gate::OTHER_HASH,
            Self::Creator { .. } => codes::gate::OTHER_CREATOR,
            Self::Uri { .. } => codes::gate::OTHER_URI,
            Self::NoPredicate { .. } => codes::gate::NO_PREDICATE,
        }
    }
}

/// Reads the registration, and returns all mismatches.
pub(crate) async fn compare(slug: &str, expected: &Expected, registry: &Registry, id: U256) -> Vec<RegistrationMismatch> {
    let slug = || slug.to_owned();
    let ToolConfig { creator, metadata_uri, manifest_hash, access_predicate } = match registry.config(id).await {
        Ok(config) => config,
        Err(source) => return vec![RegistrationMismatch::NotAsked { slug: slug(), source }],
    };
    let mut found = Vec::new();
    if manifest_hash != expected.hash {
        found.push(RegistrationMismatch::Hash { slug: slug(), registered: manifest_hash, served: expected.hash });
    }
    if creator != expected.creator {
        found.push(RegistrationMismatch::Creator { slug: slug(), registered: creator, served: expected.creator });
    }
    // Compared as consumers do it: after normalising the registered URI.
    let is_same = toolcrib_core::url::HttpsUrl::parse(&metadata_uri).is_ok_and(|uri| uri.normalized() == expected.uri);
    if !is_same {
        found.push(RegistrationMismatch::Uri { slug: slug(), served: expected.uri.clone() });
    }
    if access_predicate.is_none() {
        found.push(RegistrationMismatch::NoPredicate { slug: slug() });
    }
    found
}
