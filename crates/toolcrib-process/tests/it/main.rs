//! Programs that try to break out, with and without a sandbox.
//!
//! Every attack runs twice: unsandboxed, where it must succeed, and sandboxed, where it must fail. A test whose attack never succeeds would
//! prove nothing.
#![cfg(target_os = "linux")]

mod files;
mod hosts;
mod isolation;
mod launcher;
mod limits;
mod network;
mod orphans;
mod processes;
mod runtimes;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;
use toolcrib_process::{Ended, Launcher, Limits, Policy, ProgramSpec, Running, SandboxMode, WaitError, spawn};

/// The interpreter of the attacks: the distribution's, so that the system paths suffice.
const PYTHON: &str = "/usr/bin/python3";

/// Bytes of output that a test reads.
const OUTPUT: u64 = 64 * 1024;

/// Programs of these tests take less time, unless they hang.
const HANG: Duration = Duration::from_secs(60);

fn launcher() -> Launcher {
    Launcher::new(env!("CARGO_BIN_EXE_toolcrib-launch"), Vec::<String>::new())
}

fn program(path: &str, arguments: &[&str]) -> ProgramSpec {
    let mut spec = ProgramSpec::new(path);
    spec.arguments = arguments.iter().map(OsString::from).collect();
    spec.environment = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
    // A folder that all users can access.
    spec.folder = Some(PathBuf::from("/"));
    spec
}

fn shell(script: &str) -> ProgramSpec {
    program("/bin/sh", &["-c", script])
}

/// A Python program that prints whether its statements succeeded.
fn python(statements: &str) -> ProgramSpec {
    let indented: String = statements.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "import sys, os, ctypes, platform\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def call(numbers, *arguments):\n\
         \x20   number = numbers[0 if platform.machine() == 'x86_64' else 1]\n\
         \x20   result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))\n\
         \x20   if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n\
         \x20   return result\n\
         try:\n{indented}\
         except BaseException as error: print('denied', type(error).__name__, error)\n\
         else: print('reached')\n"
    );
    program(PYTHON, &["-I", "-S", "-c", &text])
}

fn unsandboxed(mut spec: ProgramSpec) -> ProgramSpec {
    spec.sandbox = SandboxMode::Off;
    spec.limits = Limits::UNLIMITED;
    spec
}

fn sandboxed(mut spec: ProgramSpec, policy: Policy) -> ProgramSpec {
    spec.sandbox = SandboxMode::On(policy);
    spec
}

/// The output of a program, and how it ended.
#[derive(Debug)]
struct Outcome {
    stdout: String,
    stderr: String,
    ended: Result<Ended, WaitError>,
}

impl Outcome {
    #[track_caller]
    fn succeeded(&self) -> &str {
        assert!(self.ended.as_ref().is_ok_and(|ended| ended.status.success()), "{self:?}");
        self.stdout.trim_end()
    }
}

async fn run(spec: &ProgramSpec) -> Outcome {
    outcome(spawn(spec, Some(&launcher())).expect("it starts")).await
}

async fn outcome(mut running: Running) -> Outcome {
    drop(running.stdin.take());
    let (stdout, stderr) = (running.stdout.take().expect("piped"), running.stderr.take().expect("piped"));
    let all = async { tokio::join!(text(stdout), text(stderr), running.wait()) };
    let (stdout, stderr, ended) = timeout(HANG, all).await.expect("it does not hang");
    Outcome { stdout, stderr, ended }
}

/// The first part of a stream. The rest is read and dropped, so that the program does not block.
async fn text(stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let mut stream = stream.take(OUTPUT);
    stream.read_to_end(&mut bytes).await.expect("it is read");
    tokio::io::copy(&mut stream.into_inner(), &mut tokio::io::sink()).await.expect("it is read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An attack that must succeed without the sandbox and fail with it.
#[track_caller]
fn attack(statements: &str, policy: Policy) -> impl Future<Output = ()> {
    attack_if(statements, policy, None)
}

/// An attack to which this machine may not be vulnerable: then nothing is proven, and the test is skipped for the reason.
#[track_caller]
fn attack_if(statements: &str, policy: Policy, otherwise: Option<&'static str>) -> impl Future<Output = ()> {
    let (statements, place) = (statements.to_owned(), std::panic::Location::caller());
    async move {
        let open = run(&unsandboxed(python(&statements))).await;
        match otherwise {
            Some(reason) if open.stdout.starts_with("denied") => {
                toolcrib_testkit::skip("attack", &format!("{reason}: {}", open.stdout.trim_end()))
            }
            _ => assert_eq!(open.succeeded(), "reached", "{place}: without a sandbox: {open:?}"),
        }
        let closed = run(&sandboxed(python(&statements), policy)).await;
        assert!(closed.succeeded().starts_with("denied "), "{place}: with a sandbox: {closed:?}");
    }
}

/// Statements that must succeed in the sandbox.
async fn allowed(statements: &str, policy: Policy) {
    let outcome = run(&sandboxed(python(statements), policy)).await;
    assert_eq!(outcome.succeeded(), "reached", "{statements}: {outcome:?}");
}

/// Whether a process exists and has not ended.
fn is_running(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Waits until a condition holds.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(HANG, wait).await.is_ok(), "never: {what}");
}

/// Numbers that programs have written to a file, one on each line.
async fn numbers(file: &Path, count: usize) -> Vec<i32> {
    let read = || -> Vec<i32> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // Only complete lines.
        let whole = text.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default();
        whole.lines().filter_map(|line| line.trim().parse().ok()).collect()
    };
    until(&format!("{count} numbers in {}", file.display()), || read().len() >= count).await;
    read()
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_str().expect("UTF-8"))
}
