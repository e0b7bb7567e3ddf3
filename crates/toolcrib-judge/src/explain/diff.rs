//! The differences between two documents, ignoring layout.
//!
//! Two values are equal if their canonical forms are: the order of members and the spelling of numbers and escapes do not count. Arrays are
//! aligned, so that an element inserted at the front is one change and not one for each element after it. Work and output are bounded;
//! changes beyond the limit are only counted.

use std::hash::{DefaultHasher, Hash, Hasher};

use toolcrib_core::canon::{write_string, write_value};
use toolcrib_core::json::{Array, Kind, Object, Value, push_pointer_token, write_number};

/// Most changes that are listed. Documents with more changes are hardly related.
pub const MAX_CHANGES: usize = 200;

/// Longest text of a value in a change, in characters. Enough to recognise an address or the start of a sentence.
pub const MAX_SHOWN_CHARS: usize = 120;

/// Longest pointer in a change, in characters. Keys have no limit of their own.
pub const MAX_POINTER_CHARS: usize = 256;

/// Most cells of the tables that align arrays, in one diff. Enough for two arrays of a thousand elements; beyond that elements are compared
/// by index.
pub(crate) const MAX_ALIGNED_CELLS: usize = 1 << 20;

/// The differences between two documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The changes in the order of the canonical form, at most [`MAX_CHANGES`].
    pub changes: Vec<Change>,
    /// The total number of changes.
    pub total: usize,
    /// Source bytes of all changes on either side: the distance of the documents.
    pub distance: usize,
}

impl Diff {
    /// Whether the documents have the same canonical form.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The number of changes that are not listed.
    pub fn left_out(&self) -> usize {
        self.total - self.changes.len()
    }
}

/// One difference. The texts come from the documents and are as untrusted as these: escape them for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The position: an RFC 6901 pointer into the new document, or into the old one for removed values. Shortened beyond
    /// [`MAX_POINTER_CHARS`].
    pub pointer: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The old canonical form, shortened; `None` for added values.
    pub before: Option<String>,
    /// The new canonical form, shortened; `None` for removed values.
    pub after: Option<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The value was added.
    Added,
    /// The value was removed.
    Removed,
    /// The value was replaced.
    Changed,
}

impl ChangeKind {
    /// The name in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// Compares two documents, `before` and `after`.
///
/// ```
/// use toolcrib_judge::explain::diff;
/// use toolcrib_core::json::{Limits, read};
///
/// let before = read(br#"{"name":"tides","tags":["sea","moon"]}"#, Limits::default()).document.unwrap();
/// let after = read(br#"{"tags": ["water", "sea", "moon"], "name": "tides"}"#, Limits::default()).document.unwrap();
/// let diff = diff(before.root(), after.root());
/// assert_eq!(diff.total, 1);
/// assert_eq!(diff.changes[0].pointer, "/tags/0");
/// assert_eq!(diff.changes[0].after.as_deref(), Some("\"water\""));
/// ```
pub fn diff(before: Value<'_>, after: Value<'_>) -> Diff {
    let prints = [Fingerprints::of(before), Fingerprints::of(after)];
    let mut differ = Differ { prints: &prints, diff: Diff::default(), pointer: String::new(), cells: MAX_ALIGNED_CELLS };
    differ.pair(before, after);
    differ.diff
}

struct Differ<'p> {
    /// Of the old and of the new document.
    prints: &'p [Fingerprints; 2],
    diff: Diff,
    /// The current position.
    pointer: String,
    /// Remaining cells for aligning arrays.
    cells: usize,
}

