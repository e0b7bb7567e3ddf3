//! Drafts of ERC-8257 manifests, one per function.

use toolcrib_core::codes::export as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::schema::to_serde;
use toolcrib_core::text::code_points;
use toolcrib_core::tool::{MAX_DESCRIPTION, ToolBuilder};
use toolcrib_core::url::HttpsUrl;

use super::{ExportError, Files, Job, Target, function_member};

/// The folder from which manifests are served.
const FOLDER: &str = ".well-known/ai-tool";

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let origin = origin(job)?;
    let Some(creator) = job.options.creator else { return Err(job.option("creator", "expected the address of the creator")) };
    for tool in job.tools.clone() {
        if !tool.manifest.credentials().is_empty() {
            job.warn(Some(tool.manifest.id()), None, Finding::new(code::CREDENTIALS_SHARED));
        }
    }
    let mut files = Files::new();
    for exposed in job.functions()? {
        let (id, function) = (exposed.tool.manifest.id(), exposed.function);
        let count = code_points(function.description());
        if count > MAX_DESCRIPTION {
            let finding = Finding::new(code::DESCRIPTION)
                .message(format!("the description has {count} characters, and ERC-8257 takes {MAX_DESCRIPTION}"))
                .expected(format!("at most {MAX_DESCRIPTION} characters"))
                .got(count.to_string());
            job.unsupported(id, function.name(), finding)?;
            job.reverse.remove(&exposed.name);
            continue;
        }
        let endpoint = format!("{origin}/tools/{id}/{}", function.name());
        let mut builder = ToolBuilder::new(&exposed.name, function.description(), &endpoint, creator)
            .inputs_json(&serde_json::Value::Object(exposed.schema.clone()).to_string())
            .version(exposed.tool.manifest.version());
        if let Some(outputs) = function_member(exposed.tool.manifest, function.name(), "outputs") {
            builder = builder.outputs_json(&to_serde(outputs).to_string());
        }
        if let Some(price) = &job.options.price {
            builder = builder.price(&price.amount, &price.asset, &price.recipient, &price.protocol);
        }
        match builder.build() {
            Ok(built) => {
                for finding in built.findings.into_iter().filter(|finding| finding.severity != Severity::Hint) {
                    job.warn(Some(id), Some(function.name()), finding);
                }
                let bytes = built.manifest.canonical().as_bytes().to_vec();
                files.push((format!("{FOLDER}/{}.json", exposed.name), bytes));
            }
            Err(findings) if job.options.skip_unsupported => {
                let first = findings.into_iter().find(|finding| finding.severity == Severity::Error);
                let finding = first.unwrap_or_else(|| Finding::new(code::INVALID));
                job.unsupported(id, function.name(), finding)?;
                job.reverse.remove(&exposed.name);
            }
            Err(findings) => {
                let findings = findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
                return Err(ExportError::Invalid { target: Target::Erc8257, name: exposed.name, findings });
            }
        }
    }
    Ok(files)
}

/// The origin without path and trailing slash.
fn origin(job: &Job<'_>) -> Result<String, ExportError> {
    let expected = "expected an https origin such as https://tools.example.com";
    let Some(origin) = &job.options.origin else { return Err(job.option("origin", expected)) };
    let origin = origin.trim_end_matches('/');
    let has_no_path =
        origin.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '?', '#', '@']));
    if has_no_path && HttpsUrl::parse(origin).is_ok() { Ok(origin.to_owned()) } else { Err(job.option("origin", expected)) }
}
