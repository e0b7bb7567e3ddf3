//! Redacts the secrets of one call in its output.
//!
//! Redaction is for accidents: a program that prints its environment, an error message with a URL, a library that logs a header. It finds
//! each value of at least [`MIN_REDACTED_BYTES`](super::MIN_REDACTED_BYTES) bytes unchanged, as a JSON string (once and twice escaped,
//! with `\/`, and with `\u` escapes), percent-encoded (RFC 3986 in both cases, `encodeURIComponent`, and forms), HTML-escaped, in hex
//! (both cases), in base64 and base64url at every offset inside a longer text (as in `Authorization: Basic`), and each line of a
//! multi-line value.
//!
//! It cannot stop a tool that wants to leak a secret: it does not find shorter values, parts of a value, other encodings (base32, UTF-16,
//! hex of mixed case, base64 with line breaks, reversed or upper-cased text), compression or encryption. One byte at each end of a value
//! inside base64 can remain, since its bits are mixed with those of its neighbours. The sandbox, not redaction, keeps a hostile tool from
//! sending secrets elsewhere.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};
use zeroize::{Zeroize as _, Zeroizing};

use super::automaton::{Automaton, ROOT};
use super::forms::Forms;
use super::{MIN_REDACTED_BYTES, Secret, SecretError};

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Most bytes of all secrets of one call. Each byte of a secret takes up to 300 bytes of memory, in about a dozen forms.
pub const MAX_CALL_SECRET_BYTES: usize = 128 << 10;

/// Finds and replaces the secrets of one call. Takes time linear in the text, for any number of secrets.
pub struct Redactor {
    automaton: Automaton,
    /// Whether a value can also be written as a JSON number.
    is_numeric: bool,
    skipped: usize,
}

impl Redactor {
    /// Creates a redactor for these values.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Result<Self, SecretError> {
        let mut forms = Forms::default();
        let (mut bytes, mut skipped, mut is_numeric) = (0_usize, 0, false);
        for secret in secrets {
            let value = secret.expose();
            bytes = bytes.saturating_add(value.len());
            if bytes > MAX_CALL_SECRET_BYTES {
                return Err(SecretError::CallTooLarge { bytes });
            }
            if value.len() < MIN_REDACTED_BYTES {
                skipped += 1;
            }
            is_numeric |= value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            forms.add(value);
        }
        Ok(Self { automaton: Automaton::new(forms.patterns()), is_numeric, skipped })
    }

    /// How many secrets are too short to be redacted.
    pub const fn skipped(&self) -> usize {
        self.skipped
    }

    /// Redacts a text.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.finds(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        // Forms start and end at character boundaries, and the rest of the text is unchanged.
        let bytes = self.bytes(text.as_bytes());
        Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Redacts bytes that need not be text.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut out = stream.push(bytes);
        out.append(&mut stream.finish());
        out
    }

    /// Redacts strings, member names and numbers.
    pub fn json(&self, value: &mut Value) {
        if self.automaton.is_empty() {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.is_numeric && self.finds(number.to_string().as_bytes()) {
                    *value = Value::String(REDACTED.to_owned());
                }
            }
            Value::String(text) => self.string(text),
            // Recursion is limited by the parser to a depth of 128.
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.json(element)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.json(member));
                if members.keys().any(|key| self.finds(key.as_bytes())) {
                    self.keys(members);
                }
            }
        }
    }

    /// Creates a redactor for a stream of chunks.
    pub fn stream(&self) -> RedactedStream<'_> {
        RedactedStream { redactor: self, state: ROOT, held: Zeroizing::new(Vec::new()), covered: Vec::new(), is_inside: false }
    }

    fn finds(&self, bytes: &[u8]) -> bool {
        let mut state = ROOT;
        !self.automaton.is_empty()
            && bytes.iter().any(|&byte| {
                state = self.automaton.step(state, byte);
                self.automaton.matched(state) > 0
            })
    }

    fn string(&self, text: &mut String) {
        let Cow::Owned(replaced) = self.text(text) else { return };
        std::mem::replace(text, replaced).zeroize();
    }

    /// Redacts member names. Names that become equal are numbered, so that no member is lost.
    fn keys(&self, members: &mut Map<String, Value>) {
        for (key, member) in std::mem::take(members) {
            let key = self.text(&key).into_owned();
            let mut unique = key.clone();
            let mut number = 1;
            while members.contains_key(&unique) {
                number += 1;
                unique = format!("{key} {number}");
            }
            members.insert(unique, member);
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("skipped", &self.skipped).finish_non_exhaustive()
    }
}

/// Redacts a stream, including secrets that span chunks.
///
/// Bytes that may be the start of a secret are held back until the next chunk or the end: at most as many as the longest form.
pub struct RedactedStream<'r> {
    redactor: &'r Redactor,
    state: u32,
    /// Bytes that were read and not returned yet.
    held: Zeroizing<Vec<u8>>,
    /// The parts of `held` that belong to matches, disjoint and in order.
    covered: Vec<(usize, usize)>,
    /// Whether the last returned byte belongs to a match that may continue.
    is_inside: bool,
}

