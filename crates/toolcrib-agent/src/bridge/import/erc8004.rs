//! Reading ERC-8004 registration files: `services`, or `endpoints` in earlier drafts.

use toolcrib_core::agent::DraftProtocol;
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{Object, Value};
use toolcrib_core::slug::Slug;

use super::super::erc8004::TYPE;
use super::super::urls::Schemes;
use super::{Job, MAX_PROTOCOLS, MAX_VERSION};

/// Maximum number of services that are read: they include names, wallets and addresses besides endpoints.
const MAX_SERVICES: usize = 4 * MAX_PROTOCOLS;

/// The fields that are copied to the draft, or that have their own findings.
const KNOWN: &[&str] = &["type", "name", "description", "image", "services", "endpoints", "active"];

pub(super) fn import(root: Object<'_>, job: &mut Job<'_>) -> Result<(), &'static str> {
    match root.get("type") {
        Some(value) if value.as_str() == Some(TYPE) => {}
        Some(_) => return Err("its type is not that of an ERC-8004 registration file of version 1"),
        None => {
            let finding = Finding::new(code::BRIDGE_FILLED).severity(Severity::Warning).expected(TYPE);
            job.note(finding.message("the file has no type; it is read as an ERC-8004 registration file of version 1"));
        }
    }
    job.identity(root);
    job.content.icon = job.url(root, "image", Schemes::Https);
    // Prefer the current name; a file for readers of both versions has both.
    let key = if root.get("services").is_some() { "services" } else { "endpoints" };
    if key == "services"
        && let Some(value) = root.get("endpoints")
    {
        job.dropped(value, "the field belongs to an earlier draft of the standard; services are used");
    }
    for entry in job.entries(root, key, MAX_SERVICES) {
        match entry.as_object() {
            Some(service) => self::service(entry, service, job),
            None => job.dropped(entry, "the service is left out: it is not an object"),
        }
    }
    if let Some(value) = root.get("active")
        && value.as_bool() != Some(true)
    {
        let finding = Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning);
        job.about(value, finding.message("the registration is not active, which a manifest cannot say"));
    }
    job.drop_fields(root, KNOWN);
    Ok(())
}

fn service(entry: Value<'_>, service: Object<'_>, job: &mut Job<'_>) {
    let Some((name_value, name)) = job.text(service, "name") else {
        job.dropped(entry, "the service is left out: it has no name");
        return;
    };
    let id = match name.to_ascii_lowercase().as_str() {
        "web" => {
            if job.content.website.is_none() {
                job.content.website = job.url(service, "endpoint", Schemes::Https);
            } else {
                job.dropped(entry, "the service is left out: the draft has a website already");
            }
            return;
        }
        "agt" => {
            let asked = job.options.domain.clone();
            if let Some((value, domain)) = job.text(service, "endpoint").filter(|(_, domain)| *domain != asked.as_str()) {
                let finding = Finding::new(code::BRIDGE_UNPROVEN).message("the file belongs to an agent of another name");
                job.about(value, finding.expected(asked.as_str()).got(domain));
            }
            return;
        }
        // Names and addresses, not endpoints.
        "ens" | "did" | "email" | "agentwallet" | "wallet" | "oasf" => {
            job.dropped(entry, "a manifest has no place for names and addresses in other systems");
            return;
        }
        lower if is_id(lower) => lower.to_owned(),
        lower => match Slug::derive(lower) {
            Ok(slug) => {
                let finding = Finding::new(code::BRIDGE_FILLED).severity(Severity::Warning).expected(slug.as_str()).got(name);
                job.about(name_value, finding.message("the id of a protocol is lowercase and hyphenated"));
                slug.as_str().to_owned()
            }
            Err(_) => {
                job.dropped(name_value, "the service is left out: its name cannot become the id of a protocol");
                return;
            }
        },
    };
    let version = job.limited(service, "version", MAX_VERSION);
    let Some(endpoint) = job.url(service, "endpoint", Schemes::HttpsOrWss) else { return };
    // A service's other fields, such as skills and tools, have no place in a manifest.
    if service.iter().any(|(key, _)| !matches!(key, "name" | "endpoint" | "version")) {
        job.dropped(entry, "a manifest has no place for further fields of a service");
    }
    job.add_protocol(entry, DraftProtocol { id, version, endpoint, auth: None });
}
