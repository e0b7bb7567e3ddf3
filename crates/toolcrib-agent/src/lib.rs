#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod bridge;
#[cfg(feature = "resolve")]
mod cache;
pub mod content_hash;
pub mod evidence;
pub mod ipfs;
#[cfg(feature = "resolve")]
pub mod judge;
#[cfg(feature = "resolve")]
pub mod memory;
#[cfg(feature = "resolve")]
mod owner;
#[cfg(feature = "resolve")]
pub mod policy;
#[cfg(feature = "resolve")]
pub mod report;
#[cfg(feature = "resolve")]
pub mod resolve;
#[cfg(feature = "resolve")]
pub mod source;
#[cfg(feature = "resolve")]
pub mod txt;
#[cfg(feature = "resolve")]
pub mod txt_writer;

#[cfg(feature = "resolve")]
pub use judge::{Judgement, judge};
#[cfg(feature = "resolve")]
pub use policy::AgentPolicy;
#[cfg(feature = "resolve")]
pub use report::{AgentReport, AgentState};
#[cfg(feature = "resolve")]
pub use resolve::{Resolution, Resolver};
