//! Queries and results of search.

use alloy_primitives::Address;
use serde::Serialize;

use crate::listing::AccessKind;
use crate::model::ToolKey;
use crate::search::Cursor;
use crate::search::rank::Signals;

/// The maximum length of a query in characters. Requests of agents are a paragraph; longer ones only repeat words.
pub const MAX_QUERY_CHARS: usize = 1_000;

/// The maximum number of hits on a page, as in the public API.
pub const MAX_LIMIT: usize = 200;

/// A search.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// Words, in any order and with spelling mistakes. `None` matches everything.
    pub text: Option<String>,
    /// The filters.
    pub filters: Filters,
    /// The order. With words and an order other than [`Sort::Relevance`] only tools that have all of the words are hits.
    pub sort: Sort,
    /// The maximum number of hits.
    pub limit: usize,
    /// Only hits after this cursor.
    pub cursor: Option<Cursor>,
    /// Also tools that may not be shown to agents, after all others.
    pub include_unverified: bool,
    /// Count the hits by tag, chain and so on.
    pub facets: bool,
    /// Return how each score is computed.
    pub explain: bool,
}

/// The source of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A registry.
    Onchain,
    /// The catalogue of a facilitator.
    Bazaar,
}

impl Source {
    /// Returns the name in the public API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Onchain => "onchain",
            Self::Bazaar => "x402_bazaar",
        }
    }
}

/// The filters that every hit must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The chain of the registry.
    pub chain: Option<u64>,
    /// All of these tags.
    pub tags: Vec<String>,
    /// This kind of access.
    pub access: Option<AccessKind>,
    /// This creator.
    pub creator: Option<Address>,
    /// A price of at least this number of micro-dollars (millionths of a dollar). Tools whose price is not in dollars of the pinned table
    /// have none.
    pub min_price: Option<u64>,
    /// A price of at most this number of micro-dollars. Free tools cost nothing.
    pub max_price: Option<u64>,
    /// This asset among the payment options, as CAIP-19.
    pub asset: Option<String>,
    /// This payment protocol among the options.
    pub protocol: Option<String>,
    /// At least this trust tier, from the weakest: `self-attested`, `hardware-attested`, `verifiable`.
    pub tier: Option<String>,
    /// A gate that requires a token of this collection.
    pub collection: Option<Address>,
    /// Only these origins.
    pub origin: Option<String>,
    /// Only hits from this source. Bazaar resources are never verified, so they are found only together with
    /// [`SearchQuery::include_unverified`].
    pub source: Option<Source>,
}

/// The order of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sort {
    /// The best first: words, then trust and proven usage.
    #[default]
    Relevance,
    /// The newest registration first.
    Newest,
    /// The most paying accounts first.
    MostUsed,
}

/// A page of hits.
#[derive(Clone, Debug)]
pub struct SearchPage {
    /// The hits.
    pub hits: Vec<Hit>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<Cursor>,
    /// The total number of hits, if known.
    pub total: Option<u64>,
    /// Facet counts, if requested.
    pub facets: Option<Facets>,
}

/// A hit.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The tool.
    pub key: ToolKey,
    /// Its score. Comparable only within one response.
    pub score: f32,
    /// How the score was computed, if requested.
    pub explanation: Option<Explanation>,
}

/// How a score was computed: the parts that add up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The word score.
    pub text: f32,
    /// The similarity of the meaning, if an embedding is used.
    pub meaning: Option<f32>,
    /// The part of trust.
    pub trust: f32,
    /// The part of accounts that paid it.
    pub usage: f32,
    /// The part of accounts that paid any tool of its creator.
    pub creator: f32,
    /// The part of health.
    pub health: f32,
    /// The part of the age of its registration.
    pub age: f32,
    /// The part of its last update.
    pub recency: f32,
    /// The part of its external reputation, or half of the maximum if there is none.
    pub reputation: f32,
    /// Words of the query that were found only after correction, each with the word that was searched instead.
    pub corrected: Vec<(String, String)>,
}

impl Explanation {
    /// Combines the word score, the part of the meaning, and the parts of the signals.
    pub(super) fn new(text: f32, meaning: Option<f32>, signals: Signals, corrected: &[(String, String)]) -> Self {
        let Signals { trust, usage, creator, health, age, recency, reputation } = signals;
        Self { text, meaning, trust, usage, creator, health, age, recency, reputation, corrected: corrected.to_vec() }
    }

    /// Returns the sum of all parts: the score.
    #[must_use]
    pub fn sum(&self) -> f32 {
        let Self { text, meaning, trust, usage, creator, health, age, recency, reputation, .. } = self;
        text + meaning.unwrap_or_default() + (trust + usage + creator + health + age + recency + reputation)
    }
}

/// Facet counts of hits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facets {
    /// By tag, the most frequent first.
    pub tags: Vec<Facet>,
    /// By one of the six categories.
    pub categories: Vec<Facet>,
    /// By chain.
    pub chains: Vec<Facet>,
    /// By kind of access.
    pub access: Vec<Facet>,
    /// By trust tier.
    pub tiers: Vec<Facet>,
    /// By payment protocol.
    pub protocols: Vec<Facet>,
    /// How many hits were counted: the best [`MAX_RANKED`](crate::search::MAX_RANKED) of a search for words, and at most
    /// [`MAX_COUNTED`](crate::search::MAX_COUNTED) otherwise.
    pub counted: u64,
}

/// One value and the number of its hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// The value.
    pub value: String,
    /// The number of hits.
    pub count: u64,
}
