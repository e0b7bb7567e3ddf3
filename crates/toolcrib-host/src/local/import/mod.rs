//! Imports: tools of other formats as tool folders.
//!
//! - Folders of the project that the format comes from run without changes: they are validated, searched for handlers, and installed
//!   ([`examine`], [`folders`]).
//! - MCP bundles ([`Bundle`]) and entries of client configurations ([`entries`], [`from_entry`]) become an [`McpServer`]: how to start or
//!   reach it, and its credentials. Only the running server knows the schemas of its functions, so a second step ([`from_mcp_tools`])
//!   creates the manifest from the result of `tools/list`.
//!
//! [`Host::list_server_tools`](crate::local::Host::list_server_tools) starts the server once, in the sandbox that its tool will have.
//!
//! Values of environment variables are never written to the folder: each becomes a credential, and its value is returned with the manifest
//! for the secret store.

mod bundle;
mod entry;
mod folder;
mod listing;
mod manifest;
mod server;

use std::fmt;
use std::path::PathBuf;

use toolcrib_core::codes::{Code, export as code};
use toolcrib_core::finding::Finding;
use toolcrib_core::text::escape_for_display;
use zeroize::Zeroizing;

use super::install::{ArchiveError, InstallError};
use super::{LoadError, RunError};

pub use bundle::Bundle;
pub use entry::{entries, from_entry};
pub use folder::{Examined, HandlerStyle, examine, folders};
pub use listing::Trial;
pub use manifest::from_mcp_tools;
pub use server::{Grants, McpServer, ServerCredential, Transport};

/// Import errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No tool was found.
    #[error("{} holds no tool folder", escape_for_display(&path.to_string_lossy()))]
    NoTool {
        /// Where it was searched.
        path: PathBuf,
    },
    /// The folder cannot be used.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The archive is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The manifest of the bundle cannot be used.
    #[error("the manifest of the bundle: {0}")]
    Bundle(String),
    /// The entry of the client configuration cannot be used.
    #[error("the configuration entry: {0}")]
    Entry(String),
    /// The command cannot be used.
    #[error("the command {}: {problem}", escape_for_display(command))]
    Command {
        /// The program.
        command: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A variable has no value.
    #[error("the variable ${{{}}} has no value here", escape_for_display(name))]
    Variable {
        /// The variable.
        name: String,
    },
    /// An environment variable is refused.
    #[error("the environment variable {} is refused: {problem}", escape_for_display(name))]
    Environment {
        /// Its name.
        name: String,
        /// Why.
        problem: &'static str,
    },
    /// An argument or URL looks like a secret. The error does not contain the value.
    #[error("{place} looks like it holds a secret")]
    Secret {
        /// Where.
        place: String,
    },
    /// The list of tools cannot be used.
    #[error("the list of tools: {0}")]
    Tools(String),
    /// A name cannot be converted to an id or a function name.
    #[error("the name {}: {problem}", escape_for_display(name))]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two tools map to the same name.
    #[error("the tools {} and {} both become the function {function}", escape_for_display(first), escape_for_display(second))]
    Collision {
        /// The name of the function.
        function: String,
        /// The first tool.
        first: String,
        /// The second tool.
        second: String,
    },
    /// The created folder cannot be loaded.
    #[error(transparent)]
    Load(#[from] Box<LoadError>),
    /// The server cannot be started, or did not list its tools.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The created manifest has errors.
    #[error("the manifest that was made has errors: {}", findings.first().map_or("", |finding| finding.message.as_str()))]
    Manifest {
        /// The errors.
        findings: Vec<Finding>,
    },
}

impl ImportError {
    /// The code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::NoTool { .. } => code::IMPORT_FOLDER,
            Self::Load(error) => error.code(),
            Self::Run(error) => error.code,
            Self::Install(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::Bundle(_) => code::IMPORT_BUNDLE,
            Self::Entry(_) => code::IMPORT_ENTRY,
            Self::Command { .. } => code::IMPORT_COMMAND,
            Self::Variable { .. } => code::IMPORT_VARIABLE,
            Self::Environment { .. } => code::IMPORT_ENVIRONMENT,
            Self::Secret { .. } => code::IMPORT_SECRET,
            Self::Tools(_) => code::IMPORT_TOOLS,
            Self::Name { .. } => code::IMPORT_NAME,
            Self::Collision { .. } => code::IMPORT_COLLISION,
            Self::Manifest { .. } => code::IMPORT_MANIFEST,
        }
    }
}

/// The value of a credential, only for the secret store.
pub struct CredentialValue {
    /// The name of the credential.
    pub name: String,
    /// Its value.
    pub value: Zeroizing<String>,
}

impl fmt::Debug for CredentialValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialValue").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A tool that was created from an MCP server.
#[derive(Debug)]
pub struct ImportedTool {
    /// Its id.
    pub id: String,
    /// The text of its `manifest.json`.
    pub manifest: String,
    /// Warnings about the manifest, and tools of the server that were omitted.
    pub findings: Vec<Finding>,
}
