//! `server.json` of the MCP registry, schema 2025-12-11.

use alloy_primitives::hex;
use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::server_json::{SCHEMA, TEXT_MAX, is_server_name};
use toolcrib_core::text::code_points;
use toolcrib_core::url::HttpsUrl;

use super::{ExportError, Files, Job, mcpb, pretty};

/// The hosts from which the registry accepts bundles.
const PACKAGE_HOSTS: [&str; 2] = ["https://github.com/", "https://gitlab.com/"];

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let info = job.bundle()?;
    let name = server_name(job)?;
    let texts = [("description", &info.description), ("title", &info.title)];
    for (what, text) in texts {
        let count = code_points(text);
        if !(1..=TEXT_MAX).contains(&count) {
            let finding = Finding::new(code::DESCRIPTION)
                .message(format!("the {what} has {count} characters, and the MCP registry takes {TEXT_MAX}"))
                .expected(format!("1 to {TEXT_MAX} characters; give a shorter one in the options"))
                .got(count.to_string());
            return Err(ExportError::Tool { tool: info.name, finding: Box::new(finding) });
        }
    }
    let mut files = Files::new();
    let mut document = Map::new();
    document.insert("$schema".to_owned(), SCHEMA.into());
    document.insert("name".to_owned(), name.into());
    document.insert("title".to_owned(), info.title.clone().into());
    document.insert("description".to_owned(), info.description.clone().into());
    document.insert("version".to_owned(), info.version.clone().into());
    if let Some(url) = job.options.package_url.clone() {
        https(job, "package_url", &url)?;
        if !PACKAGE_HOSTS.iter().any(|host| url.starts_with(host)) {
            let finding = Finding::new(code::OPTION)
                .severity(Severity::Warning)
                .message("the MCP registry takes bundles from releases of GitHub and GitLab only")
                .got(&url);
            job.warn(None, None, finding);
        }
        let bundle = mcpb::bundle(job, &info)?;
        document.insert(
            "packages".to_owned(),
            json!([{
                "registryType": "mcpb",
                "identifier": url,
                "version": info.version,
                "fileSha256": hex::encode(mcpb::sha256(&bundle)),
                "transport": {"type": "stdio"},
            }]),
        );
        files.push((format!("{}-{}.mcpb", info.name, info.version), bundle));
    }
    if let Some(url) = job.options.remote_url.clone() {
        https(job, "remote_url", &url)?;
        document.insert("remotes".to_owned(), json!([{"type": "streamable-http", "url": url}]));
    }
    if !document.contains_key("packages") && !document.contains_key("remotes") {
        return Err(job.option("package_url or remote_url", "the registry lists servers that can be downloaded or reached"));
    }
    files.push(("server.json".to_owned(), pretty(&Json::Object(document))));
    Ok(files)
}

/// The name of the server, from the options.
fn server_name(job: &Job<'_>) -> Result<String, ExportError> {
    let expected = "expected a reverse-DNS name such as io.github.user/weather, of 3 to 200 characters";
    let Some(name) = &job.options.server_name else { return Err(job.option("server_name", expected)) };
    if is_server_name(name) { Ok(name.clone()) } else { Err(job.option("server_name", expected)) }
}

fn https(job: &Job<'_>, option: &'static str, url: &str) -> Result<(), ExportError> {
    match HttpsUrl::parse(url) {
        Ok(_) => Ok(()),
        Err(_) => Err(job.option(option, "expected an https URL")),
    }
}
