//! `GET /api/v2/registries`: the followed registries, their code, and their progress.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_index::RegistryRow;

use crate::answer::{Answer, fresh_for, json};
use crate::reader::Reader;
use crate::view::time;

/// The registries.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Registries {
    /// Each of them.
    pub(crate) registries: Vec<Registry>,
}

/// A registry.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Registry {
    /// The number of its chain.
    pub(crate) registry_chain: String,
    /// Its address.
    pub(crate) registry_addr: String,
    /// keccak256 of its code, once it was read.
    pub(crate) code_hash: Option<String>,
    /// When its code was first seen to differ from what it was: a reason to stop trusting it.
    pub(crate) code_changed_at: Option<String>,
    /// The first block that can have events of it.
    pub(crate) first_block: u64,
    /// The last block whose events are shown.
    pub(crate) checkpoint: Option<u64>,
    /// The last block that is never taken back.
    pub(crate) finalized: Option<u64>,
    /// The newest block of the chain, when it was last asked.
    pub(crate) head: Option<u64>,
    /// Blocks between the newest one and what is shown.
    pub(crate) lag: Option<u64>,
}

pub(crate) async fn registries(app: Reader) -> Answer {
    let registries = app.index.registries().await?.into_iter().map(registry).collect();
    Ok(fresh_for(json(StatusCode::OK, &Registries { registries }), "public, max-age=2"))
}

fn registry(row: RegistryRow) -> Registry {
    let block = |number: i64| u64::try_from(number).ok();
    let state = row.state;
    Registry {
        registry_chain: row.chain.to_string(),
        registry_addr: format!("{:#x}", row.address),
        code_hash: state.code_hash.map(|hash| hash.to_string()),
        code_changed_at: state.code_changed_at.map(|at| time(UnixTime::from_seconds(at))),
        first_block: row.first_block,
        checkpoint: block(state.checkpoint),
        finalized: block(state.finalized),
        head: block(state.head),
        lag: block(state.head).map(|_| u64::try_from(state.head - state.checkpoint).unwrap_or_default()),
    }
}
