//! Lines and their hashes.

use std::fmt;
use std::io::{self, BufRead, Read as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolcrib_core::hex;

use super::BreakCause;
use crate::local::canonical::{canonical, canonical_hash};

/// Longest line, with its line feed. Every reader can buffer one, and it is appended with one write.
pub const MAX_LINE_BYTES: usize = 65_536;

/// The prefix of a hash in text form.
const PREFIX: &str = "sha256:";

/// The hash of a line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// The previous hash of the first line.
    pub const START: Self = Self([0; 32]);
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", alloy_primitives::hex::encode(self.0))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl FromStr for ChainHash {
    type Err = BreakCause;

    fn from_str(text: &str) -> Result<Self, BreakCause> {
        // Hashes have one text form only, because no hash covers the member `hash` itself.
        let digits = text.strip_prefix(PREFIX).filter(|digits| !digits.bytes().any(|byte| byte.is_ascii_uppercase()));
        let bytes = digits.and_then(hex::decode).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(BreakCause::NotALine)
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("expected `sha256:` and 64 hex digits"))
    }
}

/// The last line of a log. Note it elsewhere to detect later that lines at the end were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the line. 0 before the first.
    pub seq: u64,
    /// Its hash.
    pub hash: ChainHash,
}

impl Head {
    /// The head of an empty log.
    pub const START: Self = Self { seq: 0, hash: ChainHash::START };
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.hash)
    }
}

impl FromStr for Head {
    type Err = BreakCause;

    fn from_str(text: &str) -> Result<Self, BreakCause> {
        let (seq, hash) = text.trim().split_once(' ').ok_or(BreakCause::NotALine)?;
        Ok(Self { seq: seq.parse().map_err(|_| BreakCause::NotALine)?, hash: hash.parse()? })
    }
}

/// A parsed line whose hash is correct.
pub(super) struct Line {
    pub(super) head: Head,
    pub(super) prev: ChainHash,
    pub(super) object: Map<String, Value>,
}

impl Line {
    /// Parses a line without its line feed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BreakCause> {
        let mut value: Value = serde_json::from_slice(bytes).map_err(|_| BreakCause::NotALine)?;
        if canonical(&value).as_bytes() != bytes {
            return Err(BreakCause::NotCanonical);
        }
        let object = value.as_object_mut().ok_or(BreakCause::NotALine)?;
        let hash = object.shift_remove("hash").ok_or(BreakCause::NotALine)?;
        let found = canonical_hash(&value);
        let Value::Object(mut object) = value else { return Err(BreakCause::NotALine) };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).ok_or(BreakCause::NotALine)?.parse::<ChainHash>();
        let head = Head { seq: object.get("seq").and_then(Value::as_u64).ok_or(BreakCause::NotALine)?, hash: text(Some(&hash))? };
        let prev = text(object.get("prev"))?;
        if head.hash.0 != found {
            return Err(BreakCause::Hash);
        }
        object.insert("hash".to_owned(), hash);
        Ok(Self { head, prev, object })
    }

    /// Checks that the line continues `before`.
    pub(super) fn continues(&self, before: &Head) -> Result<(), BreakCause> {
        if self.prev != before.hash {
            return Err(BreakCause::Previous);
        }
        if Some(self.head.seq) != before.seq.checked_add(1) {
            return Err(BreakCause::Sequence);
        }
        Ok(())
    }

    /// Whether the line starts a new chain on purpose.
    pub(super) fn is_restart(&self) -> bool {
        self.prev == ChainHash::START && self.object.get("event").and_then(Value::as_str) == Some("chain_restarted")
    }
}

/// Appends the line that continues `head` to `out`, and advances `head`. Adds `seq`, `prev` and `hash` to `object`.
pub(super) fn write_line(mut object: Map<String, Value>, head: &mut Head, out: &mut Vec<u8>) -> usize {
    let before = out.len();
    let seq = head.seq + 1;
    object.insert("seq".to_owned(), Value::from(seq));
    object.insert("prev".to_owned(), Value::from(head.hash.to_string()));
    // The members are sorted, so the line is the hashed text with `hash` inserted: two halves, serialized once. The second half is not
    // empty, since it contains `prev`.
    let (first, second): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(name, _)| name.as_str() < "hash");
    let (first, second) = (canonical(&Value::Object(first)), canonical(&Value::Object(second)));
    let first = first.strip_suffix('}').unwrap_or_default();
    let comma = if first.len() > 1 { "," } else { "" };
    let second = second.strip_prefix('{').unwrap_or_default();
    let digest = [first, comma, second].into_iter().fold(Sha256::new(), Sha256::chain_update).finalize();
    let hash = ChainHash(digest.into());
    let member = format!("{comma}\"hash\":\"{hash}\",");
    for part in [first, &member, second, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    *head = Head { seq, hash };
    out.len() - before
}

