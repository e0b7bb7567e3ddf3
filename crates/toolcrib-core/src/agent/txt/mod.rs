//! TXT records: the pointer to a manifest, and the legacy records that some old names still have.
//!
//! The caller joins the character-strings of each record (RFC 1035 §3.3.14) and passes complete records. One outer pair of quotes is
//! removed, because some sources keep it. Legacy records are parsed but never written.

pub mod answers;
mod legacy;
mod lines;

use std::collections::BTreeSet;
use std::fmt;

pub use legacy::{LegacyAgent, LegacyProtocol};
pub use lines::{TextRecord, records_from_text};

use super::is_elided;
use crate::codes::{self, Code};
use crate::finding::{Finding, Findings, Severity};

/// Most records of one name. Legitimate names have a few dozen, including those for mail and site verification.
pub const MAX_RECORDS: usize = 1024;

/// Most bytes of all records of one name: the capacity of one DNS message.
pub const MAX_TOTAL_BYTES: usize = 65_536;

/// Shortest text of a CID: version, codec, hash code, hash length and a hash of 32 bytes are 36 bytes, which base64 encodes in 48
/// characters after the prefix.
pub(crate) const MIN_CID_BYTES: usize = 49;

/// Longest text of a CID. A 64-byte hash in hexadecimal makes 140 characters.
pub const MAX_CID_BYTES: usize = 200;

/// The result of parsing the records of a name.
#[derive(Clone, Debug)]
pub struct TxtReading {
    /// What the records point to.
    pub outcome: TxtOutcome,
    /// The findings. The pointer of a finding is the index of the record: `/3`.
    pub findings: Vec<Finding>,
}

/// What the records of a name point to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxtOutcome {
    /// A manifest.
    Pointer(CidText),
    /// No manifest, but legacy records that describe an agent. None of it is verified.
    Legacy(LegacyAgent),
    /// There is a pointer, but it cannot be used. Legacy records are not a fallback.
    Refused,
    /// The name does not belong to an agent.
    NotAnAgent,
}

/// A text that can be a `CIDv1`. Its bytes are not decoded, so the hash is not known yet.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CidText(String);

impl CidText {
    /// Checks the format of a CID: a known multibase prefix, characters of that base, a plausible length.
    pub fn parse(text: &str) -> Result<Self, CidFault> {
        if text.is_empty() {
            return Err(CidFault::Empty);
        }
        if is_elided(text) {
            return Err(CidFault::Placeholder);
        }
        if text.contains(['/', '?', '#']) {
            return Err(CidFault::Path);
        }
        if text.starts_with("Qm") && text.len() == 46 {
            return Err(CidFault::VersionZero);
        }
        let mut characters = text.chars();
        let in_base: fn(char) -> bool = match characters.next() {
            Some('b') => |c| matches!(c, 'a'..='z' | '2'..='7'),
            Some('B') => |c| matches!(c, 'A'..='Z' | '2'..='7'),
            Some('v') => |c| matches!(c, '0'..='9' | 'a'..='v'),
            Some('V') => |c| matches!(c, '0'..='9' | 'A'..='V'),
            Some('f') => |c| matches!(c, '0'..='9' | 'a'..='f'),
            Some('F') => |c| matches!(c, '0'..='9' | 'A'..='F'),
            Some('k') => |c| matches!(c, '0'..='9' | 'a'..='z'),
            Some('K') => |c| matches!(c, '0'..='9' | 'A'..='Z'),
            Some('z') => |c| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l'),
            Some('u') => |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'),
            // The standard base64 alphabet has a slash, which cannot occur here.
            _ => return Err(CidFault::NoBase),
        };
        if !(MIN_CID_BYTES..=MAX_CID_BYTES).contains(&text.len()) {
            return Err(CidFault::Length);
        }
        if !characters.all(in_base) {
            return Err(CidFault::NotInBase);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text, multibase prefix included.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CidText({})", self.0)
    }
}

/// Why a text is not a CID that a pointer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CidFault {
    /// The text is empty.
    Empty,
    /// Shortened with dots, or a word in brackets.
    Placeholder,
    /// A path, query or fragment follows.
    Path,
    /// A CID of version 0.
    VersionZero,
    /// An unknown multibase prefix, or none.
    NoBase,
    /// Characters outside the alphabet of the base.
    NotInBase,
    /// Too short for a hash of 32 bytes, or longer than any hash needs.
    Length,
}

