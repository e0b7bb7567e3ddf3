//! Secrets of local tools: sources, several processes, a full disk, and redaction.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use base64ct::{Base64, Base64Url, Encoding as _};
use proptest::prelude::*;
use toolcrib_core::clock::UnixTime;
use toolcrib_host::local::secrets::{Cost, EncryptedFile, FileKey, Lookup, REDACTED, Redactor, Secret, SecretStore, Source};
use toolcrib_testkit::assert_faster_than;

use crate::local_support::{assert_success, child, child_with_small_files, content, private_folder};

const CHILD: &str = "TOOLCRIB_TEST_LOCAL_SECRETS";
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn store(folder: &Path) -> SecretStore {
    SecretStore::new(EncryptedFile::new(folder, Box::new(FileKey::new(folder))))
}

fn value(store: &SecretStore, tool: &str, name: &str) -> Option<(String, Source)> {
    match store.get(tool, name, &content(1)).unwrap() {
        Lookup::Value { secret, source } => Some((secret.expose().to_owned(), source)),
        Lookup::Missing => None,
        other => panic!("{other:?}"),
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// req: LOCAL-006
#[test]
fn sources_are_asked_in_their_order() {
    let place = private_folder();
    let (state, credentials) = (place.path().join("state"), place.path().join("credentials"));
    fs::create_dir(&credentials).unwrap();
    let reference = place.path().join("reference");
    let store = store(&state);
    assert_eq!(value(&store, "my-tool", "api_key"), None);
    store.set("my-tool", "api_key", &content(1), &secret("from the file"), NOW).unwrap();
    assert_eq!(value(&store, "my-tool", "api_key"), Some(("from the file".to_owned(), Source::Encrypted)));

    let store = store.with_references([("my-tool.api_key".to_owned(), reference.clone())]).unwrap();
    // An unreadable reference is an error: the value in the next source may be outdated.
    assert_eq!(store.get("my-tool", "api_key", &content(1)).unwrap_err().code().id(), "secret.value");
    write(&reference, "from the reference\n", 0o600);
    assert_eq!(value(&store, "my-tool", "api_key"), Some(("from the reference".to_owned(), Source::Reference)));

    let store = store.with_credentials_directory(&credentials);
    write(&credentials.join("my-tool.api_key"), "from systemd\r\n", 0o440);
    assert_eq!(value(&store, "my-tool", "api_key"), Some(("from systemd".to_owned(), Source::Credentials)));

    let store = store.with_environment([
        ("TOOLCRIB_SECRET_MY_TOOL__API_KEY".to_owned(), "from the environment".to_owned()),
        ("TOOLCRIB_SECRET_MY_TOOL__OTHER".to_owned(), String::new()),
        ("HOME".to_owned(), "/root".to_owned()),
    ]);
    assert_eq!(value(&store, "my-tool", "api_key"), Some(("from the environment".to_owned(), Source::Environment)));
    assert_eq!(value(&store, "my-tool", "other"), None, "an empty variable is none");
    // Read-only sources are not bound to a content.
    assert!(matches!(store.get("my-tool", "api_key", &content(9)), Ok(Lookup::Value { source: Source::Environment, .. })));
    assert_eq!(store.state("my-tool", "api_key").unwrap().unwrap().source, Source::Environment);

    let listed: Vec<_> = store.list().unwrap().into_iter().map(|state| (state.source, state.bound_to)).collect();
    assert_eq!(listed, [(Source::Credentials, None), (Source::Reference, None), (Source::Encrypted, Some(content(1)))]);
    let sources = store.sources();
    let order: Vec<_> = sources.iter().map(|state| (state.source, state.secrets, state.problem.is_some())).collect();
    assert_eq!(
        order,
        [
            (Source::Environment, 2, false),
            (Source::Credentials, 1, false),
            (Source::Reference, 1, false),
            (Source::Encrypted, 1, false)
        ]
    );
    for shown in [format!("{store:?}"), format!("{sources:?}")] {
        assert!(!shown.contains("from the"), "{shown}");
    }
}

#[test]
fn a_variable_belongs_to_one_tool() {
    let name = SecretStore::variable_name;
    assert_eq!(name("my-tool", "api_key").as_deref(), Some("TOOLCRIB_SECRET_MY_TOOL__API_KEY"));
    // With a single `_`, the tool `a` could declare `b_c` and get the secret of the tool `a-b`.
    assert_ne!(name("a-b", "c"), name("a", "b_c"));
    assert_ne!(name("a", "b--c"), name("a-b", "c"));
    // Ids that would become equal in a variable name have no variable.
    for tool in ["A", "a_b", "a--b", "a-", "../a", ""] {
        assert_eq!(name(tool, "c"), None, "{tool}");
    }
}

proptest! {
    #[test]
    fn variables_of_two_tools_are_never_the_same(
        first in "[a-z0-9A-Z_-]{1,6}", second in "[a-z0-9A-Z_-]{1,6}", names in prop::array::uniform2("[a-zA-Z0-9][a-zA-Z0-9_-]{0,6}"),
    ) {
        let [one, two] = [(&first, &names[0]), (&second, &names[1])].map(|(tool, name)| SecretStore::variable_name(tool, name));
        if first != second && one.is_some() {
            prop_assert_ne!(one, two);
        }
    }
}

#[test]
fn files_of_secrets_must_be_private() {
    let place = private_folder();
    let reference = place.path().join("reference");
    let store = store(&place.path().join("state")).with_references([("a.b".to_owned(), reference.clone())]).unwrap();
    let code = || store.get("a", "b", &content(1)).map(drop).unwrap_err().code().id();
    for mode in [0o644, 0o660, 0o601] {
        write(&reference, "value", mode);
        assert_eq!(code(), "secret.exposed", "{mode:o}");
    }
    assert!(store.sources()[1].problem.is_some());
    write(&reference, "value", 0o400);
    assert_eq!(value(&store, "a", "b").unwrap().0, "value");
    fs::rename(&reference, place.path().join("real")).unwrap();
    symlink(place.path().join("real"), &reference).unwrap();
    assert_eq!(code(), "secret.not_a_file");
    fs::remove_file(&reference).unwrap();
    write(&reference, &"x".repeat(70_000), 0o600);
    assert_eq!(code(), "secret.malformed");
    fs::write(&reference, [0xff, 0xfe]).unwrap();
    assert_eq!(code(), "secret.value");
    fs::write(&reference, "\n").unwrap();
    assert_eq!(code(), "secret.value");
    for key in ["a", "a.b.c", ".b", "../x.b"] {
        let store = crate::local_secrets::store(place.path()).with_references([(key.to_owned(), reference.clone())]);
        assert_eq!(store.unwrap_err().code().id(), "secret.name", "{key}");
    }
}

#[test]
fn a_file_of_another_user_is_refused() {
    let place = private_folder();
    let reference = place.path().join("reference");
    write(&reference, "value", 0o600);
    if std::os::unix::fs::chown(&reference, Some(12_345), None).is_err() {
        // Only root can change the owner of a file.
        return;
    }
    let store = store(&place.path().join("state")).with_references([("a.b".to_owned(), reference)]).unwrap();
    assert_eq!(store.get("a", "b", &content(1)).map(drop).unwrap_err().code().id(), "secret.exposed");
}

#[test]
fn several_processes_lose_no_update() {
    let place = private_folder();
    let children: Vec<_> = (0..4)
        .map(|number| {
            let task = format!("set,{number},{}", place.path().display());
            child("local_secrets::child_process", CHILD, &task).spawn().unwrap()
        })
        .collect();
    for process in children {
        assert_success(&process.wait_with_output().unwrap());
    }
    let store = store(place.path());
    for number in 0..4 {
        for index in 0..8 {
            let expected = format!("value {number} {index}");
            assert_eq!(value(&store, &format!("tool{number}"), &format!("name{index}")).unwrap().0, expected);
        }
    }
    assert_eq!(store.file().verify().unwrap(), 32);
}

#[test]
fn a_full_disk_is_an_error_and_changes_nothing() {
    let place = private_folder();
    let store = store(place.path());
    store.set("mail", "key", &content(1), &secret("old value"), NOW).unwrap();
    let before = fs::read(store.file().path()).unwrap();
    let output = child_with_small_files("local_secrets::child_process", CHILD, &format!("full,0,{}", place.path().display()));
    assert_success(&output);
    assert_eq!(fs::read(store.file().path()).unwrap(), before);
    assert!(!place.path().join(".secrets.json.partial").exists());
    assert_eq!(value(&store, "mail", "key").unwrap().0, "old value");
}

/// The child processes of the tests above.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut parts = task.splitn(3, ',');
    let (action, number, place) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let store = store(Path::new(place));
    match action {
        "set" => {
            for index in 0..8 {
                let value = secret(&format!("value {number} {index}"));
                store.set(&format!("tool{number}"), &format!("name{index}"), &content(1), &value, NOW).unwrap();
            }
        }
        "full" => {
            let error = store.set("mail", "other", &content(1), &secret(&"x".repeat(4_000)), NOW).unwrap_err();
            assert_eq!(error.code().id(), "secret.storage", "{error}");
            assert!(!error.to_string().contains("xxx"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_standard_cost_opens_what_it_wrapped() {
    let place = private_folder();
    let key = FileKey::new(place.path());
    key.set_passphrase(None, &secret("correct horse battery"), Cost::STANDARD).unwrap();
    let file = EncryptedFile::new(place.path(), Box::new(key.with_passphrase(secret("correct horse battery"))));
    file.set("a", "b", &content(1), &secret("value"), NOW).unwrap();
    assert_eq!(file.verify().unwrap(), 1);
}

fn redactor(values: &[&str]) -> Redactor {
    let secrets: Vec<_> = values.iter().map(|value| secret(value)).collect();
    Redactor::new(&secrets).unwrap()
}

/// Encodings in which programs print a value.
fn printed(value: &str) -> Vec<String> {
    let hex = |upper: bool| {
        value.bytes().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect::<String>()
    };
    vec![
        value.to_owned(),
        serde_json::to_string(value).unwrap(),
        serde_json::to_string(&serde_json::json!({"a": serde_json::to_string(value).unwrap()})).unwrap(),
        hex(true),
        hex(false),
        Base64::encode_string(value.as_bytes()),
        Base64Url::encode_string(value.as_bytes()),
        Base64::encode_string(format!("user:{value}").as_bytes()),
        Base64Url::encode_string(format!("ab{value}\n").as_bytes()),
        Base64::encode_string(format!("{{\"k\":\"{value}\"}}").as_bytes()),
        value.bytes().map(percent).collect(),
    ]
}

/// RFC 3986: all but unreserved characters.
fn percent(byte: u8) -> String {
    let is_kept = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if is_kept { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

proptest! {
    #[test]
    fn no_form_of_a_secret_survives(value in "[ -~äß€]{8,40}", before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
        let redactor = redactor(&[&value]);
        for form in printed(&value) {
            let text = format!("{before}|{form}|{after}");
            let redacted = redactor.text(&text);
            prop_assert!(redacted.contains(REDACTED), "{text} {redacted}");
            prop_assert!(!redacted.contains(value.as_str()) || REDACTED.contains(value.as_str()));
        }
    }

    #[test]
    fn streams_and_texts_are_the_same(values in prop::collection::vec("[ab]{8,12}", 1..4), text in "[abc]{0,200}", cuts in prop::collection::vec(1_usize..30, 1..40)) {
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        let redactor = redactor(&values);
        let expected = redactor.text(&text).into_owned();
        for value in &values {
            prop_assert!(!expected.contains(value));
        }
        let mut stream = redactor.stream();
        let (mut out, mut rest) = (Vec::new(), text.as_bytes());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, left) = rest.split_at((*cut).min(rest.len()));
            out.extend(stream.push(piece));
            rest = left;
        }
        out.extend(stream.finish());
        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn text_without_secrets_is_left_alone(value in "[a-z]{8,20}", text in "[A-Z0-9 ]{0,100}") {
        prop_assert_eq!(redactor(&[&value]).text(&text), text.as_str());
    }
}

#[test]
fn redaction_takes_linear_time() {
    // The worst case for a search that restarts: many prefixes of a form that never ends.
    let value = format!("{}b", "a".repeat(4_000));
    let redactor = redactor(&[&value]);
    let text = "a".repeat(2_000_000);
    let out = assert_faster_than(Duration::from_secs(5), "redaction of 2 MB", || redactor.text(&text).into_owned());
    assert_eq!(out, text);
}
