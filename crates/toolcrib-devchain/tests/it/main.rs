//! The chain as clients see it: alloy over HTTP and WebSocket, and plain bytes where alloy is too well behaved.

mod history;
mod logs;
mod persistence;
mod protocol;
mod support;
mod transactions;
