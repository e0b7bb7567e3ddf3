//! Imports MCP bundles.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use toolcrib_core::json;
use toolcrib_core::semver::is_semver;
use zeroize::Zeroizing;

use super::manifest::from_mcp_tools;
use super::server::{MAX_ITEMS, MAX_TEXT, announces_secret, check_command, check_variable, credential_name, id_of, looks_secret};
use super::{CredentialValue, Grants, ImportError, ImportedTool, McpServer, ServerCredential, Transport};
use crate::local::MAX_FOLDER_BYTES;
use crate::local::install::{Archive, ToolFile};

/// The manifest file of a bundle, and of a tool.
const MANIFEST: &str = "manifest.json";

/// Where the manifest of the bundle is stored in the tool folder.
const KEPT_MANIFEST: &str = "bundle.manifest.json";

/// A parsed bundle.
#[derive(Debug)]
pub struct Bundle {
    /// The server in it.
    pub server: McpServer,
    /// Values that the bundle's manifest sets, for the secret store.
    pub values: Vec<CredentialValue>,
    /// The tools that the bundle declares: name and description. Their schemas are known only to the running server.
    pub tools: Vec<(String, Option<String>)>,
    files: Vec<ToolFile>,
}

impl Bundle {
    /// Reads a bundle. `settings` are the user's values for settings in the command; secrets are never among them.
    pub fn read(bytes: &[u8], settings: &BTreeMap<String, Vec<String>>) -> Result<Self, ImportError> {
        let mut archive = Archive::open(bytes)?;
        let root = archive.root()?;
        let manifest = archive.read(&format!("{root}{MANIFEST}"), json::MAX_BYTES as u64)?.unwrap_or_default();
        let manifest: Json = serde_json::from_slice(&manifest).map_err(|error| ImportError::Bundle(error.to_string()))?;
        let mut reader = Reader { manifest: &manifest, settings, credentials: Vec::new(), values: Vec::new() };
        let server = reader.server()?;
        let values = std::mem::take(&mut reader.values);
        let tools = manifest.get("tools").and_then(Json::as_array).into_iter().flatten();
        let text = |tool: &Json, key: &str| tool.get(key).and_then(Json::as_str).map(str::to_owned);
        let tools = tools.filter_map(|tool| Some((text(tool, "name")?, text(tool, "description")))).collect();
        let mut files = Vec::new();
        let mut left = MAX_FOLDER_BYTES;
        for file in archive.files().to_vec() {
            let Some(path) = file.path.strip_prefix(&root) else { continue };
            if path == KEPT_MANIFEST {
                return Err(ImportError::Bundle(format!("it has a file {KEPT_MANIFEST}, which the import needs")));
            }
            let bytes = archive.read(&file.path, left)?.unwrap_or_default();
            left -= bytes.len() as u64;
            let path = if path == MANIFEST { KEPT_MANIFEST } else { path };
            files.push(ToolFile { path: path.to_owned(), bytes, executable: file.executable });
        }
        Ok(Self { server, values, tools, files })
    }

    /// The files of the bundle without a Toolcrib manifest, to start the server.
    pub fn files(&self) -> &[ToolFile] {
        &self.files
    }

    /// Returns the manifest and all files of the tool, after the running server listed its tools.
    pub fn into_files(self, tools_list: &Json) -> Result<(ImportedTool, Vec<ToolFile>), ImportError> {
        let tool = from_mcp_tools(&self.server, tools_list)?;
        let mut files = self.files;
        files.push(ToolFile { path: MANIFEST.to_owned(), bytes: tool.manifest.clone().into_bytes(), executable: false });
        Ok((tool, files))
    }
}

struct Reader<'m> {
    manifest: &'m Json,
    settings: &'m BTreeMap<String, Vec<String>>,
    credentials: Vec<ServerCredential>,
    values: Vec<CredentialValue>,
}

