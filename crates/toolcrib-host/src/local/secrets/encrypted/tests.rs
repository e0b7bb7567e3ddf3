//! The encrypted file: stored values, refused values, and crashes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::local::secrets::{Cost, FileKey, KEY_FILE};
use crate::local::state_file::Step;

const OLD: &str = "old-value-of-a-secret";
const NEW: &str = "new-value-of-a-secret";
const NOW: UnixTime = UnixTime::from_seconds(1_700_000_000);

/// Variables that tell the child what to do.
const CHILD: &str = "TOOLCRIB_TEST_SECRETS_CHILD";

fn content(byte: u8) -> ContentHash {
    ContentHash::new([byte; 32])
}

/// A change of the file.
type Change = fn(&mut serde_json::Value);

/// A folder that only this user can access.
fn folder() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn open(path: &Path) -> EncryptedFile {
    EncryptedFile::new(path, Box::new(FileKey::new(path)))
}

fn open_with(path: &Path, passphrase: &str) -> EncryptedFile {
    EncryptedFile::new(path, Box::new(FileKey::new(path).with_passphrase(secret(passphrase)).cost(Cost::LIGHT)))
}

fn value(file: &EncryptedFile, tool: &str, name: &str, hash: u8) -> Option<String> {
    match file.get(tool, name, &content(hash)).unwrap() {
        Lookup::Value { secret, source: Source::Encrypted } => Some(secret.expose().to_owned()),
        Lookup::Missing => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_secret_is_for_one_tool_name_and_content() {
    let place = folder();
    let file = open(place.path());
    assert!(matches!(file.get("mail", "key", &content(1)), Ok(Lookup::Missing)));
    assert!(file.list().unwrap().is_empty());
    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    file.set("mail", "other", &content(1), &secret(NEW), NOW).unwrap();
    // Another process reads the same.
    let file = open(place.path());
    assert_eq!(value(&file, "mail", "key", 1).as_deref(), Some(OLD));
    assert_eq!(value(&file, "web", "key", 1), None);
    assert!(matches!(file.get("mail", "key", &content(2)), Ok(Lookup::BoundToOther { bound_to }) if bound_to == content(1)));

    assert_eq!(file.rebind("mail", &content(9), &content(2)).unwrap(), 0);
    assert_eq!(file.rebind("mail", &content(1), &content(2)).unwrap(), 2);
    assert_eq!(value(&file, "mail", "other", 2).as_deref(), Some(NEW));
    let states = file.list().unwrap();
    assert_eq!(states.len(), 2);
    assert_eq!((states[0].bound_to, states[0].set_at), (Some(content(2)), Some(NOW)));

    assert!(file.unset("mail", "key").unwrap());
    assert!(!file.unset("mail", "key").unwrap());
    assert_eq!(file.unset_tool("mail").unwrap(), 1);
    assert!(file.list().unwrap().is_empty());
}

#[test]
fn values_never_reach_the_disk() {
    let place = folder();
    let file = open(place.path());
    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    assert_no_plaintext(place.path());
    assert_eq!(file.verify().unwrap(), 1);
    assert!(!format!("{file:?}").contains(OLD));
}

#[test]
fn wrong_names_and_values_are_refused() {
    let place = folder();
    let file = open(place.path());
    for (tool, name) in [("", "a"), ("a", ""), ("../a", "b"), ("a.b", "c"), ("a", "b/c"), ("a", "\u{1b}[31m")] {
        let error = file.set(tool, name, &content(1), &secret(OLD), NOW).unwrap_err();
        assert_eq!(error.code().id(), "secret.name", "{tool} {name}");
        assert!(!error.to_string().contains('\u{1b}'));
    }
    assert_eq!(file.set("a", "b", &content(1), &secret(""), NOW).unwrap_err().code().id(), "secret.value");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn changed_and_moved_values_do_not_open() {
    let place = folder();
    let file = open(place.path());
    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    file.set("web", "key", &content(1), &secret(NEW), NOW).unwrap();
    let original: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
    let damage: [(&str, Change); 6] = [
        ("swapped values", |file| {
            let other = file["secrets"][1]["sealed"].take();
            file["secrets"][1]["sealed"] = file["secrets"][0]["sealed"].take();
            file["secrets"][0]["sealed"] = other;
        }),
        ("another tool", |file| file["secrets"][0]["tool"] = "maid".into()),
        ("another name", |file| file["secrets"][0]["name"] = "kex".into()),
        ("another content", |file| file["secrets"][0]["bound_to"] = content(3).to_string().into()),
        ("another time", |file| file["secrets"][0]["set_at"] = 1.into()),
        ("another value", |file| {
            let sealed = file["secrets"][0]["sealed"].as_str().unwrap();
            file["secrets"][0]["sealed"] =
                sealed.replace(&sealed[40..42], if &sealed[40..42] == "AA" { "BB" } else { "AA" }).into();
        }),
    ];
    for (what, damage) in damage {
        let mut changed = original.clone();
        damage(&mut changed);
        fs::write(file.path(), serde_json::to_vec(&changed).unwrap()).unwrap();
        let error = file.verify().unwrap_err();
        assert_eq!(error.code().id(), "secret.tampered", "{what}: {error}");
    }
}

#[test]
fn damaged_files_are_neither_read_nor_overwritten() {
    let place = folder();
    let file = open(place.path());
    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    let original = fs::read(file.path()).unwrap();
    let text = String::from_utf8(original.clone()).unwrap();
    for damaged in [
        Vec::new(),
        original[..original.len() / 2].to_vec(),
        b"[]".to_vec(),
        text.replace("\"format\": 1", "\"format\": 2").into_bytes(),
        text.replace("\"format\"", "\"extra\": 1, \"format\"").into_bytes(),
    ] {
        fs::write(file.path(), &damaged).unwrap();
        for error in [
            file.get("mail", "key", &content(1)).map(drop).unwrap_err(),
            file.set("mail", "key", &content(1), &secret(NEW), NOW).unwrap_err(),
            file.list().map(drop).unwrap_err(),
        ] {
            assert_eq!(error.code().id(), "secret.malformed", "{error}");
        }
        assert_eq!(fs::read(file.path()).unwrap(), damaged);
    }
}

#[test]
fn secrets_stay_with_their_key() {
    let (place, other) = (folder(), folder());
    open(place.path()).set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    open(other.path()).set("mail", "key", &content(1), &secret(NEW), NOW).unwrap();
    let key = fs::read(place.path().join(KEY_FILE)).unwrap();

    fs::copy(other.path().join(KEY_FILE), place.path().join(KEY_FILE)).unwrap();
    for error in [
        open(place.path()).get("mail", "key", &content(1)).map(drop).unwrap_err(),
        open(place.path()).set("mail", "x", &content(1), &secret(NEW), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code().id(), "secret.key_other");
    }
    fs::remove_file(place.path().join(KEY_FILE)).unwrap();
    for error in [
        open(place.path()).get("mail", "key", &content(1)).map(drop).unwrap_err(),
        open(place.path()).set("mail", "x", &content(1), &secret(NEW), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code().id(), "secret.key_missing");
    }
    assert!(!place.path().join(KEY_FILE).exists(), "no new key is made beside old secrets");
    fs::write(place.path().join(KEY_FILE), &key[..key.len() - 10]).unwrap();
    chmod(&place.path().join(KEY_FILE), 0o600);
    assert_eq!(open(place.path()).verify().unwrap_err().code().id(), "secret.malformed");
    fs::write(place.path().join(KEY_FILE), &key).unwrap();
    assert_eq!(open(place.path()).verify().unwrap(), 1);
}

#[test]
fn a_key_that_others_can_read_or_replace_is_not_used() {
    let place = folder();
    open(place.path()).set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    let key = place.path().join(KEY_FILE);
    for mode in [0o644, 0o640, 0o604, 0o620, 0o700] {
        chmod(&key, mode);
        let error = open(place.path()).verify().unwrap_err();
        assert_eq!(error.code().id(), "secret.exposed", "{mode:o}");
        assert!(error.code().info().hint.contains("chmod 600"));
    }
    chmod(&key, 0o400);
    assert_eq!(open(place.path()).verify().unwrap(), 1);
    fs::rename(&key, place.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &key).unwrap();
    assert_eq!(open(place.path()).verify().unwrap_err().code().id(), "secret.not_a_file");
}

#[test]
fn a_passphrase_is_set_changed_and_removed() {
    let place = folder();
    let (first, second) = ("correct horse battery", "another horse battery");
    open(place.path()).set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    let key = FileKey::new(place.path());
    let plain = fs::read_to_string(key.path()).unwrap();
    assert_eq!(key.set_passphrase(None, &secret("short"), Cost::LIGHT).unwrap_err().code().id(), "secret.passphrase_weak");
    assert_eq!(
        key.set_passphrase(Some(&secret(first)), &secret(second), Cost::LIGHT).unwrap_err().code().id(),
        "secret.passphrase_unused"
    );
    key.set_passphrase(None, &secret(first), Cost::LIGHT).unwrap();
    assert_eq!(key.protection().unwrap(), Some(crate::local::secrets::Protection::Passphrase));
    let wrapped = fs::read_to_string(key.path()).unwrap();
    let data_key = plain.split('"').nth(9).unwrap();
    assert!(data_key.len() == 44 && !wrapped.contains(data_key), "the key file holds only the wrapped key");

    assert_eq!(open(place.path()).verify().unwrap_err().code().id(), "secret.passphrase_required");
    assert_eq!(open_with(place.path(), second).verify().unwrap_err().code().id(), "secret.passphrase_wrong");
    let file = open_with(place.path(), first);
    assert_eq!(value(&file, "mail", "key", 1).as_deref(), Some(OLD));
    file.set("mail", "more", &content(1), &secret(NEW), NOW).unwrap();

    assert_eq!(key.set_passphrase(None, &secret(second), Cost::LIGHT).unwrap_err().code().id(), "secret.passphrase_required");
    key.set_passphrase(Some(&secret(first)), &secret(second), Cost::LIGHT).unwrap();
    assert_eq!(open_with(place.path(), first).verify().unwrap_err().code().id(), "secret.passphrase_wrong");
    assert_eq!(open_with(place.path(), second).verify().unwrap(), 2);
    assert_eq!(key.remove_passphrase(&secret(first)).unwrap_err().code().id(), "secret.passphrase_wrong");
    key.remove_passphrase(&secret(second)).unwrap();
    assert_eq!(open(place.path()).verify().unwrap(), 2);
    assert_eq!(open_with(place.path(), second).verify().unwrap_err().code().id(), "secret.passphrase_unused");
}

#[test]
fn a_new_store_can_begin_with_a_passphrase() {
    let place = folder();
    let file = open_with(place.path(), "correct horse battery");
    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
    assert_eq!(open(place.path()).verify().unwrap_err().code().id(), "secret.passphrase_required");
    let text = fs::read_to_string(place.path().join(KEY_FILE)).unwrap();
    for (from, to) in
        [("\"log_n\":12", "\"log_n\":40"), ("\"log_n\":12", "\"log_n\":1"), ("\"r\":8", "\"r\":800000"), ("\"p\":1", "\"p\":9")]
    {
        assert!(text.contains(from), "{text}");
        fs::write(place.path().join(KEY_FILE), text.replace(from, to)).unwrap();
        let error = open_with(place.path(), "correct horse battery").verify().unwrap_err();
        assert_eq!(error.code().id(), "secret.key_cost", "{to}");
    }
}

#[test]
fn the_number_of_secrets_is_limited() {
    let place = folder();
    let file = open(place.path());
    file.set("a", "a", &content(1), &secret(OLD), NOW).unwrap();
    // Written at once: one by one would take a thousand syncs.
    let key = FileKey::new(place.path()).load().unwrap().unwrap();
    let entry = |index: usize| {
        let mut entry = Entry::new(&format!("t{index:04}"), "a", content(1), NOW, None);
        entry.seal(&key, &secret(OLD)).unwrap();
        entry
    };
    let full = File { format: FORMAT, key: Some(key.id()), secrets: (0..MAX_SECRETS).map(entry).collect() };
    fs::write(file.path(), serde_json::to_vec(&full).unwrap()).unwrap();
    assert_eq!(file.set("z", "a", &content(1), &secret(NEW), NOW).unwrap_err().code().id(), "secret.too_many");
    file.set("t0007", "a", &content(1), &secret(NEW), NOW).unwrap();
    assert_eq!(value(&file, "t0007", "a", 1).as_deref(), Some(NEW));
    assert_eq!(file.verify().unwrap(), MAX_SECRETS);
}

/// The actions of the child, with the store before and after.
const ACTIONS: [&str; 5] = ["first", "set", "unset", "rebind", "passphrase"];

// SIGKILL before each step of each write of each operation.
#[test]
fn a_crash_at_any_step_leaves_the_old_state_or_the_new() {
    let mut reached = BTreeSet::new();
    for action in ACTIONS {
        for name in [KEY_FILE, SECRETS_FILE] {
            for (index, step) in Step::ALL.into_iter().enumerate() {
                let place = folder();
                if action != "first" {
                    let file = open(place.path());
                    file.set("mail", "key", &content(1), &secret(OLD), NOW).unwrap();
                    file.set("web", "key", &content(1), &secret(OLD), NOW).unwrap();
                }
                let status = run_child(&format!("{action},{name},{index}"), place.path());
                match status.signal() {
                    Some(9) => reached.insert((action, name)),
                    // This operation does not write that file.
                    _ => {
                        assert!(status.success());
                        continue;
                    }
                };
                check_after_crash(action, place.path(), &format!("{action} {name} {step:?}"));
            }
        }
    }
    let expected = [
        ("first", KEY_FILE),
        ("first", SECRETS_FILE),
        ("set", SECRETS_FILE),
        ("unset", SECRETS_FILE),
        ("rebind", SECRETS_FILE),
        ("passphrase", KEY_FILE),
    ];
    assert_eq!(reached, BTreeSet::from(expected));
}

fn check_after_crash(action: &str, place: &Path, what: &str) {
    assert_no_plaintext(place);
    let protection = FileKey::new(place).protection().unwrap();
    let file = match protection {
        Some(crate::local::secrets::Protection::Passphrase) => open_with(place, "correct horse battery"),
        _ => open(place),
    };
    if action == "first" {
        assert!(matches!(value(&file, "mail", "key", 1).as_deref(), None | Some(NEW)), "{what}");
    } else {
        assert_eq!(value(&file, "web", "key", 1).as_deref(), Some(OLD), "{what}");
        match (action, file.get("mail", "key", &content(1)).unwrap()) {
            ("set", Lookup::Value { secret, .. }) => assert!([OLD, NEW].contains(&secret.expose()), "{what}"),
            ("unset", Lookup::Missing) => {}
            ("rebind", Lookup::BoundToOther { bound_to }) => assert_eq!(bound_to, content(2), "{what}"),
            (_, Lookup::Value { secret, .. }) => assert_eq!(secret.expose(), OLD, "{what}"),
            (_, other) => panic!("{what}: {other:?}"),
        }
    }
    // The lock is free, the next writes succeed, and remains of the crash are removed.
    file.set("mail", "key", &content(1), &secret(NEW), NOW).unwrap();
    assert_eq!(value(&file, "mail", "key", 1).as_deref(), Some(NEW), "{what}");
    if protection.is_some() && action == "passphrase" {
        let current = (protection != Some(crate::local::secrets::Protection::FileMode)).then(|| secret("correct horse battery"));
        FileKey::new(place).set_passphrase(current.as_ref(), &secret("correct horse battery"), Cost::LIGHT).unwrap();
        assert!(!place.join(".secret.key.partial").exists(), "{what}");
    }
    assert!(!place.join(".secrets.json.partial").exists(), "{what}");
}

/// Runs [`child`] in another process.
fn run_child(task: &str, place: &Path) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "local::secrets::encrypted::tests::child", "--test-threads=1"]);
    command.env(CHILD, format!("{task},{}", place.display()));
    command.output().unwrap().status
}

