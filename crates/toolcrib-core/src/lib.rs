#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod agent;
pub mod caip;
pub mod canon;
pub mod checked;
pub mod clock;
pub mod codes;
pub mod finding;
pub mod json;
pub mod schema;
pub mod text;
pub mod time;
pub mod url;