impl<'m> Reader<'m> {
    fn server(&mut self) -> Result<McpServer, ImportError> {
        let is_bundle =
            self.manifest.get("manifest_version").or_else(|| self.manifest.get("dxt_version")).is_some_and(Json::is_string);
        if !is_bundle {
            return Err(ImportError::Bundle("it has no manifest_version".to_owned()));
        }
        let name = self.text("name")?;
        let version = self.text("version")?;
        let version = version.strip_prefix('v').unwrap_or(version);
        if !is_semver(version) {
            return Err(ImportError::Bundle("the version is not a semantic version".to_owned()));
        }
        let server = self.manifest.get("server").and_then(|server| server.get("mcp_config")).and_then(Json::as_object);
        let Some(config) = server else { return Err(ImportError::Bundle("it has no server.mcp_config".to_owned())) };
        self.check_settings()?;
        let command = self.command(config)?;
        self.environment(config)?;
        let title = self.manifest.get("display_name").and_then(Json::as_str).unwrap_or(name);
        Ok(McpServer {
            id: id_of(name)?,
            name: title.to_owned(),
            description: self.text("description")?.to_owned(),
            version: version.to_owned(),
            transport: Transport::Command(command),
            credentials: std::mem::take(&mut self.credentials),
            grants: Grants::default(),
        })
    }

