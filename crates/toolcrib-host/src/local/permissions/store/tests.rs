//! Crash tests of the permissions file.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use toolcrib_core::clock::FixedClock;

use super::*;
use crate::local::state_file::Step;

/// Tells the child what to do.
const CHILD: &str = "TOOLCRIB_TEST_PERMISSIONS_CHILD";

const CONTENT: ContentHash = ContentHash::new([1; 32]);

fn open(folder: StateFolder) -> Permissions {
    Permissions::in_folder(folder, Arc::new(FixedClock(UnixTime::from_seconds(1_700_000_000))))
}

fn allow(tool: &str) -> Grant {
    Grant::allow(tool, CONTENT).lifetime(Lifetime::Always)
}

fn decision(permissions: &Permissions, tool: &str) -> Decision {
    let arguments = serde_json::json!({});
    let request = Request { tool, function: "run", content: CONTENT, arguments: &arguments, interactive: true };
    permissions.decide(&request).unwrap().decision
}

// SIGKILL before each step of each write.
#[test]
fn a_crash_at_any_step_leaves_the_old_rules_or_the_new() {
    for action in ["first", "grant", "revoke"] {
        for (index, step) in Step::ALL.into_iter().enumerate() {
            let private = std::fs::Permissions::from_mode(0o700);
            let place = tempfile::Builder::new().permissions(private).tempdir().unwrap();
            if action != "first" {
                let permissions = open(StateFolder::new(place.path()));
                permissions.grant(allow("mail")).unwrap();
                permissions.grant(allow("web")).unwrap();
            }
            let status = run_child(&format!("{action},{index}"), place.path());
            assert_eq!(status.signal(), Some(9), "{action} {step:?}");
            let what = format!("{action} {step:?}");
            let permissions = open(StateFolder::new(place.path()));
            let is_done = matches!(step, Step::SyncFolder | Step::Done);
            let (mail, web, files) = match (action, is_done) {
                ("first", done) => (Decision::Ask, Decision::Ask, done),
                ("grant", done) => (Decision::Allow, Decision::Allow, done),
                (_, true) => (Decision::Ask, Decision::Allow, false),
                (_, false) => (Decision::Allow, Decision::Allow, false),
            };
            let files = if files { Decision::Allow } else { Decision::Ask };
            let found = ["mail", "web", "files"].map(|tool| decision(&permissions, tool));
            assert_eq!(found, [mail, web, files], "{what}");
            // The lock is free, the next write succeeds, and remains of the crash are removed.
            permissions.grant(allow("files")).unwrap();
            assert_eq!(decision(&permissions, "files"), Decision::Allow, "{what}");
            assert!(!place.path().join(".permissions.json.partial").exists(), "{what}");
        }
    }
}

/// Runs [`child`] in a process of its own.
fn run_child(task: &str, place: &Path) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "local::permissions::store::tests::child", "--test-threads=1"]);
    command.env(CHILD, format!("{task},{}", place.display()));
    command.output().unwrap().status
}

/// The child process of the test above.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut parts = task.splitn(3, ',');
    let mut part = || parts.next().unwrap().to_owned();
    let (action, step, place) = (part(), Step::ALL[part().parse::<usize>().unwrap()], part());
    let fault = Arc::new(move |written: &str, at: Step| {
        if written == PERMISSIONS_FILE && at == step {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    });
    let permissions = open(StateFolder::new(place).with_fault(fault));
    match action.as_str() {
        "first" | "grant" => {
            permissions.grant(allow("files")).unwrap();
        }
        "revoke" => {
            permissions.revoke(RuleId::Stored(1)).unwrap();
        }
        other => panic!("{other}"),
    }
}
