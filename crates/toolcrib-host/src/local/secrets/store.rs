//! The chain of sources.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toolcrib_core::clock::UnixTime;
use toolcrib_core::local::names::{is_name, is_slug};

use super::encrypted::check_name;
use super::{EncryptedFile, MAX_SECRET_BYTES, Secret, SecretError};
use crate::local::ContentHash;
use crate::local::state_file::{Owners, read_private};

/// The prefix of environment variables with secrets.
pub const ENVIRONMENT_PREFIX: &str = "TOOLCRIB_SECRET_";

/// The source of a secret, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A variable `TOOLCRIB_SECRET_<TOOL>__<NAME>`.
    Environment,
    /// A file of the systemd credentials directory.
    Credentials,
    /// A private file, from the settings or from `secret set --from-file`.
    Reference,
    /// The encrypted file.
    Encrypted,
}

impl Source {
    /// Whether this program writes it.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Encrypted)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "environment",
            Self::Credentials => "systemd credentials",
            Self::Reference => "file reference",
            Self::Encrypted => "encrypted file",
        })
    }
}

/// The result of looking up a secret.
#[derive(Debug)]
pub enum Lookup {
    /// The value.
    Value {
        /// The value itself.
        secret: Secret,
        /// The source that has it.
        source: Source,
    },
    /// No source contains it.
    Missing,
    /// A value is stored for another content: the tool changed since the secret was entered.
    BoundToOther {
        /// The content that it was entered for.
        bound_to: ContentHash,
    },
}

/// A secret without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretState {
    /// The tool.
    pub tool: String,
    /// The credential.
    pub name: String,
    /// The source that has it.
    pub source: Source,
    /// The content that it is bound to. Only the encrypted file binds secrets.
    pub bound_to: Option<ContentHash>,
    /// When it was entered, as far as known.
    pub set_at: Option<UnixTime>,
    /// The file with the value, if it is a reference.
    pub file: Option<PathBuf>,
}

/// A source, for `doctor`.
#[derive(Debug)]
pub struct SourceState {
    /// The source.
    pub source: Source,
    /// Its location: a prefix, a folder or a file.
    pub place: String,
    /// How many secrets it has.
    pub secrets: usize,
    /// Why it cannot be used, if so.
    pub problem: Option<SecretError>,
}

/// The sources of secrets. The [module](super) explains their order.
#[derive(Debug)]
pub struct SecretStore {
    environment: BTreeMap<String, Secret>,
    credentials: Option<PathBuf>,
    references: BTreeMap<(String, String), PathBuf>,
    file: EncryptedFile,
}

impl SecretStore {
    /// Creates a store with the encrypted file as its only source.
    pub const fn new(file: EncryptedFile) -> Self {
        Self { environment: BTreeMap::new(), credentials: None, references: BTreeMap::new(), file }
    }

