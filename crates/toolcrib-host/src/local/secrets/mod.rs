//! Secrets: credentials of tools, encrypted at rest and bound to the content of their tool.
//!
//! [`SecretStore`] queries its sources in this order, and the first one with a value wins:
//!
//! 1. **Environment** `TOOLCRIB_SECRET_<TOOL>__<NAME>`, passed by the caller as a map. Read-only.
//! 2. **systemd credentials** `$CREDENTIALS_DIRECTORY/<tool>.<name>`. Read-only.
//! 3. **File references** from the settings: a path for each secret. Read-only.
//! 4. **The encrypted file** `secrets.json`: the only source that is written. It contains values, or paths of private files with values.
//!
//! The first three take precedence because an operator sets them for one run or one service; a value that was typed in once must not
//! override them. They are not bound to a content hash: the operator manages tool and secret together, and a hash in a unit file would
//! have to change with every update. Secrets of the encrypted file are bound: [`SecretStore::get`] returns a value only for the content
//! that it was entered for, and [`Lookup::BoundToOther`] for any other. After the user approved the change, [`SecretStore::rebind`] binds
//! the secrets to the new content.
//!
//! # The encrypted file
//!
//! Each value is encrypted separately with XChaCha20-Poly1305 under one random data key and a random nonce of 24 bytes. The format
//! version, tool, name, content hash and time are associated data: a value that is moved to another tool or another hash cannot be
//! decrypted. Names, hashes and times are not encrypted, so that listing needs no key. Encryption does not hide which secrets exist, and
//! how long they are. It does not detect that the whole file was replaced by an older copy of itself, or that an entry was removed.
//!
//! The data key comes from a [`DataKey`]: a private file ([`FileKey`]), or the same file protected by a passphrase ([`PassphraseKey`]).
//! With a [`Keychain`] the key file only says which entry of the keychain contains the key; [`system_keychain`] is that of the operating
//! system, with the feature `keychain`. The key file protects against copies of `secrets.json` in backups and against other users, not
//! against programs of the same user; the passphrase protects against them while the host is not running. A keychain protects the key
//! while it is locked, and keeps it out of backups of the state folder; once unlocked, it returns the key to every program of the same
//! user.
//!
//! The key of a new file is stored in the keychain if one is available, and in the key file otherwise. That is decided once: afterwards
//! the key file says where the key is, and only [`FileKey::move_to_keychain`] and [`FileKey::move_to_file`] change it.
//!
//! All functions block: they read files, and [`PassphraseKey`] computes for about half a second. Call them from `spawn_blocking` in async
//! code.

mod automaton;
mod encrypted;
mod error;
mod forms;
mod key;
mod key_file;
mod keychain;
mod redact;
mod secret;
mod store;

pub use encrypted::{EncryptedFile, MAX_FILE_BYTES, MAX_SECRETS, SECRETS_FILE};
pub use error::SecretError;
pub use forms::{MIN_REDACTED_BYTES, MIN_REDACTED_LINE};
pub use key::{DataKey, Key};
pub use key_file::{Cost, FileKey, KEY_FILE, MIN_PASSPHRASE_CHARACTERS, PassphraseKey, Protection};
pub use keychain::{Keychain, system_keychain};
pub use redact::{MAX_CALL_SECRET_BYTES, REDACTED, RedactedStream, Redactor};
pub use secret::{MAX_SECRET_BYTES, Secret};
pub use store::{ENVIRONMENT_PREFIX, Lookup, SecretState, SecretStore, Source, SourceState};
