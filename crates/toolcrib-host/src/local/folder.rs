//! Loads a tool from its folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use toolcrib_core::canon::Sealed;
use toolcrib_core::checked::parse;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json::{Limits, read};
use toolcrib_core::local::names::{Target, exposed_name};
use toolcrib_core::local::{self, LocalManifest, RuntimeKind};
use toolcrib_core::schema::{Validator, to_serde};

use super::content::{ContentHash, FolderError};
use super::snapshot::{Snapshot, SnapshotError, Snapshots};

/// The manifest file of a tool folder.
pub const MANIFEST: &str = "manifest.json";

/// The file whose text is added to the instructions of a model that may use the tool.
pub const PROMPT: &str = "prompt.md";

/// Most bytes of [`PROMPT`] that are used. Clients truncate instructions at about 2 KiB each.
const MAX_PROMPT_BYTES: u64 = 2_048;

/// Entry modules of a folder whose manifest has no `runtime`, in search order.
const ENTRIES: [&str; 6] = ["index.ts", "index.mts", "index.js", "index.mjs", "handler.js", "handler.mjs"];

/// A tool that can be called.
#[derive(Debug)]
pub struct LoadedTool {
    source: PathBuf,
    snapshot: Snapshot,
    manifest: Sealed<LocalManifest>,
    runtime: RuntimeKind,
    functions: BTreeMap<String, LoadedFunction>,
    settings: Map<String, Json>,
    prompt: Option<String>,
    warnings: Vec<Finding>,
}

/// A function that can be called.
#[derive(Debug)]
pub struct LoadedFunction {
    exposed: String,
    mcp_name: String,
    parameters: Json,
    validator: Validator,
    outputs: Option<(Json, Validator)>,
}

impl LoadedTool {
    /// The id.
    pub fn id(&self) -> &str {
        self.manifest.value().id()
    }

    /// The folder that the tool was loaded from.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The snapshot from which the tool runs.
    pub fn folder(&self) -> &Path {
        &self.snapshot.folder
    }

    /// The hash of all files of the tool.
    pub const fn content(&self) -> ContentHash {
        self.snapshot.content
    }

    /// The manifest.
    pub const fn manifest(&self) -> &LocalManifest {
        self.manifest.value()
    }

    /// The runtime of the functions: from the manifest, or inferred from the files.
    pub const fn runtime(&self) -> &RuntimeKind {
        &self.runtime
    }

    /// The URL of the local server that handles the calls, if there is one. The host neither starts nor restricts it.
    pub fn local_server(&self) -> Option<&str> {
        match &self.runtime {
            RuntimeKind::Http { url } | RuntimeKind::McpHttp { url } if local::is_loopback_url(url) => Some(url),
            _ => None,
        }
    }

    /// The functions by their names.
    pub const fn functions(&self) -> &BTreeMap<String, LoadedFunction> {
        &self.functions
    }

    /// Default values of the settings that later versions of the format declare.
    pub const fn settings(&self) -> &Map<String, Json> {
        &self.settings
    }

    /// Text for the instructions of a model. Untrusted.
    pub fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Findings that are not errors.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }
}

impl LoadedFunction {
    /// The name that models see: `id_function`.
    pub fn exposed(&self) -> &str {
        &self.exposed
    }

    /// The name of the function at the MCP server that the tool wraps: the member `mcpName`, or else the name.
    pub fn mcp_name(&self) -> &str {
        &self.mcp_name
    }

    /// The JSON Schema of the arguments.
    pub const fn parameters(&self) -> &Json {
        &self.parameters
    }

    /// The compiled schema of the arguments.
    pub const fn validator(&self) -> &Validator {
        &self.validator
    }

    /// The JSON Schema of the result, if the author gave one.
    pub fn outputs(&self) -> Option<&Json> {
        self.outputs.as_ref().map(|(schema, _)| schema)
    }

    /// The compiled schema of the result.
    pub fn output_validator(&self) -> Option<&Validator> {
        self.outputs.as_ref().map(|(_, validator)| validator)
    }
}

/// Why a folder cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no manifest.
    #[error("{folder} has no {MANIFEST}")]
    ManifestMissing {
        /// The folder.
        folder: PathBuf,
    },
    /// The manifest has errors.
    #[error("{folder}: the manifest has {} error(s), first: {}", .findings.iter().filter(|finding| finding.severity == Severity::Error).count(), first(.findings))]
    ManifestInvalid {
        /// The folder.
        folder: PathBuf,
        /// What is wrong, warnings included.
        findings: Vec<Finding>,
    },
    /// The folder cannot be copied.
    #[error(transparent)]
    Folder(#[from] SnapshotError),
    /// Another folder has the same id.
    #[error("{folder} has the id of {other}, which is loaded")]
    DuplicateId {
        /// The folder.
        folder: PathBuf,
        /// The one that is loaded.
        other: PathBuf,
    },
    /// The functions have no runtime.
    #[error("{folder}: {reason}")]
    HandlerMissing {
        /// The folder.
        folder: PathBuf,
        /// What was searched.
        reason: String,
    },
}

fn first(findings: &[Finding]) -> String {
    let error = findings.iter().find(|finding| finding.severity == Severity::Error);
    error.map_or_else(String::new, |finding| format!("{} at {:?}: {}", finding.code, finding.pointer, finding.message))
}

impl LoadError {
    /// The code of the vocabulary.
    pub fn code(&self) -> Code {
        match self {
            Self::ManifestMissing { .. } => codes::host::MANIFEST_MISSING,
            Self::ManifestInvalid { .. } => codes::host::MANIFEST_INVALID,
            Self::Folder(_) => codes::host::FOLDER_UNREADABLE,
            Self::DuplicateId { .. } => codes::host::DUPLICATE_ID,
            Self::HandlerMissing { .. } => codes::host::HANDLER_MISSING,
        }
    }

