//! Legacy version 0: one unsigned TXT record for each field. Toolcrib reads it and never writes it.

use std::collections::BTreeMap;

use super::{SENTINEL, TxtOutcome, at, is_legacy_record};
use crate::agent::{AgtDomain, MAX_NAME, PricingModel, json_array, json_object, json_string, owner, vocabulary};
use crate::codes;
use crate::finding::{Finding, Findings};

/// Longest legacy description, in code points; the old limit was shorter.
pub(crate) const MAX_LEGACY_DESCRIPTION: usize = 200;

/// The content of legacy records: untrusted and unsigned.
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
    /// `agt-owner`: declared, not proven, and not always an address.
    pub owner: Option<String>,
    /// `agt-protocol` and `agt-endpoint-…`, in order of first appearance.
    pub protocols: Vec<LegacyProtocol>,
    /// `agt-cap`, without duplicates.
    pub capabilities: Vec<String>,
    /// `agt-pricing`
    pub pricing: Option<PricingModel>,
    /// The original legacy records without quotes, which a migration removes.
    pub records: Vec<String>,
}

/// A protocol of legacy records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyProtocol {
    /// The id of the protocol.
    pub id: String,
    /// The URL at which the protocol is served, if declared.
    pub endpoint: Option<String>,
}

impl LegacyAgent {
    /// Returns the agent in the shape of a 1.0 manifest, as canonical JSON. It cannot be mistaken for a manifest: it has no `agt`,
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
        // The keys are ASCII, so their byte order is the canonical order.
        json_object(fields)
    }

    /// The fields that the legacy form and a manifest draft have in common, each value as canonical JSON.
    pub(in crate::agent) fn shared_fields(&self) -> BTreeMap<&'static str, String> {
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
                json_object(entry)
            });
            fields.insert("protocols", json_array(entries));
        }
        if !self.capabilities.is_empty() {
            let entries = self.capabilities.iter().map(|id| json_object([("id", json_string(id))]));
            fields.insert("capabilities", json_array(entries));
        }
        if let Some(model) = self.pricing {
            fields.insert("pricing", json_object([("model", json_string(model.as_str()))]));
        }
        fields
    }
}

/// Parses the `agt-` records of a name without a pointer.
pub(super) fn read(records: &[(usize, &str)], findings: &mut Findings) -> TxtOutcome {
    for &(index, text) in records {
        if text.starts_with("agt-version=") && text != SENTINEL {
            findings.push(at(index, Finding::new(codes::agent::LEGACY_VERSION).expected(SENTINEL).got(text)));
        }
    }
    let Some(&(sentinel, _)) = records.iter().find(|&&(_, text)| text == SENTINEL) else {
        if let Some(&(index, text)) = records.iter().find(|(_, text)| is_legacy_record(text) && !text.starts_with("agt-version="))
        {
            let message = "there are legacy records, but agt-version=1 is missing, so they are ignored";
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
        // An empty value counts as missing.
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
                            .message("the declared owner is not a valid address; it is kept unchanged")
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

/// Keeps the first value and reports a different second one.
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
                .message("the text is too long; it is kept unchanged")
                .expected(format!("at most {most} characters"))
                .got(format!("{count}")),
        ));
    }
}

fn unusable(index: usize, message: &str, value: &str, findings: &mut Findings) {
    findings.push(at(index, Finding::new(codes::agent::LEGACY_VALUE).message(message).got(value)));
}

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once("://")
        .is_some_and(|(scheme, rest)| !rest.is_empty() && schemes.iter().any(|wanted| scheme.eq_ignore_ascii_case(wanted)))
}
