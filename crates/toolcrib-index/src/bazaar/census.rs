//! Metrics about following the Bazaar.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Row, Value};

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

const FACILITATORS: &str =
    "SELECT f.origin, (SELECT COUNT(*) FROM index_bazaar_entry e WHERE e.facilitator = f.id), f.items, f.skipped, f.walked_at,
        f.completed_at, f.outcome FROM index_bazaar_facilitator f ORDER BY f.id LIMIT 100";
const RESOURCES: &str = "SELECT COUNT(*), COALESCE(SUM(CASE WHEN probe IS NOT NULL THEN 1 ELSE 0 END), 0),
        COALESCE(SUM(CASE WHEN due_at <= $1 THEN 1 ELSE 0 END), 0) FROM index_bazaar_resource WHERE listed";

impl Index {
    /// Counts facilitators and resources.
    pub async fn bazaar_census(&self, now: UnixTime) -> Result<BazaarCensus, Error> {
        let facilitators = self.database().fetch(FACILITATORS, &[]).await?;
        let facilitators = facilitators.iter().map(facilitator).collect::<Result<Vec<_>, Error>>()?;
        if facilitators.is_empty() {
            return Ok(BazaarCensus::default());
        }
        let row = self.database().fetch_optional(RESOURCES, &[Value::Integer(now.seconds())]).await?;
        let row = row.ok_or(Error::Corrupt { what: "count of resources" })?;
        let count = |column: usize| Ok::<_, Error>(row.integer(column)?.unsigned_abs());
        Ok(BazaarCensus { facilitators, listed: count(0)?, probed: count(1)?, due: count(2)? })
    }
}

fn facilitator(row: &Row) -> Result<FacilitatorState, Error> {
    let time = |column: usize| Ok::<_, Error>(row.optional_integer(column)?.map(UnixTime::from_seconds));
    Ok(FacilitatorState {
        facilitator: row.text(0)?.to_owned(),
        resources: row.integer(1)?.unsigned_abs(),
        items: row.integer(2)?.unsigned_abs(),
        skipped: row.integer(3)?.unsigned_abs(),
        walked_at: time(4)?,
        completed_at: time(5)?,
        outcome: row.text(6)?.to_owned(),
    })
}
