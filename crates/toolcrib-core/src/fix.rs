//! Applying fixes to source text.

use crate::finding::{Edit, Finding};

/// What applying fixes gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The new source.
    pub source: String,
    /// What was changed: pointer and title of each fix that was applied, in source order.
    pub applied: Vec<(String, String)>,
}

/// Applies the fixes of `findings` to `source`, leaving out those that overlap an earlier one; they come up again
/// when the result is checked. `None` when there is nothing to apply.
pub fn apply(source: &str, findings: &[Finding]) -> Option<Fixed> {
    let mut chosen: Vec<(&Finding, &[Edit])> =
        findings.iter().filter_map(|finding| Some((finding, finding.fix.as_ref()?.edits.as_slice()))).collect();
    chosen.sort_by_key(|(_, edits)| edits.iter().map(|edit| edit.span.start).min());

    let mut edits: Vec<&Edit> = Vec::new();
    let mut applied = Vec::new();
    let mut end = 0;
    for (finding, fix) in chosen {
        let fits = fix.iter().all(|edit| {
            edit.span.start >= end
                && source.get(edit.span.start..edit.span.end).is_some()
                && !edits.iter().any(|other| other.span == edit.span)
        });
        let in_order = fix.windows(2).all(|pair| pair[0].span.end <= pair[1].span.start);
        if !fits || !in_order || fix.is_empty() {
            continue;
        }
        end = fix.iter().map(|edit| edit.span.end).max().unwrap_or(end);
        edits.extend(fix);
        applied.push((finding.pointer.clone(), finding.fix.as_ref().map(|fix| fix.title.clone()).unwrap_or_default()));
    }
    if edits.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(source.len());
    let mut from = 0;
    for edit in edits {
        out.push_str(&source[from..edit.span.start]);
        out.push_str(&edit.replacement);
        from = edit.span.end;
    }
    out.push_str(&source[from..]);
    Some(Fixed { source: out, applied })
}

/// Rounds of fixing and checking again. Fixes do not feed each other without end; three rounds settle all we know.
pub const MAX_ROUNDS: usize = 4;

/// Fixes and checks again until nothing more can be fixed. `check` gives the findings of a source text.
pub fn settle(source: &str, check: impl Fn(&str) -> Vec<Finding>) -> Option<Fixed> {
    let mut settled: Option<Fixed> = None;
    for _ in 0..MAX_ROUNDS {
        let current = settled.as_ref().map_or(source, |fixed| fixed.source.as_str());
        let Some(next) = apply(current, &check(current)) else { break };
        let mut applied = settled.map(|fixed| fixed.applied).unwrap_or_default();
        applied.extend(next.applied);
        settled = Some(Fixed { source: next.source, applied });
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;
    use crate::finding::{Fix, Span};

    fn finding(start: usize, end: usize, replacement: &str) -> Finding {
        let edit = Edit { span: Span::new(start, end), replacement: replacement.to_owned() };
        Finding::new(codes::json::NOT_NFC).fix(Fix { title: replacement.to_owned(), edits: vec![edit] })
    }

    #[test]
    fn edits_apply_in_source_order_whatever_order_they_come_in() {
        let fixed = apply("abcdef", &[finding(4, 5, "E"), finding(0, 1, "A"), finding(2, 2, "-")]).expect("three fixes");
        assert_eq!(fixed.source, "Ab-cdEf");
        assert_eq!(fixed.applied.len(), 3);
    }

    #[test]
    fn overlapping_and_impossible_fixes_are_left_out() {
        let fixed =
            apply("aébc", &[finding(0, 3, "X"), finding(1, 4, "Y"), finding(2, 3, "Z"), finding(90, 91, "Q")]).expect("one fix");
        assert_eq!(fixed.source, "Xbc");
        assert_eq!(apply("abc", &[finding(9, 9, "x")]), None);
        assert_eq!(apply("abc", &[]), None);
    }

    #[test]
    fn settling_is_bounded_even_if_every_check_wants_more() {
        let fixed = settle("x", |source| vec![finding(source.len(), source.len(), "x")]).expect("always something");
        assert_eq!(fixed.source.len(), 1 + MAX_ROUNDS);
    }
}
