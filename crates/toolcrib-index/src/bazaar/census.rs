//! Metrics about following the Bazaar.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};

use crate::{Error, Index};

/// Counts of facilitators and resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BazaarCensus {
    /// Every facilitator that was ever configured.
    pub facilitators: Vec<FacilitatorState>,
    /// Resources that are listed.
    pub listed: u64,
    /// Listed resources whose probe got a result.
    pub probed: u64,
    /// Resources that are due for a probe.
    pub due: u64,
}

/// The state of following one facilitator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacilitatorState {
    /// Scheme, host and port.
    pub facilitator: String,
    /// Resources that it lists.
    pub resources: u64,
    /// Items of the last walk.
    pub items: u64,
    /// Items of the last walk that were skipped.
    pub skipped: u64,
    /// When the last walk ended.
    pub walked_at: Option<UnixTime>,
    /// When a walk last was complete.
    pub completed_at: Option<UnixTime>,
    /// The code of the reason why the last walk was incomplete; empty if it was complete.
    pub outcome: String,
}

row! {
    struct FacilitatorRow from "f" {
        origin: String,
        resources: i64 = "(SELECT COUNT(*) FROM index_bazaar_entry e WHERE e.facilitator = f.id)",
        items: i64,
        skipped: i64,
        walked_at: Option<UnixTime>,
        completed_at: Option<UnixTime>,
        outcome: String,
    }
}

const FACILITATORS: &str = sql!("SELECT ", FacilitatorRow::COLUMNS, " FROM index_bazaar_facilitator f ORDER BY f.id LIMIT 100");

row! {
    struct CountRow {
        listed: i64 = "COUNT(*)",
        probed: i64 = "COALESCE(SUM(CASE WHEN probe IS NOT NULL THEN 1 ELSE 0 END), 0)",
        due: i64 = "COALESCE(SUM(CASE WHEN due_at <= $1 THEN 1 ELSE 0 END), 0)",
    }
}

const RESOURCES: &str = sql!("SELECT ", CountRow::COLUMNS, " FROM index_bazaar_resource WHERE listed");

impl Index {
    /// Counts facilitators and resources.
    pub async fn bazaar_census(&self, now: UnixTime) -> Result<BazaarCensus, Error> {
        let facilitators = self.database().fetch(FACILITATORS, &[]).await?;
        let facilitators =
            FacilitatorRow::from_rows(&facilitators).map(|row| Ok(facilitator(row?))).collect::<Result<Vec<_>, Error>>()?;
        if facilitators.is_empty() {
            return Ok(BazaarCensus::default());
        }
        let row = self.database().fetch_optional(RESOURCES, &[Value::Integer(now.seconds())]).await?;
        let row = row.ok_or(Error::Corrupt { what: "count of resources" })?;
        let count = CountRow::from_row(&row)?;
        let (listed, probed, due) = (count.listed.unsigned_abs(), count.probed.unsigned_abs(), count.due.unsigned_abs());
        Ok(BazaarCensus { facilitators, listed, probed, due })
    }
}

fn facilitator(row: FacilitatorRow) -> FacilitatorState {
    FacilitatorState {
        facilitator: row.origin,
        resources: row.resources.unsigned_abs(),
        items: row.items.unsigned_abs(),
        skipped: row.skipped.unsigned_abs(),
        walked_at: row.walked_at,
        completed_at: row.completed_at,
        outcome: row.outcome,
    }
}
