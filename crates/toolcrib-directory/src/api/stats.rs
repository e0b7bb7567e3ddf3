//! `GET /api/v2/stats`: counts of everything.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use toolcrib_store::database::Row;

use crate::answer::{Answer, Refusal, fresh_for, json};
use crate::directory::App;
use crate::view::dollars;

/// For how long counts are kept: counting reads every row.
const KEPT_FOR: Duration = Duration::from_secs(10);

const TOOLS: &str = "SELECT r.chain, COUNT(*), SUM(CASE WHEN t.deregistered_at IS NULL THEN 1 ELSE 0 END),
    SUM(CASE WHEN t.listed THEN 1 ELSE 0 END) FROM index_tool t JOIN index_registry r ON r.id = t.registry
    GROUP BY r.chain ORDER BY r.chain";
const USAGE: &str = "SELECT CAST(COALESCE(SUM(paid_calls), 0) AS BIGINT), CAST(COALESCE(SUM(volume), 0) AS BIGINT),
    CAST(COALESCE(SUM(signed_calls), 0) AS BIGINT) FROM index_usage_total";

/// Counts of everything.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// Tools that were ever registered.
    pub(crate) tools: u64,
    /// Tools that are registered now.
    pub(crate) active: u64,
    /// Tools that are verified and conformant, and so shown to agents.
    pub(crate) listed: u64,
    /// The same by chain.
    pub(crate) chains: Vec<ChainStats>,
    /// Paid calls that were proven.
    pub(crate) paid_calls: u64,
    /// What was paid in dollars.
    pub(crate) volume_usd: String,
    /// Signatures over nothing.
    pub(crate) signed_calls: u64,
    /// The number of the last change.
    pub(crate) last_change: u64,
}

/// Counts of one chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ChainStats {
    /// The number of the chain.
    pub(crate) registry_chain: String,
    /// Tools that were ever registered.
    pub(crate) tools: u64,
    /// Tools that are registered now.
    pub(crate) active: u64,
    /// Tools that are verified and conformant.
    pub(crate) listed: u64,
}

pub(crate) async fn stats(State(app): State<Arc<App>>) -> Answer {
    let stats = counted(&app).await?;
    Ok(fresh_for(json(StatusCode::OK, &*stats), "public, max-age=10"))
}

/// The counts, or those of a moment ago. One counts at a time.
pub(crate) async fn counted(app: &App) -> Result<Arc<Stats>, Refusal> {
    let mut kept = app.stats.lock().await;
    if let Some((_, stats)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT_FOR) {
        return Ok(stats.clone());
    }
    let stats = Arc::new(count(app).await?);
    *kept = Some((Instant::now(), stats.clone()));
    Ok(stats)
}

async fn count(app: &App) -> Result<Stats, Refusal> {
    let database = app.index.database();
    let mut stats = Stats::default();
    let number =
        |row: &Row, column: usize| -> Result<u64, Refusal> { Ok(u64::try_from(row.integer(column)?).unwrap_or_default()) };
    for row in database.fetch(TOOLS, &[]).await? {
        let chain = ChainStats {
            registry_chain: row.integer(0)?.to_string(),
            tools: number(&row, 1)?,
            active: number(&row, 2)?,
            listed: number(&row, 3)?,
        };
        stats.tools += chain.tools;
        stats.active += chain.active;
        stats.listed += chain.listed;
        stats.chains.push(chain);
    }
    if let Some(row) = database.fetch_optional(USAGE, &[]).await? {
        stats.paid_calls = number(&row, 0)?;
        stats.volume_usd = dollars(number(&row, 1)?);
        stats.signed_calls = number(&row, 2)?;
    }
    stats.last_change = u64::try_from(app.index.last_change().await?).unwrap_or_default();
    Ok(stats)
}
