//! Filters of a search: labels as bit sets, and a price.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet as _, TERMINATED, Term};

use crate::Error;
use crate::search::Filters;
use crate::search::document::{Fields, cut};
use crate::search::label;
use crate::search::part::Part;

/// The maximum number of tags in one search. A tool has at most sixteen.
pub(super) const MAX_TAGS: usize = 16;

/// A label is looked up if at most one in this number of tools has it; for others bits are tested during the scan.
const RARE: u32 = 256;

/// Filters, as terms.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    labels: Vec<Term>,
    price: Option<RangeInclusive<u64>>,
}

impl Wanted {
    pub(super) fn of(filters: &Filters, fields: &Fields) -> Self {
        let Filters { min_price, max_price, .. } = filters;
        let price = (min_price.is_some() || max_price.is_some()).then(|| min_price.unwrap_or(0)..=max_price.unwrap_or(u64::MAX));
        Self { labels: labels(filters).iter().map(|text| Term::from_field_text(fields.label, text)).collect(), price }
    }

    /// Returns the filters for one segment; `None` when no document in it can match.
    pub(super) fn of_part<'a>(&self, part: &'a Part) -> Result<Option<Test<'a>>, Error> {
        let mut rarest: Option<(u32, &Term)> = None;
        for label in &self.labels {
            let count = part.reader.inverted_index(label.field())?.doc_freq(label)?;
            if count == 0 {
                return Ok(None);
            }
            if rarest.is_none_or(|(least, _)| count < least) {
                rarest = Some((count, label));
            }
        }
        let rare = rarest.filter(|(count, _)| *count <= part.reader.max_doc() / RARE).map(|(_, label)| label);
        let mut bits = Vec::with_capacity(self.labels.len());
        for label in self.labels.iter().filter(|label| Some(*label) != rare) {
            bits.push(part.bits(label)?);
        }
        let mut test = Test { part, bits, price: self.price.clone(), rare: None };
        if let Some(label) = rare {
            let mut docs = Vec::new();
            if let Some(mut postings) =
                part.reader.inverted_index(label.field())?.read_postings(label, IndexRecordOption::Basic)?
            {
                let mut doc = postings.doc();
                while doc != TERMINATED {
                    if test.holds(doc) {
                        docs.push(doc);
                    }
                    doc = postings.advance();
                }
            }
            test.rare = Some(docs);
        }
        Ok(Some(test))
    }
}

/// Returns the labels that a hit must have, truncated as labels of tools are.
pub(super) fn labels(filters: &Filters) -> Vec<String> {
    let Filters { chain, tags, access, creator, asset, protocol, tier, collection, origin, source, min_price: _, max_price: _ } =
        filters;
    let mut labels = Vec::new();
    labels.extend(chain.map(|chain| format!("{}{chain}", label::CHAIN)));
    labels.extend(tags.iter().take(MAX_TAGS).map(|tag| format!("{}{}", label::TAG, cut(tag.trim(), 64).to_lowercase())));
    labels.extend(access.as_ref().map(|access| format!("{}{}", label::ACCESS, access.as_str())));
    labels.extend(creator.map(|creator| format!("{}{creator:#x}", label::CREATOR)));
    labels.extend(asset.iter().map(|asset| format!("{}{}", label::ASSET, cut(asset, 256).to_ascii_lowercase())));
    labels.extend(protocol.iter().map(|protocol| format!("{}{}", label::PROTOCOL, cut(protocol, 64))));
    labels.extend(tier.iter().map(|tier| format!("{}{}", label::AT_LEAST, cut(tier, 64))));
    labels.extend(collection.map(|collection| format!("{}{collection:#x}", label::COLLECTION)));
    labels.extend(origin.iter().map(|origin| format!("{}{}", label::ORIGIN, cut(origin, 300).to_ascii_lowercase())));
    labels.extend(source.map(|source| format!("{}{}", label::SOURCE, source.as_str())));
    labels
}

/// Filters for one segment.
pub(super) struct Test<'a> {
    part: &'a Part,
    bits: Vec<Arc<BitSet>>,
    price: Option<RangeInclusive<u64>>,
    /// All documents that match, in document order, if they are few.
    pub(super) rare: Option<Vec<DocId>>,
}

impl Test<'_> {
    /// Whether a document matches that has the rare label, if there is one.
    pub(super) fn holds(&self, doc: DocId) -> bool {
        self.bits.iter().all(|bits| bits.contains(doc))
            && self.price.as_ref().is_none_or(|range| self.part.price(doc).is_some_and(|price| range.contains(&price)))
            && !self.part.reader.is_deleted(doc)
    }

    /// Whether any document matches.
    pub(super) fn has(&self, doc: DocId) -> bool {
        self.rare.as_ref().is_none_or(|rare| rare.binary_search(&doc).is_ok()) && self.holds(doc)
    }

    /// Returns how many documents match, if counting bits is enough.
    pub(super) fn count(&self) -> Option<u64> {
        if let Some(rare) = &self.rare {
            return Some(rare.len() as u64);
        }
        if self.price.is_some() {
            return None;
        }
        let Some((first, others)) = self.bits.split_first() else { return Some(u64::from(self.part.reader.num_docs())) };
        let mut count = 0;
        for bucket in 0..first.max_value().div_ceil(64) {
            let mut all = others.iter().fold(first.tinyset(bucket), |all, bits| all.intersect(bits.tinyset(bucket)));
            if !self.part.reader.has_deletes() {
                count += u64::from(all.len());
                continue;
            }
            while let Some(bit) = all.pop_lowest() {
                count += u64::from(!self.part.reader.is_deleted(bucket * 64 + bit));
            }
        }
        Some(count)
    }
}
