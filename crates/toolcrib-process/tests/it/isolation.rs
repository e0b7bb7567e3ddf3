//! Bubblewrap around a program.

use std::time::Duration;

use toolcrib_process::{Bubblewrap, Mechanism, Policy, Surface, WaitError, plan, spawn};

use crate::orphans::{kill, leave_behind};
use crate::{PYTHON, allowed, attack, is_running, launcher, numbers, program, python, quoted, run, sandboxed, shell, until};

/// The policy, if bubblewrap is installed and this user can use it.
fn isolated() -> Option<Policy> {
    let isolation = std::env::var_os("PATH").and_then(|path| Bubblewrap::find(std::env::split_paths(&path)));
    if isolation.is_none() {
        toolcrib_testkit::skip("bubblewrap", "bwrap is not in PATH");
    }
    isolation.map(|isolation| Policy { isolation: Some(isolation), ..Policy::default() })
}

#[tokio::test]
async fn programs_run_in_namespaces_of_their_own() {
    let Some(policy) = isolated() else { return };
    let spec = sandboxed(program(PYTHON, &["-c", "import os; print(os.getpid() < 10)"]), policy.clone());
    let containment = plan(&spec, Some(&launcher())).expect("a plan");
    assert!(containment.summary().contains("bubblewrap"), "{containment}");
    assert!(
        matches!(containment.level(Surface::Files), toolcrib_process::Level::Contained { by } if by.contains(&Mechanism::Bubblewrap))
    );
    assert_eq!(run(&spec).await.succeeded(), "True");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "text").expect("written");
    let path = quoted(&folder.path().join("file"));
    attack(&format!("open({path}).read()"), policy.clone()).await;
    attack("os.kill(os.getppid(), 18)", policy.clone()).await;
    attack("import socket\nsocket.socket()", policy.clone()).await;
    attack("assert libc.unshare(0x10000000) == 0", policy.clone()).await;
    let write = Policy { write: vec![folder.path().to_path_buf()], ..policy };
    allowed(&format!("open({path}, 'a').write('x')"), write).await;
}

#[tokio::test]
async fn isolated_programs_end_as_others_do() {
    let Some(policy) = isolated() else { return };
    let outcome = run(&sandboxed(shell("exit 3"), policy.clone())).await;
    assert_eq!(outcome.ended.expect("it ran").status.code(), Some(3));
    let outcome = run(&sandboxed(program("/usr/bin/absent", &[]), policy.clone())).await;
    assert!(matches!(outcome.ended, Err(WaitError::NotStarted)), "{outcome:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pids");
    // PIDs inside differ from those outside: the file gives their number, and the processes are found by their arguments.
    let policy = Policy { write: vec![folder.path().to_path_buf()], ..policy };
    let spec = sandboxed(leave_behind(&file, "exec sleep 303"), policy.clone());
    let mut running = spawn(&spec, Some(&launcher())).expect("it starts");
    numbers(&file, 3).await;
    let id = running.id();
    let descendants = || descendants(id.cast_signed());
    let all = descendants();
    assert!(all.len() >= 5, "{all:?}");
    drop(running.stdout.take());
    running.terminate(Duration::from_millis(100)).await.expect("it ran");
    until("all gone", || all.iter().all(|process| !is_running(*process))).await;
    kill(&all);
    // The program may clean up.
    let script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(7))\nsys.stdout.write('ready\\n')\nsys.stdout.flush()\ntime.sleep(60)";
    let mut running = spawn(&sandboxed(python(script), policy), Some(&launcher())).expect("it starts");
    let mut bytes = [0; 6];
    tokio::io::AsyncReadExt::read_exact(running.stdout.as_mut().expect("piped"), &mut bytes).await.expect("it is ready");
    assert_eq!(running.terminate(Duration::from_secs(20)).await.expect("it ran").status.code(), Some(7));
}

fn descendants(process: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children: Vec<i32> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let inner = children.clone().into_iter().flat_map(descendants);
    inner.chain(children).collect()
}

#[tokio::test]
async fn bubblewrap_that_is_missing_is_not_skipped() {
    let isolation = Some(Bubblewrap { program: "/nonexistent/bwrap".into() });
    let spec = sandboxed(shell("true"), Policy { isolation, ..Policy::default() });
    let error = spawn(&spec, Some(&launcher())).expect_err("it is refused");
    assert_eq!(error.code().id(), "sandbox.bubblewrap");
    assert_eq!(Bubblewrap::find([tempfile::tempdir().expect("a folder").path().to_path_buf()]), None);
}
