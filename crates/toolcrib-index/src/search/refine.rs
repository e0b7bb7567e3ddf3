//! Reranks the best hits by comparing their wording with the request.
//!
//! Terms of an index say which words a tool has, and how rare they are in the whole directory. Among the best hits that distinguishes
//! little: they all have the important words, and many are near duplicates. Here the best hits are compared with each other. Words that
//! all of them have count next to nothing, and words that few of them have decide. Character n-grams match `lawsuits` with `lawsuit` and
//! `calculator` with `calculate`, and their cosine prefers descriptions that say little else. So does the share of a tool's words that are
//! in the request.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tantivy::schema::Value as _;
use tantivy::{DocAddress, TantivyDocument};

use crate::Error;
use crate::search::best::Found;
use crate::search::common;
use crate::search::document::{Fields, cut};
use crate::search::shelf::Snapshot;
use crate::search::steady::rounded;
use crate::search::words::Words;

/// The maximum number of hits that are compared. The text of each is read.
const REFINED: usize = 50;

/// The number of hits whose words are compared: further down the list too few tools are relevant. With fewer hits than this the comparison
/// counts proportionally less.
const COMPARED: usize = 30;

/// The weight of the wording, as a fraction of the best hit's word score: for a cosine of one, which only identical text has.
const WORDING: f64 = 0.8;

/// The weight, as such a fraction, of having all words of the request that other hits have.
const COVERAGE: f64 = 0.3;

/// The weight, as such a fraction, of a request that has all words of a tool: near duplicates differ in their additional words.
const PRECISION: f64 = 0.3;

/// The length of an n-gram.
const GROUP: usize = 4;

/// The maximum count of an n-gram in one tool.
const MAX_COUNT: u32 = 3;

/// The weight of function words and request words when words are compared.
const FUNCTION_WORD: f64 = 0.3;
const REQUEST_WORD: f64 = 0.5;

/// The maximum number of stored bytes of name and description. They are folded; the median tool has a hundred.
const MAX_TEXT_BYTES: usize = 1_000;

/// The maximum number of distinct stored terms. Name, description and schema together rarely have a hundred.
const MAX_TERMS: usize = 400;

/// Separates the folded text from the terms.
const SEPARATOR: char = '\n';

/// An n-gram.
type Group = [char; GROUP];

/// The stored wording of a tool, parsed.
pub(super) struct Wording {
    /// The n-grams of name and description, sorted, with their counts.
    groups: Vec<(Group, u32)>,
    /// All terms.
    terms: BTreeSet<String>,
}

impl Wording {
    /// Returns the stored form: the words of some texts, and distinct terms.
    pub(super) fn written<'a>(texts: &[&Words], terms: impl Iterator<Item = &'a str>) -> String {
        let plain: Vec<&str> = texts.iter().flat_map(|words| words.parts.iter().map(|word| word.plain.as_str())).collect();
        let plain = plain.join(" ");
        let terms: BTreeSet<&str> = terms.take(MAX_TERMS).collect();
        let terms: Vec<&str> = terms.into_iter().collect();
        format!("{}{SEPARATOR}{}", cut(&plain, MAX_TEXT_BYTES), terms.join(" "))
    }

    fn read(text: &str) -> Self {
        let (plain, terms) = text.split_once(SEPARATOR).unwrap_or((text, ""));
        Self { groups: counted(groups(plain)), terms: terms.split(' ').map(str::to_owned).collect() }
    }
}

/// Returns the sorted n-grams of a text with a space at either end.
fn groups(text: &str) -> Vec<Group> {
    let chars: Vec<char> = std::iter::once(' ').chain(text.chars()).chain([' ']).collect();
    let mut groups: Vec<Group> = chars.array_windows::<GROUP>().copied().collect();
    groups.sort_unstable();
    groups
}

fn counted(sorted: Vec<Group>) -> Vec<(Group, u32)> {
    sorted.chunk_by(|a, b| a == b).map(|same| (same[0], u32::try_from(same.len()).unwrap_or(MAX_COUNT).min(MAX_COUNT))).collect()
}

