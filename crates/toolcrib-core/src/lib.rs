#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod caip;
pub mod canon;
pub mod checked;
pub mod clock;
pub mod codes;
pub mod finding;
pub mod json;
pub mod kind;
pub mod local;
pub mod near;
pub mod schema;
pub mod secrets;
pub mod semver;
pub mod text;
pub mod url;
