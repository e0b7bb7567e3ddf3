//! The data key, which encrypts values, and its providers.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use chacha20poly1305::aead::AeadInOut as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::SecretError;

/// Bytes of a data key: `XChaCha20` uses 256 bits.
const KEY_BYTES: usize = 32;

/// Bytes of a nonce. 192 random bits suffice for any number of values: a collision needs about 2^96 of them.
const NONCE_BYTES: usize = 24;

/// Bytes of the authentication tag.
const TAG_BYTES: usize = 16;

/// A provider of the data key of the encrypted file.
///
/// The store calls [`load`](Self::load) once and keeps the key in memory, and calls [`create`](Self::create) only while nothing is stored.
/// A provider for an OS keychain stores [`Key::expose`] as one entry and restores it with [`Key::from_bytes`]; its errors become
/// [`SecretError::Provider`].
pub trait DataKey: fmt::Debug + Send + Sync {
    /// Where the key is, for messages and `doctor`.
    fn place(&self) -> String;

    /// Reads the key. `None` if no key was created yet.
    fn load(&self) -> Result<Option<Key>, SecretError>;

    /// Creates and stores a key. If another process created one meanwhile, returns that.
    fn create(&self) -> Result<Key, SecretError>;
}

/// A data key of 32 random bytes, wiped when dropped.
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    /// A new random key.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(SecretError::Random)?;
        Ok(Self(bytes))
    }

    /// Creates a key from a provider's bytes. `None` unless there are 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != KEY_BYTES {
            return None;
        }
        key.copy_from_slice(bytes);
        Some(Self(key))
    }

    /// The bytes, for a provider that stores them.
    pub fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// A public id of the key: a part of its hash, which does not reveal the key.
    pub(super) fn id(&self) -> String {
        let hash = Sha256::new().chain_update(b"toolcrib secret key id v1\0").chain_update(self.expose()).finalize();
        Base64::encode_string(&hash[..12])
    }

    /// Encrypts a value. The result is nonce, ciphertext and tag in base64.
    pub(super) fn seal(&self, associated: &[u8], value: &[u8]) -> Result<String, SecretError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(SecretError::Random)?;
        // Allocated for all of it at once, because a growing buffer leaves copies of the value behind.
        let mut buffer = Zeroizing::new(Vec::with_capacity(value.len() + TAG_BYTES));
        buffer.extend_from_slice(value);
        self.cipher()
            .encrypt_in_place((&nonce).into(), associated, &mut *buffer)
            .map_err(|_| SecretError::Value { why: "the value cannot be encrypted" })?;
        let mut sealed = Vec::with_capacity(NONCE_BYTES + buffer.len());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&buffer);
        Ok(Base64::encode_string(&sealed))
    }

    /// Decrypts a value. `None` if it is not authentic.
    pub(super) fn open(&self, associated: &[u8], sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let sealed = Base64::decode_vec(sealed).ok()?;
        let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let mut buffer = Zeroizing::new(text.to_vec());
        self.cipher().decrypt_in_place(nonce.into(), associated, &mut *buffer).ok()?;
        Some(buffer)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        let bytes: &[u8; KEY_BYTES] = &self.0;
        XChaCha20Poly1305::new(bytes.into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Associated data: a label and parts, each prefixed with its length, so that different lists of parts never give the same bytes.
pub(super) fn associated(label: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_data_open() {
        let key = Key::random().unwrap();
        let sealed = key.seal(b"data", b"value").unwrap();
        assert_eq!(key.open(b"data", &sealed).as_deref().map(Vec::as_slice), Some(&b"value"[..]));
        assert!(key.open(b"other", &sealed).is_none());
        assert!(Key::random().unwrap().open(b"data", &sealed).is_none());
        assert_ne!(sealed, key.seal(b"data", b"value").unwrap(), "nonces are random");
        for cut in [0, 8, 40, sealed.len() - 4] {
            assert!(key.open(b"data", &sealed[..cut]).is_none(), "{cut}");
        }
        assert!(key.open(b"data", "not base64!").is_none());
    }

    #[test]
    fn every_bit_counts() {
        let key = Key::random().unwrap();
        let sealed = Base64::decode_vec(&key.seal(b"", b"12345678").unwrap()).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(key.open(b"", &Base64::encode_string(&changed)).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(associated("x", &[b"ab", b"c"]), associated("x", &[b"a", b"bc"]));
        assert_ne!(associated("x", &[b"ab"]), associated("x", &[b"ab", b""]));
    }

    #[test]
    fn keys_have_one_length_and_show_nothing() {
        assert!(Key::from_bytes(&[1; 31]).is_none() && Key::from_bytes(&[1; 33]).is_none());
        let key = Key::from_bytes(&[7; 32]).unwrap();
        assert_eq!((key.expose(), format!("{key:?}").as_str()), (&[7; 32], "Key(…)"));
        assert_ne!(key.id(), Key::random().unwrap().id());
    }
}
