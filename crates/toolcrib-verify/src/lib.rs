#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod cache;
mod gather;
mod probe;
mod source;
mod verified;
pub mod watch;

pub use cache::{Cache, Cached, MAX_ENTRIES};
pub use gather::{ATTESTATION_MAX_BYTES, Depth, Verifier};
pub use probe::Probe;
pub use source::{Onchain, ToolSource};
pub use toolcrib_chain::Error;
pub use verified::{Live, Verified};
