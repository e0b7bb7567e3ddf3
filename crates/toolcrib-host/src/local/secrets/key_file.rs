//! The key file: contains the data key, plain or wrapped with a passphrase, or says that a keychain has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::key::associated;
use super::{DataKey, Key, Keychain, Secret, SecretError};
use crate::local::state_file::{StateFolder, StateLock};

/// The name of the key file.
pub const KEY_FILE: &str = "secret.key";

/// Fewest characters of a passphrase: an attacker with a copy of the file can try as many as their machines can.
pub const MIN_PASSPHRASE_CHARACTERS: usize = 12;

/// The lock of the key file. Separate from that of the secrets, since a key is created while those are locked.
const LOCK_FILE: &str = ".secret.key.lock";

/// The largest key file. Usual ones have 300 bytes.
const MAX_FILE_BYTES: u64 = 4_096;

/// The version of the format.
const FORMAT: u32 = 1;

/// Bytes of the salt: 128 bits never repeat.
const SALT_BYTES: usize = 16;

/// The block size of scrypt. 8 is the value of its authors and of RFC 7914.
const SCRYPT_R: u32 = 8;

/// The parallelism of scrypt. More than 1 would only let an attacker use more cores for the same memory.
const SCRYPT_P: u32 = 1;

/// The work factor of scrypt, with r = 8 and p = 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    log_n: u8,
}

impl Cost {
    /// n = 2^17: 128 MiB and about half a second per guess, the minimum that OWASP recommends for new systems.
    pub const STANDARD: Self = Self { log_n: 17 };

    /// n = 2^12: 4 MiB and a few milliseconds. For tests.
    pub const LIGHT: Self = Self { log_n: 12 };
}

/// The accepted costs of a file: below, guessing is cheap; above, a damaged file would take more than 1 GiB.
const LOG_N_RANGE: std::ops::RangeInclusive<u8> = 12..=20;

/// How the key file is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// By file permissions.
    FileMode,
    /// By a passphrase as well.
    Passphrase,
    /// By the keychain of the operating system: the file contains no key.
    Keychain,
}

impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FileMode => "key file",
            Self::Passphrase => "key file with a passphrase",
            Self::Keychain => "keychain",
        })
    }
}

/// The data key in a private file without a passphrase, or in a keychain.
///
/// The key file always says where the key is, so that the choice is made once: an unavailable keychain is an error later, and never leads
/// to a second key.
#[derive(Clone, Debug)]
pub struct FileKey {
    folder: StateFolder,
    keychain: Option<Arc<dyn Keychain>>,
}

impl FileKey {
    /// The key file in this folder, which may not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::in_folder(StateFolder::new(folder))
    }

    pub(super) const fn in_folder(folder: StateFolder) -> Self {
        Self { folder, keychain: None }
    }

    /// Adds a keychain. New keys are stored there if the keychain is available, and in the file otherwise.
    #[must_use]
    pub fn with_keychain(mut self, keychain: Option<Arc<dyn Keychain>>) -> Self {
        self.keychain = keychain;
        self
    }

    /// The path of the key file.
    pub fn path(&self) -> PathBuf {
        self.folder.file(KEY_FILE)
    }

    /// How the key is protected. `None` if there is no key file yet.
    pub fn protection(&self) -> Result<Option<Protection>, SecretError> {
        Ok(read(&self.folder)?.map(|content| match content.protection {
            Content::None { .. } => Protection::FileMode,
            Content::Scrypt { .. } => Protection::Passphrase,
            Content::Keychain { .. } => Protection::Keychain,
        }))
    }

    /// The provider for a key file with this passphrase.
    pub fn with_passphrase(self, passphrase: Secret) -> PassphraseKey {
        PassphraseKey { folder: self.folder, passphrase, cost: Cost::STANDARD }
    }

    /// Sets or changes the passphrase. `current` is the present one, if there is one.
    ///
    /// The data key stays the same, so an older copy of the key file still decrypts the stored secrets.
    pub fn set_passphrase(&self, current: Option<&Secret>, new: &Secret, cost: Cost) -> Result<(), SecretError> {
        check_passphrase(new)?;
        let lock = self.folder.lock(LOCK_FILE)?;
        let key = match read(&self.folder)? {
            Some(content) => self.open(&content, current)?,
            None if current.is_some() => return Err(SecretError::PassphraseUnused),
            None => Key::random()?,
        };
        write(&self.folder, &lock, &Content::wrap(&key, new, cost)?)
    }

    /// Removes the passphrase: from now on, only file permissions protect the key.
    pub fn remove_passphrase(&self, current: &Secret) -> Result<(), SecretError> {
        let lock = self.folder.lock(LOCK_FILE)?;
        let content = read(&self.folder)?.ok_or(SecretError::PassphraseUnused)?;
        let key = self.open(&content, Some(current))?;
        write(&self.folder, &lock, &Content::plain(&key))
    }

    /// Moves the key into the keychain. `passphrase` is the present one, if there is one. `stored` is the id of the key of the stored
    /// secrets: if the key file is lost, the key with that id is searched in the keychain, and no other is created.
    ///
    /// The keychain must return the stored key before the key file is replaced atomically: a crash leaves the file unchanged.
    pub fn move_to_keychain(&self, passphrase: Option<&Secret>, stored: Option<&str>) -> Result<(), SecretError> {
        let keychain = self.keychain.as_deref().ok_or(SecretError::KeychainUnsupported)?;
        let lock = self.folder.lock(LOCK_FILE)?;
        let key = match (read(&self.folder)?, stored) {
            (Some(content), _) => self.open(&content, passphrase)?,
            (None, Some(id)) => from_keychain(keychain, id)?,
            (None, None) => Key::random()?,
        };
        let id = key.id();
        if stored.is_some_and(|stored| stored != id) {
            return Err(SecretError::KeyOther { place: self.place() });
        }
        put_into_keychain(keychain, &id, &key)?;
        write(&self.folder, &lock, &Content::Keychain { account: id })
    }

    /// Moves the key from the keychain into the key file. Returns whether the keychain's copy was removed; `None` if the key was in the
    /// file already.
    ///
    /// The file is complete before the copy in the keychain is removed.
    pub fn move_to_file(&self) -> Result<Option<bool>, SecretError> {
        let lock = self.folder.lock(LOCK_FILE)?;
        let Some(content) = read(&self.folder)? else { return Ok(None) };
        let Content::Keychain { account } = &content.protection else { return Ok(None) };
        let key = self.open(&content, None)?;
        write(&self.folder, &lock, &Content::plain(&key))?;
        Ok(Some(self.keychain.as_ref().is_some_and(|keychain| keychain.remove(account).is_ok())))
    }

    fn open(&self, content: &KeyFile, passphrase: Option<&Secret>) -> Result<Key, SecretError> {
        match (&content.protection, passphrase) {
            (Content::Keychain { account }, None) => {
                from_keychain(self.keychain.as_deref().ok_or(SecretError::KeychainUnsupported)?, account)
            }
            _ => content.open(passphrase, &self.path()),
        }
    }
}

