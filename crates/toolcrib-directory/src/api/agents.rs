//! `GET /api/v2/agents`, `GET /api/v2/agents/{domain}` and its report: `.agt` agents of the operator's list.
//!
//! Only listed names are known. Callers cannot trigger resolutions, so they cannot make the directory send requests to other servers.

use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;
use toolcrib_http::percent_decode;
use toolcrib_index::agents::{AgentCursor, AgentPage, AgentQuery, AgentView, MAX_QUERY_CHARS, MaxPrice};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, body, fresh_for, json};
use crate::api::tools::{FRESH, Limit};
use crate::inert;
use crate::parameters::{Amount, Cursor, Flag, Id, Param, Pricing, Query, Text};
use crate::reader::Reader;
use crate::surrogate::{AGENTS, LISTS, agent_key, depends};
use crate::view::{Agent, AgentItem};

/// The prefix of every path of an agent.
const AGENT_PREFIX: &str = "/api/v2/agents/";

/// The number of verdict changes that are shown with an agent.
const SHOWN_CHANGES: usize = 20;

/// A query up to the maximum length.
type Phrase = Text<MAX_QUERY_CHARS>;

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsParameters {
    /// Words of the name, the domain or the description, all of them.
    #[param(inline)]
    q: Phrase,
    /// Only agents with this capability.
    #[param(inline)]
    capability: Option<Id>,
    /// Only agents that speak this protocol.
    #[param(inline)]
    protocol: Option<Id>,
    /// Only agents that charge in this way.
    #[param(inline)]
    pricing: Option<Pricing>,
    /// Only agents that are free or cost at most so much in `currency`, whatever the unit.
    #[param(inline)]
    max_price: Option<Amount>,
    /// The currency of `max_price`, which needs it. Nothing is converted.
    #[param(inline)]
    currency: Text<64>,
    /// `false` also gives agents that are not verified and conformant: for people, not for agents.
    #[param(inline)]
    verified: Flag<true>,
    /// Entries of a page.
    #[param(inline)]
    limit: Limit,
    /// Where to go on: `next` of the page before.
    #[param(inline)]
    cursor: Cursor,
}

/// A page of agents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentList {
    /// The agents: verified ones first, then those whose name fits the words, then the newest.
    pub(crate) agents: Vec<AgentItem>,
    /// Where it continues; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

pub(crate) async fn list(app: Reader, Query(asked): Query<AgentsParameters>) -> Answer {
    let page = find(&app, &asked.query()?).await?;
    Ok(depends(fresh_for(json(StatusCode::OK, &page), FRESH), [AGENTS.to_owned()]))
}

pub(crate) async fn get(app: Reader, uri: Uri) -> Answer {
    let view = agent_under(&app, &uri, AGENT_PREFIX, "").await?;
    let keys = agent_keys(&view);
    Ok(depends(fresh_for(json(StatusCode::OK, &shown(&app, &view).await?), FRESH), keys))
}

pub(crate) async fn report(app: Reader, uri: Uri) -> Answer {
    let view = agent_under(&app, &uri, AGENT_PREFIX, "/report").await?;
    let text = app.index.agent_report(&view.domain).await?;
    let text = text.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, codes::directory::NOT_VERIFIED_YET))?;
    let corrupt = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, codes::store::CORRUPT);
    // The report quotes untrusted text, so it is serialized again in the escaped form.
    let report: Value = serde_json::from_str(&text).map_err(corrupt)?;
    Ok(depends(fresh_for(body(StatusCode::OK, "application/json", inert::to_vec(&report)), FRESH), agent_keys(&view)))
}

/// Returns the dependencies of a response about an agent: the agent, and the tools at its endpoints.
pub(crate) fn agent_keys(view: &AgentView) -> [String; 2] {
    [agent_key(view.domain.as_str()), LISTS.to_owned()]
}

impl AgentsParameters {
    /// Converts the parameters to a query of the index.
    pub(crate) fn query(self) -> Result<AgentQuery, ApiError> {
        let max_price = match (self.max_price.map(Param::value), self.currency.0) {
            (None, None) => None,
            (Some(micro), Some(currency)) => Some(MaxPrice { micro, currency }),
            (Some(_), None) => {
                return Err(ApiError::parameter("currency", "required with max_price, because amounts are not converted"));
            }
            (None, Some(_)) => return Err(ApiError::parameter("max_price", "required with currency")),
        };
        Ok(AgentQuery {
            words: self.q.0,
            capability: self.capability.map(Param::value),
            protocol: self.protocol.map(Param::value),
            pricing: self.pricing.map(Param::value),
            max_price,
            include_unverified: !self.verified.0,
            after: self.cursor.0.as_deref().map(AgentCursor::parse).transpose().map_err(|_| ApiError::cursor())?,
            limit: usize::try_from(self.limit.0).unwrap_or(1),
        })
    }
}

/// Finds agents, and returns them as they are shown.
pub(crate) async fn find(app: &Reader, query: &AgentQuery) -> Result<AgentList, ApiError> {
    let now = app.now();
    let AgentPage { agents, next } = app.index.find_agents(query, now).await?;
    let agents = agents.iter().map(|view| AgentItem::of(view, now)).collect();
    Ok(AgentList { agents, next: next.map(|next| next.to_string()) })
}

/// Returns the agent in a path, between `prefix` and `end`. Names that are not in the list are not found.
pub(crate) async fn agent_under(app: &Reader, uri: &Uri, prefix: &str, end: &str) -> Result<AgentView, ApiError> {
    let segment = uri.path().strip_prefix(prefix).and_then(|rest| rest.strip_suffix(end)).unwrap_or_default();
    let malformed = |message: &str| ApiError::new(StatusCode::BAD_REQUEST, codes::agent::DOMAIN_MALFORMED).message(message);
    let text = percent_decode(segment).ok_or_else(|| malformed("the name is not encoded as UTF-8"))?;
    let domain = AgtDomain::from_input(&text).map_err(|fault| malformed(fault.described()))?;
    let view = app.index.agent(&domain).await?.filter(|view| view.listed);
    view.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, codes::agent::NOT_LISTED))
}

/// Returns everything that is shown of an agent.
pub(crate) async fn shown(app: &Reader, view: &AgentView) -> Result<Agent, ApiError> {
    let (now, changes) = (app.now(), app.index.agent_changes(&view.domain, SHOWN_CHANGES).await?);
    let owner = view.verdict.as_ref().and_then(|verdict| verdict.owner);
    let tools = match (view.facts(now), owner) {
        (Some(facts), Some(owner)) => app.index.agent_tools(facts, owner).await?,
        _ => Vec::new(),
    };
    Ok(Agent::of(view, &changes, &tools, now))
}
