//! `GET /api/v2/stats`: counts of tools and usage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use toolcrib_index::Index;
use toolcrib_store::database::FromRow as _;
use toolcrib_store::{row, sql};

use crate::answer::{Answer, ApiError, fresh_for, json};
use crate::reader::Reader;
use crate::view::dollars;

/// How long counts are cached at least.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Counting reads every row, so counts are cached for this multiple of the time that counting took: it uses at most a hundredth of one
/// connection, however many tools there are.
const KEPT_TIMES: u32 = 100;

row! {
    /// The tools of one chain.
    struct ToolsRow {
        chain: i64 = "r.chain",
        tools: i64 = "COUNT(*)",
        active: i64 = "SUM(CASE WHEN t.deregistered_at IS NULL THEN 1 ELSE 0 END)",
        listed: i64 = "SUM(CASE WHEN t.listed THEN 1 ELSE 0 END)",
    }
}

row! {
    struct UsageRow {
        paid_calls: i64 = "CAST(COALESCE(SUM(paid_calls), 0) AS BIGINT)",
        volume: i64 = "CAST(COALESCE(SUM(volume), 0) AS BIGINT)",
        signed_calls: i64 = "CAST(COALESCE(SUM(signed_calls), 0) AS BIGINT)",
    }
}

const TOOLS: &str = sql!(
    "SELECT ",
    ToolsRow::COLUMNS,
    " FROM index_tool t JOIN index_registry r ON r.id = t.registry GROUP BY r.chain ORDER BY r.chain"
);
const USAGE: &str = sql!("SELECT ", UsageRow::COLUMNS, " FROM index_usage_total");

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

pub(crate) async fn stats(app: Reader) -> Answer {
    let stats = counted(&app).await?;
    Ok(fresh_for(json(StatusCode::OK, &*stats), "public, max-age=10"))
}

/// The cached counts, and when to count again.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    kept: Mutex<Option<Counted>>,
    /// Requests before the first count wait for it.
    first: tokio::sync::Mutex<()>,
    is_counting: AtomicBool,
}

/// The result of counting.
#[derive(Clone, Debug)]
struct Counted {
    stats: Arc<Stats>,
    /// The change of the feed that it includes at least.
    version: i64,
    until: Instant,
}

impl Counted {
    /// Whether to count again. All counts change with the feed.
    fn is_due(&self, version: i64, now: Instant) -> bool {
        (self.version != version || version < 0) && now >= self.until
    }
}

/// Returns how long counts are cached that took this time.
fn kept_for(took: Duration) -> Duration {
    took.saturating_mul(KEPT_TIMES).max(KEPT_FOR)
}

impl Counts {
    fn last(&self) -> Option<Counted> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn count(&self, index: &Index, version: i64) -> Result<Arc<Stats>, ApiError> {
        let begun = Instant::now();
        let stats = Arc::new(count(index).await?);
        let counted = Counted { stats: Arc::clone(&stats), version, until: Instant::now() + kept_for(begun.elapsed()) };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(stats)
    }
}

/// Returns the counts, or older ones while they are counted again. Only the first caller waits for it.
pub(crate) async fn counted(app: &Reader) -> Result<Arc<Stats>, ApiError> {
    let version = app.cache.last();
    if app.stats.last().is_none() {
        let _first = app.stats.first.lock().await;
        if app.stats.last().is_none() {
            return app.stats.count(&app.index, version).await;
        }
    }
    let Some(last) = app.stats.last() else { return Err(ApiError::unavailable()) };
    if last.is_due(version, Instant::now()) && !app.stats.is_counting.swap(true, Ordering::AcqRel) {
        let (counts, index) = (Arc::clone(&app.stats), app.index.clone());
        tokio::spawn(async move {
            // The error was logged; the old counts stay.
            let _ = counts.count(&index, version).await;
            counts.is_counting.store(false, Ordering::Release);
        });
    }
    Ok(last.stats)
}

async fn count(index: &Index) -> Result<Stats, ApiError> {
    let database = index.database();
    let mut stats = Stats::default();
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    for row in ToolsRow::from_rows(&database.fetch(TOOLS, &[]).await?) {
        let row = row?;
        let chain = ChainStats {
            registry_chain: row.chain.to_string(),
            tools: number(row.tools),
            active: number(row.active),
            listed: number(row.listed),
        };
        stats.tools += chain.tools;
        stats.active += chain.active;
        stats.listed += chain.listed;
        stats.chains.push(chain);
    }
    if let Some(row) = database.fetch_optional(USAGE, &[]).await? {
        let row = UsageRow::from_row(&row)?;
        stats.paid_calls = number(row.paid_calls);
        stats.volume_usd = dollars(number(row.volume));
        stats.signed_calls = number(row.signed_calls);
    }
    stats.last_change = u64::try_from(index.last_change().await?).unwrap_or_default();
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_changed_is_not_counted_and_what_takes_long_is_counted_seldom() {
        assert_eq!(kept_for(Duration::from_millis(3)), KEPT_FOR);
        assert_eq!(kept_for(Duration::from_secs(2)), Duration::from_secs(200));
        let now = Instant::now();
        let counted = Counted { stats: Arc::default(), version: 7, until: now + KEPT_FOR };
        assert!(!counted.is_due(8, now), "kept for a while");
        assert!(counted.is_due(8, now + KEPT_FOR));
        assert!(!counted.is_due(7, now + KEPT_FOR * 1_000), "nothing changed");
        assert!(Counted { version: -1, ..counted }.is_due(-1, now + KEPT_FOR), "the feed was never read");
    }
}
