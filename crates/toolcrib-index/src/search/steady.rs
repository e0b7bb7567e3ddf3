//! Statistics that do not change with a few more or fewer tools, so that scores do not change either.

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use crate::search::document;

/// The usual number of neighbouring pairs of a tool. Fixed: their mean can be so small that one more tool changes its rounded value by a
/// tenth, and with it the position of a cursor.
const USUAL_NEIGHBOURS: u64 = 8;

/// The usual number of pairs in the details of a tool. Fixed for the same reason.
const USUAL_DETAIL_PAIRS: u64 = 32;

/// Word scores are rounded to this fraction of one, so that the order of additions does not matter.
const SCORE_STEPS: f32 = 256.0;

/// Statistics rounded down to four significant bits: a few more or fewer tools leave scores as they are.
pub(super) struct Steady<'a>(pub(super) &'a Searcher);

pub(super) fn steady(count: u64) -> u64 {
    let shift = (64 - count.leading_zeros()).saturating_sub(4);
    count >> shift << shift
}

impl Bm25StatisticsProvider for Steady<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let docs = self.0.total_num_docs()?;
        match self.0.schema().get_field_name(field) {
            document::NEIGHBOURS => return Ok(steady(docs) * USUAL_NEIGHBOURS),
            document::DETAILS => return Ok(steady(docs) * USUAL_DETAIL_PAIRS),
            _ => {}
        }
        let tokens = self.0.total_num_tokens(field)?;
        // Only the mean is used: rounded to eighths, and then scaled to the rounded number of documents.
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

/// Returns the inverse document frequency of a word that `found` tools have, with rounded counts as in scores.
pub(super) fn rarity(searcher: &Searcher, found: u64) -> f32 {
    let (all, found) = (steady(searcher.num_docs()), steady(found));
    (1.0 + (all.saturating_sub(found) as f32 + 0.5) / (found as f32 + 0.5)).ln()
}

/// Rounds a score to the steps in which scores are compared.
pub(super) fn rounded(score: f32) -> f32 {
    (score * SCORE_STEPS).round() / SCORE_STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

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
