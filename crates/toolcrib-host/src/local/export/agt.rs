//! `protocols` and `capabilities` for an `.agt` manifest.

use alloy_primitives::Address;
use serde_json::{Map, Value as Json, json};
use toolcrib_core::agent::capabilities::MAX_DESCRIPTION as CAPABILITY_DESCRIPTION_MAX;
use toolcrib_core::agent::vocabulary::is_id;
use toolcrib_core::agent::{AgentManifest, AgtDomain, template};
use toolcrib_core::checked::parse;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::schema::to_serde;
use toolcrib_core::text::code_points;

use super::{ExportError, Files, Job, Target, function_member, pretty};

/// The newest protocol version. The server also supports older ones.
const MCP_VERSION: &str = "2026-07-28";

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let Some(endpoint) = job.options.remote_url.clone() else {
        return Err(job.option("remote_url", "expected the https URL of the MCP server"));
    };
    let mut capabilities = Vec::new();
    for exposed in job.functions()? {
        let (id, function) = (exposed.tool.manifest.id(), exposed.function);
        if !is_id(&exposed.name) {
            let finding = Finding::new(code::NAME).message("the name has no form as the id of a capability").got(&exposed.name);
            job.unsupported(id, function.name(), finding)?;
            job.reverse.remove(&exposed.name);
            continue;
        }
        let mut capability = Map::new();
        capability.insert("id".to_owned(), exposed.name.clone().into());
        let count = code_points(function.description());
        if count <= CAPABILITY_DESCRIPTION_MAX {
            capability.insert("description".to_owned(), function.description().into());
        } else {
            // The member is optional, so it is omitted rather than truncated.
            let finding = Finding::new(code::DESCRIPTION)
                .severity(Severity::Warning)
                .message("the capability has no description: that of the function is too long")
                .expected(format!("at most {CAPABILITY_DESCRIPTION_MAX} characters"))
                .got(count.to_string());
            job.warn(Some(id), Some(function.name()), finding);
        }
        capability.insert("input".to_owned(), exposed.schema.clone().into());
        if let Some(outputs) = function_member(exposed.tool.manifest, function.name(), "outputs") {
            capability.insert("output".to_owned(), to_serde(outputs));
        }
        capabilities.push(Json::Object(capability));
    }
    let fragment =
        json!({"protocols": [{"id": "mcp", "version": MCP_VERSION, "endpoint": endpoint}], "capabilities": capabilities});
    check(job, &fragment)?;
    Ok(vec![("agent-fragment.json".to_owned(), pretty(&fragment))])
}

/// Checks the fragment inside a manifest with the producer rules.
fn check(job: &mut Job<'_>, fragment: &Json) -> Result<(), ExportError> {
    let Ok(domain) = AgtDomain::parse("example.agt") else { return Ok(()) };
    let draft = template(&domain, Address::repeat_byte(0x11), UnixTime::from_seconds(0));
    let Ok(Json::Object(mut document)) = serde_json::from_str(&draft) else { return Ok(()) };
    for (key, value) in fragment.as_object().into_iter().flatten() {
        document.insert(key.clone(), value.clone());
    }
    let checked = parse::<AgentManifest>(Json::Object(document).to_string().as_bytes(), Mode::Producer);
    let own = |finding: &Finding| finding.pointer.starts_with("/protocols") || finding.pointer.starts_with("/capabilities");
    let (errors, others): (Vec<_>, Vec<_>) =
        checked.findings.into_iter().filter(own).partition(|finding| finding.severity == Severity::Error);
    if !errors.is_empty() {
        return Err(ExportError::Invalid { target: Target::Agt, name: "agent-fragment.json".to_owned(), findings: errors });
    }
    for finding in others.into_iter().filter(|finding| finding.severity == Severity::Warning) {
        job.warn(None, None, finding);
    }
    Ok(())
}
