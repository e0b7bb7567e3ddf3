//! Errors of the secret store.

use std::path::PathBuf;

use thiserror::Error;
use toolcrib_core::codes::{self, Code};

use super::{MAX_CALL_SECRET_BYTES, MAX_SECRETS, MIN_PASSPHRASE_CHARACTERS};
use crate::local::StateFileError;

/// An error of the secret store. No variant contains a value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The name of a tool or credential is invalid.
    #[error("`{name}` is not a name of a {what}: expected 1 to 64 letters, digits, `_` and `-`, with a letter or digit first")]
    Name {
        /// "tool" or "credential".
        what: &'static str,
        /// The name, escaped and truncated.
        name: String,
    },
    /// The value cannot be stored.
    #[error("the secret cannot be stored: {why}")]
    Value {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The value in a read-only source is invalid.
    #[error("the secret in {place} cannot be used: {why}")]
    SourceValue {
        /// The variable or file.
        place: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The encrypted file is full.
    #[error("the file holds the most secrets that it may: {MAX_SECRETS}, in at most {} bytes", super::MAX_FILE_BYTES)]
    TooMany,
    /// A call would receive more than can be redacted.
    #[error("the call receives {bytes} bytes of secrets; the limit is {MAX_CALL_SECRET_BYTES}")]
    CallTooLarge {
        /// Bytes of all values.
        bytes: usize,
    },
    /// A file has an unexpected format.
    #[error("{} cannot be read: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A stored value cannot be decrypted.
    #[error("the stored secret {name} of {tool} is not authentic")]
    Tampered {
        /// The tool.
        tool: String,
        /// The credential.
        name: String,
    },
    /// The key of stored secrets is missing.
    #[error("secrets are stored, but their key is missing: {place}")]
    KeyMissing {
        /// Where the key should be.
        place: String,
    },
    /// The key is not that of the stored secrets.
    #[error("the key in {place} does not belong to the stored secrets")]
    KeyOther {
        /// Where the key was found.
        place: String,
    },
    /// The key file needs a passphrase.
    #[error("the key file is protected by a passphrase")]
    PassphraseRequired,
    /// The passphrase is wrong.
    #[error("the passphrase does not open the key file")]
    PassphraseWrong,
    /// A passphrase was given for a key file without one.
    #[error("the key file is not protected by a passphrase")]
    PassphraseUnused,
    /// The passphrase is too short.
    #[error("the passphrase has fewer than {MIN_PASSPHRASE_CHARACTERS} characters")]
    PassphraseWeak,
    /// The cost in a key file is outside the limits.
    #[error("{} asks for scrypt with log2(n) = {log_n}, r = {r}, p = {p}, which is outside the limits", path.display())]
    KeyCost {
        /// The file.
        path: PathBuf,
        /// The logarithm of the iterations.
        log_n: u8,
        /// The block size.
        r: u32,
        /// The parallelism.
        p: u32,
    },
    /// This program was built without keychain support.
    #[error("the key is in a keychain, or should be, and this program was built without one")]
    KeychainUnsupported,
    /// The keychain is not available.
    #[error("the keychain cannot be used: {why}")]
    KeychainUnavailable {
        /// Its error.
        why: String,
    },
    /// The keychain is locked.
    #[error("the keychain is locked")]
    KeychainLocked,
    /// The operating system has no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// An external data key provider failed.
    #[error("the data key provider failed: {0}")]
    Provider(String),
}

impl SecretError {
    /// The code of this error.
    pub const fn code(&self) -> Code {
        use codes::secret as code;
        match self {
            Self::File(StateFileError::Busy { .. }) => code::BUSY,
            Self::File(StateFileError::Exposed { .. } | StateFileError::Owner { .. }) => code::EXPOSED,
            Self::File(StateFileError::NotRegular { .. }) => code::NOT_A_FILE,
            Self::File(StateFileError::TooLarge { .. }) | Self::Malformed { .. } => code::MALFORMED,
            Self::File(StateFileError::Io { .. }) | Self::Random(_) | Self::Provider(_) => code::STORAGE,
            Self::Name { .. } => code::NAME,
            Self::Value { .. } | Self::SourceValue { .. } => code::VALUE,
            Self::TooMany => code::TOO_MANY,
            Self::CallTooLarge { .. } => code::CALL_TOO_LARGE,
            Self::Tampered { .. } => code::TAMPERED,
            Self::KeyMissing { .. } => code::KEY_MISSING,
            Self::KeyOther { .. } => code::KEY_OTHER,
            Self::PassphraseRequired => code::PASSPHRASE_REQUIRED,
            Self::PassphraseWrong => code::PASSPHRASE_WRONG,
            Self::PassphraseUnused => code::PASSPHRASE_UNUSED,
            Self::PassphraseWeak => code::PASSPHRASE_WEAK,
            Self::KeyCost { .. } => code::KEY_COST,
            Self::KeychainUnsupported => code::KEYCHAIN_UNSUPPORTED,
            Self::KeychainUnavailable { .. } => code::KEYCHAIN_UNAVAILABLE,
            Self::KeychainLocked => code::KEYCHAIN_LOCKED,
        }
    }
}
