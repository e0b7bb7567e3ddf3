//! The source line of a finding, with the span underlined.
//!
//! The source is untrusted input: everything is escaped, and of a very long line only a window around the span is shown.

use toolcrib_core::finding::Span;
use toolcrib_core::text::escape_for_display;
use unicode_width::UnicodeWidthChar;

use crate::position::Lines;

/// Longest line, in characters, that is shown whole. Fits beside a line number on a common terminal of 120 columns.
const WHOLE_LINE: usize = 110;

/// Characters shown before the marked place when a line is cut.
const BEFORE: usize = 30;

/// Characters shown from the marked place on when a line is cut.
const AFTER: usize = 80;

/// The columns that replace a tab.
const TAB: &str = "    ";

/// The mark for the omitted part of a line.
const CUT: char = '…';

/// A line and its underline, both ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snippet {
    /// The number of the line, counted from 1.
    pub(crate) line: usize,
    /// The text, escaped.
    pub(crate) text: String,
    /// Columns before the mark.
    pub(crate) indent: usize,
    /// Columns of the mark; at least one.
    pub(crate) width: usize,
}

impl Snippet {
    /// The part of the source around a span. A span over several lines is marked on its first line.
    pub(crate) fn new(lines: &Lines<'_>, span: Span) -> Self {
        let span = lines.clamp(span);
        let (start, line) = lines.line_around(span.start);
        // A span at the line break itself is shown after the last character.
        let mark_start = (span.start - start).min(line.len());
        let mark_end = (span.end - start).clamp(mark_start, line.len());
        let (from, to) = window(line, mark_start);
        let mut shown = Shown::default();
        if from > 0 {
            shown.push(CUT);
        }
        shown.push_foreign(&line[from..mark_start]);
        let indent = shown.columns;
        shown.push_foreign(&line[mark_start..mark_end.min(to)]);
        let width = (shown.columns - indent).max(1);
        shown.push_foreign(&line[mark_end.min(to)..to]);
        if to < line.len() {
            shown.push(CUT);
        }
        Self { line: lines.position(span.start).line, text: shown.text, indent, width }
    }
}

/// Which bytes of a line to show. Both ends lie between characters.
fn window(line: &[u8], mark: usize) -> (usize, usize) {
    if forward(line, 0, WHOLE_LINE) == line.len() {
        return (0, line.len());
    }
    let mut from = mark;
    for _ in 0..BEFORE {
        from = backward(line, from);
    }
    (from, forward(line, mark, AFTER))
}

/// Moves forward by at most `count` characters.
fn forward(line: &[u8], mut at: usize, count: usize) -> usize {
    for _ in 0..count {
        if at == line.len() {
            break;
        }
        at += 1;
        while line.get(at).is_some_and(|byte| (byte & 0xC0) == 0x80) {
            at += 1;
        }
    }
    at
}

/// Moves back by one character.
fn backward(line: &[u8], at: usize) -> usize {
    let mut at = at.saturating_sub(1);
    while at > 0 && (line[at] & 0xC0) == 0x80 {
        at -= 1;
    }
    at
}

/// Text that counts its columns.
#[derive(Default)]
struct Shown {
    text: String,
    columns: usize,
}

impl Shown {
    fn push(&mut self, c: char) {
        self.text.push(c);
        self.columns += c.width().unwrap_or(0);
    }

    /// Bytes that are not UTF-8 become replacement characters.
    fn push_foreign(&mut self, bytes: &[u8]) {
        for c in String::from_utf8_lossy(bytes).chars() {
            if c == '\t' {
                self.text.push_str(TAB);
                self.columns += TAB.len();
            } else {
                escape_for_display(c.encode_utf8(&mut [0; 4])).chars().for_each(|c| self.push(c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Marks the text between the two `|` and compares line and underline.
    #[track_caller]
    fn check(marked: &str, text: &str, underline: &str) {
        let parts: Vec<_> = marked.split('|').collect();
        let source = parts.concat();
        let span = Span::new(parts[0].len(), parts[0].len() + parts[1].len());
        let snippet = Snippet::new(&Lines::new(source.as_bytes()), span);
        assert_eq!(snippet.text, text);
        assert_eq!(format!("{}{}", " ".repeat(snippet.indent), "^".repeat(snippet.width)), underline);
    }

    #[test]
    fn the_mark_stands_below_what_it_means() {
        check("{\n  |\"a\"|: 1\n}", "  \"a\": 1", "  ^^^");
        check("{||}", "{}", " ^");
        check("{\"a\": |\n|1}", "{\"a\": ", "      ^");
        check("[1,\n|2,\n3|]\n", "2,", "^^");
        check("||", "", "^");
    }

    #[test]
    fn wide_combining_and_escaped_characters_keep_the_mark_in_place() {
        check("日本 |x|", "日本 x", "     ^");
        check("|日本|", "日本", "^^^^");
        check("e\u{301}|x|", "e\u{301}x", " ^");
        check("\t|x|", "    x", "    ^");
        check("\u{1b}[31m|\u{202e}|x", "\\u{1b}[31m\\u{202e}x", "          ^^^^^^^^");
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let long = "é".repeat(500_000);
        let marked = format!("{long}|xy|{long}");
        let text = format!("…{}xy{}…", "é".repeat(BEFORE), "é".repeat(AFTER - 2));
        check(&marked, &text, &format!("{}^^", " ".repeat(BEFORE + 1)));
        check(&format!("|{long}|"), &format!("{}…", "é".repeat(AFTER)), &"^".repeat(AFTER));
        let just = "a".repeat(WHOLE_LINE - 1);
        check(&format!("{just}|b|"), &format!("{just}b"), &format!("{}^", " ".repeat(WHOLE_LINE - 1)));
        check(&format!("{just}b|c|"), &format!("…{}bc", "a".repeat(BEFORE - 1)), &format!("{}^", " ".repeat(BEFORE + 1)));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_such() {
        let snippet = Snippet::new(&Lines::new(b"[\"\xff\xfe\"]"), Span::new(2, 3));
        assert_eq!((snippet.text.as_str(), snippet.indent, snippet.width), ("[\"\u{fffd}\u{fffd}\"]", 2, 1));
        // A line of continuation bytes only: the window must end, and nothing may panic.
        let odd = [0x80; 5_000];
        Snippet::new(&Lines::new(&odd), Span::new(2_500, 2_501));
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_span_give_a_harmless_line(
            bytes in prop_oneof![vec(any::<u8>(), 0..400), any::<String>().prop_map(String::into_bytes)],
            start in 0..500_usize,
            length in 0..500_usize,
        ) {
            let snippet = Snippet::new(&Lines::new(&bytes), Span::new(start, start + length));
            prop_assert_eq!(escape_for_display(&snippet.text), snippet.text.as_str());
            let columns: usize = snippet.text.chars().map(|c| c.width().unwrap_or(0)).sum();
            // A mark after the end of the line, or below a character without width, is one column beyond.
            prop_assert!(snippet.width >= 1 && snippet.indent + snippet.width <= columns + 1);
            prop_assert!(snippet.text.chars().count() <= 2 + (BEFORE + AFTER).max(WHOLE_LINE) * 10);
        }
    }
}
