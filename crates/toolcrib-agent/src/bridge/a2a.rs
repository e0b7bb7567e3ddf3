//! A2A 1.0 Agent Cards.
//!
//! The card has the format of version 1.0: `supportedInterfaces` instead of `url`, `preferredTransport` and `protocolVersion`. Streaming,
//! push notifications and an extended card are not claimed, because manifests do not describe them. The owner's signature cannot become a
//! signature of the card, so the card names its source in an extension that readers may ignore.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::slug::Slug;
use toolcrib_core::time::format_rfc3339;

use super::export::{Job, Outcome, about, endpoint_pointer, no_endpoint, option, pretty};
use super::urls::Schemes;
use super::{A2aBinding, A2aEndpoint, PROVENANCE_EXTENSION, text};

/// The default protocol version of an interface, if the manifest names none.
const PROTOCOL_VERSION: &str = "1.0";

/// The default media type of text that agents exchange.
const TEXT: &str = "text/plain";

/// The media type of data that a JSON Schema describes.
const JSON: &str = "application/json";

/// Maximum length of a version or an organization in characters: a word, not a page.
const MAX_WORD: usize = 255;

pub(super) fn export(job: &mut Job<'_>) -> Outcome {
    let interfaces = interfaces(job)?;
    let mut card = Map::new();
    put(&mut card, "name", job.name().into());
    put(&mut card, "description", job.description().into());
    put(&mut card, "supportedInterfaces", interfaces.into());
    let website = job.website();
    if let Some(organization) = job.options.provider.as_deref() {
        if !is_word(organization) {
            return Err(option("provider", "expected the name of an organization, of 1 to 255 characters"));
        }
        match &website {
            Some(url) => put(&mut card, "provider", json!({"organization": organization, "url": url})),
            None => {
                let message = "the provider is left out: it needs a URL, and the manifest has no usable website";
                job.note(about(code::BRIDGE_DROPPED, "/website").severity(Severity::Warning).message(message));
            }
        }
    }
    put(&mut card, "version", version(job)?.into());
    if let Some(url) = website {
        put(&mut card, "documentationUrl", url.into());
    }
    let extension = json!({
        "uri": PROVENANCE_EXTENSION,
        "description": "The .agt manifest that this card was made from. Resolve the domain to verify it.",
        "required": false,
        "params": job.provenance(),
    });
    put(&mut card, "capabilities", json!({"extensions": [extension]}));
    if let Some((schemes, requirements)) = security(job) {
        put(&mut card, "securitySchemes", schemes);
        put(&mut card, "securityRequirements", requirements);
    }
    let (inputs, outputs) = (job.options.input_modes.clone(), job.options.output_modes.clone());
    put(&mut card, "defaultInputModes", modes(job, "input_modes", inputs)?);
    put(&mut card, "defaultOutputModes", modes(job, "output_modes", outputs)?);
    put(&mut card, "skills", skills(job)?.into());
    if let Some(url) = job.icon() {
        put(&mut card, "iconUrl", url.into());
    }
    job.drop_protocols(|id| id == "a2a", "an Agent Card lists A2A interfaces only");
    job.drop_fields(&["pricing"], "an Agent Card has no place for prices");
    Ok(pretty(card))
}

fn put(card: &mut Map<String, Json>, key: &str, value: Json) {
    card.insert(key.to_owned(), value);
}

/// The interfaces, the preferred one first.
fn interfaces(job: &mut Job<'_>) -> Result<Vec<Json>, Box<Finding>> {
    if !job.manifest.protocols().any(|protocol| protocol.id() == "a2a") {
        return Err(no_endpoint("an Agent Card needs an interface, and the manifest has no a2a protocol"));
    }
    let Some(kind) = job.options.a2a_endpoint else {
        return Err(option("a2a_endpoint", "say whether the a2a endpoint of the manifest is a card or takes calls (card, rpc)"));
    };
    let binding = job.options.a2a_binding.unwrap_or_else(|| {
        let message = "the manifest does not name the binding of its a2a interface: JSONRPC is assumed";
        job.findings.push(Finding::new(code::BRIDGE_FILLED).message(message));
        A2aBinding::JsonRpc
    });
    let mut seen = BTreeSet::new();
    let mut interfaces = Vec::new();
    for endpoint in job.endpoints(Schemes::Https, |id| id == "a2a") {
        let url = match kind {
            A2aEndpoint::Rpc => endpoint.url,
            A2aEndpoint::Card => {
                let Some(url) = &job.options.a2a_interface else {
                    let problem = "the a2a endpoint of the manifest is a card, so the URL that takes calls must be given";
                    return Err(option("a2a_interface", problem));
                };
                job.option_url("a2a_interface", url)?
            }
        };
        let version = protocol_version(job, endpoint.index, endpoint.protocol.version());
        if seen.insert(url.clone()) {
            interfaces.push(json!({"url": url, "protocolBinding": binding.as_str(), "protocolVersion": version}));
        } else {
            let message = "the interface is in the card already";
            job.note(about(code::BRIDGE_DROPPED, endpoint_pointer(endpoint.index)).message(message));
        }
    }
    if interfaces.is_empty() {
        return Err(no_endpoint("an Agent Card needs an interface, and no a2a endpoint of the manifest may be published"));
    }
    Ok(interfaces)
}

