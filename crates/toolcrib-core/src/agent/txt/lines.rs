//! TXT records in text files: as specifications, `dig` and zone files write them.

use super::MAX_RECORDS;
use crate::finding::Span;

/// A record from a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRecord {
    /// The joined character-strings.
    pub bytes: Vec<u8>,
    /// The line it came from, without surrounding whitespace.
    pub span: Span,
}

impl AsRef<[u8]> for TextRecord {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Splits a text into records, one on each line: bare values as specifications show them, quoted strings as `dig +short`
/// prints them, or lines of a zone file (`name 300 IN TXT "…" "…"`). Empty lines and comments (`;`, `#`) are skipped.
pub fn records_from_text(text: &str) -> Vec<TextRecord> {
    let mut records = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let from = start + (line.len() - line.trim_start().len());
        start += line.len();
        // Reading one more than the limit is enough to reject the list.
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) || records.len() > MAX_RECORDS {
            continue;
        }
        let value = zone_value(trimmed).unwrap_or(trimmed);
        let bytes = if value.starts_with('"') { join_strings(value) } else { value.as_bytes().to_vec() };
        records.push(TextRecord { bytes, span: Span::new(from, from + trimmed.len()) });
    }
    records
}

/// Returns the text after `TXT` in a line of a zone file, or `None` if it is not such a line.
fn zone_value(line: &str) -> Option<&str> {
    if line.starts_with('"') || line.starts_with("agt-") {
        return None;
    }
    // Up to three of name, TTL and class may precede the type, in any order.
    let mut rest = line;
    for _ in 0..4 {
        let (word, after) = rest.split_once([' ', '\t'])?;
        rest = after.trim_start();
        if word.eq_ignore_ascii_case("TXT") {
            return Some(rest);
        }
    }
    None
}

/// Joins the quoted character-strings of a line, with the escapes of RFC 1035 §5.1. Unquoted text is kept too.
fn join_strings(line: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line.as_bytes();
    let mut quoted = false;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => match *rest {
                [a @ b'0'..=b'2', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
                    let code = u32::from(a - b'0') * 100 + u32::from(b - b'0') * 10 + u32::from(c - b'0');
                    bytes.push(u8::try_from(code).unwrap_or(b'?'));
                    rest = &rest[3..];
                }
                [next, ..] => {
                    bytes.push(next);
                    rest = &rest[1..];
                }
                [] => bytes.push(b'\\'),
            },
            b' ' | b'\t' if !quoted => {}
            // A comment ends the line.
            b';' if !quoted => break,
            byte => bytes.push(byte),
        }
    }
    bytes
}
