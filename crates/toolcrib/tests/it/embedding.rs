//! Where `directory` finds a static embedding, and its messages about a missing or invalid one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::{RunOutput, Sandbox, finish};

/// A directory that ends at once, with an empty index.
fn directory(sandbox: &Sandbox, options: &[&str], variables: &[(&str, &str)]) -> RunOutput {
    let usual = ["directory", "--json", "--listen", "127.0.0.1:0", "--store", "index.db", "--exit-after", "0"];
    finish(sandbox.command(&[&usual[..], options].concat()).envs(variables.iter().copied()), b"")
}

/// The folder that the directory used.
#[track_caller]
fn taken(ran: &RunOutput) -> Option<PathBuf> {
    assert_eq!(ran.code, 0, "{ran:#?}");
    let event: Json = serde_json::from_str(ran.stdout.lines().next().expect("an event")).expect("JSON");
    assert_eq!(event["event"], "ready");
    event["data"]["embedding"].as_str().map(PathBuf::from)
}

/// A model of three tokens.
fn write_model(folder: &Path) {
    let header = r#"{"m":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}"#;
    let mut table = (header.len() as u64).to_le_bytes().to_vec();
    table.extend_from_slice(header.as_bytes());
    table.extend([0.0_f32, 0.0, 1.0, 0.0, 0.9, 0.1].iter().flat_map(|number| number.to_le_bytes()));
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("model.safetensors"), table).expect("written");
    let words = r#"{"model":{"type":"BPE","vocab":{"x":0,"a":1,"b":2},"merges":[]}}"#;
    fs::write(folder.join("tokenizer.json"), words).expect("written");
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn what_is_named_comes_before_what_is_found() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name).display().to_string();
    let places = ["option", "environment", "settings"];
    for name in places {
        write_model(&sandbox.path().join(name));
    }
    let (own, machine) =
        (sandbox.home().join(".local/share/toolcrib/embedding"), sandbox.path().join("share/toolcrib/embedding"));
    write_model(&own);
    write_model(&machine);
    fs::create_dir_all(sandbox.home().join(".config/toolcrib")).expect("a folder");
    let settings = sandbox.home().join(".config/toolcrib/config.toml");
    fs::write(&settings, format!("embedding = {:?}\n", at("settings"))).expect("written");
    let (share, variable) = (at("share"), at("environment"));
    let machine_wide = ("XDG_DATA_DIRS", share.as_str());
    let environment = ("TOOLCRIB_EMBEDDING", variable.as_str());

    let option = ["--embedding", &at("option")];
    assert_eq!(taken(&directory(&sandbox, &option, &[environment, machine_wide])), Some(at("option").into()));
    assert_eq!(taken(&directory(&sandbox, &[], &[environment, machine_wide])), Some(at("environment").into()));
    let by_settings = directory(&sandbox, &[], &[("TOOLCRIB_EMBEDDING", ""), machine_wide]);
    assert_eq!(taken(&by_settings), Some(at("settings").into()), "an empty variable is not set");
    assert!(sandbox.run(&["config"]).code(0).stdout.contains("embedding = "));
    fs::remove_file(&settings).expect("removed");
    assert_eq!(taken(&directory(&sandbox, &[], &[machine_wide])), Some(own.clone()));
    let elsewhere = directory(&sandbox, &[], &[("XDG_DATA_HOME", &at("none")), machine_wide]);
    assert_eq!(taken(&elsewhere), Some(machine.clone()));
    assert_eq!(count(&elsewhere.stderr, "no embedding"), 0, "{elsewhere:#?}");
    fs::remove_dir_all(&own).expect("removed");
    assert_eq!(taken(&directory(&sandbox, &[], &[machine_wide])), Some(machine));

    // A project folder cannot choose the embedding of a directory.
    sandbox.write("toolcrib.toml", "embedding = \"option\"\n");
    let refused = directory(&sandbox, &[], &[]);
    assert!(refused.code == 2 && refused.stdout.contains("user's settings file"), "{refused:#?}");
}

#[test]
fn its_absence_is_said_once() {
    let sandbox = Sandbox::new();
    for verbose in [&[][..], &["--verbose"]] {
        let plain = ["directory", "--listen", "127.0.0.1:0", "--store", "index.db", "--exit-after", "1"];
        let ran = sandbox.run_with_env(&[&plain[..], verbose].concat(), &[("XDG_DATA_DIRS", "/nonexistent")]).code(0);
        assert_eq!(count(&ran.stderr, "no embedding"), 1, "{ran:#?}");
        assert_eq!(count(&ran.stderr, "wordllama==0.4.0.post1"), 1, "the hint says how to install it");
        assert_eq!(count(&(ran.stderr + &ran.stdout), "embedding is installed"), 1);
    }
    assert_eq!(taken(&directory(&sandbox, &[], &[("XDG_DATA_DIRS", "/nonexistent")])), None);
}