/// Formats a version as `major.minor`, as A2A requires.
fn protocol_version(job: &mut Job<'_>, index: usize, version: Option<&str>) -> String {
    let pointer = format!("/protocols/{index}/version");
    let is_number = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = version.into_iter().flat_map(|text| text.split('.')).collect();
    match (version, parts.as_slice()) {
        (Some(text), [_, _]) if parts.iter().all(is_number) => text.to_owned(),
        (Some(text), [major, minor, _]) if parts.iter().all(is_number) => {
            let short = format!("{major}.{minor}");
            job.note(about(code::BRIDGE_SHORTENED, pointer).severity(Severity::Hint).expected(&short).got(text));
            short
        }
        (Some(text), _) => {
            let message = "the version of the protocol is not one of A2A: 1.0 is used";
            job.note(about(code::BRIDGE_FILLED, pointer).severity(Severity::Warning).message(message).got(text));
            PROTOCOL_VERSION.to_owned()
        }
        (None, _) => {
            job.note(about(code::BRIDGE_FILLED, pointer).message("the manifest names no version of A2A: 1.0 is used"));
            PROTOCOL_VERSION.to_owned()
        }
    }
}

/// The version of the agent.
fn version(job: &mut Job<'_>) -> Result<String, Box<Finding>> {
    match &job.options.version {
        Some(version) if is_word(version) => Ok(version.clone()),
        Some(_) => Err(option("version", "expected a version of 1 to 255 characters")),
        None => {
            // A new manifest has a later time, so that the card of the newer one has the higher version.
            let time = format_rfc3339(job.manifest.created_at()).unwrap_or_else(|| PROTOCOL_VERSION.to_owned());
            let message = "a manifest names no version of the agent: the time of the manifest is used";
            job.note(about(code::BRIDGE_FILLED, "/created_at").message(message).got(&time));
            Ok(time)
        }
    }
}

/// How callers authenticate: schemes and requirements. Only what the manifest says for certain is written.
fn security(job: &mut Job<'_>) -> Option<(Json, Json)> {
    let hints: BTreeSet<Option<&str>> =
        job.manifest.protocols().filter(|protocol| protocol.id() == "a2a").map(toolcrib_core::agent::Protocol::auth).collect();
    let pointer = job.manifest.protocols().position(|protocol| protocol.id() == "a2a" && protocol.auth().is_some())?;
    let dropped = |message: &str| {
        about(code::BRIDGE_DROPPED, format!("/protocols/{pointer}/auth")).severity(Severity::Warning).message(message)
    };
    let mut hints = hints.into_iter();
    match (hints.next().flatten(), hints.next()) {
        (Some("none"), None) => None,
        (Some("bearer"), None) => Some((
            json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}),
            json!([{"schemes": {"bearer": {"list": []}}}]),
        )),
        (Some(hint), None) => {
            // OAuth needs flows and URLs, and other words have no scheme.
            job.note(dropped("a card needs more about authentication than a manifest says").got(hint));
            None
        }
        _ => {
            job.note(dropped("the a2a endpoints differ in authentication, which a card says once for all"));
            None
        }
    }
}

/// The default media types.
fn modes(job: &mut Job<'_>, name: &str, given: Vec<String>) -> Result<Json, Box<Finding>> {
    if given.is_empty() {
        let message = format!("a manifest names no media types: {TEXT} is used (option {name})");
        job.note(Finding::new(code::BRIDGE_FILLED).message(message));
        return Ok(json!([TEXT]));
    }
    if given.iter().any(|mode| !is_media_type(mode)) {
        return Err(option(name, "expected media types such as text/plain"));
    }
    Ok(given.into())
}

/// The capabilities, each id once.
fn skills(job: &mut Job<'_>) -> Result<Vec<Json>, Box<Finding>> {
    let mut seen = BTreeSet::new();
    let (mut skills, mut described, mut schemas) = (Vec::new(), 0_usize, 0_usize);
    for (index, capability) in job.manifest.capabilities().enumerate() {
        if !seen.insert(capability.id()) {
            let message = "the skill is in the card already";
            job.note(about(code::BRIDGE_DROPPED, format!("/capabilities/{index}")).message(message).got(capability.id()));
            continue;
        }
        let name = text::words(capability.id());
        let own = capability.description().map(str::trim).filter(|text| !text.is_empty());
        let known = capability.known();
        let description = own.or(known.map(|known| known.description)).unwrap_or(&name).to_owned();
        described += usize::from(own.is_none());
        let mut tags = vec![Json::from(capability.id())];
        tags.extend(known.and_then(|known| Slug::derive(known.category.title()).ok()).map(|slug| Json::from(slug.as_str())));
        let mut skill = Map::new();
        skill.insert("id".to_owned(), capability.id().into());
        skill.insert("name".to_owned(), name.into());
        skill.insert("description".to_owned(), description.into());
        skill.insert("tags".to_owned(), tags.into());
        for (key, schema) in [("inputModes", capability.input()), ("outputModes", capability.output())] {
            if schema.is_some() {
                schemas += 1;
                skill.insert(key.to_owned(), json!([JSON]));
            }
        }
        skills.push(Json::Object(skill));
    }
    if skills.is_empty() {
        return Err(Box::new(about(code::BRIDGE_NO_SKILLS, "/capabilities")));
    }
    if described > 0 {
        let message = "capabilities without a description get that of the vocabulary, or their name";
        job.note(about(code::BRIDGE_FILLED, "/capabilities").message(message).got(described.to_string()));
    }
    if schemas > 0 {
        let message = "skills have no place for JSON Schemas: they become the media type application/json";
        job.note(about(code::BRIDGE_DROPPED, "/capabilities").message(message).got(schemas.to_string()));
    }
    Ok(skills)
}

fn is_word(text: &str) -> bool {
    (1..=MAX_WORD).contains(&text.chars().count()) && !text.chars().any(char::is_control) && text.trim() == text
}

/// `type/subtype` of RFC 6838, parameters excluded.
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}
