//! Agents in the change feed.
//!
//! They share the feed's sequence numbers with tools, so that one cursor is a position in both: a change of an agent has a registry number
//! that no registry has, and the token id of the name as its id. The feed stores numbers only, so the names of tokens are resolved among
//! all names that were ever listed.

use std::collections::HashMap;

use alloy_primitives::U256;
use tokio::sync::RwLock;
use toolcrib_core::agent::AgtDomain;

use crate::model::{RegistryId, ToolKey};
use crate::{Error, Index};

/// The names of token ids read so far.
pub(crate) type AgentTokens = RwLock<HashMap<U256, AgtDomain>>;

const NAMES: &str = "SELECT domain FROM index_agent";

/// Returns the key of an agent in the change feed.
pub fn feed_key(domain: &AgtDomain) -> ToolKey {
    ToolKey { registry: RegistryId::AGENTS, id: domain.token_id() }
}

impl Index {
    /// Returns the agent of a feed entry; `None` for a change of a tool.
    pub async fn agent_of(&self, key: ToolKey) -> Result<Option<AgtDomain>, Error> {
        if !key.is_agent() {
            return Ok(None);
        }
        if let Some(domain) = self.agent_tokens().read().await.get(&key.id) {
            return Ok(Some(domain.clone()));
        }
        // A name that was added after the cache was read. Its row was written together with its first change.
        let mut names = HashMap::new();
        for row in self.database().fetch(NAMES, &[]).await? {
            let domain = AgtDomain::parse(row.scalar()?).map_err(|_| Error::Corrupt { what: "name of an agent" })?;
            names.insert(domain.token_id(), domain);
        }
        let found = names.get(&key.id).cloned().ok_or(Error::Corrupt { what: "agent of a change" })?;
        *self.agent_tokens().write().await = names;
        Ok(Some(found))
    }
}
