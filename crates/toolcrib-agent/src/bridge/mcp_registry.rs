//! `server.json` of the MCP registry, for agents with an `mcp` endpoint.

use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::semver::is_semver;
use toolcrib_core::server_json::{ICON_MAX, SCHEMA, TEXT_MAX, is_exact_version, is_server_name};

use super::export::{Endpoint, Job, Outcome, about, no_endpoint, option, pretty};
use super::urls::Schemes;

/// The key of publishers' data beyond the schema.
const PUBLISHER_META: &str = "io.modelcontextprotocol.registry/publisher-provided";

/// The only version of MCP whose HTTP transport is not streamable HTTP.
const SSE_VERSION: &str = "2024-11-05";

pub(super) fn export(job: &mut Job<'_>) -> Outcome {
    let remotes = remotes(job)?;
    let mut document = Map::new();
    document.insert("$schema".to_owned(), SCHEMA.into());
    document.insert("name".to_owned(), server_name(job)?.into());
    let title = job.name();
    let title = job.shortened("/name", title, TEXT_MAX);
    document.insert("title".to_owned(), title.into());
    let description = job.description();
    let description = job.shortened("/description", description, TEXT_MAX);
    document.insert("description".to_owned(), description.into());
    document.insert("version".to_owned(), version(job)?.into());
    if let Some(url) = job.website() {
        document.insert("websiteUrl".to_owned(), url.into());
    }
    if let Some(url) = job.icon() {
        if url.len() <= ICON_MAX {
            document.insert("icons".to_owned(), json!([{"src": url}]));
        } else {
            let finding =
                about(code::BRIDGE_ENDPOINT, "/icon").message("the icon is left out: its URL is too long for the registry");
            job.note(finding.expected(format!("at most {ICON_MAX} bytes")).got(format!("{} bytes", url.len())));
        }
    }
    document.insert("remotes".to_owned(), remotes.into());
    document.insert("_meta".to_owned(), json!({PUBLISHER_META: {"agt": job.provenance()}}));
    job.drop_protocols(|id| id == "mcp", "the MCP registry lists MCP servers only");
    job.drop_fields(&["capabilities", "pricing"], "server.json has no place for it");
    Ok(pretty(document))
}

/// The servers, each URL once.
fn remotes(job: &mut Job<'_>) -> Result<Vec<Json>, Box<Finding>> {
    if !job.manifest.protocols().any(|protocol| protocol.id() == "mcp") {
        return Err(no_endpoint("the MCP registry lists servers, and the manifest has no mcp protocol"));
    }
    let mut remotes: Vec<Json> = Vec::new();
    for endpoint in job.endpoints(Schemes::Https, |id| id == "mcp") {
        if remotes.iter().any(|remote| remote["url"] == endpoint.url.as_str()) {
            let message = "the server is in the list already";
            job.note(about(code::BRIDGE_DROPPED, format!("/protocols/{}", endpoint.index)).message(message));
            continue;
        }
        let mut remote = Map::new();
        let transport = if endpoint.protocol.version() == Some(SSE_VERSION) { "sse" } else { "streamable-http" };
        remote.insert("type".to_owned(), transport.into());
        remote.insert("url".to_owned(), endpoint.url.clone().into());
        if let Some(headers) = headers(job, &endpoint) {
            remote.insert("headers".to_owned(), headers);
        }
        remotes.push(Json::Object(remote));
    }
    if remotes.is_empty() {
        return Err(no_endpoint("the MCP registry lists servers, and no mcp endpoint of the manifest may be published"));
    }
    Ok(remotes)
}

/// The required headers: known only for bearer tokens. OAuth is discovered at the server itself.
fn headers(job: &mut Job<'_>, endpoint: &Endpoint<'_>) -> Option<Json> {
    match endpoint.protocol.auth()? {
        "none" | "oauth2" | "" => None,
        "bearer" => Some(json!([{
            "name": "Authorization",
            "description": "Bearer token",
            "isRequired": true,
            "isSecret": true,
        }])),
        other => {
            let pointer = format!("/protocols/{}/auth", endpoint.index);
            let message = "server.json has no place for this way of authentication";
            job.note(about(code::BRIDGE_DROPPED, pointer).severity(Severity::Warning).message(message).got(other));
            None
        }
    }
}

fn server_name(job: &Job<'_>) -> Result<String, Box<Finding>> {
    let problem = "expected a namespace that you can prove to the registry, such as io.github.user";
    let Some(namespace) = &job.options.namespace else { return Err(option("namespace", problem)) };
    let name = format!("{namespace}/{}", job.manifest.domain().sld());
    if is_server_name(&name) { Ok(name) } else { Err(option("namespace", problem)) }
}

fn version(job: &mut Job<'_>) -> Result<String, Box<Finding>> {
    let problem = "expected one version such as 1.0.0, not a range and not latest";
    let Some(version) = job.options.version.clone().filter(|version| is_exact_version(version)) else {
        return Err(option("version", problem));
    };
    if !is_semver(&version) {
        let message = "the version is not a semantic one: the registry orders such versions by the time of publication";
        job.note(Finding::new(code::BRIDGE_FILLED).message(message).got(&version));
    }
    Ok(version)
}