impl DataKey for FileKey {
    fn place(&self) -> String {
        let content = read(&self.folder).ok().flatten();
        match (content.as_ref().map(|content| &content.protection), &self.keychain) {
            (Some(Content::Keychain { account }), Some(keychain)) => entry(&**keychain, account),
            _ => self.path().display().to_string(),
        }
    }

    fn load(&self) -> Result<Option<Key>, SecretError> {
        read(&self.folder)?.map(|content| self.open(&content, None)).transpose()
    }

    fn create(&self) -> Result<Key, SecretError> {
        let lock = self.folder.lock(LOCK_FILE)?;
        if let Some(key) = self.load()? {
            return Ok(key);
        }
        let key = Key::random()?;
        let id = key.id();
        // Nothing is encrypted yet, so without a working keychain the key is stored in the file.
        let is_kept = self.keychain.as_deref().is_some_and(|keychain| put_into_keychain(keychain, &id, &key).is_ok());
        let content = if is_kept { Content::Keychain { account: id } } else { Content::plain(&key) };
        write(&self.folder, &lock, &content)?;
        Ok(key)
    }
}

/// Stores a key in a keychain and reads it back.
fn put_into_keychain(keychain: &dyn Keychain, account: &str, key: &Key) -> Result<(), SecretError> {
    keychain.write(account, key)?;
    from_keychain(keychain, account).map(drop)
}

/// Returns the key with that id from a keychain. It is checked, because other programs can write to the keychain, too.
fn from_keychain(keychain: &dyn Keychain, account: &str) -> Result<Key, SecretError> {
    let place = || entry(keychain, account);
    let key = keychain.read(account)?.ok_or_else(|| SecretError::KeyMissing { place: place() })?;
    if key.id() == account { Ok(key) } else { Err(SecretError::KeyOther { place: place() }) }
}

/// Describes a keychain entry in messages.
fn entry(keychain: &dyn Keychain, account: &str) -> String {
    format!("{}, account {}", keychain.place(), toolcrib_core::text::escape_for_display(account))
}

/// The data key in a file with a passphrase.
#[derive(Debug)]
pub struct PassphraseKey {
    folder: StateFolder,
    passphrase: Secret,
    cost: Cost,
}

impl PassphraseKey {
    /// Sets the cost of a key that this provider creates. An existing key keeps its cost.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }
}

impl DataKey for PassphraseKey {
    fn place(&self) -> String {
        format!("{} with a passphrase", self.folder.file(KEY_FILE).display())
    }

    fn load(&self) -> Result<Option<Key>, SecretError> {
        let path = self.folder.file(KEY_FILE);
        read(&self.folder)?.map(|content| content.open(Some(&self.passphrase), &path)).transpose()
    }

    fn create(&self) -> Result<Key, SecretError> {
        check_passphrase(&self.passphrase)?;
        let lock = self.folder.lock(LOCK_FILE)?;
        if let Some(key) = self.load()? {
            return Ok(key);
        }
        let key = Key::random()?;
        write(&self.folder, &lock, &Content::wrap(&key, &self.passphrase, self.cost)?)?;
        Ok(key)
    }
}

