//! A cache of ranked hits for the next pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::ToolKey;
use crate::search::rank::{Packed, Signals};
use crate::search::{Explanation, Facets};

/// The maximum number of searches whose hits are cached, the most recently used. Each takes some 20 kB at most.
pub(super) const HELD: usize = 256;

/// The ranked hits of a search for words.
#[derive(Debug)]
pub(super) struct Ranked {
    /// The fingerprint of the search.
    pub(super) search: u32,
    /// The hits, verified ones first.
    pub(super) hits: Vec<RankedHit>,
    /// How many of them are verified.
    pub(super) verified: usize,
    /// The total number of hits, if known.
    pub(super) total: Option<u64>,
    pub(super) facets: Option<Facets>,
    pub(super) corrected: Vec<(String, String)>,
}

/// A hit and the parts of its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedHit {
    pub(super) key: ToolKey,
    pub(super) score: f32,
    pub(super) text: f32,
    pub(super) meaning: Option<f32>,
    pub(super) signals: Packed,
}

impl RankedHit {
    pub(super) fn explanation(&self, corrected: &[(String, String)]) -> Explanation {
        let base = self.text + self.meaning.unwrap_or_default();
        Explanation::new(self.text, self.meaning, Signals::unpack(self.signals).added_to(base), corrected)
    }
}

/// The cached searches.
#[derive(Debug, Default)]
pub(super) struct RankedCache(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    by_number: HashMap<u64, (u64, Arc<Ranked>)>,
    uses: u64,
}

impl RankedCache {
    /// Caches hits, and returns their number. It is never zero, and random, so that numbers of other processes do not match.
    pub(super) fn put(&self, ranked: Arc<Ranked>) -> u64 {
        let mut number = [0; 8];
        // Without randomness nothing is cached, and searches run again.
        if getrandom::fill(&mut number).is_err() {
            return 0;
        }
        let number = u64::from_be_bytes(number) | 1;
        let mut shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.uses += 1;
        let uses = shelves.uses;
        if shelves.by_number.len() >= HELD
            && let Some(oldest) = shelves.by_number.iter().min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number)
        {
            shelves.by_number.remove(&oldest);
        }
        shelves.by_number.insert(number, (uses, ranked));
        number
    }

    /// Returns the hits with a number, if they are still cached and belong to this search.
    pub(super) fn get(&self, number: u64, search: u32) -> Option<Arc<Ranked>> {
        let mut shelves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.uses += 1;
        let uses = shelves.uses;
        let (used, ranked) = shelves.by_number.get_mut(&number)?;
        *used = uses;
        Some(Arc::clone(ranked)).filter(|ranked| ranked.search == search)
    }

    /// Clears the cache, as a restart does.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_number.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_held() {
        let held = RankedCache::default();
        let ranked =
            |search| Arc::new(Ranked { search, hits: Vec::new(), verified: 0, total: None, facets: None, corrected: Vec::new() });
        let first = held.put(ranked(1));
        let second = held.put(ranked(2));
        for search in 0..HELD as u32 - 1 {
            held.put(ranked(search));
            assert!(held.get(first, 1).is_some(), "what is asked for stays");
        }
        assert!(held.get(second, 2).is_none());
        assert!(held.get(first, 9).is_none(), "not for another search");
        held.forget();
        assert!(held.get(first, 1).is_none());
    }
}
