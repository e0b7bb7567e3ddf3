//! Exports: converts tools to the formats of model APIs, clients, registries and packaging tools.
//!
//! Nothing is truncated or guessed. What a target cannot express is an error, or a warning if [`ExportOptions::skip_unsupported`] says to
//! omit such functions. Exports are reproducible: tools are sorted by id, archives have fixed times, and exports contain neither absolute
//! paths nor values of credentials.

mod agt;
mod ai_sdk;
mod archive;
mod erc8257;
mod error;
mod mcpb;
mod models;
mod reverse;
mod server_json;
mod skill;
mod strict;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use alloy_primitives::Address;
use serde_json::{Map, Value as Json};
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::Value;
use toolcrib_core::local::names::{self, EXPOSED_ADVISED, exposed_name};
use toolcrib_core::local::{Function, LocalManifest};
use toolcrib_core::schema::to_serde;
use toolcrib_judge::PriceText;
use toolcrib_mcp::{Side, listable};

use super::ContentHash;

pub use error::ExportError;
pub use mcpb::{BUNDLE_NAMESPACE, SERVER_ARGUMENTS};
pub use reverse::ReverseMap;
pub(crate) use reverse::restored;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Target {
    /// Tools of the `OpenAI` Responses API.
    OpenAi,
    /// Tools of the `OpenAI` Chat Completions API.
    OpenAiChat,
    /// Tools of the Anthropic Messages API.
    Anthropic,
    /// Function declarations of the Gemini API.
    Gemini,
    /// A module for the AI SDK (npm `ai`).
    AiSdk,
    /// An MCP bundle, which runs the tools with this program.
    Mcpb,
    /// `server.json` of the MCP registry.
    ServerJson,
    /// A folder with a `SKILL.md`.
    Skill,
    /// A draft of an ERC-8257 manifest for each function.
    Erc8257,
    /// `protocols` and `capabilities` of an `.agt` manifest.
    Agt,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 10] = [
        Self::OpenAi,
        Self::OpenAiChat,
        Self::Anthropic,
        Self::Gemini,
        Self::AiSdk,
        Self::Mcpb,
        Self::ServerJson,
        Self::Skill,
        Self::Erc8257,
        Self::Agt,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::AiSdk => "ai-sdk",
            Self::Mcpb => "mcpb",
            Self::ServerJson => "server.json",
            Self::Skill => "skill",
            Self::Erc8257 => "erc8257",
            Self::Agt => "agt",
        }
    }

    /// The rules for names of functions.
    const fn names(self) -> names::Target {
        match self {
            Self::OpenAi | Self::OpenAiChat => names::Target::OpenAi,
            Self::Anthropic => names::Target::Anthropic,
            Self::Gemini => names::Target::Gemini,
            // The AI SDK can use any model API, so the strictest rules apply.
            Self::AiSdk => names::Target::OpenAi,
            Self::Mcpb | Self::ServerJson | Self::Skill => names::Target::Mcp,
            Self::Erc8257 | Self::Agt => names::Target::ErcSlug,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown export target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown export target: expected one of openai, openai-chat, anthropic, gemini, ai-sdk, mcpb, server.json, skill, erc8257, agt"
)]
pub struct UnknownTarget;

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        Self::ALL.into_iter().find(|target| target.as_str() == text).ok_or(UnknownTarget)
    }
}

/// A tool to export.
#[derive(Clone, Copy, Debug)]
pub struct ExportTool<'t> {
    /// Its manifest.
    pub manifest: &'t LocalManifest,
    /// Its folder, for bundles and skills.
    pub folder: &'t Path,
    /// The content hash of the folder when it was loaded.
    pub content: ContentHash,
}

