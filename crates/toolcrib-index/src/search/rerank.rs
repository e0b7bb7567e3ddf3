//! The scores of hits: words, nearness of meaning, and signals.

use crate::search::best::Found;
use crate::search::embedding::Asked;
use crate::search::held::RankedHit;
use crate::search::part::Part;
use crate::search::rank::Signals;
use crate::search::steady::rounded;

/// What nearness of meaning adds at most, as a part of what the best hit has by its words: for each deviation by which a hit is nearer than the
/// others are on average. How near texts are to each other at all differs from model to model and from query to query; this does not.
const MEANING: f64 = 0.4;

/// Most deviations that count: together they add at most twice what the best hit has.
const MAX_DEVIATIONS: f64 = 5.0;

/// Deviations from which a tool is found by its meaning alone, where the directory is so small that all of it is ranked.
const MEANT_DEVIATIONS: f64 = 1.0;

/// The least that counts as a deviation. Of few hits, or of hits that all mean the same, the smallest difference would be a large one.
const MIN_DEVIATION: f64 = 0.05;

/// Nearness is counted in this part of one, so that sums are exact.
const NEAR_STEPS: f32 = 4096.0;

/// What a deviation of meaning adds when `alike` is the largest cosine of the request and the wording of a hit. A request that is worded as a
/// tool is was answered by its words. One that is worded as nothing here says what it wants in other words.
fn meaning_weight(alike: f64) -> f64 {
    let unlike = 1.0 - alike.clamp(0.0, 1.0);
    MEANING * unlike * unlike
}

/// Scores with what else is known, and whether each hit is found by its meaning alone.
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

/// By how many deviations each is nearer than all are on average; nothing for those that are not, or of which nothing is known.
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
        // The same distance on another level is the same; one that is next to nothing stays so.
        assert_eq!(deviations(&[Some(0.5), Some(0.0)]), [1.0, 0.0]);
        assert!(deviations(&[Some(0.501), Some(0.5)])[0] < 0.02);
        let mut many = vec![Some(0.0); 299];
        many.push(Some(1.0));
        assert_eq!(deviations(&many)[299], MAX_DEVIATIONS);
    }
}
