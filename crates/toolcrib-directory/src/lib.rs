#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod answer;
mod api;
mod cache;
mod directory;
mod front;
mod images;
mod inert;
pub mod keys;
mod limits;
mod markdown;
pub mod mcp;
mod metrics;
mod openapi;
mod options;
mod pages;
mod parameters;
pub mod purge;
mod reader;
mod routing;
mod server;
mod serving;
pub mod surrogate;
mod view;
mod watch;

pub use directory::{Builder, Directory};
pub use limits::Rate;
pub use openapi::document as openapi;
pub use options::{Auth, Options};
pub use server::{DirectoryServer, ServerConfig, ServerError};
pub use serving::{HEAD_TIME, MAX_CONNECTIONS, MAX_HEAD_BYTES, SHUTDOWN_TIME, serve};
