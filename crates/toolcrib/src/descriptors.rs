//! Descriptors: every connection of a server takes one, and most systems give a process 1,024 unless it asks for more.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::printer::Printer;

/// Descriptors that a server of ours wants: as many connections as it takes, and what it needs besides.
const WANTED: u64 = 12_000;

/// Prepares a server: raises the limit, and says so if it stays low.
pub(crate) fn prepare(printer: &mut Printer) -> io::Result<()> {
    let Some(limit) = raise() else { return Ok(()) };
    printer.note(&format!(
        "warning: the limit of open files is {limit}, which limits connections; raise it with ulimit -n or LimitNOFILE"
    ))
}

/// Raises the limit of this process as far as the system lets it. Gives what it is then, if that is less than a server wants.
fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_some_and(|now| now < WANTED.min(most)) {
        // What is refused stays as it is, and is told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(WANTED.min(most)), maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.filter(|now| *now < WANTED)
}