/// Options of exports.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Use strict mode if the target has one (`OpenAI`, Anthropic) and the schema has a strict form.
    pub strict: bool,
    /// Omit functions that the target cannot express, with a warning, instead of failing.
    pub skip_unsupported: bool,
    /// Name, version and texts of a bundle or server with several tools. With one tool, its own are used.
    pub bundle: Option<BundleInfo>,
    /// The author of a bundle. `Unknown` by default, because manifests of tools have no author.
    pub author: Option<String>,
    /// For `server.json`: the reverse-DNS name of the server, such as `io.github.user/weather`.
    pub server_name: Option<String>,
    /// For `server.json`: the https URL from which the bundle can be downloaded.
    pub package_url: Option<String>,
    /// For `server.json`: the URL of a server that runs the tools. For `agt`: the endpoint of that server.
    pub remote_url: Option<String>,
    /// For `erc8257`: the origin of the endpoints, such as `https://tools.example.com`.
    pub origin: Option<String>,
    /// For `erc8257`: the address of the creator.
    pub creator: Option<Address>,
    /// For `erc8257`: the price of a call of each function. Without it, the manifest has no price.
    pub price: Option<PriceText>,
}

/// Name and texts of a bundle or server with several tools.
#[derive(Clone, Debug)]
pub struct BundleInfo {
    /// The name: letters, digits, `_` and `-`.
    pub name: String,
    /// The display name.
    pub title: String,
    /// The description.
    pub description: String,
    /// The semantic version.
    pub version: String,
}

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFile {
    /// Its relative path, with `/`, without `..`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A warning about an export.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// The tool; `None` if it concerns all of them.
    pub tool: Option<String>,
    /// The function.
    pub function: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// An export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The files, sorted by path.
    pub files: Vec<ExportFile>,
    /// Warnings: limits of clients, functions that are not strict or omitted.
    pub warnings: Vec<Note>,
    /// Maps calls of a model back to functions and arguments.
    pub reverse: ReverseMap,
}

/// Exports tools.
pub fn export(target: Target, tools: &[ExportTool<'_>], options: &ExportOptions) -> Result<Exported, ExportError> {
    let mut job = Job::new(target, tools, options);
    let files = match target {
        Target::OpenAi | Target::OpenAiChat | Target::Anthropic | Target::Gemini => models::export(&mut job)?,
        Target::AiSdk => ai_sdk::export(&mut job)?,
        Target::Mcpb => mcpb::export(&mut job)?,
        Target::ServerJson => server_json::export(&mut job)?,
        Target::Skill => skill::export(&mut job)?,
        Target::Erc8257 => erc8257::export(&mut job)?,
        Target::Agt => agt::export(&mut job)?,
    };
    let mut files: Vec<_> = files.into_iter().map(|(path, bytes)| ExportFile { path, bytes }).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Exported { files, warnings: job.warnings, reverse: job.reverse })
}

/// Path and content.
type Files = Vec<(String, Vec<u8>)>;

/// The state of an export.
struct Job<'j> {
    target: Target,
    options: &'j ExportOptions,
    /// Sorted by id.
    tools: Vec<ExportTool<'j>>,
    warnings: Vec<Note>,
    reverse: ReverseMap,
}

/// A function with its name at the target.
struct Exposed<'j> {
    name: String,
    tool: ExportTool<'j>,
    function: &'j Function,
    /// The schema of its arguments, in a form that every consumer accepts.
    schema: Map<String, Json>,
}

impl<'j> Job<'j> {
    fn new(target: Target, tools: &[ExportTool<'j>], options: &'j ExportOptions) -> Self {
        let mut tools = tools.to_vec();
        tools.sort_by(|a, b| a.manifest.id().cmp(b.manifest.id()));
        Self { target, options, tools, warnings: Vec::new(), reverse: ReverseMap::default() }
    }

    /// All functions with their names at the target, tools by id and functions in their author's order.
    fn functions(&mut self) -> Result<Vec<Exposed<'j>>, ExportError> {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut exposed = Vec::new();
        for tool in self.tools.clone() {
            for function in tool.manifest.functions() {
                let Some(one) = self.function(tool, function)? else { continue };
                let place = format!("{}/{}", tool.manifest.id(), function.name());
                if let Some(first) = seen.insert(one.name.clone(), place.clone()) {
                    return Err(ExportError::Collision { target: self.target, name: one.name, first, second: place });
                }
                self.reverse.insert(&one.name, tool.manifest.id(), function.name(), Json::Object(one.schema.clone()));
                exposed.push(one);
            }
        }
        Ok(exposed)
    }

