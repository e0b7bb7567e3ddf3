//! Opening SQLite: WAL, every commit synced to disk, one writer.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Pools, again};
use crate::Error;

/// How long a statement waits for another process's transaction. Toolcrib's have a few statements each; one that takes longer is stuck.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a task waits for a connection of the pool, longer than the [`BUSY_TIMEOUT`] of the task that uses it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections for reading. Each has a thread of its own, and reads are short.
const READERS: u32 = 4;

/// Page cache of the writer connection, in KiB after a minus sign. SQLite's default of two megabytes is too small for the indexes of some
/// hundred thousand rows with random keys, so that every row would be read from the file again. Memory is used only as needed.
pub(super) const WRITER_CACHE: &str = "-65536";

/// Pages in the log before a checkpoint: 64 MiB. A page that changes often is moved once.
pub(super) const CHECKPOINT_PAGES: &str = "16384";

/// A database in memory has one connection, since each connection would have a database of its own.
pub(super) async fn memory() -> Result<Pools, Error> {
    let options = base().in_memory(true).filename(":memory:");
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options)
        .await?;
    Ok(Pools::Sqlite { write: pool.clone(), read: pool })
}

pub(super) async fn file(path: &Path) -> Result<Pools, Error> {
    keep_private(path).map_err(|error| Error::Database { detail: error.to_string() })?;
    // FULL: a commit that was acknowledged survives a power failure, which payments need.
    let options = base().filename(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
    let writing = options.clone().pragma("cache_size", WRITER_CACHE).pragma("wal_autocheckpoint", CHECKPOINT_PAGES);
    let mut attempt = 0;
    let write = loop {
        // Turning WAL on needs exclusive access to the file, and does not wait for it: two processes may start at the same time.
        match pool(1).connect_with(writing.clone()).await.map_err(Error::from) {
            Ok(pool) => break pool,
            Err(error) if again(&error, &mut attempt).await => {}
            Err(error) => return Err(error),
        }
    };
    let read = pool(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
    Ok(Pools::Sqlite { write, read })
}

fn base() -> SqliteConnectOptions {
    SqliteConnectOptions::new().create_if_missing(true).foreign_keys(true).busy_timeout(BUSY_TIMEOUT).disable_statement_logging()
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .before_acquire(|connection, _| {
            Box::pin(async move {
                if !connection.is_in_transaction() {
                    return Ok(true);
                }
                // The rollback of a dropped transaction may still be running, and a ping comes after it. When a disk is full SQLite rolls
                // back by itself and refuses to do so again, which the driver takes for a transaction that never ends.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
}

/// The file contains results of paid calls, so only its owner may read it. SQLite gives its other files the same permissions.
fn keep_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}
