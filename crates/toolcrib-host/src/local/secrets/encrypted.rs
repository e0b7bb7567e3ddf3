//! The encrypted file of secrets.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::local::names::is_name;

use super::key::associated;
use super::store::read_reference;
use super::{DataKey, Key, Lookup, Secret, SecretError, SecretState, Source};
use crate::local::ContentHash;
use crate::local::state_file::StateFolder;

/// The name of the file.
pub const SECRETS_FILE: &str = "secrets.json";

/// Most secrets. A user enters each one; a host with 100 tools has a few hundred.
pub const MAX_SECRETS: usize = 1_024;

/// The largest file. It is read at every call of a tool that has secrets.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// The lock of the file.
const LOCK_FILE: &str = ".secrets.lock";

/// The version of the format, which is associated data of every value.
const FORMAT: u32 = 1;

/// Secrets in one file, each encrypted under one data key and bound to the content of its tool.
#[derive(Debug)]
pub struct EncryptedFile {
    folder: StateFolder,
    provider: Box<dyn DataKey>,
    /// The key after its first use, because deriving it from a passphrase is slow.
    key: Mutex<Option<Arc<Key>>>,
}

impl EncryptedFile {
    /// Opens the file in this folder, which may not exist yet.
    pub fn new(folder: impl Into<PathBuf>, provider: Box<dyn DataKey>) -> Self {
        Self::in_folder(StateFolder::new(folder), provider)
    }

    pub(super) fn in_folder(folder: StateFolder, provider: Box<dyn DataKey>) -> Self {
        Self { folder, provider, key: Mutex::new(None) }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.file(SECRETS_FILE)
    }

    /// Where the data key comes from.
    pub fn provider(&self) -> &dyn DataKey {
        &*self.provider
    }

    /// Returns a secret. The key is needed only if there is a value for this content.
    pub fn get(&self, tool: &str, name: &str, content: &ContentHash) -> Result<Lookup, SecretError> {
        let file = self.read()?;
        let Some(entry) = file.find(tool, name) else { return Ok(Lookup::Missing) };
        if entry.bound_to != *content {
            return Ok(Lookup::BoundToOther { bound_to: entry.bound_to });
        }
        let key = self.key(&file)?;
        let value = entry.open(&key)?;
        match &entry.file {
            None => Ok(Lookup::Value { secret: value, source: Source::Encrypted }),
            Some(_) => Ok(Lookup::Value { secret: read_reference(Path::new(value.expose()))?, source: Source::Reference }),
        }
    }

    /// Stores a secret for one content of a tool, replacing an existing one.
    pub fn set(&self, tool: &str, name: &str, content: &ContentHash, value: &Secret, now: UnixTime) -> Result<(), SecretError> {
        self.put(Entry::new(tool, name, *content, now, None), value)
    }

    /// Stores a reference instead of a value: the absolute path of a private file, which must be readable now. The path is authenticated,
    /// so that no other program can redirect it.
    pub fn set_reference(
        &self,
        tool: &str,
        name: &str,
        content: &ContentHash,
        path: &Path,
        now: UnixTime,
    ) -> Result<(), SecretError> {
        let text = path.to_str().filter(|_| path.is_absolute());
        let text = text.ok_or(SecretError::Value { why: "the path of the file is not absolute, or not UTF-8" })?;
        read_reference(path)?;
        self.put(Entry::new(tool, name, *content, now, Some(text.to_owned())), &Secret::new(text.to_owned()))
    }

    fn put(&self, entry: Entry, value: &Secret) -> Result<(), SecretError> {
        check_name("tool", &entry.tool)?;
        check_name("credential", &entry.name)?;
        value.check()?;
        self.change(|file, store| {
            let key = store.key(file)?;
            file.key = Some(key.id());
            let mut entry = entry;
            entry.seal(&key, value)?;
            match file.secrets.binary_search_by(|other| other.order(&entry.tool, &entry.name)) {
                Ok(place) => file.secrets[place] = entry,
                Err(_) if file.secrets.len() >= MAX_SECRETS => return Err(SecretError::TooMany),
                Err(place) => file.secrets.insert(place, entry),
            }
            Ok(())
        })
    }