/// Adds the value of their wording to the scores of the best hits. Returns the largest cosine of the request and a hit: the certainty of
/// the words.
pub(super) fn refine(snapshot: &Snapshot, fields: &Fields, request: &Words, found: &mut [Found]) -> Result<f64, Error> {
    // Sorted so that other segments with the same tools give the same hits.
    let mut best: Vec<usize> = (0..found.len()).collect();
    let key = |hit: &Found| snapshot.parts[hit.part].key(hit.doc);
    best.sort_by(|a, b| {
        let (a, b) = (&found[*a], &found[*b]);
        rounded(b.score).total_cmp(&rounded(a.score)).then_with(|| key(b).cmp(&key(a)))
    });
    best.truncate(REFINED);
    let Some(most) = best.first().map(|first| f64::from(rounded(found[*first].score))) else { return Ok(0.0) };
    let mut wordings = Vec::with_capacity(best.len());
    for number in &best {
        let hit = &found[*number];
        let address = DocAddress::new(u32::try_from(hit.part).unwrap_or(u32::MAX), hit.doc);
        let document: TantivyDocument = snapshot.searcher.doc(address)?;
        let text = document.get_first(fields.wording).and_then(|value| value.as_str());
        wordings.push(Wording::read(text.unwrap_or_default()));
    }
    let cosines = cosines(request, &wordings);
    let compared = &wordings[..wordings.len().min(COMPARED)];
    let (coverage, precision) = (coverage(request, compared), precision(request, compared));
    // With few hits, common words are coincidence: in a small directory `please` may be rarer among them than the topic of the request.
    let certainty = (best.len() as f64 / COMPARED as f64).min(1.0);
    for (at, number) in best.into_iter().enumerate() {
        let share = |shares: &[f64]| shares.get(at).copied().unwrap_or_default();
        let added = WORDING * cosines[at] + COVERAGE * share(&coverage) + PRECISION * share(&precision);
        found[number].score += (most * certainty * added) as f32;
    }
    Ok(cosines.into_iter().fold(0.0, f64::max))
}

/// Returns the cosine of the request and each wording: of n-grams, weighted by their rarity among the wordings.
fn cosines(request: &Words, wordings: &[Wording]) -> Vec<f64> {
    let mut with: HashMap<Group, u32> = HashMap::new();
    for (group, _) in wordings.iter().flat_map(|wording| &wording.groups) {
        *with.entry(*group).or_default() += 1;
    }
    let all = wordings.len() as f64;
    let rarity = |group: &Group| with.get(group).map_or(0.0, |found| (1.0 + all / (f64::from(*found) + 0.5)).ln());
    let plain: Vec<&str> = request.parts.iter().map(|word| word.plain.as_str()).collect();
    // N-grams that no wording has cannot distinguish them.
    let asked: BTreeMap<Group, f64> =
        groups(&plain.join(" ")).into_iter().map(|group| (group, rarity(&group))).filter(|(_, rarity)| *rarity > 0.0).collect();
    let length = asked.values().map(|rarity| rarity * rarity).sum::<f64>().sqrt();
    let cosine = |wording: &Wording| {
        let (mut common, mut own) = (0.0, 0.0);
        for (group, count) in &wording.groups {
            let rarity = rarity(group);
            let value = f64::from(*count) * rarity;
            own += value * value;
            if asked.contains_key(group) {
                common += value * rarity;
            }
        }
        if common > 0.0 { common / (length * own.sqrt()) } else { 0.0 }
    };
    wordings.iter().map(cosine).collect()
}

/// Returns the share of the request's words that each wording has, weighted by their rarity among the wordings.
fn coverage(request: &Words, wordings: &[Wording]) -> Vec<f64> {
    let (mut shares, mut whole) = (vec![0.0; wordings.len()], 0.0);
    let words: BTreeMap<&str, &str> = request.parts.iter().rev().map(|word| (word.term.as_str(), word.plain.as_str())).collect();
    for (term, plain) in words {
        let has: Vec<bool> = wordings.iter().map(|wording| wording.terms.contains(term)).collect();
        let found = has.iter().filter(|has| **has).count();
        if found == 0 {
            continue;
        }
        let weight = match plain {
            plain if common::is_function(plain) => FUNCTION_WORD,
            plain if common::is_request(plain) => REQUEST_WORD,
            _ => 1.0,
        };
        let value = weight * ((wordings.len() as f64 + 1.0) / (found as f64 + 0.5)).ln();
        whole += value;
        for (share, _) in shares.iter_mut().zip(&has).filter(|(_, has)| **has) {
            *share += value;
        }
    }
    if whole > 0.0 {
        shares.iter_mut().for_each(|share| *share /= whole);
    }
    shares
}

