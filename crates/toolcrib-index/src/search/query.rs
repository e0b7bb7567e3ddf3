//! What can be asked, and what comes back.

use alloy_primitives::Address;
use serde::Serialize;

use crate::listing::AccessKind;
use crate::model::ToolKey;
use crate::search::Cursor;
use crate::search::rank::Signals;

/// Longest text that is searched for, in characters. Requests of agents are a paragraph; beyond it words only repeat.
pub const MAX_QUERY_CHARS: usize = 1_000;

/// Most hits of a page, as the public interface has it.
pub const MAX_LIMIT: usize = 200;

/// A search.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// Words, in any order and with mistakes. `None` finds everything.
    pub text: Option<String>,
    /// What must hold.
    pub filters: Filters,
    /// In which order. With words and another order than [`Sort::Relevance`] only tools that have all of the words are hits.
    pub sort: Sort,
    /// At most so many hits.
    pub limit: usize,
    /// Only what comes after.
    pub cursor: Option<Cursor>,
    /// Also tools that are not fit to be shown to agents, after all that are.
    pub include_unverified: bool,
    /// Count the hits by tag, chain and so on.
    pub facets: bool,
    /// Say how each score came about.
    pub explain: bool,
}

/// Where tools come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A registry.
    Onchain,
    /// The catalogue of a facilitator.
    Bazaar,
}

impl Source {
    /// The word of the public interface for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Onchain => "onchain",
            Self::Bazaar => "x402_bazaar",
        }
    }
}

/// What must hold of every hit.
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
    /// A price of at least so many millionths of a dollar. Tools whose price is not in dollars of the pinned table have none.
    pub min_price: Option<u64>,
    /// A price of at most so many millionths of a dollar. Free tools cost nothing.
    pub max_price: Option<u64>,
    /// This asset among the payment options, as CAIP-19.
    pub asset: Option<String>,
    /// This payment protocol among the options.
    pub protocol: Option<String>,
    /// At least this trust tier, from the weakest: `self-attested`, `hardware-attested`, `verifiable`.
    pub tier: Option<String>,
    /// A gate that asks for a token of this collection.
    pub collection: Option<Address>,
    /// Only these origins.
    pub origin: Option<String>,
    /// Only what comes from there. Resources of the Bazaar are never verified, so they are found together with
    /// [`SearchQuery::include_unverified`] alone.
    pub source: Option<Source>,
}

/// The order of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sort {
    /// The best first: words, then trust and proven use.
    #[default]
    Relevance,
    /// The newest registration first.
    Newest,
    /// The most paying accounts first.
    MostUsed,
}

/// A part of the hits.
#[derive(Clone, Debug)]
pub struct SearchPage {
    /// The hits.
    pub hits: Vec<Hit>,
    /// Where it goes on; `None` at the end.
    pub next: Option<Cursor>,
    /// How many there are in all, as far as it is known.
    pub total: Option<u64>,
    /// Counts, if they were asked for.
    pub facets: Option<Facets>,
}

/// A tool that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The tool.
    pub key: ToolKey,
    /// How good a hit it is. Comparable within one answer alone.
    pub score: f32,
    /// How the score came about, if it was asked for.
    pub explanation: Option<Explanation>,
}

/// How a score came about: the parts, whose sum it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// How well the words fit.
    pub text: f32,
    /// How near the meaning is, where an embedding file is used.
    pub meaning: Option<f32>,
    /// What trust adds.
    pub trust: f32,
    /// What accounts that paid it add.
    pub usage: f32,
    /// What accounts that paid any tool of its creator add.
    pub creator: f32,
    /// What health adds.
    pub health: f32,
    /// What the age of its registration adds.
    pub age: f32,
    /// What its last update adds.
    pub recency: f32,
    /// What a reputation from outside adds, or half of that where there is none.
    pub reputation: f32,
    /// Words of the query that were found only after a letter was changed, with what they were taken for.
    pub corrected: Vec<(String, String)>,
}

impl Explanation {
    /// Of what the words are worth, what nearness of meaning adds, and what signals add to both.
    pub(super) fn new(text: f32, meaning: Option<f32>, signals: Signals, corrected: &[(String, String)]) -> Self {
        let Signals { trust, usage, creator, health, age, recency, reputation } = signals;
        Self { text, meaning, trust, usage, creator, health, age, recency, reputation, corrected: corrected.to_vec() }
    }

    /// All parts together: the score.
    #[must_use]
    pub fn sum(&self) -> f32 {
        let Self { text, meaning, trust, usage, creator, health, age, recency, reputation, .. } = self;
        text + meaning.unwrap_or_default() + (trust + usage + creator + health + age + recency + reputation)
    }
}

/// Counts of hits.
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

/// One value and how many hits have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// The value.
    pub value: String,
    /// How many.
    pub count: u64,
}
