//! Counts hits by label.

use std::collections::HashMap;

use tantivy::DocId;

use crate::Error;
use crate::search::document::column;
use crate::search::label::{self, CATEGORIES};
use crate::search::part::Part;
use crate::search::{Facet, Facets};

/// The maximum number of hits that are counted. Counting a million takes longer than finding them; the shares are the same.
pub const MAX_COUNTED: usize = 50_000;

/// The maximum number of values of one kind that are returned, the most frequent first.
const MAX_VALUES: usize = 50;

/// Counts by label.
#[derive(Default)]
pub(super) struct Counter {
    counts: HashMap<String, u64>,
    counted: u64,
}

impl Counter {
    /// Counts documents of a segment, up to the limit.
    pub(super) fn add(&mut self, part: &Part, docs: impl Iterator<Item = DocId>) -> Result<(), Error> {
        let left = MAX_COUNTED.saturating_sub(usize::try_from(self.counted).unwrap_or(usize::MAX));
        let Some(labels) = part.reader.fast_fields().str(column::FACET)? else {
            self.counted += docs.take(left).count() as u64;
            return Ok(());
        };
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for doc in docs.take(left) {
            self.counted += 1;
            for ord in labels.term_ords(doc) {
                *counts.entry(ord).or_default() += 1;
            }
        }
        let mut ords: Vec<(u64, u64)> = counts.into_iter().collect();
        ords.sort_unstable();
        let mut label = String::new();
        for (ord, count) in ords {
            label.clear();
            if labels.ord_to_str(ord, &mut label)? {
                *self.counts.entry(label.clone()).or_default() += count;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Facets {
        let of = |kind: &str| {
            let mut facets: Vec<Facet> = self
                .counts
                .iter()
                .filter_map(|(label, count)| Some(Facet { value: label.strip_prefix(kind)?.to_owned(), count: *count }))
                .collect();
            facets.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
            facets.truncate(MAX_VALUES);
            facets
        };
        let categories = CATEGORIES.map(|category| {
            let count = self.counts.get(&format!("{}{category}", label::TAG)).copied().unwrap_or_default();
            Facet { value: category.to_owned(), count }
        });
        Facets {
            tags: of(label::TAG),
            categories: categories.to_vec(),
            chains: of(label::CHAIN),
            access: of(label::ACCESS),
            tiers: of(label::TIER),
            protocols: of(label::PROTOCOL),
            counted: self.counted,
        }
    }
}
