//! Strict reading of untrusted zip archives, with limits.
//!
//! Nothing in a zip file is trusted. Names are checked before anything is written, sizes are counted while inflating, and an archive that
//! two readers could interpret differently is refused.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::path::Path;

use toolcrib_core::codes::{Code, install as code};
use toolcrib_core::text::{escape_for_display, normalize};
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use super::write::write_file;
use crate::local::{MAX_FILES, MAX_FOLDER_BYTES, MAX_PATH_BYTES};

/// Largest archive file. Its content is limited by [`MAX_FOLDER_BYTES`]; source code usually shrinks to a quarter or less.
pub const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024;

/// Most entries: files and folders.
const MAX_ENTRIES: usize = 2 * MAX_FILES;

/// Largest compression ratio of a whole archive. Text shrinks to a tenth, repetitive data to a fiftieth.
const MAX_RATIO: u64 = 200;

/// Up to this size the ratio is not checked: a few repetitive files do no harm.
const RATIO_FREE_BYTES: u64 = 4 * 1024 * 1024;

/// Longest name of one folder or file: the limit of common file systems.
const MAX_COMPONENT_BYTES: usize = 255;

/// Deepest nesting of folders.
const MAX_NESTING: usize = 32;

/// A folder that macOS adds to archives.
const IGNORED_FOLDER: &str = "__MACOSX/";

const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
const END_LENGTH: usize = 22;

/// The bit that marks a name as UTF-8.
const UTF8_FLAG: u16 = 0x0800;

/// The delimiters of a signature that MCP bundles may have after the archive.
const BUNDLE_SIGNATURE: (&[u8], &[u8]) = (b"MCPB_SIG_V1", b"MCPB_SIG_END");

/// Why an archive is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It is not a zip file, or readers would interpret it differently.
    #[error("the archive is malformed: {0}")]
    Malformed(String),
    /// A name is unsafe.
    #[error("the name {} in the archive is refused: {problem}", escape_for_display(name))]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two entries have the same name, or names that some file systems treat as equal.
    #[error("the archive has {} and {}", escape_for_display(first), escape_for_display(second))]
    Duplicate {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// An entry is a link or a device.
    #[error("the entry {} is not a file or a folder", escape_for_display(name))]
    Link {
        /// The name of the entry.
        name: String,
    },
    /// An entry is encrypted or uses a compression method other than deflate.
    #[error("the entry {} is encrypted or compressed with an unknown method", escape_for_display(name))]
    Method {
        /// The name of the entry.
        name: String,
    },
    /// Entries share bytes.
    #[error("entries of the archive overlap")]
    Overlap,
    /// A limit is exceeded.
    #[error("the archive has more than {most} {what}")]
    Limit {
        /// What exceeds it.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// There is not exactly one manifest at the root.
    #[error("expected a manifest.json at the top of the archive or in its only folder: {0}")]
    Root(&'static str),
}

impl ArchiveError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Malformed(_) => code::ARCHIVE,
            Self::Name { .. } => code::ARCHIVE_NAME,
            Self::Duplicate { .. } => code::ARCHIVE_DUPLICATE,
            Self::Link { .. } => code::ARCHIVE_LINK,
            Self::Method { .. } => code::ARCHIVE_METHOD,
            Self::Overlap => code::ARCHIVE_OVERLAP,
            Self::Limit { .. } => code::ARCHIVE_LIMIT,
            Self::Root(_) => code::ARCHIVE_ROOT,
        }
    }
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Its checked path: relative, with `/`, without `..`.
    pub path: String,
    /// Whether it is marked as executable.
    pub executable: bool,
    index: usize,
}

/// An archive whose names and structure were checked.
#[derive(Debug)]
pub struct Archive<'b> {
    zip: ZipArchive<Cursor<&'b [u8]>>,
    files: Vec<ArchiveFile>,
    /// Size of the archive, which limits its inflated size.
    size: u64,
}

