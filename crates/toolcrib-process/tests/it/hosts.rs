//! Hosts in separate processes, which are killed or run as another user.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use toolcrib_process::{Exceeded, Limits, Surface, spawn};

use crate::limits::{start_processes, take_memory};
use crate::orphans::{kill, leave_behind, policy};
use crate::{is_running, launcher, numbers, run, sandboxed, unsandboxed, until};

/// The role of the host, and the file that it reports to.
const ROLE: &str = "TOOLCRIB_PROCESS_TEST_ROLE";
const FILE: &str = "TOOLCRIB_PROCESS_TEST_FILE";

/// A user without any rights.
const OTHER_USER: &str = "12345";

/// The host. Without a role it does nothing.
#[tokio::test]
async fn host() {
    let (Ok(role), Some(file)) = (std::env::var(ROLE), std::env::var_os(FILE)) else { return };
    let file = Path::new(&file);
    let folder = file.parent().expect("a folder");
    match role.as_str() {
        "direct" | "supervised" | "sandboxed" => {
            let spec = leave_behind(file, "exec sleep 303");
            let spec = if role == "sandboxed" { sandboxed(spec, policy(folder)) } else { unsandboxed(spec) };
            let launcher = launcher();
            let _running = spawn(&spec, (role != "direct").then_some(&launcher)).expect("it starts");
            std::future::pending::<()>().await;
        }
        "limits" => {
            let containment = toolcrib_process::probe();
            let is_watched = |surface| format!("{:?}", containment.level(surface)).contains("Watchdog");
            assert!(is_watched(Surface::Memory) && is_watched(Surface::Processes), "{containment:?}");
            let limits = Limits { memory: Some(128 << 20), processes: Some(24), ..Limits::default() };
            let mut memory = sandboxed(take_memory(8 * 1_024), policy(folder));
            memory.limits = limits.clone();
            let outcome = run(&memory).await;
            let is_killed = outcome.ended.as_ref().is_ok_and(|ended| ended.exceeded == Some(Exceeded::Memory));
            assert!(is_killed || outcome.stdout.starts_with("denied MemoryError"), "{outcome:?}");
            // Each of ten processes is below the limit, but their sum is not.
            let mut many = sandboxed(
                crate::python(
                    "import time\nfor _ in range(9):\n    if os.fork() == 0: x = b'x' * (40 << 20); time.sleep(60)\ntime.sleep(60)",
                ),
                policy(folder),
            );
            many.limits = limits.clone();
            assert_eq!(run(&many).await.ended.expect("it ran").exceeded, Some(Exceeded::Memory));
            let mut processes = sandboxed(start_processes(100_000), policy(folder));
            processes.limits = limits;
            let outcome = run(&processes).await;
            assert_eq!(outcome.ended.as_ref().expect("it ran").exceeded, Some(Exceeded::Processes), "{outcome:?}");
            std::fs::write(file, "1\n2\n3\n").expect("written");
        }
        other => panic!("there is no role {other}"),
    }
}

fn start(role: &str, file: &Path, as_other_user: bool) -> std::process::Child {
    let program = std::env::current_exe().expect("a path");
    let mut command = if as_other_user {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER_USER, "--regid", OTHER_USER, "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["hosts::host", "--exact", "--test-threads=2", "--nocapture"]);
    command.env(ROLE, role).env(FILE, file).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("a host")
}

#[tokio::test]
async fn a_host_that_is_killed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    for role in ["direct", "supervised", "sandboxed"] {
        let file = folder.path().join(role);
        let mut host = start(role, &file, false);
        let processes = numbers(&file, 3).await;
        assert!(processes.iter().all(|process| is_running(*process)), "{role}: {processes:?}");
        host.kill().expect("killed");
        host.wait().expect("it has ended");
        if role == "direct" {
            // Without a launcher they survive: this is the purpose of the launcher.
            assert!(processes.iter().all(|process| is_running(*process)), "{role}: {processes:?}");
        } else {
            until(role, || processes.iter().all(|process| !is_running(*process))).await;
        }
        kill(&processes);
    }
}

#[tokio::test]
async fn a_user_without_rights_has_orphans_and_limits_under_control() {
    let folder = tempfile::tempdir().expect("a folder");
    let has_access = |path: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER_USER, "--regid", OTHER_USER, "--clear-groups", "test", "-x"]).arg(path);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !has_access(&std::env::current_exe().expect("a path")) || !has_access(launcher().program()) {
        toolcrib_testkit::skip("user", "this user cannot run programs as another, or that one cannot reach the test");
        return;
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("open to all");
    let file = folder.path().join("sandboxed");
    let mut host = start("sandboxed", &file, true);
    let processes = numbers(&file, 3).await;
    host.kill().expect("killed");
    host.wait().expect("it has ended");
    until("all gone", || processes.iter().all(|process| !is_running(*process))).await;
    kill(&processes);
    // Without control groups the supervisor's watchdog enforces the limit.
    let file = folder.path().join("limits");
    let mut host = start("limits", &file, true);
    assert!(host.wait().expect("it ends").success());
    assert_eq!(numbers(&file, 3).await, [1, 2, 3]);
}
