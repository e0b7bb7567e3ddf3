//! Finds the best hits by word score.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use tantivy::query::{EnableScoring, Query as _, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Searcher, TERMINATED, Term};

use crate::Error;
use crate::search::filter::Wanted;
use crate::search::part::Part;
use crate::search::run::MAX_RANKED;
use crate::search::shelf::Snapshot;
use crate::search::steady::Steady;
use crate::search::terms::Terms;

/// A hit with its word score.
pub(super) struct Found {
    pub(super) score: f32,
    pub(super) part: usize,
    pub(super) doc: DocId,
}

/// Returns the best hits by word score.
pub(super) fn best(snapshot: &Snapshot, terms: &Terms, wanted: &Wanted) -> Result<Vec<Found>, Error> {
    if terms.finding.is_empty() {
        return Ok(Vec::new());
    }
    let finding = terms.finding(&snapshot.searcher)?;
    let mut one_by_one = None;
    let mut best: BinaryHeap<Reverse<Scored>> = BinaryHeap::with_capacity(MAX_RANKED + 1);
    // The largest segment first: its hits let most of the other documents be skipped.
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

/// Adds every other tool that matches the filters, with a word score of zero.
pub(super) fn add_others(snapshot: &Snapshot, wanted: &Wanted, found: &mut Vec<Found>) -> Result<(), Error> {
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

/// Returns the score that a hit must exceed to be among the best.
fn least(best: &BinaryHeap<Reverse<Scored>>) -> f32 {
    match best.peek() {
        Some(Reverse(least)) if best.len() >= MAX_RANKED => least.score,
        _ => f32::MIN,
    }
}

/// The statistics of a term in all segments, and its boost.
type Weighed = (Box<dyn Weight>, f32);

/// Returns the weight of each term. It is computed once and applies to every segment.
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

/// Adds the scores of terms to a few documents of a segment, which are in document order.
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

/// A document and its score, ordered by score.
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
