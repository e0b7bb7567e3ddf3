//! Drafts of a manifest: an empty template, one from legacy records, and one from other documents.
//!
//! Drafts are unsigned. Nothing is invented: fields that the source lacks are omitted, and checking the draft reports them.

use std::collections::BTreeMap;

use alloy_primitives::Address;

use super::txt::LegacyAgent;
use super::{AgtDomain, VERSION, json_array, json_object, json_string, owner};
use crate::clock::UnixTime;
use crate::json::{self, Limits, read};
use crate::time::format_rfc3339;

/// Returns a template manifest as indented JSON: it satisfies every rule, but is not signed. Its endpoint is on a host reserved for
/// examples; a hint says so until it is replaced.
///
/// `created_at` is the current time; a time that RFC 3339 cannot express becomes the start of 1970.
///
/// ```
/// use toolcrib_core::agent::{AgentManifest, AgtDomain, template};
/// use toolcrib_core::checked::parse;
/// use toolcrib_core::clock::UnixTime;
/// use toolcrib_core::finding::{Mode, Severity};
///
/// let domain = AgtDomain::parse("exampleagent.agt").expect("a name");
/// let owner = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().expect("an address");
/// let text = template(&domain, owner, UnixTime::from_seconds(1_777_658_400));
/// let checked = parse::<AgentManifest>(text.as_bytes(), Mode::Producer);
/// let left = checked.findings.iter().filter(|finding| finding.severity != Severity::Hint);
/// assert_eq!(left.map(|finding| finding.code.id()).collect::<Vec<_>>(), ["agent.unsigned"]);
/// ```
pub fn template(domain: &AgtDomain, owner: Address, created_at: UnixTime) -> String {
    let shared = BTreeMap::from([
        ("name", json_string(domain.sld())),
        ("description", json_string("Describe in one sentence what this agent does.")),
        ("protocols", r#"[{"id":"mcp","endpoint":"https://example.com/mcp","auth":"none"}]"#.to_owned()),
        (
            "capabilities",
            concat!(
                r#"[{"id":"question-answering","description":"Answers a question in plain language.","#,
                r#""input":{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]},"#,
                r#""output":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}]"#
            )
            .to_owned(),
        ),
        ("pricing", r#"{"model":"free"}"#.to_owned()),
    ]);
    write(domain, Some(&owner.to_checksum(None)), created_at, shared)
}

/// The content of a draft: all fields but those that every manifest has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftContent {
    /// The display name.
    pub name: Option<String>,
    /// The agent's description.
    pub description: Option<String>,
    /// The URL of a picture.
    pub icon: Option<String>,
    /// The URL of a website.
    pub website: Option<String>,
    /// The protocols that the agent speaks, with endpoints.
    pub protocols: Vec<DraftProtocol>,
    /// The agent's capabilities.
    pub capabilities: Vec<DraftCapability>,
    /// The agent's pricing.
    pub pricing: Option<DraftPricing>,
}

/// One entry of `protocols` in a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftProtocol {
    /// The id of the protocol.
    pub id: String,
    /// The version of the protocol.
    pub version: Option<String>,
    /// The URL at which the protocol is served.
    pub endpoint: String,
    /// How callers authenticate; a hint only.
    pub auth: Option<String>,
}

/// One entry of `capabilities` in a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftCapability {
    /// The id of the capability.
    pub id: String,
    /// The description of the capability.
    pub description: Option<String>,
}

/// `pricing` in a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftPricing {
    /// `free`, `freemium`, `paid` or `contact`.
    pub model: String,
    /// The free part; for `freemium` only.
    pub free_tier: Option<String>,
    /// The price; for `paid` and `freemium`.
    pub paid: Option<DraftPaid>,
}

/// `pricing.paid` in a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftPaid {
    /// An ISO 4217 code or a token symbol.
    pub currency: String,
    /// A decimal number.
    pub amount: String,
    /// What one amount pays for.
    pub unit: String,
    /// The chain of the token.
    pub chain: Option<String>,
}