impl CidFault {
    /// The code of a finding about this error.
    pub const fn code(self) -> Code {
        match self {
            Self::Path => codes::agent::POINTER_PATH,
            Self::VersionZero => codes::agent::POINTER_CID_V0,
            _ => codes::agent::POINTER_CID,
        }
    }

    /// One sentence that says what is wrong.
    pub const fn described(self) -> &'static str {
        match self {
            Self::Empty => "the pointer has no CID",
            Self::Placeholder => "the CID is a placeholder",
            Self::NoBase => "the CID has no known multibase prefix; most CIDs start with b",
            Self::NotInBase => "the CID has characters that its base does not have",
            Self::Length => "the CID is truncated, or is followed by other characters",
            Self::Path | Self::VersionZero => self.code().title(),
        }
    }
}

impl fmt::Display for CidFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.described())
    }
}

impl std::error::Error for CidFault {}

/// Parses the TXT records of a name, each with its character-strings joined.
///
/// ```
/// use toolcrib_core::agent::txt::{TxtOutcome, parse_records};
///
/// let reading = parse_records(&["v=spf1 -all", "agt-manifest=ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4"]);
/// assert!(matches!(reading.outcome, TxtOutcome::Pointer(_)));
/// ```
pub fn parse_records(records: &[impl AsRef<[u8]>]) -> TxtReading {
    let mut findings = Findings::new();
    let outcome = read_records(records, &mut findings);
    // The findings are already in the order of the records: they have no spans.
    TxtReading { outcome, findings: findings.into_sorted() }
}

/// Parses a text file with one record on each line (see [`records_from_text`]); findings get the span of their line.
pub fn parse_text(text: &str) -> TxtReading {
    let records = records_from_text(text);
    let mut reading = parse_records(&records);
    for finding in &mut reading.findings {
        let index = finding.pointer.strip_prefix('/').and_then(|index| index.parse::<usize>().ok());
        finding.span = index.and_then(|index| records.get(index)).map(|record| record.span);
    }
    reading.findings.sort_by_key(|finding| finding.span.map_or(0, |span| span.start));
    reading
}

/// Returns the record that points to a manifest. It is an error if `existing` has legacy records: a name must not have both (.agt 1.0 §1).
pub fn pointer_record(cid: &CidText, existing: &[impl AsRef<[u8]>]) -> Result<String, Box<Finding>> {
    let left: Vec<&str> = existing
        .iter()
        .filter_map(|record| std::str::from_utf8(unquoted(record.as_ref())).ok())
        .filter(|text| is_legacy_record(text))
        .collect();
    match left.first() {
        None => Ok(format!("{POINTER}ipfs://{cid}")),
        Some(first) => Err(Box::new(
            Finding::new(codes::agent::POINTER_WITH_LEGACY)
                .severity(Severity::Error)
                .message(format!("{} legacy records must be removed before the pointer is added", left.len()))
                .got(first),
        )),
    }
}

/// Returns the set of records that belong to an agent or were meant to, without one outer pair of quotes. Two sources must agree on this
/// set: other TXT records of the name, the order and duplicates do not matter.
pub fn agent_records(records: &[impl AsRef<[u8]>]) -> BTreeSet<&[u8]> {
    records.iter().map(|record| unquoted(record.as_ref())).filter(|bytes| resembles_agent_record(bytes)).collect()
}

/// Whether a record is one that a name with a pointer must not have.
pub fn is_legacy(record: &[u8]) -> bool {
    std::str::from_utf8(unquoted(record)).is_ok_and(is_legacy_record)
}

/// Whether a record is a manifest pointer, valid or not.
pub fn is_pointer(record: &[u8]) -> bool {
    unquoted(record).starts_with(POINTER.as_bytes())
}

const POINTER: &str = "agt-manifest=";
const SENTINEL: &str = "agt-version=1";