impl Differ<'_> {
    /// The recursion is as deep as the documents, whose depth the reader limits.
    fn pair(&mut self, before: Value<'_>, after: Value<'_>) {
        if self.prints[0].get(before) == self.prints[1].get(after) && same(before, after) {
            return;
        }
        match (before.as_object(), after.as_object(), before.as_array(), after.as_array()) {
            (Some(a), Some(b), ..) => self.objects(a, b),
            (_, _, Some(a), Some(b)) => self.arrays(a, b),
            _ => self.report(ChangeKind::Changed, Some(before), Some(after)),
        }
    }

    fn objects(&mut self, before: Object<'_>, after: Object<'_>) {
        let (mut a, mut b) = (before.sorted().peekable(), after.sorted().peekable());
        loop {
            // Both are in the same order, so the smaller key has no counterpart.
            let order = match (a.peek(), b.peek()) {
                (None, None) => return,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((x, _)), Some((y, _))) => toolcrib_core::json::utf16_order(x, y),
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let Some((key, _)) = right.or(left) else { return };
            let length = self.pointer.len();
            self.pointer.push('/');
            push_pointer_token(&mut self.pointer, key);
            self.either(left.map(|(_, value)| value), right.map(|(_, value)| value));
            self.pointer.truncate(length);
        }
    }

    fn arrays(&mut self, before: Array<'_>, after: Array<'_>) {
        let a: Vec<_> = before.iter().map(|value| (self.prints[0].get(value), value)).collect();
        let b: Vec<_> = after.iter().map(|value| (self.prints[1].get(value), value)).collect();
        let length = self.pointer.len();
        for step in align(&a, &b, &mut self.cells) {
            let (left, right) = match step {
                Step::Both(i, j) => (a.get(i), b.get(j)),
                Step::Before(i) => (a.get(i), None),
                Step::After(j) => (None, b.get(j)),
            };
            let index = match step {
                Step::Both(_, index) | Step::Before(index) | Step::After(index) => index,
            };
            self.pointer.push('/');
            self.pointer.push_str(&index.to_string());
            self.either(left.map(|(_, value)| *value), right.map(|(_, value)| *value));
            self.pointer.truncate(length);
        }
    }

    fn either(&mut self, before: Option<Value<'_>>, after: Option<Value<'_>>) {
        match (before, after) {
            (Some(before), Some(after)) => self.pair(before, after),
            (Some(_), None) => self.report(ChangeKind::Removed, before, None),
            (None, Some(_)) => self.report(ChangeKind::Added, None, after),
            (None, None) => {}
        }
    }

    fn report(&mut self, kind: ChangeKind, before: Option<Value<'_>>, after: Option<Value<'_>>) {
        self.diff.total += 1;
        self.diff.distance += [before, after].iter().flatten().map(|value| value.source().len()).sum::<usize>();
        if self.diff.changes.len() == MAX_CHANGES {
            return;
        }
        let from = match (before.and_then(Value::as_str), after.and_then(Value::as_str)) {
            (Some(a), Some(b)) => first_difference(a, b),
            _ => 0,
        };
        self.diff.changes.push(Change {
            pointer: cut(&self.pointer, MAX_POINTER_CHARS),
            kind,
            before: before.map(|value| shown(value, from)),
            after: after.map(|value| shown(value, from)),
        });
    }
}

/// The next elements of two arrays to compare: one of each, or one without counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Both(usize, usize),
    Before(usize),
    After(usize),
}

/// Pairs the elements of two arrays: equal ones by a longest common subsequence if the table for it is affordable, the elements between
/// them by index.
fn align(a: &[(u64, Value<'_>)], b: &[(u64, Value<'_>)], cells: &mut usize) -> Vec<Step> {
    let equal = |i: usize, j: usize| matches!((a.get(i), b.get(j)), (Some(x), Some(y)) if x.0 == y.0);
    let shorter = a.len().min(b.len());
    let head = (0..shorter).take_while(|&at| equal(at, at)).count();
    let tail = (1..=shorter - head).take_while(|&back| equal(a.len() - back, b.len() - back)).count();
    let (end_a, end_b) = (a.len() - tail, b.len() - tail);
    let (rows, columns) = (end_a - head, end_b - head);

    // Equal elements need no steps, except for one comparison of each in case of a fingerprint collision.
    let mut steps: Vec<Step> = (0..head).map(|at| Step::Both(at, at)).collect();
    let (mut i, mut j) = (head, head);
    let size = (rows + 1).saturating_mul(columns + 1);
    if rows > 0 && columns > 0 && size <= *cells {
        *cells -= size;
        // `table[r][c]`: the length of the longest common subsequence of the rest from there. The lengths fit: size is below 2^21.
        let mut table = vec![0_u32; size];
        let at = |r: usize, c: usize| r * (columns + 1) + c;
        for r in (0..rows).rev() {
            for c in (0..columns).rev() {
                table[at(r, c)] = if equal(head + r, head + c) {
                    table[at(r + 1, c + 1)] + 1
                } else {
                    table[at(r + 1, c)].max(table[at(r, c + 1)])
                };
            }
        }
        let (mut r, mut c) = (0, 0);
        while r < rows && c < columns {
            if equal(head + r, head + c) {
                gap((&mut i, head + r), (&mut j, head + c), &mut steps);
                steps.push(Step::Both(i, j));
                (i, j) = (i + 1, j + 1);
                (r, c) = (r + 1, c + 1);
            } else if table[at(r + 1, c)] >= table[at(r, c + 1)] {
                r += 1;
            } else {
                c += 1;
            }
        }
    }
    gap((&mut i, end_a), (&mut j, end_b), &mut steps);
    steps.extend((0..tail).map(|at| Step::Both(end_a + at, end_b + at)));
    steps
}

