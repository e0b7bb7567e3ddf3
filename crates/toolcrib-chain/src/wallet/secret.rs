//! Text that must not be printed and is wiped after use.

use std::fmt;
use std::io::Read;

use zeroize::{Zeroize, Zeroizing};

use super::WalletError;

/// Maximum length of a secret: a phrase of 24 words has less than 300 bytes.
const MAX_SECRET_BYTES: u64 = 4_096;

/// A key, phrase or password. Wiped when dropped; `Debug` shows nothing.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of a text. The caller wipes its own copies.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Reads an environment variable.
    pub fn from_env(name: &str) -> Result<Self, WalletError> {
        let missing = || WalletError::NoKey { place: format!("the environment variable {name} is not set") };
        let text = std::env::var(name).map_err(|_| missing())?;
        let secret = Self::new(text);
        if secret.expose().is_empty() { Err(missing()) } else { Ok(secret) }
    }

    /// Reads an open file descriptor to its end, such as 3 in `toolcrib … 3<key`.
    pub fn from_fd(number: u32) -> Result<Self, WalletError> {
        let file = std::fs::File::open(format!("/dev/fd/{number}"))
            .map_err(|_| WalletError::NoKey { place: format!("file descriptor {number} is not open") })?;
        Self::from_reader(file, &format!("file descriptor {number}"))
    }

    /// Reads to the end, and removes the line break there.
    pub fn from_reader(reader: impl Read, place: &str) -> Result<Self, WalletError> {
        // Allocate the maximum at once: a buffer that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET_BYTES as usize + 1));
        reader.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_SECRET_BYTES {
            return Err(WalletError::BadKey { place: place.to_owned() });
        }
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        if bytes.is_empty() {
            return Err(WalletError::NoKey { place: format!("{place} is empty") });
        }
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(text) => Ok(Self::new(text)),
            Err(error) => {
                error.into_bytes().zeroize();
                Err(WalletError::BadKey { place: place.to_owned() })
            }
        }
    }

    /// The secret text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
