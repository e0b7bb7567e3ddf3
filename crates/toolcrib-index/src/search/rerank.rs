//! Final scores of hits: words, similarity of meaning, and signals.

use crate::search::best::Found;
use crate::search::embedding::Asked;
use crate::search::held::RankedHit;
use crate::search::part::Part;
use crate::search::rank::Signals;
use crate::search::steady::rounded;

/// The weight of the meaning, as a fraction of the best hit's word score: for each standard deviation by which a hit is more similar than
/// the average. Absolute similarity differs from model to model and from query to query; deviations do not.
const MEANING: f64 = 0.4;

/// The maximum number of deviations: together they add at most twice the best hit's word score.
const MAX_DEVIATIONS: f64 = 5.0;

/// The number of deviations from which a tool is found by its meaning alone, in a directory so small that all of it is ranked.
const MEANT_DEVIATIONS: f64 = 1.0;

/// The minimum standard deviation. Among few hits, or hits with the same meaning, the smallest difference would be a large one.
const MIN_DEVIATION: f64 = 0.05;

/// Similarities are rounded to this fraction of one, so that sums are exact.
const NEAR_STEPS: f32 = 4096.0;

/// Returns the weight of a deviation when `alike` is the largest cosine of the request and the wording of a hit. A request worded as a
/// tool was answered by its words. A request worded as no tool here describes its topic in other words.
fn meaning_weight(alike: f64) -> f64 {
    let unlike = 1.0 - alike.clamp(0.0, 1.0);
    MEANING * unlike * unlike
}

/// Returns final scores, and whether each hit is found by its meaning alone.
pub(super) fn rank_again(parts: &[Part], found: &[Found], asked: Option<&Asked>, alike: f64) -> Vec<(RankedHit, bool)> {
    let weight = meaning_weight(alike);
    let most = found.iter().map(|found| rounded(found.score)).fold(0.0, f32::max);
    let deviations = asked.map(|asked| {
        let vectors = found.iter().map(|found| parts[found.part].vector(found.doc));
        deviations(&vectors.map(|vector| Some(asked.nearness(&vector?))).collect::<Vec<_>>())
    });
    let hits = found.iter().enumerate().map(|(number, found)| {
        let part = &parts[found.part];
        let text = rounded(found.score);
        let meaning = deviations.as_ref().map(|all| rounded((weight * all[number]) as f32 * most));
        let base = text + meaning.unwrap_or_default();
        let signals = part.signals(found.doc);
        let score = base + Signals::unpack(signals).added_to(base).sum();
        let is_meant = deviations.as_ref().is_some_and(|all| all[number] >= MEANT_DEVIATIONS);
        (RankedHit { key: part.key(found.doc), score, text, meaning, signals }, is_meant)
    });
    hits.collect()
}

/// Returns by how many standard deviations each is more similar than the average; zero for those that are less similar or have no vector.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaning_counts_most_where_words_are_unlike() {
        assert_eq!((meaning_weight(0.0), meaning_weight(1.0)), (MEANING, 0.0));
        assert!(meaning_weight(0.2) > 2.0 * meaning_weight(0.5), "an uncertain request against one that is worded alike");
        assert_eq!((meaning_weight(-1.0), meaning_weight(1.1)), (MEANING, 0.0));
    }

    #[test]
    fn nearness_counts_beside_the_others() {
        assert_eq!(deviations(&[]), [] as [f64; 0]);
        assert_eq!(deviations(&[Some(0.9)]), [0.0]);
        assert_eq!(deviations(&[Some(0.75), Some(0.25), None]), [1.0, 0.0, 0.0]);
        // The same difference at another level is the same; a negligible one stays negligible.
        assert_eq!(deviations(&[Some(0.5), Some(0.0)]), [1.0, 0.0]);
        assert!(deviations(&[Some(0.501), Some(0.5)])[0] < 0.02);
        let mut many = vec![Some(0.0); 299];
        many.push(Some(1.0));
        assert_eq!(deviations(&many)[299], MAX_DEVIATIONS);
    }
}
