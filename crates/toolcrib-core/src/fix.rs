//! Fixes source text: only with fixes that fit together, and only if the result can still be parsed.

use crate::codes::Code;
use crate::finding::{Edit, Finding, Fix};
use crate::json::{self, Limits};

/// Most rounds of checking and fixing. Two or three are usual: one fix can uncover another finding, and a round fixes at most as many
/// findings as a report keeps.
pub const MAX_ROUNDS: usize = 16;

/// Text after its fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The new text. It is UTF-8 if the old one was.
    pub bytes: Vec<u8>,
    /// The applied fixes, round by round, in source order.
    pub applied: Vec<Applied>,
}

/// A fix that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The code of the fixed finding.
    pub code: Code,
    /// The title of the fix.
    pub title: String,
    /// The position as an RFC 6901 pointer.
    pub pointer: String,
    /// The position as a line of the text before this round, counted from 1.
    pub line: usize,
}

/// Fixes `bytes` round by round until no fix is left. `findings` are the findings of `check` about `bytes`. Returns `None` if nothing could
/// be fixed.
pub fn mend(bytes: &[u8], findings: &[Finding], check: impl Fn(&[u8]) -> Vec<Finding>) -> Option<Mended> {
    let (mut bytes, mut applied) = round(bytes, findings)?;
    for _ in 1..MAX_ROUNDS {
        let Some((mended, fixes)) = round(&bytes, &check(&bytes)) else { break };
        bytes = mended;
        applied.extend(fixes);
    }
    Some(Mended { bytes, applied })
}

/// Runs one round: applies every fix that is compatible with the others. If all of them together would break the document, each one that
/// does not break it is applied.
fn round(bytes: &[u8], findings: &[Finding]) -> Option<(Vec<u8>, Vec<Applied>)> {
    let candidates: Vec<_> = findings
        .iter()
        .filter_map(|finding| Some((finding, finding.fix.as_ref()?)))
        .filter(|(_, fix)| fits(bytes, fix))
        .collect();
    let chosen = compatible(&candidates);
    if chosen.is_empty() {
        return None;
    }
    let describe = |finding: &Finding, fix: &Fix| Applied {
        code: finding.code,
        title: fix.title.clone(),
        pointer: finding.pointer.clone(),
        line: 1 + bytes.iter().take(fix.edits.first().map_or(0, |edit| edit.span.start)).filter(|&&byte| byte == b'\n').count(),
    };
    let before = readability(bytes);
    let all = apply(bytes, chosen.iter().flat_map(|(_, fix)| &fix.edits));
    if readability(&all) >= before {
        return Some((all, chosen.iter().map(|(finding, fix)| describe(finding, fix)).collect()));
    }
    let mut kept: Vec<(&Finding, &Fix)> = Vec::new();
    for candidate in chosen {
        kept.push(candidate);
        if readability(&apply(bytes, kept.iter().flat_map(|(_, fix)| &fix.edits))) < before {
            kept.pop();
        }
    }
    if kept.is_empty() {
        return None;
    }
    let mended = apply(bytes, kept.iter().flat_map(|(_, fix)| &fix.edits));
    Some((mended, kept.iter().map(|(finding, fix)| describe(finding, fix)).collect()))
}

/// Whether every edit is inside the text and changes something, and the edits of the fix do not overlap.
fn fits(bytes: &[u8], fix: &Fix) -> bool {
    let inside = |edit: &Edit| {
        bytes.get(edit.span.start..edit.span.end).is_some_and(|old| old != edit.replacement.as_bytes())
            && is_boundary(bytes, edit.span.start)
            && is_boundary(bytes, edit.span.end)
    };
    !fix.edits.is_empty() && fix.edits.iter().all(inside) && no_overlap(fix.edits.iter().collect())
}

fn is_boundary(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| (byte & 0xC0) != 0x80)
}

