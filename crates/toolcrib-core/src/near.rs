//! Near misses: which known word did a stranger probably mean?

/// Longest word that is compared. Field names are short; the comparison costs the product of both lengths.
const MAX_WORD: usize = 32;

/// The candidate that `word` most likely stands for, if one is close: the same letters in another case or with other
/// separators, or one slip in a short word (two from six letters on), where swapping two neighbours is one slip.
///
/// ```
/// use toolcrib_core::near::nearest;
///
/// assert_eq!(nearest("creator_address", ["creatorAddress", "endpoint"]), Some("creatorAddress"));
/// assert_eq!(nearest("verison", ["version", "name"]), Some("version"));
/// assert_eq!(nearest("colour", ["version", "name"]), None);
/// ```
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.is_empty() || word.len() > MAX_WORD || !word.is_ascii() {
        return None;
    }
    let plain = plain(word);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD && *candidate != word)
        .filter_map(|candidate| {
            let other = self::plain(candidate);
            let allowed = match other.len().min(plain.len()) {
                0..=2 => 0,
                3..=5 => 1,
                _ => 2,
            };
            let slips = slips(&plain, &other);
            (slips <= allowed).then_some((slips, candidate))
        })
        .min_by_key(|&(slips, _)| slips)
        .map(|(_, candidate)| candidate)
}

/// Lower-case letters and digits only.
fn plain(word: &str) -> Vec<u8> {
    word.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_lowercase()).collect()
}

/// The edit distance with swaps of neighbours (optimal string alignment), over three rows.
fn slips(a: &[u8], b: &[u8]) -> usize {
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_counts_once() {
        for (a, b, wanted) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("ab", "abc", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(slips(a.as_bytes(), b.as_bytes()), wanted, "{a} {b}");
        }
    }

    #[test]
    fn close_words_are_found_and_others_are_not() {
        let known = ["id", "name", "description", "version", "credentials", "functions"];
        for (word, wanted) in [
            ("Version", Some("version")),
            ("desciption", Some("description")),
            ("function", Some("functions")),
            ("fucntions", Some("functions")),
            ("credential", Some("credentials")),
            ("nam", Some("name")),
            ("ID", Some("id")),
            // Two letters allow no slip: `is` is not `id`.
            ("is", None),
            ("game", Some("name")),
            ("homepage", None),
            ("name", None),
            ("", None),
            ("ñame", None),
        ] {
            assert_eq!(nearest(word, known), wanted, "{word}");
        }
        assert_eq!(nearest(&"n".repeat(MAX_WORD + 1), known), None);
    }
}
