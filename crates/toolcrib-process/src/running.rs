//! A running program.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::containment::Containment;
use crate::error::WaitError;
#[cfg(target_os = "linux")]
use crate::linux::{cgroup, orphans, phase, processes};

/// Makes a supervisor forward SIGTERM to its program.
#[cfg(unix)]
pub(crate) const TERMINATE_SIGNAL: Signal = Signal::TERM;

/// Makes a supervisor kill its program and all descendants.
#[cfg(unix)]
pub(crate) const KILL_SIGNAL: Signal = Signal::USR1;

/// How long a supervisor may take to kill everything. Then it is killed itself, together with the rest of its session.
const KILL_TIME: Duration = Duration::from_secs(6);

/// The result of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The limit for which it was killed, if known.
    pub exceeded: Option<Exceeded>,
}

/// A limit for which a program was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exceeded {
    /// [`Limits::memory`](crate::Limits::memory).
    Memory,
    /// [`Limits::processes`](crate::Limits::processes), if a watchdog counts them. A control group makes `fork` fail instead.
    Processes,
    /// [`Limits::file_size`](crate::Limits::file_size).
    FileSize,
    /// [`Limits::cpu`](crate::Limits::cpu).
    Cpu,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory limit exceeded",
            Self::Processes => "process limit exceeded",
            Self::FileSize => "file size limit exceeded",
            Self::Cpu => "CPU time limit exceeded",
        })
    }
}

/// A running program. Dropping it kills the program and everything that it started, without waiting for their end.
pub struct Running {
    /// The program's standard input. Drop it to close it.
    pub stdin: Option<ChildStdin>,
    /// The program's standard output.
    pub stdout: Option<ChildStdout>,
    /// The standard error of the program, and before of the launcher.
    pub stderr: Option<ChildStderr>,
    child: Child,
    id: u32,
    containment: Containment,
    is_supervised: bool,
    ended: Option<Ended>,
    #[cfg(target_os = "linux")]
    group: Option<cgroup::Group>,
}

impl Running {
    pub(crate) fn new(mut child: Child, is_supervised: bool, containment: Containment) -> Self {
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            // Present until the process is waited for.
            id: child.id().unwrap_or_default(),
            child,
            containment,
            is_supervised,
            ended: None,
            #[cfg(target_os = "linux")]
            group: None,
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn with_group(mut self, group: Option<cgroup::Group>) -> Self {
        self.group = group;
        self
    }

    /// The process id of the program, or of its supervisor if there is one.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The containment of the program.
    pub const fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Waits until the program has ended, and kills what it left behind.
    ///
    /// It may be cancelled and called again. Read [`stdout`](Self::stdout) and [`stderr`](Self::stderr) in the meantime: a program that
    /// writes into a full pipe blocks.
    ///
    /// # Errors
    ///
    /// Fails if the program did not run because its sandbox could not be applied, or because it could not be executed.
    pub async fn wait(&mut self) -> Result<Ended, WaitError> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        // Until the ended process is waited for, its PID is not reused: no signal can reach another process, and its name can be read.
        #[cfg(unix)]
        exited(self.process()).await;
        #[cfg(target_os = "linux")]
        let phase = self.is_supervised.then(|| phase::Phase::of(self.id.cast_signed())).flatten();
        #[cfg(target_os = "linux")]
        let ran_out_of_memory = self.group.as_ref().is_some_and(cgroup::Group::ran_out_of_memory);
        self.kill();
        let status = self.child.wait().await?;
        let ended = Ended { status, exceeded: None };
        #[cfg(target_os = "linux")]
        let ended = self.interpreted(ended, phase, ran_out_of_memory)?;
        self.ended = Some(ended);
        self.clean_up();
        Ok(ended)
    }