    /// Removes a secret. Returns whether there was one.
    pub fn unset(&self, tool: &str, name: &str) -> Result<bool, SecretError> {
        self.remove(|entry| entry.tool == tool && entry.name == name).map(|removed| removed > 0)
    }

    /// Removes all secrets of a tool, and returns their number.
    pub fn unset_tool(&self, tool: &str) -> Result<usize, SecretError> {
        self.remove(|entry| entry.tool == tool)
    }

    /// Binds the secrets of a tool that were entered for `from` to the content `to`, and returns their number. Call it only after the user
    /// approved the change.
    pub fn rebind(&self, tool: &str, from: &ContentHash, to: &ContentHash) -> Result<usize, SecretError> {
        if !self.read()?.secrets.iter().any(|entry| entry.tool == tool && entry.bound_to == *from) {
            return Ok(0);
        }
        self.change(|file, store| {
            let key = store.key(file)?;
            let mut moved = 0;
            for entry in file.secrets.iter_mut().filter(|entry| entry.tool == tool && entry.bound_to == *from) {
                let value = entry.open(&key)?;
                entry.bound_to = *to;
                entry.seal(&key, &value)?;
                moved += 1;
            }
            Ok(moved)
        })
    }

    /// The stored secrets without their values, by tool and name. Needs no key.
    pub fn list(&self) -> Result<Vec<SecretState>, SecretError> {
        let state = |entry: Entry| SecretState {
            tool: entry.tool,
            name: entry.name,
            source: if entry.file.is_some() { Source::Reference } else { Source::Encrypted },
            bound_to: Some(entry.bound_to),
            set_at: Some(entry.set_at),
            file: entry.file.map(PathBuf::from),
        };
        Ok(self.read()?.secrets.into_iter().map(state).collect())
    }

    /// The public id of the key that encrypts the file. `None` while nothing is stored.
    pub fn key_id(&self) -> Result<Option<String>, SecretError> {
        let file = self.read()?;
        Ok(file.key.filter(|_| !file.secrets.is_empty()))
    }

    /// Checks that every stored value can be decrypted, and every referenced file can be read.
    pub fn verify(&self) -> Result<usize, SecretError> {
        let file = self.read()?;
        if file.secrets.is_empty() {
            return Ok(0);
        }
        let key = self.key(&file)?;
        for entry in &file.secrets {
            let value = entry.open(&key)?;
            if entry.file.is_some() {
                read_reference(Path::new(value.expose()))?;
            }
        }
        Ok(file.secrets.len())
    }

    fn remove(&self, is_meant: impl Fn(&Entry) -> bool) -> Result<usize, SecretError> {
        if !self.read()?.secrets.iter().any(&is_meant) {
            return Ok(0);
        }
        self.change(|file, _| {
            let before = file.secrets.len();
            file.secrets.retain(|entry| !is_meant(entry));
            Ok(before - file.secrets.len())
        })
    }