    fn text(&self, key: &str) -> Result<&'m str, ImportError> {
        let text = self.manifest.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty() && text.len() <= MAX_TEXT);
        text.ok_or_else(|| ImportError::Bundle(format!("`{key}` is missing, empty or too long")))
    }

    fn setting(&self, key: &str) -> Option<&'m Map<String, Json>> {
        self.manifest.get("user_config")?.get(key)?.as_object()
    }

    /// Refuses values for unknown settings, and for secret ones: those would come from a command line.
    fn check_settings(&self) -> Result<(), ImportError> {
        for key in self.settings.keys() {
            match self.setting(key) {
                None => return Err(ImportError::Bundle(format!("it has no setting {key:?}"))),
                Some(setting) if is_sensitive(setting) => {
                    return Err(ImportError::Secret { place: format!("the setting {key}") });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn command(&self, config: &Map<String, Json>) -> Result<Vec<String>, ImportError> {
        let program = config.get("command").and_then(Json::as_str).unwrap_or_default();
        let mut command = self.expand(program)?;
        match config.get("args") {
            None => {}
            Some(Json::Array(arguments)) if arguments.len() <= MAX_ITEMS => {
                for argument in arguments {
                    let Some(argument) = argument.as_str() else {
                        return Err(ImportError::Bundle("an argument is not a string".to_owned()));
                    };
                    command.extend(self.expand(argument)?);
                }
            }
            Some(_) => return Err(ImportError::Bundle(format!("`args` is not a list of at most {MAX_ITEMS} strings"))),
        }
        check_command(&command)?;
        Ok(command)
    }

    /// Expands the variables of an argument. A setting with several values, alone in an argument, becomes several arguments.
    fn expand(&self, argument: &str) -> Result<Vec<String>, ImportError> {
        if let Some(key) =
            argument.strip_prefix("${user_config.").and_then(|rest| rest.strip_suffix('}')).filter(|key| !key.contains('}'))
        {
            return self.values_of(key);
        }
        let mut out = String::new();
        let mut rest = argument;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let after = &rest[at + 2..];
            let Some(end) = after.find('}') else {
                rest = &rest[at..];
                break;
            };
            let name = &after[..end];
            match name {
                // The server runs in the folder of the tool.
                "__dirname" => out.push('.'),
                "/" | "pathSeparator" => out.push('/'),
                _ => match name.strip_prefix("user_config.") {
                    Some(key) => match self.values_of(key)?.as_slice() {
                        [one] => out.push_str(one),
                        _ => return Err(ImportError::Variable { name: name.to_owned() }),
                    },
                    None => return Err(ImportError::Variable { name: name.to_owned() }),
                },
            }
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        Ok(vec![out])
    }

    /// The user's values for a setting, or its default. A secret is never part of a command.
    fn values_of(&self, key: &str) -> Result<Vec<String>, ImportError> {
        let missing = || ImportError::Variable { name: format!("user_config.{key}") };
        let setting = self.setting(key).ok_or_else(missing)?;
        if is_sensitive(setting) {
            return Err(ImportError::Secret { place: format!("the argument for the setting {key}") });
        }
        if let Some(values) = self.settings.get(key) {
            return Ok(values.clone());
        }
        match setting.get("default") {
            Some(Json::String(text)) if !text.contains("${") => Ok(vec![text.clone()]),
            Some(value @ (Json::Number(_) | Json::Bool(_))) => Ok(vec![value.to_string()]),
            Some(Json::Array(items)) if items.iter().all(|item| item.as_str().is_some_and(|text| !text.contains("${"))) => {
                Ok(items.iter().filter_map(Json::as_str).map(str::to_owned).collect())
            }
            _ => Err(missing()),
        }
    }

    fn environment(&mut self, config: &Map<String, Json>) -> Result<(), ImportError> {
        let empty = Map::new();
        let variables = match config.get("env") {
            None => &empty,
            Some(Json::Object(variables)) if variables.len() <= MAX_ITEMS => variables,
            Some(_) => return Err(ImportError::Bundle(format!("`env` is not an object of at most {MAX_ITEMS} strings"))),
        };
        for (variable, value) in variables {
            check_variable(variable)?;
            let Some(value) = value.as_str().filter(|value| value.len() <= MAX_TEXT) else {
                return Err(ImportError::Bundle(format!("the variable {variable} is not a string")));
            };
            let key = value
                .strip_prefix("${user_config.")
                .and_then(|rest| rest.strip_suffix('}'))
                .filter(|key| !key.contains(['$', '}']));
            match key {
                Some(key) => self.setting_credential(variable, key)?,
                None => self.fixed_credential(variable, value)?,
            }
        }
        Ok(())
    }

    /// Adds a variable whose value the user enters.
    fn setting_credential(&mut self, variable: &str, key: &str) -> Result<(), ImportError> {
        let Some(setting) = self.setting(key) else { return Err(ImportError::Variable { name: format!("user_config.{key}") }) };
        let text =
            |name: &str| setting.get(name).and_then(Json::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let flag = |name: &str| setting.get(name).and_then(Json::as_bool).unwrap_or(false);
        let credential = ServerCredential {
            name: credential_name(key)?,
            label: text("title").unwrap_or_else(|| key.to_owned()),
            description: text("description"),
            required: flag("required"),
            secret: is_sensitive(setting) || announces_secret(key),
            env: Some(variable.to_owned()),
            header: None,
        };
        let given = match self.settings.get(key).map(Vec::as_slice) {
            Some([one]) => Some(one.clone()),
            Some(_) => return Err(ImportError::Bundle(format!("the setting {key:?} takes one value"))),
            None => text("default").filter(|text| !text.contains("${")),
        };
        self.add(credential, given)
    }

    /// Adds a variable whose value the bundle sets.
    fn fixed_credential(&mut self, variable: &str, value: &str) -> Result<(), ImportError> {
        let value = self.expand(value)?.concat();
        let credential = ServerCredential {
            name: credential_name(variable)?,
            label: variable.to_owned(),
            description: None,
            required: false,
            secret: announces_secret(variable) || looks_secret(&value),
            env: Some(variable.to_owned()),
            header: None,
        };
        self.add(credential, Some(value))
    }

    fn add(&mut self, credential: ServerCredential, value: Option<String>) -> Result<(), ImportError> {
        if let Some(first) = self.credentials.iter().find(|known| known.name == credential.name) {
            return Err(ImportError::Collision {
                function: credential.name.clone(),
                first: first.label.clone(),
                second: credential.label,
            });
        }
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.values.push(CredentialValue { name: credential.name.clone(), value: Zeroizing::new(value) });
        }
        self.credentials.push(credential);
        Ok(())
    }
}

/// Whether the bundle marks a setting as secret.
fn is_sensitive(setting: &Map<String, Json>) -> bool {
    setting.get("sensitive") == Some(&Json::Bool(true))
}
