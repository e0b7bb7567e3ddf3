//! `GET /api/v2/tools/search`: tools by words and filters.

use alloy_primitives::Address;
use axum::http::{HeaderMap, StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use toolcrib_core::tool::Tier;
use toolcrib_index::access::{MAX_CANDIDATES, May, callable};
use toolcrib_index::listing::AccessKind;
use toolcrib_index::model::{ToolKey, ToolView};
use toolcrib_index::search::{Cursor, Explanation, Facets, Filters, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort, Source};

use crate::answer::{Answer, Refusal, body, fresh_for, json};
use crate::api::tool::beside;
use crate::api::tools::{DEFAULT_LIMIT, FRESH, MAX_LIMIT, Sources, access};
use crate::front::wants_markdown;
use crate::markdown;
use crate::parameters::{self, Parameters};
use crate::reader::Reader;
use crate::surrogate::{SEARCH, depends, of_listed};
use crate::view::{self, Found, Listed};

/// Most tags of one search: a manifest has no more.
const MAX_TAGS: usize = 16;

/// Longest word of a filter, in characters: the longest CAIP-19 asset.
const MAX_WORD_CHARS: usize = 300;

/// Pages that a search for what a wallet may use goes through at most, until its own page is full.
const MAX_ROUNDS: usize = 8;

/// Pages of gated tools that a collection's name is looked for in.
const MAX_COLLECTION_PAGES: usize = 5;

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
    /// Whether anything can be found at all.
    is_possible: bool,
}

