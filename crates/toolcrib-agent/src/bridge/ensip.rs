//! ENS text records: ENSIP-26 (`agent-context`, `agent-endpoint[protocol]`) and ENSIP-25 (`agent-registration[registry][id]`).

use alloy_primitives::hex;
use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::Severity;

use super::Registration;
use super::export::{Job, Outcome, about, endpoint_pointer};
use super::urls::Schemes;

/// The value of a registration record. Any value except the empty one confirms the registration.
const CONFIRMED: &str = "1";

pub(super) fn export(job: &mut Job<'_>) -> Outcome {
    let mut records: Vec<(String, String)> = vec![("agent-context".to_owned(), context(job))];
    if let Some(url) = job.website() {
        records.push((endpoint_key("web"), url));
    }
    let mut auth = 0_usize;
    for endpoint in job.endpoints(Schemes::HttpsOrWss, |_| true) {
        auth += usize::from(endpoint.protocol.auth().is_some_and(|hint| hint != "none"));
        let key = endpoint_key(endpoint.protocol.id());
        if records.iter().any(|(other, _)| *other == key) {
            let message = "a name has one record for each protocol: the first endpoint is used";
            job.note(
                about(code::BRIDGE_DROPPED, endpoint_pointer(endpoint.index))
                    .severity(Severity::Warning)
                    .message(message)
                    .got(&key),
            );
            continue;
        }
        let url = if endpoint.protocol.id() == "a2a" { job.card_url(&endpoint)? } else { Some(endpoint.url) };
        records.extend(url.map(|url| (key, url)));
    }
    if auth > 0 {
        let message = "endpoint records have no place for authentication";
        job.note(about(code::BRIDGE_DROPPED, "/protocols").message(message).got(auth.to_string()));
    }
    for registration in &job.options.registrations {
        let record = (registration_key(registration), CONFIRMED.to_owned());
        if !records.contains(&record) {
            records.push(record);
        }
    }
    job.drop_fields(&["capabilities", "pricing"], "ENS records have no place for it; agent-context names the manifest");
    let records: Vec<Json> = records.into_iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    Ok(format!("{:#}\n", Json::Array(records)))
}

/// Description and manifest reference of the agent as one line of JSON: a format in which no text can pass for another field.
fn context(job: &mut Job<'_>) -> String {
    let mut context = Map::new();
    let name = job.name();
    context.insert("name".to_owned(), name.into());
    if let Some(description) = job.manifest.description().filter(|text| !text.is_empty()) {
        context.insert("description".to_owned(), description.into());
    }
    if let Some(icon) = job.icon() {
        context.insert("icon".to_owned(), icon.into());
    }
    context.insert("agt".to_owned(), job.provenance().into());
    Json::Object(context).to_string()
}

fn endpoint_key(protocol: &str) -> String {
    // Ids consist of letters, digits and hyphens, so they cannot contain the closing bracket.
    format!("agent-endpoint[{protocol}]")
}

/// The key of ENSIP-25. The registry is an ERC-7930 address of version 1: chain type `eip155`, the chain id without leading zero bytes,
/// the address.
fn registration_key(registration: &Registration) -> String {
    let chain = registration.chain_id.to_be_bytes();
    let chain = &chain[chain.iter().position(|&byte| byte != 0).unwrap_or(chain.len() - 1)..];
    // Both lengths are far below 256.
    let mut address = vec![0x00, 0x01, 0x00, 0x00, chain.len() as u8];
    address.extend_from_slice(chain);
    address.push(registration.registry.len() as u8);
    address.extend_from_slice(registration.registry.as_slice());
    format!("agent-registration[{}][{}]", hex::encode_prefixed(address), registration.agent_id)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, address};

    use super::*;

    #[test]
    fn registration_keys_are_those_of_the_standard() {
        let key = |chain_id: u64, id: u64| {
            let registry = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
            registration_key(&Registration { chain_id, registry, agent_id: U256::from(id) })
        };
        // The example of ENSIP-25.
        assert_eq!(key(1, 26433), "agent-registration[0x000100000101148004a169fb4a3325136eb29fa0ceb6d2e539a432][26433]");
        assert_eq!(key(8453, 0), "agent-registration[0x00010000022105148004a169fb4a3325136eb29fa0ceb6d2e539a432][0]");
        assert_eq!(key(u64::MAX, 1).matches("ffffffffffffffff14").count(), 1);
    }
}
