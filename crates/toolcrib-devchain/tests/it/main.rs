//! The chain as seen by clients: alloy over HTTP and WebSocket, and raw bytes for requests that alloy does not make.

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
