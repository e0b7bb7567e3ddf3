//! Runs a search.
//!
//! There are two ways. For words by relevance: the best [`MAX_RANKED`] by word score, found by skipping most documents; the best of them
//! are compared more closely, then reranked with all signals. For everything else: tools in an order that depends on each tool alone, from
//! the position of a cursor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tantivy::DocId;

use crate::Error;
use crate::model::ToolKey;
use crate::search::best::{add_others, best};
use crate::search::cursor::CursorPosition;
use crate::search::embedding::Embedding;
use crate::search::facets::Counter;
use crate::search::filter::{Wanted, labels};
use crate::search::held::{Ranked, RankedCache, RankedHit};
use crate::search::part::Order;
use crate::search::rank::{Packed, Signals};
use crate::search::refine::refine;
use crate::search::rerank::rank_again;
use crate::search::shelf::Shelf;
use crate::search::terms::{Needed, Terms};
use crate::search::words::Words;
use crate::search::{Cursor, Explanation, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort};

/// The maximum number of hits of a search for words by relevance. Users do not read further; to list everything, use another order.
pub const MAX_RANKED: usize = 300;

/// Everything that a search needs.
pub(super) struct Answering<'a> {
    pub(super) verified: &'a Shelf,
    pub(super) unverified: &'a Shelf,
    pub(super) held: &'a RankedCache,
    pub(super) embedding: Option<&'a Embedding>,
}

