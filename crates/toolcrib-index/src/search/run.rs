//! Answering a search.
//!
//! Two ways. For words by relevance: the best [`MAX_RANKED`] by words alone, found by skipping most of the others, then ranked again by what
//! else is known. For everything else: tools in an order of their own, from where a cursor says.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use tantivy::query::Bm25StatisticsProvider;
use tantivy::query::{BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, Searcher, TERMINATED, Term};

use crate::Error;
use crate::model::ToolKey;
use crate::search::common;
use crate::search::cursor::Place;
use crate::search::document::{self, Fields};
use crate::search::embedding::{Asked, Embedding};
use crate::search::facets::Counter;
use crate::search::filter::{Test, Wanted, labels};
use crate::search::held::{Held, Ranked, RankedHit};
use crate::search::rank::{Packed, Signals};
use crate::search::shelf::{Order, Part, Shelf, Snapshot};
use crate::search::spelling::{self, MAX_CORRECTED};
use crate::search::words::{Word, Words};
use crate::search::{Cursor, Explanation, Facets, Filters, Hit, MAX_LIMIT, MAX_QUERY_CHARS, SearchPage, SearchQuery, Sort};

/// Most hits of a search for words by relevance. Nobody reads further; whoever wants everything takes another order.
pub const MAX_RANKED: usize = 300;

/// Most different words of a query that are searched for. Requests of agents have up to some sixty; fewer lose what they ask for.
const MAX_WORDS: usize = 96;

/// A word that more than so many tools have, and more than one in [`EVERYWHERE_SHARE`], finds none by itself when there are others: it is in
/// the way of skipping. It counts for those that the other words find.
const EVERYWHERE: u64 = 2_000;
const EVERYWHERE_SHARE: u64 = 8;

/// What a word adds when it is in the name or the description, beside what it adds by being in the text.
const NAME: f32 = 0.4;
const DESCRIPTION: f32 = 0.3;

/// What two words add when they are neighbours in both, in this order.
const PAIR: f32 = 0.3;

/// What two words add when they are neighbours in both, in either order and with function words between them.
const NEIGHBOURS: f32 = 0.3;

/// What a function word counts. They tell near duplicates apart and find nothing by themselves.
const FUNCTION_WORD: f32 = 0.15;

/// What a word of asking counts.
const REQUEST_WORD: f32 = 0.6;

/// How rare a word of asking counts as at most, as an inverse document frequency: as if one tool in seven had it. In a small directory it
/// may be in one tool alone, and would outweigh what the request is about.
const REQUEST_RARITY: f32 = 2.0;

/// What a word with nearly the same meaning counts.
const SYNONYM: f32 = 0.3;

/// Most synonyms of all words of a query. Each is looked up in three fields.
const MAX_SYNONYMS: usize = 48;

/// What an identifier adds when it is written as in the tool.
const WHOLE: f32 = 0.5;

/// What a number counts. Numbers in requests are mostly arguments, not what the tool is about.
const NUMBER: f32 = 0.3;

/// What a corrected word counts for each mistake.
const MISTAKE: f32 = 0.6;

/// What nearness of meaning adds, as a part of what the best hit has by its words: for each deviation by which a hit is nearer than the
/// others are on average. How near texts are to each other at all differs from model to model and from query to query; this does not.
const MEANING: f64 = 0.2;

/// Most deviations that count: together they add as much as the best hit has.
const MAX_DEVIATIONS: f64 = 5.0;

/// Deviations from which a tool is found by its meaning alone, where the directory is so small that all of it is ranked.
const MEANT_DEVIATIONS: f64 = 1.0;

/// The least that counts as a deviation. Of few hits, or of hits that all mean the same, the smallest difference would be a large one.
const MIN_DEVIATION: f64 = 0.05;

/// Nearness is counted in this part of one, so that sums are exact.
const NEAR_STEPS: f32 = 4096.0;

/// Scores by words are rounded to this part of one, so that the order in which sums are made does not matter.
const SCORE_STEPS: f32 = 256.0;

