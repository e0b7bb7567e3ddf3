//! Building indexes of tables that are in use.
//!
//! `CREATE INDEX` blocks writes to a table while it runs, which takes minutes for many rows. On PostgreSQL an index of a table with many
//! rows is therefore built concurrently, which is impossible in a transaction: the migration is recorded when all its indexes exist. A
//! process that dies before leaves an invalid index, which the next one replaces. SQLite has a single writer and builds in a transaction.

use alloy_primitives::keccak256;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use super::migrate::{APPLIED, HOLD_NOW, RECORD, hold_row, missing, prepare};
use super::server::Server;
use super::{Database, Migration, Module, Pools, Value, bind_postgres};
use crate::Error;

/// Most rows of a table whose index is built in the migration's transaction: that takes milliseconds, and a concurrent build waits for
/// every open transaction.
const FEW_ROWS: i64 = 10_000;

/// A statement of a migration that only builds indexes.
#[derive(Debug, PartialEq, Eq)]
struct Statement<'s> {
    index: &'s str,
    table: &'s str,
    /// The definition after the name: `ON table (columns)`.
    definition: &'s str,
    is_unique: bool,
}

/// Parses the statements of a migration. An error if one of them does something else.
fn statements(sql: &'static str) -> Result<Vec<Statement<'static>>, Error> {
    let wrong = || Error::Database { detail: format!("not only indexes are built by: {sql}") };
    let mut found = Vec::new();
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let (is_unique, rest) = match statement.strip_prefix("CREATE INDEX ") {
            Some(rest) => (false, rest),
            None => (true, statement.strip_prefix("CREATE UNIQUE INDEX ").ok_or_else(wrong)?),
        };
        let (index, definition) = rest.trim().split_once(' ').ok_or_else(wrong)?;
        let definition = definition.trim();
        let table = definition.strip_prefix("ON ").and_then(|on| on.split_whitespace().next()).ok_or_else(wrong)?;
        found.push(Statement { index, table, definition, is_unique });
    }
    Ok(found)
}

impl Database {
    /// Applies migrations that only build indexes, without blocking writers. Returns `false` if another process is building them.
    pub async fn build_indexes(&self, modules: &[Module<'_>]) -> Result<bool, Error> {
        let Pools::Postgres(server) = &self.pools else {
            self.migrate_all(modules).await?;
            return Ok(true);
        };
        prepare(self, modules).await?;
        for (module, migrations) in modules {
            for migration in *migrations {
                let one = [(*module, std::slice::from_ref(migration))];
                if missing(&one, &self.fetch(APPLIED, &[]).await?)?.is_empty() {
                    continue;
                }
                if !self.has_many_rows(migration).await? {
                    self.migrate_all(&one).await?;
                } else if !self.build(server, module, migration).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn has_many_rows(&self, migration: &Migration) -> Result<bool, Error> {
        for statement in statements(migration.sql)? {
            let sql = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {} LIMIT {}) AS few", statement.table, FEW_ROWS + 1);
            let rows = self.fetch_made(sql, &[]).await?;
            if rows.first().map(|row| row.scalar::<i64>()).transpose()?.unwrap_or_default() > FEW_ROWS {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Builds the indexes of one migration, and records it. Meanwhile it locks the module's row, in a transaction without a snapshot, so
    /// that the concurrent build does not wait for it.
    async fn build(&self, server: &Server, module: &'static str, migration: &Migration) -> Result<bool, Error> {
        hold_row(self, module).await?;
        let mut holding = server.pool.begin().await?;
        holding.execute("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
        if bind_postgres(HOLD_NOW, &[Value::Text(module)]).fetch_optional(&mut *holding).await?.is_none() {
            return Ok(false);
        }
        let mut connection = server.connect().await?;
        connection.execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
        for statement in statements(migration.sql)? {
            build_one(&mut connection, &statement).await?;
        }
        let hash = keccak256(migration.sql);
        let values = [Value::Text(module), Value::Integer(migration.version), Value::Bytes(hash.as_slice())];
        bind_postgres(RECORD, &values).execute(&mut *holding).await?;
        holding.commit().await?;
        connection.close().await?;
        Ok(true)
    }
}

const STATE: &str = "SELECT i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 AND n.nspname = CURRENT_SCHEMA()";

async fn build_one(connection: &mut PgConnection, statement: &Statement<'_>) -> Result<(), Error> {
    let Statement { index, definition, is_unique, .. } = statement;
    let row = sqlx::query(STATE).bind(*index).fetch_optional(&mut *connection).await?;
    match row.map(|row| row.try_get::<bool, _>(0)).transpose()? {
        Some(true) => return Ok(()),
        Some(false) => {
            tracing::warn!(index, "incomplete index found, rebuilding");
            // Names are constants, and these statements accept no parameters.
            let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {index}");
            connection.execute(AssertSqlSafe(drop)).await?;
        }
        None => {}
    }
    let unique = if *is_unique { "UNIQUE " } else { "" };
    let create = format!("CREATE {unique}INDEX CONCURRENTLY {index} {definition}");
    connection.execute(AssertSqlSafe(create)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_indexes_are_built() {
        let found = statements("CREATE INDEX a ON b (c, d) WHERE c <> '';\n    CREATE UNIQUE INDEX e ON f (g);").unwrap();
        assert_eq!(
            found,
            [
                Statement { index: "a", table: "b", definition: "ON b (c, d) WHERE c <> ''", is_unique: false },
                Statement { index: "e", table: "f", definition: "ON f (g)", is_unique: true },
            ]
        );
        for other in ["CREATE TABLE a (b BIGINT)", "CREATE INDEX a", "DROP INDEX a"] {
            assert!(statements(other).is_err(), "{other}");
        }
    }
}
