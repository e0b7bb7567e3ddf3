//! The chain as clients see it: alloy over HTTP and WebSocket, and plain bytes where alloy is too well behaved.

#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod authority;
mod foreign;
mod history;
mod logs;
mod methods;
mod parity;
mod persistence;
mod protocol;
mod support;
mod transactions;
