//! Statistics that a few tools more or less leave as they are, and with them scores.

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use crate::search::document;

/// Neighbours that a tool usually has. Fixed: their mean can be so small that one tool more moves its rounded value by a tenth, and with it
/// the place of a cursor.
const USUAL_NEIGHBOURS: u64 = 8;

/// Pairs of details that a tool usually has. Fixed for the same reason.
const USUAL_DETAIL_PAIRS: u64 = 32;

/// Scores by words are rounded to this part of one, so that the order in which sums are made does not matter.
const SCORE_STEPS: f32 = 256.0;

/// Statistics, rounded down to four bits: a few tools more or less leave scores as they are.
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

/// How rare a word is that `found` tools have: its inverse document frequency, of rounded counts as scores are.
pub(super) fn rarity(searcher: &Searcher, found: u64) -> f32 {
    let (all, found) = (steady(searcher.num_docs()), steady(found));
    (1.0 + (all.saturating_sub(found) as f32 + 0.5) / (found as f32 + 0.5)).ln()
}

/// A score in the steps in which scores are compared.
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