/// Returns the share of each wording's words that the request has, weighted by their rarity among the wordings.
fn precision(request: &Words, wordings: &[Wording]) -> Vec<f64> {
    let mut with: HashMap<&str, u32> = HashMap::new();
    for term in wordings.iter().flat_map(|wording| &wording.terms) {
        *with.entry(term).or_default() += 1;
    }
    let asked: BTreeSet<&str> = request.terms().collect();
    let share = |wording: &Wording| {
        let (mut common, mut own) = (0.0, 0.0);
        for term in &wording.terms {
            let found = with.get(term.as_str()).copied().unwrap_or_default();
            let value = ((wordings.len() as f64 + 1.0) / (f64::from(found) + 0.5)).ln();
            own += value;
            if asked.contains(term.as_str()) {
                common += value;
            }
        }
        if own > 0.0 { common / own } else { 0.0 }
    };
    wordings.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wording(text: &str) -> Wording {
        let words = Words::of(text, 1_000);
        Wording::read(&Wording::written(&[&words], words.terms()))
    }

    #[test]
    fn what_is_kept_comes_back() {
        let read = wording("Prices of gold, prices!");
        assert_eq!(read.terms.iter().map(String::as_str).collect::<Vec<_>>(), ["gold", "of", "price"]);
        assert!(read.groups.contains(&([' ', 'p', 'r', 'i'], 2)) && read.groups.contains(&(['o', 'l', 'd', ' '], 1)));
        assert!(read.groups.is_sorted());
        let empty = Wording::read("");
        assert!(empty.groups.is_empty() && !empty.terms.contains("gold"));
        let long = "é".repeat(5_000);
        assert!(Wording::written(&[&Words::of(&long, 5_000)], std::iter::empty()).len() <= MAX_TEXT_BYTES + 1);
    }

    #[test]
    fn what_all_hits_have_decides_nothing() {
        let request = Words::of("book a hotel room with a pool", 1_000);
        let wordings = ["Book a hotel room", "Book a hotel with a swimming pool", "Book a hotel"].map(wording);
        let coverage = coverage(&request, &wordings);
        assert!(coverage[1] > coverage[0] && coverage[0] > coverage[2], "{coverage:?}");
        assert!(coverage.iter().all(|share| (0.0..=1.0).contains(share)), "{coverage:?}");
        let cosines = cosines(&request, &wordings);
        assert!(cosines[1] > cosines[2], "{cosines:?}");
    }

    #[test]
    fn what_was_not_asked_for_counts_against_a_tool() {
        let request = Words::of("the price of gold", 1_000);
        let wordings = ["Price of gold", "Price of gold mining shares", "Price of tea in old towns", "Tides"].map(wording);
        let precision = precision(&request, &wordings);
        assert!(precision[0] > precision[1] && precision[1] > precision[2], "{precision:?}");
        assert!((precision[0] - 1.0).abs() < 1e-9 && precision[3].abs() < 1e-9, "{precision:?}");
        assert_eq!(super::precision(&request, &[Wording::read("")]), [0.0]);
        assert!(super::precision(&request, &[]).is_empty());
    }

    #[test]
    fn letters_find_other_forms_and_brevity_wins() {
        let request = Words::of("lawsuits against a company", 1_000);
        let wordings = ["Finds a lawsuit", "Finds a recipe", "Finds a lawsuit, and then a great many other things"].map(wording);
        let cosines = cosines(&request, &wordings);
        assert!(cosines[0] > cosines[2] && cosines[2] > cosines[1], "{cosines:?}");
        let same = super::cosines(&Words::of("finds a recipe", 1_000), &wordings);
        assert!((same[1] - 1.0).abs() < 1e-9, "{same:?}");
        assert_eq!(super::cosines(&Words::of("天", 1_000), &wordings), [0.0; 3]);
    }
}
