//! The lock file: the installed tools and their sources.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toolcrib_files::AtomicFile;

use super::write::read_bounded;
use super::{InstallError, Source};
use crate::local::ContentHash;

/// The version of the format.
const VERSION: u32 = 1;

/// Largest lock file: thousands of tools.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// An installed tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEntry {
    /// Its source.
    pub source: Source,
    /// The resolved source: the commit of a repository, `sha256:…` of an archive, `None` for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The content hash of the folder.
    pub content: ContentHash,
    /// The version in its manifest.
    pub version: String,
    /// When it was installed, as RFC 3339.
    pub time: String,
}

/// All installed tools by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFile {
    /// The tools.
    pub tools: BTreeMap<String, LockEntry>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    tools: BTreeMap<String, LockEntry>,
}

impl LockFile {
    /// Reads a lock file. A missing file is empty.
    pub fn read(path: &Path) -> Result<Self, InstallError> {
        let broken = |problem: String| InstallError::Lock { path: path.to_owned(), problem };
        let bytes = match read_bounded(path, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(broken(format!("it has more than {MAX_BYTES} bytes"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(InstallError::io(path)(error)),
        };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if stored.version != VERSION {
            return Err(broken(format!("it has version {}, expected {VERSION}", stored.version)));
        }
        if let Some(id) = stored.tools.keys().find(|id| !toolcrib_core::local::names::is_name(id)) {
            return Err(broken(format!("{id:?} is not an id")));
        }
        Ok(Self { tools: stored.tools })
    }

    /// Writes the lock file atomically.
    pub(super) fn write(&self, path: &Path) -> Result<(), InstallError> {
        let stored = Stored { version: VERSION, tools: self.tools.clone() };
        let mut bytes = serde_json::to_vec_pretty(&stored)
            .map_err(|error| InstallError::Lock { path: path.to_owned(), problem: error.to_string() })?;
        bytes.push(b'\n');
        AtomicFile::new(path).prefix(".lock-").replace(&bytes).map_err(InstallError::io(path))
    }
}
