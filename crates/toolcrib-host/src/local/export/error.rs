//! Export errors.

use std::path::PathBuf;

use toolcrib_core::codes::{Code, export as code};
use toolcrib_core::finding::Finding;
use toolcrib_core::text::escape_for_display;

use super::Target;
use crate::local::{ContentHash, FolderError};

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An option is missing or invalid.
    #[error("the option {option} is needed for {target}: {problem}")]
    Option {
        /// The target.
        target: Target,
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The target cannot express a function.
    #[error("{tool}: {function}: {}", finding.message)]
    Function {
        /// The id of the tool.
        tool: String,
        /// The name of the function.
        function: String,
        /// Why.
        finding: Box<Finding>,
    },
    /// Two functions have the same name at the target.
    #[error("{first} and {second} are both called {name} at {target}")]
    Collision {
        /// The target.
        target: Target,
        /// The name.
        name: String,
        /// The first function, as `tool/function`.
        first: String,
        /// The second function.
        second: String,
    },
    /// The target cannot express a tool.
    #[error("{tool}: {}", finding.message)]
    Tool {
        /// The id of the tool.
        tool: String,
        /// Why.
        finding: Box<Finding>,
    },
    /// The exported document violates a rule of its target.
    #[error("{name} breaks {} rules of {target}, first: {}", findings.len(), findings.first().map_or("", |finding| finding.message.as_str()))]
    Invalid {
        /// The target.
        target: Target,
        /// What was exported.
        name: String,
        /// The errors.
        findings: Vec<Finding>,
    },
    /// The folder changed since it was loaded.
    #[error("{tool}: the folder has the content hash {found}, expected {expected}")]
    ContentChanged {
        /// The id of the tool.
        tool: String,
        /// The hash when it was loaded.
        expected: ContentHash,
        /// The hash of the folder now.
        found: ContentHash,
    },
    /// The folder cannot be exported.
    #[error("{tool}: {source}")]
    Folder {
        /// The id of the tool.
        tool: String,
        /// Why.
        source: FolderError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", escape_for_display(&path.to_string_lossy()))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ExportError {
    /// The code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Option { .. } => code::OPTION,
            Self::Function { finding, .. } | Self::Tool { finding, .. } => finding.code,
            Self::Collision { .. } => code::COLLISION,
            Self::Invalid { .. } => code::INVALID,
            Self::ContentChanged { .. } => code::CONTENT_CHANGED,
            Self::Folder { source, .. } => source.code(),
            Self::Read { .. } => code::READ,
        }
    }
}
