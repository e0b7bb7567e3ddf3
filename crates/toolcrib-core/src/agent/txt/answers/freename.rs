//! The public resolver of Freename: `GET …/resolver/FNS/{name}`.

use alloy_primitives::U256;

use super::{AnswerFault, JsonAnswer, check_size, document, join_character_strings};
use crate::agent::AgtDomain;
use crate::json::Value;

/// Parses a response about `domain`. Every name in the response, and the token id, must be that of `domain`.
pub fn read_freename(bytes: &[u8], domain: &AgtDomain) -> Result<JsonAnswer, AnswerFault> {
    let document = document(bytes)?;
    let data = document.root().get("data").filter(|data| data.as_object().is_some());
    let data = data.ok_or_else(|| AnswerFault::malformed("the answer has no object `data`"))?;
    check_name(data, domain)?;
    let Some(list) = data.get("records").filter(|list| !list.is_null()) else { return Ok(JsonAnswer::NoRecords) };
    let list = list.as_array().ok_or_else(|| AnswerFault::malformed("`records` is not a list"))?;
    let mut records = Vec::new();
    for record in list.iter() {
        let kind = record.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| AnswerFault::malformed("a record has no type"))?;
        if !kind.eq_ignore_ascii_case("TXT") {
            continue;
        }
        let value = record.get("value").and_then(Value::as_str);
        records.push(unquoted(value.ok_or_else(|| AnswerFault::malformed("a TXT record has no value"))?));
    }
    check_size(&records)?;
    Ok(if records.is_empty() { JsonAnswer::NoRecords } else { JsonAnswer::Records(records) })
}

fn check_name(data: Value<'_>, domain: &AgtDomain) -> Result<(), AnswerFault> {
    let named = [("name", data.get("name")), ("asciiName", data.get("asciiName"))];
    let mut checked = false;
    for (field, value) in named {
        let Some(value) = value.filter(|value| !value.is_null()) else { continue };
        let name = value.as_str().ok_or_else(|| AnswerFault::malformed(format!("`{field}` is not a string")))?;
        if AgtDomain::from_input(name).ok().as_ref() != Some(domain) {
            return Err(AnswerFault::other_name(format!("`{field}` of the answer is not the requested name")));
        }
        checked = true;
    }
    if !checked {
        return Err(AnswerFault::malformed("the answer does not contain the name"));
    }
    // Other software may have rounded a JSON number, so only strings are compared.
    let token = data.get("tokenId").and_then(Value::as_str).and_then(|text| text.parse::<U256>().ok());
    if token.is_some_and(|token| token != domain.token_id()) {
        return Err(AnswerFault::other_name("the token id of the answer belongs to another name"));
    }
    Ok(())
}

/// Removes the quotes around a value. Long values have several strings; inner quotes are not always escaped, so one outer pair is removed
/// if the strings do not parse.
fn unquoted(value: &str) -> Vec<u8> {
    if !value.starts_with('"') {
        return value.as_bytes().to_vec();
    }
    join_character_strings(value).unwrap_or_else(|| {
        let inner = value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
        inner.unwrap_or(value).as_bytes().to_vec()
    })
}
