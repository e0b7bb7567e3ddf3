//! ERC-8004 registration files.
//!
//! The file claims nothing that the manifest and the options do not state: no trust models, no payments, no registration.

use serde_json::{Map, Value as Json, json};
use toolcrib_core::agent::VERSION;
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};

use super::export::{Job, Outcome, about, option, pretty};
use super::urls::Schemes;

/// The type of the file.
pub(super) const TYPE: &str = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1";

/// The largest integer that every JSON reader parses exactly: 2^53 - 1. `agentId` is a number in the file.
const MAX_AGENT_ID: u64 = 9_007_199_254_740_991;

/// Maximum length of a trust model in characters.
const MAX_TRUST: usize = 64;

pub(super) fn export(job: &mut Job<'_>) -> Outcome {
    let mut file = Map::new();
    file.insert("type".to_owned(), TYPE.into());
    file.insert("name".to_owned(), job.name().into());
    file.insert("description".to_owned(), job.description().into());
    match job.icon() {
        Some(url) => {
            file.insert("image".to_owned(), url.into());
        }
        None => {
            let message = "there is no image: applications that show tokens expect one";
            job.note(about(code::BRIDGE_DROPPED, "/icon").message(message));
        }
    }
    file.insert("services".to_owned(), services(job)?.into());
    file.insert("x402Support".to_owned(), job.options.x402.into());
    file.insert("active".to_owned(), (!job.options.inactive).into());
    file.insert("registrations".to_owned(), registrations(job)?.into());
    if !job.options.supported_trust.is_empty() {
        let is_word = |word: &String| {
            (1..=MAX_TRUST).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        if !job.options.supported_trust.iter().all(is_word) {
            return Err(option("supported_trust", "expected words such as reputation"));
        }
        file.insert("supportedTrust".to_owned(), job.options.supported_trust.clone().into());
    }
    job.drop_fields(&["capabilities", "pricing"], "a registration file has no place for it");
    Ok(pretty(file))
}

/// The name of the agent, its website and its endpoints.
fn services(job: &mut Job<'_>) -> Result<Vec<Json>, Box<Finding>> {
    // The name resolves to the signed manifest, as an ENS entry resolves to its records.
    let mut services = vec![json!({"name": "AGT", "endpoint": job.manifest.domain().as_str(), "version": VERSION})];
    if let Some(url) = job.website() {
        services.push(json!({"name": "web", "endpoint": url}));
    }
    let mut auth = 0_usize;
    for endpoint in job.endpoints(Schemes::HttpsOrWss, |_| true) {
        auth += usize::from(endpoint.protocol.auth().is_some_and(|hint| hint != "none"));
        let (name, url) = match endpoint.protocol.id() {
            "mcp" => ("MCP", Some(endpoint.url)),
            "a2a" => ("A2A", job.card_url(&endpoint)?),
            id => (id, Some(endpoint.url)),
        };
        let Some(url) = url else { continue };
        let mut service = Map::new();
        service.insert("name".to_owned(), name.into());
        service.insert("endpoint".to_owned(), url.into());
        if let Some(version) = endpoint.protocol.version().filter(|version| !version.is_empty()) {
            service.insert("version".to_owned(), version.into());
        }
        let service = Json::Object(service);
        if !services.contains(&service) {
            services.push(service);
        }
    }
    if auth > 0 {
        let message = "services have no place for authentication";
        job.note(about(code::BRIDGE_DROPPED, "/protocols").message(message).got(auth.to_string()));
    }
    Ok(services)
}

fn registrations(job: &mut Job<'_>) -> Result<Vec<Json>, Box<Finding>> {
    if job.options.registrations.is_empty() {
        let message = "the file names no registration: add it once the agent has an id";
        job.note(Finding::new(code::BRIDGE_FILLED).severity(Severity::Warning).message(message));
    }
    let mut entries = Vec::new();
    for registration in &job.options.registrations {
        let Some(id) = u64::try_from(registration.agent_id).ok().filter(|&id| id <= MAX_AGENT_ID) else {
            return Err(option("registrations", "agentId is a JSON number, so it is at most 9007199254740991"));
        };
        let registry = format!("eip155:{}:{}", registration.chain_id, registration.registry.to_checksum(None));
        entries.push(json!({"agentId": id, "agentRegistry": registry}));
    }
    Ok(entries)
}
