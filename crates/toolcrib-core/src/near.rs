//! Near misses: finds the known word that a misspelt word probably means.

/// Longest word that is compared. The known words are shorter, and the comparison costs the product of both lengths.
pub const MAX_WORD: usize = 48;

/// Returns the closest candidate to `word`, if one is close enough: equal except for case or separators, or one edit in a short word (two
/// from six letters), where swapping two neighbours is one edit.
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
    let word_plain = Plain::of(word);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD && *candidate != word)
        .filter_map(|candidate| {
            let other = Plain::of(candidate);
            let allowed = match other.length.min(word_plain.length) {
                0..=2 => 0,
                3..=5 => 1,
                _ => 2,
            };
            if word_plain.least_slips(&other) > allowed {
                return None;
            }
            let slips = slips(word_plain.as_bytes(), other.as_bytes());
            (slips <= allowed).then_some((slips, candidate))
        })
        .min_by_key(|&(slips, _)| slips)
        .map(|(_, candidate)| candidate)
}

/// A word reduced to lower-case letters and digits.
struct Plain {
    bytes: [u8; MAX_WORD],
    length: usize,
    /// The characters that occur: one bit each.
    present: u64,
}

impl Plain {
    /// Reads at most [`MAX_WORD`] bytes.
    fn of(word: &str) -> Self {
        let mut plain = Self { bytes: [0; MAX_WORD], length: 0, present: 0 };
        let kept = word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
        for (to, byte) in plain.bytes.iter_mut().zip(kept) {
            *to = byte;
            plain.length += 1;
            // Letters and digits differ in their low six bits.
            plain.present |= 1 << (byte & 63);
        }
        plain
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// A lower bound of the edit distance, computed without comparing letters: an edit changes the length by at most one, and the set of
    /// characters by at most two.
    fn least_slips(&self, other: &Self) -> usize {
        let characters = (self.present ^ other.present).count_ones() as usize;
        self.length.abs_diff(other.length).max(characters.div_ceil(2))
    }
}

/// The edit distance of two words: characters inserted, deleted, replaced, or swapped with their neighbour (optimal string alignment, with
/// three rows). Words longer than [`MAX_WORD`] bytes are never near.
pub fn slips(a: &[u8], b: &[u8]) -> usize {
    if a.len().max(b.len()) > MAX_WORD {
        return usize::MAX;
    }
    let mut before = [0; MAX_WORD + 1];
    let mut above: [usize; MAX_WORD + 1] = std::array::from_fn(|column| column);
    for (i, &x) in a.iter().enumerate() {
        let mut row = [0; MAX_WORD + 1];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before[j - 1] + 1);
            }
            row[j + 1] = cost;
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_is_too_far() {
        // One edit for up to five letters, two from six.
        for (word, near) in [("nane", true), ("nae", true), ("nnnn", false), ("na", false)] {
            assert_eq!(nearest(word, ["name"]).is_some(), near, "{word}");
        }
        for (word, near) in
            [("endpoin", true), ("endpnt", true), ("endpt", false), ("endxxx", false), ("xxdpoint", true), ("xxxpoint", false)]
        {
            assert_eq!(nearest(word, ["endpoint"]).is_some(), near, "{word}");
        }
        // The closest candidate wins, at any position.
        assert_eq!(nearest("endpoin", ["endpxint", "endpoint"]), Some("endpoint"));
        assert_eq!(nearest("endpoin", ["endpoint", "endpxint"]), Some("endpoint"));
    }

    #[test]
    fn one_slip_counts_once() {
        for (a, b, wanted) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("ab", "abc", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(slips(a.as_bytes(), b.as_bytes()), wanted, "{a} {b}");
        }
    }

    #[test]
    fn the_quick_bound_is_never_above_the_slips() {
        let words =
            ["", "id", "is", "name", "game", "version", "verison", "aabb", "bbaa", "a1b2", "2b1a", "description", "desciption"];
        for (a, b) in words.iter().flat_map(|a| words.iter().map(move |b| (a, b))) {
            assert!(Plain::of(a).least_slips(&Plain::of(b)) <= slips(a.as_bytes(), b.as_bytes()), "{a} {b}");
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
            // Two letters allow no edit: `is` is not `id`.
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
