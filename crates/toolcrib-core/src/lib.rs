#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod agent;
pub mod caip;
pub mod canon;
pub mod checked;
pub mod clock;
pub mod codes;
pub mod finding;
pub mod fix;
pub mod hex;
pub mod json;
pub mod kind;
pub mod local;
pub mod money;
pub mod near;
pub mod registry;
pub mod schema;
pub mod secrets;
pub mod semver;
pub mod server_json;
pub mod slug;
pub mod text;
pub mod time;
pub mod tool;
pub mod url;