impl Answering<'_> {
    pub(super) fn run(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        let search = fingerprint(query);
        let after = query.cursor.as_ref().map(|cursor| *cursor.place());
        if after.is_some_and(|place| place.search != search) {
            return Err(Error::Cursor);
        }
        let words = query.text.as_deref().map(|text| Words::of(text, MAX_QUERY_CHARS)).filter(|words| !words.parts.is_empty());
        // The query has text, but nothing that can be a word.
        if words.is_none() && query.text.as_deref().is_some_and(|text| !text.trim().is_empty()) {
            return Ok(SearchPage { hits: Vec::new(), next: None, total: Some(0), facets: query.facets.then(Facets::default) });
        }
        match (words, query.sort) {
            (Some(words), Sort::Relevance) => self.by_relevance(query, &words, search, after),
            (words, Sort::Relevance) => self.in_order(query, words.as_ref(), Order::Merit, search, after),
            (words, Sort::Newest) => self.in_order(query, words.as_ref(), Order::Newest, search, after),
            (words, Sort::MostUsed) => self.in_order(query, words.as_ref(), Order::MostUsed, search, after),
        }
    }

    fn shelves(&self, query: &SearchQuery) -> impl Iterator<Item = (bool, &Shelf)> {
        [(false, self.verified), (true, self.unverified)].into_iter().take(1 + usize::from(query.include_unverified))
    }

    fn by_relevance(
        &self,
        query: &SearchQuery,
        words: &Words,
        search: u32,
        after: Option<CursorPosition>,
    ) -> Result<SearchPage, Error> {
        let limit = query.limit.clamp(1, MAX_LIMIT);
        let held = after.and_then(|place| Some((self.held.get(place.held, search)?, place.given as usize)));
        let (ranked, start) = match held {
            Some(held) => held,
            None => {
                let ranked = Arc::new(self.rank(query, words, search)?);
                let start = after.map_or(0, |place| ranked.after(&place));
                (ranked, start)
            }
        };
        let end = (start + limit).min(ranked.hits.len());
        let hits = ranked.hits.get(start..end).unwrap_or_default();
        let next = hits.last().filter(|_| end < ranked.hits.len()).map(|last| {
            let held = after.map(|place| place.held).filter(|number| self.held.get(*number, search).is_some());
            Cursor::new(CursorPosition {
                search,
                is_unverified: end > ranked.verified,
                value: u64::from(last.score.to_bits()),
                key: last.key,
                held: held.unwrap_or_else(|| self.held.put(Arc::clone(&ranked))),
                given: u32::try_from(end).unwrap_or_default(),
            })
        });
        let hits = hits.iter().map(|hit| Hit {
            key: hit.key,
            score: hit.score,
            explanation: query.explain.then(|| hit.explanation(&ranked.corrected)),
        });
        let facets = ranked.facets.clone().filter(|_| query.facets);
        Ok(SearchPage { hits: hits.collect(), next, total: ranked.total, facets })
    }

    fn rank(&self, query: &SearchQuery, words: &Words, search: u32) -> Result<Ranked, Error> {
        let asked = match (self.embedding, &query.text) {
            (Some(embedding), Some(text)) => embedding.of_query(text),
            _ => None,
        };
        let mut ranked = Ranked { search, hits: Vec::new(), verified: 0, total: Some(0), facets: None, corrected: Vec::new() };
        let mut counter = query.facets.then(Counter::default);
        for (is_unverified, shelf) in self.shelves(query) {
            let snapshot = shelf.snapshot();
            let terms = Terms::of(words, &snapshot.searcher, &shelf.fields)?;
            let wanted = Wanted::of(&query.filters, &shelf.fields);
            let mut found = best(&snapshot, &terms, &wanted)?;
            let alike = refine(&snapshot, &shelf.fields, words, &mut found)?;
            // In a small directory everything is compared by meaning. If no word matches, the directory has nothing for the query.
            if asked.is_some() && !found.is_empty() && snapshot.searcher.num_docs() <= MAX_RANKED as u64 {
                add_others(&snapshot, &wanted, &mut found)?;
            }
            let ranked_again = rank_again(&snapshot.parts, &found, asked.as_ref(), alike);
            let is_hit: Vec<bool> =
                found.iter().zip(&ranked_again).map(|(found, (_, is_meant))| found.score > 0.0 || *is_meant).collect();
            let mut kept = is_hit.iter();
            found.retain(|_| kept.next() == Some(&true));
            let mut hits: Vec<RankedHit> =
                ranked_again.into_iter().zip(&is_hit).filter(|(_, is_hit)| **is_hit).map(|((hit, _), _)| hit).collect();
            // Below the maximum all matching tools were found.
            ranked.total = ranked.total.filter(|_| found.len() < MAX_RANKED).map(|total| total + found.len() as u64);
            if let Some(counter) = &mut counter {
                for (number, part) in snapshot.parts.iter().enumerate() {
                    counter.add(part, found.iter().filter(|found| found.part == number).map(|found| found.doc))?;
                }
            }
            hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.key.cmp(&a.key)));
            ranked.hits.append(&mut hits);
            if !is_unverified {
                ranked.verified = ranked.hits.len();
            }
            ranked.corrected.extend(terms.corrected.into_iter().filter(|_| !is_unverified));
        }
        ranked.facets = counter.map(Counter::finish);
        Ok(ranked)
    }

    fn in_order(
        &self,
        query: &SearchQuery,
        words: Option<&Words>,
        order: Order,
        search: u32,
        after: Option<CursorPosition>,
    ) -> Result<SearchPage, Error> {
        let limit = query.limit.clamp(1, MAX_LIMIT);
        let mut given: Vec<OrderedHit> = Vec::with_capacity(limit + 1);
        let mut total = Some(0);
        let mut counter = query.facets.then(Counter::default);
        for (is_unverified, shelf) in self.shelves(query) {
            let snapshot = shelf.snapshot();
            let wanted = Wanted::of(&query.filters, &shelf.fields);
            let needed = words.map(|words| Needed::of(words, &snapshot.searcher, &shelf.fields)).transpose()?;
            // All verified hits were returned before a position among the unverified.
            let is_done = after.is_some_and(|place| place.is_unverified) && !is_unverified;
            let left = if is_done { 0 } else { limit + 1 - given.len() };
            let from = after.filter(|place| place.is_unverified == is_unverified).map(|place| (place.value, place.key));
            let mut places: Vec<OrderedHit> = Vec::new();
            for part in &snapshot.parts {
                let Some(test) = wanted.of_part(part)? else { continue };
                let some = match &needed {
                    Some(needed) => Some(needed.docs(part, &test)?),
                    None => test.rare.clone(),
                };
                total = match &some {
                    Some(some) => total.map(|total: u64| total + some.len() as u64),
                    None => total.and_then(|total| Some(total + test.count()?)),
                };
                if let Some(counter) = &mut counter {
                    match &some {
                        Some(some) => counter.add(part, some.iter().copied())?,
                        None => counter.add(part, (0..part.reader.max_doc()).filter(|doc| test.holds(*doc)))?,
                    }
                }
                let is_after = |doc: DocId| from.is_none_or(|from| part.place(order, doc) < from);
                let give = |doc: DocId| OrderedHit { place: part.place(order, doc), is_unverified, signals: part.signals(doc) };
                match some {
                    Some(some) => {
                        let mut best = BinaryHeap::with_capacity(left + 1);
                        for doc in some.into_iter().filter(|doc| left > 0 && is_after(*doc)) {
                            best.push(Reverse((part.place(order, doc), doc)));
                            if best.len() > left {
                                best.pop();
                            }
                        }
                        places.extend(best.into_iter().map(|Reverse((_, doc))| give(doc)));
                    }
                    None => {
                        let all = part.order(order);
                        let start = all.partition_point(|doc| !is_after(*doc));
                        places.extend(all[start..].iter().filter(|doc| test.holds(**doc)).take(left).map(|doc| give(*doc)));
                    }
                }
            }
            places.sort_unstable_by_key(|given| Reverse(given.place));
            places.truncate(left);
            given.append(&mut places);
        }
        let is_more = given.len() > limit;
        given.truncate(limit);
        let next = given.last().filter(|_| is_more).map(|last| {
            let (value, key) = last.place;
            Cursor::new(CursorPosition { search, is_unverified: last.is_unverified, value, key, held: 0, given: 0 })
        });
        let hits = given.iter().map(|given| {
            let added = Signals::unpack(given.signals).added_to(1.0);
            let explanation = Explanation::new(0.0, None, added, &[]);
            Hit { key: given.place.1, score: added.sum(), explanation: query.explain.then_some(explanation) }
        });
        Ok(SearchPage { hits: hits.collect(), next, total, facets: counter.map(Counter::finish) })
    }
}

/// A hit in an order.
struct OrderedHit {
    place: (u64, ToolKey),
    is_unverified: bool,
    signals: Packed,
}

impl Ranked {
    /// Returns the first hit after a position, if the search had to run again.
    fn after(&self, place: &CursorPosition) -> usize {
        let score = f32::from_bits(u32::try_from(place.value).unwrap_or_default());
        let is_before = |hit: &RankedHit| hit.score.total_cmp(&score).reverse().then_with(|| place.key.cmp(&hit.key)).is_le();
        if place.is_unverified {
            self.verified + self.hits[self.verified..].partition_point(is_before)
        } else {
            self.hits[..self.verified].partition_point(is_before)
        }
    }
}

/// Returns a fingerprint of the search, so that a cursor of one is not used for another.
fn fingerprint(query: &SearchQuery) -> u32 {
    let text = query.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text: Option<String> = text.map(|text| text.chars().take(MAX_QUERY_CHARS).collect());
    let Filters { min_price, max_price, .. } = query.filters;
    let all = format!("{:?}", (text, labels(&query.filters), min_price, max_price, query.sort, query.include_unverified));
    let hash = alloy_primitives::keccak256(all);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}
