//! Processes as listed in `/proc`.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The pause between two rounds of killing. A killed process ends within a millisecond, unless the machine is busy.
const PAUSE: Duration = Duration::from_millis(2);

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Whether the process has ended and was not waited for.
    pub(crate) is_zombie: bool,
    /// The session.
    pub(crate) session: i32,
    /// The number of threads.
    pub(crate) threads: u64,
    /// The start time, in ticks since boot.
    pub(crate) started: u64,
}

/// Reads the state of a process. `None` if there is no such process.
pub(crate) fn stat(process: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the name of the program in parentheses, and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    // Field numbers as in proc(5), which counts from one; three are consumed already.
    let mut field = |number: usize, last: usize| fields.nth(number - last - 1);
    let session = field(6, 3)?.parse().ok()?;
    let threads = field(20, 6)?.parse().ok()?;
    let started = field(22, 20)?.parse().ok()?;
    Some(Stat { is_zombie: state == "Z" || state == "X", session, threads, started })
}

/// The children of a process, of all its threads.
pub(crate) fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Whether this kernel lists children (`CONFIG_PROC_CHILDREN`).
pub(crate) fn lists_children() -> bool {
    let own = getpid().as_raw_nonzero();
    fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
}

/// All descendants of a process with their distance, parents before children.
pub(crate) fn descendants(process: i32) -> Vec<(i32, usize)> {
    let mut found: Vec<(i32, usize)> = children(process).into_iter().map(|child| (child, 1)).collect();
    let mut next = 0;
    while let Some((parent, distance)) = found.get(next).copied() {
        next += 1;
        found.extend(children(parent).into_iter().map(|child| (child, distance + 1)));
    }
    found
}

/// The resource use of this process's descendants: threads and bytes of memory. File-backed pages, which processes share, do not count.
pub(crate) fn usage() -> (u64, u64) {
    let own = getpid().as_raw_nonzero().get();
    let descendants = descendants(own);
    let threads = descendants.iter().filter_map(|(process, _)| stat(*process)).map(|stat| stat.threads).sum();
    (threads, descendants.iter().map(|(process, _)| resident(*process)).sum())
}

fn resident(process: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("RssShmem:")));
    lines.filter_map(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map(|kibibytes| kibibytes * 1024).sum()
}

/// Makes the end of a process awaitable through its pidfd. Call it inside a Tokio runtime.
#[expect(
    deprecated,
    reason = "unsound for types that change their descriptor, which `OwnedFd` does not; the successor needs unsafe code"
)]
pub(crate) fn watch(process: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(process, Interest::READABLE).ok()
}

/// Sends a signal to one process. A process that has ended is not an error.
pub(crate) fn signal(process: i32, signal: Signal) {
    if let Some(process) = Pid::from_raw(process) {
        let _ = kill_process(process, signal);
    }
}

/// Waits for children that have ended. Returns the status of `program` if it is among them.
pub(crate) fn reap(program: i32) -> Option<WaitStatus> {
    let mut of_program = None;
    while let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) {
        if process.as_raw_nonzero().get() == program {
            of_program = Some(status);
        }
    }
    of_program
}

/// Kills all descendants of this process until none is left or the time is over. This process adopts orphans, so none is missed.
///
/// `program` is the leader of a process group that was not waited for. Returns its status if it was waited for here.
pub(crate) fn kill_descendants(program: Option<i32>, within: Duration) -> Option<WaitStatus> {
    let own = getpid().as_raw_nonzero().get();
    let until = Instant::now() + within;
    let mut of_program = None;
    loop {
        // A process group is killed at once: a process of it that is just forking cannot be missed. Its id is the PID of the program, which
        // may be reused as soon as the program was waited for.
        if of_program.is_none()
            && let Some(group) = program.and_then(Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let descendants = descendants(own);
        if descendants.is_empty() || Instant::now() > until {
            return of_program;
        }
        for (process, _) in descendants {
            signal(process, Signal::KILL);
        }
        of_program = reap(program.unwrap_or(0)).or(of_program);
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a supervisor has ended. If it does not end in time, because it was stopped, it is killed together with its session.
pub(crate) fn outlast(supervisor: i32, known: Stat, within: Duration) {
    // The start time must match, because the PID may have been reused.
    let is_there = || stat(supervisor).is_some_and(|stat| !stat.is_zombie && stat.started == known.started);
    let until = Instant::now() + within;
    while is_there() {
        if Instant::now() > until {
            signal(supervisor, Signal::KILL);
            kill_session(supervisor);
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills all processes of a session whose leader has died.
pub(crate) fn kill_session(session: i32) {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for process in processes.filter(|process| stat(*process).is_some_and(|stat| stat.session == session && !stat.is_zombie)) {
        signal(process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 1 42 40 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 777 1 2 3";
        assert_eq!(parse_stat(text), Some(Stat { is_zombie: false, session: 40, threads: 3, started: 777 }));
        assert_eq!(parse_stat("42 (a"), None);
        assert_eq!(parse_stat("42 (a) Z 1"), None);
    }

    #[test]
    fn descendants_of_descendants_are_found() {
        assert!(lists_children());
        let own = getpid().as_raw_nonzero().get();
        assert!(stat(own).is_some_and(|stat| stat.started > 0 && stat.threads > 0 && !stat.is_zombie));
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 60 & wait"]).spawn().expect("a shell");
        let number = shell.id().cast_signed();
        let found = || descendants(own).iter().any(|(process, distance)| *distance == 2 && children(number).contains(process));
        assert!((0..1_000).any(|_| {
            std::thread::sleep(PAUSE);
            found()
        }));
        for (process, _) in descendants(number) {
            signal(process, Signal::KILL);
        }
        shell.kill().expect("killed");
        shell.wait().expect("it has ended");
    }
}
