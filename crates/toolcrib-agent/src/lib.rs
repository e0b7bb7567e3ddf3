#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod bridge;
mod cache;
pub mod content_hash;
pub mod evidence;
pub mod ipfs;
pub mod judge;
pub mod memory;
mod owner;
pub mod policy;
pub mod report;
pub mod resolve;
pub mod source;
pub mod txt;
pub mod txt_writer;

pub use judge::{Judgement, judge};
pub use policy::AgentPolicy;
pub use report::{AgentReport, AgentState};
pub use resolve::{Resolution, Resolver};
