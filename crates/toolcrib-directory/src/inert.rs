//! JSON that is safe to display anywhere.
//!
//! Values are unchanged, but characters that could move a cursor, change the direction of text, end a script element or begin a tag are
//! written as `\u` escapes. A JSON parser sees no difference; a terminal or a page that shows the bytes raw is not affected.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use toolcrib_core::text;

/// Returns the JSON of a value.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut serializer = Serializer::with_formatter(&mut out, Inert);
    // All types serialized here have text keys, and writing to memory does not fail.
    if value.serialize(&mut serializer).is_err() {
        out.clear();
        out.extend_from_slice(b"null");
    }
    out
}

/// Returns the JSON of a value as text.
pub(crate) fn to_string<T: Serialize + ?Sized>(value: &T) -> String {
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

struct Inert;

impl Formatter for Inert {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut written = 0;
        for (at, c) in fragment.char_indices() {
            if !needs_escape(c) {
                continue;
            }
            writer.write_all(&fragment.as_bytes()[written..at])?;
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            written = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }
}

fn needs_escape(c: char) -> bool {
    if c.is_ascii() {
        // The rest of ASCII is escaped before it gets here, or harmless.
        return matches!(c, '<' | '>' | '&' | '\u{7f}');
    }
    // The joiners of emoji and of several scripts stay; everything else that `escape_for_display` would escape is escaped.
    !matches!(c, '\u{200c}' | '\u{200d}') && {
        let mut buffer = [0; 4];
        let alone: &str = c.encode_utf8(&mut buffer);
        text::escape_for_display(alone) != alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: RENDER-002
    #[test]
    fn values_survive_and_bytes_do_nothing() {
        let hostile = "</script><img onerror=x> \u{202e}\u{200b}\u{1b}[31m\u{7f}\u{e0041} caf\u{e9} \u{1f468}\u{200d}\u{1f469}";
        let written = to_string(&serde_json::json!({ "text": hostile }));
        assert!(!written.contains(['<', '>', '\u{202e}', '\u{200b}', '\u{1b}', '\u{7f}', '\u{e0041}']), "{written}");
        assert!(written.contains("caf\u{e9}") && written.contains("\u{1f468}\u{200d}\u{1f469}"), "{written}");
        let read: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(read["text"], hostile);
    }
}
