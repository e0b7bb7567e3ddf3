//! The content hash of a tool folder.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use toolcrib_core::codes::{Code, install as code};
use toolcrib_core::hex;
use toolcrib_core::text::escape_for_display;

/// The prefix of a content hash in text form.
pub const CONTENT_HASH_PREFIX: &str = "sha256:";

/// Most files of a tool folder, and most folders in it. Node tools include their packages; a larger folder is a build tree.
pub const MAX_FILES: usize = 20_000;

/// Most bytes of all files of a tool folder together: as much as can be hashed in about a second.
pub const MAX_FOLDER_BYTES: u64 = 256 * 1024 * 1024;

/// Longest path within a folder, in bytes. Many systems refuse longer ones.
pub const MAX_PATH_BYTES: usize = 1_024;

/// Domain separation tag of the hash.
const DOMAIN: &[u8] = b"toolcrib/tool-folder/1";

/// The only entry that is skipped: the git history at the top of the folder.
const SKIPPED: &str = ".git";

/// SHA-256 over the names, executable bits and contents of all files of a tool folder.
///
/// Permissions and secrets are bound to it: when a manifest or handler changes, the tool loses both until the user grants them again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// A hash from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CONTENT_HASH_PREFIX}{}", alloy_primitives::hex::encode(self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// A text that is not `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a content hash: expected `sha256:` and 64 lower-case hex digits")]
pub struct ContentHashError;

impl FromStr for ContentHash {
    type Err = ContentHashError;

    fn from_str(text: &str) -> Result<Self, ContentHashError> {
        let digits = text.strip_prefix(CONTENT_HASH_PREFIX).ok_or(ContentHashError)?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ContentHashError);
        }
        let bytes = hex::decode(digits).ok_or(ContentHashError)?;
        bytes.try_into().map(Self).map_err(|_| ContentHashError)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The kind of a folder entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link that stays within the folder.
    Link,
}

/// A file or link of a tool folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The path relative to the folder, with `/` on every system. Untrusted input.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// SHA-256 of the content, or of the target of a link.
    pub sha256: [u8; 32],
    /// Size in bytes of the content, or of the target of a link.
    pub size: u64,
}

/// Why a folder has no content hash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// Something could not be read.
    #[error("cannot read {}: {source}", escape_for_display(&path.to_string_lossy()))]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There are more than [`MAX_FILES`] files or folders.
    #[error("the folder has more than {MAX_FILES} files or folders")]
    TooManyFiles,
    /// The files have more than [`MAX_FOLDER_BYTES`] bytes.
    #[error("the files of the folder have more than {MAX_FOLDER_BYTES} bytes")]
    TooLarge,
    /// A path is not UTF-8 or longer than [`MAX_PATH_BYTES`].
    #[error("the path {} is not UTF-8 or longer than {MAX_PATH_BYTES} bytes", escape_for_display(path))]
    Path {
        /// The path, with invalid parts replaced.
        path: String,
    },
    /// A symbolic link points out of the folder, or to something that the hash does not cover.
    #[error("the link {} leads out of the folder", escape_for_display(path))]
    Link {
        /// The path of the link.
        path: String,
    },
    /// An entry that is not a file, folder or link.
    #[error("{} is not a file, a folder or a link", escape_for_display(path))]
    Special {
        /// The path.
        path: String,
    },
}

impl FolderError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Io { .. } => code::IO,
            Self::TooManyFiles | Self::TooLarge | Self::Path { .. } => code::FOLDER_LIMIT,
            Self::Link { .. } => code::FOLDER_LINK,
            Self::Special { .. } => code::FOLDER_SPECIAL,
        }
    }
}

/// Hashes all files of a folder.
///
/// The hash is SHA-256 over a domain tag and, in the order of the bytes of the paths, for each file and link: the length of the path as
/// eight bytes in big-endian order, the path, one byte for the kind (0 file, 1 executable file, 2 link), and the SHA-256 of the content or
/// of the target of the link. Only a `.git` at the top of the folder is skipped. Empty folders do not count.
pub fn hash_folder(path: &Path) -> Result<ContentHash, FolderError> {
    Ok(hash_entries(&list_folder(path)?))
}