/// Pairs the elements between two equal elements by index.
fn gap((i, end_i): (&mut usize, usize), (j, end_j): (&mut usize, usize), steps: &mut Vec<Step>) {
    while *i < end_i && *j < end_j {
        steps.push(Step::Both(*i, *j));
        (*i, *j) = (*i + 1, *j + 1);
    }
    steps.extend((*i..end_i).map(Step::Before));
    steps.extend((*j..end_j).map(Step::After));
    (*i, *j) = (end_i, end_j);
}

/// A fingerprint for each value of a document; equal values have equal fingerprints. Computed in one pass, so that comparing the elements
/// of nested arrays does not walk them repeatedly.
struct Fingerprints(Vec<(usize, u64)>);

impl Fingerprints {
    fn of(root: Value<'_>) -> Self {
        let mut list = Vec::new();
        fingerprint(root, &mut list);
        list.sort_unstable();
        Self(list)
    }

    /// The fingerprint of a value of the same document.
    fn get(&self, value: Value<'_>) -> u64 {
        let start = value.span().start;
        self.0.binary_search_by_key(&start, |(at, _)| *at).ok().and_then(|at| self.0.get(at)).map_or(0, |(_, print)| *print)
    }
}

fn fingerprint(value: Value<'_>, list: &mut Vec<(usize, u64)>) -> u64 {
    // Fixed keys make the result deterministic. Equal fingerprints are confirmed by `same`.
    let mut hasher = DefaultHasher::new();
    match value.kind() {
        Kind::Null => 0_u8.hash(&mut hasher),
        Kind::Bool => (1_u8, value.as_bool()).hash(&mut hasher),
        // Both zeros are serialised alike.
        Kind::Number => (2_u8, (value.as_f64().unwrap_or(0.0) + 0.0).to_bits()).hash(&mut hasher),
        Kind::String => (3_u8, value.as_str()).hash(&mut hasher),
        Kind::Array => {
            4_u8.hash(&mut hasher);
            for element in value.as_array().into_iter().flat_map(Array::iter) {
                fingerprint(element, list).hash(&mut hasher);
            }
        }
        Kind::Object => {
            5_u8.hash(&mut hasher);
            for (key, member) in value.as_object().into_iter().flat_map(Object::sorted) {
                key.hash(&mut hasher);
                fingerprint(member, list).hash(&mut hasher);
            }
        }
    }
    let print = hasher.finish();
    list.push((value.span().start, print));
    print
}

/// Whether two values have the same canonical form.
fn same(a: Value<'_>, b: Value<'_>) -> bool {
    if a.kind() != b.kind() {
        return false;
    }
    match a.kind() {
        Kind::Null => true,
        Kind::Bool => a.as_bool() == b.as_bool(),
        Kind::Number => a.as_f64() == b.as_f64(),
        Kind::String => a.as_str() == b.as_str(),
        Kind::Array => {
            let elements = |value: Value<'_>| value.as_array().map_or(0, Array::len);
            elements(a) == elements(b)
                && a.as_array()
                    .into_iter()
                    .flat_map(Array::iter)
                    .zip(b.as_array().into_iter().flat_map(Array::iter))
                    .all(|(x, y)| same(x, y))
        }
        Kind::Object => {
            let members = |value: Value<'_>| value.as_object().map_or(0, Object::len);
            members(a) == members(b)
                && a.as_object()
                    .into_iter()
                    .flat_map(Object::sorted)
                    .zip(b.as_object().into_iter().flat_map(Object::sorted))
                    .all(|((x, left), (y, right))| x == y && same(left, right))
        }
    }
}

