//! TXT records: the pointer to a manifest, and the legacy records that some old names still have.
//!
//! The caller joins the character-strings of each record (RFC 1035 §3.3.14) and gives whole records. One outer pair of
//! quotes is removed, as some sources keep it. There is a reader for legacy records and no writer.

use std::collections::BTreeMap;
use std::fmt;

use super::{AgtDomain, MAX_NAME, PricingModel, is_elided, owner, vocabulary};
use crate::canon::write_string;
use crate::codes;
use crate::finding::{Finding, Findings, Severity, Span};

/// Most records of one name. Honest names have a few dozen, mail and site proofs included.
pub const MAX_RECORDS: usize = 1024;

/// Most bytes of all records of one name: what one DNS message can carry.
pub const MAX_TOTAL_BYTES: usize = 65_536;

/// Longest text of a CID. Those of 64-byte hashes in hexadecimal have 140 characters.
pub const MAX_CID_BYTES: usize = 200;

/// Longest legacy description, in code points: it was shorter then.
pub const MAX_LEGACY_DESCRIPTION: usize = 200;

/// What the records of a name gave.
#[derive(Clone, Debug)]
pub struct TxtReading {
    /// Where they lead.
    pub outcome: TxtOutcome,
    /// What was found on the way. The pointer of a finding is the index of the record: `/3`.
    pub findings: Vec<Finding>,
}

/// Where the records of a name lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxtOutcome {
    /// To a manifest.
    Pointer(CidText),
    /// To no manifest, but legacy records describe an agent. Nothing of it is verified.
    Legacy(LegacyAgent),
    /// Nowhere: there is a pointer, but it cannot be followed. Legacy records are not used instead.
    Refused,
    /// The name belongs to no agent.
    NotAnAgent,
}

/// A text that can be a CIDv1. Whether its bytes are one, and which hash they hold, has not been looked at.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CidText(String);

impl CidText {
    /// Checks the outer form of a CID: a known multibase prefix, characters of that base, a sensible length.
    pub fn parse(text: &str) -> Result<Self, Finding> {
        let fault = |message: &str| Err(Finding::new(codes::agent::POINTER_CID).message(message).got(text));
        if text.is_empty() {
            return fault("the pointer holds no CID");
        }
        if is_elided(text) {
            return fault("the CID is a placeholder");
        }
        if text.contains(['/', '?', '#']) {
            return Err(Finding::new(codes::agent::POINTER_PATH).got(text));
        }
        if text.starts_with("Qm") && text.len() == 46 {
            return Err(Finding::new(codes::agent::POINTER_CID_V0).got(text));
        }
        if text.len() > MAX_CID_BYTES {
            return fault("the CID is too long");
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
            // Base64 of the ordinary alphabet has a slash, which cannot stand in this place.
            _ => return fault("the CID has no known multibase prefix; most start with b"),
        };
        if !characters.all(in_base) {
            return fault("the CID has characters that its base does not have");
        }
        // Version, codec, hash code, hash length and 32 bytes: 36 bytes, or 48 characters of base64 and the prefix.
        if text.len() < 49 {
            return fault("the CID is cut off");
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

/// What legacy records say. Untrusted and unsigned, every word of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyAgent {
    /// `agt-name`
    pub name: Option<String>,
    /// `agt-description`
    pub description: Option<String>,
    /// `agt-icon`
    pub icon: Option<String>,
    /// `agt-website`
    pub website: Option<String>,
    /// `agt-owner`: declared, not proven, and not even always an address.
    pub owner: Option<String>,
    /// `agt-protocol` and `agt-endpoint-…`, in the order of their first appearance.
    pub protocols: Vec<LegacyProtocol>,
    /// `agt-cap`, without repetitions.
    pub capabilities: Vec<String>,
    /// `agt-pricing`
    pub pricing: Option<PricingModel>,
    /// The legacy records as they were, quotes removed: what to take away when migrating.
    pub records: Vec<String>,
}

/// A protocol of legacy records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyProtocol {
    /// Which protocol.
    pub id: String,
    /// Where it is spoken, if that was said.
    pub endpoint: Option<String>,
}

impl LegacyAgent {
    /// The agent in the shape of a 1.0 manifest, as canonical JSON. It can never be taken for one: it has no `agt`,
    /// `created_at` or `signature`, and says `"legacy":true`, `"source":"v0-legacy"`, `"verified":false`.
    pub fn to_json(&self, domain: Option<&AgtDomain>) -> String {
        let mut fields: BTreeMap<&str, String> = self.shared_fields();
        if let Some(domain) = domain {
            fields.insert("domain", json_string(domain.as_str()));
        }
        if let Some(owner) = &self.owner {
            fields.insert("owner", json_string(owner));
        }
        fields.insert("legacy", "true".to_owned());
        fields.insert("source", json_string("v0-legacy"));
        fields.insert("verified", "false".to_owned());
        // The keys are ASCII, so their byte order is the canonical one.
        json_object(&fields)
    }