/// The result of reading a line.
pub(super) enum Read {
    /// A line, without its line feed.
    Line,
    /// Bytes at the end without a line feed.
    Torn,
    /// More bytes than a line may have. The reader is somewhere inside it.
    TooLong,
    /// The end of the file.
    End,
}

/// Reads the next line into `line`, up to the size limit of lines.
pub(super) fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Read> {
    line.clear();
    let read = reader.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Read::Line);
    }
    Ok(match read {
        0 => Read::End,
        MAX_LINE_BYTES => Read::TooLong,
        _ => Read::Torn,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn lines_continue_each_other() {
        let (mut head, mut out) = (Head::START, Vec::new());
        write_line(object(json!({"event": "a", "z": [1, "ä"]})), &mut head, &mut out);
        let first = head;
        write_line(object(json!({"event": "b"})), &mut head, &mut out);
        let lines: Vec<_> = out.split(|&byte| byte == b'\n').collect();
        let line = Line::parse(lines[0]).unwrap();
        assert_eq!((line.head, line.prev), (first, ChainHash::START));
        assert!(line.continues(&Head::START).is_ok());
        let line = Line::parse(lines[1]).unwrap();
        assert_eq!(line.head, head);
        assert!(line.continues(&first).is_ok());
        assert_eq!(line.continues(&Head::START), Err(BreakCause::Previous));
        assert_eq!(head.to_string().parse(), Ok(head));
        // A line whose hashes are right and whose number is not.
        let (mut skipping, mut out) = (Head { seq: first.seq + 1, hash: first.hash }, Vec::new());
        write_line(object(json!({"event": "b"})), &mut skipping, &mut out);
        out.pop();
        assert_eq!(Line::parse(&out).unwrap().continues(&first), Err(BreakCause::Sequence));
    }

    #[test]
    fn every_changed_byte_is_seen() {
        let (mut head, mut out) = (Head::START, Vec::new());
        write_line(object(json!({"event": "a", "n": 12, "t": "text"})), &mut head, &mut out);
        out.pop();
        assert!(Line::parse(&out).is_ok());
        for index in 0..out.len() {
            for change in [1, 0x20, 0x80] {
                let mut changed = out.clone();
                changed[index] ^= change;
                assert!(Line::parse(&changed).is_err(), "{index} {change}");
            }
            let mut shorter = out.clone();
            shorter.remove(index);
            assert!(Line::parse(&shorter).is_err(), "{index}");
        }
    }

    #[test]
    fn other_texts_of_the_same_object_are_not_lines() {
        let (mut head, mut out) = (Head::START, Vec::new());
        write_line(object(json!({"event": "a"})), &mut head, &mut out);
        let text = String::from_utf8(out).unwrap();
        let text = text.trim_end();
        for changed in [
            text.replace("\"event\"", "\"\\u0065vent\""),
            text.replace(':', ": "),
            format!("{text} "),
            text.replace("{", "{\"event\":\"a\","),
        ] {
            assert_eq!(Line::parse(changed.as_bytes()).err(), Some(BreakCause::NotCanonical), "{changed}");
        }
        for wrong in ["", "[]", "{}", "null", "{\"hash\":1}", "{"] {
            assert_eq!(Line::parse(wrong.as_bytes()).err(), Some(BreakCause::NotALine), "{wrong}");
        }
    }

    #[test]
    fn reading_is_bounded() {
        let long = [vec![b'x'; MAX_LINE_BYTES], b"\nnext\ntorn".to_vec()].concat();
        let mut reader = &long[..];
        let mut line = Vec::new();
        assert!(matches!(next_line(&mut reader, &mut line), Ok(Read::TooLong)));
        assert_eq!(line.len(), MAX_LINE_BYTES);
        assert!(matches!(next_line(&mut reader, &mut line), Ok(Read::Line)));
        assert!(matches!(next_line(&mut reader, &mut line), Ok(Read::Line)));
        assert_eq!(line, b"next");
        assert!(matches!(next_line(&mut reader, &mut line), Ok(Read::Torn)));
        assert!(matches!(next_line(&mut reader, &mut line), Ok(Read::End)));
    }
}
