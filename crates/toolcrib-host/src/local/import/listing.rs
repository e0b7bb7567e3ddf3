//! Starts an MCP server once to list its tools.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use toolcrib_core::local::{Credential, RuntimeKind};

use super::{CredentialValue, ImportError, McpServer, from_mcp_tools};
use crate::local::access;
use crate::local::audit::{Event, Record};
use crate::local::call::placed;
use crate::local::folder::{LoadedTool, load};
use crate::local::host::Host;
use crate::local::install::{ToolFile, write_files};
use crate::local::runtime::{Events, Invocation, RunError};
use crate::local::secrets::{Lookup, Redactor, Secret, SecretError};

/// A server that is ready to list its tools: a tool folder with a function that is never called.
///
/// Dropping it removes the files that the server wrote, unless [`Trial::keep`] is called or a tool with its id had a data folder before.
#[derive(Debug)]
pub struct Trial {
    tool: LoadedTool,
    sandbox: String,
    /// Folders to remove on drop.
    made: Vec<PathBuf>,
    _folder: TempDir,
}

impl Trial {
    /// A short description of the sandbox.
    pub fn sandbox(&self) -> &str {
        &self.sandbox
    }

    /// A description of what the program can access.
    pub fn access(&self) -> String {
        access(&self.tool)
    }

    /// Keeps the data folder of the server, because its tool is installed.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for folder in &self.made {
            // If removal fails, the rest stays in the private state folder, and no other tool uses it.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Host {
    /// Prepares a server with its files: checks them and the program. Starts and sends nothing.
    pub fn prepare_import(&self, server: &McpServer, files: &[ToolFile]) -> Result<Trial, ImportError> {
        let listed = json!([{"name": "list", "inputSchema": {"type": "object"}}]);
        let manifest = from_mcp_tools(server, &listed)?.manifest;
        let failed =
            |error: std::io::Error| ImportError::Run(RunError::new(toolcrib_core::codes::host::STATE, error.to_string()));
        let folder = tempfile::Builder::new().prefix("toolcrib-import-").tempdir().map_err(failed)?;
        let place = folder.path().join(&server.id);
        fs::create_dir(&place).map_err(failed)?;
        write_files(&place, files)?;
        let manifest = ToolFile { path: "manifest.json".to_owned(), bytes: manifest.into_bytes(), executable: false };
        write_files(&place, &[manifest])?;
        let made = ["data", "tmp"].map(|name| self.settings.state.join(name).join(&server.id));
        let made = made.into_iter().filter(|folder| !folder.exists()).collect();
        let tool = load(&place, &self.snapshots).map_err(Box::new)?;
        let mut trial = Trial { tool, sandbox: String::new(), made, _folder: folder };
        self.check_runtime(&trial.tool)?;
        trial.sandbox = self.sandbox_summary(&trial.tool);
        Ok(trial)
    }

    /// Starts the server once, in the sandbox that its tool will have, and returns the result of `tools/list` with values of credentials
    /// redacted. Credentials that are not in `values` come from the environment, if they are set.
    pub async fn list_server_tools(
        &self,
        trial: &Trial,
        values: &[CredentialValue],
        limit: Duration,
    ) -> Result<Json, ImportError> {
        let tool = &trial.tool;
        let unusable = |error: SecretError| RunError::new(error.code(), error.to_string());
        let mut credentials = std::collections::BTreeMap::new();
        for credential in tool.manifest().credentials().iter().map(Credential::name) {
            let given = values.iter().find(|value| value.name == credential);
            let secret = match given {
                Some(value) => Some(Secret::new(value.value.as_str().to_owned())),
                None => match self.secrets().get(tool.id(), credential, &tool.content()).map_err(unusable)? {
                    Lookup::Value { secret, .. } => Some(secret),
                    _ => None,
                },
            };
            credentials.extend(secret.map(|secret| (credential.to_owned(), Arc::new(secret))));
        }
        let redactor = Arc::new(Redactor::new(credentials.values().map(AsRef::as_ref)).map_err(unusable)?);
        let events = Events::none().redacted(Arc::clone(&redactor));
        let invocation = Invocation {
            function: String::new(),
            mcp_name: String::new(),
            arguments: json!({}),
            variables: placed(tool, &credentials, Credential::env),
            headers: placed(tool, &credentials, Credential::header),
            credentials,
            settings: serde_json::Map::new(),
            call_id: String::new(),
            data: self.settings.state.join("data").join(tool.id()),
            limit,
        };
        let started = Record::new(Event::ServerStarted).client("cli").tool(tool.id()).content(tool.content());
        let started = started.sandbox(&trial.sandbox).detail(&command(tool));
        self.audit().append([started]).map_err(|error| RunError::new(error.code(), error.to_string()))?;
        let runtime = self.make_runtime(tool)?;
        let listed = runtime.list_tools(invocation, &events).await;
        runtime.shutdown().await;
        let mut listed = listed.map_err(|error| error.redacted(&events))?;
        redactor.json(&mut listed);
        Ok(listed)
    }
}

/// The command or URL to start or call. Those with secrets were refused before.
fn command(tool: &LoadedTool) -> String {
    match tool.runtime() {
        RuntimeKind::McpStdio { command } => command.join(" "),
        RuntimeKind::McpHttp { url } => url.clone(),
        _ => String::new(),
    }
}
