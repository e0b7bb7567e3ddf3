//! Converts byte offsets to lines and columns.

use toolcrib_core::finding::Span;

/// The starts of the lines of a text. The text may be any bytes; a byte that is not UTF-8 counts as one character.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    starts: Vec<usize>,
}

/// A position in a text, counted from 1. Columns count characters, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The line.
    pub(crate) line: usize,
    /// The column.
    pub(crate) column: usize,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        Self { bytes, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The text.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The position of a byte. Offsets past the end mean the end.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.bytes.len());
        let line = self.line_of(offset);
        Position { line: line + 1, column: characters(&self.bytes[self.starts[line]..offset]) + 1 }
    }

    /// The bytes of the line that holds `offset`, without its line break, and where it begins.
    pub(crate) fn line_around(&self, offset: usize) -> (usize, &'a [u8]) {
        let line = self.line_of(offset.min(self.bytes.len()));
        let start = self.starts[line];
        let end = self.starts.get(line + 1).map_or(self.bytes.len(), |next| next - 1);
        let text = &self.bytes[start..end];
        (start, text.strip_suffix(b"\r").unwrap_or(text))
    }

    /// A span with both ends inside the text and in order.
    pub(crate) fn clamp(&self, span: Span) -> Span {
        let start = span.start.min(self.bytes.len());
        Span::new(start, span.end.clamp(start, self.bytes.len()))
    }

    fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// The number of characters in UTF-8 bytes: all bytes except continuation bytes.
pub(crate) fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let lines = Lines::new("a\r\né日b\n".as_bytes());
        let at = |offset| {
            let Position { line, column } = lines.position(offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(8), (2, 3), "after a two-byte and a three-byte character");
        assert_eq!(at(10), (3, 1), "the end of the text");
        assert_eq!(at(999), (3, 1), "past the end");
        assert_eq!(lines.line_around(1), (0, &b"a"[..]), "without the carriage return");
        assert_eq!(lines.line_around(10), (10, &b""[..]));
        assert_eq!(lines.clamp(Span::new(4, 99)), Span::new(4, 10));
        assert_eq!(lines.clamp(Span::new(98, 99)), Span::new(10, 10));
    }

    #[test]
    fn an_empty_text_has_one_line() {
        let lines = Lines::new(b"");
        assert_eq!(lines.position(0), Position { line: 1, column: 1 });
        assert_eq!(lines.line_around(0), (0, &b""[..]));
    }
}
