//! The chain as clients see it: alloy over HTTP and WebSocket, and plain bytes where alloy is too well behaved.

#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "an unwrap is an assertion here, and what is skipped is said")]

mod foreign;
mod history;
mod logs;
mod parity;
mod persistence;
mod protocol;
mod support;
mod transactions;
