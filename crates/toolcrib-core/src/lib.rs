#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod caip;
pub mod canon;
pub mod checked;
pub mod clock;
pub mod codes;
pub mod finding;
pub mod json;
pub mod money;
pub mod schema;
pub mod slug;
pub mod text;
pub mod url;
