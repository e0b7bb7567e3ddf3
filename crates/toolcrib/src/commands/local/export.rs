//! `local export`: tools in the formats of other systems.

use std::fs;
use std::path::PathBuf;

use alloy_primitives::Address;
use clap::Args;
use serde_json::json;
use toolcrib_core::codes;
use toolcrib_files::AtomicFile;
use toolcrib_host::local::export::{ExportError, ExportOptions, ExportTool, Target, export};

use super::HostArgs;
use super::list::unknown;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `local export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// Format: openai, anthropic, gemini, ai-sdk, mcpb, server.json, skill, …
    ///
    /// All formats: openai, anthropic, gemini, ai-sdk, mcpb, server.json, skill, erc8257, agt.
    pub(crate) format: String,
    /// Tool ids [default: all]
    #[arg(value_name = "TOOL")]
    pub(crate) ids: Vec<String>,
    /// Output folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Use the vendor's strict schema form, if it has one
    #[arg(long)]
    pub(crate) strict: bool,
    /// Skip functions that the format cannot express instead of failing
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// erc8257: origin that will serve the tools
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    /// erc8257: creator address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) creator: Option<Address>,
    /// mcpb: author name
    #[arg(long, value_name = "NAME")]
    pub(crate) author: Option<String>,
    /// server.json: server name, such as com.example/tools
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// server.json: https URL of the bundle, which is written too
    #[arg(long, value_name = "URL")]
    pub(crate) package_url: Option<String>,
    /// server.json, agt: https URL of an MCP server with the tools
    #[arg(long, value_name = "URL")]
    pub(crate) remote_url: Option<String>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Writes the files of a format.
pub(crate) fn run(arguments: &Export, printer: &mut Printer) -> Result<Done, Stop> {
    let target: Target = arguments.format.parse().map_err(|_| {
        Failure::new(codes::cli::USAGE, format!("`{}` is not a format", arguments.format))
            .hint("use openai, anthropic, gemini, ai-sdk, mcpb, server.json, skill, erc8257 or agt")
    })?;
    let host = arguments.host.open()?;
    let set = host.tools();
    if let Some(missing) = arguments.ids.iter().find(|id| !set.tools().contains_key(*id)) {
        return Err(unknown(missing).into());
    }
    let chosen = set.tools().values().filter(|tool| arguments.ids.is_empty() || arguments.ids.iter().any(|id| id == tool.id()));
    let tools: Vec<_> =
        chosen.map(|tool| ExportTool { manifest: tool.manifest(), folder: tool.folder(), content: tool.content() }).collect();
    let options = ExportOptions {
        strict: arguments.strict,
        skip_unsupported: arguments.skip_unsupported,
        origin: arguments.origin.clone(),
        creator: arguments.creator,
        author: arguments.author.clone(),
        server_name: arguments.server_name.clone(),
        package_url: arguments.package_url.clone(),
        remote_url: arguments.remote_url.clone(),
        ..ExportOptions::default()
    };
    let exported = export(target, &tools, &options).map_err(|error| failed(&error))?;
    for note in &exported.warnings {
        let what = [note.tool.as_deref(), note.function.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        printer.note(&format!("{}: {}: {}", shown(&what), note.finding.code, shown(&note.finding.message)))?;
    }
    let mut written = Vec::new();
    for file in &exported.files {
        let path = arguments.out.join(&file.path);
        let failed = |error: std::io::Error| Failure::new(codes::cli::OUTPUT, format!("{}: {error}", path.display()));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        AtomicFile::new(&path).shared().replace(&file.bytes).map_err(failed)?;
        printer.result(&format!("{}\n", shown(&path.to_string_lossy())))?;
        written.push(path);
    }
    Ok(Done::new(Exit::Yes, json!({ "files": written })))
}

/// Converts the error, with the argument that supplies what is missing.
fn failed(error: &ExportError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string());
    match error {
        ExportError::Option { option: "bundle" | "tools", .. } => failure.hint("name one tool"),
        ExportError::Option { option: "package_url or remote_url", .. } => failure.hint("give --package-url or --remote-url"),
        ExportError::Option { option, .. } => failure.hint(format!("give --{}", option.replace('_', "-"))),
        _ => failure,
    }
}