    /// What both the legacy form and a draft of a manifest say, each value as canonical JSON.
    pub(super) fn shared_fields(&self) -> BTreeMap<&'static str, String> {
        let mut fields = BTreeMap::new();
        for (key, text) in
            [("name", &self.name), ("description", &self.description), ("icon", &self.icon), ("website", &self.website)]
        {
            if let Some(text) = text {
                fields.insert(key, json_string(text));
            }
        }
        if !self.protocols.is_empty() {
            let entries = self.protocols.iter().map(|protocol| {
                let mut entry = BTreeMap::from([("id", json_string(&protocol.id))]);
                if let Some(endpoint) = &protocol.endpoint {
                    entry.insert("endpoint", json_string(endpoint));
                }
                json_object(&entry)
            });
            fields.insert("protocols", json_array(entries));
        }
        if !self.capabilities.is_empty() {
            let entries = self.capabilities.iter().map(|id| json_object(&BTreeMap::from([("id", json_string(id))])));
            fields.insert("capabilities", json_array(entries));
        }
        if let Some(model) = self.pricing {
            fields.insert("pricing", json_object(&BTreeMap::from([("model", json_string(model.as_str()))])));
        }
        fields
    }
}

/// Reads the TXT records of a name, each with its character-strings joined.
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
    // Findings stand in the order of the records already: they have no spans.
    TxtReading { outcome, findings: findings.into_sorted() }
}

/// Reads a text file with one record on each line (see [`records_from_text`]); findings get the span of their line.
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

/// A record from a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRecord {
    /// The joined character-strings.
    pub bytes: Vec<u8>,
    /// The line it came from, without the space around it.
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
        // One more than is allowed is enough to be refused.
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) || records.len() > MAX_RECORDS {
            continue;
        }
        let value = zone_value(trimmed).unwrap_or(trimmed);
        let bytes = if value.starts_with('"') { join_strings(value) } else { value.as_bytes().to_vec() };
        records.push(TextRecord { bytes, span: Span::new(from, from + trimmed.len()) });
    }
    records
}

/// The record that points at a manifest. Refused while `existing` holds legacy records: a name must not have both
/// (.agt 1.0 §1).
pub fn pointer_record(cid: &CidText, existing: &[impl AsRef<[u8]>]) -> Result<String, Finding> {
    let left: Vec<&str> = existing
        .iter()
        .filter_map(|record| std::str::from_utf8(unquoted(record.as_ref())).ok())
        .filter(|text| is_legacy_record(text))
        .collect();
    match left.first() {
        None => Ok(format!("{POINTER}ipfs://{cid}")),
        Some(first) => Err(Finding::new(codes::agent::POINTER_WITH_LEGACY)
            .severity(Severity::Error)
            .message(format!("{} legacy records must go before the pointer comes", left.len()))
            .got(first)),
    }
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
            Ok(text) if text.starts_with("agt-") => legacy.push((index, text)),
            Ok(text) => findings.push(at(index, Finding::new(codes::agent::TXT_KEY).got(text))),
            Err(_) if bytes.starts_with(POINTER.as_bytes()) => pointers.push((index, Err(()))),
            Err(_) => findings.push(at(index, Finding::new(codes::agent::TXT_NOT_UTF8))),
        }
    }
    if pointers.is_empty() {
        return read_legacy(&legacy, findings);
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
            Err(()) => Err(Finding::new(codes::agent::POINTER_CID).message("the pointer is not UTF-8")),
        };
        match (cid, &found) {
            (Err(finding), _) => {
                findings.push(at(index, finding));
                refused = true;
            }
            (Ok(cid), None) => found = Some(cid),
            (Ok(cid), Some(first)) if cid == *first => {}
            (Ok(cid), Some(first)) => {
                findings.push(at(
                    index,
                    Finding::new(codes::agent::POINTER_AMBIGUOUS).expected(first.as_str()).got(cid.as_str()),
                ));
                refused = true;
            }
        }
    }
    found.filter(|_| !refused).map_or(TxtOutcome::Refused, TxtOutcome::Pointer)
}

