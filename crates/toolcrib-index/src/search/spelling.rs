//! Spelling correction of words that no tool has.

use tantivy::schema::Field;
use tantivy::{Searcher, Term};
use tantivy_fst::Automaton;

use crate::Error;

/// The minimum length of a word that is corrected. With three letters each correction is another word.
const MIN_CHARS: usize = 4;

/// The maximum length of a word that is corrected, in bytes. Longer ones are not words.
const MAX_BYTES: usize = 40;

/// The minimum length of words that may have two mistakes.
const LONG_CHARS: usize = 8;

/// The maximum number of words in a query that are corrected. One takes up to some milliseconds in a dictionary of a million words.
pub(super) const MAX_CORRECTED: usize = 4;

/// The maximum number of corrections of one word.
const MAX_NEAR: usize = 3;

/// The maximum number of dictionary words that are compared with one word.
const MAX_SEEN: usize = 4_000;

/// A correction: a similar word in the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Near {
    pub(super) term: String,
    /// The edit distance. Zero if the word is a prefix of this one.
    pub(super) mistakes: usize,
    found: u64,
}

/// Returns dictionary words similar to one that is not in the dictionary, the best first.
/// With `is_prefix` the word may also be a prefix: the last word while a user is still typing.
pub(super) fn near(searcher: &Searcher, field: Field, word: &str, is_prefix: bool) -> Result<Vec<Near>, Error> {
    let chars = word.chars().count();
    // Identifiers and numbers are not misspelled words.
    if chars < MIN_CHARS || word.len() > MAX_BYTES || !word.chars().all(char::is_alphabetic) {
        return Ok(Vec::new());
    }
    let most = if chars >= LONG_CHARS { 2 } else { 1 };
    let mut found: Vec<Near> = Vec::new();
    let mut seen = 0;
    for reader in searcher.segment_readers() {
        let index = reader.inverted_index(field)?;
        let mut terms = index.terms().search(Misspelled { word: word.as_bytes(), most, is_prefix }).into_stream()?;
        while seen < MAX_SEEN && terms.advance() {
            seen += 1;
            let Ok(term) = std::str::from_utf8(terms.key()) else { continue };
            if term.chars().any(char::is_numeric) {
                continue;
            }
            let mistakes = if term.starts_with(word) { 0 } else { strsim::osa_distance(word, term) };
            if !found.iter().any(|near| near.term == term) {
                found.push(Near { term: term.to_owned(), mistakes, found: 0 });
            }
        }
    }
    for near in &mut found {
        near.found = searcher.doc_freq(&Term::from_field_text(field, &near.term))?;
    }
    found.retain(|near| near.found > 0);
    found.sort_by(|a, b| (a.mistakes, b.found, &a.term).cmp(&(b.mistakes, a.found, &b.term)));
    let best = found.first().map(|near| near.mistakes);
    found.retain(|near| Some(near.mistakes) == best);
    found.truncate(MAX_NEAR);
    Ok(found)
}

/// Accepts words within an edit distance of the word (`strsim` compares two words, and has no automaton for walking a dictionary), with
/// the same first letter: that one is rarely wrong, and most of the dictionary can be skipped. A state is a row of the Levenshtein table.
struct Misspelled<'a> {
    word: &'a [u8],
    most: usize,
    is_prefix: bool,
}

/// A row: one more entry than the word has bytes.
type Counts = [u8; MAX_BYTES + 1];

/// More than the largest allowed distance.
const TOO_MANY: u8 = 100;

#[derive(Clone)]
struct State {
    before: Counts,
    row: Counts,
    last: u8,
    length: u8,
    /// The whole word was read without a mistake.
    is_start: bool,
}

impl Misspelled<'_> {
    fn is_allowed(&self, mistakes: u8) -> bool {
        usize::from(mistakes) <= self.most
    }
}

impl Automaton for Misspelled<'_> {
    type State = State;

    fn start(&self) -> State {
        let row = std::array::from_fn(|at| u8::try_from(at).unwrap_or(TOO_MANY));
        State { before: [TOO_MANY; MAX_BYTES + 1], row, last: 0, length: 0, is_start: false }
    }

    fn is_match(&self, state: &State) -> bool {
        state.is_start || self.is_allowed(state.row[self.word.len()])
    }

    fn can_match(&self, state: &State) -> bool {
        let columns = ..=self.word.len();
        state.is_start || state.row[columns].iter().chain(&state.before[columns]).any(|mistakes| self.is_allowed(*mistakes))
    }

    fn accept(&self, state: &State, byte: u8) -> State {
        if state.is_start {
            return state.clone();
        }
        let length = state.length.saturating_add(1);
        let mut row = [TOO_MANY; MAX_BYTES + 1];
        if state.length == 0 && self.word.first() != Some(&byte) {
            return State { before: row, row, last: byte, length, is_start: false };
        }
        row[0] = length.min(TOO_MANY);
        for (at, wanted) in self.word.iter().enumerate() {
            let cost = u8::from(*wanted != byte);
            let mut least = (state.row[at] + cost).min(state.row[at + 1] + 1).min(row[at] + 1);
            if at > 0 && *wanted == state.last && self.word[at - 1] == byte {
                least = least.min(state.before[at - 1] + 1);
            }
            row[at + 1] = least.min(TOO_MANY);
        }
        let is_start = self.is_prefix && row[self.word.len()] == 0;
        State { before: state.row, row, last: byte, length, is_start }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepts(word: &str, term: &str, most: usize, is_prefix: bool) -> bool {
        let automaton = Misspelled { word: word.as_bytes(), most, is_prefix };
        let mut state = automaton.start();
        for byte in term.bytes() {
            if !automaton.can_match(&state) {
                return false;
            }
            state = automaton.accept(&state, byte);
        }
        automaton.is_match(&state)
    }

    #[test]
    fn mistakes_are_counted() {
        for (a, b, mistakes) in [
            ("weather", "weather", 0),
            ("wether", "weather", 1),
            ("waether", "weather", 1),
            ("wheather", "weather", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(strsim::osa_distance(a, b), mistakes, "{a} {b}");
        }
        assert!(accepts("wether", "weather", 1, false));
        assert!(accepts("waether", "weather", 1, false));
        assert!(!accepts("weather", "leather", 1, false));
        assert!(!accepts("weather", &"w".repeat(300), 2, false));
        assert!(accepts("weath", "weathermap", 1, true));
        assert!(!accepts("weath", "weathermap", 1, false));
    }

    proptest! {
        #[test]
        fn the_automaton_agrees_with_the_table(a in "[abc]{1,8}", b in "[abc]{1,8}", most in 0_usize..3) {
            let is_near = a[..1] == b[..1] && strsim::osa_distance(&a, &b) <= most;
            prop_assert_eq!(accepts(&a, &b, most, false), is_near);
        }
    }
}
