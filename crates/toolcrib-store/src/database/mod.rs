//! One database, two engines.
//!
//! The same SQL text with `$N` placeholders runs on both typed drivers, so only this file handles both: a statement takes [`Value`]s, which
//! are integers, text, bytes and booleans, and returns [`Row`]s. `sqlite.rs` and `postgres.rs` open databases, and `row.rs` makes structs
//! of rows by the names of their columns.
//!
//! There is no query builder, and the only locks are those of transactions: a waiting task polls, and a lease is a row.

use std::fmt;
use std::time::Duration;

use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Postgres, SqlSafeStr, Sqlite};

use crate::Error;

mod bulk;
mod clock;
mod indexes;
mod lane;
mod local;
mod location;
mod migrate;
mod postgres;
mod replica;
mod row;
mod server;
mod sqlite;
mod writer;

pub use bulk::{Bulk, Column, MAX_BULK_ROWS};
pub(crate) use lane::Lane;
pub use location::Location;
pub use migrate::{Migration, Module};
use row::Cells;
pub use row::{Cell, Fields, FromCell, FromRow, Records, Row, join, length, list};
pub(crate) use writer::{Writer, run_now};

/// Attempts of a statement or transaction that conflicts with others.
///
/// Each wait is twice the one before, from two milliseconds: about a quarter of a second in all, besides the drivers' own timeouts.
pub(crate) const ATTEMPTS: u32 = 8;

/// A pool of connections to one database. Clones share it.
#[derive(Clone)]
pub struct Database {
    pools: Pools,
    name: std::sync::Arc<str>,
    /// The path, if it is a file.
    file: Option<std::sync::Arc<std::path::Path>>,
}

#[derive(Clone)]
enum Pools {
    /// SQLite has one writer at a time, so a process keeps one connection for writing and others for reading.
    Sqlite {
        write: SqlitePool,
        read: SqlitePool,
    },
    Postgres(std::sync::Arc<server::Server>),
    /// The connection of the writer thread.
    Local(std::sync::Arc<local::Local>),
}

/// The engine of a database. Only the few statements that differ between the two need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// SQLite, in a file or in memory.
    Sqlite,
    /// PostgreSQL, or a database with its protocol.
    Postgres,
}

/// A statement that differs between the engines.
#[derive(Clone, Copy, Debug)]
pub struct PerEngine {
    /// For SQLite.
    pub sqlite: &'static str,
    /// For PostgreSQL.
    pub postgres: &'static str,
}

impl Database {
    /// Opens a database, and creates the file if it does not exist.
    pub async fn open(location: &Location) -> Result<Self, Error> {
        let name: std::sync::Arc<str> = location.to_string().into();
        let opened = match location.kind() {
            location::Kind::Memory => sqlite::memory().await,
            location::Kind::File(path) => sqlite::file(path).await,
            location::Kind::Postgres { url, connections } => postgres::open(url, *connections).await,
        };
        match opened {
            Ok(pools) => Ok(Self { pools, name, file: location.path().map(Into::into) }),
            Err(error @ Error::Location { .. }) => Err(error),
            Err(error) => Err(Error::Open { database: name.to_string(), detail: error.to_string() }),
        }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> Engine {
        match self.pools {
            Pools::Sqlite { .. } | Pools::Local(_) => Engine::Sqlite,
            Pools::Postgres(_) => Engine::Postgres,
        }
    }

    /// Returns the statement for this engine.
    pub const fn pick(&self, statement: PerEngine) -> &'static str {
        match self.pools {
            Pools::Sqlite { .. } | Pools::Local(_) => statement.sqlite,
            Pools::Postgres(_) => statement.postgres,
        }
    }

    /// Applies those of a module's migrations that this database lacks. Several processes may do so at once.
    pub async fn migrate(&self, module: &'static str, migrations: &[Migration]) -> Result<(), Error> {
        self.migrate_all(&[(module, migrations)]).await
    }

