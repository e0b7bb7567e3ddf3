//! SQLite on the calling thread.
//!
//! sqlx runs every statement on a thread of its own and waits for it, which takes longer than a short statement. The writer thread has a
//! connection here and calls SQLite directly. Every statement is inside a transaction that its user opens and ends, the group; what
//! [`Database::begin`](super::Database::begin) starts is a part of it. No future of this connection ever waits.
//!
//! A savepoint costs two statements, and a copy of every page that is changed in it. Parts are rarely rolled back, so only a group of one
//! change has savepoints. In a larger group, rolling back a part that has changed something ends the group, and its user makes the changes
//! one by one.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) use rusqlite::types::Value as Cell;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags};

use super::row::Cells;
use super::{Row, Value, sqlite};
use crate::Error;

/// Most prepared statements in the cache. The replay store has about thirty.
const STATEMENTS: usize = 64;

/// A connection of one thread.
pub(super) struct Local {
    connection: Mutex<Connection>,
    /// The path of the write-ahead log, and the file handle that syncs it.
    log_path: PathBuf,
    log: OnceLock<File>,
    /// Whether parts of the group can be rolled back alone.
    has_savepoints: AtomicBool,
    /// Whether a part was rolled back that could not be rolled back alone.
    is_broken: AtomicBool,
}

impl Local {
    /// Opens a file that was created and set up before: WAL is a property of the file, the rest of each connection.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| fault(&error))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let set_up = || {
            connection.busy_timeout(sqlite::BUSY_TIMEOUT)?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // Commits go to the log without waiting for the disk: `sync` does that.
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "cache_size", sqlite::WRITER_CACHE)?;
            connection.pragma_update(None, "wal_autocheckpoint", sqlite::CHECKPOINT_PAGES)
        };
        set_up().map_err(|error| fault(&error))?;
        let mut log_path = path.as_os_str().to_owned();
        log_path.push("-wal");
        Ok(Self {
            connection: Mutex::new(connection),
            log_path: log_path.into(),
            log: OnceLock::new(),
            has_savepoints: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Begins the transaction of all changes until [`commit_group`](Self::commit_group). Waits for other writers of the file.
    pub(super) fn begin_group(&self, has_savepoints: bool) -> Result<(), Error> {
        self.has_savepoints.store(has_savepoints, Ordering::Relaxed);
        self.is_broken.store(false, Ordering::Relaxed);
        self.run("BEGIN IMMEDIATE")
    }

    /// Commits the transaction; when this returns, every connection sees it. After an error nothing of it is stored.
    pub(super) fn commit_group(&self) -> Result<(), Error> {
        if !self.is_sound() {
            return Err(Error::Database { detail: "the transaction was rolled back".to_owned() });
        }
        let committed = self.run("COMMIT");
        if committed.is_err() {
            self.roll_back_group();
        }
        committed
    }

    /// Waits until everything that was committed is on disk.
    ///
    /// `PRAGMA synchronous = FULL` does the same within each commit. With a separate sync, changes that need not be durable do not wait for
    /// the disk. The log stays the same file while this connection is open: only the last one to close deletes it.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let synced = match self.log.get() {
            Some(log) => log.sync_data(),
            // Opened for writing, since not every system syncs a file that is open for reading.
            None => OpenOptions::new().write(true).open(&self.log_path).and_then(|log| self.log.get_or_init(|| log).sync_data()),
        };
        synced.map_err(|error| Error::Lost { detail: format!("the write-ahead log of the database cannot be synced: {error}") })
    }

    /// Replaces the log by a file that no system syncs.
    #[cfg(all(test, unix))]
    pub(super) fn break_log(&self) {
        self.log.set(File::open("/dev/null").expect("a file")).expect("nothing was synced before");
    }

    /// Whether the transaction exists and is complete. SQLite ends it by itself when the disk is full or fails.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_broken.load(Ordering::Relaxed) && self.is_in_group()
    }

    fn is_in_group(&self) -> bool {
        !self.lock().is_autocommit()
    }

    /// Rolls back the transaction, if there is one.
    pub(super) fn roll_back_group(&self) {
        if self.is_in_group() {
            // A connection that cannot roll back fails at its next transaction.
            let _ = self.run("ROLLBACK");
        }
    }

    /// Runs a changing statement. Returns the number of affected rows.
    pub(super) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        let connection = self.lock();
        let run = || {
            let mut statement = prepare(&connection, sql, values)?;
            statement.raw_execute()
        };
        run().map(|rows| rows as u64).map_err(|error| passing_no_more(fault(&error)))
    }

    /// Runs a statement that returns rows.
    pub(super) fn fetch(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let connection = self.lock();
        let run = || {
            let mut statement = prepare(&connection, sql, values)?;
            let columns = statement.column_count();
            let mut found = Vec::new();
            let mut names = None;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let names = names.get_or_insert_with(|| row.as_ref().column_names().join(NAMES_SEPARATOR).into());
                let cells = (0..columns).map(|column| row.get::<_, Cell>(column)).collect::<Result<_, _>>()?;
                found.push(Cells::Local(cells, Arc::clone(names)).into());
            }
            Ok(found)
        };
        run().map_err(|error| passing_no_more(fault(&error)))
    }

    fn run(&self, sql: &'static str) -> Result<(), Error> {
        let connection = self.lock();
        let run = || connection.prepare_cached(sql)?.raw_execute();
        run().map(drop).map_err(|error| fault(&error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Local")
    }
}

/// A part of the group that is kept or rolled back alone. Dropped without [`release`](Self::release), it is rolled back.
#[derive(Debug)]
pub(super) struct Savepoint {
    pub(super) connection: Arc<Local>,
    /// The number of rows that the connection had changed before, if there is no savepoint.
    changes: Option<u64>,
    is_open: bool,
}

impl Savepoint {
    pub(super) fn begin(connection: &Arc<Local>) -> Result<Self, Error> {
        let changes = if connection.has_savepoints.load(Ordering::Relaxed) {
            connection.run("SAVEPOINT change").map_err(passing_no_more)?;
            None
        } else {
            Some(connection.lock().total_changes())
        };
        Ok(Self { connection: Arc::clone(connection), changes, is_open: true })
    }

    pub(super) fn release(mut self) -> Result<(), Error> {
        self.is_open = false;
        match self.changes {
            Some(_) => Ok(()),
            None => self.connection.run("RELEASE change").map_err(passing_no_more),
        }
    }

    pub(super) fn undo(mut self) -> Result<(), Error> {
        self.roll_back()
    }

    fn roll_back(&mut self) -> Result<(), Error> {
        self.is_open = false;
        if let Some(before) = self.changes {
            if self.connection.lock().total_changes() != before {
                self.connection.is_broken.store(true, Ordering::Relaxed);
            }
            return Ok(());
        }
        // Rolling back keeps the savepoint.
        self.connection.run("ROLLBACK TO change").map_err(passing_no_more)?;
        self.connection.run("RELEASE change").map_err(passing_no_more)
    }
}

impl Drop for Savepoint {
    fn drop(&mut self) {
        if self.is_open {
            // A failed rollback is detected when the transaction ends.
            let _ = self.roll_back();
        }
    }
}

/// Prepares a statement with its values. SQLite numbers `$N` in the order of their occurrence, so each is bound by its name.
fn prepare<'c>(connection: &'c Connection, sql: &str, values: &[Value<'_>]) -> rusqlite::Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(sql)?;
    for at in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(at) {
            Some(name) => name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()),
            None => Some(at),
        };
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(at, values.len()))?;
        statement.raw_bind_parameter(at, bound(*value))?;
    }
    Ok(statement)
}