/// The hash of a folder with these entries, which must be sorted as [`list_folder`] does.
pub fn hash_entries(entries: &[FolderEntry]) -> ContentHash {
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    for entry in entries {
        hash.update((entry.path.len() as u64).to_be_bytes());
        hash.update(entry.path.as_bytes());
        hash.update([match entry.kind {
            EntryKind::File => 0,
            EntryKind::Executable => 1,
            EntryKind::Link => 2,
        }]);
        hash.update(entry.sha256);
    }
    ContentHash(hash.finalize().into())
}

/// All files and links of a folder with their hashes, sorted by the bytes of their paths.
pub fn list_folder(folder: &Path) -> Result<Vec<FolderEntry>, FolderError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| FolderError::Io { path, source }
    };
    let canonical = fs::canonicalize(folder).map_err(io_error(folder))?;
    let mut entries = Vec::new();
    let (mut folders, mut bytes) = (0, 0);
    let mut left = vec![(canonical.clone(), String::new())];
    while let Some((place, prefix)) = left.pop() {
        folders += 1;
        if folders > MAX_FILES {
            return Err(FolderError::TooManyFiles);
        }
        for entry in fs::read_dir(&place).map_err(io_error(&place))? {
            let entry = entry.map_err(io_error(&place))?;
            let file_name = entry.file_name();
            let path = format!("{prefix}{}", file_name.to_string_lossy());
            if path == SKIPPED {
                continue;
            }
            if file_name.to_str().is_none() || path.len() > MAX_PATH_BYTES {
                return Err(FolderError::Path { path });
            }
            let at = entry.path();
            let metadata = fs::symlink_metadata(&at).map_err(io_error(&at))?;
            if metadata.is_dir() {
                left.push((at, format!("{path}/")));
                // Checked here as well, because a single folder can contain millions of entries.
                if left.len() > MAX_FILES {
                    return Err(FolderError::TooManyFiles);
                }
                continue;
            }
            if entries.len() == MAX_FILES {
                return Err(FolderError::TooManyFiles);
            }
            let (kind, sha256, size) = if metadata.is_symlink() {
                let target = fs::read_link(&at).map_err(io_error(&at))?;
                if !stays_within(&path, &target) || !leads_within(&at, &canonical) {
                    return Err(FolderError::Link { path });
                }
                let target = target.as_os_str().as_encoded_bytes();
                (EntryKind::Link, Sha256::digest(target).into(), target.len() as u64)
            } else if metadata.is_file() {
                let (sha256, size) =
                    hash_file(&at, MAX_FOLDER_BYTES - bytes).map_err(io_error(&at))?.ok_or(FolderError::TooLarge)?;
                (if is_executable(&metadata) { EntryKind::Executable } else { EntryKind::File }, sha256, size)
            } else {
                return Err(FolderError::Special { path });
            };
            bytes += size;
            if bytes > MAX_FOLDER_BYTES {
                return Err(FolderError::TooLarge);
            }
            entries.push(FolderEntry { path, kind, sha256, size });
        }
    }
    entries.sort_unstable_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    Ok(entries)
}

/// The hash and size of a file; `None` if it has more than `most` bytes.
fn hash_file(path: &Path, most: u64) -> io::Result<Option<([u8; 32], u64)>> {
    let mut file = open_file(path)?.take(most.saturating_add(1));
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0_u64, vec![0; 64 * 1024]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok((size <= most).then(|| (hash.finalize().into(), size)));
        }
        hash.update(&piece[..count]);
        size += count as u64;
    }
}

/// Opens a regular file. A link or a pipe that replaced it meanwhile is refused, without blocking.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;

        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

#[cfg(unix)]
pub(super) fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
pub(super) fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// Whether a link at `path`, read as text, stays within the folder and does not point to a skipped entry.
fn stays_within(path: &str, target: &Path) -> bool {
    let mut parts: Vec<_> = path.split('/').collect();
    // Remove the name of the link itself.
    parts.pop();
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            Component::Normal(part) => match part.to_str() {
                Some(part) => parts.push(part),
                None => return false,
            },
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    parts.first() != Some(&SKIPPED)
}

/// Whether the resolved target of a link is within the folder. For a dangling link, only its text is checked.
fn leads_within(link: &Path, folder: &Path) -> bool {
    match fs::canonicalize(link) {
        Ok(target) => target.strip_prefix(folder).is_ok_and(|rest| !rest.starts_with(SKIPPED)),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