    /// Asks the program to end (SIGTERM to its process group) and kills it with everything that it started if it has not ended in time.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn terminate(&mut self, grace: Duration) -> Result<Ended, WaitError> {
        #[cfg(unix)]
        if let Some(process) = self.process() {
            // A process that has ended needs no signal.
            let _ = if self.is_supervised {
                rustix::process::kill_process(process, TERMINATE_SIGNAL)
            } else {
                rustix::process::kill_process_group(process, Signal::TERM)
            };
        }
        if let Ok(ended) = timeout(grace, self.wait()).await {
            return ended;
        }
        self.kill();
        if let Ok(ended) = timeout(KILL_TIME, self.wait()).await {
            return ended;
        }
        // The supervisor was stopped. When it is killed, its session remains.
        let _ = self.child.start_kill();
        self.wait().await
    }

    /// Kills the program and everything that it started, without waiting for their end.
    pub fn kill(&self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = &self.group {
            group.kill();
        }
        // If there is nothing left to kill, the goal is reached.
        #[cfg(unix)]
        if let Some(process) = self.process() {
            let _ = if self.is_supervised {
                rustix::process::kill_process(process, KILL_SIGNAL)
            } else {
                rustix::process::kill_process_group(process, Signal::KILL)
            };
        }
    }

    /// The process, unless it was waited for: its PID may have been reused.
    #[cfg(unix)]
    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    /// How the program has ended, derived from how its supervisor ended.
    #[cfg(target_os = "linux")]
    fn interpreted(&mut self, ended: Ended, phase: Option<phase::Phase>, ran_out_of_memory: bool) -> Result<Ended, WaitError> {
        use std::os::unix::process::ExitStatusExt as _;

        use phase::Phase;

        use crate::launch::{EXIT_NOT_STARTED, EXIT_REFUSED};

        let out_of_memory = |status: ExitStatus| (ran_out_of_memory && status.signal().is_some()).then_some(Exceeded::Memory);
        if !self.is_supervised {
            return Ok(Ended { exceeded: out_of_memory(ended.status), ..ended });
        }
        let (status, exceeded) = match phase {
            Some(Phase::Ended(status, exceeded)) => (phase::exit_status(status), exceeded),
            Some(Phase::Refused | Phase::NotStarted) => (ended.status, None),
            // Killed by the host, or by another process. Its session may remain.
            _ => {
                let session = self.id.cast_signed();
                if self.group.as_ref().is_none_or(|group| group.kill_folder().is_none()) {
                    in_background(move || processes::kill_session(session));
                }
                (ended.status, None)
            }
        };
        let is_inner =
            |code: u8| matches!(phase, Some(Phase::Ended(..))) && self.is_isolated() && status.code() == Some(code.into());
        let failure = if phase == Some(Phase::Refused) || is_inner(EXIT_REFUSED) {
            Some(WaitError::Refused)
        } else if phase == Some(Phase::NotStarted) || is_inner(EXIT_NOT_STARTED) {
            Some(WaitError::NotStarted)
        } else {
            None
        };
        let ended = Ended { status, exceeded: exceeded.or_else(|| out_of_memory(status)) };
        if let Some(failure) = failure {
            self.ended = Some(ended);
            self.clean_up();
            return Err(failure);
        }
        Ok(ended)
    }

    /// Whether a second launcher inside bubblewrap applied the policy; it reports only by its exit code.
    #[cfg(target_os = "linux")]
    fn is_isolated(&self) -> bool {
        use crate::containment::{Level, Mechanism, Surface};
        matches!(self.containment.level(Surface::Files), Level::Contained { by } if by.contains(&Mechanism::Bubblewrap))
    }

    /// Removes the control group and kills orphans; both wait for processes that are ending.
    fn clean_up(&mut self) {
        #[cfg(target_os = "linux")]
        {
            let group = self.group.take();
            let process = Pid::from_raw(self.id.cast_signed());
            // A supervisor that was not waited for is killing its descendants. It still has its PID and its start time.
            let supervisor = self.process().filter(|_| self.is_supervised);
            let supervisor = supervisor.and_then(|_| processes::stat(self.id.cast_signed()));
            in_background(move || {
                if let (Some(process), Some(stat)) = (process, supervisor) {
                    processes::outlast(process.as_raw_nonzero().get(), stat, KILL_TIME);
                }
                drop(group);
                if let Some(process) = process {
                    orphans::forget(process);
                }
                orphans::kill_all();
            });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            self.clean_up();
        }
    }
}

/// Omits the streams and everything that was passed to the program.
impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("id", &self.id).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Waits until a process has ended, without reaping it.
#[cfg(unix)]
async fn exited(process: Option<Pid>) {
    let Some(process) = process else { return };
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, pidfd_open};
        let watched = pidfd_open(process, PidfdFlags::empty()).ok();
        let watched = watched.and_then(processes::watch);
        if let Some(watched) = watched
            && watched.readable().await.is_ok()
        {
            return;
        }
    }
    let seen = tokio::task::spawn_blocking(move || {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        // The wait was interrupted by a signal, not completed.
        let is_interrupted = || {
            let seen = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            matches!(seen, Err(rustix::io::Errno::INTR))
        };
        while is_interrupted() {}
    });
    // It fails only when the runtime shuts down, and then this function is not awaited either.
    let _ = seen.await;
}

/// Runs work that may take some milliseconds, without blocking the runtime.
#[cfg(target_os = "linux")]
fn in_background(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