/// Selects fixes in source order, without those that overlap with an earlier one.
fn compatible<'a>(candidates: &[(&'a Finding, &'a Fix)]) -> Vec<(&'a Finding, &'a Fix)> {
    let mut chosen = Vec::new();
    let mut taken: Vec<&Edit> = Vec::new();
    for (finding, fix) in candidates {
        let clashes = |edit: &Edit| taken.iter().any(|other| overlap(edit, other));
        if !fix.edits.iter().any(clashes) {
            taken.extend(&fix.edits);
            chosen.push((*finding, *fix));
        }
    }
    chosen.sort_by_key(|(_, fix)| fix.edits.iter().map(|edit| edit.span.start).min());
    chosen
}

fn no_overlap(mut edits: Vec<&Edit>) -> bool {
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    edits.windows(2).all(|pair| !overlap(pair[0], pair[1]))
}

/// Whether two edits share a byte, or start at the same position so that their order would matter.
const fn overlap(a: &Edit, b: &Edit) -> bool {
    a.span.start == b.span.start || (a.span.start < b.span.end && b.span.start < a.span.end)
}

/// Applies edits that do not overlap, in source order.
fn apply<'a>(bytes: &[u8], edits: impl IntoIterator<Item = &'a Edit>) -> Vec<u8> {
    let mut edits: Vec<_> = edits.into_iter().collect();
    edits.sort_by_key(|edit| edit.span.start);
    let mut out = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for edit in edits {
        out.extend_from_slice(&bytes[from..edit.span.start]);
        out.extend_from_slice(edit.replacement.as_bytes());
        from = edit.span.end;
    }
    out.extend_from_slice(&bytes[from..]);
    out
}

/// How far a text can be parsed: not at all, to a tree without canonical form, or to a document.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Readability {
    Nothing,
    Tree,
    Document,
}

