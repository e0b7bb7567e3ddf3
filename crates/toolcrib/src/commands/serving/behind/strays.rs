//! Processes that have left their program's process group.
//!
//! A process can put itself into another group, and when its parent ends, it goes to the first process of the system and stays. We ask to
//! be that process for ours (a subreaper), so that what a program leaves behind becomes a child of the gate. Such a child was not started
//! by the gate itself, which tells it from the programs of calls that are under way. It is ended when a call ends: also
//! what another call has left behind while that still runs.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

/// How often strays are looked for when a call ends. A process that is ended leaves its own children to us.
const ROUNDS: usize = 10;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Programs of calls that are under way. Locked while one is started, so that none is taken for a stray.
static PROGRAMS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Asks to be given what programs leave behind. A system that does not know how leaves the process groups.
pub(super) fn adopt() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// Starts a program by `start`, which gives its number.
pub(super) fn start<T, E>(start: impl FnOnce() -> Result<(T, Option<u32>), E>) -> Result<T, E> {
    let mut programs = programs();
    let (started, number) = start()?;
    programs.extend(number.and_then(|number| i32::try_from(number).ok()));
    Ok(started)
}

/// A program has ended and was collected.
pub(super) fn forget(program: Pid) {
    programs().remove(&program.as_raw_nonzero().get());
}

/// Ends every process that programs have left behind.
pub(super) fn end_all() {
    for round in 0..ROUNDS {
        if round > 0 {
            sleep(PAUSE);
        }
        let programs = programs();
        let strays: Vec<_> = children().into_iter().filter(|child| !programs.contains(child)).filter_map(Pid::from_raw).collect();
        if strays.is_empty() {
            return;
        }
        for stray in strays {
            // Ours to collect: the number stays its own until then.
            let _ = kill_process(stray, Signal::KILL);
            let _ = waitpid(Some(stray), WaitOptions::NOHANG);
        }
    }
}

fn programs() -> MutexGuard<'static, BTreeSet<i32>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The children of this process, of whichever thread.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<_>>()).collect()
}