/// The byte offset of the first difference of two texts, minus a few characters of context, on a character boundary of both. Zero if the
/// start is shown anyway.
fn first_difference(a: &str, b: &str) -> usize {
    const BEFORE: usize = 24;
    let equal = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    // The equal prefix is the same in both, so a boundary of one is a boundary of the other.
    let start = &a[..a.floor_char_boundary(equal)];
    if start.chars().nth(MAX_SHOWN_CHARS / 2).is_none() {
        return 0;
    }
    start.char_indices().rev().nth(BEFORE).map_or(0, |(at, _)| at)
}

/// The canonical form of a value, shortened. Long strings are shown from offset `from`.
fn shown(value: Value<'_>, from: usize) -> String {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => {
            let text = text.get(from..).unwrap_or(text);
            let end = text.char_indices().nth(MAX_SHOWN_CHARS).map_or(text.len(), |(at, _)| at);
            write_string(&text[..end], &mut out);
            if from > 0 {
                out.insert(0, '…');
            }
            if end < text.len() {
                out.push('…');
            }
        }
        None => write_short(value, &mut out),
    }
    cut(&out, MAX_SHOWN_CHARS)
}

/// Appends the canonical form, and stops once it is too long to be shown anyway.
fn write_short(value: Value<'_>, out: &mut String) {
    match value.kind() {
        _ if value.source().len() <= 8 * MAX_SHOWN_CHARS => write_value(value, out),
        Kind::Number => write_number(value.as_f64().unwrap_or(0.0), out),
        Kind::Array => out.push_str(&format!("[… {} elements]", value.as_array().map_or(0, Array::len))),
        Kind::Object => out.push_str(&format!("{{… {} members}}", value.as_object().map_or(0, Object::len))),
        _ => out.push_str(&cut(value.source(), MAX_SHOWN_CHARS)),
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolcrib_core::json::{self, Document, Limits};

    use super::*;

    fn read(source: &str) -> Document {
        json::read(source.as_bytes(), Limits::default()).document.expect("the test source is JSON")
    }

    fn lines(diff: &Diff) -> Vec<String> {
        let show = |text: &Option<String>| text.clone().unwrap_or_default();
        diff.changes
            .iter()
            .map(|change| format!("{} {} {}>{}", change.kind.as_str(), change.pointer, show(&change.before), show(&change.after)))
            .collect()
    }

    #[track_caller]
    fn check(before: &str, after: &str, wanted: &[&str]) {
        let (a, b) = (read(before), read(after));
        let diff = diff(a.root(), b.root());
        assert_eq!(lines(&diff), wanted, "{before} {after}");
        assert_eq!(diff.total, wanted.len());
        assert_eq!(diff.is_empty(), wanted.is_empty());
    }

    #[test]
    fn layout_order_and_spelling_are_no_difference() {
        check(r#"{"a":1.0,"b":"é","c":[1e2,-0.0]}"#, "{ \"c\": [100, 0],\n\"b\": \"\\u00e9\", \"a\": 1 }", &[]);
        check("[]", "[ ]", &[]);
        check("null", "null", &[]);
    }

    #[test]
    fn members_are_compared_by_name() {
        check(
            r#"{"a":1,"b":{"c":[true]},"d":null}"#,
            r#"{"b":{"c":[false],"e/~":"x"},"d":"null","f":{}}"#,
            &["removed /a 1>", "changed /b/c/0 true>false", "added /b/e~1~0 >\"x\"", "changed /d null>\"null\"", "added /f >{}"],
        );
        check(r#"{"😀":1}"#, r#"{"ﬀ":1}"#, &["removed /😀 1>", "added /ﬀ >1"]);
        check(r#"{"a":[]}"#, r#"{"a":{}}"#, &["changed /a []>{}"]);
    }

    #[test]
    fn arrays_are_aligned() {
        check("[1,2,3]", "[0,1,2,3]", &["added /0 >0"]);
        check("[1,2,3]", "[1,3]", &["removed /1 2>"]);
        check("[1,2,3]", "[1,2,3,4]", &["added /3 >4"]);
        check("[1,2,3]", "[1,5,3]", &["changed /1 2>5"]);
        check("[1,2,3,4,5,6]", "[2,3,9,5,7,6]", &["removed /0 1>", "changed /2 4>9", "added /4 >7"]);
        check(r#"[{"a":1},{"b":2}]"#, r#"[{"b":2}]"#, &["removed /0 {\"a\":1}>"]);
        check(r#"[{"a":1,"x":1},{"b":2}]"#, r#"[{"a":1,"x":2},{"b":2}]"#, &["changed /0/x 1>2"]);
        check("[1]", "[]", &["removed /0 1>"]);
        check("[]", "[[]]", &["added /0 >[]"]);
    }

    #[test]
    fn long_texts_show_the_place_where_they_differ() {
        let (a, b) = (format!("\"{}cat{0}\"", "x".repeat(400)), format!("\"{}dog{0}\"", "x".repeat(400)));
        let (a, b) = (read(&a), read(&b));
        let diff = diff(a.root(), b.root());
        let change = &diff.changes[0];
        let (before, after) = (change.before.as_ref().unwrap(), change.after.as_ref().unwrap());
        assert!(before.contains("xcatx") && after.contains("xdogx"), "{before} {after}");
        assert!(before.starts_with('…') && before.ends_with('…') && before.chars().count() <= MAX_SHOWN_CHARS + 1);
    }

    // Both sides of MAX_CHANGES.
    #[test]
    fn what_is_not_listed_is_counted() {
        for (count, left_out) in [(MAX_CHANGES, 0), (MAX_CHANGES + 1, 1)] {
            let object =
                |value: usize| format!("{{{}}}", (0..count).map(|at| format!("\"k{at}\":{value}")).collect::<Vec<_>>().join(","));
            let (a, b) = (read(&object(1)), read(&object(2)));
            let diff = diff(a.root(), b.root());
            assert_eq!((diff.total, diff.changes.len(), diff.left_out()), (count, MAX_CHANGES, left_out));
        }
        let (a, b) = (read("{}"), read(&format!("{{\"{}\":\"{0}\"}}", "k".repeat(10_000))));
        let change = &diff(a.root(), b.root()).changes[0];
        assert_eq!(change.pointer.chars().count(), MAX_POINTER_CHARS + 1);
        assert_eq!(change.after.as_ref().unwrap().chars().count(), MAX_SHOWN_CHARS + 1);
    }

    #[test]
    fn arrays_too_long_to_align_are_compared_place_by_place() {
        let array = |from: usize| format!("[{}]", (from..from + 1100).map(|at| at.to_string()).collect::<Vec<_>>().join(","));
        let (a, b) = (read(&array(0)), read(&array(1)));
        assert_eq!(diff(a.root(), b.root()).total, 1100);
        let (a, b) = (read(&format!("[{},1]", array(0))), read(&format!("[{},2]", array(0))));
        assert_eq!(diff(a.root(), b.root()).total, 1);
    }

    #[test]
    fn the_cells_are_shared_by_all_arrays() {
        let mut cells = 20;
        let document = read("[1,2,3,4]");
        let values: Vec<_> =
            document.root().as_array().unwrap().iter().enumerate().map(|(at, value)| (at as u64, value)).collect();
        assert_eq!(align(&values[..3], &values[1..], &mut cells).len(), 4);
        assert_eq!(cells, 4);
        // Not enough cells for another table: three pairs instead of one removal and one addition.
        assert_eq!(align(&values[..3], &values[1..], &mut cells).len(), 3);
    }

    fn json_text() -> impl Strategy<Value = String> {
        let leaf =
            prop_oneof![Just("1"), Just("2"), Just("1.0"), Just("\"a\""), Just("null"), Just("true")].prop_map(str::to_owned);
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(|list| format!("[{}]", list.join(","))),
                proptest::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| {
                    format!("{{{}}}", map.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_change_means_the_same_canonical_form(a in json_text(), b in json_text()) {
            let (a, b) = (read(&a), read(&b));
            let canonical = |document: &Document| toolcrib_core::canon::Canonical::of(document).expect("canonical").hash();
            let forth = diff(a.root(), b.root());
            prop_assert_eq!(forth.is_empty(), canonical(&a) == canonical(&b));
            prop_assert!(diff(a.root(), a.root()).is_empty());
            let back = diff(b.root(), a.root());
            prop_assert_eq!(forth.is_empty(), back.is_empty());
        }
    }
}