#[test]
fn what_is_there_and_cannot_be_used_is_refused() {
    type Damage = (&'static str, &'static str, fn(&Path));
    let damages: [Damage; 7] = [
        ("a file in place of the folder", "tokenizer.json", |folder| {
            fs::remove_dir_all(folder).expect("removed");
            fs::write(folder, "no folder").expect("written");
        }),
        ("an empty folder", "0 *.safetensors files", |folder| {
            fs::remove_dir_all(folder).expect("removed");
            fs::create_dir(folder).expect("made");
        }),
        ("a folder in place of the vectors", "model.safetensors is not a file", |folder| {
            fs::remove_file(folder.join("model.safetensors")).expect("removed");
            fs::create_dir(folder.join("model.safetensors")).expect("made");
        }),
        ("a folder in place of the tokenizer", "tokenizer.json is not a file", |folder| {
            fs::remove_file(folder.join("tokenizer.json")).expect("removed");
            fs::create_dir(folder.join("tokenizer.json")).expect("made");
        }),
        ("truncated", "", |folder| {
            let path = folder.join("model.safetensors");
            let bytes = fs::read(&path).expect("readable");
            fs::write(path, &bytes[..bytes.len() - 5]).expect("written");
        }),
        ("one of two files", "tokenizer.json", |folder| fs::remove_file(folder.join("tokenizer.json")).expect("removed")),
        ("another hash than the package", "SHA-256", |folder| {
            for (part, name) in [("weights", "l2_supercat_256.safetensors"), ("tokenizers", "l2_supercat_tokenizer_config.json")]
            {
                let part = folder.join("wordllama").join(part);
                fs::create_dir_all(&part).expect("made");
                fs::write(part.join(name), "other bytes").expect("written");
            }
        }),
    ];
    for (name, says, damage) in damages {
        let sandbox = Sandbox::new();
        let folder = sandbox.home().join(".local/share/toolcrib/embedding");
        write_model(&folder);
        assert_eq!(taken(&directory(&sandbox, &[], &[])), Some(folder.clone()), "{name}: before");
        damage(&folder);
        let ran = directory(&sandbox, &[], &[]);
        assert_eq!(ran.code, 2, "{name}: {ran:#?}");
        let envelope: Json = serde_json::from_str(&ran.stdout).expect("JSON");
        let error = &envelope["errors"][0];
        assert_eq!(error["code"], "index.embedding", "{name}: {envelope:#}");
        let text = error["message"].as_str().expect("text");
        assert!(says == "tokenizer.json" || text.contains(says), "{name}: {text}");
        assert!(text.contains(&folder.display().to_string()), "{name}: {text}");
    }
    let sandbox = Sandbox::new();
    let missing = directory(&sandbox, &["--embedding", "not-there"], &[]);
    assert!(missing.code == 2 && missing.stdout.contains("index.embedding"), "what is named must be there: {missing:#?}");
}

/// Reading a pipe would block forever.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let folder = sandbox.home().join(".local/share/toolcrib/embedding");
    write_model(&folder);
    fs::remove_file(folder.join("model.safetensors")).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(folder.join("model.safetensors")).status().expect("mkfifo runs");
    assert!(made.success());
    let ran = directory(&sandbox, &[], &[]);
    assert!(ran.code == 2 && ran.stdout.contains("is not a file"), "{ran:#?}");
}

/// The package as unpacked by `pip install --target` and by `zipfile -e`.
#[test]
fn the_package_is_found_by_the_names_of_its_files_and_checked_by_hash() {
    let Some(model) = toolcrib_testkit::embedding() else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.home().join(".local/share/toolcrib/embedding");
    let (weights, tokenizers) = (folder.join("wordllama/weights"), folder.join("wordllama/tokenizers"));
    fs::create_dir_all(&weights).expect("made");
    fs::create_dir_all(&tokenizers).expect("made");
    let vectors = weights.join("l2_supercat_256.safetensors");
    fs::copy(model.join("model.safetensors"), &vectors).expect("copied");
    fs::copy(model.join("tokenizer.json"), tokenizers.join("l2_supercat_tokenizer_config.json")).expect("copied");
    let ran = directory(&sandbox, &["--verbose"], &[]);
    assert_eq!(taken(&ran), Some(folder));
    assert!(ran.stderr.contains("hashes match") && !ran.stderr.contains("WARN"), "{ran:#?}");
    let bytes = fs::read(&vectors).expect("readable");
    fs::write(&vectors, &bytes[..bytes.len() - 1]).expect("truncated");
    let ran = directory(&sandbox, &[], &[]);
    assert!(ran.code == 2 && ran.stdout.contains("SHA-256"), "{ran:#?}");
}
