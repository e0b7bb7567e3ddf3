//! The key file with a keychain in memory: where a key is stored, and that no failure creates a second one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use base64ct::{Base64, Encoding as _};
use toolcrib_core::clock::UnixTime;

use super::*;
use crate::local::ContentHash;
use crate::local::secrets::{Cost, DataKey as _, EncryptedFile, FileKey, KEY_FILE, Lookup, Protection, Secret};
use crate::local::state_file::{StateFolder, Step};

const NOW: UnixTime = UnixTime::from_seconds(1_700_000_000);
const CONTENT: ContentHash = ContentHash::new([1; 32]);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Usable,
    Locked,
    Absent,
    /// Accepts keys and loses them.
    Forgetful,
    /// Returns another key than was stored.
    Confused,
}

#[derive(Debug, Default)]
struct MemoryKeychain {
    keys: Mutex<BTreeMap<String, [u8; 32]>>,
    state: Mutex<State>,
}

impl MemoryKeychain {
    fn becomes(&self, state: State) {
        *self.state.lock().unwrap() = state;
    }

    fn check(&self) -> Result<State, SecretError> {
        match *self.state.lock().unwrap() {
            State::Locked => Err(SecretError::KeychainLocked),
            State::Absent => Err(SecretError::KeychainUnavailable { why: "no bus".to_owned() }),
            state => Ok(state),
        }
    }

    fn count(&self) -> usize {
        self.keys.lock().unwrap().len()
    }
}

impl Keychain for MemoryKeychain {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn read(&self, account: &str) -> Result<Option<Key>, SecretError> {
        if self.check()? == State::Confused {
            return Ok(Key::from_bytes(&[9; 32]));
        }
        Ok(self.keys.lock().unwrap().get(account).and_then(|bytes| Key::from_bytes(bytes)))
    }

    fn write(&self, account: &str, key: &Key) -> Result<(), SecretError> {
        if self.check()? == State::Usable {
            self.keys.lock().unwrap().insert(account.to_owned(), *key.expose());
        }
        Ok(())
    }

    fn remove(&self, account: &str) -> Result<(), SecretError> {
        self.check()?;
        self.keys.lock().unwrap().remove(account);
        Ok(())
    }
}

fn folder() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn key(place: &Path, keychain: &Arc<MemoryKeychain>) -> FileKey {
    let keychain: Arc<dyn Keychain> = Arc::<MemoryKeychain>::clone(keychain);
    FileKey::new(place).with_keychain(Some(keychain))
}

fn file(place: &Path, keychain: &Arc<MemoryKeychain>) -> EncryptedFile {
    EncryptedFile::new(place, Box::new(key(place, keychain)))
}

fn set(file: &EncryptedFile) {
    file.set("mail", "key", &CONTENT, &secret("a value that is secret"), NOW).unwrap();
}

/// What a new process reads: the value, or the code of the error.
fn got(file: &EncryptedFile) -> String {
    match file.get("mail", "key", &CONTENT) {
        Ok(Lookup::Value { secret, .. }) => secret.expose().to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.code().id().to_owned(),
    }
}

fn key_file(place: &Path) -> String {
    fs::read_to_string(place.join(KEY_FILE)).unwrap()
}

#[test]
fn a_new_key_goes_into_a_keychain_that_can_be_used() {
    let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
    set(&file(place.path(), &keychain));
    assert_eq!((got(&file(place.path(), &keychain)).as_str(), keychain.count()), ("a value that is secret", 1));
    assert_eq!(key(place.path(), &keychain).protection().unwrap(), Some(Protection::Keychain));
    assert!(key(place.path(), &keychain).place().starts_with("memory, account "));
    // The file names the key and does not contain it.
    let kept = *keychain.keys.lock().unwrap().values().next().unwrap();
    let text = key_file(place.path());
    assert!(text.contains("\"protection\":\"keychain\""), "{text}");
    assert!(!text.contains(&Base64::encode_string(&kept)), "{text}");

    for state in [State::Locked, State::Absent, State::Forgetful, State::Confused] {
        let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
        keychain.becomes(state);
        set(&file(place.path(), &keychain));
        assert_eq!(key(place.path(), &keychain).protection().unwrap(), Some(Protection::FileMode), "{state:?}");
        keychain.becomes(State::Usable);
        assert_eq!(got(&file(place.path(), &keychain)), "a value that is secret", "{state:?}");
        assert_eq!(keychain.count(), 0);
    }
}