pub(crate) async fn search(app: Reader, uri: Uri, headers: HeaderMap) -> Answer {
    let parameters = Parameters::of(&uri)?;
    let asked = read(&app, &parameters).await?;
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

/// Reads what is asked for.
pub(crate) async fn read(app: &Reader, parameters: &Parameters) -> Result<Asked, Refusal> {
    let text = word(parameters, "query", MAX_QUERY_CHARS)?;
    let mut filters = Filters {
        chain: parameters.chain("registry_chain")?,
        tags: tags(parameters)?,
        access: access(parameters, "access_type")?,
        creator: parameters.address("creator")?,
        min_price: parameters.dollars("min_price")?,
        max_price: parameters.dollars("max_price")?,
        asset: word(parameters, "asset", MAX_WORD_CHARS)?,
        protocol: word(parameters, "protocol", MAX_WORD_CHARS)?,
        tier: tier(parameters)?,
        collection: None,
        origin: word(parameters, "origin", MAX_WORD_CHARS)?,
        source: None,
    };
    if filters.min_price.zip(filters.max_price).is_some_and(|(least, most)| least > most) {
        return Err(Refusal::parameter("min_price", "it is above max_price"));
    }
    let sorts = [("relevance", Sort::Relevance), ("newest", Sort::Newest), ("most_used", Sort::MostUsed)];
    let sort = parameters.word("sort_by", &sorts)?.unwrap_or_default();
    let limit = parameters.number("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let cursor = parameters.text("cursor")?.map(Cursor::parse).transpose().map_err(|_| Refusal::cursor())?;
    let mut include_unverified = parameters.flag("include_unverified")?.unwrap_or_default();
    let facets = parameters.flag("facets")?.unwrap_or_default();
    let explain = parameters.flag("explain")?.unwrap_or_default();
    let is_whole = parameters.flag("include_details")?.unwrap_or(true);
    let callable_by = parameters.address("callable_by")?;
    let mut is_possible = true;
    match Sources::of(parameters, include_unverified)? {
        Sources { onchain: true, bazaar: true } => {}
        // Among what is verified there is nothing else.
        Sources { onchain: true, bazaar: false } => filters.source = include_unverified.then_some(Source::Onchain),
        Sources { onchain: false, bazaar: true } => {
            filters.source = Some(Source::Bazaar);
            include_unverified = true;
        }
        Sources { onchain: false, bazaar: false } => is_possible = false,
    }
    if callable_by.is_some() {
        // What a wallet may use is for chains to say, and no chain knows of resources.
        is_possible &= filters.source != Some(Source::Bazaar);
        filters.source = include_unverified.then_some(Source::Onchain);
    }
    if let Some(name) = word(parameters, "collection", MAX_WORD_CHARS)? {
        filters.collection = match parameters::address(&name) {
            Some(address) => Some(address),
            None => collection(app, &name).await?,
        };
        is_possible &= filters.collection.is_some();
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    let query = SearchQuery { text, filters, sort, limit, cursor, include_unverified, facets, explain };
    Ok(Asked { query, callable_by, is_whole, is_possible })
}

/// A text of at most so many characters, without spaces around it.
pub(crate) fn word(parameters: &Parameters, name: &str, most: usize) -> Result<Option<String>, Refusal> {
    let Some(text) = parameters.text(name)?.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.chars().count() > most {
        return Err(Refusal::parameter(name, format!("it is longer than {most} characters")));
    }
    Ok(Some(text.to_owned()))
}

/// Tags as several parameters or with commas in between.
fn tags(parameters: &Parameters) -> Result<Vec<String>, Refusal> {
    let tags = parameters.all("tags").flat_map(|tags| tags.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
    let tags: Vec<String> = tags.map(str::to_lowercase).collect();
    if tags.len() > MAX_TAGS {
        return Err(Refusal::parameter("tags", format!("there are more than {MAX_TAGS}")));
    }
    Ok(tags)
}

fn tier(parameters: &Parameters) -> Result<Option<String>, Refusal> {
    let tiers = [Tier::SelfAttested, Tier::HardwareAttested, Tier::Verifiable].map(|tier| (tier.as_str(), tier));
    Ok(parameters.word("tier", &tiers)?.map(|tier| tier.as_str().to_owned()))
}

/// The collection with this name, among those that tools are gated by.
async fn collection(app: &Reader, name: &str) -> Result<Option<Address>, Refusal> {
    let wanted = view::slug(name);
    let filters = Filters { access: Some(AccessKind::NftGated), ..Filters::default() };
    let mut query = SearchQuery { filters, limit: MAX_CANDIDATES, include_unverified: true, ..SearchQuery::default() };
    for _ in 0..MAX_COLLECTION_PAGES {
        let page = app.find(&query).await?;
        let keys: Vec<_> = page.hits.iter().map(|hit| hit.key).collect();
        for view in app.index.tools(&keys).await? {
            let requirements = view.listing.iter().flat_map(|listing| &listing.access.requirements);
            for requirement in requirements {
                let named = requirement.collection.as_ref().and_then(|collection| collection.name.as_deref());
                if named.is_some_and(|named| view::slug(named) == wanted) && requirement.contract.is_some() {
                    return Ok(requirement.contract);
                }
            }
        }
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    Ok(None)
}

/// Runs a search and reads what was found.
pub(crate) async fn run(app: &Reader, asked: &Asked) -> Result<SearchResults, Refusal> {
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
            let SearchPage { hits, next, total, facets } = app.find(&asked.query).await?;
            let found = hits.into_iter().map(|hit| (hit.key, hit.score, hit.explanation)).collect::<Vec<_>>();
            Gathered { hits: with_views(app, found).await?, next, total, facets, partial: false }
        }
        Some(wallet) => usable(app, &asked.query, wallet).await?,
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
    next: Option<Cursor>,
    total: Option<u64>,
    facets: Option<Facets>,
    partial: bool,
}

/// What is known about hits. A tool that went meanwhile is left out.
async fn with_views(app: &Reader, hits: Vec<(ToolKey, f32, Option<Explanation>)>) -> Result<Vec<Viewed>, Refusal> {
    let (resources, tools): (Vec<ToolKey>, Vec<ToolKey>) =
        hits.iter().map(|(key, ..)| *key).partition(|key| key.resource().is_some());
    // What the operator took out since its words were read is left out too.
    let tools = app.index.tools(&tools).await?.into_iter().filter(|view| view.moderation.is_none());
    let tools = tools.map(|view| Listed::Tool(Box::new(view)));
    let resources = app.index.resources(&resources).await?.into_iter().map(|view| Listed::Resource(Box::new(view)));
    let mut listed: HashMap<ToolKey, Listed> = tools.chain(resources).map(|listed| (listed.key(), listed)).collect();
    Ok(hits.into_iter().filter_map(|(key, score, explanation)| Some((listed.remove(&key)?, score, explanation))).collect())
}

/// Hits that a wallet may use. The chain is asked about at most [`MAX_CANDIDATES`]; each round asks for as many as still fit on the page,
/// so that the cursor is always right.
async fn usable(app: &Reader, query: &SearchQuery, wallet: Address) -> Result<Gathered, Refusal> {
    let mut query = query.clone();
    let limit = query.limit;
    let mut gathered = Gathered { hits: Vec::new(), next: None, total: None, facets: None, partial: false };
    let mut asked = 0;
    for round in 0..MAX_ROUNDS {
        query.limit = (limit - gathered.hits.len()).min(MAX_CANDIDATES - asked);
        let SearchPage { hits, next, facets, .. } = app.find(&query).await?;
        if round == 0 {
            gathered.facets = facets;
            query.facets = false;
        }
        asked += hits.len();
        let found = hits.into_iter().map(|hit| (hit.key, hit.score, hit.explanation)).collect();
        let viewed = with_views(app, found).await?;
        let keys: Vec<ToolKey> = viewed.iter().map(|(listed, ..)| listed.key()).collect();
        let may = callable(&app.index, &app.chains, wallet, &keys, None).await?;
        let may: HashMap<ToolKey, May> = may.answers.iter().map(|answer| (answer.key, answer.callable())).collect();
        for hit in viewed {
            match may.get(&hit.0.key()) {
                Some(May::Yes) => gathered.hits.push(hit),
                Some(May::No) => {}
                Some(May::Unknown) | None => gathered.partial = true,
            }
        }
        gathered.next = next.clone();
        query.cursor = next;
        if query.cursor.is_none() || gathered.hits.len() >= limit || asked >= MAX_CANDIDATES {
            break;
        }
    }
    gathered.partial |= gathered.next.is_some();
    Ok(gathered)
}