fn parse_pointer(value: &str) -> Result<CidText, Finding> {
    match value.get(..7) {
        // Schemes have no case (RFC 3986 §3.1).
        Some(scheme) if scheme.eq_ignore_ascii_case("ipfs://") => CidText::parse(&value[7..]),
        _ if value.is_empty() => CidText::parse(value),
        _ => Err(Finding::new(codes::agent::POINTER_NOT_IPFS).expected("ipfs://<cid>").got(value)),
    }
}

fn read_legacy(records: &[(usize, &str)], findings: &mut Findings) -> TxtOutcome {
    for &(index, text) in records {
        if text.starts_with("agt-version=") && text != SENTINEL {
            findings.push(at(index, Finding::new(codes::agent::LEGACY_VERSION).expected(SENTINEL).got(text)));
        }
    }
    let Some(&(sentinel, _)) = records.iter().find(|&&(_, text)| text == SENTINEL) else {
        if let Some(&(index, text)) = records.iter().find(|(_, text)| is_legacy_record(text) && !text.starts_with("agt-version=")) {
            let message = "there are legacy records, but agt-version=1 is missing, so they mean nothing";
            findings.push(at(index, Finding::new(codes::agent::LEGACY_VERSION).message(message).expected(SENTINEL).got(text)));
        }
        return TxtOutcome::NotAnAgent;
    };
    findings.push(at(sentinel, Finding::new(codes::agent::LEGACY)));
    let mut agent = LegacyAgent::default();
    let mut endpoints: Vec<(usize, &str, &str)> = Vec::new();
    for &(index, text) in records {
        if is_legacy_record(text) {
            agent.records.push(text.to_owned());
        }
        // An empty value counts as absent.
        let Some((key, value)) = text.split_once('=').filter(|(_, value)| !value.is_empty()) else { continue };
        match key {
            "agt-name" => {
                keep_first(&mut agent.name, index, value, findings);
                check_length(index, value, MAX_NAME, findings);
            }
            "agt-description" => {
                keep_first(&mut agent.description, index, value, findings);
                check_length(index, value, MAX_LEGACY_DESCRIPTION, findings);
            }
            "agt-icon" | "agt-website" if !has_scheme(value, &["https"]) => unusable(index, "not an https URL", value, findings),
            "agt-icon" => keep_first(&mut agent.icon, index, value, findings),
            "agt-website" => keep_first(&mut agent.website, index, value, findings),
            "agt-owner" => {
                if owner::parse(value).is_none_or(|(_, spelling)| spelling == owner::Spelling::WrongChecksum) {
                    findings.push(at(
                        index,
                        Finding::new(codes::agent::LEGACY_VALUE)
                            .message("the declared owner is not a valid address; it is kept as it stands")
                            .got(value),
                    ));
                }
                keep_first(&mut agent.owner, index, value, findings);
            }
            "agt-protocol" if vocabulary::is_id(value) => {
                if agent.protocols.iter().all(|protocol| protocol.id != value) {
                    agent.protocols.push(LegacyProtocol { id: value.to_owned(), endpoint: None });
                }
            }
            "agt-cap" if vocabulary::is_id(value) => {
                if agent.capabilities.iter().all(|id| id != value) {
                    agent.capabilities.push(value.to_owned());
                }
            }
            "agt-protocol" | "agt-cap" => unusable(index, "not a lowercase, hyphenated id", value, findings),
            "agt-pricing" => match PricingModel::parse(value) {
                Some(model) if agent.pricing.is_none_or(|first| first == model) => agent.pricing = Some(model),
                Some(_) => findings.push(at(index, Finding::new(codes::agent::LEGACY_REPEATED).got(text))),
                None => unusable(index, "not a pricing model", value, findings),
            },
            _ => {
                if let Some(protocol) = key.strip_prefix("agt-endpoint-") {
                    endpoints.push((index, protocol, value));
                }
                // Other keys belong to later versions and are ignored.
            }
        }
    }
    for (index, id, url) in endpoints {
        add_endpoint(&mut agent, index, id, url, findings);
    }
    TxtOutcome::Legacy(agent)
}

