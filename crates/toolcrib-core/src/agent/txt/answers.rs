//! JSON responses of services that report TXT records: DNS over HTTPS in JSON, and the resolver of Freename.
//!
//! Both parsers are strict. A response with a record that cannot be parsed could hide a second pointer, so it is rejected completely.

mod dns_json;
mod freename;

use std::fmt;

pub use dns_json::{MAX_ALIASES, read_dns_json};
pub use freename::read_freename;

use super::{MAX_RECORDS, MAX_TOTAL_BYTES};
use crate::codes::{self, Code};
use crate::json;

/// Largest response in bytes. Records of [`MAX_TOTAL_BYTES`] with every byte written as `\\DDD` take five times that size, and each record
/// also has a name and a type.
pub const MAX_ANSWER_BYTES: usize = 512 * 1024;

/// A service's response about the TXT records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonAnswer {
    /// The records, each with its character-strings joined.
    Records(Vec<Vec<u8>>),
    /// The name exists and has no TXT records.
    NoRecords,
    /// The name does not exist.
    NotFound,
}

/// Why a response cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerFault {
    /// The code of the reason.
    pub code: Code,
    /// The problem, without untrusted text.
    pub message: String,
}

impl AnswerFault {
    fn malformed(message: impl Into<String>) -> Self {
        Self { code: codes::agent::TXT_ANSWER_MALFORMED, message: message.into() }
    }

    fn other_name(message: impl Into<String>) -> Self {
        Self { code: codes::agent::TXT_ANSWER_OTHER_NAME, message: message.into() }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AnswerFault {}

/// Checks that records are within the limits of one name: [`MAX_RECORDS`] and [`MAX_TOTAL_BYTES`]. A longer list is rejected and never
/// truncated.
pub fn check_size(records: &[impl AsRef<[u8]>]) -> Result<(), AnswerFault> {
    let total: usize = records.iter().map(|record| record.as_ref().len()).sum();
    if records.len() > MAX_RECORDS || total > MAX_TOTAL_BYTES {
        let message = format!(
            "{} records with {total} bytes, the limit is {MAX_RECORDS} records with {MAX_TOTAL_BYTES} bytes",
            records.len()
        );
        return Err(AnswerFault { code: codes::agent::TXT_TOO_MUCH, message });
    }
    Ok(())
}

/// Joins character-strings in zone file format: `"a" "b"`, with `\"`, `\\` and `\DDD` (RFC 1035 §5.1). `None` unless the whole text
/// consists of quoted strings.
pub fn join_character_strings(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.trim_ascii().as_bytes();
    while !rest.is_empty() {
        rest = rest.strip_prefix(b"\"")?;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => match *rest {
                    [a, b, c, ..] if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit() => {
                        let number = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
                        bytes.push(u8::try_from(number).ok()?);
                        rest = &rest[3..];
                    }
                    [digit, ..] if digit.is_ascii_digit() => return None,
                    [next, ..] => {
                        bytes.push(next);
                        rest = &rest[1..];
                    }
                    [] => return None,
                },
                byte => bytes.push(byte),
            }
        }
        let trimmed = rest.trim_ascii_start();
        // Strings are separated by whitespace; two adjacent ones come from a server that does not escape quotes.
        if !trimmed.is_empty() && trimmed.len() == rest.len() {
            return None;
        }
        rest = trimmed;
    }
    Some(bytes)
}

/// Parses JSON under the limits of a response.
fn document(bytes: &[u8]) -> Result<json::Document, AnswerFault> {
    let limits = json::Limits { max_bytes: MAX_ANSWER_BYTES, ..json::Limits::default() };
    json::read(bytes, limits)
        .document
        .filter(json::Document::is_canonicalisable)
        .ok_or_else(|| AnswerFault::malformed("the answer is not strict JSON"))
}

#[cfg(test)]
mod tests;
