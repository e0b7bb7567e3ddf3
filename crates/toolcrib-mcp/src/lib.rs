#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod asker;
mod client;
pub mod discovery;
mod http;
mod json;
mod list;
mod listable;
mod server;
mod stdio;
mod toolbox;
pub mod untrusted;
mod words;

pub use asker::{ANSWER_LIMIT, Asker, Caller, Progress, Prompt, PromptResponse, Returned};
pub use client::{CallProgress, Called, Client, ClientError, ToolPages};
pub use http::{Bearer, HttpOptions, MAX_SESSIONS, MIN_TOKEN_CHARS, http_router};
pub use json::value_hash;
pub use listable::{Side, listable};
pub use server::{CALL_LIMIT, MAX_CALLS, META_ERROR, Server, SetupError};
pub use stdio::{MAX_MESSAGE_BYTES, ServeError, serve, serve_stdio};
pub use toolbox::{About, Effect, MAX_NAME_CHARS, Reply, Stop, ToolError, ToolSpec, Toolbox};