#[derive(Deserialize)]
struct KeyFile {
    format: u32,
    #[serde(flatten)]
    protection: Content,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "protection", rename_all = "snake_case")]
enum Content {
    None { key: String },
    Scrypt { log_n: u8, r: u32, p: u32, salt: String, sealed: String },
    Keychain { account: String },
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Self::None { key } = self {
            zeroize::Zeroize::zeroize(key);
        }
    }
}

impl KeyFile {
    fn open(&self, passphrase: Option<&Secret>, path: &Path) -> Result<Key, SecretError> {
        match (&self.protection, passphrase) {
            (Content::None { key }, None) => {
                let bytes = Zeroizing::new(Base64::decode_vec(key).unwrap_or_default());
                Key::from_bytes(&bytes).ok_or_else(|| malformed(path, "the key does not have 32 bytes"))
            }
            (Content::None { .. } | Content::Keychain { .. }, Some(_)) => Err(SecretError::PassphraseUnused),
            (Content::Keychain { .. }, None) => Err(SecretError::KeychainUnsupported),
            (Content::Scrypt { .. }, None) => Err(SecretError::PassphraseRequired),
            (Content::Scrypt { log_n, r, p, salt, sealed }, Some(passphrase)) => {
                if !LOG_N_RANGE.contains(log_n) || *r != SCRYPT_R || *p != SCRYPT_P {
                    return Err(SecretError::KeyCost { path: path.to_owned(), log_n: *log_n, r: *r, p: *p });
                }
                let salt = Base64::decode_vec(salt).ok().filter(|salt| salt.len() == SALT_BYTES);
                let salt = salt.ok_or_else(|| malformed(path, "the salt does not have 16 bytes"))?;
                let wrapping = derive(passphrase, &salt, *log_n)?;
                let key = wrapping.open(&wrapped_with(*log_n, &salt), sealed).ok_or(SecretError::PassphraseWrong)?;
                Key::from_bytes(&key).ok_or_else(|| malformed(path, "the key does not have 32 bytes"))
            }
        }
    }
}

impl Content {
    fn plain(key: &Key) -> Self {
        Self::None { key: Base64::encode_string(key.expose()) }
    }

    fn wrap(key: &Key, passphrase: &Secret, cost: Cost) -> Result<Self, SecretError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(SecretError::Random)?;
        let wrapping = derive(passphrase, &salt, cost.log_n)?;
        Ok(Self::Scrypt {
            log_n: cost.log_n,
            r: SCRYPT_R,
            p: SCRYPT_P,
            salt: Base64::encode_string(&salt),
            sealed: wrapping.seal(&wrapped_with(cost.log_n, &salt), key.expose())?,
        })
    }
}

/// The associated data of a wrapped key.
fn wrapped_with(log_n: u8, salt: &[u8]) -> Vec<u8> {
    associated("toolcrib secret key v1", &[&[log_n], salt])
}

fn derive(passphrase: &Secret, salt: &[u8], log_n: u8) -> Result<Key, SecretError> {
    let mut derived = Zeroizing::new([0; 32]);
    scrypt::Params::new(log_n, SCRYPT_R, SCRYPT_P, derived.len())
        .ok()
        .and_then(|params| scrypt::scrypt(passphrase.expose().as_bytes(), salt, &params, &mut *derived).ok())
        .and_then(|()| Key::from_bytes(&*derived))
        .ok_or(SecretError::PassphraseWrong)
}

fn check_passphrase(passphrase: &Secret) -> Result<(), SecretError> {
    if passphrase.expose().chars().count() < MIN_PASSPHRASE_CHARACTERS {
        return Err(SecretError::PassphraseWeak);
    }
    Ok(())
}

fn read(folder: &StateFolder) -> Result<Option<KeyFile>, SecretError> {
    let Some(bytes) = folder.read(KEY_FILE, MAX_FILE_BYTES)?.map(Zeroizing::new) else { return Ok(None) };
    let path = folder.file(KEY_FILE);
    // An error of the parser could contain a part of the file.
    let content: KeyFile = serde_json::from_slice(&bytes).map_err(|_| malformed(&path, "it is not a key file"))?;
    if content.format != FORMAT {
        return Err(malformed(&path, "its format is of another version"));
    }
    Ok(Some(content))
}

fn write(folder: &StateFolder, lock: &StateLock, content: &Content) -> Result<(), SecretError> {
    #[derive(Serialize)]
    struct Written<'c> {
        format: u32,
        #[serde(flatten)]
        protection: &'c Content,
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(1_024));
    serde_json::to_writer(&mut *bytes, &Written { format: FORMAT, protection: content })
        .map_err(|_| malformed(&folder.file(KEY_FILE), "it cannot be written as JSON"))?;
    Ok(folder.replace(lock, KEY_FILE, &bytes)?)
}

fn malformed(path: &Path, why: &str) -> SecretError {
    SecretError::Malformed { path: path.to_owned(), why: why.to_owned() }
}
