//! Counts of agents for metrics: names by state, failed checks by code, and the backlog of workers.

use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow as _, PerEngine, Row, Value};
use toolcrib_store::{row, sql};

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

row! {
    /// Names of one state, or with one code.
    struct WordRow {
        word: String,
        names: i64,
    }
}

const STATES: PerEngine = PerEngine {
    sqlite: "SELECT CASE WHEN answer = '' THEN 'pending' ELSE json_extract(answer, '$.state') END AS word, COUNT(*) AS names
        FROM index_agent WHERE listed GROUP BY 1 ORDER BY 1",
    postgres: "SELECT CASE WHEN answer = '' THEN 'pending' ELSE answer::json->>'state' END AS word, COUNT(*) AS names
        FROM index_agent WHERE listed GROUP BY 1 ORDER BY 1",
};
const UNREACHABLE: PerEngine = PerEngine {
    sqlite:
        "SELECT json_extract(trouble, '$.code') AS word, COUNT(*) AS names FROM index_agent WHERE listed AND trouble IS NOT NULL
        GROUP BY 1 ORDER BY 1",
    postgres: "SELECT trouble::json->>'code' AS word, COUNT(*) AS names FROM index_agent WHERE listed AND trouble IS NOT NULL
        GROUP BY 1 ORDER BY 1",
};

row! {
    struct WorkRow {
        due: i64 = "COALESCE(SUM(CASE WHEN due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) THEN 1 ELSE 0 END), 0)",
        leased: i64 = "COALESCE(SUM(CASE WHEN leased_until > $1 THEN 1 ELSE 0 END), 0)",
        oldest_due: Option<UnixTime> = "MIN(CASE WHEN due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) THEN due_at END)",
    }
}

const WORK: &str = sql!("SELECT ", WorkRow::COLUMNS, " FROM index_agent WHERE listed");

impl Index {
    /// Counts the listed names. It reads all of their small rows.
    pub async fn agent_census(&self, now: UnixTime) -> Result<AgentCensus, Error> {
        let states = self.database().fetch(self.database().pick(STATES), &[]).await?;
        let unreachable = self.database().fetch(self.database().pick(UNREACHABLE), &[]).await?;
        let work = self.database().fetch_optional(WORK, &[Value::Integer(now.seconds())]).await?;
        let work = work.ok_or(Error::Corrupt { what: "count of agents" })?;
        let work = WorkRow::from_row(&work)?;
        let (_, good) = self.agent_counts(now).await?;
        Ok(AgentCensus {
            states: counts(&states)?,
            good,
            unreachable: counts(&unreachable)?,
            due: work.due.unsigned_abs(),
            leased: work.leased.unsigned_abs(),
            oldest_due: work.oldest_due,
        })
    }
}

fn counts(rows: &[Row]) -> Result<Vec<(String, u64)>, Error> {
    WordRow::from_rows(rows).map(|row| row.map(|row| (row.word, row.names.unsigned_abs())).map_err(Error::from)).collect()
}
