//! The supervisor of one program.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitStatus, getpid, getppid, kill_process_group, pidfd_open, set_child_subreaper, setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

use super::launcher::Failure;
use super::phase::Phase;
use super::{cgroup, processes, restrict};
use crate::launch::{Order, Stage};
use crate::policy::{Bubblewrap, Network, Policy};
use crate::running::{Exceeded, KILL_SIGNAL, TERMINATE_SIGNAL};
use crate::system_paths::{self, Use};

/// How long the descendants of a program may take to end after they were killed. A process in an uninterruptible wait takes longer, and
/// cannot be ended at all until then.
const KILL_TIME: Duration = Duration::from_secs(5);

/// The interval of the watchdog, if control groups do not limit memory or processes. A fork bomb creates some hundred processes in this
/// time; a check costs some ten microseconds.
const WATCHDOG: Duration = Duration::from_millis(25);

/// The interval of checks for the host, on kernels that cannot wait for another process.
const HOST_CHECK: Duration = Duration::from_millis(100);

/// The OOM score adjustment, of 1000, by which the kernel kills the program and not this process when the machine runs out of memory.
const OOM_SCORE: &str = "500";

/// The distance from this process to the program inside bubblewrap: there are two processes of bubblewrap in between.
const DISTANCE_IN_BUBBLEWRAP: usize = 3;

/// Starts the program and returns when it and all its descendants have ended.
pub(super) fn supervise(order: &Order, program: &Path, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    let refused = |what: &'static str| move |error: rustix::io::Errno| Failure::Refused(format!("{what}: {error}"));
    let host = Pid::from_raw(order.host).ok_or_else(|| Failure::Refused("the host has no process id".to_owned()))?;
    let watched = pidfd_open(host, PidfdFlags::empty()).ok();
    // Compared after the pidfd was opened: as long as the host is the parent, its PID is not reused.
    if getppid() != Some(host) {
        return Err(Failure::Refused("the host has ended".to_owned()));
    }
    // A new session has no terminal of the user and gets none of its signals.
    setsid().map_err(refused("new session"))?;
    set_child_subreaper(Some(getpid())).map_err(refused("subreaper"))?;
    for group in &order.groups {
        cgroup::enter(group, 0).map_err(|error| Failure::Refused(format!("control group {}: {error}", group.display())))?;
    }
    restrict::limit(&order.limits, order.watch_memory).map_err(Failure::Refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("event loop: {error}")))?;
    runtime.block_on(run(order, program, arguments, host, watched))
}

async fn run(
    order: &Order,
    program: &Path,
    arguments: &[OsString],
    host: Pid,
    watched: Option<OwnedFd>,
) -> Result<ExitCode, Failure> {
    let refused = |error: std::io::Error| Failure::Refused(format!("signals: {error}"));
    // Before the program is started: until then each of these signals terminates this process, as intended.
    let mut ended = signal(SignalKind::child()).map_err(refused)?;
    let mut terminate = signal(SignalKind::from_raw(TERMINATE_SIGNAL.as_raw())).map_err(refused)?;
    let mut kill = signal(SignalKind::from_raw(KILL_SIGNAL.as_raw())).map_err(refused)?;
    let watched = watched.and_then(processes::watch);
    let child = start(order, program, arguments)?;
    // If memory runs out, the kernel should kill the program and not this process. Raising the score needs no privilege.
    let _ = fs::write(format!("/proc/{child}/oom_score_adj"), OOM_SCORE);
    release_pipes();
    Phase::Running.set();

    let watches = order.watch_memory || order.watch_processes;
    let mut watchdog = tokio::time::interval(WATCHDOG);
    let mut exceeded = None;
    let host_ends = host_ends(host, watched);
    tokio::pin!(host_ends);
    let status = loop {
        tokio::select! {
            biased;
            () = &mut host_ends => {
                if let Some(folder) = &order.kill_group {
                    // This process is in the group, and is killed with it.
                    cgroup::kill(folder);
                }
                processes::kill_descendants(Some(child), KILL_TIME);
                return Ok(ExitCode::FAILURE);
            }
            _ = kill.recv() => {
                if let Some(status) = processes::kill_descendants(Some(child), KILL_TIME) {
                    break status;
                }
            }
            _ = ended.recv() => {
                if let Some(status) = processes::reap(child) {
                    break status;
                }
            }
            _ = terminate.recv() => forward_termination(order, child),
            _ = watchdog.tick(), if watches => {
                if let Some(limit) = is_exceeded(order) {
                    exceeded = Some(limit);
                    if let Some(status) = processes::kill_descendants(Some(child), KILL_TIME) {
                        break status;
                    }
                }
            }
        }
    };
    processes::kill_descendants(None, KILL_TIME);
    Ok(finish(status, exceeded))
}