/// Everything that answering takes.
pub(super) struct Answering<'a> {
    pub(super) verified: &'a Shelf,
    pub(super) unverified: &'a Shelf,
    pub(super) held: &'a Held,
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
        // Something was asked for, but nothing that can be a word.
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

    fn by_relevance(&self, query: &SearchQuery, words: &Words, search: u32, after: Option<Place>) -> Result<SearchPage, Error> {
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
            Cursor::new(Place {
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
            // In a small directory everything can be compared by meaning. Where no word fits nothing was asked for that is here.
            if asked.is_some() && !found.is_empty() && snapshot.searcher.num_docs() <= MAX_RANKED as u64 {
                add_others(&snapshot, &wanted, &mut found)?;
            }
            let mut hits: Vec<RankedHit> = rank_again(&snapshot.parts, &found, asked.as_ref());
            let most = hits.iter().map(|hit| hit.text).fold(0.0, f32::max);
            let is_meant =
                |hit: &RankedHit| hit.meaning.is_some_and(|meaning| meaning >= (MEANING * MEANT_DEVIATIONS) as f32 * most);
            let is_hit: Vec<bool> = found.iter().zip(&hits).map(|(found, hit)| found.score > 0.0 || is_meant(hit)).collect();
            let mut kept = is_hit.iter();
            found.retain(|_| kept.next() == Some(&true));
            let mut kept = is_hit.iter();
            hits.retain(|_| kept.next() == Some(&true));
            // With fewer than the most all that match were found.
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
        after: Option<Place>,
    ) -> Result<SearchPage, Error> {
        let limit = query.limit.clamp(1, MAX_LIMIT);
        let mut given: Vec<Given> = Vec::with_capacity(limit + 1);
        let mut total = Some(0);
        let mut counter = query.facets.then(Counter::default);
        for (is_unverified, shelf) in self.shelves(query) {
            let snapshot = shelf.snapshot();
            let wanted = Wanted::of(&query.filters, &shelf.fields);
            let needed = words.map(|words| Needed::of(words, &snapshot.searcher, &shelf.fields)).transpose()?;
            // All verified were given before a place among the unverified.
            let is_done = after.is_some_and(|place| place.is_unverified) && !is_unverified;
            let left = if is_done { 0 } else { limit + 1 - given.len() };
            let from = after.filter(|place| place.is_unverified == is_unverified).map(|place| (place.value, place.key));
            let mut places: Vec<Given> = Vec::new();
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
                let give = |doc: DocId| Given { place: part.place(order, doc), is_unverified, signals: part.signals(doc) };
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
            Cursor::new(Place { search, is_unverified: last.is_unverified, value, key, held: 0, given: 0 })
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
struct Given {
    place: (u64, ToolKey),
    is_unverified: bool,
    signals: Packed,
}

/// A hit by its words.
struct Found {
    score: f32,
    part: usize,
    doc: DocId,
}

impl Ranked {
    /// The first hit after a place, if the search had to be made again.
    fn after(&self, place: &Place) -> usize {
        let score = f32::from_bits(u32::try_from(place.value).unwrap_or_default());
        let is_before = |hit: &RankedHit| hit.score.total_cmp(&score).reverse().then_with(|| place.key.cmp(&hit.key)).is_le();
        if place.is_unverified {
            self.verified + self.hits[self.verified..].partition_point(is_before)
        } else {
            self.hits[..self.verified].partition_point(is_before)
        }
    }
}

/// What tells a search from others, so that a cursor of one is not used for another.
fn fingerprint(query: &SearchQuery) -> u32 {
    let text = query.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text: Option<String> = text.map(|text| text.chars().take(MAX_QUERY_CHARS).collect());
    let Filters { min_price, max_price, .. } = query.filters;
    let all = format!("{:?}", (text, labels(&query.filters), min_price, max_price, query.sort, query.include_unverified));
    let hash = alloy_primitives::keccak256(all);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// Terms to search for, and how much each counts.
#[derive(Default)]
struct Terms {
    /// Those that find tools.
    finding: Vec<(Term, f32)>,
    /// Those that only add to the score of what was found: the same words in name and description, neighbours, and words that are everywhere.
    adding: Vec<(Term, f32)>,
    corrected: Vec<(String, String)>,
    /// How many synonyms are among them.
    synonyms: usize,
}

/// What a word of a query counts that `found` tools have.
fn weight_of(word: &Word, searcher: &Searcher, found: u64) -> f32 {
    if word.term.bytes().all(|byte| byte.is_ascii_digit()) {
        NUMBER
    } else if common::is_request(&word.plain) {
        REQUEST_WORD * (REQUEST_RARITY / rarity(searcher, found)).min(1.0)
    } else {
        1.0
    }
}

/// How rare a word is that `found` tools have: its inverse document frequency, of rounded counts as scores are.
fn rarity(searcher: &Searcher, found: u64) -> f32 {
    let (all, found) = (steady(searcher.num_docs()), steady(found));
    (1.0 + (all.saturating_sub(found) as f32 + 0.5) / (found as f32 + 0.5)).ln()
}

impl Terms {
    fn of(words: &Words, searcher: &Searcher, fields: &Fields) -> Result<Self, Error> {
        let mut all = Self::default();
        let everywhere = EVERYWHERE.max(searcher.num_docs() / EVERYWHERE_SHARE);
        let mut seen = HashSet::new();
        let last = words.parts.len().saturating_sub(1);
        let mut corrections = 0;
        // A synonym that is in the query counts as itself.
        let mut synonyms: HashSet<&str> = words.terms().collect();
        for (at, word) in words.parts.iter().enumerate() {
            if seen.len() >= MAX_WORDS || !seen.insert(word.term.as_str()) {
                continue;
            }
            if common::is_function(&word.plain) {
                all.add_everywhere(fields, &word.term, FUNCTION_WORD);
                continue;
            }
            let weight = weight_of(word, searcher, searcher.doc_freq(&Term::from_field_text(fields.text, &word.term))?);
            let found = all.add_word(searcher, fields, &word.term, weight, everywhere)?;
            let is_whole = all.find(searcher, fields.pairs, &word.plain, weight * WHOLE)?;
            // A word that has synonyms is spelled right.
            let is_synonym = all.add_synonyms(searcher, fields, &word.term, found, weight, &mut synonyms)?;
            if found == 0 && !is_whole && !is_synonym && corrections < MAX_CORRECTED {
                corrections += 1;
                for near in spelling::near(searcher, fields.text, &word.term, at == last)? {
                    let mistakes = i32::try_from(near.mistakes.max(1)).unwrap_or(1);
                    all.add_word(searcher, fields, &near.term, weight * MISTAKE.powi(mistakes), u64::MAX)?;
                    all.corrected.push((word.plain.clone(), near.term));
                }
            }
        }
        let mut pairs = HashSet::new();
        for pair in words.pairs().take(MAX_WORDS) {
            if pairs.insert(pair.clone()) {
                all.adding.push((Term::from_field_text(fields.pairs, &pair), PAIR));
            }
        }
        let mut neighbours = HashSet::new();
        for two in words.neighbours().take(MAX_WORDS) {
            if neighbours.insert(two.clone()) {
                all.adding.push((Term::from_field_text(fields.neighbours, &two), NEIGHBOURS));
            }
        }
        for whole in words.wholes.iter().take(MAX_WORDS) {
            if pairs.insert(whole.clone()) {
                all.find(searcher, fields.pairs, whole, WHOLE)?;
            }
        }
        if all.finding.is_empty() {
            // Nothing but words that are everywhere.
            let (finding, adding) = all.adding.into_iter().partition(|(term, _)| term.field() == fields.text);
            (all.finding, all.adding) = (finding, adding);
        }
        Ok(all)
    }

    /// Adds a word that finds nothing by itself.
    fn add_everywhere(&mut self, fields: &Fields, word: &str, weight: f32) {
        self.adding.push((Term::from_field_text(fields.text, word), weight));
        self.adding.push((Term::from_field_text(fields.name, word), weight * NAME));
        self.adding.push((Term::from_field_text(fields.description, word), weight * DESCRIPTION));
    }

    /// Adds what means nearly the same as a word that `found` tools have, and says whether a tool has any of it.
    fn add_synonyms(
        &mut self,
        searcher: &Searcher,
        fields: &Fields,
        word: &str,
        found: u64,
        weight: f32,
        seen: &mut HashSet<&str>,
    ) -> Result<bool, Error> {
        let before = self.synonyms;
        for synonym in common::synonyms(word) {
            if self.synonyms >= MAX_SYNONYMS || !seen.insert(synonym) {
                continue;
            }
            let others = searcher.doc_freq(&Term::from_field_text(fields.text, synonym))?;
            if others == 0 {
                continue;
            }
            self.synonyms += 1;
            // A rare synonym says no more than the word that was asked for.
            let share = if found == 0 { 1.0 } else { (rarity(searcher, found) / rarity(searcher, others)).min(1.0) };
            self.add_word(searcher, fields, synonym, weight * SYNONYM * share, EVERYWHERE)?;
        }
        Ok(self.synonyms > before)
    }

    /// Adds a word, and says how many tools have it.
    fn add_word(&mut self, searcher: &Searcher, fields: &Fields, word: &str, weight: f32, everywhere: u64) -> Result<u64, Error> {
        let term = Term::from_field_text(fields.text, word);
        let found = searcher.doc_freq(&term)?;
        if found > everywhere {
            self.adding.push((term, weight));
        } else if found > 0 {
            self.finding.push((term, weight));
            self.adding.push((Term::from_field_text(fields.name, word), weight * NAME));
            self.adding.push((Term::from_field_text(fields.description, word), weight * DESCRIPTION));
        }
        Ok(found)
    }

    /// Adds a term that finds tools, if there is one that has it.
    fn find(&mut self, searcher: &Searcher, field: Field, text: &str, weight: f32) -> Result<bool, Error> {
        let term = Term::from_field_text(field, text);
        let is_known = searcher.doc_freq(&term)? > 0;
        if is_known {
            self.finding.push((term, weight));
        }
        Ok(is_known)
    }

    /// Any of those that find, each with its weight.
    fn finding(&self, searcher: &Searcher) -> Result<Box<dyn Weight>, Error> {
        let clauses = self.finding.iter().map(|(term, weight)| {
            let query: Box<dyn Query> = Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs));
            (Occur::Should, Box::new(BoostQuery::new(query, *weight)) as Box<dyn Query>)
        });
        let query = BooleanQuery::new(clauses.collect());
        let steady = Steady(searcher);
        Ok(query.weight(EnableScoring::enabled_from_statistics_provider(&steady, searcher))?)
    }
}

/// The best hits by words.
fn best(snapshot: &Snapshot, terms: &Terms, wanted: &Wanted) -> Result<Vec<Found>, Error> {
    if terms.finding.is_empty() {
        return Ok(Vec::new());
    }
    let finding = terms.finding(&snapshot.searcher)?;
    let mut one_by_one = None;
    let mut best: BinaryHeap<Reverse<Scored>> = BinaryHeap::with_capacity(MAX_RANKED + 1);
    // The largest first: what it gives lets most of the others be skipped.
    let mut parts: Vec<usize> = (0..snapshot.parts.len()).collect();
    parts.sort_by_key(|number| Reverse(snapshot.parts[*number].reader.max_doc()));
    for number in parts {
        let part = &snapshot.parts[number];
        let Some(test) = wanted.of_part(part)? else { continue };
        if let Some(few) = &test.rare {
            let mut scores = vec![0.0; few.len()];
            let weights = match &one_by_one {
                Some(weights) => weights,
                None => one_by_one.insert(weights(&terms.finding, &snapshot.searcher)?),
            };
            add_scores(few, &mut scores, weights, part)?;
            for (doc, score) in few.iter().zip(scores).filter(|(_, score)| *score > 0.0) {
                keep(&mut best, Scored { score, part: number, doc: *doc });
            }
            continue;
        }
        let mut threshold = least(&best);
        finding.for_each_pruning(threshold, &part.reader, &mut |doc, score| {
            if test.holds(doc) {
                keep(&mut best, Scored { score, part: number, doc });
                threshold = least(&best);
            }
            threshold
        })?;
    }
    let mut found: Vec<Found> = best.into_iter().map(|Reverse(Scored { score, part, doc })| Found { score, part, doc }).collect();
    found.sort_unstable_by_key(|found| (found.part, found.doc));
    let adding = weights(&terms.adding, &snapshot.searcher)?;
    for hits in found.chunk_by_mut(|a, b| a.part == b.part) {
        let docs: Vec<DocId> = hits.iter().map(|hit| hit.doc).collect();
        let mut scores: Vec<f32> = hits.iter().map(|hit| hit.score).collect();
        add_scores(&docs, &mut scores, &adding, &snapshot.parts[hits[0].part])?;
        for (hit, score) in hits.iter_mut().zip(scores) {
            hit.score = score;
        }
    }
    Ok(found)
}

/// Adds every other tool that fits the filters, with nothing for its words.
fn add_others(snapshot: &Snapshot, wanted: &Wanted, found: &mut Vec<Found>) -> Result<(), Error> {
    let known: HashSet<(usize, DocId)> = found.iter().map(|found| (found.part, found.doc)).collect();
    for (number, part) in snapshot.parts.iter().enumerate() {
        let Some(test) = wanted.of_part(part)? else { continue };
        let others = (0..part.reader.max_doc()).filter(|doc| test.has(*doc) && !known.contains(&(number, *doc)));
        found.extend(others.map(|doc| Found { score: 0.0, part: number, doc }));
    }
    found.sort_unstable_by_key(|found| (found.part, found.doc));
    Ok(())
}

fn keep(best: &mut BinaryHeap<Reverse<Scored>>, scored: Scored) {
    best.push(Reverse(scored));
    if best.len() > MAX_RANKED {
        best.pop();
    }
}

/// The score that a hit must have to be among the best.
fn least(best: &BinaryHeap<Reverse<Scored>>) -> f32 {
    match best.peek() {
        Some(Reverse(least)) if best.len() >= MAX_RANKED => least.score,
        _ => f32::MIN,
    }
}

/// What a term is worth in all segments, and how much that counts.
type Weighed = (Box<dyn Weight>, f32);

/// What terms are worth, each by itself. It is found out once and holds in every segment.
fn weights(terms: &[(Term, f32)], searcher: &Searcher) -> Result<Vec<Weighed>, Error> {
    let steady = Steady(searcher);
    let mut weights = Vec::with_capacity(terms.len());
    for (term, weight) in terms {
        if searcher.doc_freq(term)? == 0 {
            continue;
        }
        let query = TermQuery::new(term.clone(), IndexRecordOption::WithFreqs);
        weights.push((query.weight(EnableScoring::enabled_from_statistics_provider(&steady, searcher))?, *weight));
    }
    Ok(weights)
}

/// Adds to the scores of a few documents of a segment, which are in their order, what terms are worth in them.
fn add_scores(docs: &[DocId], scores: &mut [f32], weights: &[Weighed], part: &Part) -> Result<(), Error> {
    for (one, weight) in weights {
        let mut scorer = one.scorer(&part.reader, *weight)?;
        for (doc, score) in docs.iter().zip(scores.iter_mut()) {
            let at = if scorer.doc() < *doc { scorer.seek(*doc) } else { scorer.doc() };
            if at == *doc {
                *score += scorer.score();
            } else if at == TERMINATED {
                break;
            }
        }
    }
    Ok(())
}

/// Scores with what else is known.
fn rank_again(parts: &[Part], found: &[Found], asked: Option<&Asked>) -> Vec<RankedHit> {
    let rounded = |score: f32| (score * SCORE_STEPS).round() / SCORE_STEPS;
    let most = found.iter().map(|found| rounded(found.score)).fold(0.0, f32::max);
    let deviations = asked.map(|asked| {
        let vectors = found.iter().map(|found| parts[found.part].vector(found.doc));
        deviations(&vectors.map(|vector| Some(asked.nearness(&vector?))).collect::<Vec<_>>())
    });
    let hits = found.iter().enumerate().map(|(number, found)| {
        let part = &parts[found.part];
        let text = rounded(found.score);
        let meaning = deviations.as_ref().map(|all| rounded((MEANING * all[number]) as f32 * most));
        let base = text + meaning.unwrap_or_default();
        let signals = part.signals(found.doc);
        let score = base + Signals::unpack(signals).added_to(base).sum();
        RankedHit { key: part.key(found.doc), score, text, meaning, signals }
    });
    hits.collect()
}

/// By how many deviations each is nearer than all are on average; nothing for those that are not, or of which nothing is known.
fn deviations(near: &[Option<f32>]) -> Vec<f64> {
    let steps = |near: f32| (near * NEAR_STEPS).round() as i64;
    let known = near.iter().flatten().map(|near| steps(*near));
    let (count, sum, squares) =
        known.fold((0, 0, 0), |(count, sum, squares), near| (count + 1, sum + near, squares + near * near));
    let (count, one) = (f64::from(count.max(1)), f64::from(NEAR_STEPS));
    let mean = sum as f64 / count;
    let deviation = (squares as f64 / count - mean * mean).max(0.0).sqrt().max(MIN_DEVIATION * one);
    let beyond = |near: f32| ((steps(near) as f64 - mean) / deviation).clamp(0.0, MAX_DEVIATIONS);
    near.iter().map(|near| near.map_or(0.0, beyond)).collect()
}

/// A document and its score, in the order of scores.
#[derive(Clone, Copy, PartialEq)]
struct Scored {
    score: f32,
    part: usize,
    doc: DocId,
}

impl Eq for Scored {}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then_with(|| (other.part, other.doc).cmp(&(self.part, self.doc)))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Neighbours that a tool usually has. Fixed: their mean can be so small that one tool more moves its rounded value by a tenth, and with it
/// the place of a cursor.
const USUAL_NEIGHBOURS: u64 = 8;

/// Statistics, rounded down to four bits: a few tools more or less leave scores as they are.
struct Steady<'a>(&'a Searcher);

fn steady(count: u64) -> u64 {
    let shift = (64 - count.leading_zeros()).saturating_sub(4);
    count >> shift << shift
}

impl Bm25StatisticsProvider for Steady<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let docs = self.0.total_num_docs()?;
        if self.0.schema().get_field_name(field) == document::NEIGHBOURS {
            return Ok(steady(docs) * USUAL_NEIGHBOURS);
        }
        let tokens = self.0.total_num_tokens(field)?;
        // The mean is what counts: in eighths, and then as if it were of the rounded number.
        let mean = (tokens * 8).checked_div(docs).unwrap_or_default().max(1);
        Ok(steady(mean) * steady(docs) / 8)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(steady(self.0.total_num_docs()?))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(steady(Bm25StatisticsProvider::doc_freq(self.0, term)?))
    }
}

