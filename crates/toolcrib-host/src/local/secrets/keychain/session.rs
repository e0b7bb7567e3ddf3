//! The Secret Service of this session, over D-Bus.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use secret_service::blocking::{Item, SecretService};
use secret_service::{EncryptionType, Error};
use zeroize::Zeroizing;

use super::Keychain;
use crate::local::secrets::{Key, SecretError};

/// The attribute `service` of our entries.
const SERVICE: &str = "toolcrib";

/// Time limit of one operation. The service responds in milliseconds, but the bus may have to start it.
const LIMIT: Duration = Duration::from_secs(15);

/// Most entries of one account that are tried. Other programs may add some.
const MAX_ENTRIES: usize = 8;

/// The Secret Service of this session.
#[derive(Debug)]
struct SessionKeychain;

pub(super) fn keychain() -> Option<Arc<dyn Keychain>> {
    Some(Arc::new(SessionKeychain))
}

impl Keychain for SessionKeychain {
    fn place(&self) -> String {
        format!("keychain of the session, service {SERVICE}")
    }

    fn read(&self, account: &str) -> Result<Option<Key>, SecretError> {
        let account = account.to_owned();
        on_a_thread(move || {
            let service = connect()?;
            let items = find(&service, &account)?;
            let keys = items.iter().take(MAX_ENTRIES).map(|item| item.get_secret().map(Zeroizing::new));
            let mut first = None;
            for secret in keys {
                let key = Base64::decode_vec(std::str::from_utf8(&secret?).unwrap_or_default()).map(Zeroizing::new);
                let Some(key) = key.ok().and_then(|bytes| Key::from_bytes(&bytes)) else { continue };
                if key.id() == account {
                    return Ok(Some(key));
                }
                first.get_or_insert(key);
            }
            Ok(first)
        })
    }

    fn write(&self, account: &str, key: &Key) -> Result<(), SecretError> {
        let account = account.to_owned();
        let value = Zeroizing::new(Base64::encode_string(key.expose()));
        on_a_thread(move || {
            let service = connect()?;
            let collection = service.get_default_collection()?;
            collection.ensure_unlocked()?;
            let label = format!("Toolcrib data key {account}");
            collection.create_item(&label, attributes(&account), value.as_bytes(), true, "text/plain").map(drop)
        })
    }

    fn remove(&self, account: &str) -> Result<(), SecretError> {
        let account = account.to_owned();
        on_a_thread(move || {
            let service = connect()?;
            find(&service, &account)?.iter().take(MAX_ENTRIES).try_for_each(Item::delete)
        })
    }
}

fn connect<'a>() -> Result<SecretService<'a>, Error> {
    SecretService::connect(EncryptionType::Dh)
}

fn attributes(account: &str) -> HashMap<&str, &str> {
    HashMap::from([("service", SERVICE), ("account", account)])
}

/// The entries of an account in unlocked collections. If there is none, a locked collection may contain it.
fn find<'s>(service: &'s SecretService<'s>, account: &str) -> Result<Vec<Item<'s>>, Error> {
    let found = service.search_items(attributes(account))?;
    if !found.unlocked.is_empty() {
        return Ok(found.unlocked);
    }
    if !found.locked.is_empty() {
        return Err(Error::Locked);
    }
    match service.get_default_collection() {
        Ok(collection) => collection.ensure_unlocked()?,
        Err(Error::NoResult) => {}
        Err(error) => return Err(error),
    }
    Ok(Vec::new())
}

/// Runs an operation on a separate thread: the library starts a runtime, which is not possible inside another one, and a service that does
/// not respond must not block the caller.
fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, SecretError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("keychain".to_owned());
    thread
        .spawn(move || drop(sender.send(work())))
        .map_err(|error| SecretError::KeychainUnavailable { why: error.to_string() })?;
    match receiver.recv_timeout(LIMIT) {
        Ok(result) => result.map_err(failed),
        Err(_) => Err(SecretError::KeychainUnavailable { why: format!("no answer within {} s", LIMIT.as_secs()) }),
    }
}

fn failed(error: Error) -> SecretError {
    match error {
        Error::Locked => SecretError::KeychainLocked,
        Error::NoResult => SecretError::KeychainUnavailable { why: "it has no default collection".to_owned() },
        Error::Unavailable => SecretError::KeychainUnavailable { why: "there is no Secret Service in this session".to_owned() },
        other => SecretError::KeychainUnavailable { why: toolcrib_core::text::escape_for_display(&other.to_string()) },
    }
}