fn readability(bytes: &[u8]) -> Readability {
    match json::read(bytes, Limits::default()).document {
        None => Readability::Nothing,
        Some(document) if document.is_canonicalisable() => Readability::Document,
        Some(_) => Readability::Tree,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::checked::{AnyJson, parse};
    use crate::codes;
    use crate::finding::{Mode, Span};

    fn finding(edits: &[(usize, usize, &str)]) -> Finding {
        let edits = edits
            .iter()
            .map(|(start, end, text)| Edit { span: Span::new(*start, *end), replacement: (*text).to_owned() })
            .collect();
        Finding::new(codes::json::NOT_NFC).fix(Fix { title: "try".to_owned(), edits })
    }

    #[track_caller]
    fn check_round(text: &str, findings: &[Finding], expected: Option<&str>) {
        let got = round(text.as_bytes(), findings).map(|(bytes, _)| String::from_utf8(bytes).expect("still UTF-8"));
        assert_eq!(got.as_deref(), expected);
    }

    #[test]
    fn fixes_apply_together_when_they_do_not_touch() {
        check_round("[1,2,3]", &[finding(&[(1, 2, "10")]), finding(&[(5, 6, "30")])], Some("[10,2,30]"));
        check_round("[1,2,3]", &[finding(&[(1, 2, "10"), (5, 6, "30")]), finding(&[(3, 4, "20")])], Some("[10,20,30]"));
    }

    #[test]
    fn of_two_that_touch_the_first_wins() {
        check_round("[1,2,3]", &[finding(&[(1, 4, "7")]), finding(&[(3, 4, "9")])], Some("[7,3]"));
        check_round("[1]", &[finding(&[(1, 1, "8,")]), finding(&[(1, 1, "9,")])], Some("[8,1]"));
    }

    #[test]
    fn a_fix_that_breaks_the_document_is_left_out_and_the_others_stay() {
        check_round("[1,2]", &[finding(&[(0, 1, "")])], None);
        check_round("[1,2]", &[finding(&[(0, 1, "")]), finding(&[(3, 4, "20")])], Some("[1,20]"));
    }

    #[test]
    fn fixes_that_do_not_fit_the_text_are_ignored() {
        check_round("[1]", &[finding(&[(2, 99, "")])], None);
        check_round("[\"é\"]", &[finding(&[(3, 4, "x")])], None);
        check_round("[1]", &[finding(&[(1, 2, "1")])], None);
        check_round("[1]", &[finding(&[])], None);
        check_round("[1]", &[finding(&[(1, 2, "5"), (1, 2, "6")])], None);
        // An end before the start.
        check_round("[1]", &[finding(&[(2, 1, "5")])], None);
    }

    #[track_caller]
    fn check_mend(text: &str, expected: Option<(&str, usize)>) {
        let check = |bytes: &[u8]| parse::<AnyJson>(bytes, Mode::Producer).findings;
        let mended = mend(text.as_bytes(), &check(text.as_bytes()), check);
        let mended = mended.map(|mended| (String::from_utf8(mended.bytes).expect("still UTF-8"), mended.applied.len()));
        assert_eq!(mended.as_ref().map(|(text, count)| (text.as_str(), *count)), expected);
    }

    #[test]
    fn mending_goes_on_until_nothing_is_left() {
        check_mend("{\"a\": 1}", None);
        check_mend("{\"a\": \"cafe\u{301}\"}", Some(("{\"a\": \"caf\u{e9}\"}", 1)));
        // The byte-order mark hides the rest of the document, so removing it uncovers the second finding.
        check_mend("\u{feff}{\"a\": \"cafe\u{301}\"}", Some(("{\"a\": \"caf\u{e9}\"}", 2)));
        // The mark is removed although the rest is not JSON: the text was unreadable before.
        check_mend("\u{feff}{", Some(("{", 1)));
    }

    #[test]
    fn normalising_a_key_never_makes_two_equal_keys() {
        check_mend("{\"caf\u{e9}\": 1, \"cafe\u{301}\": 2}", None);
        check_mend(
            "{\"cafe\u{301}\": \"e\u{301}\", \"caf\u{e9}\": 2}",
            Some(("{\"cafe\u{301}\": \"\u{e9}\", \"caf\u{e9}\": 2}", 1)),
        );
    }

    #[test]
    fn more_findings_than_a_report_keeps_are_mended_in_several_rounds() {
        let text = format!("[{}]", vec!["\"e\u{301}\""; 600].join(","));
        check_mend(&text, Some((&format!("[{}]", vec!["\"\u{e9}\""; 600].join(",")), 600)));
    }

    /// JSON text from fragments that fixes often change, sometimes with a mistake in it.
    fn text() -> impl Strategy<Value = String> {
        let pieces = ["{", "}", "[", "]", ",", ":", "1", "\"a\"", "\"e\u{301}\"", "\"\u{e9}\"", "\"\u{212b}\"", " ", "\u{feff}"];
        let members = ["\"e\u{301}\":1", "\"\u{e9}\":\"e\u{301}\"", "\"a\":[\"\u{212b}\"]", "\"\u{212b}\":2", "\"\u{c5}\":3"];
        prop_oneof![
            vec(select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat()),
            vec(select(members.to_vec()), 0..6).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    }

    proptest! {
        #[test]
        fn mending_never_makes_a_text_less_readable_and_has_an_end(text in text()) {
            let check = |bytes: &[u8]| parse::<AnyJson>(bytes, Mode::Producer).findings;
            if let Some(Mended { bytes, applied }) = mend(text.as_bytes(), &check(text.as_bytes()), check) {
                prop_assert!(!applied.is_empty() && bytes != text.as_bytes());
                prop_assert!(readability(&bytes) >= readability(text.as_bytes()));
                prop_assert!(std::str::from_utf8(&bytes).is_ok());
                prop_assert_eq!(mend(&bytes, &check(&bytes), check), None, "a second run finds nothing to do");
            }
        }
    }
}