/// Returns a manifest draft with the given content, as indented JSON.
///
/// The content is not checked here: parse the draft as a [`Manifest`](crate::checked::Manifest) to get the findings.
pub fn draft(domain: &AgtDomain, owner: Address, created_at: UnixTime, content: &DraftContent) -> String {
    let mut shared = BTreeMap::new();
    let texts =
        [("name", &content.name), ("description", &content.description), ("icon", &content.icon), ("website", &content.website)];
    for (key, text) in texts {
        if let Some(text) = text {
            shared.insert(key, json_string(text));
        }
    }
    if !content.protocols.is_empty() {
        let entries = content.protocols.iter().map(|protocol| {
            json_object(present([
                ("id", Some(&protocol.id)),
                ("version", protocol.version.as_ref()),
                ("endpoint", Some(&protocol.endpoint)),
                ("auth", protocol.auth.as_ref()),
            ]))
        });
        shared.insert("protocols", json_array(entries));
    }
    if !content.capabilities.is_empty() {
        let entries = content.capabilities.iter().map(|capability| {
            json_object(present([("id", Some(&capability.id)), ("description", capability.description.as_ref())]))
        });
        shared.insert("capabilities", json_array(entries));
    }
    if let Some(pricing) = &content.pricing {
        let paid = pricing.paid.as_ref().map(|paid| {
            json_object(present([
                ("currency", Some(&paid.currency)),
                ("amount", Some(&paid.amount)),
                ("unit", Some(&paid.unit)),
                ("chain", paid.chain.as_ref()),
            ]))
        });
        let texts = present([("model", Some(&pricing.model)), ("free_tier", pricing.free_tier.as_ref())]);
        shared.insert("pricing", json_object(texts.chain(paid.map(|paid| ("paid", paid)))));
    }
    write(domain, Some(&owner.to_checksum(None)), created_at, shared)
}

/// The fields that are present, as JSON.
fn present<'k, const N: usize>(fields: [(&'k str, Option<&String>); N]) -> impl Iterator<Item = (&'k str, String)> {
    fields.into_iter().filter_map(|(key, text)| Some((key, json_string(text?))))
}

/// The steps that move a name from legacy records to a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The manifest to complete, sign and publish, as indented JSON.
    pub draft: String,
    /// The changes to make to the TXT records afterwards, in this order.
    pub changes: Vec<TxtChange>,
}

/// One change of a TXT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxtChange {
    /// Remove this record.
    Remove(String),
    /// Add `agt-manifest=ipfs://` and the CID under which the signed manifest was published.
    AddPointer,
}

/// Drafts a manifest from legacy records (.agt 1.0 §8).
///
/// `holder` is the wallet that holds the name, if known; otherwise the declared owner is used, with a checksum added if it has none. A
/// wrong checksum is kept, so that checking the draft finds it.
pub fn migrate(legacy: &LegacyAgent, domain: &AgtDomain, holder: Option<Address>, created_at: UnixTime) -> Migration {
    let declared = legacy.owner.as_deref().map(|text| match owner::parse(text) {
        Some((address, owner::Spelling::OneCase)) => address.to_checksum(None),
        _ => text.to_owned(),
    });
    let owner = holder.map(|address| address.to_checksum(None)).or(declared);
    // The pointer is added last: a name must never have both.
    let mut changes: Vec<TxtChange> = legacy.records.iter().cloned().map(TxtChange::Remove).collect();
    changes.push(TxtChange::AddPointer);
    Migration { draft: write(domain, owner.as_deref(), created_at, legacy.shared_fields()), changes }
}

/// Writes a draft. All drafts have the same order of fields; the values of `shared` are already JSON.
fn write(domain: &AgtDomain, owner: Option<&str>, created_at: UnixTime, mut shared: BTreeMap<&'static str, String>) -> String {
    let mut fields = vec![("agt", json_string(VERSION)), ("domain", json_string(domain.as_str()))];
    for key in ["name", "description", "icon", "website"] {
        fields.extend(shared.remove(key).map(|value| (key, value)));
    }
    fields.extend(owner.map(|owner| ("owner", json_string(owner))));
    fields.push(("created_at", json_string(&timestamp(created_at))));
    for key in ["protocols", "capabilities", "pricing"] {
        fields.extend(shared.remove(key).map(|value| (key, value)));
    }
    pretty(&json_object(fields))
}

fn timestamp(time: UnixTime) -> String {
    format_rfc3339(time).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// Returns the same JSON with two spaces of indentation and a final newline. Text that is not JSON is returned unchanged.
fn pretty(text: &str) -> String {
    let document = read(text.as_bytes(), Limits::default()).document;
    document.map_or_else(|| text.to_owned(), |document| json::pretty(document.root()))
}
