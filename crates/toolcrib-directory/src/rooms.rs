//! What a directory asks of other rooms, each small enough to be left out: without it the operations that need it say so.

use std::pin::Pin;

use alloy_primitives::Address;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_index::model::{ToolKey, ToolView};

/// Something that is waited for.
pub type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = Result<T, toolcrib_index::Error>> + Send + 'a>>;

/// Most tools that one request asks a chain about.
pub const MAX_CANDIDATES: usize = 200;

/// Who looks at tools.
pub trait Inspector: Send + Sync {
    /// Puts a tool at the front of the queue. Asking twice is one look.
    fn request(&self, key: ToolKey, now: UnixTime) -> Future<'_, ()>;
    /// The report of the last look, as JSON.
    fn report(&self, key: ToolKey) -> Future<'_, Option<Vec<u8>>>;
    /// What the last look saw, as JSON.
    fn evidence(&self, key: ToolKey) -> Future<'_, Option<Vec<u8>>>;
}

/// Who asks the chain whether an account may use a tool.
pub trait Doorkeeper: Send + Sync {
    /// For each tool: yes, no, or `None` where the chain did not say. At most [`MAX_CANDIDATES`].
    fn may_use<'a>(&'a self, wallet: Address, tools: &'a [ToolView]) -> Future<'a, Vec<Option<bool>>>;
}

/// Who knows what happened to a tool.
pub trait Historian: Send + Sync {
    /// Its events, the oldest first, from `offset` on. The answer says whether there are more.
    fn history(&self, key: ToolKey, limit: usize, offset: usize) -> Future<'_, (Vec<HistoryEvent>, bool)>;
}

/// Something that the registry said about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HistoryEvent {
    /// What happened: `registered`, `metadata`, `predicate`, `deregistered` or `upgraded`.
    pub kind: String,
    /// The number of the block.
    pub block_number: u64,
    /// The hash of the block.
    pub block_hash: String,
    /// The place in the block.
    pub log_index: u64,
    /// The transaction.
    pub transaction_hash: Option<String>,
    /// The time of the block.
    pub timestamp: String,
    /// Who registered it, where the event says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    /// The metadata URI, where the event sets it. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_uri: Option<String>,
    /// The manifest's hash, where the event sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_hash: Option<String>,
    /// The predicate, where the event sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// Whether the block can no longer be taken back.
    pub is_final: bool,
}
