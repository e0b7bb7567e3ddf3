//! Reads, checks and names the content of the staging folder.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use toolcrib_core::checked::{Outcome, parse};
use toolcrib_core::finding::{Finding, Mode};
use toolcrib_core::json;
use toolcrib_core::local::LocalManifest;

use super::stage::Run;
use super::write::read_bounded;
use super::{Archive, ArchiveError, InstallError, MANIFEST, MAX_ARCHIVE_BYTES, UNNAMED};
use crate::local::{ContentHash, FolderEntry, hash_entries, list_folder};

/// A tool in the staging folder.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) run: Run,
    pub(super) id: String,
    pub(super) manifest: Box<LocalManifest>,
    pub(super) findings: Vec<Finding>,
    pub(super) entries: Vec<FolderEntry>,
    pub(super) resolved: Option<String>,
}

impl Staged {
    /// Checks a staged tool whose id is not known yet, and renames its folder to its id.
    pub(super) fn check(run: Run, resolved: Option<String>) -> Result<Self, InstallError> {
        let place = run.staged(UNNAMED);
        let entries = list_folder(&place)?;
        let (manifest, findings) = read_manifest(&place)?;
        let id = manifest.id().to_owned();
        let named = run.staged(&id);
        std::fs::rename(&place, &named).map_err(InstallError::io(&named))?;
        Ok(Self { run, id, manifest: Box::new(manifest), findings, entries, resolved })
    }

    pub(super) fn check_digest(&self, expected: Option<ContentHash>) -> Result<(), InstallError> {
        let found = hash_entries(&self.entries);
        match expected {
            Some(expected) if expected != found => Err(InstallError::Digest { expected, found }),
            _ => Ok(()),
        }
    }
}

/// Reads the manifest in a folder. Returns it with the findings that are not errors.
pub(crate) fn read_manifest(folder: &Path) -> Result<(LocalManifest, Vec<Finding>), InstallError> {
    let path = folder.join(MANIFEST);
    let bytes = match read_bounded(&path, json::MAX_BYTES as u64 + 1) {
        // One byte over the limit is enough for the parser to refuse it.
        Ok(bytes) => bytes.unwrap_or_else(|| vec![b' '; json::MAX_BYTES + 2]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(InstallError::Manifest { findings: Vec::new() }),
        Err(error) => return Err(InstallError::io(&path)(error)),
    };
    let checked = parse::<LocalManifest>(&bytes, Mode::Consumer);
    match checked.outcome {
        Outcome::Conformant(sealed) => Ok((sealed.into_parts().0, checked.findings)),
        _ => Err(InstallError::Manifest { findings: checked.findings }),
    }
}

/// Reads a text file; `None` if it is larger than `most` or not UTF-8.
pub(crate) fn read_bounded_text(path: &Path, most: u64) -> Result<Option<String>, InstallError> {
    let bytes = read_bounded(path, most).map_err(InstallError::io(path))?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// Unpacks an archive into a folder and returns the hash of the archive.
pub(super) fn unpack(path: &Path, place: &Path) -> Result<String, InstallError> {
    let bytes = read_bounded(path, MAX_ARCHIVE_BYTES)
        .map_err(InstallError::io(path))?
        .ok_or(ArchiveError::Limit { what: "bytes", most: MAX_ARCHIVE_BYTES })?;
    let mut archive = Archive::open(&bytes)?;
    let root = archive.root()?;
    let root = match bundle_of(&mut archive, &root)? {
        Bundle::None => root,
        Bundle::Tool(root) => root,
        Bundle::Server => return Err(InstallError::NeedsListing),
    };
    archive.unpack(&root, place)?;
    Ok(format!("sha256:{}", alloy_primitives::hex::encode(Sha256::digest(&bytes))))
}

/// The kind of a manifest in an archive.
enum Bundle {
    /// The manifest of a tool.
    None,
    /// The manifest of an MCP bundle that contains one Toolcrib tool folder.
    Tool(String),
    /// The manifest of another MCP bundle.
    Server,
}

/// Whether an archive contains a tool folder, alone or in an MCP bundle that was exported from one, rather than a third-party MCP server.
pub fn holds_tool(bytes: &[u8]) -> Result<bool, InstallError> {
    let mut archive = Archive::open(bytes)?;
    let root = archive.root()?;
    Ok(!matches!(bundle_of(&mut archive, &root)?, Bundle::Server))
}

fn bundle_of(archive: &mut Archive<'_>, root: &str) -> Result<Bundle, InstallError> {
    let bytes = archive.read(&format!("{root}{MANIFEST}"), json::MAX_BYTES as u64)?.unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if manifest.get("manifest_version").is_none() && manifest.get("dxt_version").is_none() {
        return Ok(Bundle::None);
    }
    let prefix = format!("{root}tools/");
    let tools: Vec<_> = archive
        .files()
        .iter()
        .filter_map(|file| file.path.strip_prefix(&prefix)?.strip_suffix("/manifest.json"))
        .filter(|id| !id.contains('/'))
        .collect();
    let is_ours = manifest.get("_meta").and_then(|meta| meta.get(crate::local::export::BUNDLE_NAMESPACE)).is_some();
    match tools.as_slice() {
        [id] if is_ours => Ok(Bundle::Tool(format!("{prefix}{id}/"))),
        _ if is_ours => Err(ArchiveError::Root("the bundle holds several tools").into()),
        _ => Ok(Bundle::Server),
    }
}

/// A folder within a working copy. Links must not point out of it.
pub(super) fn within(work: &Path, subfolder: Option<&str>) -> Result<PathBuf, InstallError> {
    let Some(subfolder) = subfolder else { return Ok(work.to_owned()) };
    let missing = || InstallError::Subfolder { subfolder: subfolder.to_owned() };
    let work = std::fs::canonicalize(work).map_err(InstallError::io(work))?;
    let folder = std::fs::canonicalize(work.join(subfolder)).map_err(|_| missing())?;
    let inside = folder.strip_prefix(&work).is_ok_and(|rest| !rest.starts_with(".git"));
    if inside && folder.is_dir() { Ok(folder) } else { Err(missing()) }
}
