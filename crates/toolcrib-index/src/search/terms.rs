//! The terms of a query and their weights.

use std::collections::HashSet;

use tantivy::query::{BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, Searcher, Term};

use crate::Error;
use crate::search::common;
use crate::search::document::Fields;
use crate::search::filter::Test;
use crate::search::part::Part;
use crate::search::spelling::{self, MAX_CORRECTED};
use crate::search::steady::{Steady, rarity};
use crate::search::words::{Word, Words};

/// The maximum number of distinct words in a query. Requests of agents have up to some sixty; a lower limit would cut their topic.
const MAX_WORDS: usize = 96;

/// A word that more tools have than this, and more than one in [`EVERYWHERE_SHARE`], finds no tools by itself if there are other words: it
/// would prevent skipping. It counts for tools that the other words find.
const EVERYWHERE: u64 = 2_000;
const EVERYWHERE_SHARE: u64 = 8;

/// The additional weight of a word in the name or the description.
const NAME: f32 = 0.4;
const DESCRIPTION: f32 = 0.3;

/// The weight of two words that are neighbours in both, in this order.
const PAIR: f32 = 0.3;

/// Their weight when they are neighbours in the tags or in a schema of the tool.
const DETAIL_PAIR: f32 = 0.2;

/// The weight of two words that are neighbours in both, in either order and with function words between them.
const NEIGHBOURS: f32 = 0.3;

/// The weight of a function word. They distinguish near duplicates and find nothing by themselves.
const FUNCTION_WORD: f32 = 0.15;

/// The weight of a request word.
const REQUEST_WORD: f32 = 0.6;

/// The maximum inverse document frequency of a request word: as if one tool in seven had it. In a small directory only one tool may have
/// it, and it would outweigh the topic of the request.
const REQUEST_RARITY: f32 = 2.0;

/// The weight of a synonym.
const SYNONYM: f32 = 0.3;

/// The maximum number of synonyms of all words in a query. Each is looked up in three fields.
const MAX_SYNONYMS: usize = 48;

/// The additional weight of an identifier that is written as in the tool.
const WHOLE: f32 = 0.5;

/// The weight of a number. Numbers in requests are mostly arguments instead of the topic.
const NUMBER: f32 = 0.3;

/// The factor of a corrected word for each mistake.
const MISTAKE: f32 = 0.6;

/// The terms of a query and their weights.
#[derive(Default)]
pub(super) struct Terms {
    /// Terms that find tools.
    pub(super) finding: Vec<(Term, f32)>,
    /// Terms that only add to the score of tools found by others: the same words in name and description, neighbours, and very frequent
    /// words.
    pub(super) adding: Vec<(Term, f32)>,
    pub(super) corrected: Vec<(String, String)>,
    /// How many of them are synonyms.
    synonyms: usize,
}

/// Returns the weight of a query word that `found` tools have.
fn weight_of(word: &Word, searcher: &Searcher, found: u64) -> f32 {
    if word.term.bytes().all(|byte| byte.is_ascii_digit()) {
        NUMBER
    } else if common::is_request(&word.plain) {
        REQUEST_WORD * (REQUEST_RARITY / rarity(searcher, found)).min(1.0)
    } else {
        1.0
    }
}

impl Terms {
    pub(super) fn of(words: &Words, searcher: &Searcher, fields: &Fields) -> Result<Self, Error> {
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
            // A word that has synonyms is spelled correctly.
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
                all.adding.push((Term::from_field_text(fields.details, &pair), DETAIL_PAIR));
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
            // All words are very frequent.
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

    /// Adds the synonyms of a word that `found` tools have, and returns whether a tool has any of them.
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
            // A rare synonym must not count more than the word itself.
            let share = if found == 0 { 1.0 } else { (rarity(searcher, found) / rarity(searcher, others)).min(1.0) };
            self.add_word(searcher, fields, synonym, weight * SYNONYM * share, EVERYWHERE)?;
        }
        Ok(self.synonyms > before)
    }

    /// Adds a word, and returns how many tools have it.
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

    /// Adds a term that finds tools, if a tool has it.
    fn find(&mut self, searcher: &Searcher, field: Field, text: &str, weight: f32) -> Result<bool, Error> {
        let term = Term::from_field_text(field, text);
        let is_known = searcher.doc_freq(&term)? > 0;
        if is_known {
            self.finding.push((term, weight));
        }
        Ok(is_known)
    }

    /// Returns a disjunction of the finding terms, each with its weight.
    pub(super) fn finding(&self, searcher: &Searcher) -> Result<Box<dyn Weight>, Error> {
        let clauses = self.finding.iter().map(|(term, weight)| {
            let query: Box<dyn Query> = Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs));
            (Occur::Should, Box::new(BoostQuery::new(query, *weight)) as Box<dyn Query>)
        });
        let query = BooleanQuery::new(clauses.collect());
        let steady = Steady(searcher);
        Ok(query.weight(EnableScoring::enabled_from_statistics_provider(&steady, searcher))?)
    }
}

/// Words that are all required, each exactly or as one of its corrections.
pub(super) struct Needed(Vec<Vec<Term>>);

impl Needed {
    pub(super) fn of(words: &Words, searcher: &Searcher, fields: &Fields) -> Result<Self, Error> {
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

    /// Returns the documents of a segment that have all words, in document order.
    pub(super) fn docs(&self, part: &Part, test: &Test<'_>) -> Result<Vec<DocId>, Error> {
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
