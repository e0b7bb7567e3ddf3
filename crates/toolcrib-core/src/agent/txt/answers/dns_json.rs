//! DNS over HTTPS in JSON (`application/dns-json`). There is no standard for it; this parser accepts what the common services have in
//! common.

use super::{AnswerFault, JsonAnswer, check_size, document, join_character_strings};
use crate::agent::AgtDomain;
use crate::codes;
use crate::json::Value;

/// Longest chain of aliases (CNAME) that is followed, as in common resolvers.
pub const MAX_ALIASES: usize = 8;

/// Type numbers of resource records.
const CNAME: u64 = 5;
const TXT: u64 = 16;

/// Parses a response about the TXT records of `domain`.
///
/// Values may be quoted strings in zone file format, or the bare text with all strings joined. Records count only if they belong to the
/// name itself or to the last name of its aliases.
pub fn read_dns_json(bytes: &[u8], domain: &AgtDomain) -> Result<JsonAnswer, AnswerFault> {
    let document = document(bytes)?;
    let root = document.root();
    let status = root.get("Status").and_then(Value::as_u64);
    let Some(status) = status else { return Err(AnswerFault::malformed("the answer has no Status")) };
    match root.get("TC").map(Value::as_bool) {
        None | Some(Some(false)) => {}
        Some(Some(true)) => {
            return Err(AnswerFault { code: codes::agent::DNS_TRUNCATED, message: "the answer is truncated (TC)".to_owned() });
        }
        Some(None) => return Err(AnswerFault::malformed("TC is not a boolean")),
    }
    match status {
        0 | 3 => {}
        5 => return Err(AnswerFault { code: codes::agent::DNS_REFUSED, message: "the server refused the query".to_owned() }),
        other => {
            let message = format!("the server returned the response code {other}");
            return Err(AnswerFault { code: codes::agent::DNS_SERVER_FAILURE, message });
        }
    }
    check_question(root, domain)?;
    let answers = entries(root, "Answer")?;
    let (last, aliases) = follow(&answers, domain.as_str())?;
    let mut records = Vec::new();
    for entry in answers.iter().filter(|entry| entry.kind == TXT) {
        if !same_name(entry.name, last) {
            return Err(AnswerFault::other_name("a TXT record of the answer belongs to another name"));
        }
        let data = entry.data.ok_or_else(|| AnswerFault::malformed("a TXT record has no data"))?;
        records.push(value(data)?);
    }
    check_size(&records)?;
    match (status, records.is_empty()) {
        (0, false) => Ok(JsonAnswer::Records(records)),
        (0, true) => Ok(JsonAnswer::NoRecords),
        // The response code applies to the last alias; the name itself exists.
        (_, true) if aliases > 0 => Ok(JsonAnswer::NoRecords),
        (_, true) => Ok(JsonAnswer::NotFound),
        (_, false) => Err(AnswerFault::malformed("the answer has status NXDOMAIN but contains records of the name")),
    }
}

struct Entry<'a> {
    name: &'a str,
    kind: u64,
    data: Option<&'a str>,
}

/// The entries of a section, which may be missing.
fn entries<'a>(root: Value<'a>, section: &str) -> Result<Vec<Entry<'a>>, AnswerFault> {
    let malformed = || AnswerFault::malformed(format!("the section {section} is malformed"));
    let Some(list) = root.get(section).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let list = list.as_array().ok_or_else(malformed)?;
    list.iter()
        .map(|entry| {
            let name = entry.get("name").and_then(Value::as_str).ok_or_else(malformed)?;
            let kind = entry.get("type").and_then(Value::as_u64).ok_or_else(malformed)?;
            Ok(Entry { name, kind, data: entry.get("data").and_then(Value::as_str) })
        })
        .collect()
}

fn check_question(root: Value<'_>, domain: &AgtDomain) -> Result<(), AnswerFault> {
    for question in entries(root, "Question")? {
        if !same_name(question.name, domain.as_str()) || question.kind != TXT {
            return Err(AnswerFault::other_name("the question section does not match the query"));
        }
    }
    Ok(())
}

/// Returns the last name of the aliases that start at `name`, and their number.
fn follow<'a>(answers: &[Entry<'a>], name: &'a str) -> Result<(&'a str, usize), AnswerFault> {
    let mut last = name;
    for aliases in 0..=MAX_ALIASES {
        let mut targets = answers.iter().filter(|entry| entry.kind == CNAME && same_name(entry.name, last));
        let Some(alias) = targets.next() else { return Ok((last, aliases)) };
        if targets.next().is_some() {
            return Err(AnswerFault::malformed("a name has two CNAME records"));
        }
        last = alias.data.ok_or_else(|| AnswerFault::malformed("a CNAME record has no target"))?;
    }
    let message = format!("the name has more than {MAX_ALIASES} aliases (CNAME)");
    Err(AnswerFault { code: codes::agent::DNS_ALIASES, message })
}

/// Whether two names are equal, ignoring case and a trailing dot.
fn same_name(one: &str, other: &str) -> bool {
    let bare = |name: &'_ str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// The bytes of a TXT record.
fn value(data: &str) -> Result<Vec<u8>, AnswerFault> {
    if !data.starts_with('"') {
        return Ok(data.as_bytes().to_vec());
    }
    join_character_strings(data).ok_or_else(|| AnswerFault::malformed("the quotes of a TXT record are unbalanced"))
}
