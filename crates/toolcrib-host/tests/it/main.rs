//! The bridge between clients of both eras and tools behind TLS on loopback, with a chain in this process.
#![expect(clippy::unwrap_used, reason = "in helpers of tests an unwrap is an assertion as well")]

mod calls;
mod finding;
#[cfg(unix)]
mod local_audit;
#[cfg(unix)]
mod local_decisions;
mod local_formats;
#[cfg(unix)]
mod local_http;
mod local_install;
#[cfg(unix)]
mod local_mcp_http;
#[cfg(unix)]
mod local_meta_tools;
mod local_node;
#[cfg(unix)]
mod local_permissions;
#[cfg(unix)]
mod local_programs;
mod local_schema_cost;
#[cfg(unix)]
mod local_secrets;
#[cfg(unix)]
mod local_support;
#[cfg(all(unix, feature = "wasm"))]
mod local_wasm;
mod networks;
#[cfg(unix)]
mod one_tool;
#[cfg(unix)]
mod page_functions;
#[cfg(unix)]
mod page_security;
#[cfg(unix)]
mod page_support;
#[cfg(unix)]
mod pinned;
mod sign_in;
mod words;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use toolcrib_client::Client;
use toolcrib_core::codes::mcp as code;
use toolcrib_host::bridge::{Bridge, Unattended};
use toolcrib_mcp::discovery::{Discovery, RestRequest};
use toolcrib_mcp::{Asker, Server, ToolError};

use toolcrib_testkit::tools::World;

/// An empty directory.
struct Nothing;

#[async_trait]
impl Discovery for Nothing {
    async fn ask(&self, request: &RestRequest, _: &Asker) -> Result<Json, ToolError> {
        match request.path.last().map(String::as_str) {
            Some("search") => Ok(json!({"results": []})),
            _ => Err(ToolError::new(code::TOOL_NOT_FOUND)),
        }
    }
}

/// A bridge over a client.
fn bridge(world: &World, client: Client, unattended: &str) -> Bridge {
    let unattended: Unattended = toml::from_str(unattended).unwrap();
    Bridge::new(Arc::new(Nothing), client, unattended, Arc::new(world.clock.clone()))
}

fn server(world: &World, client: Client, unattended: &str) -> Server {
    Server::new(Arc::new(bridge(world, client, unattended))).unwrap()
}
