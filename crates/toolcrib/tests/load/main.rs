//! Two thousand hostile connections of each kind, from few addresses, against the real programs, while an honest client sends requests.
//!
//! A separate test binary, so that other tests do not use the CPU meanwhile. The servers run with few descriptors, as on a system with a
//! low limit. To print the numbers:
//!
//! ```text
//! cargo test -p toolcrib --test load -- --nocapture
//! ```
//!
//! `TOOLCRIB_LOAD_PROGRAM` names another binary to measure once, such as one of an earlier version.
#![cfg(target_os = "linux")]

mod honest;
mod hostile;
mod servers;

use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::honest::Measured;
use crate::hostile::{Attack, KINDS, Kind};
use crate::servers::{Program, directory, gate};

/// Hostile connections of one kind.
const CONNECTIONS: usize = 2_000;

/// Descriptors of this process: all hostile connections, the honest ones, and what the runtime needs.
const DESCRIPTORS: u64 = 6_000;

/// The slowest of a hundred honest requests may take this long.
const LIMIT: Duration = Duration::from_millis(250);

/// Most measurements of a kind: another program may be using the CPU.
const ATTEMPTS: u8 = 4;

#[test]
fn an_honest_client_of_the_directory_is_served_under_attack() {
    withstand(&directory());
}

#[test]
fn an_honest_client_of_the_gate_is_served_under_attack() {
    withstand(&gate());
}

fn withstand(program: &Program) {
    // One at a time, because they measure time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !has_descriptors() {
        return toolcrib_testkit::skip("descriptors", "this process may not have as many as the test opens");
    }
    let mut honest = honest::Client::new(program);
    tell(program, "no attack", 0, &honest.measure(), Duration::ZERO);
    let failed: Vec<_> = KINDS.into_iter().filter(|kind| !withstands(program, &mut honest, *kind)).collect();
    assert!(failed.is_empty(), "{}: {failed:?}", program.name);
}

fn withstands(program: &Program, honest: &mut honest::Client, kind: Kind) -> bool {
    let attempts = if std::env::var_os("TOOLCRIB_LOAD_PROGRAM").is_some() { 1 } else { ATTEMPTS };
    for _ in 0..attempts {
        let began = Instant::now();
        let attack = Attack::begin(program, kind, CONNECTIONS);
        let measured = honest.measure();
        let open = attack.end();
        tell(program, &format!("{kind:?}"), open, &measured, began.elapsed());
        if measured.failures.is_empty() && measured.percentile(99) < LIMIT {
            return true;
        }
    }
    false
}

fn tell(program: &Program, what: &str, open: usize, measured: &Measured, took: Duration) {
    let _ = writeln!(
        std::io::stderr(),
        "{:9} {what:12} open {open:5}  honest {:3}  p50 {}  p99 {}  max {}  failed {:3} {:?}  in {took:.1?}",
        program.name,
        measured.times.len(),
        millis(measured.percentile(50)),
        millis(measured.percentile(99)),
        millis(measured.percentile(100)),
        measured.failures.len(),
        measured.failures.first(),
    );
}

fn millis(time: Duration) -> String {
    if time == Duration::MAX { "     never".to_owned() } else { format!("{:7.1} ms", time.as_secs_f64() * 1e3) }
}

fn has_descriptors() -> bool {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= DESCRIPTORS) {
        return true;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum: limit.maximum }).is_ok()
}
