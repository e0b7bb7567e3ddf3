//! Whether a gated tool stands on its registry as it is served here: the same manifest, creator and address, and a predicate at all.
//!
//! A gate with a wrong id works without a fault, for the holders of another tool. Looking once after the start finds that out.

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::registry::{Registry, ToolConfig};
use toolcrib_core::codes::{self, Code};

/// What a tool should be on its registry.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) hash: B256,
    pub(crate) creator: Address,
    pub(crate) uri: String,
}

/// A way in which the registry and the server disagree about a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Discord {
    /// The registry could not be asked, or does not know the tool.
    #[error("{slug}: {source}")]
    NotAsked {
        /// Which tool.
        slug: String,
        /// Why.
        source: toolcrib_chain::Error,
    },
    /// Another manifest is registered.
    #[error("{slug}: the manifest {registered} is registered, and {served} is served")]
    Hash {
        /// Which tool.
        slug: String,
        /// The hash on the registry.
        registered: B256,
        /// The hash of what is served.
        served: B256,
    },
    /// Another creator registered it.
    #[error("{slug}: it was registered by {registered}, and the manifest names {served}")]
    Creator {
        /// Which tool.
        slug: String,
        /// Who registered it.
        registered: Address,
        /// Whom the manifest names.
        served: Address,
    },
    /// It is registered for another address.
    #[error("{slug}: it is not registered for {served}")]
    Uri {
        /// Which tool.
        slug: String,
        /// Where the manifest is served.
        served: String,
    },
    /// It has no predicate, so everybody is let in.
    #[error("{slug}: it has no predicate, so everybody with a key is let in")]
    NoPredicate {
        /// Which tool.
        slug: String,
    },
}

impl Discord {
    /// The code of the vocabulary.
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

/// Asks the registry, and gives everything that differs.
pub(crate) async fn compare(slug: &str, expected: &Expected, registry: &Registry, id: U256) -> Vec<Discord> {
    let slug = || slug.to_owned();
    let ToolConfig { creator, metadata_uri, manifest_hash, access_predicate } = match registry.config(id).await {
        Ok(config) => config,
        Err(source) => return vec![Discord::NotAsked { slug: slug(), source }],
    };
    let mut found = Vec::new();
    if manifest_hash != expected.hash {
        found.push(Discord::Hash { slug: slug(), registered: manifest_hash, served: expected.hash });
    }
    if creator != expected.creator {
        found.push(Discord::Creator { slug: slug(), registered: creator, served: expected.creator });
    }
    // As readers compare them: after normalising what the registry has.
    let is_same = toolcrib_core::url::HttpsUrl::parse(&metadata_uri).is_ok_and(|uri| uri.normalized() == expected.uri);
    if !is_same {
        found.push(Discord::Uri { slug: slug(), served: expected.uri.clone() });
    }
    if access_predicate.is_none() {
        found.push(Discord::NoPredicate { slug: slug() });
    }
    found
}