impl RedactedStream<'_> {
    /// Redacts a chunk, and returns the bytes that are ready.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let automaton = &self.redactor.automaton;
        if automaton.is_empty() {
            return piece.to_vec();
        }
        self.held.reserve(piece.len());
        for &byte in piece {
            self.held.push(byte);
            self.state = automaton.step(self.state, byte);
            let length = automaton.matched(self.state);
            if length > 0 {
                self.cover(self.held.len() - length, self.held.len());
            }
        }
        // Bytes before a possible start of a form do not depend on later bytes.
        self.give(self.held.len() - automaton.pending(self.state))
    }

    /// Ends the stream, and returns the bytes that were held back.
    pub fn finish(mut self) -> Vec<u8> {
        self.give(self.held.len())
    }

    /// Adds a match. A later match may start earlier, but never ends earlier.
    fn cover(&mut self, mut start: usize, end: usize) {
        while let Some(&(before, until)) = self.covered.last() {
            if until < start {
                break;
            }
            start = start.min(before);
            self.covered.pop();
        }
        self.covered.push((start, end));
    }

    /// Returns the first `count` held bytes.
    fn give(&mut self, count: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(count);
        let mut at = 0;
        for &(start, end) in &self.covered {
            if start >= count {
                break;
            }
            if start > at {
                out.extend_from_slice(&self.held[at..start]);
                self.is_inside = false;
            }
            if !self.is_inside {
                out.extend_from_slice(REDACTED.as_bytes());
            }
            self.is_inside = true;
            at = end.min(count);
        }
        if at < count {
            out.extend_from_slice(&self.held[at..count]);
            self.is_inside = false;
        }
        let shift = |(start, end): (usize, usize)| (end > count).then(|| (start.saturating_sub(count), end - count));
        self.covered = self.covered.iter().copied().filter_map(shift).collect();
        self.held.copy_within(count.., 0);
        let left = self.held.len() - count;
        self.held[left..].zeroize();
        self.held.truncate(left);
        out
    }
}

impl fmt::Debug for RedactedStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedactedStream").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let secrets: Vec<_> = values.iter().map(|&value| Secret::new(value.to_owned())).collect();
        Redactor::new(&secrets).unwrap()
    }

    #[test]
    fn texts_lose_their_secrets_and_nothing_else() {
        let redactor = redactor(&["hunter2hunter2", "short", "tok/en+1 ä"]);
        assert_eq!(redactor.skipped(), 1);
        for (text, expected) in [
            ("before hunter2hunter2 after", "before [redacted] after"),
            ("hunter2hunter", "hunter2hunter"),
            ("hunter2hunter2hunter2hunter2", "[redacted]"),
            ("hunter2hunter2hunter2", "[redacted]"),
            ("a short word", "a short word"),
            ("?t=tok%2Fen%2B1%20%C3%A4&x", "?t=[redacted]&x"),
            ("68756e7465723268756e74657232!", "[redacted]!"),
            ("", ""),
        ] {
            assert_eq!(redactor.text(text), expected);
        }
        assert!(matches!(redactor.text("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn basic_authorization_is_found() {
        use base64ct::{Base64, Encoding as _};
        let redactor = redactor(&["correct-horse-battery"]);
        for user in ["", "u", "us", "user", "admin"] {
            let header = format!("Basic {}", Base64::encode_string(format!("{user}:correct-horse-battery").as_bytes()));
            let redacted = redactor.text(&header).into_owned();
            assert!(redacted.contains(REDACTED), "{header} {redacted}");
            assert!(redacted.len() <= "Basic ".len() + REDACTED.len() + 12, "{redacted}");
        }
    }

    #[test]
    fn overlapping_secrets_are_covered_together() {
        let redactor = redactor(&["abcdefgh", "efghijkl", "cdefghij"]);
        assert_eq!(redactor.text("-abcdefghijkl-"), "-[redacted]-");
        assert_eq!(redactor.text("-efghijkl-abcdefgh-"), "-[redacted]-[redacted]-");
    }

    #[test]
    fn json_is_walked_with_names_and_numbers() {
        let redactor = redactor(&["sekret-value", "1234567890"]);
        let mut value = json!({
            "a": ["x sekret-value y", 1234567890, 12, null, true],
            "sekret-value": 1, "x sekret-value": 2, "[redacted]": 3,
        });
        redactor.json(&mut value);
        assert_eq!(
            value,
            json!({"a": ["x [redacted] y", "[redacted]", 12, null, true], "[redacted]": 1, "x [redacted]": 2, "[redacted] 2": 3})
        );
    }

    #[test]
    fn streams_are_the_same_as_texts_wherever_they_are_cut() {
        let redactor = redactor(&["abcabcabd", "cabdabca"]);
        let text = b"xx abcabcabcabd abcabcabdabca yy abcabcab";
        let expected = redactor.bytes(text);
        for size in 1..text.len() {
            let mut stream = redactor.stream();
            let mut out: Vec<u8> = text.chunks(size).flat_map(|piece| stream.push(piece)).collect();
            out.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected), "{size}");
        }
    }

    #[test]
    fn lines_come_out_at_once_unless_they_may_begin_a_secret() {
        let redactor = redactor(&["abcdefgh"]);
        let mut stream = redactor.stream();
        assert_eq!(stream.push(b"a line\n"), b"a line\n");
        assert_eq!(stream.push(b"ends with abc"), b"ends with ");
        assert_eq!(stream.push(b"\n"), b"abc\n");
        assert_eq!(stream.push(b"abcd"), b"");
        assert_eq!(stream.push(b"efgh\n"), b"[redacted]\n");
        assert_eq!(stream.finish(), b"");
    }

    #[test]
    fn nothing_shows_in_debug_and_limits_hold() {
        let redactor = redactor(&["very-secret-thing"]);
        let mut stream = redactor.stream();
        stream.push(b"very-secret");
        assert!(!format!("{redactor:?} {stream:?}").contains("very"));
        let large = Secret::new("x".repeat(65_536));
        assert!(Redactor::new([&large, &large]).is_ok());
        let error = Redactor::new([&large, &large, &Secret::new("y".to_owned())]).unwrap_err();
        assert_eq!(error.code().id(), "secret.call_too_large");
    }
}
