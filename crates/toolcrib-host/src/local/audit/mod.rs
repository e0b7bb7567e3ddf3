//! The audit log: one hash-chained JSON line for every decision and call.
//!
//! # Format
//!
//! `audit.jsonl` has one JSON object in each line. A line is the RFC 8785 form of its object (sorted members, no whitespace) and a line
//! feed. `hash` is `sha256:` and the SHA-256 of the RFC 8785 form of the object without the member `hash`; `prev` is the `hash` of the
//! previous line, and `sha256:` with 64 zeros in the first. `seq` counts lines from 1. A file that has reached [`Options::max_bytes`] is
//! renamed to `audit-<seq>.jsonl`, with the `seq` of its last line in 12 digits, and the first line of the new file continues the chain.
//!
//! The log contains a hash of the arguments; the arguments themselves, redacted, only if the operator turns [`Options::record_arguments`]
//! on. A hash of predictable arguments can be guessed, so the log is private.
//!
//! # Guarantees
//!
//! - Several processes may append. Each takes an exclusive lock, continues the hash of the last line, and appends its lines with one
//!   write.
//! - When [`AuditLog::append`] returns for a refusal or a change of secrets or permissions, the line is on disk.
//! - The decision and the start of a call are appended before the program receives the call, by [`AuditLog::append_call`]. From then on
//!   they survive the end of the process. They are synced to disk within [`BACKGROUND_SYNC`], or before the result is returned
//!   ([`SyncPolicy`]). Other lines are synced with the next of those, or with [`AuditLog::sync`].
//! - An incomplete line, left by a crash, is moved to `audit-<seq>.torn`, an event records that, and the chain continues.
//! - [`verify`] detects every changed, removed, inserted or moved line. The log alone does not show that lines were removed **at the
//!   end**, or that it was rewritten as a whole: note [`AuditLog::head`] elsewhere, and pass it to [`verify`].

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
