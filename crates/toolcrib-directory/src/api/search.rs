//! `GET /api/v2/tools/search`: tools by words and filters.

use std::collections::HashMap;

use alloy_primitives::Address;
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_index::model::{ToolKey, ToolView};
use toolcrib_index::search::{
    self, Explanation, Facets, Filters, Hit, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort, Source, Usable, UsablePage,
};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, body, fresh_for, json};
use crate::api::tool::beside;
use crate::api::tools::{FRESH, Limit, Sources, WantedSources};
use crate::front::wants_markdown;
use crate::markdown;
use crate::parameters::{self, Access, Account, Chain, Cursor, Dollars, Flag, LeastTier, Param, Query, Tags, Text};
use crate::reader::Reader;
use crate::surrogate::{SEARCH, depends, of_listed};
use crate::view::{Found, Listed};

/// A query up to the maximum length.
type Phrase = Text<MAX_QUERY_CHARS>;

/// A filter value, up to the length of the longest CAIP-19 asset.
type Word = Text<300>;

/// The order of results.
type SortBy = Param<Sort>;

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParameters {
    /// Words, in any order and with mistakes.
    #[param(inline)]
    query: Phrase,
    /// Only tools on this chain, by number or name.
    #[param(inline)]
    registry_chain: Chain,
    /// Only tools with all of these tags.
    #[param(inline)]
    tags: Tags,
    /// Only tools with this kind of access.
    #[param(inline)]
    access_type: Option<Access>,
    /// Only tools of this creator.
    #[param(inline)]
    creator: Option<Account>,
    /// Only tools from this source. Resources of `x402_bazaar` are never verified.
    #[param(inline)]
    source: Option<WantedSources>,
    /// Only tools gated by this collection, by address or by its name in small letters and hyphens.
    #[param(inline)]
    collection: Word,
    /// Only tools that cost at least so many dollars a call.
    #[param(inline)]
    min_price: Option<Dollars>,
    /// Only tools that cost at most so many dollars a call.
    #[param(inline)]
    max_price: Option<Dollars>,
    /// Only tools that take this asset, as CAIP-19.
    #[param(inline)]
    asset: Word,
    /// Only tools that are paid by this protocol.
    #[param(inline)]
    protocol: Word,
    /// Only tools of at least this trust tier.
    #[param(inline)]
    tier: Option<LeastTier>,
    /// Only tools at this origin.
    #[param(inline)]
    origin: Word,
    /// Only tools that this account may use. At most 200 candidates are looked at; `partial` says when there are more.
    #[param(inline)]
    callable_by: Option<Account>,
    /// The order; relevance unless said otherwise.
    #[param(inline)]
    sort_by: Option<SortBy>,
    /// With prices and requirements.
    #[param(inline)]
    include_details: Flag<true>,
    /// With counts by tag, chain, access, tier and protocol.
    #[param(inline)]
    facets: Flag<false>,
    /// With how each score came about.
    #[param(inline)]
    explain: Flag<false>,
    /// Also tools that are not verified and conformant: for people, not for agents.
    #[param(inline)]
    include_unverified: Flag<false>,
    /// Entries of a page.
    #[param(inline)]
    limit: Limit,
    /// Where to go on: `next` of the page before.
    #[param(inline)]
    cursor: Cursor,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SearchResults {
    /// The tools, the best first.
    pub(crate) results: Vec<Found>,
    /// Where it goes on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// How many there are in all, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    /// Whether tools that were not looked at may fit too: there are more candidates than a chain is asked about at once, or it did not
    /// say of some.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// Counts, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(crate) facets: Option<Facets>,
    /// What shared caches purge it by.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) keys: Vec<String>,
}

/// A search that can be run.
pub(crate) struct Asked {
    pub(crate) query: SearchQuery,
    callable_by: Option<Address>,
    is_whole: bool,
    /// Whether any result is possible.
    is_possible: bool,
}

pub(crate) async fn search(app: Reader, Query(asked): Query<SearchParameters>, headers: HeaderMap) -> Answer {
    let asked = read(&app, asked).await?;
    let results = run(&app, &asked).await?;
    let response = if wants_markdown(&headers) {
        body(StatusCode::OK, markdown::KIND, markdown::search(&results))
    } else {
        json(StatusCode::OK, &results)
    };
    if asked.callable_by.is_some() {
        return Ok(fresh_for(response, "no-store"));
    }
    Ok(depends(fresh_for(response, FRESH), results.keys))
}

/// Converts the parameters to a query of the index.
pub(crate) async fn read(app: &Reader, asked: SearchParameters) -> Result<Asked, ApiError> {
    let mut filters = Filters {
        chain: asked.registry_chain.0,
        tags: asked.tags.0,
        access: asked.access_type.map(Param::value),
        creator: asked.creator.map(Param::value),
        min_price: asked.min_price.map(Param::value),
        max_price: asked.max_price.map(Param::value),
        asset: asked.asset.0,
        protocol: asked.protocol.0,
        tier: asked.tier.map(|tier| tier.0.as_str().to_owned()),
        collection: None,
        origin: asked.origin.0,
        source: None,
    };
    if filters.min_price.zip(filters.max_price).is_some_and(|(least, most)| least > most) {
        return Err(ApiError::parameter("min_price", "it is above max_price"));
    }
    let cursor = asked.cursor.0.as_deref().map(search::Cursor::parse).transpose().map_err(|_| ApiError::cursor())?;
    let mut include_unverified = asked.include_unverified.0;
    let callable_by = asked.callable_by.map(Param::value);
    let mut is_possible = true;
    match Sources::of(asked.source, include_unverified) {
        Sources { onchain: true, bazaar: true } => {}
        // Verified tools have no other source.
        Sources { onchain: true, bazaar: false } => filters.source = include_unverified.then_some(Source::Onchain),
        Sources { onchain: false, bazaar: true } => {
            filters.source = Some(Source::Bazaar);
            include_unverified = true;
        }
        Sources { onchain: false, bazaar: false } => is_possible = false,
    }
    if callable_by.is_some() {
        // A chain decides which tools a wallet may call, and Bazaar resources are on no chain.
        is_possible &= filters.source != Some(Source::Bazaar);
        filters.source = include_unverified.then_some(Source::Onchain);
    }
    if let Some(name) = asked.collection.0 {
        filters.collection = match parameters::address(&name) {
            Some(address) => Some(address),
            None => search::collection_named(&app.index, &app.search, &name).await?,
        };
        is_possible &= filters.collection.is_some();
    }
    let query = SearchQuery {
        text: asked.query.0,
        filters,
        sort: asked.sort_by.map(Param::value).unwrap_or_default(),
        limit: usize::try_from(asked.limit.0).unwrap_or(1),
        cursor,
        include_unverified,
        facets: asked.facets.0,
        explain: asked.explain.0,
    };
    Ok(Asked { query, callable_by, is_whole: asked.include_details.0, is_possible })
}

/// Runs a search and reads the hits.
pub(crate) async fn run(app: &Reader, asked: &Asked) -> Result<SearchResults, ApiError> {
    if !asked.is_possible {
        let facets = asked.query.facets.then(Facets::default);
        return Ok(SearchResults {
            results: Vec::new(),
            next: None,
            total: Some(0),
            partial: false,
            facets,
            keys: vec![SEARCH.to_owned()],
        });
    }
    let Gathered { hits, next, total, facets, partial } = match asked.callable_by {
        None => {
            let SearchPage { hits, next, total, facets } = app.search.find(&asked.query).await?;
            Gathered { hits: with_views(app, hits).await?, next, total, facets, partial: false }
        }
        Some(wallet) => {
            let found = search::usable(&app.index, &app.search, &app.chains, &asked.query, wallet).await?;
            let UsablePage { hits, next, facets, partial } = found;
            let viewed = |Usable { hit, view }: Usable| (Listed::Tool(Box::new(view)), hit.score, hit.explanation);
            Gathered { hits: hits.into_iter().map(viewed).collect(), next, total: None, facets, partial }
        }
    };
    let keys = of_listed(hits.iter().map(|(listed, ..)| listed)).chain([SEARCH.to_owned()]).collect();
    let tools: Vec<ToolView> = hits.iter().filter_map(|(listed, ..)| listed.tool().cloned()).collect();
    let used: Vec<_> = tools.iter().map(|view| (view.row.key, view.usage)).collect();
    let mut stats = app.index.payment_stats(&used, app.now()).await?.into_iter();
    let beside = beside(app, &tools).await?;
    let results = hits.into_iter().map(|(listed, score, explanation)| {
        let mut found = match &listed {
            Listed::Tool(view) => Found::of(view, asked.is_whole, stats.next(), score).beside(beside.get(&view.row.key)),
            Listed::Resource(view) => Found::of_resource(view, asked.is_whole, score),
        };
        found.explanation = explanation;
        found
    });
    Ok(SearchResults { results: results.collect(), next: next.map(|next| next.to_string()), total, partial, facets, keys })
}

type Viewed = (Listed, f32, Option<Explanation>);

struct Gathered {
    hits: Vec<Viewed>,
    next: Option<search::Cursor>,
    total: Option<u64>,
    facets: Option<Facets>,
    partial: bool,
}

/// Reads the data of hits. A tool that was deleted meanwhile is left out.
async fn with_views(app: &Reader, hits: Vec<Hit>) -> Result<Vec<Viewed>, ApiError> {
    let (resources, tools): (Vec<ToolKey>, Vec<ToolKey>) =
        hits.iter().map(|hit| hit.key).partition(|key| key.resource().is_some());
    // Tools that the operator moderated since they were indexed are left out too.
    let tools = app.index.tools(&tools).await?.into_iter().filter(|view| view.moderation.is_none());
    let tools = tools.map(|view| Listed::Tool(Box::new(view)));
    let resources = app.index.resources(&resources).await?.into_iter().map(|view| Listed::Resource(Box::new(view)));
    let mut listed: HashMap<ToolKey, Listed> = tools.chain(resources).map(|listed| (listed.key(), listed)).collect();
    Ok(hits.into_iter().filter_map(|hit| Some((listed.remove(&hit.key)?, hit.score, hit.explanation))).collect())
}
