//! What is looked for: the terms of a request, and how much each counts.

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

/// What they add when they are neighbours in the tags or in a schema of the tool.
const DETAIL_PAIR: f32 = 0.2;

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

/// Terms to search for, and how much each counts.
#[derive(Default)]
pub(super) struct Terms {
    /// Those that find tools.
    pub(super) finding: Vec<(Term, f32)>,
    /// Those that only add to the score of what was found: the same words in name and description, neighbours, and words that are everywhere.
    pub(super) adding: Vec<(Term, f32)>,
    pub(super) corrected: Vec<(String, String)>,
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

/// Words of which all must be there, each as it is or as something near.
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

    /// The documents of a segment that have them all, in their order.
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
