//! A program that runs.

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

/// Asks a supervisor to forward the request to end to its program.
#[cfg(unix)]
pub(crate) const TERMINATE_SIGNAL: Signal = Signal::TERM;

/// Asks a supervisor to kill its program and all descendants.
#[cfg(unix)]
pub(crate) const KILL_SIGNAL: Signal = Signal::USR1;

/// How long a supervisor may take to kill everything. After that it is killed itself, and then whatever is left of its session.
const KILL_TIME: Duration = Duration::from_secs(6);

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The limit that it was killed for, where that is known.
    pub exceeded: Option<Exceeded>,
}

/// A limit that a program was killed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exceeded {
    /// [`Limits::memory`](crate::Limits::memory).
    Memory,
    /// [`Limits::processes`](crate::Limits::processes), where a watchdog counts them. A control group makes `fork` fail instead.
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

/// A program that runs. Dropping it kills the program and everything that it started, without waiting for their end.
pub struct Running {
    /// Where the program reads from. Drop it to let the program see the end of its input.
    pub stdin: Option<ChildStdin>,
    /// What the program writes.
    pub stdout: Option<ChildStdout>,
    /// What the program, and the launcher before it, complains about.
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
            // Present until the process was waited for.
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

    /// What the program is kept from.
    pub const fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Waits until the program has ended, and kills what it left behind.
    ///
    /// It may be cancelled and called again. Take [`stdout`](Self::stdout) and [`stderr`](Self::stderr) and read them meanwhile: a
    /// program that writes into a full pipe waits.
    ///
    /// # Errors
    ///
    /// If the program did not run because its sandbox could not be applied, or because it could not be executed.
    pub async fn wait(&mut self) -> Result<Ended, WaitError> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        // Seen but not yet waited for, the process keeps its number: no signal can meet another process, and its name can be read.
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
            // A process that is gone needs no signal.
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
        // A supervisor that was stopped. Killed, it leaves its session.
        let _ = self.child.start_kill();
        self.wait().await
    }

    /// Kills the program and everything that it started. Returns before they are gone.
    pub fn kill(&self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = &self.group {
            group.kill();
        }
        // Nothing left to kill is what we want.
        #[cfg(unix)]
        if let Some(process) = self.process() {
            let _ = if self.is_supervised {
                rustix::process::kill_process(process, KILL_SIGNAL)
            } else {
                rustix::process::kill_process_group(process, Signal::KILL)
            };
        }
    }

    /// The process, unless it was waited for: its number may be that of another by now.
    #[cfg(unix)]
    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    /// The end of the program, from the end of its supervisor.
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
            // Killed by the host, or by another. Its session may be left.
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

    /// Whether the policy was applied by a second launcher, inside bubblewrap, whose only word is its exit code.
    #[cfg(target_os = "linux")]
    fn is_isolated(&self) -> bool {
        use crate::containment::{Level, Mechanism, Surface};
        matches!(self.containment.level(Surface::Files), Level::Contained { by } if by.contains(&Mechanism::Bubblewrap))
    }

    /// Removes the control group and kills orphans, both of which wait for processes that are ending.
    fn clean_up(&mut self) {
        #[cfg(target_os = "linux")]
        {
            let group = self.group.take();
            let process = Pid::from_raw(self.id.cast_signed());
            // One that was not waited for is killing its descendants. It still has its number, and its time.
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

/// Neither streams nor anything that the program was given.
impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("id", &self.id).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Waits until a process has ended, without waiting for it as a parent does.
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
        // Interrupted by a signal, the wait has not ended.
        let is_interrupted = || {
            let seen = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            matches!(seen, Err(rustix::io::Errno::INTR))
        };
        while is_interrupted() {}
    });
    // It fails only when the runtime ends, and then nothing is waited for.
    let _ = seen.await;
}

/// Runs what may take some milliseconds, without blocking the runtime.
#[cfg(target_os = "linux")]
fn in_background(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
