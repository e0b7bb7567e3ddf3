//! Memory, processes, files, output, time.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use toolcrib_process::{Exceeded, Level, Limits, Mechanism, Policy, ProgramSpec, Surface, plan, spawn};

use crate::{is_running, launcher, outcome, python, run, sandboxed, shell, unsandboxed, until};

/// Allocates memory in steps and prints how much it got, in MiB.
pub(crate) fn take_memory(mebibytes: u32) -> ProgramSpec {
    python(&format!("taken = []\nfor step in range({mebibytes} // 16): taken.append(b'x' * (16 << 20))"))
}

/// Starts processes that sleep, and prints how many it could start.
pub(crate) fn start_processes(count: u32) -> ProgramSpec {
    python(&format!(
        "import time\ncount = 0\n\
         try:\n\
         \x20   while count < {count}:\n\
         \x20       if os.fork() == 0: time.sleep(60); os._exit(0)\n\
         \x20       count += 1\n\
         except OSError: pass\n\
         print(count, flush=True)"
    ))
}

#[tokio::test]
async fn memory_is_limited() {
    assert_eq!(run(&unsandboxed(take_memory(1_024))).await.succeeded(), "reached");
    let mut spec = sandboxed(take_memory(8 * 1_024), Policy::default());
    spec.limits.memory = Some(128 << 20);
    assert!(plan(&spec, Some(&launcher())).expect("a plan").contains(Surface::Memory));
    let outcome = run(&spec).await;
    let is_killed = outcome.ended.as_ref().is_ok_and(|ended| ended.exceeded == Some(Exceeded::Memory));
    assert!(is_killed || outcome.stdout.starts_with("denied MemoryError"), "{outcome:?}");
    // Less than the limit is permitted.
    let mut spec = sandboxed(take_memory(64), Policy::default());
    spec.limits.memory = Some(256 << 20);
    assert_eq!(run(&spec).await.succeeded(), "reached");
}

#[tokio::test]
async fn the_number_of_processes_is_limited() {
    const LIMIT: u64 = 24;
    assert!(run(&unsandboxed(start_processes(200))).await.succeeded().starts_with("200\n"));
    let mut spec = sandboxed(start_processes(2_000), Policy::default());
    spec.limits.processes = Some(LIMIT);
    let outcome = run(&spec).await;
    let started = outcome.stdout.lines().next().and_then(|line| line.parse::<u64>().ok());
    match started {
        Some(started) => assert!(started <= LIMIT, "{outcome:?}"),
        None => assert_eq!(outcome.ended.as_ref().expect("it ran").exceeded, Some(Exceeded::Processes), "{outcome:?}"),
    }
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_program() {
    let mut spec = sandboxed(shell("bomb() { bomb | bomb & }; bomb; sleep 60"), Policy::default());
    spec.limits.processes = Some(48);
    let mut running = spawn(&spec, Some(&launcher())).expect("it starts");
    let id = running.id();
    // Give it time to try.
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(running.stderr.take());
    running.terminate(Duration::from_millis(100)).await.expect("it ran");
    let children = || std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    until("the supervisor is gone", || !is_running(id.cast_signed()) && children().is_empty()).await;
}

#[tokio::test]
async fn a_file_cannot_grow_above_the_limit() {
    const LIMIT: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let write = format!("exec dd if=/dev/zero of={} bs=65536 count=160 status=none", file.display());
    run(&unsandboxed(shell(&write))).await.succeeded();
    assert_eq!(file.metadata().expect("a file").len(), 10 << 20);
    std::fs::remove_file(&file).expect("removed");
    let mut spec = sandboxed(shell(&write), Policy { write: vec![folder.path().to_path_buf()], ..Policy::default() });
    spec.limits.file_size = Some(LIMIT);
    let outcome = run(&spec).await;
    assert_eq!(outcome.ended.as_ref().expect("it ran").exceeded, Some(Exceeded::FileSize), "{outcome:?}");
    assert_eq!(file.metadata().expect("a file").len(), LIMIT);
}

#[tokio::test]
async fn a_flood_of_output_stops_when_the_reader_does() {
    let spec = sandboxed(shell("exec head -c 10737418240 /dev/zero"), Policy::default());
    let mut running = spawn(&spec, Some(&launcher())).expect("it starts");
    let mut stdout = running.stdout.take().expect("piped");
    let mut bytes = vec![0; 1 << 20];
    stdout.read_exact(&mut bytes).await.expect("a mebibyte");
    // The program blocks until the reader reads, and memory use stays low.
    drop(stdout);
    let outcome = outcome_of_rest(running).await;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&outcome), Some(13), "it has no reader");
}

async fn outcome_of_rest(mut running: toolcrib_process::Running) -> std::process::ExitStatus {
    drop(running.stderr.take());
    tokio::time::timeout(crate::HANG, running.wait()).await.expect("it ends").expect("it ran").status
}

#[tokio::test]
async fn cpu_time_and_descriptors_are_limited() {
    let mut spec = sandboxed(shell("while :; do :; done"), Policy::default());
    spec.limits.cpu = Some(Duration::from_secs(1));
    let ended = run(&spec).await.ended.expect("it ran");
    assert_eq!(ended.exceeded, Some(Exceeded::Cpu));
    let open = "files = [open('/dev/null') for _ in range(1_000)]";
    assert_eq!(run(&unsandboxed(python(open))).await.succeeded(), "reached");
    let mut spec = sandboxed(python(open), Policy::default());
    spec.limits.open_files = 64;
    assert!(run(&spec).await.succeeded().starts_with("denied OSError [Errno 24]"));
}

#[tokio::test]
async fn without_a_launcher_limits_are_kept_or_reported_as_open() {
    let mut spec = unsandboxed(shell("echo done"));
    spec.limits = Limits::default();
    let running = spawn(&spec, None).expect("it starts");
    let containment = running.containment().clone();
    assert!(containment.summary().starts_with("UNSANDBOXED"), "{containment}");
    let by_group =
        |level: &Level| matches!(level, Level::Contained { by } if by.iter().all(|by| matches!(by, Mechanism::Cgroup { .. })));
    for surface in [Surface::Memory, Surface::Processes] {
        let level = containment.level(surface);
        assert!(by_group(level) || matches!(level, Level::Open { .. }), "{surface}: {level:?}");
    }
    assert_eq!(outcome(running).await.succeeded(), "done");
}