/// The child process of the tests above.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut parts = task.splitn(4, ',');
    let mut part = || parts.next().unwrap().to_owned();
    let (action, name, step, place) = (part(), part(), Step::ALL[part().parse::<usize>().unwrap()], part());
    let fault = Arc::new(move |written: &str, at: Step| {
        if written == name && at == step {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    });
    let folder = StateFolder::new(place).with_fault(fault);
    let key = FileKey::in_folder(folder.clone());
    let file = EncryptedFile::in_folder(folder, Box::new(key.clone()));
    match action.as_str() {
        "first" | "set" => file.set("mail", "key", &content(1), &secret(NEW), NOW).unwrap(),
        "unset" => assert!(file.unset("mail", "key").unwrap()),
        "rebind" => assert_eq!(file.rebind("mail", &content(1), &content(2)).unwrap(), 1),
        "passphrase" => key.set_passphrase(None, &secret("correct horse battery"), Cost::LIGHT).unwrap(),
        other => panic!("{other}"),
    }
}

fn assert_no_plaintext(place: &Path) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for text in [OLD, NEW] {
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{}", path.display());
        }
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_reference_is_bound_and_cannot_be_led_elsewhere() {
    let place = folder();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    for path in [&one, &other] {
        fs::write(path, path.to_str().unwrap()).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let file = open(place.path());
    file.set_reference("mail", "key", &content(1), &one, NOW).unwrap();
    let got = |hash: u8| match open(place.path()).get("mail", "key", &content(hash)) {
        Ok(Lookup::Value { secret, source: Source::Reference }) => secret.expose().to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.code().id().to_owned(),
    };
    assert_eq!(got(1), one.to_str().unwrap());
    assert!(got(2).starts_with("BoundToOther"), "{}", got(2));
    assert_eq!(file.list().unwrap()[0].file.as_deref(), Some(&*one));
    assert_eq!((file.rebind("mail", &content(1), &content(2)).unwrap(), got(2)), (1, one.to_str().unwrap().to_owned()));

    // The path in the file is readable, and tampering with it is detected.
    let original = fs::read_to_string(file.path()).unwrap();
    let changed = original.replace(one.to_str().unwrap(), other.to_str().unwrap());
    assert_ne!(original, changed);
    for (text, expected) in [(changed, "secret.tampered"), (original.replace("\"file\"", "\"set_at\""), "secret.malformed")] {
        fs::write(file.path(), text).unwrap();
        assert_eq!(got(2), expected);
    }
    fs::write(file.path(), original).unwrap();
    // The value is read from the file at each call; a missing or exposed file is an error.
    fs::write(&one, "rotated\n").unwrap();
    assert_eq!((got(2).as_str(), file.verify().unwrap()), ("rotated", 1));
    fs::set_permissions(&one, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!((got(2).as_str(), file.verify().unwrap_err().code().id()), ("secret.exposed", "secret.exposed"));
    fs::remove_file(&one).unwrap();
    assert_eq!(got(2), "secret.value");
    // An unusable reference is not stored, and a value replaces a reference.
    for path in [one.as_path(), Path::new("relative")] {
        assert_eq!(file.set_reference("mail", "new", &content(2), path, NOW).unwrap_err().code().id(), "secret.value");
    }
    file.set("mail", "key", &content(2), &secret(NEW), NOW).unwrap();
    assert_eq!(value(&open(place.path()), "mail", "key", 2).as_deref(), Some(NEW));
    assert_eq!(file.list().unwrap().len(), 1);
}
