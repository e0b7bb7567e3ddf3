//! Counts of agents for metrics: names by state, failed checks by code, and the backlog of workers.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{PerEngine, Row, Value};

use crate::{Error, Index};

/// Listed names, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCensus {
    /// Names by the state of their last verdict, in the order of states; `pending` before the first verdict.
    pub states: Vec<(String, u64)>,
    /// Names that are verified and conformant now.
    pub good: u64,
    /// Names whose last check could not be completed, by the code of the reason.
    pub unreachable: Vec<(String, u64)>,
    /// Names that are due for a check.
    pub due: u64,
    /// Names that workers have leased.
    pub leased: u64,
    /// When the name that waits longest became due.
    pub oldest_due: Option<UnixTime>,
}

const STATES: PerEngine = PerEngine {
    sqlite: "SELECT CASE WHEN answer = '' THEN 'pending' ELSE json_extract(answer, '$.state') END AS state, COUNT(*)
        FROM index_agent WHERE listed GROUP BY 1 ORDER BY 1",
    postgres: "SELECT CASE WHEN answer = '' THEN 'pending' ELSE answer::json->>'state' END AS state, COUNT(*)
        FROM index_agent WHERE listed GROUP BY 1 ORDER BY 1",
};
const UNREACHABLE: PerEngine = PerEngine {
    sqlite: "SELECT json_extract(trouble, '$.code') AS code, COUNT(*) FROM index_agent WHERE listed AND trouble IS NOT NULL
        GROUP BY 1 ORDER BY 1",
    postgres: "SELECT trouble::json->>'code' AS code, COUNT(*) FROM index_agent WHERE listed AND trouble IS NOT NULL
        GROUP BY 1 ORDER BY 1",
};
const WORK: &str =
    "SELECT COALESCE(SUM(CASE WHEN due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) THEN 1 ELSE 0 END), 0),
        COALESCE(SUM(CASE WHEN leased_until > $1 THEN 1 ELSE 0 END), 0),
        MIN(CASE WHEN due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) THEN due_at END)
    FROM index_agent WHERE listed";

impl Index {
    /// Counts the listed names. It reads all of their small rows.
    pub async fn agent_census(&self, now: UnixTime) -> Result<AgentCensus, Error> {
        let count = |row: &Row| Ok::<_, Error>((row.text(0)?.to_owned(), row.integer(1)?.unsigned_abs()));
        let states = self.database().fetch(self.database().pick(STATES), &[]).await?;
        let unreachable = self.database().fetch(self.database().pick(UNREACHABLE), &[]).await?;
        let work = self.database().fetch_optional(WORK, &[Value::Integer(now.seconds())]).await?;
        let work = work.ok_or(Error::Corrupt { what: "count of agents" })?;
        let (_, good) = self.agent_counts(now).await?;
        Ok(AgentCensus {
            states: states.iter().map(count).collect::<Result<_, _>>()?,
            good,
            unreachable: unreachable.iter().map(count).collect::<Result<_, _>>()?,
            due: work.integer(0)?.unsigned_abs(),
            leased: work.integer(1)?.unsigned_abs(),
            oldest_due: work.optional_integer(2)?.map(UnixTime::from_seconds),
        })
    }
}