    /// Applies migrations of several modules: all of them or none, in the given order.
    pub async fn migrate_all(&self, modules: &[Module<'_>]) -> Result<(), Error> {
        migrate::migrate(self, modules).await
    }

    /// Begins a write transaction. On SQLite it waits for other writers here, not at its first change.
    pub async fn begin(&self) -> Result<Transaction, Error> {
        Ok(Transaction(match &self.pools {
            Pools::Sqlite { write, .. } => Inner::Sqlite(write.begin_with("BEGIN IMMEDIATE").await?),
            Pools::Postgres(server) => Inner::Postgres(server.run(server.pool.begin()).await?),
            Pools::Local(connection) => Inner::Local(local::Savepoint::begin(connection)?),
        }))
    }

    /// Begins a read-only transaction, which sees all tables as of its first statement. It blocks no other transaction.
    pub async fn begin_reading(&self) -> Result<Transaction, Error> {
        Ok(Transaction(match &self.pools {
            Pools::Sqlite { read, .. } => Inner::Sqlite(read.begin_with("BEGIN").await?),
            Pools::Postgres(server) => {
                let beginning = server.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
                Inner::Postgres(server.run(beginning).await?)
            }
            Pools::Local(connection) => Inner::Local(local::Savepoint::begin(connection)?),
        }))
    }

    /// Runs one changing statement by itself. Returns the number of affected rows.
    pub async fn execute(&self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Error> {
        Ok(match &self.pools {
            Pools::Sqlite { write, .. } => bind_sqlite(sql, values).execute(write).await?.rows_affected(),
            Pools::Postgres(server) => server.run(bind_postgres(sql, values).execute(&server.pool)).await?.rows_affected(),
            Pools::Local(connection) => connection.execute(sql, values)?,
        })
    }

    /// Reads rows, outside any transaction.
    pub async fn fetch(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        Ok(match &self.pools {
            Pools::Sqlite { read, .. } => wrap(bind_sqlite(sql, values).fetch_all(read).await?, Cells::Sqlite),
            Pools::Postgres(server) => {
                wrap(server.run(bind_postgres(sql, values).fetch_all(&server.pool)).await?, Cells::Postgres)
            }
            Pools::Local(connection) => connection.fetch(sql, values)?,
        })
    }

    /// Reads rows with a statement that was composed at run time, outside any transaction.
    ///
    /// `sql` must consist only of constants: input goes into `values`. Prepared statements are cached by their text, so there should be few
    /// different ones.
    pub async fn fetch_made(&self, sql: String, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        Ok(match &self.pools {
            Pools::Sqlite { read, .. } => wrap(bind_sqlite(AssertSqlSafe(sql), values).fetch_all(read).await?, Cells::Sqlite),
            Pools::Postgres(server) => {
                let query = bind_postgres(AssertSqlSafe(sql), values);
                wrap(server.run(query.fetch_all(&server.pool)).await?, Cells::Postgres)
            }
            Pools::Local(connection) => connection.fetch(&sql, values)?,
        })
    }

    /// Reads at most one row, outside any transaction.
    pub async fn fetch_optional(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<Row>, Error> {
        Ok(match &self.pools {
            Pools::Sqlite { read, .. } => {
                bind_sqlite(sql, values).fetch_optional(read).await?.map(|row| Cells::Sqlite(row).into())
            }
            Pools::Postgres(server) => {
                let row = server.run(bind_postgres(sql, values).fetch_optional(&server.pool)).await?;
                row.map(|row| Cells::Postgres(row).into())
            }
            Pools::Local(connection) => connection.fetch(sql, values)?.into_iter().next(),
        })
    }

    /// Closes all connections, after running statements are done.
    pub async fn close(&self) {
        match &self.pools {
            Pools::Sqlite { write, read } => {
                read.close().await;
                write.close().await;
            }
            Pools::Postgres(server) => server.pool.close().await,
            // Closed by its thread.
            Pools::Local(_) => {}
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.name).finish()
    }
}

/// A parameter of a statement. There are no other types: these are the ones that both engines share.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An integer.
    Integer(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Nullable bytes. PostgreSQL needs a typed NULL.
    OptionalBytes(Option<&'a [u8]>),
    /// A nullable integer.
    OptionalInteger(Option<i64>),
    /// Nullable text.
    OptionalText(Option<&'a str>),
    /// A boolean.
    Boolean(bool),
}

/// A transaction. Dropped without [`commit`](Self::commit), it is rolled back.
#[derive(Debug)]
pub struct Transaction(Inner);

#[derive(Debug)]
enum Inner {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
    Local(local::Savepoint),
}

impl Transaction {
    /// Returns the engine.
    pub const fn engine(&self) -> Engine {
        match self.0 {
            Inner::Sqlite(_) | Inner::Local(_) => Engine::Sqlite,
            Inner::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a changing statement. Returns the number of affected rows.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Error> {
        Ok(match &mut self.0 {
            Inner::Sqlite(transaction) => bind_sqlite(sql, values).execute(&mut **transaction).await?.rows_affected(),
            Inner::Postgres(transaction) => bind_postgres(sql, values).execute(&mut **transaction).await?.rows_affected(),
            Inner::Local(savepoint) => savepoint.connection.execute(sql, values)?,
        })
    }

    /// Runs a statement that returns rows.
    pub async fn fetch(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        Ok(match &mut self.0 {
            Inner::Sqlite(transaction) => wrap(bind_sqlite(sql, values).fetch_all(&mut **transaction).await?, Cells::Sqlite),
            Inner::Postgres(transaction) => {
                wrap(bind_postgres(sql, values).fetch_all(&mut **transaction).await?, Cells::Postgres)
            }
            Inner::Local(savepoint) => savepoint.connection.fetch(sql, values)?,
        })
    }

    /// Runs a statement that returns rows and was composed at run time, only of constants.
    ///
    /// PostgreSQL plans it each time: a plan that was cached while a table was empty reads all of it when it is full.
    pub async fn fetch_made(&mut self, sql: String, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        Ok(match &mut self.0 {
            Inner::Sqlite(transaction) => {
                wrap(bind_sqlite(AssertSqlSafe(sql), values).fetch_all(&mut **transaction).await?, Cells::Sqlite)
            }
            Inner::Postgres(transaction) => {
                let query = bind_postgres(AssertSqlSafe(sql), values).persistent(false);
                wrap(query.fetch_all(&mut **transaction).await?, Cells::Postgres)
            }
            Inner::Local(savepoint) => savepoint.connection.fetch(&sql, values)?,
        })
    }

    /// Writes many rows with few statements. See [`Bulk`]. Returns the number of affected rows.
    pub async fn insert_many(&mut self, bulk: &Bulk, columns: &[Column<'_>]) -> Result<u64, Error> {
        bulk::insert(self, bulk, columns).await
    }

    /// Reads the rows whose last named column is one of `keys`, which are unique: `sql` ends with that column, and the keys are appended.
    /// The selected columns have different names.
    pub async fn fetch_among(&mut self, sql: &'static str, values: &[Value<'_>], keys: &[&[u8]]) -> Result<Vec<Row>, Error> {
        bulk::fetch_among(self, sql, values, keys).await
    }

    /// Runs a statement that returns at most one row.
    pub async fn fetch_optional(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<Row>, Error> {
        Ok(match &mut self.0 {
            Inner::Sqlite(transaction) => {
                bind_sqlite(sql, values).fetch_optional(&mut **transaction).await?.map(|row| Cells::Sqlite(row).into())
            }
            Inner::Postgres(transaction) => {
                bind_postgres(sql, values).fetch_optional(&mut **transaction).await?.map(|row| Cells::Postgres(row).into())
            }
            Inner::Local(savepoint) => savepoint.connection.fetch(sql, values)?.into_iter().next(),
        })
    }

    /// Runs a PostgreSQL statement with columns as arrays. An error on SQLite, which has no arrays.
    pub async fn fetch_columns(&mut self, sql: &'static str, columns: &[Column<'_>]) -> Result<Vec<Row>, Error> {
        match &mut self.0 {
            Inner::Postgres(transaction) => {
                let rows = bulk::bind_columns(sqlx::query(sql), columns).fetch_all(&mut **transaction).await?;
                Ok(wrap(rows, Cells::Postgres))
            }
            Inner::Sqlite(_) | Inner::Local(_) => Err(Error::Database { detail: "SQLite does not support arrays".to_owned() }),
        }
    }

    /// Runs several statements without parameters: migrations.
    async fn run(&mut self, sql: String) -> Result<(), Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match &mut self.0 {
            Inner::Sqlite(transaction) => sql.execute(&mut **transaction).await.map(|_| ())?,
            Inner::Postgres(transaction) => sql.execute(&mut **transaction).await.map(|_| ())?,
            Inner::Local(_) => return Err(Error::Database { detail: "the writer thread does not apply migrations".to_owned() }),
        }
        Ok(())
    }

    /// Commits the transaction.
    pub async fn commit(self) -> Result<(), Error> {
        match self.0 {
            Inner::Sqlite(transaction) => transaction.commit().await?,
            Inner::Postgres(transaction) => transaction.commit().await?,
            Inner::Local(savepoint) => savepoint.release()?,
        }
        Ok(())
    }

    /// Rolls the transaction back.
    pub async fn rollback(self) -> Result<(), Error> {
        match self.0 {
            Inner::Sqlite(transaction) => transaction.rollback().await?,
            Inner::Postgres(transaction) => transaction.rollback().await?,
            Inner::Local(savepoint) => savepoint.undo()?,
        }
        Ok(())
    }
}

/// Waits before the next attempt if `error` is temporary. Returns `false` if it is not, or after the last attempt.
pub(crate) async fn again(error: &Error, attempt: &mut u32) -> bool {
    *attempt += 1;
    if !matches!(error, Error::Busy { .. }) || *attempt >= ATTEMPTS {
        return false;
    }
    tokio::time::sleep(Duration::from_millis(1 << *attempt)).await;
    true
}

type SqliteQuery<'q> = sqlx::query::Query<'q, Sqlite, <Sqlite as sqlx::Database>::Arguments>;
type PostgresQuery<'q> = sqlx::query::Query<'q, Postgres, <Postgres as sqlx::Database>::Arguments>;

fn bind_sqlite<'q>(sql: impl SqlSafeStr, values: &[Value<'_>]) -> SqliteQuery<'q> {
    values.iter().fold(sqlx::query(sql), |query, value| bind_one(query, *value))
}

fn bind_one<'q>(query: SqliteQuery<'q>, value: Value<'_>) -> SqliteQuery<'q> {
    match value {
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::OptionalBytes(value) => query.bind(value),
        Value::OptionalInteger(value) => query.bind(value),
        Value::OptionalText(value) => query.bind(value),
        Value::Boolean(value) => query.bind(value),
    }
}

fn bind_postgres<'q>(sql: impl SqlSafeStr, values: &[Value<'_>]) -> PostgresQuery<'q> {
    values.iter().fold(sqlx::query(sql), |query, value| bind_postgres_one(query, *value))
}

fn bind_postgres_one<'q>(query: PostgresQuery<'q>, value: Value<'_>) -> PostgresQuery<'q> {
    match value {
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::OptionalBytes(value) => query.bind(value),
        Value::OptionalInteger(value) => query.bind(value),
        Value::OptionalText(value) => query.bind(value),
        Value::Boolean(value) => query.bind(value),
    }
}

fn wrap<R>(rows: Vec<R>, kind: fn(R) -> Cells) -> Vec<Row> {
    rows.into_iter().map(|row| kind(row).into()).collect()
}
