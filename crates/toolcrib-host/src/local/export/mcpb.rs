//! MCP bundles: a zip file that MCP clients install.
//!
//! A bundle contains the folders of the tools and a manifest that starts this program as the server. So the tools run as usual: under the
//! permissions, the sandbox and the limits of this host, which must be installed. The folder of a tool is included unchanged, and
//! [`install`](crate::local::install) accepts a bundle with one tool.

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::local::Credential;
use toolcrib_core::secrets::kind_of_secret;

use super::archive::{self, Entry};
use super::{BundleInfo, ExportError, ExportTool, Files, Job, pretty};
use crate::local::content::open_file;
use crate::local::secrets::SecretStore;
use crate::local::{EntryKind, MAX_FOLDER_BYTES, hash_entries, list_folder};

/// The version of the manifest: the newest that is not marked experimental.
const MANIFEST_VERSION: &str = "0.3";

/// The key in `_meta` of a bundle that lists its tools.
pub const BUNDLE_NAMESPACE: &str = "dev.toolcrib";

/// The arguments with which a bundle starts the server: without directory and wallet, which the client does not configure. The client
/// replaces `${__dirname}` with the folder of the unpacked bundle.
pub const SERVER_ARGUMENTS: [&str; 4] = ["mcp", "--local-only", "--tools", "${__dirname}/tools"];

/// The program that a bundle starts, found in PATH.
const PROGRAM: &str = "toolcrib";

/// Largest file that is searched for secrets. Larger ones are not source code.
const SEARCHED_MAX: usize = 1_048_576;

/// Names of files that contain secrets: whole names, and suffixes.
const SECRET_NAMES: [&str; 9] =
    [".env", ".netrc", ".npmrc", ".pypirc", "credentials.json", "id_ecdsa", "id_ed25519", "id_rsa", "secrets.json"];
const SECRET_ENDINGS: [&str; 5] = [".jks", ".key", ".p12", ".pem", ".pfx"];

/// Suffixes of sample files, which list variables without values.
const SAMPLE_ENDINGS: [&str; 4] = [".dist", ".example", ".sample", ".template"];

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let info = job.bundle()?;
    let bytes = bundle(job, &info)?;
    Ok(vec![(format!("{}-{}.mcpb", info.name, info.version), bytes)])
}

/// Returns the bytes of a bundle.
pub(super) fn bundle(job: &mut Job<'_>, info: &BundleInfo) -> Result<Vec<u8>, ExportError> {
    let manifest = manifest(job, info)?;
    let mut entries = vec![Entry { path: "manifest.json".to_owned(), bytes: pretty(&manifest), executable: false }];
    for tool in &job.tools {
        folder(tool, &mut entries)?;
    }
    archive::write(entries).map_err(|error| job.option("bundle", format!("the archive cannot be written: {error}")))
}

fn manifest(job: &mut Job<'_>, info: &BundleInfo) -> Result<Json, ExportError> {
    let tools: Vec<_> = job
        .functions()?
        .iter()
        .map(|exposed| json!({"name": exposed.name, "description": exposed.function.description()}))
        .collect();
    let Some(first) = job.tools.first().map(|tool| tool.manifest.id()) else {
        return Err(job.option("tools", "at least one tool is needed"));
    };
    let mut user_config = Map::new();
    let mut environment = Map::new();
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut left_out = Vec::new();
    for tool in &job.tools {
        let id = tool.manifest.id();
        for credential in tool.manifest.credentials() {
            let key = format!("{id}_{}", credential.name());
            // The secret store reads the variable first; an empty one counts as unset.
            let Some(variable) = SecretStore::variable_name(id, credential.name()) else {
                let finding = Finding::new(code::CREDENTIAL_LEFT_OUT).got(credential.name());
                left_out.push((id.to_owned(), finding));
                continue;
            };
            if let Some(first) = variables.insert(variable.clone(), key.clone()) {
                return Err(ExportError::Collision { target: job.target, name: variable, first, second: key });
            }
            environment.insert(variable, format!("${{user_config.{key}}}").into());
            user_config.insert(key, setting(tool, credential));
        }
    }
    for (id, finding) in left_out {
        job.warn(Some(&id), None, finding);
    }
    let contents: Vec<_> = job
        .tools
        .iter()
        .map(|tool| json!({"id": tool.manifest.id(), "version": tool.manifest.version(), "contentHash": tool.content}))
        .collect();
    Ok(json!({
        "manifest_version": MANIFEST_VERSION,
        "name": info.name,
        "display_name": info.title,
        "version": info.version,
        "description": info.description,
        "author": {"name": job.options.author.as_deref().unwrap_or("Unknown")},
        "server": {
            "type": "binary",
            "entry_point": format!("tools/{first}/manifest.json"),
            "mcp_config": {"command": PROGRAM, "args": SERVER_ARGUMENTS, "env": environment},
        },
        "tools": tools,
        "user_config": user_config,
        "_meta": {BUNDLE_NAMESPACE: {"tools": contents}},
    }))
}

