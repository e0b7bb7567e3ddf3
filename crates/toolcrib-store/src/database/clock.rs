//! The clock of the database: one time for all processes that share it, whatever their own clocks show.

use super::{Database, PerEngine};
use crate::Error;

/// Seconds since 1970. SQLite has no server: its clock is that of the machine with its file.
const NOW: PerEngine = PerEngine {
    sqlite: "SELECT CAST(strftime('%s', 'now') AS INTEGER)",
    postgres: "SELECT CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT)",
};

impl Database {
    /// Returns the database's time, in seconds since 1970.
    pub async fn now(&self) -> Result<i64, Error> {
        let row = self.fetch_optional(self.pick(NOW), &[]).await?;
        row.ok_or(Error::Corrupt { what: "clock of the database" })?.scalar()
    }
}
