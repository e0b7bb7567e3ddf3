//! Reading A2A Agent Cards of version 1.0 (`supportedInterfaces`) and 0.3 (`url`, `additionalInterfaces`).

use std::collections::BTreeSet;

use toolcrib_core::agent::capabilities::MAX_DESCRIPTION;
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::agent::{DraftCapability, DraftProtocol};
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{Object, Value};
use toolcrib_core::slug::Slug;

use super::super::PROVENANCE_EXTENSION;
use super::super::urls::Schemes;
use super::{Job, MAX_CAPABILITIES, MAX_PROTOCOLS, MAX_VERSION};

/// The fields that are copied to the draft, or that have their own findings.
const KNOWN: &[&str] = &[
    "name",
    "description",
    "supportedInterfaces",
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "protocolVersion",
    "provider",
    "documentationUrl",
    "iconUrl",
    "securitySchemes",
    "securityRequirements",
    "security",
    "skills",
    "signatures",
    "capabilities",
];

pub(super) fn import(root: Object<'_>, job: &mut Job<'_>) -> Result<(), &'static str> {
    if root.get("supportedInterfaces").is_none() && root.get("url").is_none() {
        return Err("an Agent Card has supportedInterfaces (1.0) or url (0.3)");
    }
    job.identity(root);
    job.content.icon = job.url(root, "iconUrl", Schemes::Https);
    website(root, job);
    let auth = auth(root, job);
    interfaces(root, auth.as_deref(), job);
    skills(root, job);
    if let Some(signatures) = root.get("signatures") {
        let message = "the signatures of the card are left out, and were not verified";
        job.about(signatures, Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning).message(message));
    }
    capabilities(root, job);
    job.drop_fields(root, KNOWN);
    Ok(())
}

/// The documentation URL, or else the provider's website.
fn website(root: Object<'_>, job: &mut Job<'_>) {
    job.content.website = job.url(root, "documentationUrl", Schemes::Https);
    let Some(provider) = root.get("provider") else { return };
    if job.content.website.is_none()
        && let Some(provider) = provider.as_object()
    {
        job.content.website = job.url(provider, "url", Schemes::Https);
    }
    job.dropped(provider, "a manifest has no place for the provider; its site may become the website");
}

fn interfaces(root: Object<'_>, auth: Option<&str>, job: &mut Job<'_>) {
    let mut lost = false;
    if root.get("supportedInterfaces").is_some() {
        for entry in job.entries(root, "supportedInterfaces", MAX_PROTOCOLS) {
            let Some(interface) = entry.as_object() else {
                job.dropped(entry, "the interface is left out: it is not an object");
                continue;
            };
            lost |= interface.get("protocolBinding").is_some() || interface.get("tenant").is_some();
            let version = job.limited(interface, "protocolVersion", MAX_VERSION);
            add(entry, interface, version, auth, job);
        }
        // Cards for readers of both versions have both; use the newer part, which has more.
        for key in ["url", "preferredTransport", "additionalInterfaces", "protocolVersion"] {
            if let Some(value) = root.get(key) {
                job.dropped(value, "the field belongs to version 0.3; the interfaces of version 1.0 are used");
            }
        }
    } else {
        let version = job.limited(root, "protocolVersion", MAX_VERSION);
        lost |= root.get("preferredTransport").is_some();
        add(root.value(), root, version.clone(), auth, job);
        for entry in job.entries(root, "additionalInterfaces", MAX_PROTOCOLS) {
            let Some(interface) = entry.as_object() else {
                job.dropped(entry, "the interface is left out: it is not an object");
                continue;
            };
            lost |= interface.get("transport").is_some();
            let is_main = interface.get("url").and_then(Value::as_str) == root.get("url").and_then(Value::as_str);
            if !is_main {
                add(entry, interface, version.clone(), auth, job);
            }
        }
    }
    if lost {
        let message = "a manifest has no place for bindings and tenants: callers find them in the card";
        job.note(Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning).message(message));
    }
    if job.content.protocols.is_empty() {
        let message = "no interface of the card can be used: the draft has no protocols";
        job.note(Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning).message(message));
    }
}

fn add(value: Value<'_>, interface: Object<'_>, version: Option<String>, auth: Option<&str>, job: &mut Job<'_>) {
    if let Some(endpoint) = job.url(interface, "url", Schemes::Https) {
        job.add_protocol(value, DraftProtocol { id: "a2a".to_owned(), version, endpoint, auth: auth.map(str::to_owned) });
    }
}

