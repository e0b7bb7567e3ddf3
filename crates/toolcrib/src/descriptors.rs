//! File descriptors: a server needs one per connection, and most systems limit a process to 1,024 by default.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::printer::Printer;

/// Descriptors that a server needs: its connection limit, and some for databases and outgoing requests.
const WANTED: u64 = 12_000;

/// Raises the descriptor limit for a server, and warns if it stays low.
pub(crate) fn prepare(printer: &mut Printer) -> io::Result<()> {
    let Some(limit) = raise() else { return Ok(()) };
    printer.note(&format!(
        "warning: the limit of open files is {limit}, which limits connections; raise it with ulimit -n or LimitNOFILE"
    ))
}

/// Raises the limit of this process as far as the system allows. Returns the resulting limit if it is below what a server needs.
fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_some_and(|now| now < WANTED.min(most)) {
        // If the system refuses, the limit stays as it is, and the caller warns.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(WANTED.min(most)), maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.filter(|now| *now < WANTED)
}
