//! Processes that try to survive.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use toolcrib_process::{Policy, ProgramSpec, spawn};

use crate::{is_running, launcher, numbers, outcome, run, sandboxed, shell, unsandboxed, until};

/// Starts a child, and a process in its own session that has lost its parent. Writes three PIDs.
pub(crate) fn leave_behind(file: &Path, then: &str) -> ProgramSpec {
    let file = file.display();
    shell(&format!("echo $$ >>{file}; sleep 301 & echo $! >>{file}; (setsid sh -c 'echo $$ >>{file}; exec sleep 302' &); {then}"))
}

pub(crate) fn policy(folder: &Path) -> Policy {
    Policy { write: vec![folder.to_path_buf()], ..Policy::default() }
}

/// Kills the processes that survived a test.
pub(crate) fn kill(processes: &[i32]) {
    for process in processes.iter().filter_map(|process| rustix::process::Pid::from_raw(*process)) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

#[tokio::test]
async fn a_program_that_ignores_termination_is_killed() {
    for spec in [
        sandboxed(shell("trap '' TERM; echo ready; while :; do sleep 1; done"), Policy::default()),
        unsandboxed(shell("trap '' TERM; echo ready; while :; do sleep 1; done")),
    ] {
        let mut running = spawn(&spec, Some(&launcher())).expect("it starts");
        ready(&mut running).await;
        let ended = running.terminate(Duration::from_millis(200)).await.expect("it ran");
        assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
    }
}

#[tokio::test]
async fn a_program_can_clean_up_when_it_is_asked_to_end() {
    let script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    for launcher in [Some(launcher()), None] {
        let mut running = spawn(&unsandboxed(shell(script)), launcher.as_ref()).expect("it starts");
        ready(&mut running).await;
        let ended = running.terminate(Duration::from_secs(20)).await.expect("it ran");
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    }
    // A program without a handler dies of the signal, and its status is reported through the supervisor.
    let mut running =
        spawn(&sandboxed(shell("echo ready; exec sleep 60"), Policy::default()), Some(&launcher())).expect("it starts");
    ready(&mut running).await;
    let ended = running.terminate(Duration::from_secs(20)).await.expect("it ran");
    assert_eq!(ended.status.signal(), Some(15), "{ended:?}");
}

async fn ready(running: &mut toolcrib_process::Running) {
    use tokio::io::AsyncReadExt as _;
    let mut bytes = [0; 6];
    running.stdout.as_mut().expect("piped").read_exact(&mut bytes).await.expect("it is ready");
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // Without a supervisor it survives.
    let file = folder.path().join("open");
    let mut command = std::process::Command::new("/bin/sh");
    let spec = leave_behind(&file, "true");
    command.args(&spec.arguments).stdout(std::process::Stdio::null()).status().expect("it runs");
    let left = numbers(&file, 3).await;
    assert!(left.iter().skip(1).all(|process| is_running(*process)), "{left:?}");
    kill(&left);
    for (name, is_sandboxed) in [("sandboxed", true), ("supervised", false)] {
        let file = folder.path().join(name);
        let spec = leave_behind(&file, &format!("while [ $(wc -l <{}) -lt 3 ]; do sleep 0.01; done", file.display()));
        let spec = if is_sandboxed { sandboxed(spec, policy(folder.path())) } else { unsandboxed(spec) };
        let running = spawn(&spec, Some(&launcher())).expect("it starts");
        // Its output ends when the last process that holds it ends, so only the end of the program is awaited.
        let mut running = running;
        drop((running.stdout.take(), running.stderr.take()));
        running.wait().await.expect("it ran");
        let left = numbers(&file, 3).await;
        assert!(left.iter().all(|process| !is_running(*process)), "{name}: {left:?}");
    }
}

#[tokio::test]
async fn dropping_a_program_kills_everything_and_does_not_block() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, launcher) in [("launcher", Some(launcher())), ("direct", None)] {
        let file = folder.path().join(name);
        let spec = leave_behind(&file, "exec sleep 303");
        let spec = if launcher.is_some() { sandboxed(spec, policy(folder.path())) } else { unsandboxed(spec) };
        let running = spawn(&spec, launcher.as_ref()).expect("it starts");
        let processes = numbers(&file, 3).await;
        assert!(processes.iter().all(|process| is_running(*process)), "{processes:?}");
        let began = Instant::now();
        drop(running);
        toolcrib_testkit::assert_not_hung(began, "drop");
        // Without a launcher there may be no control group, so only the process group is certain.
        let certain = if launcher.is_some() { 3 } else { 2 };
        until(name, || processes.iter().take(certain).all(|process| !is_running(*process))).await;
        kill(&processes);
    }
}

#[tokio::test]
async fn exit_codes_and_signals_of_the_program_arrive() {
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 3", Some(3), None),
        ("exit 121", Some(121), None),
        ("exit 255", Some(255), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -15 $$", None, Some(15)),
        ("kill -11 $$", None, Some(11)),
        ("kill -10 $$", None, Some(10)),
    ] {
        let outcome = run(&sandboxed(shell(script), Policy::default())).await;
        let status = outcome.ended.as_ref().expect("it ran").status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_supervisor_that_is_killed_leaves_no_session_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pids");
    let mut running =
        spawn(&sandboxed(leave_behind(&file, "exec sleep 303"), policy(folder.path())), Some(&launcher())).expect("it starts");
    let processes = numbers(&file, 3).await;
    kill(&[running.id().cast_signed()]);
    let ended = running.wait().await.expect("it is told");
    assert_eq!(ended.status.signal(), Some(9));
    // The third has its own session: only a control group finds it.
    let certain = if toolcrib_process::probe().level(toolcrib_process::Surface::Orphans).clone() == by_supervisor_and_group() {
        3
    } else {
        2
    };
    until("the session is gone", || processes.iter().take(certain).all(|process| !is_running(*process))).await;
    kill(&processes);
}

fn by_supervisor_and_group() -> toolcrib_process::Level {
    use toolcrib_process::Mechanism;
    toolcrib_process::Level::Contained { by: vec![Mechanism::Supervisor, Mechanism::Cgroup { version: 2 }] }
}

#[tokio::test]
async fn input_ends_and_output_ends_when_the_program_says_so() {
    // The supervisor does not hold any of the pipes.
    let spec = sandboxed(shell("exec 1>&- 2>&-; exec 0<&-; sleep 0.2; exit 5"), Policy::default());
    let mut running = spawn(&spec, Some(&launcher())).expect("it starts");
    let mut stdout = running.stdout.take().expect("piped");
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut text).await.expect("it ends");
    assert!(is_running(running.id().cast_signed()), "the program still runs");
    assert_eq!(outcome_code(running).await, Some(5));
    let spec = sandboxed(shell("cat; echo end"), Policy::default());
    assert_eq!(outcome(spawn(&spec, Some(&launcher())).expect("it starts")).await.succeeded(), "end");
}

async fn outcome_code(mut running: toolcrib_process::Running) -> Option<i32> {
    running.wait().await.expect("it ran").status.code()
}