/// The authentication word for the card's only security scheme.
fn auth(root: Object<'_>, job: &mut Job<'_>) -> Option<String> {
    let value = root.get("securitySchemes")?;
    let schemes = value.as_object()?;
    let word = match (schemes.len(), schemes.iter().next()) {
        (0, _) | (_, None) => return None,
        (1, Some((_, scheme))) => scheme.as_object().and_then(scheme_word),
        _ => None,
    };
    if word.is_none() {
        let message = "a manifest names one simple way of authentication for an endpoint; the schemes are left out";
        job.about(value, Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning).message(message));
    }
    word.map(str::to_owned)
}

/// The `.agt` word for a scheme of version 1.0 (`{"httpAuthSecurityScheme": {…}}`) or 0.3 (`{"type": "http", …}`).
fn scheme_word(scheme: Object<'_>) -> Option<&'static str> {
    let http = |scheme: Object<'_>| match scheme.get("scheme")?.as_str()?.to_ascii_lowercase().as_str() {
        "bearer" => Some("bearer"),
        "basic" => Some("basic"),
        _ => None,
    };
    if let Some(kind) = scheme.get("type").and_then(Value::as_str) {
        return match kind {
            "http" => http(scheme),
            "oauth2" => Some("oauth2"),
            "apiKey" => Some("apikey"),
            "mutualTLS" => Some("mtls"),
            _ => None,
        };
    }
    let (key, inner) = scheme.iter().next()?;
    match key {
        "httpAuthSecurityScheme" => http(inner.as_object()?),
        "oauth2SecurityScheme" => Some("oauth2"),
        "apiKeySecurityScheme" => Some("apikey"),
        "mtlsSecurityScheme" => Some("mtls"),
        _ => None,
    }
}

fn skills(root: Object<'_>, job: &mut Job<'_>) {
    let mut seen = BTreeSet::new();
    let mut details = false;
    for entry in job.entries(root, "skills", MAX_CAPABILITIES) {
        let Some(skill) = entry.as_object() else {
            job.dropped(entry, "the skill is left out: it is not an object");
            continue;
        };
        let Some((value, text)) = job.text(skill, "id") else {
            job.dropped(entry, "the skill is left out: it has no id");
            continue;
        };
        let id = match Slug::derive(text) {
            _ if is_id(text) => text.to_owned(),
            Ok(slug) => {
                let message = "the id of a capability is lowercase and hyphenated";
                let finding = Finding::new(code::BRIDGE_FILLED).severity(Severity::Warning).message(message);
                job.about(value, finding.expected(slug.as_str()).got(text));
                slug.as_str().to_owned()
            }
            Err(_) => {
                job.dropped(value, "the skill is left out: its id cannot become the id of a capability");
                continue;
            }
        };
        if !seen.insert(id.clone()) {
            job.dropped(value, "the skill is left out: the draft has a capability with this id");
            continue;
        }
        details |= skill.iter().any(|(key, _)| !matches!(key, "id" | "description"));
        let description = job.limited(skill, "description", MAX_DESCRIPTION);
        job.content.capabilities.push(DraftCapability { id, description });
    }
    if details {
        let message = "capabilities have no place for names, tags, examples and media types of skills";
        job.note(Finding::new(code::BRIDGE_DROPPED).message(message));
    }
}

/// Checks flags and extensions. An extension that names another manifest is worth a warning.
fn capabilities(root: Object<'_>, job: &mut Job<'_>) {
    let Some(value) = root.get("capabilities") else { return };
    let is_empty = value.as_object().is_some_and(Object::is_empty);
    if !is_empty {
        job.dropped(value, "a manifest has no place for flags and extensions of A2A");
    }
    let extensions = value.get("extensions").and_then(Value::as_array);
    for extension in extensions.into_iter().flat_map(toolcrib_core::json::Array::iter) {
        if extension.get("uri").and_then(Value::as_str) != Some(PROVENANCE_EXTENSION) {
            continue;
        }
        let Some(domain) = extension.get("params").and_then(|params| params.get("domain")) else { continue };
        let asked = job.options.domain.clone();
        if domain.as_str() != Some(asked.as_str()) {
            let finding =
                Finding::new(code::BRIDGE_UNPROVEN).message("the card says that it was made from the manifest of another name");
            job.about(domain, finding.expected(asked.as_str()).got(domain.as_str().unwrap_or_default()));
        }
    }
}
