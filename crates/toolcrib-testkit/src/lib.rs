#![doc = include_str!("../README.md")]

mod files;
mod inputs;
mod secret_service;
mod skip;
mod timing;

pub use files::{files, rows, vectors};
pub use inputs::{
    agt_js, agt_pin, anvil, cast, corpus, duckdb, embedding, foreign_rust_client, helia, interop, mcp_clients, moto, named,
    newer_node, postgres, project_builds, repository, s3rver, safe, viem,
};
pub use secret_service::SecretService;
pub use skip::skip;
pub use timing::{HUNG, assert_faster_than, assert_not_hung};
