//! Processes that have left the process group of their program, where no supervisor looks after them.
//!
//! A process can put itself into another group, and when its parent ends, the first process of the system adopts it. This process asks to be
//! the one that adopts (a subreaper), so that what a program leaves behind becomes a child of this process. Such a child was not started by
//! this process itself, which tells it from the programs that run.
//!
//! The system does not say which program an orphan came from, only when it was started. So it is killed when no program is left that was
//! started before it: never while its own program runs, and at the latest when the programs of that moment reach their time limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

use super::processes;

/// How often orphans are looked for when a program ends. A process that is killed leaves its own children to us.
const ROUNDS: usize = 10;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether this process adopts orphans, and kills children that this crate has not started.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Programs that run, with the time at which each was started. Locked while one is started, so that none is taken for an orphan.
static PROGRAMS: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

/// Asks to adopt what programs leave behind.
pub(crate) fn adopt() {
    // A system that does not know how leaves the process groups.
    if set_child_subreaper(Some(getpid())).is_ok() {
        ADOPTS.store(true, Ordering::Relaxed);
    }
}

/// Whether this process adopts orphans.
pub(crate) fn is_adopting() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Starts a program by `start`, which gives its number.
pub(crate) fn start<T, E>(start: impl FnOnce() -> Result<(T, Option<u32>), E>) -> Result<T, E> {
    let mut programs = programs();
    let (started, number) = start()?;
    // One that is gone already, and was not waited for, still has its time. A time that cannot be read is before all others.
    programs.extend(number.and_then(|number| i32::try_from(number).ok()).map(|number| (number, started_at(number).unwrap_or(0))));
    Ok(started)
}

/// Forgets a program that has ended and was waited for.
pub(crate) fn forget(program: Pid) {
    programs().remove(&program.as_raw_nonzero().get());
}

/// Kills every process that programs which have ended left behind.
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
            // Ours to wait for: the number stays its own until then.
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

/// Whether a program that runs may have started a process: it was started before.
fn may_belong_to(orphan: i32, programs: &BTreeMap<i32, u64>) -> bool {
    started_at(orphan).is_none_or(|at| programs.values().any(|began| *began <= at))
}

fn programs() -> MutexGuard<'static, BTreeMap<i32, u64>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a process was started, in ticks since the start of the system. `None` when there is no such process.
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
