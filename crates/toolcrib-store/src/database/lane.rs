//! A PostgreSQL connection for one task, for statements over many rows.
//!
//! The pool checks whether a connection is alive each time it is returned, which doubles the round trips of short statements. A task that
//! sends one statement after the other needs no pool.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::PgPool;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::time::Instant;

use super::{Cells, Column, Database, Pools, Row, Value, wrap};
use crate::Error;

/// A connection that was idle for longer is tested before use.
const TRUSTED_IDLE: Duration = Duration::from_secs(2);

/// Rows are found by their keys, whatever the server estimates about the size of a table: a plan that was cached while it was empty reads
/// all of it when it is full. JIT compilation would take longer than the query.
const SESSION: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// The connection, opened on first use.
pub(crate) struct Lane {
    pool: PgPool,
    connection: Option<(PgConnection, Instant)>,
}

impl Lane {
    /// Creates a connection to this database, if it is PostgreSQL. It does not count against the pool.
    pub(crate) fn of(database: &Database) -> Option<Self> {
        match &database.pools {
            Pools::Postgres(server) => Some(Self { pool: server.pool.clone(), connection: None }),
            _ => None,
        }
    }

    /// Runs a statement with columns as arrays, then single values, and returns rows.
    pub(crate) async fn fetch(
        &mut self,
        sql: &'static str,
        columns: &[Column<'_>],
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        let mut connection = self.connection().await?;
        let query = super::bulk::bind_columns(sqlx::query(sql), columns);
        let query = values.iter().fold(query, |query, value| super::bind_postgres_one(query, *value));
        // A connection is not reused after an error.
        let rows = query.fetch_all(&mut connection).await?;
        self.connection = Some((connection, Instant::now()));
        Ok(wrap(rows, Cells::Postgres))
    }

    async fn connection(&mut self) -> Result<PgConnection, Error> {
        if let Some((mut connection, used)) = self.connection.take()
            && (used.elapsed() < TRUSTED_IDLE || connection.ping().await.is_ok())
        {
            return Ok(connection);
        }
        let mut connection = self.pool.acquire().await?.detach();
        connection.execute(SESSION).await?;
        Ok(connection)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lane")
    }
}