    /// The findings about the manifest.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::ManifestInvalid { findings, .. } => findings,
            _ => &[],
        }
    }
}

/// Loads the tool in `source`: copies the folder, checks the manifest, compiles the schemas. Does not run its code.
pub(crate) fn load(source: &Path, snapshots: &Snapshots) -> Result<LoadedTool, LoadError> {
    let invalid = |findings| LoadError::ManifestInvalid { folder: source.to_owned(), findings };
    if !source.join(MANIFEST).is_file() {
        return Err(LoadError::ManifestMissing { folder: source.to_owned() });
    }
    let snapshot = snapshots.take(source)?;
    let bytes = read_up_to(&snapshot.folder.join(MANIFEST), toolcrib_core::json::MAX_BYTES as u64 + 1)?;
    let checked = parse::<LocalManifest>(&bytes, Mode::Consumer);
    let warnings: Vec<_> = checked.findings.iter().filter(|finding| finding.severity != Severity::Error).cloned().collect();
    let manifest = checked.into_result().map_err(invalid)?;
    let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(finding) = local::check_folder(manifest.value(), name) {
        return Err(invalid(vec![finding]));
    }
    let functions = functions(manifest.value()).map_err(invalid)?;
    let runtime = runtime(manifest.value(), &snapshot.folder)
        .map_err(|reason| LoadError::HandlerMissing { folder: source.to_owned(), reason })?;
    let prompt = read_up_to(&snapshot.folder.join(PROMPT), MAX_PROMPT_BYTES).ok();
    Ok(LoadedTool {
        source: source.to_owned(),
        settings: settings(manifest.value()),
        manifest,
        runtime,
        functions,
        prompt: prompt.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        warnings,
        snapshot,
    })
}

fn functions(manifest: &LocalManifest) -> Result<BTreeMap<String, LoadedFunction>, Vec<Finding>> {
    let mut functions = BTreeMap::new();
    for function in manifest.functions() {
        let schema = manifest.parameters(function.name()).ok_or_else(Vec::new)?;
        let exposed = exposed_name(manifest.id(), function.name(), Target::Mcp).map_err(|_| {
            vec![Finding::new(codes::local::EXPOSED_NAME_TOO_LONG).got(format!("{}_{}", manifest.id(), function.name()))]
        })?;
        // Both texts were parsed when the manifest was checked.
        let parameters = serde_json::from_str(function.parameters()).map_err(|_| Vec::new())?;
        let outputs = function.outputs().map(outputs).transpose()?;
        let validator = Validator::compile(schema)?;
        let mcp_name = mcp_name(manifest, function.name());
        functions.insert(function.name().to_owned(), LoadedFunction { exposed, mcp_name, parameters, validator, outputs });
    }
    Ok(functions)
}

fn mcp_name(manifest: &LocalManifest, function: &str) -> String {
    let functions = manifest.document().root().get("functions").and_then(|value| value.as_array());
    let mut functions = functions.into_iter().flat_map(toolcrib_core::json::Array::iter);
    let found = functions.find(|value| value.get("name").and_then(|name| name.as_str()) == Some(function));
    let original = found.and_then(|value| value.get("mcpName")?.as_str());
    original.unwrap_or(function).to_owned()
}

fn outputs(text: &str) -> Result<(Json, Validator), Vec<Finding>> {
    let document = read(text.as_bytes(), Limits::default()).document.ok_or_else(Vec::new)?;
    let validator = Validator::compile(document.root())?;
    Ok((to_serde(document.root()), validator))
}

/// The runtime of the functions, or what was searched without result.
fn runtime(manifest: &LocalManifest, folder: &Path) -> Result<RuntimeKind, String> {
    let has = |file: &str| folder.join(file).is_file();
    let inferred = || ENTRIES.into_iter().find(|entry| has(entry)).map(str::to_owned);
    let none = || format!("there is no `runtime` and none of {}", ENTRIES.join(", "));
    let kind = match manifest.runtime().map(local::Runtime::kind) {
        None | Some(RuntimeKind::Node { entry: None }) => RuntimeKind::Node { entry: Some(inferred().ok_or_else(none)?) },
        Some(kind) => kind.clone(),
    };
    let file = match &kind {
        RuntimeKind::Exec { command } | RuntimeKind::McpStdio { command } => {
            command.first().and_then(|program| program.strip_prefix("./"))
        }
        RuntimeKind::Node { entry } => entry.as_deref(),
        RuntimeKind::Wasm { entry } => Some(entry.as_str()),
        RuntimeKind::McpHttp { .. } | RuntimeKind::Http { .. } => None,
    };
    match file {
        Some(file) if !has(file) => Err(format!("`runtime` names {file:?}, which is not a file of the folder")),
        _ => Ok(kind),
    }
}

/// Defaults of the settings, as handlers of later versions of the format expect them.
fn settings(manifest: &LocalManifest) -> Map<String, Json> {
    let declared = manifest.document().root().get("settings").and_then(|value| value.as_array());
    let defaults = declared.into_iter().flat_map(toolcrib_core::json::Array::iter).filter_map(|setting| {
        let name = setting.get("name")?.as_str()?;
        Some((name.to_owned(), Json::from(setting.get("default")?.as_str()?)))
    });
    defaults.collect()
}

fn read_up_to(path: &Path, limit: u64) -> Result<Vec<u8>, SnapshotError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