fn read_records(records: &[impl AsRef<[u8]>], findings: &mut Findings) -> TxtOutcome {
    let total: usize = records.iter().map(|record| record.as_ref().len()).sum();
    if records.len() > MAX_RECORDS || total > MAX_TOTAL_BYTES {
        findings.push(
            Finding::new(codes::agent::TXT_TOO_MUCH)
                .expected(format!("at most {MAX_RECORDS} records with {MAX_TOTAL_BYTES} bytes"))
                .got(format!("{} records with {total} bytes", records.len())),
        );
        return TxtOutcome::Refused;
    }
    let mut pointers = Vec::new();
    let mut legacy = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let bytes = unquoted(record.as_ref());
        if !resembles_agent_record(bytes) {
            continue;
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if text.starts_with(POINTER) => pointers.push((index, Ok(&text[POINTER.len()..]))),
            Ok(text) if is_inexact_key(text) => findings.push(at(index, Finding::new(codes::agent::TXT_KEY).got(text))),
            Ok(text) => legacy.push((index, text)),
            Err(_) if bytes.starts_with(POINTER.as_bytes()) => pointers.push((index, Err(()))),
            Err(_) => findings.push(at(index, Finding::new(codes::agent::TXT_NOT_UTF8))),
        }
    }
    if pointers.is_empty() {
        return legacy::read(&legacy, findings);
    }
    if let Some(&(index, text)) = legacy.iter().find(|(_, text)| is_legacy_record(text)) {
        findings.push(at(index, Finding::new(codes::agent::POINTER_WITH_LEGACY).got(text)));
    }
    read_pointers(&pointers, findings)
}

fn read_pointers(pointers: &[(usize, Result<&str, ()>)], findings: &mut Findings) -> TxtOutcome {
    let mut found: Option<CidText> = None;
    let mut refused = false;
    for &(index, value) in pointers {
        let cid = match value {
            Ok(value) => parse_pointer(value),
            Err(()) => Err(Box::new(Finding::new(codes::agent::POINTER_CID).message("the pointer is not UTF-8"))),
        };
        match (cid, &found) {
            (Err(finding), _) => {
                findings.push(at(index, *finding));
                refused = true;
            }
            (Ok(cid), None) => found = Some(cid),
            (Ok(cid), Some(first)) if cid == *first => {}
            (Ok(cid), Some(first)) => {
                findings
                    .push(at(index, Finding::new(codes::agent::POINTER_AMBIGUOUS).expected(first.as_str()).got(cid.as_str())));
                refused = true;
            }
        }
    }
    found.filter(|_| !refused).map_or(TxtOutcome::Refused, TxtOutcome::Pointer)
}

fn parse_pointer(value: &str) -> Result<CidText, Box<Finding>> {
    let text = match value.get(..7) {
        // Schemes are case-insensitive (RFC 3986 §3.1).
        Some(scheme) if scheme.eq_ignore_ascii_case("ipfs://") => &value[7..],
        _ if value.is_empty() => value,
        _ => return Err(Box::new(Finding::new(codes::agent::POINTER_NOT_IPFS).expected("ipfs://<cid>").got(value))),
    };
    CidText::parse(text).map_err(|fault| Box::new(Finding::new(fault.code()).message(fault.described()).got(text)))
}

/// Points a finding at a record.
fn at(index: usize, mut finding: Finding) -> Finding {
    finding.pointer = format!("/{index}");
    finding
}

/// Whether a record is one that a name with a pointer must not have.
fn is_legacy_record(text: &str) -> bool {
    const KEYS: [&str; 9] = [
        "agt-version",
        "agt-name",
        "agt-description",
        "agt-icon",
        "agt-website",
        "agt-owner",
        "agt-protocol",
        "agt-cap",
        "agt-pricing",
    ];
    text.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key) || key.starts_with("agt-endpoint-"))
}

/// Whether the key of a record that starts with `agt-` in any case is a misspelt known key. Keys that are not known at all belong to later
/// versions.
fn is_inexact_key(text: &str) -> bool {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let exact = key.trim_matches([' ', '\t', '"']).to_ascii_lowercase();
    key != exact && (is_legacy_record(&format!("{exact}={value}")) || POINTER.strip_suffix('=') == Some(&exact))
}

/// Whether a record belongs to an agent or was meant to: `agt-` in any case, perhaps after spaces or quotes.
fn resembles_agent_record(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let bytes = bytes.strip_prefix(b"\"").unwrap_or(bytes);
    bytes.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"agt-"))
}

/// Removes one outer pair of quotes.
fn unquoted(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(bytes)
}

#[cfg(test)]
mod tests;
