//! Processes that have left their program's process group.
//!
//! A process can put itself into another group, and when its parent ends, it goes to the first process of the system and stays. We ask to
//! be that process for ours (a subreaper), so that what a program leaves behind becomes a child of the gate. Such a child was not started
//! by the gate itself, which tells it from the programs of calls that are under way.
//!
//! The system does not say which program a stray came from, only when it was started. So it is ended when no call is left that had begun by
//! then: never while its own call is under way, and at the latest when the calls of that moment reach their time limit.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// How often strays are looked for when a call ends. A process that is ended leaves its own children to us.
const ROUNDS: usize = 10;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Programs of calls that are under way, with the time at which each was started. Locked while one is started, so that none is taken for
/// a stray.
static PROGRAMS: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

/// Asks to be given what programs leave behind. A system that does not know how leaves the process groups.
pub(super) fn adopt() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// Starts a program by `start`, which gives its number.
pub(super) fn start<T, E>(start: impl FnOnce() -> Result<(T, Option<u32>), E>) -> Result<T, E> {
    let mut programs = programs();
    let (started, number) = start()?;
    // One that is gone already, and was not collected, still has its time. A time that cannot be read is before all others.
    programs.extend(number.and_then(|number| i32::try_from(number).ok()).map(|number| (number, started_at(number).unwrap_or(0))));
    Ok(started)
}

/// A program has ended and was collected.
pub(super) fn forget(program: Pid) {
    programs().remove(&program.as_raw_nonzero().get());
}

/// Ends every process that programs of ended calls have left behind.
pub(super) fn end_all() {
    for round in 0..ROUNDS {
        if round > 0 {
            sleep(PAUSE);
        }
        let programs = programs();
        let mut is_done = true;
        for child in children().into_iter().filter(|child| !programs.contains_key(child)) {
            let Some(stray) = Pid::from_raw(child) else { continue };
            // Ours to collect: the number stays its own until then.
            if matches!(waitpid(Some(stray), WaitOptions::NOHANG), Ok(Some(_))) || is_of_a_call(child, &programs) {
                continue;
            }
            is_done = false;
            let _ = kill_process(stray, Signal::KILL);
            let _ = waitpid(Some(stray), WaitOptions::NOHANG);
        }
        if is_done {
            return;
        }
    }
}

/// Whether a call that is under way may have started a process: it had begun by then.
fn is_of_a_call(stray: i32, programs: &BTreeMap<i32, u64>) -> bool {
    started_at(stray).is_none_or(|at| programs.values().any(|began| *began <= at))
}

fn programs() -> MutexGuard<'static, BTreeMap<i32, u64>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a process was started, in ticks since the system was (proc(5), field 22). `None` when there is no such process.
fn started_at(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the name of the program in parentheses, and may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// The children of this process, of whichever thread.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_time_and_one_that_is_not_there_has_none() {
        let own = started_at(getpid().as_raw_nonzero().get()).expect("this process runs");
        assert!(own > 0);
        assert_eq!(started_at(0), None);
        let calls = |times: &[u64]| times.iter().copied().enumerate().map(|(at, time)| (at as i32, time)).collect();
        let this = getpid().as_raw_nonzero().get();
        assert!(is_of_a_call(this, &calls(&[own])), "in the same tick");
        assert!(is_of_a_call(this, &calls(&[own + 1, 0])), "one call that began before is enough");
        assert!(!is_of_a_call(this, &calls(&[own + 1])), "a call that began later did not start it");
        assert!(!is_of_a_call(this, &calls(&[])));
    }
}
