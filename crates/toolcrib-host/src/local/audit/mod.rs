//! The audit log: one hash-chained JSON line for every decision and call.
//!
//! # Format
//!
//! `audit.jsonl` has one JSON object in each line. A line is the RFC 8785 form of its object (sorted members, no blanks) and a line feed. `hash` is `sha256:` and the
//! SHA-256 of the RFC 8785 form of the object without the member `hash`; `prev` is the `hash` of the line before, and `sha256:` with 64 zeros in the first.
//! `seq` counts lines from 1. A file that has reached [`Options::max_bytes`] becomes `audit-<seq>.jsonl`, with the `seq` of its last line in 12 digits, and the
//! first line of the new file continues the chain.
//!
//! Arguments are not in the log, only their hash, unless the operator turns [`Options::record_arguments`] on; then they are redacted first. A hash of arguments
//! that are easy to guess can be guessed: the log is private.
//!
//! # Guarantees
//!
//! - Several processes may append. Each holds an exclusive lock, continues the hash of the last line, and writes its lines with one append.
//! - When [`AuditLog::append`] returns for a refusal or a change of secrets or permissions, the line is on the disk.
//! - The decision and the start of a call are appended before the program hears of the call, by [`AuditLog::append_call`]. From then on they survive the
//!   end of the process. They reach the disk within [`BACKGROUND_SYNC`], or before the result is given out ([`SyncPolicy`]). Other lines follow with the
//!   next of those, or with [`AuditLog::sync`].
//! - A line that a crash left incomplete is moved to `audit-<seq>.torn`, an event records that, and the chain continues.
//! - [`verify`] finds every changed, removed, inserted or moved line. Lines removed **at the end** cannot be seen in the log itself, and neither can a
//!   log that was rewritten as a whole: note [`AuditLog::head`] elsewhere, and give it to [`verify`].

mod entry;
mod error;
mod lines;
mod log;
mod query;
mod sync;
mod verify;

pub use entry::{Details, Entry, Event, MAX_ARGUMENTS_BYTES, MAX_TEXT_BYTES, Record};
pub use error::{AuditError, Break, BreakCause};
pub use lines::{ChainHash, Head, MAX_LINE_BYTES};
pub use log::{AUDIT_FILE, AuditLog, DEFAULT_MAX_BYTES, Options};
pub use query::{Filter, Found, MAX_FOUND};
pub use sync::{BACKGROUND_SYNC, PendingSync, SyncPolicy};
pub use verify::{Summary, verify};
