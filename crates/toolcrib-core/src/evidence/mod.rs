//! Evidence: what was read and fetched, as plain data, without a verdict.
//!
//! A saved evidence file is a test vector, a bug report and an audit record. [`crate::judge`] makes a report of it; nothing
//! makes a permission to call or to pay of it.

mod exchange;

pub use exchange::{Body, Exchange, Failure, Method, Response, Timing, Tls};