fn add_endpoint(agent: &mut LegacyAgent, index: usize, id: &str, url: &str, findings: &mut Findings) {
    if !vocabulary::is_id(id) {
        return unusable(index, "the protocol is not a lowercase, hyphenated id", id, findings);
    }
    if !has_scheme(url, &["https", "http", "wss", "ws"]) {
        return unusable(index, "not a URL that can be called", url, findings);
    }
    let place = agent.protocols.iter().position(|protocol| protocol.id == id).unwrap_or_else(|| {
        findings.push(at(index, Finding::new(codes::agent::LEGACY_ENDPOINT).got(id)));
        agent.protocols.push(LegacyProtocol { id: id.to_owned(), endpoint: None });
        agent.protocols.len() - 1
    });
    if let Some(protocol) = agent.protocols.get_mut(place) {
        keep_first(&mut protocol.endpoint, index, url, findings);
    }
}

/// The first value counts; a different second one is reported.
fn keep_first(field: &mut Option<String>, index: usize, value: &str, findings: &mut Findings) {
    match field {
        None => *field = Some(value.to_owned()),
        Some(first) if first == value => {}
        Some(_) => findings.push(at(index, Finding::new(codes::agent::LEGACY_REPEATED).got(value))),
    }
}

fn check_length(index: usize, value: &str, most: usize, findings: &mut Findings) {
    let count = crate::text::code_points(value);
    if count > most {
        findings.push(at(
            index,
            Finding::new(codes::agent::LEGACY_VALUE)
                .message("the text is too long; it is kept as it stands")
                .expected(format!("at most {most} characters"))
                .got(format!("{count}")),
        ));
    }
}

fn unusable(index: usize, message: &str, value: &str, findings: &mut Findings) {
    findings.push(at(index, Finding::new(codes::agent::LEGACY_VALUE).message(message).got(value)));
}

/// Points a finding at a record.
fn at(index: usize, mut finding: Finding) -> Finding {
    finding.pointer = format!("/{index}");
    finding
}

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty() && schemes.iter().any(|wanted| scheme.eq_ignore_ascii_case(wanted))
    })
}

/// Whether the record is one of those that a name with a pointer must not have.
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

/// Whether a record is one of an agent or was meant to be: `agt-` in any case, perhaps after spaces or quotes.
fn resembles_agent_record(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let bytes = bytes.strip_prefix(b"\"").unwrap_or(bytes);
    bytes.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"agt-"))
}

/// Without one outer pair of quotes.
fn unquoted(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(bytes)
}

/// What follows `TXT` in a line of a zone file. `None` when the line is none.
fn zone_value(line: &str) -> Option<&str> {
    if line.starts_with('"') || line.starts_with("agt-") {
        return None;
    }
    // Name, time to live and class may stand before the type, in any order and number up to three.
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

/// Joins the quoted character-strings of a line, with the escapes of RFC 1035 §5.1. What is not quoted is kept too.
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

/// A JSON string.
pub(super) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    out
}

/// A JSON object from values that are JSON already.
pub(super) fn json_object(fields: &BTreeMap<&str, String>) -> String {
    let members: Vec<String> = fields.iter().map(|(key, value)| format!("{}:{value}", json_string(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn json_array(entries: impl Iterator<Item = String>) -> String {
    format!("[{}]", entries.collect::<Vec<_>>().join(","))
}
