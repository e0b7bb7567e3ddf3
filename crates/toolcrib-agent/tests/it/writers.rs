//! Writers that run commands.

use std::time::{Duration, Instant};

use alloy_primitives::Bytes;
use toolcrib_agent::txt::FileSource;
use toolcrib_agent::txt_writer::{CommandSettings, CommandWriter, PrintWriter, RecordChange, TxtWriter as _};
use toolcrib_core::agent::txt::CidText;

use crate::support::{POINTER, domain};

fn change() -> RecordChange {
    let cid = POINTER.rsplit('/').next().expect("a CID");
    let existing = [Bytes::from_static(b"agt-version=1"), Bytes::from_static(b"agt-name=\xff")];
    RecordChange::point_at(&domain("exampleagent.agt"), &CidText::parse(cid).expect("a CID"), &existing, true).expect("a change")
}

fn command(script: &str) -> CommandSettings {
    CommandSettings::from_arguments(["sh", "-c", script]).expect("a command")
}

#[tokio::test]
async fn a_command_gets_the_change_as_json_and_few_variables() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, variables) = (folder.path().join("input"), folder.path().join("variables"));
    let script = format!("cat > {}; env > {}", input.display(), variables.display());
    let mut settings = command(&script);
    let usual =
        ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    // Variables that the shell sets itself.
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let others = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let others: Vec<String> = others.filter(|name| !usual.contains(&name.as_str()) && !shell.contains(&name.as_str())).collect();
    // One variable of this process is passed by name; cargo sets several.
    let given: Vec<String> = others.iter().take(1).cloned().collect();
    settings.variables.clone_from(&given);
    let writer = CommandWriter::new(settings, None);
    assert_eq!(writer.name(), "command:sh");
    let written = writer.write(&change()).await.expect("written");
    assert_eq!(written.read_back, None);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&input).expect("a file")).expect("JSON");
    assert_eq!(json["domain"], "exampleagent.agt");
    assert_eq!(json["add"][0]["text"], POINTER);
    assert_eq!(json["remove"][0], serde_json::json!({"text": "agt-version=1", "hex": "0x6167742d76657273696f6e3d31"}));
    let variables = std::fs::read_to_string(&variables).expect("a file");
    let names: Vec<_> = variables.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"PATH") && given.iter().all(|name| names.contains(&name.as_str())), "{names:?}");
    assert!(!others.iter().skip(1).any(|name| names.contains(&name.as_str())), "{names:?}");
}

#[tokio::test]
async fn what_a_command_wrote_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("records.txt");
    std::fs::write(&path, "agt-version=1\n").expect("a file");
    let mut settings = command(&format!("echo '{POINTER}' > {}", path.display()));
    settings.visible_within = Duration::ZERO;
    let writer = CommandWriter::new(settings, Some(Box::new(FileSource::new(&path))));
    let written = writer.write(&change()).await.expect("written");
    assert_eq!(written.read_back, Some(vec![Bytes::from_static(POINTER.as_bytes())]));
    // A command that does nothing, but exits successfully.
    std::fs::write(&path, "agt-version=1\n").expect("a file");
    let mut settings = command("true");
    settings.visible_within = Duration::ZERO;
    let writer = CommandWriter::new(settings, Some(Box::new(FileSource::new(&path))));
    assert_eq!(writer.write(&change()).await.expect_err("not written").code().id(), "agent.txt_read_back");
}

// req: AGT-003
#[tokio::test]
async fn a_command_is_not_run_for_a_change_that_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ran) = (folder.path().join("records.txt"), folder.path().join("ran"));
    std::fs::write(&path, "agt-version=1\nagt-cap=ocr\n").expect("a file");
    let settings = command(&format!("touch {}", ran.display()));
    let writer = CommandWriter::new(settings, Some(Box::new(FileSource::new(&path))));
    let error = writer.write(&change()).await.expect_err("a legacy record would stay");
    assert_eq!(error.code().id(), "agent.txt_write_plan");
    // Nothing is written while the existing records are unknown.
    std::fs::remove_file(&path).expect("a file");
    let error = writer.write(&change()).await.expect_err("the records are unknown");
    assert_eq!(error.code().id(), "agent.txt_write_plan");
    assert!(!ran.exists());
}

#[tokio::test]
async fn commands_that_fail_hang_or_babble_are_reported() {
    let run = |script: &'static str| async move {
        let mut settings = command(script);
        settings.timeout = Duration::from_millis(1_500);
        let error = CommandWriter::new(settings, None).write(&change()).await.expect_err("failed");
        assert_eq!(error.code().id(), "agent.txt_command_failed", "{error}");
        error.to_string()
    };
    let said = run("printf 'no \\033[31mkey\\n' >&2; exit 3").await;
    assert!(said.contains("no \\u{1b}[31mkey") && said.contains('3'), "{said}");
    let started = Instant::now();
    assert!(run("sleep 60").await.contains("longer than"));
    assert!(run("yes").await.contains("more than"));
    assert!(started.elapsed() < Duration::from_secs(30));
    let missing = CommandSettings::from_arguments(["no-such-program-at-all"]).expect("a command");
    let error = CommandWriter::new(missing, None).write(&change()).await.expect_err("failed");
    assert!(error.to_string().contains("PATH"), "{error}");
    assert!(CommandSettings::from_arguments(Vec::<String>::new()).is_none());
}

#[tokio::test]
async fn a_change_is_printed_for_people() {
    let writer = PrintWriter::new(Vec::new());
    assert_eq!(writer.write(&change()).await.expect("printed").read_back, None);
    let legacy =
        RecordChange { domain: domain("exampleagent.agt"), remove: Vec::new(), add: vec![Bytes::from_static(b"agt-version=1")] };
    assert_eq!(writer.write(&legacy).await.expect_err("legacy records").code().id(), "agent.txt_write_plan");
    let text = String::from_utf8(writer.into_inner()).expect("text");
    assert!(text.starts_with("TXT records of exampleagent.agt:\n  remove  agt-version=1\n"), "{text}");
    assert!(text.ends_with(&format!("  add     {POINTER}\n")), "{text}");
}