#[test]
fn a_keychain_that_cannot_be_used_is_an_error_and_makes_no_second_key() {
    let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
    set(&file(place.path(), &keychain));
    let before = (key_file(place.path()), fs::read(place.path().join("secrets.json")).unwrap());
    let unchanged = || (key_file(place.path()), fs::read(place.path().join("secrets.json")).unwrap()) == before;
    let other = |file: &EncryptedFile| file.set("mail", "other", &CONTENT, &secret("x"), NOW).unwrap_err().code().id();
    for (state, code) in [
        (State::Locked, "secret.keychain_locked"),
        (State::Absent, "secret.keychain_unavailable"),
        (State::Confused, "secret.key_other"),
    ] {
        keychain.becomes(state);
        let file = file(place.path(), &keychain);
        assert_eq!((got(&file).as_str(), other(&file), unchanged()), (code, code, true), "{state:?}");
        // The list still works, because it needs no key.
        assert_eq!(file.list().unwrap().len(), 1);
    }
    keychain.becomes(State::Usable);
    // A program without a keychain, and one with a passphrase.
    let without = EncryptedFile::new(place.path(), Box::new(FileKey::new(place.path())));
    assert_eq!(
        (got(&without).as_str(), other(&without), unchanged()),
        ("secret.keychain_unsupported", "secret.keychain_unsupported", true)
    );
    let passphrase = key(place.path(), &keychain).with_passphrase(secret("correct horse battery"));
    let with = EncryptedFile::new(place.path(), Box::new(passphrase));
    assert_eq!((got(&with).as_str(), unchanged()), ("secret.passphrase_unused", true));
    // A deleted entry: even when nothing is stored, the key file decides.
    keychain.keys.lock().unwrap().clear();
    let file = file(place.path(), &keychain);
    assert_eq!((got(&file).as_str(), other(&file), unchanged()), ("secret.key_missing", "secret.key_missing", true));
    file.unset("mail", "key").unwrap();
    assert_eq!(other(&file), "secret.key_missing");
}

