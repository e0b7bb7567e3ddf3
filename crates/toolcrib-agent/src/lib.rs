#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod cache;
pub mod content_hash;
pub mod evidence;
pub mod judge;
pub mod memory;
mod owner;
pub mod policy;
pub mod report;
pub mod resolve;
pub mod source;

pub use judge::{Judgement, judge};
pub use policy::AgentPolicy;
pub use report::{AgentReport, AgentState};
pub use resolve::{Resolution, Resolver};