fn bound(value: Value<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Integer(value) | Value::OptionalInteger(Some(value)) => ValueRef::Integer(value),
        Value::Boolean(value) => ValueRef::Integer(value.into()),
        Value::Text(value) | Value::OptionalText(Some(value)) => ValueRef::Text(value.as_bytes()),
        Value::Bytes(value) | Value::OptionalBytes(Some(value)) => ValueRef::Blob(value),
        Value::OptionalInteger(None) | Value::OptionalText(None) | Value::OptionalBytes(None) => ValueRef::Null,
    })
}

fn fault(error: &rusqlite::Error) -> Error {
    let detail = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { detail },
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => Error::Disk { detail },
        _ => Error::Database { detail },
    }
}

/// Makes a busy error permanent: inside a transaction that has the file to itself waiting does not help, and the thread must not wait.
fn passing_no_more(error: Error) -> Error {
    match error {
        Error::Busy { detail } => Error::Database { detail },
        other => other,
    }
}

/// The separator between column names. It cannot occur in the text of a statement, and so in no name.
pub(super) const NAMES_SEPARATOR: &str = "\0";

const WRONG: Error = Error::Corrupt { what: "column" };

pub(super) fn cell(row: &[Cell], column: usize) -> Result<&Cell, Error> {
    row.get(column).ok_or(WRONG)
}

pub(super) const fn integer(cell: &Cell) -> Result<i64, Error> {
    if let Cell::Integer(value) = cell { Ok(*value) } else { Err(WRONG) }
}

pub(super) const fn boolean(cell: &Cell) -> Result<bool, Error> {
    if let Cell::Integer(value) = cell { Ok(*value != 0) } else { Err(WRONG) }
}

pub(super) fn text(cell: &Cell) -> Result<&str, Error> {
    if let Cell::Text(value) = cell { Ok(value) } else { Err(WRONG) }
}

pub(super) fn bytes(cell: &Cell) -> Result<&[u8], Error> {
    if let Cell::Blob(value) = cell { Ok(value) } else { Err(WRONG) }
}