#[test]
fn a_key_moves_into_the_keychain_and_back() {
    let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
    set(&EncryptedFile::new(place.path(), Box::new(FileKey::new(place.path()))));
    let stored = file(place.path(), &keychain).key_id().unwrap();
    let key = key(place.path(), &keychain);
    let plain = key_file(place.path());
    // Failures change nothing.
    for (state, code) in [
        (State::Locked, "secret.keychain_locked"),
        (State::Absent, "secret.keychain_unavailable"),
        (State::Forgetful, "secret.key_missing"),
        (State::Confused, "secret.key_other"),
    ] {
        keychain.becomes(state);
        assert_eq!(key.move_to_keychain(None, stored.as_deref()).unwrap_err().code().id(), code, "{state:?}");
        assert_eq!(key_file(place.path()), plain, "{state:?}");
    }
    keychain.becomes(State::Usable);
    assert_eq!(key.move_to_keychain(None, Some("another")).unwrap_err().code().id(), "secret.key_other");
    assert_eq!(FileKey::new(place.path()).move_to_keychain(None, None).unwrap_err().code().id(), "secret.keychain_unsupported");
    assert_eq!((key.move_to_file().unwrap(), key_file(place.path())), (None, plain.clone()));

    // Repeating it has no effect.
    for _ in 0..2 {
        key.move_to_keychain(None, stored.as_deref()).unwrap();
        assert_eq!((key.protection().unwrap(), keychain.count()), (Some(Protection::Keychain), 1));
        assert_eq!(got(&file(place.path(), &keychain)), "a value that is secret");
    }
    // The key file is lost: the key of the stored secrets is found in the keychain, and no other is used.
    fs::remove_file(place.path().join(KEY_FILE)).unwrap();
    assert_eq!(got(&file(place.path(), &keychain)), "secret.key_missing");
    assert_eq!(key.move_to_keychain(None, Some("AAAAAAAAAAAAAAAA")).unwrap_err().code().id(), "secret.key_missing");
    assert!(!place.path().join(KEY_FILE).exists());
    key.move_to_keychain(None, stored.as_deref()).unwrap();
    assert_eq!(got(&file(place.path(), &keychain)), "a value that is secret");

    keychain.becomes(State::Locked);
    let in_keychain = key_file(place.path());
    assert_eq!(key.move_to_file().unwrap_err().code().id(), "secret.keychain_locked");
    assert_eq!(key_file(place.path()), in_keychain);
    keychain.becomes(State::Usable);
    assert_eq!((key.move_to_file().unwrap(), keychain.count()), (Some(true), 0));
    assert_eq!(got(&EncryptedFile::new(place.path(), Box::new(FileKey::new(place.path())))), "a value that is secret");
    assert_eq!(key_file(place.path()), plain, "the same key as before");
}

#[test]
fn a_passphrase_is_needed_to_move_what_it_protects() {
    let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
    let key = key(place.path(), &keychain);
    let passphrase = secret("correct horse battery");
    key.set_passphrase(None, &passphrase, Cost::LIGHT).unwrap();
    assert_eq!(key.move_to_keychain(None, None).unwrap_err().code().id(), "secret.passphrase_required");
    assert_eq!(
        key.move_to_keychain(Some(&secret("wrong horse battery")), None).unwrap_err().code().id(),
        "secret.passphrase_wrong"
    );
    let id = key.clone().with_passphrase(passphrase.duplicate()).load().unwrap().unwrap().id();
    key.move_to_keychain(Some(&passphrase), Some(&id)).unwrap();
    assert_eq!((key.protection().unwrap(), key.load().unwrap().unwrap().id()), (Some(Protection::Keychain), id));
    // A passphrase moves the key out of the keychain again.
    key.set_passphrase(None, &passphrase, Cost::LIGHT).unwrap();
    assert_eq!(key.protection().unwrap(), Some(Protection::Passphrase));
}

#[test]
fn a_move_that_fails_at_any_step_leaves_a_key_that_opens_the_secrets() {
    for step in Step::ALL {
        let (place, keychain) = (folder(), Arc::new(MemoryKeychain::default()));
        set(&EncryptedFile::new(place.path(), Box::new(FileKey::new(place.path()))));
        let fails = StateFolder::new(place.path()).with_fault(Arc::new(move |name, reached| {
            if name == KEY_FILE && reached == step { Err(std::io::Error::other("the disk is full")) } else { Ok(()) }
        }));
        let chain: Arc<dyn Keychain> = Arc::<MemoryKeychain>::clone(&keychain);
        let failing = FileKey::in_folder(fails).with_keychain(Some(chain));
        assert_eq!(failing.move_to_keychain(None, None).unwrap_err().code().id(), "secret.storage", "{step:?}");
        assert_eq!(got(&file(place.path(), &keychain)), "a value that is secret", "{step:?}");
        key(place.path(), &keychain).move_to_keychain(None, None).unwrap();
        assert_eq!(failing.move_to_file().unwrap_err().code().id(), "secret.storage", "{step:?}");
        assert_eq!(got(&file(place.path(), &keychain)), "a value that is secret", "{step:?}");
        assert_eq!(keychain.count(), 1, "the copy stays until the file is written: {step:?}");
    }
}
