//! Registered tools (ERC-8257) at the endpoints of an agent, as far as they are in this index.
//!
//! Tools are found in two ways: verified ones of any creator by the same endpoint, and those that the owner of the agent registered,
//! verified or not, by the same origin. Nothing is fetched.

use std::collections::BTreeSet;

use alloy_primitives::Address;
use toolcrib_core::agent::place::EndpointRelation;
use toolcrib_core::url::HttpsUrl;
use toolcrib_store::database::{FromRow as _, Value};

use super::model::{AgentFacts, AgentProtocol};
use crate::model::{ToolKey, ToolView};
use crate::tools::List;
use crate::{Error, Index, text_key};

/// The maximum number of tools with the same endpoint that are compared: the maximum number of duplicates listed for a tool.
const MAX_AT_ENDPOINT: i64 = 16;

/// The maximum number of the owner's tools that are compared, the newest first.
const MAX_OF_OWNER: usize = 200;

/// The maximum number of tools shown for one agent.
pub const MAX_AGENT_TOOLS: usize = 100;

/// A registered tool at an endpoint of an agent.
#[derive(Clone, Debug)]
pub struct AgentTool {
    /// The protocol of the agent.
    pub protocol: AgentProtocol,
    /// What is known about the tool.
    pub view: ToolView,
    /// The tool's endpoint, from its verified manifest or as it claims. Untrusted text.
    pub endpoint: String,
    /// How the endpoints relate.
    pub place: EndpointRelation,
    /// Whether the account that registered the tool owns the name of the agent.
    pub same_owner: bool,
}

const BY_ENDPOINT: &str = "SELECT t.registry, t.tool FROM index_listing l
    JOIN index_tool t ON t.registry = l.registry AND t.tool = l.tool
    WHERE l.endpoint_key = $1 AND t.deregistered_at IS NULL ORDER BY t.registered_at, t.registry, t.tool LIMIT $2";

impl Index {
    /// Returns the registered tools at the endpoints of an agent, the closest match of each endpoint first, at most [`MAX_AGENT_TOOLS`].
    pub async fn agent_tools(&self, facts: &AgentFacts, owner: Address) -> Result<Vec<AgentTool>, Error> {
        let endpoints: Vec<(&AgentProtocol, HttpsUrl)> =
            facts.protocols.iter().filter_map(|protocol| Some((protocol, HttpsUrl::parse(&protocol.endpoint).ok()?))).collect();
        if endpoints.is_empty() {
            return Ok(Vec::new());
        }
        let mut keys = BTreeSet::new();
        for (_, url) in &endpoints {
            let values = [Value::Integer(text_key(url.normalized())), Value::Integer(MAX_AT_ENDPOINT)];
            for key in ToolKey::from_rows(&self.database().fetch(BY_ENDPOINT, &values).await?) {
                keys.insert(key?);
            }
        }
        let own = List { creator: Some(owner), include_unverified: true, limit: MAX_OF_OWNER, ..List::default() };
        let mut views = self.list(&own).await?.tools;
        views.retain(|view| view.row.is_active());
        for view in &views {
            keys.remove(&view.row.key);
        }
        views.extend(self.tools(&keys.into_iter().collect::<Vec<_>>()).await?);
        let mut found = Vec::new();
        for (protocol, url) in &endpoints {
            let mut here: Vec<AgentTool> = views.iter().filter_map(|view| AgentTool::of(protocol, url, view, owner)).collect();
            here.sort_by_key(|tool| tool.place);
            found.append(&mut here);
        }
        found.truncate(MAX_AGENT_TOOLS);
        Ok(found)
    }
}

impl AgentTool {
    fn of(protocol: &AgentProtocol, url: &HttpsUrl, view: &ToolView, owner: Address) -> Option<Self> {
        let listing = view.listing.as_ref()?;
        let manifest = listing.manifest.as_ref().map(|manifest| &manifest.endpoint);
        let endpoint = manifest.or_else(|| listing.claims.as_ref()?.endpoint.as_ref())?;
        let place = EndpointRelation::of(url, &HttpsUrl::parse(endpoint).ok()?)?;
        let same_owner = view.row.creator == owner;
        // The query compared only a part of a hash. Many share a host, so tools of other creators count only at the same endpoint.
        (same_owner || place == EndpointRelation::Same).then(|| Self {
            protocol: protocol.clone(),
            view: view.clone(),
            endpoint: endpoint.clone(),
            place,
            same_owner,
        })
    }
}