    /// Adds the variables whose names begin with [`ENVIRONMENT_PREFIX`]. The others are dropped.
    #[must_use]
    pub fn with_environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = variables.into_iter().filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX));
        self.environment.extend(ours.map(|(name, value)| (name, Secret::new(value))));
        self
    }

    /// Adds the systemd credentials directory.
    #[must_use]
    pub fn with_credentials_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.credentials = Some(folder.into());
        self
    }

    /// Adds files from the settings, keyed by `tool.name`. Fails on an invalid key.
    pub fn with_references(mut self, references: impl IntoIterator<Item = (String, PathBuf)>) -> Result<Self, SecretError> {
        for (key, path) in references {
            let (tool, name) = key.split_once('.').unwrap_or((&key, ""));
            check_name("tool", tool)?;
            check_name("credential", name)?;
            self.references.insert((tool.to_owned(), name.to_owned()), path);
        }
        Ok(self)
    }

    /// The encrypted file.
    pub const fn file(&self) -> &EncryptedFile {
        &self.file
    }

    /// Looks up a secret for one content of a tool. An unusable value in a source is an error, because the next source may contain an old
    /// value.
    pub fn get(&self, tool: &str, name: &str, content: &ContentHash) -> Result<Lookup, SecretError> {
        check_name("tool", tool)?;
        check_name("credential", name)?;
        match self.read_only(tool, name)? {
            Some((secret, source)) => Ok(Lookup::Value { secret, source }),
            None => self.file.get(tool, name, content),
        }
    }

    /// Stores a secret in the encrypted file. A read-only source with the same secret takes precedence: see [`state`](Self::state).
    pub fn set(&self, tool: &str, name: &str, content: &ContentHash, value: &Secret, now: UnixTime) -> Result<(), SecretError> {
        self.file.set(tool, name, content, value, now)
    }

    /// Stores a reference to a private file instead of the secret.
    pub fn set_reference(
        &self,
        tool: &str,
        name: &str,
        content: &ContentHash,
        path: &Path,
        now: UnixTime,
    ) -> Result<(), SecretError> {
        self.file.set_reference(tool, name, content, path, now)
    }

    /// Removes a secret from the encrypted file. Returns whether there was one.
    pub fn unset(&self, tool: &str, name: &str) -> Result<bool, SecretError> {
        self.file.unset(tool, name)
    }

    /// Removes all secrets of a tool from the encrypted file, and returns their number.
    pub fn unset_tool(&self, tool: &str) -> Result<usize, SecretError> {
        self.file.unset_tool(tool)
    }

    /// Binds the stored secrets of a tool that were entered for `from` to the content `to`. Call it only after the user approved the
    /// change.
    pub fn rebind(&self, tool: &str, from: &ContentHash, to: &ContentHash) -> Result<usize, SecretError> {
        self.file.rebind(tool, from, to)
    }

    /// The source of a secret, without its value. `None` if no source contains it.
    pub fn state(&self, tool: &str, name: &str) -> Result<Option<SecretState>, SecretError> {
        let read_only = self.read_only(tool, name)?.map(|(_, source)| SecretState {
            tool: tool.to_owned(),
            name: name.to_owned(),
            source,
            bound_to: None,
            set_at: None,
            file: self.references.get(&(tool.to_owned(), name.to_owned())).filter(|_| source == Source::Reference).cloned(),
        });
        match read_only {
            Some(state) => Ok(Some(state)),
            None => Ok(self.file.list()?.into_iter().find(|state| state.tool == tool && state.name == name)),
        }
    }

    /// The secrets of all sources that can be listed, without values. Variables are not listed, since upper case hides the credential's
    /// name: query each declared credential with [`state`](Self::state).
    pub fn list(&self) -> Result<Vec<SecretState>, SecretError> {
        let state = |tool: &str, name: &str, source, file: Option<&PathBuf>| SecretState {
            tool: tool.to_owned(),
            name: name.to_owned(),
            source,
            bound_to: None,
            set_at: None,
            file: file.cloned(),
        };
        let credentials = self.credential_files();
        let mut all: Vec<_> = credentials.iter().map(|(tool, name)| state(tool, name, Source::Credentials, None)).collect();
        all.extend(self.references.iter().map(|((tool, name), file)| state(tool, name, Source::Reference, Some(file))));
        all.extend(self.file.list()?);
        all.sort_by(|left, right| (&left.tool, &left.name, left.source).cmp(&(&right.tool, &right.name, right.source)));
        Ok(all)
    }

    /// The sources in order, and whether each is usable.
    pub fn sources(&self) -> Vec<SourceState> {
        let mut sources = vec![SourceState {
            source: Source::Environment,
            place: format!("{ENVIRONMENT_PREFIX}<TOOL>__<NAME>"),
            secrets: self.environment.len(),
            problem: None,
        }];
        if let Some(folder) = &self.credentials {
            sources.push(SourceState {
                source: Source::Credentials,
                place: folder.display().to_string(),
                secrets: self.credential_files().len(),
                problem: None,
            });
        }
        let problem = self.references.keys().find_map(|(tool, name)| self.reference(tool, name).err());
        sources.push(SourceState {
            source: Source::Reference,
            place: "settings".to_owned(),
            secrets: self.references.len(),
            problem,
        });
        let (secrets, problem) = match self.file.list() {
            Ok(list) => (list.len(), self.file.verify().err()),
            Err(problem) => (0, Some(problem)),
        };
        let place = format!("{} (key: {})", self.file.path().display(), self.file.provider().place());
        sources.push(SourceState { source: Source::Encrypted, place, secrets, problem });
        sources
    }

    fn read_only(&self, tool: &str, name: &str) -> Result<Option<(Secret, Source)>, SecretError> {
        if let Some(secret) = self.variable(tool, name)? {
            return Ok(Some((secret, Source::Environment)));
        }
        if let Some(secret) = self.credential(tool, name)? {
            return Ok(Some((secret, Source::Credentials)));
        }
        Ok(self.reference(tool, name)?.map(|secret| (secret, Source::Reference)))
    }

    fn variable(&self, tool: &str, name: &str) -> Result<Option<Secret>, SecretError> {
        let Some(variable) = Self::variable_name(tool, name) else { return Ok(None) };
        // Shells and unit files unset a variable by making it empty.
        let Some(value) = self.environment.get(&variable).filter(|value| !value.expose().is_empty()) else { return Ok(None) };
        checked(value.duplicate(), || format!("the variable {variable}")).map(Some)
    }

    /// The variable of a secret: upper case, `_` for `-`, and two `_` between tool and name.
    ///
    /// `None` for tools whose variable could be that of another tool: an id with `_`, upper-case letters or `--`. With a single `_`
    /// between them, the credential `b_c` of a tool `a` would get the secret `c` of the tool `a-b`.
    pub fn variable_name(tool: &str, name: &str) -> Option<String> {
        if !is_slug(tool) || tool.contains("--") || !is_name(tool) || !is_name(name) {
            return None;
        }
        let upper = |text: &str| text.to_ascii_uppercase().replace('-', "_");
        Some(format!("{ENVIRONMENT_PREFIX}{}__{}", upper(tool), upper(name)))
    }

    fn credential(&self, tool: &str, name: &str) -> Result<Option<Secret>, SecretError> {
        let Some(folder) = &self.credentials else { return Ok(None) };
        // Names contain no dots or separators, so the file name is unambiguous and stays in the folder. The service manager chose owner
        // and mode.
        read_secret(&folder.join(format!("{tool}.{name}")), Owners::Any)
    }

    fn credential_files(&self) -> Vec<(String, String)> {
        let Some(folder) = &self.credentials else { return Vec::new() };
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let pair = |name: String| {
            let (tool, name) = name.split_once('.')?;
            (is_name(tool) && is_name(name)).then(|| (tool.to_owned(), name.to_owned()))
        };
        names.filter_map(pair).collect()
    }

    fn reference(&self, tool: &str, name: &str) -> Result<Option<Secret>, SecretError> {
        let Some(path) = self.references.get(&(tool.to_owned(), name.to_owned())) else { return Ok(None) };
        read_reference(path).map(Some)
    }
}

/// Reads the file of a reference. A missing file is an error: otherwise an older value of the next source would be used.
pub(super) fn read_reference(path: &Path) -> Result<Secret, SecretError> {
    let missing = || SecretError::SourceValue { place: path.display().to_string(), why: "the file does not exist" };
    read_secret(path, Owners::UserOrRoot)?.ok_or_else(missing)
}

/// Reads a file with one secret. One line break at its end does not belong to the secret.
fn read_secret(path: &Path, owners: Owners) -> Result<Option<Secret>, SecretError> {
    let Some(mut bytes) = read_private(path, MAX_SECRET_BYTES as u64 + 2, owners)? else { return Ok(None) };
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    let place = || path.display().to_string();
    let not_text = || SecretError::SourceValue { place: place(), why: "the value is not UTF-8" };
    let secret = Secret::from_utf8(bytes).ok_or_else(not_text)?;
    checked(secret, place).map(Some)
}

fn checked(secret: Secret, place: impl FnOnce() -> String) -> Result<Secret, SecretError> {
    match secret.check() {
        Ok(()) => Ok(secret),
        Err(SecretError::Value { why }) => Err(SecretError::SourceValue { place: place(), why }),
        Err(other) => Err(other),
    }
}
