#![doc = include_str!("../README.md")]

mod anvil;
#[cfg(feature = "clock")]
pub mod clock;
#[cfg(feature = "databases")]
pub mod databases;
mod files;
mod inputs;
#[cfg(feature = "local-tools")]
pub mod local_tools;
#[cfg(feature = "mcp")]
pub mod mcp_clients;
#[cfg(feature = "chain")]
pub mod nodes;
#[cfg(feature = "objects")]
pub mod objects;
#[cfg(feature = "chain")]
pub mod registry;
#[cfg(feature = "samples")]
pub mod samples;
mod secret_service;
#[cfg(feature = "servers")]
pub mod servers;
mod skip;
mod timing;
#[cfg(feature = "tools")]
pub mod tools;
#[cfg(feature = "x402-peers")]
pub mod x402_peers;

pub use anvil::Anvil;
pub use files::{files, rows, vectors};
pub use inputs::{
    agt_js, agt_pin, anvil, cast, corpus, duckdb, embedding, foreign_rust_client, helia, interop, mcp_clients, moto, named,
    newer_node, postgres, project_builds, repository, s3rver, safe, viem,
};
pub use secret_service::SecretService;
pub use skip::skip;
pub use timing::{HUNG, assert_faster_than, assert_not_hung};
