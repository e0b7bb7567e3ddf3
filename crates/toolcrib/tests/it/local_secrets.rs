//! Where credentials of local tools and their key are stored: in files, by reference, and in a keychain.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::{RunOutput, Sandbox, finish};

const VALUE: &str = "sk-very-secret-0123456789";

/// A sandbox with the tool `keyed`, which answers with the length of its credential.
fn keyed() -> Sandbox {
    let sandbox = Sandbox::new();
    let manifest = json!({
        "id": "keyed", "name": "Test", "description": "For tests.", "version": "1.0.0",
        "credentials": [{"name": "api_key", "label": "Key", "required": true}],
        "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}],
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    sandbox.write("tools/keyed/manifest.json", manifest.to_string());
    sandbox.write(
        "tools/keyed/main.py",
        "import json, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
         print(json.dumps({'id': call['id'], 'result': len(call['credentials']['api_key'])}), flush=True)\n",
    );
    sandbox
}

fn run(sandbox: &Sandbox, arguments: &[&str], stdin: &str, variables: &[(&str, &str)]) -> RunOutput {
    let mut command = sandbox.command(arguments);
    let ran = finish(command.envs(variables.iter().copied()).stdin(std::process::Stdio::piped()), stdin.as_bytes());
    assert!(!ran.stdout.contains(VALUE) && !ran.stderr.contains(VALUE), "{ran:#?}");
    ran
}

fn call(sandbox: &Sandbox, variables: &[(&str, &str)]) -> RunOutput {
    run(sandbox, &["local", "call", "keyed", "run", "--tools", "tools", "--yes"], "", variables)
}

fn set(sandbox: &Sandbox, variables: &[(&str, &str)]) -> RunOutput {
    run(sandbox, &["secret", "set", "keyed", "api_key", "--tools", "tools"], VALUE, variables)
}

/// The output of `secret key`.
fn key(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let ran = run(sandbox, &[&["secret", "key", "--json"], arguments].concat(), "", variables).code(0);
    serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["data"].take()
}

#[test]
fn a_reference_to_a_private_file_is_stored_instead_of_the_value() {
    let sandbox = keyed();
    let file = sandbox.write("value.txt", format!("{VALUE}\n"));
    let private = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
    let refer = || run(&sandbox, &["secret", "set", "keyed", "api_key", "--from-file", "value.txt", "--tools", "tools"], "", &[]);
    private(0o644);
    assert!(refer().code(2).stderr.contains("secret.exposed"));
    private(0o600);
    refer().code(0);
    assert_eq!(call(&sandbox, &[]).code(0).stdout.trim(), VALUE.len().to_string());
    let list = run(&sandbox, &["secret", "list"], "", &[]).code(0);
    assert!(list.stdout.starts_with(&format!("keyed api_key  file reference  {}  sha256:", file.display())), "{list:#?}");
    // The value is read from the file at each use.
    fs::write(&file, "short").expect("a file");
    assert_eq!(call(&sandbox, &[]).code(0).stdout.trim(), "5");
    private(0o604);
    assert!(call(&sandbox, &[]).stderr.contains("gives other users access"), "{:#?}", call(&sandbox, &[]));
    private(0o600);
    // A changed tool gets no credentials until they are bound again.
    sandbox.write("tools/keyed/extra.txt", "changed");
    assert_ne!(call(&sandbox, &[]).code, 0);
    run(&sandbox, &["secret", "rebind", "keyed", "--tools", "tools"], "", &[]).code(0);
    call(&sandbox, &[]).code(0);
    // A value replaces the reference.
    set(&sandbox, &[]).code(0);
    fs::remove_file(&file).expect("removed");
    assert_eq!(call(&sandbox, &[]).code(0).stdout.trim(), VALUE.len().to_string());
}

#[test]
fn the_example_with_a_credential_runs_once_it_is_set() {
    let sandbox = Sandbox::new();
    let tools = toolcrib_testkit::repository().join("examples/local").to_string_lossy().into_owned();
    let arguments =
        ["local", "call", "weather", "forecast", "--tools", &tools, "--yes", "--args", r#"{"place": "Bern", "days": 2}"#];
    assert!(run(&sandbox, &arguments, "", &[]).code(1).stderr.contains("host.credential_missing"));
    run(&sandbox, &["secret", "set", "weather", "api_key", "--tools", &tools], VALUE, &[]).code(0);
    let days: Value = serde_json::from_str(&run(&sandbox, &arguments, "", &[]).code(0).stdout).expect("JSON");
    assert_eq!(days.as_array().map(Vec::len), Some(2), "{days}");
}

#[cfg(not(feature = "keychain"))]
#[test]
fn a_program_without_a_keychain_says_so_and_changes_nothing() {
    let sandbox = keyed();
    assert_eq!(key(&sandbox, &[], &[])["kind"], Value::Null);
    set(&sandbox, &[]).code(0);
    let state = key(&sandbox, &[], &[]);
    assert_eq!(
        (state["kind"].as_str(), &state["available"]),
        (Some("key file"), &json!(["key file with a passphrase", "key file"]))
    );
    let path = sandbox.home().join(".local/state/toolcrib/local/secret.key");
    assert_eq!(state["place"].as_str(), path.to_str());
    let before = fs::read(&path).expect("a key file");
    let moved = run(&sandbox, &["secret", "key", "--to", "keychain"], "", &[]).code(2);
    assert!(moved.stderr.contains("secret.keychain_unsupported") && moved.stderr.contains("--features keychain"), "{moved:#?}");
    assert_eq!(fs::read(&path).expect("a key file"), before);
    // Its key is in the file already.
    assert_eq!(key(&sandbox, &["--to", "file"], &[])["kind"], "key file");
    // A key file from another program: no second key is created.
    fs::write(&path, r#"{"format":1,"protection":"keychain","account":"AAAAAAAAAAAAAAAA"}"#).expect("a key file");
    assert!(set(&sandbox, &[]).code(2).stderr.contains("secret.keychain_unsupported"));
    assert!(call(&sandbox, &[]).stderr.contains("built without"), "{:#?}", call(&sandbox, &[]));
    let doctor = run(&sandbox, &["local", "doctor", "--tools", "tools"], "", &[]).code(1);
    assert!(doctor.stdout.contains("PROBLEM  secrets: encrypted file: the key is in a keychain"), "{doctor:#?}");
}

#[cfg(feature = "keychain")]
#[test]
fn the_key_lives_in_a_real_keychain() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let Some(mut service) = toolcrib_testkit::SecretService::start(folder.path()) else { return };
    let (name, address) = service.variable();
    let bus: &[(&str, &str)] = &[(name, &address)];
    let nowhere: &[(&str, &str)] = &[(name, "unix:path=/nonexistent/bus")];
    let sandbox = keyed();
    let state = sandbox.home().join(".local/state/toolcrib/local");
    let files = || ["secret.key", "secrets.json"].map(|name| fs::read_to_string(state.join(name)).expect("a file"));

    // A new key is stored in the keychain, and the key file refers to it.
    set(&sandbox, bus).code(0);
    let shown = key(&sandbox, &[], bus);
    assert_eq!((shown["kind"].as_str(), &shown["available"][0]), (Some("keychain"), &json!("keychain")));
    assert!(shown["place"].as_str().is_some_and(|place| place.contains("service toolcrib, account ")), "{shown}");
    assert!(files()[0].contains(r#""protection":"keychain""#), "{:?}", files());
    assert_eq!(call(&sandbox, bus).code(0).stdout.trim(), VALUE.len().to_string());
    let list = run(&sandbox, &["secret", "list"], "", bus).code(0);
    assert!(list.stderr.contains("encrypted with the key in the keychain"), "{list:#?}");
    let doctor = run(&sandbox, &["local", "doctor", "--tools", "tools"], "", bus);
    assert!(
        doctor.stdout.contains("ok       secrets: encrypted file: 1 secrets in ") && doctor.stdout.contains("service toolcrib"),
        "{doctor:#?}"
    );

    // No bus, no service, a locked collection: an error says so, and nothing is created or changed.
    let before = files();
    let refused = |code: &str, variables: &[(&str, &str)]| {
        let ran = set(&sandbox, variables).code(2);
        assert!(ran.stderr.contains(code) && ran.stderr.contains("hint"), "{ran:#?}");
        assert_ne!(call(&sandbox, variables).code, 0);
        assert!(run(&sandbox, &["secret", "key", "--to", "file"], "", variables).code(2).stderr.contains(code));
        // Commands that need no key still work.
        assert!(run(&sandbox, &["secret", "list"], "", variables).code(0).stdout.contains("keyed api_key"));
        assert_eq!(files(), before);
    };
    refused("secret.keychain_unavailable", nowhere);
    service.lock();
    refused("secret.keychain_locked", bus);
    service.stop();
    refused("secret.keychain_unavailable", bus);

    // To the file, where no keychain is needed, and back. The keychain keeps its entries across a restart.
    service.unlock();
    assert_eq!(call(&sandbox, bus).code(0).stdout.trim(), VALUE.len().to_string());
    assert_eq!(key(&sandbox, &["--to", "file"], bus)["kind"], "key file");
    assert_eq!(call(&sandbox, nowhere).code(0).stdout.trim(), VALUE.len().to_string());
    let failed = run(&sandbox, &["secret", "key", "--to", "keychain"], "", nowhere).code(2);
    assert!(failed.stderr.contains("secret.keychain_unavailable"), "{failed:#?}");
    call(&sandbox, nowhere).code(0);
    assert_eq!(key(&sandbox, &["--to", "keychain"], bus)["kind"], "keychain");
    assert_eq!(call(&sandbox, bus).code(0).stdout.trim(), VALUE.len().to_string());
    // The key file is lost: the entry for the stored secrets is found again.
    fs::remove_file(state.join("secret.key")).expect("removed");
    assert_ne!(call(&sandbox, bus).code, 0);
    assert_eq!(key(&sandbox, &["--to", "keychain"], bus)["kind"], "keychain");
    assert_eq!(call(&sandbox, bus).code(0).stdout.trim(), VALUE.len().to_string());
    let logs = run(&sandbox, &["local", "logs"], "", bus).code(0);
    assert!(logs.stdout.contains("secret_key_moved"), "{}", logs.stdout);
}