    fn function(&mut self, tool: ExportTool<'j>, function: &'j Function) -> Result<Option<Exposed<'j>>, ExportError> {
        let id = tool.manifest.id();
        let name = match exposed_name(id, function.name(), self.target.names()) {
            Ok(name) => name,
            Err(error) => {
                let finding = Finding::new(code::NAME).message(error.to_string()).got(format!("{id}_{}", function.name()));
                return self.unsupported(id, function.name(), finding).map(|()| None);
            }
        };
        let schema = match self.schema(tool.manifest, function.name()) {
            Ok(schema) => schema,
            Err(problem) => {
                let finding =
                    Finding::new(code::SCHEMA).message(format!("the schema of the parameters is not usable: {problem}"));
                return self.unsupported(id, function.name(), finding).map(|()| None);
            }
        };
        if name.len() > EXPOSED_ADVISED && !matches!(self.target, Target::Erc8257 | Target::Agt) {
            let finding = Finding::new(code::NAME_LONG)
                .expected(format!("at most {EXPOSED_ADVISED} characters"))
                .got(name.len().to_string());
            self.warn(Some(id), Some(function.name()), finding);
        }
        Ok(Some(Exposed { name, tool, function, schema }))
    }

    fn schema(&self, manifest: &LocalManifest, function: &str) -> Result<Map<String, Json>, String> {
        let parameters = manifest.parameters(function).ok_or("it is missing")?;
        listable(&to_serde(parameters), Side::Input)
    }

    /// Omits a function or fails, depending on the options.
    fn unsupported(&mut self, tool: &str, function: &str, finding: Finding) -> Result<(), ExportError> {
        if !self.options.skip_unsupported {
            return Err(ExportError::Function {
                tool: tool.to_owned(),
                function: function.to_owned(),
                finding: Box::new(finding),
            });
        }
        let message = format!("left out: {}", finding.message);
        self.warn(
            Some(tool),
            Some(function),
            Finding { code: code::LEFT_OUT, message, severity: code::LEFT_OUT.severity(), ..finding },
        );
        Ok(())
    }

    fn warn(&mut self, tool: Option<&str>, function: Option<&str>, finding: Finding) {
        self.warnings.push(Note { tool: tool.map(str::to_owned), function: function.map(str::to_owned), finding });
    }

    fn option(&self, option: &'static str, problem: impl Into<String>) -> ExportError {
        ExportError::Option { target: self.target, option, problem: problem.into() }
    }

    /// Name and texts of a bundle or server.
    fn bundle(&self) -> Result<BundleInfo, ExportError> {
        if let Some(bundle) = &self.options.bundle {
            if !names::is_name(&bundle.name) {
                return Err(self.option("bundle name", "expected letters, digits, `_` and `-`"));
            }
            if !toolcrib_core::semver::is_semver(&bundle.version) {
                return Err(self.option("bundle version", "expected three numbers, such as 1.0.0"));
            }
            return Ok(bundle.clone());
        }
        match self.tools.as_slice() {
            [tool] => Ok(BundleInfo {
                name: tool.manifest.id().to_owned(),
                title: tool.manifest.name().to_owned(),
                description: tool.manifest.description().to_owned(),
                version: tool.manifest.version().to_owned(),
            }),
            _ => Err(self.option(
                "bundle",
                format!("{} tools are exported together, and need a name, version and description", self.tools.len()),
            )),
        }
    }
}

/// A member of a function in the JSON of a manifest.
fn function_member<'d>(manifest: &'d LocalManifest, function: &str, member: &str) -> Option<Value<'d>> {
    let functions = manifest.document().root().get("functions")?.as_array()?;
    functions.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(function))?.get(member)
}

/// JSON with two spaces of indentation and a line feed at the end.
fn pretty(value: &Json) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

#[cfg(test)]
mod tests;