/// A setting for which the client asks its user. Never a value.
fn setting(tool: &ExportTool<'_>, credential: &Credential) -> Json {
    let description = match credential.description() {
        Some(text) if !text.trim().is_empty() => text.to_owned(),
        // The format requires a description.
        _ => format!("{} of {}", credential.label(), tool.manifest.name()),
    };
    let mut setting = json!({
        "type": "string",
        "title": credential.label(),
        "description": description,
        "required": credential.required(),
        "sensitive": credential.secret(),
    });
    if !credential.required() {
        // Without a default, clients leave `${user_config.…}` unexpanded if the user enters nothing.
        setting["default"] = "".into();
    }
    setting
}

/// Reads the folder of a tool and checks that its hash is the given one.
fn folder(tool: &ExportTool<'_>, entries: &mut Vec<Entry>) -> Result<(), ExportError> {
    let id = tool.manifest.id();
    let refused = |finding: Finding| ExportError::Tool { tool: id.to_owned(), finding: Box::new(finding) };
    let listed = list_folder(tool.folder).map_err(|source| ExportError::Folder { tool: id.to_owned(), source })?;
    let found = hash_entries(&listed);
    if found != tool.content {
        return Err(ExportError::ContentChanged { tool: id.to_owned(), expected: tool.content, found });
    }
    for listed in &listed {
        if listed.kind == EntryKind::Link {
            return Err(refused(Finding::new(code::LINK).got(&listed.path)));
        }
        let path = tool.folder.join(&listed.path);
        let mut bytes = Vec::new();
        open_file(&path)
            .and_then(|file| file.take(MAX_FOLDER_BYTES).read_to_end(&mut bytes))
            .map_err(|source| ExportError::Read { path: path.clone(), source })?;
        // The file is read a second time here, so its hash is compared again.
        if sha256(&bytes) != listed.sha256 {
            let found = list_folder(tool.folder).map_or(tool.content, |listed| hash_entries(&listed));
            return Err(ExportError::ContentChanged { tool: id.to_owned(), expected: tool.content, found });
        }
        if let Some(what) = secret(&listed.path, &bytes) {
            return Err(refused(
                Finding::new(code::SECRET_FILE).message(format!("a file looks like it holds {what}")).got(&listed.path),
            ));
        }
        entries.push(Entry {
            path: format!("tools/{id}/{}", listed.path),
            bytes,
            executable: listed.kind == EntryKind::Executable,
        });
    }
    Ok(())
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// The kind of secret that a file seems to contain.
fn secret(path: &str, bytes: &[u8]) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let is_sample = SAMPLE_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_named = SECRET_NAMES.contains(&name.as_str())
        || name.starts_with(".env.")
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
    if is_named && !is_sample {
        return Some("a secret, by its name");
    }
    if bytes.len() > SEARCHED_MAX {
        return None;
    }
    std::str::from_utf8(bytes).ok().and_then(|text| kind_of_secret(text, false))
}