    /// Reads, changes and writes the file under its lock.
    fn change<T>(&self, change: impl FnOnce(&mut File, &Self) -> Result<T, SecretError>) -> Result<T, SecretError> {
        let lock = self.folder.lock(LOCK_FILE)?;
        let mut file = self.read()?;
        let result = change(&mut file, self)?;
        let mut bytes = serde_json::to_vec_pretty(&file).map_err(|error| malformed(&self.path(), &error.to_string()))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(SecretError::TooMany);
        }
        self.folder.replace(&lock, SECRETS_FILE, &bytes)?;
        Ok(result)
    }

    fn read(&self) -> Result<File, SecretError> {
        let Some(bytes) = self.folder.read(SECRETS_FILE, MAX_FILE_BYTES)? else { return Ok(File::default()) };
        let path = self.path();
        let file: File = serde_json::from_slice(&bytes).map_err(|error| malformed(&path, &error.to_string()))?;
        if file.format != FORMAT {
            return Err(malformed(&path, &format!("its format is version {}; expected {FORMAT}", file.format)));
        }
        if file.secrets.len() > MAX_SECRETS {
            return Err(malformed(&path, &format!("it has more than {MAX_SECRETS} secrets")));
        }
        if !file.secrets.is_sorted_by(|left, right| left.order(&right.tool, &right.name).is_lt()) {
            return Err(malformed(&path, "its secrets are not sorted, or one is there twice"));
        }
        Ok(file)
    }

    /// The key of the file, or a new one if nothing is stored.
    fn key(&self, file: &File) -> Result<Arc<Key>, SecretError> {
        let is_right = |key: &Key| file.secrets.is_empty() || file.key.as_ref() == Some(&key.id());
        let mut kept = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = kept.as_ref().filter(|key| is_right(key)) {
            return Ok(Arc::clone(key));
        }
        let place = || self.provider.place();
        let key = match self.provider.load()? {
            Some(key) => key,
            None if file.secrets.is_empty() => self.provider.create()?,
            None => return Err(SecretError::KeyMissing { place: place() }),
        };
        if !is_right(&key) {
            return Err(SecretError::KeyOther { place: place() });
        }
        let key = Arc::new(key);
        *kept = Some(Arc::clone(&key));
        Ok(key)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    /// The id of the key. Missing only while the list is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// By tool and name.
    secrets: Vec<Entry>,
}

impl Default for File {
    fn default() -> Self {
        Self { format: FORMAT, key: None, secrets: Vec::new() }
    }
}

impl File {
    fn find(&self, tool: &str, name: &str) -> Option<&Entry> {
        self.secrets.binary_search_by(|entry| entry.order(tool, name)).ok().map(|place| &self.secrets[place])
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tool: String,
    name: String,
    bound_to: ContentHash,
    set_at: UnixTime,
    /// The file with the value, for a reference. The sealed value is then this path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    sealed: String,
}

impl Entry {
    /// An entry whose value is not sealed yet.
    fn new(tool: &str, name: &str, bound_to: ContentHash, set_at: UnixTime, file: Option<String>) -> Self {
        Self { tool: tool.to_owned(), name: name.to_owned(), bound_to, set_at, file, sealed: String::new() }
    }

    fn seal(&mut self, key: &Key, value: &Secret) -> Result<(), SecretError> {
        self.sealed = key.seal(&self.associated(), value.expose().as_bytes())?;
        Ok(())
    }

    fn open(&self, key: &Key) -> Result<Secret, SecretError> {
        let tampered = || SecretError::Tampered { tool: self.tool.clone(), name: self.name.clone() };
        let mut value = key.open(&self.associated(), &self.sealed).ok_or_else(tampered)?;
        Secret::from_utf8(std::mem::take(&mut *value)).ok_or_else(tampered)
    }

    fn associated(&self) -> Vec<u8> {
        let (format, set_at) = (FORMAT.to_le_bytes(), self.set_at.seconds().to_le_bytes());
        let parts = [&format[..], self.tool.as_bytes(), self.name.as_bytes(), self.bound_to.as_bytes(), &set_at];
        match &self.file {
            None => associated("toolcrib secret", &parts),
            Some(file) => associated("toolcrib secret reference", &[&parts[..], &[file.as_bytes()][..]].concat()),
        }
    }

    fn order(&self, tool: &str, name: &str) -> std::cmp::Ordering {
        (self.tool.as_str(), self.name.as_str()).cmp(&(tool, name))
    }
}

/// Checks the name of a tool or credential.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), SecretError> {
    if is_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(SecretError::Name { what, name: toolcrib_core::text::escape_for_display(&shown) })
}

fn malformed(path: &Path, why: &str) -> SecretError {
    SecretError::Malformed { path: path.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