/// Words of which all must be there, each as it is or as something near.
struct Needed(Vec<Vec<Term>>);

impl Needed {
    fn of(words: &Words, searcher: &Searcher, fields: &Fields) -> Result<Self, Error> {
        let mut needed = Vec::new();
        let mut seen = HashSet::new();
        let last = words.parts.len().saturating_sub(1);
        let is_content = words.parts.iter().any(|word| !common::is_function(&word.plain));
        for (at, word) in words.parts.iter().enumerate() {
            if is_content && common::is_function(&word.plain) {
                continue;
            }
            if seen.len() >= MAX_WORDS || !seen.insert(word.term.as_str()) {
                continue;
            }
            let mut any = vec![Term::from_field_text(fields.text, &word.term), Term::from_field_text(fields.pairs, &word.plain)];
            let is_unknown = searcher.doc_freq(&any[0])? == 0 && searcher.doc_freq(&any[1])? == 0;
            if is_unknown && needed.len() < MAX_CORRECTED {
                let near = spelling::near(searcher, fields.text, &word.term, at == last)?;
                any.extend(near.iter().map(|near| Term::from_field_text(fields.text, &near.term)));
            }
            needed.push(any);
        }
        Ok(Self(needed))
    }

    /// The documents of a segment that have them all, in their order.
    fn docs(&self, part: &Part, test: &Test<'_>) -> Result<Vec<DocId>, Error> {
        let clauses = self.0.iter().map(|any| {
            let any = any.iter().map(|term| {
                let query: Box<dyn Query> = Box::new(TermQuery::new(term.clone(), IndexRecordOption::Basic));
                (Occur::Should, query)
            });
            (Occur::Must, Box::new(BooleanQuery::new(any.collect())) as Box<dyn Query>)
        });
        let query = BooleanQuery::new(clauses.collect());
        let schema = part.reader.schema();
        let weight = query.weight(EnableScoring::disabled_from_schema(schema))?;
        let mut docs = Vec::new();
        weight.for_each_no_score(&part.reader, &mut |some| docs.extend(some.iter().filter(|doc| test.has(**doc))))?;
        Ok(docs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_counts_beside_the_others() {
        assert_eq!(deviations(&[]), [] as [f64; 0]);
        assert_eq!(deviations(&[Some(0.9)]), [0.0]);
        assert_eq!(deviations(&[Some(0.75), Some(0.25), None]), [1.0, 0.0, 0.0]);
        // The same distance on another level is the same; one that is next to nothing stays so.
        assert_eq!(deviations(&[Some(0.5), Some(0.0)]), [1.0, 0.0]);
        assert!(deviations(&[Some(0.501), Some(0.5)])[0] < 0.02);
        let mut many = vec![Some(0.0); 299];
        many.push(Some(1.0));
        assert_eq!(deviations(&many)[299], MAX_DEVIATIONS);
    }

    #[test]
    fn rounded_counts_keep_their_order() {
        let mut last = 0;
        for count in 0..100_000 {
            let now = steady(count);
            assert!(now >= last && now <= count && count - now <= count / 8, "{count}");
            last = now;
        }
        assert_eq!(steady(u64::MAX) >> 60, 15);
    }
}
