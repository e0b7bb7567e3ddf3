//! Processes that left the process group of their program, for programs without a supervisor.
//!
//! A process can move to another process group, and when its parent ends, the init process adopts it. This process registers as a subreaper
//! instead, so that orphans of its programs become its children. It did not start them itself, which distinguishes them from running
//! programs.
//!
//! The system does not tell from which program an orphan came, only its start time. So it is killed when no running program was started
//! before it: never while its own program runs, and at the latest when the programs that run now reach their time limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

use super::processes;

/// How often orphans are searched for when a program ends. Children of a killed process become ours.
const ROUNDS: usize = 10;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether this process adopts orphans, and kills children that this crate did not start.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Running programs with their start times. Locked while one is started, so that it is not taken for an orphan.
static PROGRAMS: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

/// Registers this process as a subreaper.
pub(crate) fn adopt() {
    // Systems without subreapers still have the process groups.
    if set_child_subreaper(Some(getpid())).is_ok() {
        ADOPTS.store(true, Ordering::Relaxed);
    }
}

/// Whether this process adopts orphans.
pub(crate) fn is_adopting() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Starts a program with `start`, which returns its PID.
pub(crate) fn start<T, E>(start: impl FnOnce() -> Result<(T, Option<u32>), E>) -> Result<T, E> {
    let mut programs = programs();
    let (started, number) = start()?;
    // A process that has ended but was not waited for still has its start time. An unreadable time counts as the earliest.
    programs.extend(number.and_then(|number| i32::try_from(number).ok()).map(|number| (number, started_at(number).unwrap_or(0))));
    Ok(started)
}

/// Forgets a program that has ended and was waited for.
pub(crate) fn forget(program: Pid) {
    programs().remove(&program.as_raw_nonzero().get());
}

/// Kills every process that ended programs left behind.
pub(crate) fn kill_all() {
    if !is_adopting() {
        return;
    }
    for round in 0..ROUNDS {
        if round > 0 {
            sleep(PAUSE);
        }
        let programs = programs();
        let mut is_done = true;
        let children = processes::children(getpid().as_raw_nonzero().get());
        for child in children.into_iter().filter(|child| !programs.contains_key(child)) {
            let Some(orphan) = Pid::from_raw(child) else { continue };
            // Our child: its PID is not reused until we wait for it.
            if matches!(waitpid(Some(orphan), WaitOptions::NOHANG), Ok(Some(_))) || may_belong_to(child, &programs) {
                continue;
            }
            is_done = false;
            let _ = kill_process(orphan, Signal::KILL);
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
        if is_done {
            return;
        }
    }
}

/// Whether a running program may have started a process: it was started before it.
fn may_belong_to(orphan: i32, programs: &BTreeMap<i32, u64>) -> bool {
    started_at(orphan).is_none_or(|at| programs.values().any(|began| *began <= at))
}

fn programs() -> MutexGuard<'static, BTreeMap<i32, u64>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The start time of a process, in ticks since boot. `None` if there is no such process.
fn started_at(process: i32) -> Option<u64> {
    processes::stat(process).map(|stat| stat.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_time_and_one_that_is_not_there_has_none() {
        let own = started_at(getpid().as_raw_nonzero().get()).expect("this process runs");
        assert!(own > 0);
        assert_eq!(started_at(0), None);
        let programs = |times: &[u64]| times.iter().copied().enumerate().map(|(at, time)| (at as i32, time)).collect();
        let this = getpid().as_raw_nonzero().get();
        assert!(may_belong_to(this, &programs(&[own])), "in the same tick");
        assert!(may_belong_to(this, &programs(&[own + 1, 0])), "one program that was started before is enough");
        assert!(!may_belong_to(this, &programs(&[own + 1])), "a program that was started later did not start it");
        assert!(!may_belong_to(this, &programs(&[])));
    }
}
