//! The keychain of the operating system, which may store the data key.
//!
//! On Linux it is the Secret Service of the session (such as GNOME Keyring), used over D-Bus with the feature `keychain`. One entry is one
//! key: its attributes are `service` = `toolcrib` and `account` = the public id of the key, and its secret is the key in base64, so that
//! `secret-tool lookup service toolcrib account NAME` prints it for its owner. Nothing else is stored there.

#[cfg(all(target_os = "linux", feature = "keychain"))]
mod session;
#[cfg(not(all(target_os = "linux", feature = "keychain")))]
mod session {
    /// Returns `None`: this build has no keychain.
    pub(super) fn keychain() -> Option<std::sync::Arc<dyn super::Keychain>> {
        None
    }
}

use std::fmt;
use std::sync::Arc;

use super::{Key, SecretError};

/// A keychain: entries for keys, by account.
pub trait Keychain: fmt::Debug + Send + Sync {
    /// The name of the keychain, for messages.
    fn place(&self) -> String;

    /// Reads a key. `None` if there is no such entry; a locked or unavailable keychain is an error.
    fn read(&self, account: &str) -> Result<Option<Key>, SecretError>;

    /// Stores a key, replacing one of the same account.
    fn write(&self, account: &str, key: &Key) -> Result<(), SecretError>;

    /// Removes a key, if there is one.
    fn remove(&self, account: &str) -> Result<(), SecretError>;
}

/// The keychain of this session. `None` if this program was built without one; whether it works is only known when it is used.
#[must_use]
pub fn system_keychain() -> Option<Arc<dyn Keychain>> {
    session::keychain()
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
