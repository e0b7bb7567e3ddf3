//! A value that must not be printed and is wiped after use.

use std::fmt;

use zeroize::{Zeroize as _, Zeroizing};

use super::SecretError;

/// Largest value. Certificate chains and service account files have a few kilobytes.
pub const MAX_SECRET_BYTES: usize = 65_536;

/// A secret value: wiped when dropped, without `Display`, `Serialize` and `Clone`. `Debug` shows nothing, not even a length.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of a text. The caller has to wipe other copies.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Takes ownership of bytes. Returns `None` and wipes the bytes if they are not UTF-8.
    pub fn from_utf8(bytes: Vec<u8>) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Self::new(text)),
            Err(error) => {
                error.into_bytes().zeroize();
                None
            }
        }
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Checks that the value can be stored and passed to a tool: 1 to [`MAX_SECRET_BYTES`] bytes without NUL, which neither an environment
    /// variable nor a C string can contain.
    pub fn check(&self) -> Result<(), SecretError> {
        let why = match self.0.len() {
            0 => "the value is empty",
            length if length > MAX_SECRET_BYTES => "the value has more than 65,536 bytes",
            _ if self.0.contains('\0') => "the value contains NUL",
            _ => return Ok(()),
        };
        Err(SecretError::Value { why })
    }

    /// Copies the secret explicitly.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), "Secret(…)");
        assert_eq!(format!("{:#?}", Some(Secret::new(String::new()))), "Some(\n    Secret(…),\n)");
    }

    #[test]
    fn values_have_limits() {
        assert!(Secret::new("x".repeat(MAX_SECRET_BYTES)).check().is_ok());
        for wrong in [String::new(), "x".repeat(MAX_SECRET_BYTES + 1), "a\0b".to_owned()] {
            let error = Secret::new(wrong).check().unwrap_err();
            assert_eq!(error.code().id(), "secret.value");
        }
        assert!(Secret::from_utf8(vec![0xff]).is_none());
    }
}