impl<'b> Archive<'b> {
    /// Checks an archive: its structure, names, kinds and counts. Inflates nothing yet.
    pub fn open(bytes: &'b [u8]) -> Result<Self, ArchiveError> {
        let bytes = without_signature(bytes);
        if bytes.len() as u64 > MAX_ARCHIVE_BYTES {
            return Err(ArchiveError::Limit { what: "bytes", most: MAX_ARCHIVE_BYTES });
        }
        check_end(bytes)?;
        let malformed = |error: zip::result::ZipError| ArchiveError::Malformed(escape_for_display(&error.to_string()));
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut zip = ZipArchive::with_config(config, Cursor::new(bytes)).map_err(malformed)?;
        if zip.has_duplicate_names() {
            let name = "two entries of the same name".to_owned();
            return Err(ArchiveError::Duplicate { first: name.clone(), second: name });
        }
        if zip.has_overlapping_entries().map_err(malformed)? {
            return Err(ArchiveError::Overlap);
        }
        zip.validate_header_consistency().map_err(malformed)?;
        let files = check_entries(&zip)?;
        Ok(Self { zip, files, size: bytes.len() as u64 })
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &[ArchiveFile] {
        &self.files
    }

    /// Whether there is a file at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// The content of the file at `path`, if it is there and has at most `most` bytes.
    pub fn read(&mut self, path: &str, most: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
        let Some(file) = self.files.iter().find(|file| file.path == path).cloned() else { return Ok(None) };
        let bytes = self.inflate(&file, most)?;
        Ok(Some(bytes))
    }

    /// The folder that contains the tool: the root of the archive, or its only folder. Ends with `/` unless it is the root.
    pub fn root(&self) -> Result<String, ArchiveError> {
        if self.has("manifest.json") {
            return Ok(String::new());
        }
        let mut tops = self.files.iter().map(|file| file.path.split_once('/').map_or("", |(top, _)| top));
        let Some(top) = tops.next() else { return Err(ArchiveError::Root("the archive is empty")) };
        if top.is_empty() || tops.any(|other| other != top) {
            return Err(ArchiveError::Root("there are several files or folders at the top"));
        }
        let root = format!("{top}/");
        if self.has(&format!("{root}manifest.json")) {
            Ok(root)
        } else {
            Err(ArchiveError::Root("the only folder has no manifest.json"))
        }
    }

    /// Writes the files below `root` into a folder, which must be empty.
    pub(crate) fn unpack(&mut self, root: &str, into: &Path) -> Result<(), super::InstallError> {
        let mut total = 0;
        for file in self.files.clone() {
            let Some(path) = file.path.strip_prefix(root) else { continue };
            let left = MAX_FOLDER_BYTES - total;
            let bytes = self.inflate(&file, left)?;
            total += bytes.len() as u64;
            if total > RATIO_FREE_BYTES && total / MAX_RATIO > self.size {
                return Err(ArchiveError::Limit { what: "bytes for each byte of the archive", most: MAX_RATIO }.into());
            }
            write_file(into, path, &bytes, file.executable)?;
        }
        Ok(())
    }

    fn inflate(&mut self, file: &ArchiveFile, most: u64) -> Result<Vec<u8>, ArchiveError> {
        let malformed = |problem: String| {
            ArchiveError::Malformed(format!("{}: {}", escape_for_display(&file.path), escape_for_display(&problem)))
        };
        let limit = most.min(RATIO_FREE_BYTES.max(self.size.saturating_mul(MAX_RATIO)));
        let entry = self.zip.by_index(file.index).map_err(|error| malformed(error.to_string()))?;
        let declared = entry.size();
        if declared > limit {
            return Err(ArchiveError::Limit { what: "bytes", most: limit });
        }
        let mut bytes = Vec::new();
        // The size in the header is not trusted, so one byte more than allowed is read.
        entry.take(limit + 1).read_to_end(&mut bytes).map_err(|error| malformed(error.to_string()))?;
        if bytes.len() as u64 > limit {
            return Err(ArchiveError::Limit { what: "bytes", most: limit });
        }
        if bytes.len() as u64 != declared {
            return Err(malformed(format!("{} bytes where the header says {declared}", bytes.len())));
        }
        Ok(bytes)
    }
}

/// The archive without the signature that may follow it in an MCP bundle. The signature is not checked, because nothing here relies on it.
fn without_signature(bytes: &[u8]) -> &[u8] {
    let (head, foot) = BUNDLE_SIGNATURE;
    if !bytes.ends_with(foot) {
        return bytes;
    }
    bytes.windows(head.len()).rposition(|piece| piece == head).map_or(bytes, |at| &bytes[..at])
}

/// The end record must be at the end of the file, with the central directory right before it, so that there is one way to read the
/// archive, and no data before or after it. Archives with more than 65,534 entries or 4 GiB use another record, and exceed the limits
/// anyway.
fn check_end(bytes: &[u8]) -> Result<(), ArchiveError> {
    let malformed = |problem: &str| Err(ArchiveError::Malformed(problem.to_owned()));
    let Some(at) = bytes.windows(END_SIGNATURE.len()).rposition(|piece| piece == END_SIGNATURE) else {
        return malformed("it has no end record");
    };
    let Some(end) = bytes.get(at..at + END_LENGTH) else { return malformed("the end record is cut") };
    let two = |offset: usize| u16::from_le_bytes([end[offset], end[offset + 1]]);
    let four = |offset: usize| u32::from_le_bytes([end[offset], end[offset + 1], end[offset + 2], end[offset + 3]]) as usize;
    let (disk, directory_disk, here, entries) = (two(4), two(6), two(8), two(10));
    let (size, offset, comment) = (four(12), four(16), usize::from(two(20)));
    if at + END_LENGTH + comment != bytes.len() {
        return malformed("data follows the end record");
    }
    if disk != 0 || directory_disk != 0 || here != entries {
        return malformed("it has several parts");
    }
    if offset.checked_add(size) != Some(at) {
        return malformed("the directory does not end at the end record");
    }
    if usize::from(entries) > MAX_ENTRIES {
        return Err(ArchiveError::Limit { what: "entries", most: MAX_ENTRIES as u64 });
    }
    Ok(())
}

fn check_entries(zip: &ZipArchive<Cursor<&[u8]>>) -> Result<Vec<ArchiveFile>, ArchiveError> {
    let mut files = Vec::new();
    // Keyed by the name that a case-insensitive file system with Unicode normalization would use.
    let mut seen: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index).map_err(|error| ArchiveError::Malformed(escape_for_display(&error.to_string())))?;
        let name = check_name(entry.name_raw(), entry.flags().as_u16() & UTF8_FLAG != 0)?;
        if name.starts_with(IGNORED_FOLDER) {
            continue;
        }
        let is_folder = name.ends_with('/');
        let mode = entry.external_attributes() >> 16;
        check_kind(&name, mode, is_folder)?;
        let method = matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated);
        if entry.encrypted() || !method {
            return Err(ArchiveError::Method { name });
        }
        if is_folder && entry.size() != 0 {
            return Err(ArchiveError::Malformed(format!("the folder {} has content", escape_for_display(&name))));
        }
        let path = name.trim_end_matches('/').to_owned();
        let folded = normalize(&path.to_lowercase());
        if let Some((first, _)) = seen.insert(folded, (name.clone(), is_folder)) {
            return Err(ArchiveError::Duplicate { first, second: name });
        }
        if !is_folder {
            if files.len() == MAX_FILES {
                return Err(ArchiveError::Limit { what: "files", most: MAX_FILES as u64 });
            }
            let executable = mode & 0o111 != 0;
            files.push(ArchiveFile { path, executable, index });
        }
    }
    // A file cannot be a parent folder of another one, regardless of case.
    for file in &files {
        let folded = normalize(&file.path.to_lowercase());
        for (at, _) in folded.match_indices('/') {
            if let Some((first, false)) = seen.get(&folded[..at]) {
                return Err(ArchiveError::Duplicate { first: first.clone(), second: file.path.clone() });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn check_name(raw: &[u8], marked_utf8: bool) -> Result<String, ArchiveError> {
    let shown = || String::from_utf8_lossy(raw).into_owned();
    let refused = |problem| Err(ArchiveError::Name { name: shown(), problem });
    let Ok(name) = std::str::from_utf8(raw) else { return refused("it is not UTF-8") };
    // Without the UTF-8 flag, readers decode such a name as code page 437.
    if !marked_utf8 && !name.is_ascii() {
        return refused("it is not marked as UTF-8");
    }
    if name.is_empty() || name.len() > MAX_PATH_BYTES {
        return refused("it is empty or too long");
    }
    if name.contains('\\') {
        return refused("it has a backslash");
    }
    // Drive letters, and alternate data streams.
    if name.contains(':') {
        return refused("it has a colon");
    }
    if name.chars().any(char::is_control) {
        return refused("it has control characters");
    }
    if name.starts_with('/') {
        return refused("it is absolute");
    }
    let path = name.strip_suffix('/').unwrap_or(name);
    if path.split('/').count() > MAX_NESTING {
        return refused("it nests too deeply");
    }
    for part in path.split('/') {
        match part {
            "" => return refused("it has an empty part"),
            "." | ".." => return refused("it has `.` or `..`"),
            part if part.len() > MAX_COMPONENT_BYTES => return refused("a part is too long"),
            _ => {}
        }
    }
    Ok(name.to_owned())
}

/// Accepts only files and folders. The kind is in the upper bits of the mode, whatever system the entry claims.
fn check_kind(name: &str, mode: u32, is_folder: bool) -> Result<(), ArchiveError> {
    const KIND: u32 = 0o170_000;
    const FOLDER: u32 = 0o040_000;
    const FILE: u32 = 0o100_000;
    let usable = match mode & KIND {
        0 => true,
        FOLDER => is_folder,
        FILE => !is_folder,
        _ => false,
    };
    if usable { Ok(()) } else { Err(ArchiveError::Link { name: name.to_owned() }) }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