/// Starts the program, restricted as the policy says.
fn start(order: &Order, program: &Path, arguments: &[OsString]) -> Result<i32, Failure> {
    let spawn = |mut command: Command| {
        let child = command.process_group(0).spawn();
        let child = child.map_err(|error| Failure::NotStarted(format!("cannot execute {}: {error}", program.display())))?;
        i32::try_from(child.id()).map_err(|_| Failure::NotStarted("the process id is too large".to_owned()))
    };
    match &order.policy {
        None => {
            close_fds::set_fds_cloexec(3, &[]);
            spawn(restrict::command(order, program, arguments))
        }
        Some(policy) if policy.isolation.is_none() => std::thread::scope(|scope| {
            // Restrictions apply to a thread and what it starts, so this process itself is not restricted.
            let thread = scope.spawn(|| {
                restrict::apply(order, policy, program).map_err(Failure::Refused)?;
                spawn(restrict::command(order, program, arguments))
            });
            thread.join().unwrap_or_else(|_| Err(Failure::Refused("the thread that applies the policy panicked".to_owned())))
        }),
        Some(policy) => {
            close_fds::set_fds_cloexec(3, &[]);
            spawn(isolated(order, policy, program, arguments)?)
        }
    }
}

/// Bubblewrap around a second launcher, which restricts itself: bubblewrap cannot create namespaces under Landlock.
fn isolated(order: &Order, policy: &Policy, program: &Path, arguments: &[OsString]) -> Result<Command, Failure> {
    let Some(Bubblewrap { program: bubblewrap }) = &policy.isolation else {
        return Err(Failure::Refused("there is no isolation to apply".to_owned()));
    };
    let mut command = Command::new(bubblewrap);
    command.args(["--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc"]);
    if policy.network != Network::None {
        command.arg("--share-net");
    }
    let mut bind = |flag: &str, path: &Path| {
        command.arg(flag).arg(path).arg(path);
    };
    if policy.system_paths {
        let paths =
            system_paths::granted(policy).filter(|path| !path.path.starts_with("/dev/") && !path.path.starts_with("/proc/"));
        for path in paths.filter(|path| path.usage != Use::ReadWrite) {
            bind("--ro-bind-try", Path::new(path.path));
        }
    }
    for path in policy.read.iter().chain(&policy.execute) {
        bind("--ro-bind", path);
    }
    for path in &policy.write {
        bind("--bind", path);
    }
    bind("--ro-bind-try", program);
    for interpreter in system_paths::interpreters(program, &restrict::search_path()) {
        bind("--ro-bind-try", &interpreter);
    }
    bind("--ro-bind", &order.launcher);
    if let Ok(folder) = std::env::current_dir() {
        // The folder may be outside of all bound paths, and is missing then.
        let is_bound = policy.paths().any(|path| folder.starts_with(path));
        command.arg("--chdir").arg(if is_bound { folder.as_path() } else { Path::new("/") });
    }
    let inner = Order { stage: Stage::Restrict, groups: Vec::new(), ..order.clone() };
    let inner = serde_json::to_string(&inner).map_err(|error| Failure::Refused(format!("order for bubblewrap: {error}")))?;
    command.arg("--").arg(&order.launcher).args(&order.leading_arguments).arg(inner).arg("--").arg(program).args(arguments);
    Ok(command)
}

/// Closes this process's copies of the program's pipes: a reader of its output should get the end of file when the program closes it, not
/// when this process ends.
fn release_pipes() {
    let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    let _ = dup2_stdin(&null);
    let _ = dup2_stdout(&null);
    let _ = dup2_stderr(&null);
}

/// Waits until the host has ended.
async fn host_ends(host: Pid, watched: Option<AsyncFd<OwnedFd>>) {
    if let Some(watched) = watched
        && watched.readable().await.is_ok()
    {
        return;
    }
    while getppid() == Some(host) {
        tokio::time::sleep(HOST_CHECK).await;
    }
}

/// Sends SIGTERM to the program and its process group.
fn forward_termination(order: &Order, child: i32) {
    let is_isolated = order.policy.as_ref().is_some_and(|policy| policy.isolation.is_some());
    if is_isolated {
        // Bubblewrap would end at once and kill the program before it could clean up.
        let own = getpid().as_raw_nonzero().get();
        for (process, _) in processes::descendants(own).into_iter().filter(|(_, distance)| *distance >= DISTANCE_IN_BUBBLEWRAP) {
            processes::signal(process, Signal::TERM);
        }
    } else if let Some(group) = Pid::from_raw(child) {
        // It was not waited for yet, so its PID is not reused.
        let _ = kill_process_group(group, Signal::TERM);
    }
}

fn is_exceeded(order: &Order) -> Option<Exceeded> {
    let (threads, memory) = processes::usage();
    let above = |is_watched: bool, limit: Option<u64>, used: u64| is_watched && limit.is_some_and(|limit| used > limit);
    if above(order.watch_processes, order.limits.processes, threads) {
        return Some(Exceeded::Processes);
    }
    above(order.watch_memory, order.limits.memory, memory).then_some(Exceeded::Memory)
}

/// Reports to the host how the program has ended.
fn finish(status: WaitStatus, exceeded: Option<Exceeded>) -> ExitCode {
    let of_signal = match status.terminating_signal().and_then(Signal::from_named_raw) {
        Some(Signal::XFSZ) => Some(Exceeded::FileSize),
        Some(Signal::XCPU) => Some(Exceeded::Cpu),
        _ => None,
    };
    Phase::Ended(u16::try_from(status.as_raw()).unwrap_or(u16::MAX), exceeded.or(of_signal)).set();
    // The process name has the details; the exit code follows the convention of shells, for callers that see only the code.
    let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
